//! What somebody else changed in AWS, and was put right: told of, and counted. Pure but for the memory.
//!
//! A difference is drift only where this process found everything right before, and nothing since that AWS should follow:
//! no spec, group, Secret, certificate or subnet. What a restarted operator finds, or what it has begun itself, is none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use jiff::{Timestamp, ToSpan};
use kube::Resource;

use super::action::{Action, BalancerAction, GroupAction, ListenerAction, SecurityAction};
use super::members::key;
use super::model::Model;
use super::observe::Observed;
use super::ownership::ObjectKey;
use super::plan::{Change, changes};
use super::simulation::Simulation;
use crate::external::elbv2::RuleAction;
use crate::runtime::{Health, Plan, fingerprint};

/// An event names so many differences; the others are counted.
const MOST_NAMED: usize = 6;
/// A rival that changes the same again and again is told of only so often, in minutes.
const PAUSE: i64 = 10;

/// Something in AWS that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind of part, a word of this program.
    pub part: &'static str,
    /// What it is and how it differs.
    pub told: String,
}

/// What was decided, as far as it matters here.
pub struct Decided<'a> {
    /// All that AWS should follow, in a few characters.
    pub basis: String,
    /// The changes that were planned.
    pub differences: &'a dyn Fn() -> Vec<Difference>,
    /// Whether something is to be changed.
    pub changes: bool,
    /// Whether everything is right, and nothing is waited for.
    pub right: bool,
    /// When AWS was looked at.
    pub looked: Timestamp,
    /// The present.
    pub now: Timestamp,
}

impl<'a> Decided<'a> {
    /// A plan for what was observed.
    pub fn of<Status>(
        observed: &Observed,
        plan: &Plan<Action, Status>,
        differences: &'a dyn Fn() -> Vec<Difference>,
        (looked, now): (Timestamp, Timestamp),
    ) -> Self {
        let waits = plan.requeue.is_some() || !observed.refusals.is_empty();
        Self {
            basis: basis(observed),
            differences,
            changes: plan.actions.iter().any(|action| part(action).is_some()),
            right: plan.actions.is_empty() && matches!(plan.health, Health::Ready(_)) && !waits,
            looked,
            now,
        }
    }
}

/// Drift that was put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// What was different.
    pub differences: Vec<Difference>,
    /// The words of an event; none where the same was told of a moment ago.
    pub note: Option<String>,
}

/// What is known of one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    standing: Standing,
    /// When each kind of part was told of last, and how often it was changed since.
    told: BTreeMap<&'static str, (Timestamp, u32)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// Nothing was found right yet, or what AWS should follow has changed.
    #[default]
    Unknown,
    /// Everything was right by this basis when AWS was looked at then.
    Right { basis: String, at: Timestamp },
    /// Drift is being put right.
    Mending { found: Vec<Difference>, right: Timestamp },
}

impl State {
    /// Takes in what was decided; returns drift that is put right now.
    pub fn take(&mut self, decided: &Decided) -> Option<Repaired> {
        if decided.changes {
            match &self.standing {
                Standing::Right { basis, at } if *basis == decided.basis => {
                    self.standing = Standing::Mending { found: (decided.differences)(), right: *at };
                }
                // Whatever else is to be changed meanwhile, that was drift.
                Standing::Mending { .. } => {}
                Standing::Right { .. } | Standing::Unknown => self.standing = Standing::Unknown,
            }
            return None;
        }
        if !decided.right {
            // Who waits for something changes something later, without anybody's doing.
            if matches!(self.standing, Standing::Right { .. }) {
                self.standing = Standing::Unknown;
            }
            return None;
        }
        let right = Standing::Right { basis: decided.basis.clone(), at: decided.looked };
        match std::mem::replace(&mut self.standing, right) {
            Standing::Mending { found, right } if !found.is_empty() => Some(self.tell(found, right, decided.now)),
            _ => None,
        }
    }

    fn tell(&mut self, differences: Vec<Difference>, right: Timestamp, now: Timestamp) -> Repaired {
        let parts: BTreeSet<&'static str> = differences.iter().map(|it| it.part).collect();
        let is_due = |part: &&&'static str| {
            self.told.get(**part).is_none_or(|(at, _)| at.checked_add(PAUSE.minutes()).is_ok_and(|due| due <= now))
        };
        let due: BTreeSet<&'static str> = parts.iter().filter(is_due).copied().collect();
        let told: Vec<&Difference> = differences.iter().filter(|it| due.contains(it.part)).collect();
        let note = (!told.is_empty()).then(|| {
            let silent = due.iter().filter_map(|part| self.told.get(part)).map(|(_, times)| times).sum();
            note(&told, right, silent)
        });
        for part in parts {
            if due.contains(part) {
                self.told.insert(part, (now, 0));
            } else if let Some((_, times)) = self.told.get_mut(part) {
                *times += 1;
            }
        }
        Repaired { differences, note }
    }
}

