//! The operator in a process of its own, measured from outside by its health port and /proc.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::http::Http;

/// No other program listens on this address in the cluster's network.
const ADDRESS: &str = "127.0.0.1:18080";
const LIMIT: Duration = Duration::from_mins(1);
/// The emulator needs some time for a thousand objects with all their parts.
const RECONCILED_LIMIT: Duration = Duration::from_mins(10);

/// A running operator. It is killed if it is dropped without having been stopped.
pub struct Operator {
    child: Child,
    http: Http,
    started: Instant,
}

impl Operator {
    /// Starts the operator with only these variables in its environment.
    pub fn start(binary: &Path, variables: &[(&str, &str)], log: &Path) -> Result<Self> {
        let log = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(binary);
        command
            .arg("run")
            .env_clear()
            .envs(variables.iter().copied())
            .env("METRICS_ADDRESS", ADDRESS)
            .env("METRICS_AUTH", "false");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {}", binary.display()))?;
        Ok(Self { child, http: Http::new(&format!("http://{ADDRESS}")), started })
    }

    /// Waits until `/readyz` succeeds; returns the time since the start.
    pub fn ready(&mut self) -> Result<Duration> {
        self.wait("/readyz of the operator", LIMIT, Duration::from_millis(1), |operator| {
            operator.http.get("/readyz").is_ok()
        })
    }

    /// Waits until `count` reconciles of `MyIngress` have succeeded; returns the time since the start.
    pub fn reconciled(&mut self, count: usize) -> Result<Duration> {
        let wanted = u32::try_from(count)?;
        // Polled rarely, because each scrape costs the operator something.
        self.wait(&format!("{count} reconciles"), RECONCILED_LIMIT, Duration::from_millis(20), |operator| {
            let name = r#"causeway_reconciles_total{kind="MyIngress",outcome="ok"}"#;
            operator.metric(name).is_ok_and(|ended| ended >= f64::from(wanted))
        })
    }

    fn wait(&mut self, what: &str, limit: Duration, pause: Duration, good: impl Fn(&Self) -> bool) -> Result<Duration> {
        loop {
            if good(self) {
                return Ok(self.started.elapsed());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the operator ended with {status} before {what}: see its log in target/bench");
            }
            if self.started.elapsed() > limit {
                bail!("waited {} s for {what}", limit.as_secs());
            }
            thread::sleep(pause);
        }
    }

    /// The sum of the series whose text begins like this.
    pub fn metric(&self, series: &str) -> Result<f64> {
        let text = self.http.get("/metrics")?;
        let values = text.lines().filter(|line| line.starts_with(series));
        Ok(values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
    }

    /// The number of writing calls to the Kubernetes API so far, without those for the lease.
    pub fn kubernetes_writes(&self) -> Result<f64> {
        let counts = ["create", "update", "patch", "delete"]
            .map(|verb| self.metric(&format!(r#"causeway_kubernetes_calls_total{{verb="{verb}""#)));
        counts.into_iter().sum()
    }

    /// A memory size in /proc/PID/status in KiB: `VmRSS` is the present value, `VmHWM` the peak.
    pub fn memory_kib(&self, field: &str) -> Result<f64> {
        memory_kib(self.child.id(), field)
    }

    /// The resident memory after it has not changed by more than 1 % for five seconds, and its parts.
    pub fn settled_memory_kib(&self) -> Result<(f64, String)> {
        let begun = Instant::now();
        let mut samples: Vec<f64> = Vec::new();
        loop {
            samples.push(self.memory_kib("VmRSS")?);
            let last = &samples[samples.len().saturating_sub(10)..];
            let (low, high) = last.iter().fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(*it), high.max(*it)));
            let settled = last.len() == 10 && high - low < high / 100.0;
            if settled || begun.elapsed() > LIMIT {
                let heap = self.memory_kib("RssAnon")?;
                return Ok((high, format!("heap and stacks {heap}, the rest is pages of the binary")));
            }
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// CPU time spent so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.child.id())
    }

    /// Stops it as the kubelet does, and waits until it has ended. The lease is free then.
    pub fn stop(mut self) -> Result<()> {
        let begun = Instant::now();
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("the operator has no id")?;
        kill_process(pid, Signal::TERM)?;
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > LIMIT {
                bail!("the operator did not end within {} s", LIMIT.as_secs());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A memory size in /proc/PID/status in KiB.
fn memory_kib(pid: u32, field: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let size = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    size.with_context(|| format!("/proc has no {field}"))
}

/// The CPU time of a process so far, including its children that have ended. Linux reports it in units of 1/100 s.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may contain anything; utime, stime, cutime and cstime are the 12th to 15th field after it.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().skip(11).take(4));
    let ticks: f64 = fields.into_iter().flatten().filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / 100.0)
}
