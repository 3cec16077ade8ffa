//! Clients as users write them, from `examples/clients`: processes in the cluster's network that find databases by
//! name, as pods do. They print what they see.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::{Scene, wait_for};

/// Runs a program with another `/etc/resolv.conf`, as the same process.
const WITH_NAMES: [&str; 5] =
    ["unshare", "--mount", "sh", "-c", "mount --bind \"$0\" /etc/resolv.conf && exec setpriv --pdeathsig KILL \"$@\""];

/// A line of a client.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Acknowledged writes so far.
    ok: u64,
    /// Those of them that are gone.
    lost: u64,
    /// Failed calls; only in the last line.
    failed: u64,
    /// The longest time between two acknowledged writes since the line before.
    gap: f64,
    /// True for a call that failed.
    is_error: bool,
    /// True for the last line.
    is_end: bool,
}

impl Line {
    fn read(text: &str) -> Self {
        let mut line = Self { is_end: text.starts_with("end "), ..Self::default() };
        for (name, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
            match name {
                "ok" => line.ok = value.parse().unwrap_or_default(),
                "lost" => line.lost = value.parse().unwrap_or_default(),
                "failed" => line.failed = value.parse().unwrap_or_default(),
                "gap" => line.gap = value.parse().unwrap_or_default(),
                "error" => {
                    line.is_error = true;
                    // The text of the error follows.
                    break;
                }
                _ => {}
            }
        }
        line
    }
}

/// A client at work. It ends when this is dropped.
pub struct Client {
    name: &'static str,
    process: Child,
    lines: Arc<Mutex<Vec<Line>>>,
    names: PathBuf,
    /// Lines until the last event.
    begun: usize,
    /// The client's view of each event.
    story: Vec<String>,
}

impl Client {
    /// Starts the client whose command the environment variable `variable` holds; `settings` are its environment.
    pub async fn start(scene: &Scene, name: &'static str, variable: &str, settings: &[(&str, &str)]) -> Self {
        let command =
            std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run `cargo xtask test`"));
        // In this cluster the DNS server has the address of the API server.
        let server = kube::Config::infer().await.expect("a kubeconfig").cluster_url;
        let server = server.host().expect("an address");
        let namespace = &scene.namespace;
        let resolve = format!(
            "nameserver {server}\nsearch {namespace}.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
        );
        let names = std::env::temp_dir().join(format!("{namespace}-{name}.resolv.conf"));
        std::fs::write(&names, resolve).expect("a file");
        let mut process = Command::new(WITH_NAMES[0])
            .args(&WITH_NAMES[1..])
            .arg(&names)
            .args(command.split(' '))
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the client starts");
        let (output, lines) = (process.stdout.take().expect("its output"), Arc::<Mutex<Vec<Line>>>::default());
        let sink = lines.clone();
        std::thread::spawn(move || {
            for text in BufReader::new(output).lines().map_while(Result::ok) {
                println!("  {name}: {text}");
                sink.lock().expect("the lock is not poisoned").push(Line::read(&text));
            }
        });
        let client = Self { name, process, lines, names, begun: 0, story: Vec::new() };
        client.goes_on("the first writes").await;
        client
    }

    fn lines(&self) -> Vec<Line> {
        self.lines.lock().expect("the lock is not poisoned").clone()
    }

    /// Waits until the client prints a line about acknowledged writes from now on.
    async fn goes_on(&self, what: &str) {
        let before = self.lines().len();
        let look = || async { self.lines().split_off(before) };
        let good = |lines: &Vec<Line>| lines.iter().any(|line| !line.is_error && line.ok > 0);
        wait_for(&format!("{what}: {} to write", self.name), look, good).await;
    }

    /// Notes that something is done to the database now.
    pub fn event(&mut self) {
        self.begun = self.lines().len();
    }

    /// Waits until the client writes again after the event, and notes for how long it could not. Returns how many
    /// acknowledged writes the client has missed since the event.
    pub async fn recovers(&mut self, what: &str) -> u64 {
        self.goes_on(what).await;
        assert!(self.process.try_wait().expect("its state").is_none(), "{what}: {} has ended", self.name);
        let lines = self.lines();
        let (before, since) = lines.split_at(self.begun);
        let gap = since.iter().map(|line| line.gap).fold(0.0, f64::max);
        let errors = since.iter().filter(|line| line.is_error).count();
        let lost = since.last().map_or(0, |line| line.lost) - before.last().map_or(0, |line| line.lost);
        self.story.push(format!("{what}: {gap:.2} s, {errors} errors, {lost} lost"));
        lost
    }

    /// Ends the client with SIGTERM, waits for its last line, and prints what it saw.
    pub async fn finish(mut self) {
        let sent = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status().expect("kill runs");
        assert!(sent.success(), "{} has ended before", self.name);
        let look = || async { self.lines().pop() };
        let last =
            wait_for(&format!("{} to end", self.name), look, |line| line.as_ref().is_some_and(|line| line.is_end))
                .await;
        let last = last.expect("just seen");
        println!("» {}: {} writes, {} failed calls; {}", self.name, last.ok, last.failed, self.story.join("; "));
        self.process.wait().expect("it ends");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The process may have ended already.
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_file(&self.names).ok();
    }
}

#[test]
fn an_error_is_told_apart_from_what_it_says() {
    let line = Line::read("time=1.0 ok=3 acknowledged=3 lost=1 gap=0.25 longest=0.25 error=\"ok=7\"");
    assert_eq!((line.ok, line.lost, line.is_error, line.is_end), (3, 1, true, false));
    assert!((line.gap - 0.25).abs() < 1e-9);
}