fn note(differences: &[&Difference], right: Timestamp, silent: u32) -> String {
    let mut parts: Vec<String> = differences.iter().take(MOST_NAMED).map(|it| it.told.clone()).collect();
    if differences.len() > MOST_NAMED {
        parts.push(format!("and {} more", differences.len() - MOST_NAMED));
    }
    let often = match silent {
        0 => String::new(),
        times => format!(" (the like was changed and put right {times} more times since it was told last)"),
    };
    let right = right.round(jiff::Unit::Second).unwrap_or(right);
    format!("Put right what somebody else changed in AWS after {right}, when it was right{often}: {}", parts.join("; "))
}

/// What is known of all owners.
#[derive(Debug, Default)]
pub struct Memory(Mutex<HashMap<ObjectKey, State>>);

impl Memory {
    /// Takes in what was decided for an owner.
    pub fn take(&self, owner: &ObjectKey, decided: &Decided) -> Option<Repaired> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(owner.clone()).or_default().take(decided)
    }

    /// Forgets owners that nobody is, or is in, any more.
    pub fn retain(&self, living: &BTreeSet<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(_, uid), _| living.contains(uid));
    }
}

/// All that AWS should follow, in a few characters: as long as it is the same, nobody here asked for a change.
fn basis(observed: &Observed) -> String {
    let members = observed.members.present.iter();
    let members: Vec<_> = members.map(|it| (key(it), it.meta().generation, it.spec.suspend)).collect();
    let unable: Vec<_> = observed.members.refused.keys().chain(observed.built.complaints.keys()).collect();
    // How many addresses are free changes all the time, and moves nothing that stands.
    let subnets: Vec<_> = observed.subnets.iter().map(|it| (&it.id, &it.vpc, &it.zone)).collect();
    let model = observed.built.model.as_ref();
    let all = format!("{members:?} {unable:?} {subnets:?} {:?} {model:?}", observed.certificates);
    // Nothing prints them.
    let secrets = model.into_iter().flat_map(secrets).map(String::as_bytes);
    let parts: Vec<&[u8]> = [all.as_bytes()].into_iter().chain(secrets).collect();
    fingerprint(&parts, 32)
}

fn secrets(model: &Model) -> impl Iterator<Item = &String> {
    let actions = model.listeners.values().flat_map(|listener| {
        let rules = listener.rules.iter().flat_map(|rule| &rule.settings.actions);
        listener.default_actions.iter().chain(rules)
    });
    actions.filter_map(|action| match action {
        RuleAction::AuthenticateOidc(oidc) => oidc.client_secret.as_ref(),
        _ => None,
    })
}

/// The kind of part that an action puts right; none where it changes nothing of a balancer.
pub fn part(action: &Action) -> Option<&'static str> {
    Some(match action {
        Action::Bind(_) | Action::Balancer(BalancerAction::Verify { .. } | BalancerAction::Adopt { .. }) => {
            return None;
        }
        Action::Balancer(action) => match action {
            BalancerAction::SetSubnets { .. } => "subnets",
            BalancerAction::SetSecurityGroups { .. } => "security_groups",
            BalancerAction::SetIpAddressType { .. } => "ip_address_type",
            BalancerAction::SetAttributes { .. } => "load_balancer_attribute",
            BalancerAction::SetWebAcl { .. } => "web_acl",
            BalancerAction::SetCapacity { .. } => "capacity",
            BalancerAction::AddTags { .. } | BalancerAction::RemoveTags { .. } => "tag",
            _ => "load_balancer",
        },
        Action::Group(action) => match action {
            GroupAction::SetHealthCheck { .. } => "health_check",
            GroupAction::SetAttributes { .. } => "target_group_attribute",
            GroupAction::AddTags { .. } | GroupAction::RemoveTags { .. } => "tag",
            GroupAction::Create(_) | GroupAction::Delete { .. } => "target_group",
        },
        Action::Security(action) => match action {
            SecurityAction::Authorize { .. } | SecurityAction::Revoke { .. } => "security_group_rule",
            SecurityAction::AddTags { .. } | SecurityAction::RemoveTags { .. } => "tag",
            SecurityAction::Create { .. } | SecurityAction::Delete { .. } => "security_group",
        },
        Action::Listener(action) => match action {
            ListenerAction::Create { .. } | ListenerAction::Modify { .. } | ListenerAction::Delete { .. } => "listener",
            ListenerAction::SetAttributes { .. } => "listener_attribute",
            ListenerAction::AddCertificates { .. } | ListenerAction::RemoveCertificates { .. } => "certificate",
            ListenerAction::AddTags { .. } | ListenerAction::RemoveTags { .. } => "tag",
            ListenerAction::CreateRule { .. }
            | ListenerAction::ModifyRule { .. }
            | ListenerAction::SetPriorities { .. }
            | ListenerAction::DeleteRule { .. } => "rule",
        },
    })
}

/// What these actions find different, each thing once.
pub fn differences(observed: &Observed, actions: &[Action]) -> Vec<Difference> {
    let (mut simulation, mut before) = (Simulation::default(), observed.assets.clone());
    let mut found: Vec<Difference> = Vec::new();
    for action in actions {
        let mut after = before.clone();
        simulation.enter(&mut after, &observed.subnets, action);
        if let Some(part) = part(action) {
            for told in changes(action, &before, &after, None).iter().map(told) {
                let new = Difference { part, told };
                if !found.contains(&new) {
                    found.push(new);
                }
            }
        }
        before = after;
    }
    found
}

