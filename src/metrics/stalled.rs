//! How many objects wait for somebody outside, by kind and reason. The counts of a kind are replaced as a whole, so a
//! reason that no object has any more disappears from the metrics. Reasons are words of this program's source.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// Counts by reason.
type Counts = BTreeMap<&'static str, usize>;

/// The metric; clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Stalled(Arc<Mutex<BTreeMap<&'static str, Counts>>>);

impl Stalled {
    /// Counts the objects of a kind. Reconciles end at the same time: counted under the lock, the newest count stays.
    pub fn set(&self, kind: &'static str, count: impl FnOnce() -> Counts) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(kind, count());
    }

    /// This process knows nothing about the kind any more.
    pub fn forget(&self, kind: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(kind);
    }
}

impl Collector for Stalled {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let help = "Objects that need somebody to act (Stalled), by reason";
        let mut family = encoder.encode_descriptor("causeway_stalled_objects", help, None, MetricType::Gauge)?;
        for (kind, counts) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for (reason, count) in counts {
                let gauge = ConstGauge::new(i64::try_from(*count).unwrap_or(i64::MAX));
                gauge.encode(family.encode_family(&[("kind", *kind), ("reason", *reason)])?)?;
            }
        }
        Ok(())
    }
}
