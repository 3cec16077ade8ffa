//! When backups of each object went well last, read at each scrape: an object that is gone is reported no more.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// When backups of one object went well last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupTimes {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When the newest backup was complete.
    pub success: Option<Timestamp>,
    /// When a backup was proven last.
    pub verified: Option<Timestamp>,
}

/// Tells of all objects that there are.
type Read = Box<dyn Fn() -> Vec<BackupTimes> + Send + Sync>;

/// The metrics; clones share who tells of the objects.
#[derive(Clone, Default)]
pub struct Backups(Arc<Mutex<Option<Read>>>);

impl Backups {
    /// From now on `read` tells of all objects.
    pub fn told_by(&self, read: impl Fn() -> Vec<BackupTimes> + Send + Sync + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(read));
    }

    fn all(&self) -> Vec<BackupTimes> {
        let read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let all = self.all();
        let of = |time: fn(&BackupTimes) -> Option<Timestamp>| all.iter().filter_map(move |it| Some((it, time(it)?)));
        let name = "causeway_backup_last_success_timestamp";
        gauges(&mut encoder, name, "When the newest backup of an object was complete", of(|it| it.success))?;
        let name = "causeway_backup_last_verified_timestamp";
        gauges(&mut encoder, name, "When a backup of an object was proven last", of(|it| it.verified))
    }
}

fn gauges<'a>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    times: impl Iterator<Item = (&'a BackupTimes, Timestamp)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
    for (object, time) in times {
        let labels = [("namespace", object.namespace.as_str()), ("name", object.name.as_str())];
        ConstGauge::new(time.as_second()).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
