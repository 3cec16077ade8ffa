//! The time of each object's last successful backup, the log that servers keep for it, and counts of objects that are
//! overdue or have bad backups. They are read at each scrape, so a deleted object disappears from the metrics.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// The state of the backups of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupTimes {
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The time at which the newest backup completed.
    pub success: Option<Timestamp>,
    /// The time at which a backup was last verified.
    pub verified: Option<Timestamp>,
    /// Bytes of its log that a server keeps for the next backup.
    pub log_kept: Option<i64>,
    /// Bytes that may still be written before the server discards that log.
    pub log_room: Option<i64>,
    /// True if no Job has measured that log since a backup was due.
    pub log_unmeasured: bool,
    /// True if it lacks a backup that was due.
    pub overdue: bool,
    /// True if the newest backup that was tried could not be restored.
    pub bad: bool,
}

/// Objects of one namespace that have series of their own, the first ones by name: tenants who make objects there could
/// fill the memory of the operator and of Prometheus. The counts are of all objects.
const OF_NAMESPACE: usize = 200;

/// Returns the state of all objects.
type Read = Box<dyn Fn() -> Vec<BackupTimes> + Send + Sync>;

/// The metrics; clones share the function that reads the objects.
#[derive(Clone, Default)]
pub struct Backups(Arc<Mutex<Option<Read>>>);

impl Backups {
    /// Sets the function that supplies the state of all objects from now on.
    pub fn read_by(&self, read: impl Fn() -> Vec<BackupTimes> + Send + Sync + 'static) {
        *self.0.lock() = Some(Box::new(read));
    }

    fn read_all(&self) -> Vec<BackupTimes> {
        let read = self.0.lock();
        let mut all = read.as_ref().map(|read| read()).unwrap_or_default();
        all.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        all
    }
}

impl fmt::Debug for Backups {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Backups")
    }
}

impl Collector for Backups {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let all = self.read_all();
        // Always reported, so that an alert ends with the last of them.
        let mut count = |name, help, counts: fn(&BackupTimes) -> bool| {
            let number = all.iter().filter(|it| counts(it)).count();
            let gauge = ConstGauge::new(i64::try_from(number).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        let help = "DatabaseBackups that lack a backup that was due";
        count("causeway_backup_overdue_objects", help, |it| it.overdue)?;
        let help = "DatabaseBackups of which the newest backup that was tried could not be restored";
        count("causeway_backup_verification_failed_objects", help, |it| it.bad)?;
        let help = "DatabaseBackups of which no Job has measured the log that servers keep since a backup was due";
        count("causeway_backup_log_unmeasured_objects", help, |it| it.log_unmeasured)?;
        let named =
            all.chunk_by(|one, other| one.namespace == other.namespace).flat_map(|of| of.iter().take(OF_NAMESPACE));
        let named: Vec<&BackupTimes> = named.collect();
        let seconds = |time: fn(&BackupTimes) -> Option<Timestamp>| {
            named.iter().filter_map(move |it| Some((*it, time(it)?.as_second()))).collect()
        };
        let bytes = |number: fn(&BackupTimes) -> Option<i64>| {
            named.iter().filter_map(move |it| Some((*it, number(it)?))).collect()
        };
        let name = "causeway_backup_last_success_timestamp";
        let help = "When the newest backup of an object was completed";
        gauges(&mut encoder, (name, help, &Unit::Seconds), seconds(|it| it.success))?;
        let name = "causeway_backup_last_verified_timestamp";
        let help = "When a backup of an object last passed verification";
        gauges(&mut encoder, (name, help, &Unit::Seconds), seconds(|it| it.verified))?;
        let name = "causeway_backup_log_kept";
        let help = "Write-ahead log that a server keeps because it is in no backup yet";
        gauges(&mut encoder, (name, help, &Unit::Bytes), bytes(|it| it.log_kept))?;
        let name = "causeway_backup_log_until_lost";
        let help = "How much can still be written before a server discards the log that it keeps for a backup";
        gauges(&mut encoder, (name, help, &Unit::Bytes), bytes(|it| it.log_room))
    }
}

fn gauges(
    encoder: &mut DescriptorEncoder,
    (name, help, unit): (&str, &str, &Unit),
    values: Vec<(&BackupTimes, i64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, Some(unit), MetricType::Gauge)?;
    for (object, value) in values {
        let labels = [("namespace", object.namespace.as_str()), ("name", object.name.as_str())];
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
