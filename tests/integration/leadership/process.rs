//! The operator as a process of its own: the real binary with the environment that a pod gives it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde_json::Value;

use crate::support::role::Session;
use crate::support::{Scene, operator, wait_for};

/// Objects of a kind that a process works on at the same time.
pub const AT_ONCE: usize = 4;

/// A running operator. It is killed when this is dropped.
pub struct Process {
    /// Its name, in the lease and in the principals of AWS's journal.
    pub name: &'static str,
    command: Command,
    child: Child,
    address: String,
    log: Arc<Mutex<Vec<String>>>,
    /// How many lines of the log are from processes that were killed.
    lines_before: usize,
}

/// The binary, with an environment that is complete but for what the caller adds.
pub fn command(name: &str, scene: &Scene, session: &Session) -> Command {
    let mut command = Command::new(operator::program());
    command
        .arg("run")
        .env_clear()
        .env("KUBECONFIG", operator::kubeconfig())
        .env("POD_NAME", name)
        .env("POD_NAMESPACE", &scene.namespace)
        .env("CLUSTER_NAME", &scene.namespace)
        .env("WATCH_NAMESPACE", &scene.namespace)
        .env("SWEEP_INTERVAL", "2s")
        // The emulator has no rate limits to stay below.
        .env("AWS_RATE_SHARE", "0")
        .env("CONCURRENCY", AT_ONCE.to_string())
        .env("METRICS_ADDRESS", "127.0.0.1:0")
        .env("METRICS_AUTH", "false")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", scene.emulator.endpoint())
        .env("AWS_ACCESS_KEY_ID", &session.key_id)
        .env("AWS_SECRET_ACCESS_KEY", &session.secret)
        .env("AWS_SESSION_TOKEN", &session.token);
    command
}

impl Process {
    /// Starts one and waits until it says that it is ready.
    pub async fn start(scene: &Scene, name: &'static str) -> Self {
        Self::start_with(scene, name, &[]).await
    }

    /// Like [`Self::start`], with variables of the caller's beside those that every pod has.
    pub async fn start_with(scene: &Scene, name: &'static str, variables: &[(&str, &str)]) -> Self {
        let session = Session::of(scene, name).await;
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = command(name, scene, &session);
        command.env("METRICS_ADDRESS", &address).envs(variables.iter().copied());
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let log = Arc::new(Mutex::new(Vec::new()));
        let child = begin(&mut command, &log);
        let process = Self { name, command, child, address, log, lines_before: 0 };
        wait_for(&format!("{name} to be ready"), || process.get("/readyz"), |(status, _)| *status == 200).await;
        process
    }

    /// Kills the process and starts it again, as the kubelet restarts a container whose process was killed. Does not
    /// wait until it is ready.
    pub fn start_again(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        self.lines_before = self.log.lock().unwrap().len();
        self.child = begin(&mut self.command, &self.log);
    }

    /// Waits until the process that was started last takes part in an election. On a busy machine that takes seconds.
    pub async fn takes_part(&self) {
        self.logs("waiting for the leader lease").await;
    }

    /// Waits until the process that was started last has logged a line with these words. Its log comes through a pipe,
    /// so a line may arrive after an answer to a request that the process wrote later.
    pub async fn logs(&self, words: &str) {
        let look = || async { self.log()[self.lines_before..].iter().any(|line| line.contains(words)) };
        wait_for(&format!("{} to log: {words}", self.name), look, |logged| *logged).await;
    }

    /// Waits until this process has seen another one, by its name, hold a lease; `no process` stands for a released lease.
    pub async fn sees_leader(&self, lease: &str, holder: &str) {
        let is_seen = |line: Value| {
            line["lease"] == lease && line["holder"].as_str().is_some_and(|it| it.split('_').next() == Some(holder))
        };
        let look = || async { self.log().iter().filter_map(|line| serde_json::from_str(line).ok()).any(is_seen) };
        wait_for(&format!("{} to see that {holder} has {lease}", self.name), look, |seen| *seen).await;
    }

    /// Status and text of its answer; status 0 when there is none.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let url = format!("http://{}{path}", self.address);
        let answer = tokio::task::spawn_blocking(move || {
            let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().new_agent();
            let mut answer = agent.get(&url).call().ok()?;
            let text = answer.body_mut().read_to_string().ok()?;
            Some((answer.status().as_u16(), text))
        });
        answer.await.expect("the request ends").unwrap_or_default()
    }

    /// Sends it a signal by name.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill runs").success());
    }

    /// A size in KiB in the kernel's status of the process that was started last: `VmRSS` is what it has in memory, `VmHWM`
    /// the most that it ever had.
    pub fn memory_kib(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect("the field");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let name = self.name;
        let child = Mutex::new(&mut self.child);
        let look = || async { child.lock().unwrap().try_wait().expect("its status") };
        wait_for(&format!("{name} to end"), look, Option::is_some).await.expect("a status")
    }

    /// The lines that it has logged so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Prints its steps towards a failover since then, each with the seconds that had passed.
    pub fn print_way_to_failover(&self, since: Timestamp) {
        let steps = ["controller started", "leader lease changed hands", "leading", "warming up", "Promote"];
        for line in self.log().iter().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let at = line["timestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
            let seconds = at.map_or(-1.0, |at| at.duration_since(since).as_secs_f64());
            let message = line["message"].as_str().unwrap_or_default();
            if seconds >= 0.0 && steps.iter().any(|step| line.to_string().contains(step)) {
                let what = ["lease", "kind", "action"].map(|field| line[field].as_str().unwrap_or_default()).concat();
                let what: String = what.chars().take(40).collect();
                println!("»     {} after {seconds:.2} s: {message} {what}", self.name);
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("log of {}:\n{}", self.name, self.log().join("\n"));
        }
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts one, and keeps what it logs.
fn begin(command: &mut Command, log: &Arc<Mutex<Vec<String>>>) -> Child {
    let mut child = command.spawn().expect("the operator starts");
    let (lines, kept) = (BufReader::new(child.stderr.take().expect("its log")).lines(), log.clone());
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line)));
    child
}

/// A port without a listener.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port()
}
