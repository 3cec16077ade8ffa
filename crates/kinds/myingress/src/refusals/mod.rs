//! Actions that AWS refused. They are left out of plans until they may be tried again. So everything that does not
//! depend on them goes on: the other parts of an object, and the other members of its group.

pub mod blame;
pub mod field;

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use causeway_api::MyIngress;
use causeway_runtime::{Class, Failure};

use super::action::{Action, ListenerAction};
use super::error::{Error, QUOTA_REACHED};
use super::members::{Members, key};
use super::ownership::ObjectKey;

/// A refused action is tried again after this at the earliest: at most two calls a minute. What AWS may not know yet is
/// tried so soon at first, and then after twice as long each time: the longer AWS does not know it, the less likely it is
/// new.
const SOONEST: Duration = Duration::from_secs(30);
/// A missing permission is tried again at least this often.
const DENIED: Duration = Duration::from_mins(1);
/// An error that may pass by itself is set aside after this many in a row for the same action.
const STRIKES: u32 = 3;
/// The pause between two certificates that AWS refused to add to a listener, and that are tried again.
const BETWEEN: Duration = Duration::from_mins(1);
/// Once AWS has refused this many certificates of a listener, no other one is tried for 30 seconds after a refusal.
pub(super) const SEVERAL: usize = 2;
/// A refusal is forgotten if it has not come again for this long after its wait: the action went well, or no object
/// wants it any more.
const FORGOTTEN: Duration = Duration::from_mins(10);

/// An action that is not tried now, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The refused action, or a [`pause`].
    pub action: Action,
    /// Stable `CamelCase` word.
    pub reason: &'static str,
    /// A sentence for the user.
    pub message: String,
    /// The member whose part the action makes; `None` if it is not known.
    pub blamed: Option<ObjectKey>,
    /// How long until it is tried again.
    pub retry_in: Duration,
}

/// Refusals by owner.
#[derive(Default)]
pub struct Refusals(Mutex<HashMap<ObjectKey, Vec<Entry>>>);

struct Entry {
    action: Action,
    reason: &'static str,
    message: String,
    blamed: Option<ObjectKey>,
    /// The generation of the blamed object. A newer one is tried at once.
    generation: Option<i64>,
    strikes: u32,
    at: Instant,
    wait: Duration,
}

/// The way in which [`Refusals::note`] took a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// The reconcile fails because of it.
    Fails,
    /// Set aside, as before.
    Again,
    /// Set aside for the first time, or for another reason: there is news to report.
    New,
}

impl Refusals {
    /// Notes that an action of an owner failed. `sweep` is how long to wait if only a change outside of the operator
    /// helps.
    pub fn note(
        &self,
        owner: &ObjectKey,
        action: &Action,
        error: &Error,
        blamed: Option<&MyIngress>,
        sweep: Duration,
    ) -> Noted {
        let (longest, at_once) = match error.class() {
            // Without valid signatures no other action can work either.
            _ if matches!(error, Error::Unsigned(_)) => return Noted::Fails,
            Class::Invalid => (sweep.max(SOONEST), true),
            Class::Denied => (sweep.clamp(SOONEST, DENIED), true),
            Class::Transient => (SOONEST, false),
            Class::Conflict | Class::NotFound | Class::NotYet | Class::Throttled => return Noted::Fails,
        };
        let mut all = self.0.lock();
        let entries = all.entry(owner.clone()).or_default();
        let message = error.to_string();
        let before = entries.iter().position(|entry| entry.action == *action).map(|index| entries.remove(index));
        let strikes = 1 + before.as_ref().map_or(0, |before| before.strikes);
        let growing = || SOONEST.saturating_mul(2_u32.saturating_pow(strikes - 1));
        let wait = if error.may_be_too_early() { growing().min(longest) } else { longest };
        let aside = at_once || strikes >= STRIKES;
        let member = blamed.map(key);
        // All refused certificates of the listener get their turn before this one comes again. Of a permission one call
        // says enough for all.
        let turns = gets_certificates(action)
            .filter(|_| error.class() == Class::Invalid && error.reason() != QUOTA_REACHED)
            .map_or(0, |listener| entries.iter().filter(|it| it.lacks_certificate(listener)).count());
        // As many turns are left for those that were never tried: each turn ends with the first that AWS refuses.
        let turns = if turns == 0 { 0 } else { turns + 1 };
        let wait = wait.max(BETWEEN.saturating_mul(turns.try_into().unwrap_or(u32::MAX)));
        let known = before.is_some_and(|before| before.message == message && (at_once || before.strikes >= STRIKES));
        entries.push(Entry {
            action: action.clone(),
            reason: error.reason(),
            message,
            blamed: member,
            generation: blamed.and_then(|object| object.metadata.generation),
            strikes,
            at: Instant::now(),
            wait: if aside { wait } else { Duration::ZERO },
        });
        match (aside, known) {
            (false, _) => Noted::Fails,
            (true, true) => Noted::Again,
            (true, false) => Noted::New,
        }
    }

