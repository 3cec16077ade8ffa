//! A bound target group: what is known about it, and its summary for the status.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

use causeway_aws::aws::AwsError;
use causeway_aws::elbv2::{Target, TargetState};

use super::cache::TargetCache;
use super::cadence::next_look;
use super::planner::Planner;
use super::priority::Priority;
use super::summary::summary;
use super::wanted::Wanted;
use super::{Backend, Binding, Endpoints, Shared, Summary};
use crate::ownership::ObjectKey;

/// A group without a healthy target counts as one that serves for this long: its pods may only be restarting.
const RESTART: Duration = Duration::from_mins(5);

/// A bound target group.
pub struct Group {
    pub arn: String,
    /// Notified when there is something to look at.
    pub changed: Notify,
    state: Mutex<State>,
}

/// Everything known about a group.
pub struct State {
    /// Its VPC, where that is known.
    pub vpc: Option<String>,
    /// The backend that it follows.
    pub backend: Backend,
    /// The one that it followed before, and whose targets stay.
    pub former: Option<Backend>,
    /// Objects to wake, by the owner that bound the group.
    wake: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Plans how it comes to agree with its endpoints.
    pub planner: Planner,
    /// True if it has agreed with its endpoints before: then requests may depend on it.
    pub established: bool,
    /// True if its endpoints are not known. Then it loses the targets of pods that go.
    pub adrift: bool,
    /// Since when there have been endpoints that it does not follow yet.
    pub behind_since: Option<Instant>,
    /// Failures of changing it.
    pub changing: Setback,
    /// Targets that a quota has no room for. They keep no other change from being made.
    pub full: Setback,
    /// Failures of reading it.
    pub reading: Setback,
    /// True if pods of it wait for their targets' health.
    pub pods_wait: bool,
    /// When to try again to write a readiness gate, if that failed.
    pub gates_at: Option<Instant>,
    /// When its health was last read, or it was last changed.
    looked: Instant,
    looks: u32,
    /// Until when a change of the group, or of what is before it, may make targets healthy or unhealthy.
    disturbed_until: Option<Instant>,
    /// Until when it counts as one that serves, since it was last seen to have a healthy target.
    serves_until: Option<Instant>,
    rechecks: Vec<oneshot::Sender<Result<(), AwsError>>>,
    reported: Option<(Endpoints, Summary)>,
}

impl Group {
    /// A group about which only its binding is known.
    pub fn new(arn: &str, binding: &Binding) -> Self {
        let now = Instant::now();
        let cache = if binding.created { TargetCache::empty(now) } else { TargetCache::default() };
        let state = State {
            vpc: binding.vpc.clone(),
            backend: binding.backend.clone(),
            former: binding.former.clone(),
            wake: BTreeMap::new(),
            planner: Planner::from(cache),
            established: false,
            adrift: false,
            behind_since: None,
            changing: Setback::default(),
            full: Setback::default(),
            reading: Setback::default(),
            pods_wait: false,
            gates_at: None,
            looked: now,
            looks: 0,
            disturbed_until: None,
            serves_until: None,
            rechecks: Vec::new(),
            reported: None,
        };
        Self { arn: arn.to_owned(), changed: Notify::new(), state: Mutex::new(state) }
    }

    /// Binds the group for an owner. Returns the backends that it followed if these were others.
    pub fn hold(&self, binding: &Binding, owner: &ObjectKey) -> Vec<Backend> {
        let mut state = self.state();
        state.wake.insert(owner.clone(), binding.owners.clone());
        state.vpc.clone_from(&binding.vpc);
        if (&state.backend, &state.former) == (&binding.backend, &binding.former) {
            return Vec::new();
        }
        let followed = state.followed();
        state.established &= state.backend == binding.backend;
        (state.backend, state.former) = (binding.backend.clone(), binding.former.clone());
        drop(state);
        self.endpoints_changed();
        followed
    }

    /// Releases the group for an owner. Returns the backends that it followed if no owner binds it any more.
    pub fn release(&self, owner: &ObjectKey) -> Vec<Backend> {
        let mut state = self.state();
        state.wake.remove(owner);
        let released = if state.wake.is_empty() { state.followed() } else { Vec::new() };
        self.changed.notify_one();
        released
    }

    /// Reports whether any owner binds it.
    pub fn bound(&self) -> bool {
        !self.state().wake.is_empty()
    }

