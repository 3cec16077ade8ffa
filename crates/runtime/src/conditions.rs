//! Conditions as kstatus reads them: `Ready` always, `Reconciling` and `Stalled` only while abnormal.
//!
//! <https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md>

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use causeway_api::common::OF_ALL_KINDS;

/// The state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The cluster and AWS match the spec.
    Ready(Cause),
    /// The cluster and AWS do not match the spec yet.
    Progressing(Cause),
    /// The object cannot go on before a user, an administrator or another system changes something.
    Stalled(Cause),
    /// Something failed and is retried. If the object was ready for this generation, it still counts as ready.
    Retrying(Cause),
    /// Nothing is checked now, so nothing is known.
    Unknown(Cause),
    /// The state is not known for a moment, and nothing indicates a change. Conditions for this generation stay, and
    /// the status is not written. If there are none for this generation, the inner state is used.
    Unchanged(Box<Health>),
}

/// The reason for which an object is in its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// A stable `CamelCase` word.
    pub reason: &'static str,
    /// A sentence for the user.
    pub message: String,
}

/// The message of a suspended object whose kind has nothing to add.
pub const SUSPENDED: &str = "spec.suspend is true: nothing is checked or changed";

/// The status of a condition beside the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds now.
    True,
    /// The condition does not hold.
    False,
    /// The operator cannot tell, or has not looked.
    Unknown,
    /// There is no such condition: an existing one is removed.
    Absent,
}

impl ConditionStatus {
    /// `True`, or no condition at all: for conditions that exist only while something is wrong.
    pub fn only_if(wrong: bool) -> Self {
        if wrong { Self::True } else { Self::Absent }
    }

    /// The word that Kubernetes uses; `None` if there is no condition.
    fn text(self) -> Option<&'static str> {
        match self {
            Self::True => Some("True"),
            Self::False => Some("False"),
            Self::Unknown => Some("Unknown"),
            Self::Absent => None,
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(status: bool) -> Self {
        if status { Self::True } else { Self::False }
    }
}

/// The state of a part of an object, as a condition beside the three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraCondition {
    /// The type of the condition.
    pub type_: &'static str,
    /// The status of the condition.
    pub status: ConditionStatus,
    /// A stable `CamelCase` word.
    pub reason: &'static str,
    /// A sentence for the user.
    pub message: String,
}

impl Health {
    /// Ready, with a reason and a sentence.
    pub fn ready(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Ready(Cause { reason, message: message.into() })
    }
    /// Progressing, with a reason and a sentence.
    pub fn progressing(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Progressing(Cause { reason, message: message.into() })
    }
    /// Stalled, with a reason and a sentence that names the field and the fix.
    pub fn stalled(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Stalled(Cause { reason, message: message.into() })
    }
    /// Unknown, with a reason and a sentence.
    pub fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Unknown(Cause { reason, message: message.into() })
    }
    /// Unknown, for the spec asks to leave everything as it is. The sentence says what that means.
    pub fn suspended(message: impl Into<String>) -> Self {
        Self::unknown("Suspended", message)
    }
    /// Retrying, with a reason and a sentence.
    pub fn retrying(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Retrying(Cause { reason, message: message.into() })
    }

    /// Returns the reason; if the state is not known, that of the inner one.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Ready(cause)
            | Self::Progressing(cause)
            | Self::Stalled(cause)
            | Self::Retrying(cause)
            | Self::Unknown(cause) => cause.reason,
            Self::Unchanged(otherwise) => otherwise.reason(),
        }
    }
}