fn told(change: &Change) -> String {
    let subject = &change.subject;
    if change.call.starts_with("Create") && change.call != "CreateTags" {
        return format!("{subject} was missing");
    }
    if change.call.starts_with("Delete") && change.call != "DeleteTags" {
        return format!("{subject} was too much");
    }
    let fields = change.fields.iter().map(|field| match (&field.old, &field.new) {
        (Some(old), Some(new)) => format!("{} was {old}, not {new}", field.path),
        (Some(old), None) => format!("{} was {old}", field.path),
        (None, Some(new)) => format!("{} was missing, not {new}", field.path),
        (None, None) => field.path.clone(),
    });
    format!("{subject}: {}", fields.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(minute.minutes()).unwrap()
    }

    fn difference(part: &'static str, told: &str) -> Difference {
        Difference { part, told: told.into() }
    }

    /// Takes in a decision of that minute; `found` is what is to be changed.
    fn take(state: &mut State, minute: i64, basis: &str, right: bool, found: &[Difference]) -> Option<Repaired> {
        let (looked, now) = (at(minute), at(minute));
        let differences = || found.to_vec();
        let changes = !found.is_empty();
        state.take(&Decided { basis: basis.into(), differences: &differences, changes, right, looked, now })
    }

    #[test]
    fn what_differs_from_what_was_right_is_drift_and_told_when_it_is_put_right() {
        let (mut state, rule) = (State::default(), difference("rule", "rule 1 was missing"));
        assert_eq!(take(&mut state, 1, "a", true, &[]), None);
        assert_eq!(take(&mut state, 2, "a", false, std::slice::from_ref(&rule)), None);
        // It takes more than one round, or a failure comes between.
        assert_eq!(take(&mut state, 3, "a", false, &[difference("tag", "another")]), None);
        assert_eq!(take(&mut state, 3, "a", false, &[]), None);
        let told = take(&mut state, 4, "a", true, &[]).unwrap();
        assert_eq!(told.differences, [rule]);
        let note = told.note.unwrap();
        assert!(note.contains("rule 1 was missing") && note.contains("1970-01-01T00:01:00Z"), "{note}");
        assert_eq!(take(&mut state, 5, "a", true, &[]), None, "once");
    }

    #[test]
    fn a_creation_an_edit_and_what_a_new_process_finds_are_no_drift() {
        let (mut state, tag) = (State::default(), [difference("tag", "x")]);
        assert_eq!(take(&mut state, 1, "a", false, &tag), None);
        assert_eq!(take(&mut state, 2, "a", true, &[]), None, "created, or found by a new process");
        assert_eq!(take(&mut state, 3, "b", false, &tag), None);
        assert_eq!(take(&mut state, 4, "b", true, &[]), None, "edited");
        assert_eq!(take(&mut state, 5, "c", true, &[]), None, "edited in what AWS has not to follow");
        assert_eq!(take(&mut state, 6, "c", false, &tag), None);
        assert!(take(&mut state, 7, "c", true, &[]).is_some());
    }

    #[test]
    fn what_was_waited_for_is_no_drift() {
        let (mut state, rule) = (State::default(), [difference("rule", "x")]);
        take(&mut state, 1, "a", true, &[]);
        assert_eq!(take(&mut state, 2, "a", false, &[]), None, "targets are not healthy yet");
        assert_eq!(take(&mut state, 3, "a", false, &rule), None);
        assert_eq!(take(&mut state, 4, "a", true, &[]), None);
    }

    #[test]
    fn a_rival_is_told_of_once_in_ten_minutes_and_counted() {
        let mut state = State::default();
        let mut told = Vec::new();
        for minute in 0..25 {
            take(&mut state, minute, "a", true, &[]);
            take(&mut state, minute, "a", false, &[difference("tag", "team was pirates")]);
            let repaired = take(&mut state, minute, "a", true, &[]).unwrap();
            assert_eq!(repaired.differences.len(), 1, "each is counted");
            told.extend(repaired.note.map(|note| (minute, note)));
        }
        assert_eq!(told.iter().map(|(minute, _)| *minute).collect::<Vec<_>>(), [0, 10, 20]);
        assert!(told[1].1.contains("9 more times"), "{told:?}");
        take(&mut state, 25, "a", false, &[difference("rule", "gone"), difference("tag", "team was pirates")]);
        let note = take(&mut state, 25, "a", true, &[]).unwrap().note.unwrap();
        assert!(note.contains("gone") && !note.contains("pirates"), "another part is told at once: {note}");
    }

    #[test]
    fn a_long_list_is_cut() {
        let found: Vec<Difference> = (0..9).map(|number| difference("rule", &format!("rule {number}"))).collect();
        let mut state = State::default();
        take(&mut state, 1, "a", true, &[]);
        take(&mut state, 2, "a", false, &found);
        let note = take(&mut state, 3, "a", true, &[]).unwrap().note.unwrap();
        assert!(note.ends_with("rule 5; and 3 more"), "{note}");
    }
}
