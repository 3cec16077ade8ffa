//! Reports and counts what others changed in AWS and the operator put right, and reports what it leaves. Pure but for the
//! cache.
//!
//! A difference is drift only if this process found everything right before, and nothing that AWS should follow has
//! changed since: no spec, security group, Secret, certificate or subnet. What a restarted operator finds is no drift,
//! nor is what the operator has begun itself. The difference is taken between the states before and after the repair,
//! so intermediate steps are no drift.

mod difference;
mod open;
pub mod rivals;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{Timestamp, ToSpan};
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;

use causeway_aws::elbv2::RuleAction;
use causeway_runtime::{Health, Plan};

use super::action::{Action, BalancerAction};
use super::members::key;
use super::model::{Model, SubnetsModel};
use super::ownership::ObjectKey;
use super::targets::{Endpoints, Wanted};
use crate::observe::facts::{Observed, key_of};
use crate::region::assets::Assets;

pub use difference::{Difference, Repair};
use open::{Open, moved, open};

/// An event names at most this many differences; the others are counted.
const MOST_NAMED: usize = 6;
/// Drift of the same kind is reported at most once in this many minutes, however often a rival repeats it.
const PAUSE: i64 = 10;

/// The decisions, as far as drift depends on it.
pub struct Decided<'a> {
    /// A hash of everything that AWS should follow.
    pub basis: u64,
    /// The resources that exist in AWS.
    pub assets: &'a Assets,
    /// The planned changes of all that belongs to a balancer.
    pub changes: Vec<&'a Action>,
    /// The present values of what the spec leaves open, if everything is right.
    pub open: Open,
    /// True if everything is right, and no change is waited for.
    pub right: bool,
    /// When AWS was looked at.
    pub looked: Timestamp,
    /// The current time.
    pub now: Timestamp,
}

impl<'a> Decided<'a> {
    /// From a plan, and the observation that it was made for.
    /// `awaits` says whether some member waits for targets.
    pub fn new<Status>(
        observed: &'a Observed,
        plan: &'a Plan<Action, Status>,
        awaits: bool,
        looked: Timestamp,
        now: Timestamp,
    ) -> Self {
        let waits = awaits || plan.requeue.is_some() || !observed.refusals.is_empty();
        let right = plan.actions.is_empty() && matches!(plan.health, Health::Ready(_)) && !waits;
        let model = observed.built.model.as_ref().filter(|_| right);
        Self {
            basis: observed.basis,
            assets: &observed.assets,
            changes: plan.actions.iter().filter(|it| alters(it)).collect(),
            open: model.map(|model| open(&observed.owner, model, &observed.assets)).unwrap_or_default(),
            right,
            looked,
            now,
        }
    }
}

/// Reports whether an action changes what belongs to a balancer.
pub fn alters(action: &Action) -> bool {
    !matches!(action, Action::Bind(_) | Action::Balancer(BalancerAction::Verify { .. } | BalancerAction::Adopt { .. }))
}

/// Drift that was put right, or that stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// Differences that were repaired.
    pub repaired: Vec<Difference>,
    /// The message of the event about that; none if the same was reported a moment ago.
    pub note: Option<String>,
    /// The message of the event about what changed and stays, because the spec leaves it open.
    pub left: Option<String>,
}

/// Everything known about one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    standing: Standing,
    /// When each kind of part was reported last, and how often it was changed since.
    reported: BTreeMap<&'static str, (Timestamp, u32)>,
    /// The values that the spec left open when everything was right last for this basis, with the hash of that basis.
    open: Option<(u64, Open)>,
    open_reported: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// Nothing was found right yet, or what AWS should follow has changed since.
    #[default]
    Unknown,
    /// Everything was right for this basis when AWS was looked at, at that time.
    Right { basis: u64, at: Timestamp },
    /// Drift is being put right, and when everything was right last.
    Mending { basis: u64, repair: Box<Repair>, right: Timestamp },
}

