//! Gauges of objects by kind and reason: objects that wait for a user or an administrator, and objects that are not
//! ready. The values of a kind are replaced as a whole, so a reason that no object has any more disappears from the
//! metrics. Reasons are words of this program's source.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Values of a kind by reason.
type Values<V> = BTreeMap<&'static str, V>;

/// The metrics; clones share the values.
#[derive(Clone, Debug, Default)]
pub struct ByReason<V>(Arc<Mutex<BTreeMap<&'static str, Values<V>>>>);

/// Objects that are not ready for the same reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unready {
    /// The number of objects.
    pub objects: usize,
    /// The time since which the one of them that was ready least recently is not ready.
    pub since: Timestamp,
}

impl<V> ByReason<V> {
    /// Counts the objects of a kind. Reconciles end at the same time: counted under the lock, the newest count stays.
    pub fn set(&self, kind: &'static str, count: impl FnOnce() -> Values<V>) {
        self.0.lock().insert(kind, count());
    }

    /// Removes the values of a kind of which this process knows nothing any more.
    pub fn forget(&self, kind: &str) {
        self.0.lock().remove(kind);
    }

    fn gauges(
        &self,
        encoder: &mut DescriptorEncoder,
        (name, help, unit): (&str, &str, Option<&Unit>),
        number: impl Fn(&V) -> i64,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (kind, values) in self.0.lock().iter() {
            for (reason, value) in values {
                let labels = [("kind", *kind), ("reason", *reason)];
                ConstGauge::new(number(value)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl Collector for ByReason<usize> {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let help = "Objects that wait for a change outside (Stalled), by reason";
        let name = "causeway_stalled_objects";
        self.gauges(&mut encoder, (name, help, None), |count| i64::try_from(*count).unwrap_or(i64::MAX))
    }
}

impl Collector for ByReason<Unready> {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let help = "Objects that are not ready, by reason, without those that are suspended or being deleted";
        let name = "causeway_unready_objects";
        self.gauges(&mut encoder, (name, help, None), |it| i64::try_from(it.objects).unwrap_or(i64::MAX))?;
        let help = "Since when the object that was ready least recently is not ready, by reason";
        let name = "causeway_unready_since_timestamp";
        self.gauges(&mut encoder, (name, help, Some(&Unit::Seconds)), |it| it.since.as_second())
    }
}
