//! Programs of databases as child processes: their output as it comes, and their errors when they fail.
//!
//! Nothing secret is among their arguments, and of our environment they see only `PATH`.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::process::{ChildStdin, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{self, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::bytes::{Bytes, BytesMut};

use crate::Error;

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// The last lines of standard error that are kept.
const LINES: usize = 12;
/// Characters of such a line that are kept.
const LONGEST: usize = 300;
/// How long to wait for the last of a program's standard error after its end: a process that it started may keep it open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A program to start.
pub struct Program {
    name: &'static str,
    command: Command,
    secret: Option<String>,
}

/// The reasons why a program did not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It ended with an error: its name, and the last lines of its standard error.
    Ended(&'static str, String),
    /// It wrote nothing, or did not end, for this long: its name, and how long.
    Silent(&'static str, Duration),
}

impl Failure {
    /// Returns what the program wrote to standard error; empty if it hung.
    pub fn api_message(&self) -> &str {
        match self {
            Self::Ended(_, printed) => printed,
            Self::Silent(..) => "",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(name, printed) if printed.is_empty() => write!(formatter, "{name} ended without a word"),
            // Most programs begin their errors with their own name.
            Self::Ended(name, printed) if printed.starts_with(name) => formatter.write_str(printed),
            Self::Ended(name, printed) => write!(formatter, "{name}: {printed}"),
            Self::Silent(name, limit) => {
                write!(formatter, "{name} said nothing for {} minutes", limit.as_secs() / 60)
            }
        }
    }
}

impl Program {
    /// A program of that name in the image.
    pub fn new(name: &'static str) -> Self {
        let mut command = Command::new(name);
        command.env_clear().env("LC_ALL", "C").env("HOME", std::env::temp_dir());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()));
        Self { name, command, secret: None }
    }

    pub fn args<S: AsRef<std::ffi::OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Adds a variable to its environment.
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds a secret variable to its environment. If the program prints the value in an error, it is masked.
    pub fn secret(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self.secret = Some(value.to_owned()).filter(|value| !value.is_empty());
        self
    }

    #[cfg(test)]
    pub fn arguments(&self) -> Vec<String> {
        self.command.as_std().get_args().map(|argument| argument.to_string_lossy().into_owned()).collect()
    }

    /// Returns what it gets as a variable of its environment.
    #[cfg(test)]
    pub fn variable(&self, name: &str) -> Option<String> {
        let mut all = self.command.as_std().get_envs();
        let value = all.find_map(|(its, value)| value.filter(|_| its == name));
        value.map(|value| value.to_string_lossy().into_owned())
    }

    pub fn start(mut self, input: Stdio) -> Result<Child, Error> {
        self.command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut process = self.command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::ToolMissing(self.name),
            _ => Error::SourceFailed(format!("{} cannot be started: {error}", self.name)),
        })?;
        let output = process.stdout.take();
        let printed = Arc::new(Mutex::new(VecDeque::new()));
        let listening = process.stderr.take().map(|stderr| {
            let printed = printed.clone();
            tokio::spawn(async move { listen(stderr, &printed).await })
        });
        Ok(Child { name: self.name, process, output, printed, listening, secret: self.secret })
    }

    /// Runs it to its end, and returns what it wrote.
    pub async fn run(self, input: Stdio, limit: Duration) -> Result<Result<String, Failure>, Error> {
        let mut child = self.start(input)?;
        Ok(child.all(limit).await)
    }
}

/// A program that runs. It is killed when this is dropped.
pub struct Child {
    name: &'static str,
    process: process::Child,
    output: Option<ChildStdout>,
    printed: Arc<Mutex<VecDeque<String>>>,
    listening: Option<JoinHandle<()>>,
    secret: Option<String>,
}

impl Child {
    /// Takes its standard input, for a thread that may wait for the program.
    pub fn input(&mut self) -> Option<ChildStdin> {
        self.process.stdin.take()?.into_owned_fd().ok().map(ChildStdin::from)
    }

    /// Its next output; none when it closed its output.
    pub async fn next(&mut self, limit: Duration) -> Result<Option<Bytes>, Failure> {
        let Some(output) = &mut self.output else { return Ok(None) };
        let mut chunk = BytesMut::with_capacity(CHUNK);
        let read = timeout(limit, output.read_buf(&mut chunk)).await;
        if let Ok(1..) = read.map_err(|_| Failure::Silent(self.name, limit))? {
            return Ok(Some(chunk.freeze()));
        }
        self.output = None;
        Ok(None)
    }