impl State {
    /// Reports whether everything was right for what AWS should follow now.
    pub fn was_right(&self, observed: &Observed) -> bool {
        match &self.standing {
            Standing::Right { basis, .. } | Standing::Mending { basis, .. } => *basis == observed.basis,
            Standing::Unknown => false,
        }
    }

    /// Takes in what was decided; returns drift that has just been put right, and what changed and stays.
    pub fn take(&mut self, decided: &Decided) -> Drift {
        // Edits during the repair cannot be told apart from drift.
        if matches!(&self.standing, Standing::Mending { basis, .. } if *basis != decided.basis) {
            self.standing = Standing::Unknown;
        }
        if !decided.changes.is_empty() {
            match &mut self.standing {
                Standing::Right { basis, at } if *basis == decided.basis => {
                    let mut repair = Box::new(Repair::begin(decided.assets));
                    repair.take(&decided.changes, decided.assets);
                    self.standing = Standing::Mending { basis: *basis, repair, right: *at };
                }
                Standing::Mending { repair, .. } => repair.take(&decided.changes, decided.assets),
                Standing::Right { .. } | Standing::Unknown => self.standing = Standing::Unknown,
            }
            return Drift::default();
        }
        if !decided.right {
            // An object that waits for something will change AWS later by itself, which is no drift.
            if matches!(self.standing, Standing::Right { .. }) {
                self.standing = Standing::Unknown;
            }
            return Drift::default();
        }
        let left = self.open_changes(decided);
        let right = Standing::Right { basis: decided.basis, at: decided.looked };
        match std::mem::replace(&mut self.standing, right) {
            Standing::Mending { repair, right, .. } => {
                let differences = repair.differences(decided.assets);
                if differences.is_empty() {
                    return Drift { left, ..Drift::default() };
                }
                Drift { left, ..self.tell(differences, right, decided.now) }
            }
            _ => Drift { left, ..Drift::default() },
        }
    }

    /// Returns the changes since everything was right last that stay, because the spec leaves them open.
    fn open_changes(&mut self, decided: &Decided) -> Option<String> {
        let known = self.open.take().filter(|(basis, _)| *basis == decided.basis);
        let changed: Vec<String> = known.iter().flat_map(|(_, before)| moved(before, &decided.open)).collect();
        if !changed.is_empty() && !is_due(self.open_reported, decided.now) {
            // It is compared again later, so the last value is reported.
            self.open = known;
            return None;
        }
        self.open = Some((decided.basis, decided.open.clone()));
        if changed.is_empty() {
            return None;
        }
        self.open_reported = Some(decided.now);
        Some(left_note(&changed))
    }

    fn tell(&mut self, differences: Vec<Difference>, right: Timestamp, now: Timestamp) -> Drift {
        let parts: BTreeSet<&'static str> = differences.iter().map(|it| it.part).collect();
        let last = |part: &str| self.reported.get(part).map(|(at, _)| *at);
        let due: BTreeSet<&'static str> = parts.iter().filter(|part| is_due(last(part), now)).copied().collect();
        let shown: Vec<&Difference> = differences.iter().filter(|it| due.contains(it.part)).collect();
        let note = (!shown.is_empty()).then(|| {
            let silent = due.iter().filter_map(|part| self.reported.get(part)).map(|(_, times)| times).sum();
            note(&shown, right, silent)
        });
        for part in parts {
            if due.contains(part) {
                self.reported.insert(part, (now, 0));
            } else if let Some((_, times)) = self.reported.get_mut(part) {
                *times += 1;
            }
        }
        Drift { repaired: differences, note, left: None }
    }
}

/// Reports whether to report again what was reported then.
fn is_due(reported: Option<Timestamp>, now: Timestamp) -> bool {
    reported.is_none_or(|at| at.checked_add(PAUSE.minutes()).is_ok_and(|due| due <= now))
}