/// The conditions that follow from `before` when the object is now in the state `health`.
///
/// A transition time changes only when the condition's status changes. Conditions of types that are not in `parts`
/// stay.
#[must_use]
pub fn merge_conditions(
    before: &[Condition],
    health: &Health,
    parts: &[ExtraCondition],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    if let Health::Unchanged(otherwise) = health {
        let is_known = find(before, "Ready").is_some_and(|ready| ready.observed_generation == generation);
        return if is_known { before.to_vec() } else { merge_conditions(before, otherwise, parts, generation, now) };
    }
    let was_ready = find(before, "Ready").is_some_and(|c| c.status == "True" && c.observed_generation == generation);
    let mut wanted: Vec<(&str, &str, &str, &str)> = Vec::new();
    match health {
        Health::Ready(Cause { reason, message }) => wanted.push(("Ready", "True", reason, message)),
        Health::Progressing(Cause { reason, message }) => {
            wanted.push(("Ready", "False", reason, message));
            wanted.push(("Reconciling", "True", reason, message));
        }
        Health::Stalled(Cause { reason, message }) => {
            wanted.push(("Ready", "False", reason, message));
            wanted.push(("Stalled", "True", reason, message));
        }
        Health::Retrying(Cause { reason, message }) => {
            if let Some(ready) = find(before, "Ready").filter(|_| was_ready) {
                wanted.push(("Ready", "True", &ready.reason, &ready.message));
            } else {
                wanted.push(("Ready", "False", reason, message));
            }
            wanted.push(("Reconciling", "True", reason, message));
        }
        Health::Unknown(Cause { reason, message }) => wanted.push(("Ready", "Unknown", reason, message)),
        Health::Unchanged(_) => {}
    }
    for part in parts {
        wanted.extend(part.status.text().map(|status| (part.type_, status, part.reason, part.message.as_str())));
    }
    let ours = |type_: &str| {
        let mut types = OF_ALL_KINDS.iter().map(|(known, _)| *known).chain(parts.iter().map(|part| part.type_));
        types.any(|known| known == type_)
    };
    let foreign = before.iter().filter(|condition| !ours(&condition.type_));
    let mut after: Vec<Condition> = wanted
        .into_iter()
        .map(|(type_, status, reason, message)| Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: generation,
            last_transition_time: find(before, type_)
                .filter(|old| old.status == status)
                .map_or(Time(now), |old| old.last_transition_time.clone()),
        })
        .chain(foreign.cloned())
        .collect();
    after.sort_by(|a, b| order(&a.type_).cmp(&order(&b.type_)));
    after
}

/// Returns what existing conditions of these types become while the object is not observed.
pub fn not_observed(before: &[Condition], types: &[&'static str]) -> Vec<ExtraCondition> {
    let existing = types.iter().filter(|type_| find(before, type_).is_some());
    let unknown = |type_: &&'static str| ExtraCondition {
        type_,
        status: ConditionStatus::Unknown,
        reason: "NotObserved",
        message: "nothing is checked; condition Ready says why".into(),
    };
    existing.map(unknown).collect()
}