    /// Waits until it ends. It is a failure if it ends with an error, or not within `limit`.
    pub async fn end(&mut self, limit: Duration) -> Result<(), Failure> {
        match timeout(limit, self.process.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(_)) => Err(self.failure().await),
            Ok(Err(error)) => Err(Failure::Ended(self.name, error.to_string())),
            Err(_) => Err(Failure::Silent(self.name, limit)),
        }
    }

    /// Kills it, and waits until it has ended.
    pub async fn kill(mut self) {
        // It fails only if the program has ended.
        self.process.kill().await.ok();
    }

    /// All its output. It is a failure if it ends with an error.
    pub async fn all(&mut self, limit: Duration) -> Result<String, Failure> {
        let mut all = Vec::new();
        while let Some(chunk) = self.next(limit).await? {
            all.extend_from_slice(&chunk);
        }
        self.end(limit).await?;
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    /// Reports whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// The failure of a program that has ended, with the last lines of its standard error.
    pub async fn failure(&mut self) -> Failure {
        if let Some(listening) = &mut self.listening
            && timeout(LAST_WORDS, listening).await.is_ok()
        {
            self.listening = None;
        }
        let printed = self.printed.lock();
        Failure::Ended(self.name, words(&printed, self.secret.as_deref()))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

/// Keeps the last lines of standard error.
async fn listen(errors: impl AsyncRead + Unpin, printed: &Mutex<VecDeque<String>>) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    // Memory must stay bounded if a line never ends.
    while matches!((&mut errors).take(8192).read_until(b'\n', &mut line).await, Ok(1..)) {
        let text: String = String::from_utf8_lossy(&line).trim().chars().take(LONGEST).collect();
        line.clear();
        if text.is_empty() {
            continue;
        }
        let mut printed = printed.lock();
        if printed.len() == LINES {
            printed.pop_front();
        }
        printed.push_back(text);
    }
}

/// The lines as a sentence, from the first one with an error on: what follows it is mostly a consequence.
fn words(lines: &VecDeque<String>, secret: Option<&str>) -> String {
    let is_error = |line: &String| ["error:", "ERROR", "FATAL", "fatal:"].iter().any(|word| line.contains(word));
    let first = lines.iter().position(is_error).unwrap_or_default();
    let text = lines.iter().skip(first).map(String::as_str).collect::<Vec<_>>().join("; ");
    match secret {
        Some(secret) => text.replace(secret, "***"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

    fn sh(script: &str) -> Program {
        Program::new("sh").args(["-c", script])
    }

    #[tokio::test]
    async fn the_output_of_a_program_arrives_whole() {
        let all = sh("i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done");
        let all = all.run(Stdio::null(), EXIT_TIMEOUT).await.unwrap().unwrap();
        assert_eq!(all.len(), 3000 * 41);
    }

    #[tokio::test]
    async fn a_failure_has_the_programs_words_without_its_secret() {
        let program = sh("echo notice >&2; echo \"x: error: $PGPASSWORD is wrong\" >&2; echo more >&2; exit 3");
        let failure = program.secret("PGPASSWORD", "hunter2").run(Stdio::null(), EXIT_TIMEOUT).await.unwrap();
        assert_eq!(failure, Err(Failure::Ended("sh", "x: error: *** is wrong; more".into())));
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let outcome = Program::new("causeway-no-such-program").start(Stdio::null());
        let message = outcome.err().unwrap();
        assert_eq!(message.reason(), "ToolMissing");
        assert!(message.to_string().contains("causeway-no-such-program"), "{message}");
    }

    #[tokio::test]
    async fn one_that_hangs_is_given_up_and_killed() {
        let mut child = sh("echo begun; exec sleep 1000").start(Stdio::null()).unwrap();
        assert_eq!(child.next(EXIT_TIMEOUT).await.unwrap().unwrap(), "begun\n");
        let failure = child.next(Duration::from_millis(20)).await.unwrap_err();
        assert!(matches!(failure, Failure::Silent("sh", _)));
        let exists = |process: &str| std::path::Path::new(process).exists();
        let process = format!("/proc/{}", child.process.id().unwrap());
        assert!(exists(&process));
        drop(child);
        let gone = async {
            while exists(&process) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(EXIT_TIMEOUT, gone).await.expect("it is killed, and its status is read");
    }

    #[tokio::test]
    async fn one_that_is_killed_has_ended_afterwards() {
        let child = sh("exec sleep 1000").start(Stdio::null()).unwrap();
        let process = format!("/proc/{}", child.process.id().unwrap());
        child.kill().await;
        assert!(!std::path::Path::new(&process).exists());
    }

    #[tokio::test]
    async fn nothing_of_our_environment_is_passed_on() {
        let all = sh("env").run(Stdio::null(), EXIT_TIMEOUT).await.unwrap().unwrap();
        assert!(!all.contains("CARGO"), "{all}");
    }
}
