//! Runs etcd's own programs, because only they know the format of its files.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use causeway_databases::etcd::{Endpoint, Grpc, Request, Transport};

use super::{REVISIONS, SkipOptions};

/// Their directory in the official image.
pub const DIRECTORY: &str = "/usr/local/bin";
/// The member's address while it runs alone. It cannot be reached from outside its pod.
const CLIENTS: &str = "http://127.0.0.1:2379";
const PEERS: &str = "http://127.0.0.1:2380";
/// Reading a large log or copying a large database takes minutes.
const PROGRAM_TIMEOUT: Duration = Duration::from_mins(30);
/// A member that is asked to stop first writes its data to disk.
const STOP_TIMEOUT: Duration = Duration::from_mins(1);
/// The time in which the programs answer a question, or not at all.
const ANSWER: Duration = Duration::from_secs(5);
/// The interval of checks whether a member answers.
const PROGRAM_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The most bytes of an answer that are read.
const LARGEST_ANSWER: u64 = 64 * 1024;
/// The most characters of a program's output in a message.
const LONGEST: usize = 200;

/// A reason for which the data were not changed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No member has run on the volume.
    #[error("the member's volume has no log of etcd (member/wal), so the cluster would begin empty")]
    Empty,
    /// The image's release is too old.
    #[error("etcdutl of this image cannot skip revisions: 3.5.9 cannot, 3.5.35 and 3.6.16 can")]
    Unable,
    /// The image has another minor version, which would convert the data into a format that the member cannot read.
    #[error("the image holds etcd {held}, and the members run {wanted}: it must be of the same minor version")]
    Version {
        /// The version that the image has.
        held: String,
        /// The version that the members run.
        wanted: String,
    },
    /// A program could not be started.
    #[error("{program} cannot be started: {source}")]
    Start {
        /// The name of the program.
        program: &'static str,
        /// The error of the start.
        source: io::Error,
    },
    /// A program failed to do its part.
    #[error("{program} failed: {message}")]
    Ended {
        /// The name of the program.
        program: &'static str,
        /// The exit status and the output.
        message: String,
    },
    /// A program did not end in time.
    #[error("{program} took longer than {} s", timeout.as_secs())]
    Hung {
        /// The name of the program.
        program: &'static str,
        /// The time that we waited.
        timeout: Duration,
    },
}

/// etcd's programs, and the member whose data they process.
pub struct Programs<'a> {
    /// The directory of the programs.
    pub directory: &'a Path,
    /// The options of the member.
    pub options: &'a SkipOptions,
}

impl Programs<'_> {
    /// Checks that the programs can skip revisions, and have the same minor version as the member.
    pub async fn can_skip(&self, version: &str) -> Result<(), Refusal> {
        let message = self.ask("etcd", &["--version"]).await?;
        let held = version_in(&message).unwrap_or_default().to_owned();
        if minor(&held) != minor(version) {
            return Err(Refusal::Version { held, wanted: version.to_owned() });
        }
        let flags = self.ask("etcdutl", &["snapshot", "restore", "--help"]).await?;
        if flags.contains("--bump-revision") { Ok(()) } else { Err(Refusal::Unable) }
    }

    /// Applies the whole log to the database: the member runs alone until it has read its log, and then stops in order.
    /// If it were killed instead, its newest writes might exist only in the log.
    pub async fn apply_log(&self) -> Result<(), Refusal> {
        let options = self.options;
        let mut arguments: Vec<OsString> = [
            "--force-new-cluster=true",
            &format!("--listen-client-urls={CLIENTS}"),
            &format!("--advertise-client-urls={CLIENTS}"),
            &format!("--listen-peer-urls={PEERS}"),
            &format!("--initial-advertise-peer-urls={}", options.peer_url),
            &format!("--initial-cluster={}={}", options.name, options.peer_url),
            &format!("--name={}", options.name),
            // Above the size of any data, so that the quota raises no alarm: the member takes no new writes.
            "--quota-backend-bytes=107374182400",
        ]
        .map(OsString::from)
        .into();
        arguments.push(flag("--data-dir=", &options.data));
        let mut member = self.start("etcd", arguments, Stdio::inherit())?;
        let begun = Instant::now();
        while !answers().await {
            if let Some(status) = member.exit_status()? {
                return Err(member.failure(status, ""));
            }
            if begun.elapsed() > PROGRAM_TIMEOUT {
                return Err(Refusal::Hung { program: "etcd", timeout: PROGRAM_TIMEOUT });
            }
            sleep(PROGRAM_POLL_INTERVAL).await;
        }
        member.ask_to_stop();
        // After an orderly shutdown, etcd ends by the signal that it received.
        let status = member.end(STOP_TIMEOUT).await?;
        let in_order = status.success() || by_signal(status) == Some(Signal::TERM.as_raw());
        if in_order { Ok(()) } else { Err(member.failure(status, "")) }
    }

    /// Creates new data from the database, in a directory that must not exist yet.
    pub async fn restore(&self, into: &Path) -> Result<(), Refusal> {
        let options = self.options;
        let arguments: Vec<OsString> = vec![
            "snapshot".into(),
            "restore".into(),
            options.data.join("member/snap/db").into(),
            // Only a snapshot that etcd sent has a hash.
            "--skip-hash-check".into(),
            format!("--bump-revision={REVISIONS}").into(),
            "--mark-compacted".into(),
            flag("--data-dir=", into),
            format!("--name={}", options.name).into(),
            format!("--initial-cluster={}={}", options.name, options.peer_url).into(),
            format!("--initial-advertise-peer-urls={}", options.peer_url).into(),
            // A new token gives the cluster a new id, so members of the former cluster cannot join it.
            format!("--initial-cluster-token={}", options.recovery).into(),
        ];
        let mut program = self.start("etcdutl", arguments, Stdio::inherit())?;
        let status = program.end(PROGRAM_TIMEOUT).await?;
        if status.success() { Ok(()) } else { Err(program.failure(status, "see the log of the container")) }
    }

    /// Returns the output of a program.
    async fn ask(&self, name: &'static str, question: &[&str]) -> Result<String, Refusal> {
        let arguments = question.iter().map(OsString::from).collect();
        let mut program = self.start(name, arguments, Stdio::piped())?;
        let output = program.child.stdout.take();
        let status = program.end(ANSWER).await?;
        let mut bytes = Vec::new();
        if let Some(output) = output {
            let read = timeout(ANSWER, output.take(LARGEST_ANSWER).read_to_end(&mut bytes)).await;
            let read = read.map_err(|_| Refusal::Hung { program: name, timeout: ANSWER })?;
            read.map_err(|source| Refusal::Start { program: name, source })?;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if status.success() { Ok(text) } else { Err(program.failure(status, &text)) }
    }

    /// Starts a program without our environment: its variables configure the member's real run.
    fn start(&self, name: &'static str, arguments: Vec<OsString>, output: Stdio) -> Result<Running, Refusal> {
        let mut command = Command::new(self.directory.join(name));
        command.args(arguments).env_clear().stdin(Stdio::null()).stdout(output).stderr(Stdio::inherit());
        let child = command.kill_on_drop(true).spawn();
        Ok(Running { name, child: child.map_err(|source| Refusal::Start { program: name, source })? })
    }
}

