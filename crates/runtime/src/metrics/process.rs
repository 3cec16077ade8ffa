//! Figures of the kernel about this process.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Metrics of this process from /proc, read at each scrape.
#[derive(Debug)]
pub struct Process {
    started: SystemTime,
}

impl Process {
    /// This process, which has just started.
    pub fn this() -> Self {
        Self { started: SystemTime::now() }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        gauge(&mut encoder, "process_start_time", "When this process started", &Unit::Seconds, started)?;
        if let Some(bytes) = std::fs::read_to_string("/proc/self/status").ok().and_then(|text| resident_bytes(&text)) {
            gauge(&mut encoder, "process_resident_memory", "Resident memory", &Unit::Bytes, bytes)?;
        }
        if let Some(seconds) = std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| cpu_seconds(&text)) {
            let spent = ConstCounter::new(seconds);
            let help = "CPU time spent";
            spent.encode(encoder.encode_descriptor(
                "process_cpu",
                help,
                Some(&Unit::Seconds),
                spent.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

fn gauge(encoder: &mut DescriptorEncoder, name: &str, help: &str, unit: &Unit, value: f64) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, Some(unit), gauge.metric_type())?)
}

/// `VmRSS` of /proc/self/status.
fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

/// `utime` and `stime` of /proc/self/stat. Linux reports them in units of 1/100 s, whatever tick it uses internally.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The second field, the name in parentheses, may contain blanks. The third field, the state, follows it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_figures() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t   1024 kB\nThreads:\t1\n"), Some(1024.0 * 1024.0));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 100 1000 10 1";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert!(Process::this().started <= SystemTime::now());
        let here = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(cpu_seconds(&here).is_some());
    }
}