fn note(differences: &[&Difference], right: Timestamp, silent: u32) -> String {
    let parts = listed(differences.iter().map(|it| it.message.clone()).collect());
    let often = match silent {
        0 => String::new(),
        times => format!(" (similar changes were repaired {times} more times since the last such event)"),
    };
    let right = right.round(jiff::Unit::Second).unwrap_or(right);
    format!("Put right what somebody else changed in AWS after {right}, when it was right{often}: {parts}")
}

fn left_note(changed: &[String]) -> String {
    format!(
        "AWS was changed from outside of Causeway where the spec leaves the value open, so it stays: {}. To have a value \
         kept, set its field in the spec",
        listed(changed.to_vec())
    )
}

fn listed(mut messages: Vec<String>) -> String {
    let more = messages.len().saturating_sub(MOST_NAMED);
    messages.truncate(MOST_NAMED);
    messages.extend((more > 0).then(|| format!("and {more} more")));
    messages.join("; ")
}

/// Everything known about all owners.
#[derive(Debug, Default)]
pub struct DriftCache(Mutex<HashMap<ObjectKey, State>>);

impl DriftCache {
    /// Takes in what was decided for an owner.
    pub fn take(&self, owner: &ObjectKey, decided: &Decided) -> Drift {
        self.0.lock().entry(owner.clone()).or_default().take(decided)
    }

    /// Reports whether everything was right for what AWS should follow now.
    pub fn was_right(&self, observed: &Observed) -> bool {
        let states = self.0.lock();
        states.get(&key_of(&observed.owner)).is_some_and(|state| state.was_right(observed))
    }

    /// Forgets owners that no longer exist as an object or as a group of objects.
    pub fn retain(&self, living: &BTreeSet<String>) {
        self.0.lock().retain(|(_, uid), _| living.contains(uid));
    }
}