/// The condition of that type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn order(type_: &str) -> (u8, &str) {
    (u8::from(type_ != "Ready"), type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instant(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn statuses(conditions: &[Condition]) -> Vec<(&str, &str, &str)> {
        conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str())).collect()
    }

    #[test]
    fn ready_stands_alone() {
        let stalled = merge_conditions(&[], &Health::stalled("SubnetNotFound", "…"), &[], Some(1), instant(1));
        assert_eq!(statuses(&stalled), [("Ready", "False", "SubnetNotFound"), ("Stalled", "True", "SubnetNotFound")]);
        let ready = merge_conditions(&stalled, &Health::ready("Active", "…"), &[], Some(2), instant(2));
        assert_eq!(statuses(&ready), [("Ready", "True", "Active")]);
    }

    #[test]
    fn the_transition_time_changes_only_with_the_status() {
        let first = merge_conditions(&[], &Health::progressing("Provisioning", "a"), &[], Some(1), instant(1));
        let second = merge_conditions(&first, &Health::progressing("Provisioning", "b"), &[], Some(2), instant(2));
        assert_eq!(find(&second, "Ready").unwrap().last_transition_time, Time(instant(1)));
        let third = merge_conditions(&second, &Health::ready("Active", "c"), &[], Some(2), instant(3));
        assert_eq!(find(&third, "Ready").unwrap().last_transition_time, Time(instant(3)));
    }

    #[test]
    fn a_passing_error_leaves_ready_only_for_the_same_generation() {
        let ready = merge_conditions(&[], &Health::ready("Active", "ok"), &[], Some(1), instant(1));
        let throttled = merge_conditions(&ready, &Health::retrying("Throttled", "slow down"), &[], Some(1), instant(2));
        assert_eq!(statuses(&throttled), [("Ready", "True", "Active"), ("Reconciling", "True", "Throttled")]);
        let edited =
            merge_conditions(&throttled, &Health::retrying("Throttled", "slow down"), &[], Some(2), instant(3));
        assert_eq!(statuses(&edited), [("Ready", "False", "Throttled"), ("Reconciling", "True", "Throttled")]);
    }

    #[test]
    fn an_unknown_state_keeps_conditions_of_the_same_generation() {
        let part = ExtraCondition {
            type_: "Quorate",
            status: ConditionStatus::False,
            reason: "Electing",
            message: String::new(),
        };
        let unsure = Health::Unchanged(Box::new(Health::progressing("Electing", "…")));
        let ready = merge_conditions(&[], &Health::ready("Active", "ok"), &[], Some(1), instant(1));
        assert_eq!(merge_conditions(&ready, &unsure, std::slice::from_ref(&part), Some(1), instant(2)), ready);
        let edited = merge_conditions(&ready, &unsure, std::slice::from_ref(&part), Some(2), instant(2));
        assert_eq!(find(&edited, "Ready").unwrap().reason, "Electing");
        assert_eq!(
            find(&merge_conditions(&[], &unsure, &[part], Some(1), instant(2)), "Ready").unwrap().status,
            "False"
        );
    }

    #[test]
    fn conditions_of_others_stay() {
        let mut before = merge_conditions(&[], &Health::ready("Active", ""), &[], Some(1), instant(1));
        before.push(Condition {
            type_: "Audited".into(),
            status: "True".into(),
            reason: "ByHand".into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(instant(0)),
        });
        let after = merge_conditions(&before, &Health::progressing("Updating", ""), &[], Some(2), instant(2));
        assert!(find(&after, "Audited").is_some());
    }

    #[test]
    fn a_part_has_its_own_condition_until_it_is_removed() {
        let part =
            |status| ExtraCondition { type_: "TargetsHealthy", status, reason: "AllHealthy", message: String::new() };
        let ready = Health::ready("Active", "");
        let first = merge_conditions(&[], &ready, &[part(ConditionStatus::True)], Some(1), instant(1));
        assert_eq!(statuses(&first), [("Ready", "True", "Active"), ("TargetsHealthy", "True", "AllHealthy")]);
        let left_out = merge_conditions(&first, &ready, &[], Some(1), instant(2));
        assert_eq!(left_out, first);
        let gone = merge_conditions(&first, &ready, &[part(ConditionStatus::Absent)], Some(1), instant(2));
        assert_eq!(statuses(&gone), [("Ready", "True", "Active")]);
    }

    #[test]
    fn observed_conditions_are_unknown_without_observing() {
        let part = |type_| ExtraCondition { type_, status: ConditionStatus::True, reason: "R", message: String::new() };
        let ready = Health::ready("Active", "");
        let before = merge_conditions(&[], &ready, &[part("Replicated"), part("DataLost")], Some(1), instant(1));
        let parts = not_observed(&before, &["Replicated", "NodeFailureRisk"]);
        let after = merge_conditions(&before, &Health::suspended(SUSPENDED), &parts, Some(2), instant(2));
        let expected =
            [("Ready", "Unknown", "Suspended"), ("DataLost", "True", "R"), ("Replicated", "Unknown", "NotObserved")];
        assert_eq!(statuses(&after), expected);
        let again = merge_conditions(
            &after,
            &Health::suspended(SUSPENDED),
            &not_observed(&after, &["Replicated"]),
            Some(2),
            instant(3),
        );
        assert_eq!(again, after);
    }

    #[test]
    fn what_was_not_tried_yet_is_unknown() {
        let part = ExtraCondition {
            type_: "Verified",
            status: ConditionStatus::Unknown,
            reason: "NotTried",
            message: String::new(),
        };
        let text = merge_conditions(&[], &Health::ready("Active", ""), &[part], Some(1), instant(1));
        assert_eq!(statuses(&text), [("Ready", "True", "Active"), ("Verified", "Unknown", "NotTried")]);
    }

    #[test]
    fn the_same_health_gives_the_same_conditions() {
        let first = merge_conditions(&[], &Health::progressing("Provisioning", "a"), &[], Some(1), instant(1));
        assert_eq!(
            first,
            merge_conditions(&first, &Health::progressing("Provisioning", "a"), &[], Some(1), instant(9))
        );
    }
}