    /// The actions of an owner that are not tried now.
    pub fn list(&self, owner: &ObjectKey, members: &Members) -> Vec<Refusal> {
        let mut all = self.0.lock();
        let Some(entries) = all.get_mut(owner) else { return Vec::new() };
        entries.retain(|entry| {
            let blamed = members.present.iter().find(|member| Some(key(member)) == entry.blamed);
            let edited = blamed.is_some_and(|member| member.metadata.generation != entry.generation);
            !edited && entry.at.elapsed() < entry.wait + FORGOTTEN
        });
        let waiting = entries.iter().filter_map(|entry| {
            let retry_in = entry.wait.checked_sub(entry.at.elapsed()).filter(|left| !left.is_zero())?;
            let (action, reason, message) = (entry.action.clone(), entry.reason, entry.message.clone());
            Some(Refusal { action, reason, message, blamed: entry.blamed.clone(), retry_in })
        });
        let waiting = waiting.chain(pauses(entries)).collect();
        if entries.is_empty() {
            all.remove(owner);
        }
        waiting
    }

    /// Forgets what was refused to owners that no longer exist as an object or as a group of objects. No object asks
    /// for it any more, and an entry holds a whole action, such as a rule with its body.
    pub fn retain(&self, living: &BTreeSet<String>) {
        self.0.lock().retain(|(_, uid), _| living.contains(uid));
    }

    /// Forgets what was refused to the owner with this uid.
    pub fn forget(&self, uid: &str) {
        self.0.lock().retain(|(_, owner), _| owner != uid);
    }
}

impl Entry {
    /// Reports whether AWS refused to add a certificate to the listener, for another reason than a quota.
    fn lacks_certificate(&self, listener: &str) -> bool {
        let refused = !self.wait.is_zero() && self.reason != QUOTA_REACHED;
        refused && gets_certificates(&self.action) == Some(listener)
    }
}

/// The listener that the action adds certificates to.
fn gets_certificates(action: &Action) -> Option<&str> {
    match action {
        Action::Listener(ListenerAction::AddCertificates { arn, .. }) => Some(arn),
        _ => None,
    }
}

/// An entry that says: no certificate is added to this listener now. It adds an empty set of certificates. `None` if
/// the action does not add certificates.
///
/// AWS takes one certificate per call. Without the pause, 25 wrong ones would make 25 refused calls in a row.
pub fn pause(refused: &Action) -> Option<Action> {
    let Action::Listener(adds @ ListenerAction::AddCertificates { .. }) = refused else { return None };
    adds.of_certificates(BTreeSet::new()).map(Action::Listener)
}