    /// Notes that its endpoints may have changed.
    pub fn endpoints_changed(&self) {
        self.state().behind_since.get_or_insert_with(Instant::now);
        self.changed.notify_one();
    }

    /// Asks for a read soon. The outcome is sent to `answer`.
    pub fn recheck(&self, answer: oneshot::Sender<Result<(), AwsError>>) {
        self.state().rechecks.push(answer);
        self.changed.notify_one();
    }

    /// Notes a change of ours after which targets may become healthy or unhealthy within this time.
    pub fn disturbed(&self, within: Duration) {
        let now = Instant::now();
        let mut state = self.state();
        state.wrote(now);
        state.disturbed_until = state.disturbed_until.max(Some(now + within));
        self.changed.notify_one();
    }

    /// The summary of the group.
    pub fn summary(&self, shared: &Shared) -> Summary {
        let backend = self.state().backend.clone();
        let endpoints = shared.endpoints(&backend);
        self.state().summary(&endpoints)
    }

    /// Locks what is known about it.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// The backends whose targets it has.
    pub fn followed(&self) -> Vec<Backend> {
        self.former.iter().chain([&self.backend]).cloned().collect()
    }

    /// The summary of the group for these endpoints.
    pub fn summary(&mut self, endpoints: &Endpoints) -> Summary {
        let trouble = match endpoints {
            Endpoints::Known(Wanted { targets, .. }) => self.trouble(targets),
            _ => self.reading.text(),
        };
        let summary = summary(&self.planner.cache, endpoints, trouble);
        let now = Instant::now();
        self.serves_until =
            if summary.healthy > 0 { Some(now + RESTART) } else { self.serves_until.filter(|until| *until > now) };
        Summary { served_lately: self.serves_until.is_some(), ..summary }
    }

    /// Explains what keeps the group from having these targets.
    pub fn trouble(&self, wanted: &BTreeSet<Target>) -> Option<&str> {
        let change = self.changing.text().or_else(|| self.full.text());
        change.or_else(|| self.planner.refusal(wanted)).or_else(|| self.reading.text())
    }

    /// The objects to wake, if something changed since they were woken last.
    pub fn news(&mut self, endpoints: &Endpoints) -> BTreeSet<ObjectKey> {
        let summary = self.summary(endpoints);
        let situation = match endpoints {
            // The summary says which targets there are.
            Endpoints::Known(Wanted { check, refused, .. }) => {
                Endpoints::Known(Wanted { check: check.clone(), refused: refused.clone(), ..Wanted::default() })
            }
            other => other.clone(),
        };
        let news = Some((situation, summary));
        if self.reported == news {
            return BTreeSet::new();
        }
        self.reported = news;
        self.objects_to_wake()
    }

    /// Every object to wake.
    pub fn objects_to_wake(&self) -> BTreeSet<ObjectKey> {
        self.wake.values().flatten().cloned().collect()
    }

    /// Notes a change of ours. Its effect is looked for soon.
    pub fn wrote(&mut self, now: Instant) {
        (self.looked, self.looks) = (now, 0);
    }

    /// Notes a read. If it showed nothing new, the next one comes later.
    pub fn looked(&mut self, now: Instant, news: bool) {
        self.looked = now;
        self.looks = if news { 0 } else { self.looks.saturating_add(1) };
    }

    /// Takes the senders that wait for the outcome of the next read.
    pub fn take_rechecks(&mut self) -> Vec<oneshot::Sender<Result<(), AwsError>>> {
        std::mem::take(&mut self.rechecks)
    }

    /// Returns how urgent a read is, if one is due.
    pub fn look_due(&self, now: Instant) -> Option<Priority> {
        let due = self.look_at().is_some_and(|at| at <= now);
        if !due && !self.rechecks.is_empty() && !self.planner.cache.unknown() {
            return Some(Priority::Recheck);
        }
        due.then(|| match (self.planner.cache.unknown(), self.established, self.pods_wait) {
            (true, true, _) => Priority::Follow,
            (true, false, _) => Priority::Fill,
            (false, _, true) => Priority::Gate,
            (false, _, false) => Priority::Status,
        })
    }

