//! Types that the kinds share: ownership names, policies and the shape of a status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prefix of every label, annotation, finalizer and AWS tag key that is ours.
pub const PREFIX: &str = "causeway.example.com";

/// The one field manager under which Causeway applies objects and statuses.
pub const FIELD_MANAGER: &str = "causeway";

/// Decides what happens to data or AWS resources when the Kubernetes object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// They are deleted, too.
    #[default]
    Delete,
    /// They are kept.
    Retain,
}

/// Which status of a condition is the normal one.
/// <https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#typical-status-properties>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polarity {
    /// `True` is normal, and `False` means trouble.
    NormalTrue,
    /// `True` means trouble.
    AbnormalTrue,
}

/// The conditions of all kinds.
pub const OF_ALL_KINDS: &[(&str, Polarity)] =
    &[("Ready", Polarity::NormalTrue), ("Reconciling", Polarity::AbnormalTrue), ("Stalled", Polarity::AbnormalTrue)];

/// A status that follows the kstatus conventions: `observedGeneration` and conditions.
///
/// <https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md>
pub trait Conditioned {
    /// Types of the conditions that Causeway writes beside [`OF_ALL_KINDS`], and which status of each is normal. Those of other
    /// types belong to other controllers.
    const PARTS: &'static [(&'static str, Polarity)];

    /// Conditions by type; `Ready` always, `Reconciling` and `Stalled` only while abnormal.
    fn conditions(&self) -> &[Condition];
    /// The conditions, for changing.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;
    /// The generation that the status speaks of.
    fn observed_generation_mut(&mut self) -> &mut Option<i64>;

    /// Reports whether a condition of that type is Causeway's.
    fn owns(type_: &str) -> bool {
        OF_ALL_KINDS.iter().chain(Self::PARTS).any(|(known, _)| *known == type_)
    }
}

/// Implements [`Conditioned`] for a status with `conditions` and `observed_generation` fields, and with these conditions
/// beside the three that all kinds have.
macro_rules! conditioned {
    ($status:ty, [$(($type_:literal, $polarity:ident)),* $(,)?]) => {
        impl $crate::Conditioned for $status {
            const PARTS: &'static [(&'static str, $crate::common::Polarity)] =
                &[$(($type_, $crate::common::Polarity::$polarity)),*];

            fn conditions(&self) -> &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition] {
                &self.conditions
            }
            fn conditions_mut(&mut self) -> &mut Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
                &mut self.conditions
            }
            fn observed_generation_mut(&mut self) -> &mut Option<i64> {
                &mut self.observed_generation
            }
        }
    };
}
pub(crate) use conditioned;