/// A hash of everything that AWS should follow. As long as it is the same, no user asked the operator for a change. The
/// model is left out: it is large, and follows from what is hashed.
pub fn basis(observed: &Observed) -> u64 {
    let mut all = DefaultHasher::new();
    for member in &observed.members.present {
        // The generation counts the changes of a spec.
        (key(member), member.uid(), member.meta().generation).hash(&mut all);
    }
    let unable = observed.members.refused.keys().chain(observed.built.complaints.keys());
    unable.for_each(|member| member.hash(&mut all));
    let asked = observed.built.model.as_ref().map(|model| &model.balancer.subnets);
    // Subnets that the spec names by id are looked up only while a balancer is missing.
    let found = matches!(asked, Some(SubnetsModel::Tagged { .. })).then_some(&observed.subnets);
    for subnet in found.into_iter().flatten() {
        // The number of free addresses changes all the time, and does not move an existing balancer.
        (&subnet.id, &subnet.vpc, &subnet.zone, subnet.ipv6).hash(&mut all);
    }
    for group in &observed.security_groups {
        (&group.id, &group.vpc, &group.tags).hash(&mut all);
    }
    for certificate in &observed.certificates {
        (&certificate.arn, &certificate.names, certificate.expires).hash(&mut all);
    }
    for (name, endpoints) in &observed.endpoints {
        if let Endpoints::Known(Wanted { check, .. }) = endpoints {
            (name, check).hash(&mut all);
        }
    }
    observed.built.model.iter().flat_map(secrets).for_each(|secret| secret.hash(&mut all));
    all.finish()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::SecurityAction;
    use causeway_aws::ec2::SecurityGroup;
    use causeway_aws::elbv2::Pairs;

    fn timestamp(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(minute.minutes()).unwrap()
    }

    /// A security group with a tag of this value, or none.
    fn assets(team: Option<&str>) -> Assets {
        let with = |team: &str| SecurityGroup { tags: [("team".to_owned(), team.to_owned())].into(), ..group("sg-1") };
        let group = team.map(with);
        Assets { security_groups: group.into_iter().map(|it| (it.id.clone(), it)).collect(), ..Assets::default() }
    }

    fn group(id: &str) -> SecurityGroup {
        let (name, vpc, none) = ("web".into(), "vpc-1".into(), BTreeSet::new);
        SecurityGroup { id: id.into(), name, vpc, tags: Pairs::new(), ingress: none(), egress: none() }
    }

    const GOOD: Option<&str> = Some("shop");
    const PIRATES: Option<&str> = Some("pirates");

    fn hash_of(letter: &str) -> u64 {
        u64::from(letter.as_bytes()[0])
    }

    /// In that minute something is found that is to be changed.
    fn finds(state: &mut State, minute: i64, basis: &str, found: Option<&str>) {
        let (looked, now, assets) = (timestamp(minute), timestamp(minute), assets(found));
        let actions = [repair(found)];
        let (changes, open) = (actions.iter().collect(), Open::new());
        let decided = Decided { basis: hash_of(basis), assets: &assets, changes, open, right: false, looked, now };
        assert_eq!(state.take(&decided), Drift::default());
    }

    /// The action that makes it [`GOOD`].
    fn repair(found: Option<&str>) -> Action {
        let tags = Pairs::from([("team".to_owned(), "shop".to_owned())]);
        Action::Security(match found {
            Some(_) => SecurityAction::AddTags { id: "sg-1".into(), tags },
            None => SecurityAction::Create { name: "web".into(), vpc: "vpc-1".into(), tags },
        })
    }

    /// Nothing is to be changed in that minute.
    fn rests(state: &mut State, minute: i64, basis: &str, right: bool) -> Option<Drift> {
        rests_with(state, minute, basis, right, &assets(GOOD), "ipv4")
    }

    /// The same for these resources, and a value that the spec leaves open.
    fn rests_with(
        state: &mut State,
        minute: i64,
        basis: &str,
        right: bool,
        assets: &Assets,
        kind: &str,
    ) -> Option<Drift> {
        let fields = [("kind".to_owned(), kind.to_owned())].into();
        let open = Open::from([("arn".to_owned(), ("load balancer web".to_owned(), fields))]);
        let (looked, now) = (timestamp(minute), timestamp(minute));
        let drift =
            state.take(&Decided { basis: hash_of(basis), assets, changes: Vec::new(), open, right, looked, now });
        (drift != Drift::default()).then_some(drift)
    }

    #[test]
    fn a_difference_from_the_right_state_is_reported_when_repaired() {
        let mut state = State::default();
        assert_eq!(rests(&mut state, 1, "a", true), None);
        finds(&mut state, 2, "a", PIRATES);
        // The repair takes more than one round, or a failure comes between.
        finds(&mut state, 3, "a", Some("a step between"));
        assert_eq!(rests(&mut state, 3, "a", false), None);
        let message = rests(&mut state, 4, "a", true).unwrap();
        let words = "security group web: tags.team was pirates, not shop";
        assert_eq!(message.repaired, [Difference { part: "tag", message: words.into() }]);
        let note = message.note.unwrap();
        assert!(note.contains(words) && note.contains("1970-01-01T00:01:00Z"), "{note}");
        assert_eq!(rests(&mut state, 5, "a", true), None, "once");
    }

    #[test]
    fn creations_edits_and_first_observations_are_no_drift() {
        let mut state = State::default();
        finds(&mut state, 1, "a", None);
        assert_eq!(rests(&mut state, 2, "a", true), None, "created, or found by a new process");
        finds(&mut state, 3, "b", PIRATES);
        assert_eq!(rests(&mut state, 4, "b", true), None, "edited");
        assert_eq!(rests(&mut state, 5, "c", true), None, "edited in what AWS has not to follow");
        finds(&mut state, 6, "c", PIRATES);
        finds(&mut state, 7, "d", PIRATES);
        assert_eq!(rests(&mut state, 8, "d", true), None, "edited before it was put right");
        finds(&mut state, 9, "d", PIRATES);
        assert!(rests(&mut state, 10, "d", true).is_some());
    }

    #[test]
    fn what_was_waited_for_is_no_drift() {
        let mut state = State::default();
        rests(&mut state, 1, "a", true);
        assert_eq!(rests(&mut state, 2, "a", false), None, "targets are not healthy yet");
        finds(&mut state, 3, "a", PIRATES);
        assert_eq!(rests(&mut state, 4, "a", true), None);
    }

    #[test]
    fn what_is_the_same_after_its_repair_was_no_drift() {
        let mut state = State::default();
        rests(&mut state, 1, "a", true);
        finds(&mut state, 2, "a", GOOD);
        assert_eq!(rests(&mut state, 3, "a", true), None);
    }

    #[test]
    fn a_rival_is_reported_once_in_ten_minutes_and_counted() {
        let mut state = State::default();
        let mut message = Vec::new();
        for minute in 0..25 {
            rests(&mut state, minute, "a", true);
            finds(&mut state, minute, "a", PIRATES);
            let repaired = rests(&mut state, minute, "a", true).unwrap();
            assert_eq!(repaired.repaired.len(), 1, "each is counted");
            message.extend(repaired.note.map(|note| (minute, note)));
        }
        assert_eq!(message.iter().map(|(minute, _)| *minute).collect::<Vec<_>>(), [0, 10, 20]);
        assert!(message[1].1.contains("9 more times"), "{message:?}");
        finds(&mut state, 25, "a", None);
        let note = rests(&mut state, 25, "a", true).unwrap().note.unwrap();
        assert!(note.ends_with("security group web was missing"), "another part is reported at once: {note}");
    }

    /// Others change two things, and Causeway puts back one of them: the other one is theirs.
    #[test]
    fn a_change_during_a_repair_is_not_reported_as_repaired() {
        let mut state = State::default();
        rests(&mut state, 1, "a", true);
        finds(&mut state, 2, "a", PIRATES);
        let mut after = assets(GOOD);
        for group in after.security_groups.values_mut() {
            group.tags.insert("billing".into(), "of others".into());
        }
        after.security_groups.insert("sg-2".into(), SecurityGroup { name: "other".into(), ..group("sg-2") });
        let drift = rests_with(&mut state, 3, "a", true, &after, "ipv4").unwrap();
        let words = "security group web: tags.team was pirates, not shop";
        assert_eq!(drift.repaired, [Difference { part: "tag", message: words.into() }]);
    }

    #[test]
    fn a_change_that_stays_is_reported_once_with_its_value() {
        let mut state = State::default();
        let mut rests = |minute, basis: &str, kind: &str| {
            let drift = rests_with(&mut state, minute, basis, true, &assets(GOOD), kind)?;
            assert_eq!((drift.repaired, drift.note), (Vec::new(), None));
            drift.left
        };
        assert_eq!(rests(1, "a", "ipv4"), None);
        let note = rests(2, "a", "dualstack").unwrap();
        assert!(
            note.contains("load balancer web: kind was ipv4, is dualstack") && note.contains("so it stays"),
            "{note}"
        );
        assert_eq!(rests(3, "a", "dualstack"), None, "once");
        assert_eq!(rests(4, "a", "ipv4"), None, "a rival that changes it all the time is told of seldom");
        assert!(rests(12, "a", "ipv4").unwrap().contains("kind was dualstack, is ipv4"));
        assert_eq!(rests(30, "b", "dualstack"), None, "an edit may be the reason");
    }

    #[test]
    fn a_long_list_is_cut() {
        let found = |number| Difference { part: "rule", message: format!("rule {number}") };
        let note = State::default().tell((0..9).map(found).collect(), timestamp(1), timestamp(2)).note.unwrap();
        assert!(note.ends_with("rule 5; and 3 more"), "{note}");
    }
}