    fn look_at(&self) -> Option<Instant> {
        let states = self.planner.cache.targets().map(|(_, health)| health.state);
        let due = if self.planner.cache.unknown() {
            self.looked
        } else {
            // The last read is one after that time.
            let disturbed = self.disturbed_until.is_some_and(|until| self.looked < until);
            self.looked + next_look(states, self.pods_wait, disturbed, self.looks)?
        };
        Some(self.reading.again_at.map_or(due, |again| again.max(due)))
    }

    /// When something is to be done even if nothing happens. `looking` says whether a read is under way.
    pub fn due(&self, looking: bool) -> Option<Instant> {
        let look = if looking { None } else { self.look_at() };
        let change = self.changing.again_at.or_else(|| self.planner.offered_again());
        let serves = self.planner.cache.targets().any(|(_, health)| health.state == TargetState::Healthy);
        let ends = self.serves_until.filter(|_| !serves);
        [look, change, self.full.again_at, self.gates_at, ends].into_iter().flatten().min()
    }
}

/// A failure, and when to try again.
#[derive(Debug, Default)]
pub struct Setback {
    again_at: Option<Instant>,
    text: Option<String>,
}

impl Setback {
    /// Notes a failure, and waits for the delay. A lost race is reported only if it happens again and again.
    pub fn suffer(&mut self, text: String, delay: Duration, now: Instant) {
        self.again_at = Some(now + delay);
        if delay >= WORTH_TELLING {
            self.text = Some(text);
        }
    }

    pub fn note_success(&mut self) {
        *self = Self::default();
    }

    /// Reports whether to wait. Once the delay is over, it is over for good.
    pub fn holds_back(&mut self, now: Instant) -> bool {
        self.again_at = self.again_at.filter(|again| *again > now);
        self.again_at.is_some()
    }

    fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

/// A failure with a shorter delay is not worth reporting.
const WORTH_TELLING: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::PortName;
    use causeway_aws::elbv2::{TargetHealth, TargetType};

    fn group() -> Group {
        let backend = Backend {
            namespace: "shop".into(),
            service: "web".into(),
            port: PortName::Number(80),
            target_type: TargetType::Ip,
            ipv6: false,
            nodes: BTreeMap::new(),
            check: None,
        };
        let owners = BTreeSet::new();
        Group::new("arn", &Binding { group_arn: None, vpc: None, backend, former: None, created: true, owners })
    }

    #[test]
    fn a_group_whose_pods_restart_served_lately() {
        let group = group();
        let served = |target| {
            shows(&group, target, Instant::now());
            group.state().summary(&Endpoints::NoSlices).served_lately
        };
        assert!(!served(TargetState::Unhealthy), "it never served");
        assert!(served(TargetState::Healthy));
        assert!(served(TargetState::Unhealthy));
        let ends = group.state().serves_until.unwrap();
        assert!(group.state().due(true).is_some_and(|due| due <= ends), "its objects are woken then");
        group.state().serves_until = Some(Instant::now());
        assert!(!served(TargetState::Unhealthy), "it does not come back");
    }

    /// AWS shows its only target in this state.
    fn shows(group: &Group, target: TargetState, at: Instant) {
        let health = TargetHealth { state: target, description: None };
        let mut state = group.state();
        let before = state.planner.cache.states();
        state.planner.read([(Target { id: "10.0.0.1".into(), port: 80 }, health)].into(), at);
        let news = state.planner.cache.states() != before;
        state.looked(at, news);
    }

    #[test]
    fn healthy_targets_are_looked_at_again_after_a_changed_check() {
        let (group, begun) = (group(), Instant::now());
        shows(&group, TargetState::Healthy, begun);
        assert_eq!(group.state().due(false), None, "nothing is expected to change");
        let within = Duration::from_mins(3);
        group.disturbed(within);
        let mut looks = Vec::new();
        let next = || group.state().due(false);
        while let Some(due) = next() {
            shows(&group, TargetState::Healthy, due);
            looks.push(due.duration_since(begun));
            assert!(looks.len() < 20, "it has no end: {looks:?}");
        }
        assert!(looks[0] < Duration::from_secs(2), "{looks:?}");
        assert!(looks.last().is_some_and(|last| *last >= within), "the last is after AWS has judged: {looks:?}");
        group.disturbed(within);
        shows(&group, TargetState::Unhealthy, Instant::now());
        assert!(group.state().due(false).is_some_and(|due| due < Instant::now() + Duration::from_secs(2)));
    }
}