/// A running program, which is killed when this is dropped.
struct Running {
    name: &'static str,
    child: Child,
}

impl Running {
    /// Returns its exit status, if it has ended.
    fn exit_status(&mut self) -> Result<Option<ExitStatus>, Refusal> {
        self.child.try_wait().map_err(|source| Refusal::Start { program: self.name, source })
    }

    /// Waits until it ends.
    async fn end(&mut self, limit: Duration) -> Result<ExitStatus, Refusal> {
        let program = self.name;
        let ended = timeout(limit, self.child.wait()).await.map_err(|_| Refusal::Hung { program, timeout: limit })?;
        ended.map_err(|source| Refusal::Start { program, source })
    }

    fn ask_to_stop(&self) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(pid) = pid {
            // The program may have ended meanwhile.
            kill_process(pid, Signal::TERM).ok();
        }
    }

    fn failure(&self, status: ExitStatus, words: &str) -> Refusal {
        let words: String = words.trim().chars().take(LONGEST).collect();
        let message = [status.to_string(), words].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        Refusal::Ended { program: self.name, message: message.join("; ") }
    }
}

/// Returns true if the member that runs alone has read all of its log. An error about a missing login counts too,
/// because etcd checks the login only after that.
async fn answers() -> bool {
    let endpoint = Endpoint { url: CLIENTS.into(), tls: None, login: None };
    let grpc = Grpc::default();
    let call = tokio::time::timeout(ANSWER, grpc.call(&endpoint, &Request::Read));
    call.await.is_ok_and(|answer| answer.map_or_else(|error| error.is_about_login(), |_| true))
}

fn by_signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

fn flag(name: &str, path: &Path) -> OsString {
    let mut text = OsString::from(name);
    text.push(path);
    text
}

/// Returns the version in the output of `etcd --version`.
fn version_in(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("etcd Version: ")).map(str::trim)
}

/// Returns the first two numbers of a version.
fn minor(version: &str) -> Option<&str> {
    let (minor, _) = version.rsplit_once('.')?;
    Some(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_of_the_same_minor_version_touch_the_data() {
        let printed =
            "etcd Version: 3.5.35\nGit SHA: Not provided (use ./build instead of go build)\nGo Version: go1.26.8\n";
        assert_eq!(version_in(printed), Some("3.5.35"));
        assert_eq!(minor("3.5.35"), minor("3.5.9"));
        assert_ne!(minor("3.5.35"), minor("3.6.16"));
        assert_ne!(minor(""), minor("3.5.9"));
    }

    #[tokio::test]
    async fn a_program_that_cannot_skip_or_fails_is_reported() {
        let directory = std::env::temp_dir().join(format!("causeway-programs-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let options = SkipOptions {
            recovery: "one".into(),
            version: "3.5.9".into(),
            name: "db-0".into(),
            peer_url: "http://db-0:2380".into(),
            data: directory.join("data"),
            programs: directory.clone(),
            termination_log: directory.join("log"),
            log_format: causeway_runtime::telemetry::LogFormat::Json,
        };
        let programs = Programs { directory: &directory, options: &options };
        let message = async || programs.can_skip("3.5.9").await.unwrap_err().to_string();
        assert!(message().await.starts_with("etcd cannot be started"));
        let script = |name: &str, line: &str| {
            use std::os::unix::fs::PermissionsExt;
            let path = directory.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        script("etcd", "echo etcd Version: 3.6.1");
        assert!(message().await.contains("holds etcd 3.6.1, and the members run 3.5.9"));
        script("etcd", "echo etcd Version: 3.5.35");
        script("etcdutl", "echo broken; exit 3");
        assert_eq!(message().await, "etcdutl failed: exit status: 3; broken");
        script("etcdutl", "echo --data-dir");
        assert!(message().await.contains("cannot skip revisions"));
        script("etcdutl", "echo --bump-revision");
        programs.can_skip("3.5.9").await.unwrap();
        script("etcd", "exit 1");
        let failed = programs.apply_log().await.unwrap_err().to_string();
        assert_eq!(failed, "etcd failed: exit status: 1");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