/// The pauses of listeners of which AWS refused several certificates, the last one a moment ago.
fn pauses(entries: &[Entry]) -> Vec<Refusal> {
    let pause_after = |last: &Entry| {
        let listener = gets_certificates(&last.action)?;
        let refused = |it: &&Entry| it.lacks_certificate(listener);
        // A new entry is the last one.
        let is_last = entries.iter().rfind(refused).is_some_and(|it| std::ptr::eq(it, last));
        if !is_last || entries.iter().filter(refused).count() < SEVERAL {
            return None;
        }
        let retry_in = SOONEST.checked_sub(last.at.elapsed()).filter(|left| !left.is_zero())?;
        let (reason, message, blamed) = (last.reason, last.message.clone(), last.blamed.clone());
        Some(Refusal { action: pause(&last.action)?, reason, message, blamed, retry_in })
    };
    entries.iter().filter_map(pause_after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::BalancerAction;
    use causeway_aws::aws::AwsError;
    use causeway_aws::elbv2::Pairs;

    const SWEEP: Duration = Duration::from_mins(5);

    fn owner() -> ObjectKey {
        ("shop".into(), "uid".into())
    }

    fn action(key: &str) -> Action {
        let attributes = Pairs::from([(key.into(), "1".into())]);
        Action::Balancer(BalancerAction::SetAttributes { arn: "web".into(), attributes })
    }

    fn note(refusals: &Refusals, key: &str, class: Class) -> Noted {
        let mut error = AwsError::stale("ModifyLoadBalancerAttributes", "no such key".into());
        error.class = class;
        refusals.note(&owner(), &action(key), &Error::from_aws(error), None, SWEEP)
    }

    fn waiting(refusals: &Refusals) -> Vec<Action> {
        refusals.list(&owner(), &Members::default()).into_iter().map(|refusal| refusal.action).collect()
    }

    #[test]
    fn what_is_refused_waits_and_is_new_once() {
        let refusals = Refusals::default();
        assert_eq!(note(&refusals, "a", Class::Invalid), Noted::New);
        assert_eq!(note(&refusals, "a", Class::Invalid), Noted::Again);
        assert_eq!(note(&refusals, "b", Class::Denied), Noted::New);
        assert_eq!(waiting(&refusals), [action("a"), action("b")]);
        let soonest = refusals.list(&owner(), &Members::default()).into_iter().map(|refusal| refusal.retry_in).min();
        assert!(soonest.is_some_and(|wait| wait + Duration::from_secs(5) > SOONEST), "{soonest:?}");
    }

    #[test]
    fn what_aws_may_not_know_yet_waits_for_no_sweep() {
        let refusals = Refusals::default();
        let error = Error::WebAclUnknown("the resource doesn't exist".into());
        assert_eq!(refusals.note(&owner(), &action("a"), &error, None, SWEEP), Noted::New);
        let waits = refusals.list(&owner(), &Members::default()).into_iter().map(|refusal| refusal.retry_in);
        assert!(waits.max().is_some_and(|wait| wait <= SOONEST));
    }

    #[test]
    fn permanently_unknown_names_are_retried_ever_more_rarely() {
        let refusals = Refusals::default();
        let error = Error::WebAclUnknown("the resource doesn't exist".into());
        let waits = [(); 6].map(|()| {
            refusals.note(&owner(), &action("a"), &error, None, SWEEP);
            refusals.0.lock()[&owner()][0].wait.as_secs()
        });
        assert_eq!(waits, [30, 60, 120, 240, 300, 300]);
    }

    fn adding(certificate: &str) -> Action {
        let (balancer, arn, certificates) = ("web".into(), "listener".into(), [certificate.to_owned()].into());
        Action::Listener(ListenerAction::AddCertificates { balancer, arn, port: 443, certificates })
    }

    #[test]
    fn many_refused_certificates_are_tried_one_a_minute() {
        let refusals = Refusals::default();
        let mut error = AwsError::stale("AddListenerCertificates", "it is not valid".into());
        error.class = Class::Invalid;
        let error = Error::from_aws(error);
        let refuse = |name: String| refusals.note(&owner(), &adding(&name), &error, None, SWEEP);
        let pause = pause(&adding("any")).unwrap();
        refuse("0".into());
        assert_eq!(waiting(&refusals), [adding("0")], "one keeps out no other");
        for number in 1..25 {
            refuse(number.to_string());
        }
        let all = refusals.list(&owner(), &Members::default());
        let pauses: Vec<&Refusal> = all.iter().filter(|refusal| refusal.action == pause).collect();
        assert!(matches!(pauses[..], [pause] if pause.retry_in <= SOONEST), "{pauses:?}");
        assert!(all.len() == 26 && all.iter().filter(|it| it.retry_in > BETWEEN.saturating_mul(24)).count() == 1);
        assert!(all.iter().filter(|it| it.action != pause).all(|it| it.action == adding("0") || it.retry_in > BETWEEN));
        refuse("0".into());
        let all = refusals.list(&owner(), &Members::default());
        let first = all.iter().find(|refusal| refusal.action == adding("0")).unwrap();
        assert!(first.retry_in > BETWEEN.saturating_mul(23), "the others are tried before it: {first:?}");
    }

    #[test]
    fn a_passing_refusal_waits_only_if_it_repeats() {
        let refusals = Refusals::default();
        assert_eq!(note(&refusals, "a", Class::Transient), Noted::Fails);
        assert_eq!(note(&refusals, "a", Class::Transient), Noted::Fails);
        assert!(waiting(&refusals).is_empty());
        assert_eq!(note(&refusals, "a", Class::Transient), Noted::New);
        assert_eq!(note(&refusals, "a", Class::Transient), Noted::Again);
        assert_eq!(waiting(&refusals), [action("a")]);
    }

    #[test]
    fn refusals_of_gone_objects_are_forgotten() {
        let is_kept = |refusals: &Refusals| !refusals.0.lock().is_empty();
        let refusals = Refusals::default();
        note(&refusals, "a", Class::Denied);
        refusals.retain(&BTreeSet::from(["uid".to_owned(), "another".to_owned()]));
        assert_eq!(waiting(&refusals), [action("a")], "the owner lives");
        refusals.retain(&BTreeSet::from(["another".to_owned()]));
        assert!(!is_kept(&refusals));
        note(&refusals, "a", Class::Denied);
        refusals.forget("another");
        assert!(is_kept(&refusals));
        refusals.forget("uid");
        assert!(!is_kept(&refusals));
    }

    #[test]
    fn lost_races_and_throttled_calls_are_not_set_aside() {
        let refusals = Refusals::default();
        for class in [Class::Conflict, Class::NotFound, Class::Throttled, Class::NotYet] {
            assert_eq!(note(&refusals, "a", class), Noted::Fails);
        }
    }
}
