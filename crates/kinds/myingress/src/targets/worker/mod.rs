//! Keeps each bound group in a task of its own: reads it, follows its endpoints, and wakes objects when something
//! changed.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use causeway_aws::aws::AwsError;
use causeway_aws::elbv2::{Elbv2, Target, TargetHealth};
use causeway_runtime::metrics::Metrics;
use causeway_runtime::tenant::on_behalf_of;
use causeway_runtime::{Class, Environment, Failures};

use super::Shared;
use super::group::Group;
use super::planner::{FULL, Step};
use super::pods::Gates;
use super::priority::{Priorities, Priority};
use super::zones::Zones;

/// The first change is sent at once. Changes of other pods go into the next call together if they come while that call
/// is under way, or within this time after it was sent.
const GATHER: Duration = Duration::from_millis(50);
/// A group that does not come to rest, because its endpoints change all the time, is followed for this long at a time.
/// Then its reads and the readiness gates of its pods have their turn.
const FOLLOWED_FOR: Duration = Duration::from_secs(10);
/// A group with nothing to do still checks its state once in this time.
const IDLE: Duration = Duration::from_hours(1);

const READ: &str = "DescribeTargetHealth";
const GONE: &str = "TargetGroupNotFound";
const PANICKED: &str = "following the endpoints panicked; this is a bug in Causeway, the log has the details";

type Read = Result<BTreeMap<Target, TargetHealth>, AwsError>;

/// The state that the tasks share.
struct Worker {
    shared: Arc<Shared>,
    elb: Elbv2,
    /// Makes only calls that no other read needs.
    spare: Elbv2,
    zones: Arc<Zones>,
    priorities: Arc<Priorities>,
    gates: Gates,
    failures: Failures,
    metrics: Metrics,
    sweep: Duration,
    stop: CancellationToken,
}

/// Keeps every bound group until `environment.stop`. Calls in flight are finished before it returns.
pub async fn run(shared: &Arc<Shared>, elb: &Elbv2, zones: &Arc<Zones>, environment: &Environment) {
    let worker = Arc::new(Worker {
        shared: shared.clone(),
        elb: elb.clone(),
        spare: elb.in_background(),
        zones: zones.clone(),
        priorities: Arc::default(),
        gates: Gates::new(environment.client.clone(), environment.sweep),
        failures: Failures::default(),
        metrics: environment.metrics.clone(),
        sweep: environment.sweep,
        stop: environment.stop.clone(),
    });
    let mut tasks = JoinSet::new();
    loop {
        for group in shared.registry.take_unkept() {
            tasks.spawn(keep(worker.clone(), group));
        }
        tokio::select! {
            () = environment.stop.cancelled() => break,
            () = shared.registry.unkept.notified() => {}
            Some(_) = tasks.join_next() => {}
        }
    }
    tasks.join_all().await;
}

async fn keep(worker: Arc<Worker>, group: Arc<Group>) {
    let (mut looks, mut sent) = (Looks::default(), Sent::default());
    loop {
        let namespace = group.state().backend.namespace.clone();
        let turn = on_behalf_of(&namespace, Box::pin(worker.turn(&group, &mut looks, &mut sent)));
        let turn = AssertUnwindSafe(turn).catch_unwind();
        if turn.await.is_err() {
            worker.not_changed(&group, Class::Transient, PANICKED.into());
        }
        let due = group.state().due(looks.urgency.is_some());
        let due = due.unwrap_or_else(|| Instant::now() + IDLE);
        tokio::select! {
            biased;
            () = worker.stop.cancelled() => return,
            // Before changes: those of a group that does not come to rest have no end.
            Some(look) = looks.under_way.join_next() => {
                looks.urgency = None;
                worker.looked(&group, look.ok());
            }
            () = group.changed.notified() => sleep_until(sent.gathers_until(Instant::now()).into()).await,
            () = sleep_until(due.into()) => {}
        }
        if worker.shared.registry.retire(&group) {
            worker.failures.record_success(&group.arn);
            worker.failures.record_success(&reads_of(&group.arn));
            worker.gates.forget(&group);
            return;
        }
    }
}

/// The read that is under way, at most one. It has a task of its own because it waits in the same queue as the changes:
/// once its turn comes, it must go on.
#[derive(Default)]
struct Looks {
    under_way: JoinSet<Read>,
    urgency: Option<Priority>,
}

/// When the last change was sent.
#[derive(Debug, Default)]
struct Sent(Option<Instant>);

impl Sent {
    /// Until when changes are gathered. There is no wait unless a change was sent just before.
    fn gathers_until(&self, now: Instant) -> Instant {
        self.0.map_or(now, |sent| (sent + GATHER).max(now))
    }
}

impl Looks {
    fn begin(&mut self, worker: &Worker, group: &Group, priority: Priority) {
        if self.urgency.is_some_and(|urgency| urgency <= priority) {
            return;
        }
        self.forget();
        self.urgency = Some(priority);
        let elb = if priority == Priority::Recheck { &worker.spare } else { &worker.elb };
        let (elb, priorities, arn) = (elb.clone(), worker.priorities.clone(), group.arn.clone());
        let namespace = group.state().backend.namespace.clone();
        self.under_way.spawn(async move {
            let _turn = priorities.turn(priority, &namespace).await;
            on_behalf_of(&namespace, elb.target_health(&arn)).await
        });
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

fn reads_of(arn: &str) -> String {
    format!("{arn} read")
}

impl Worker {
    /// Does what can be done now.
    async fn turn(&self, group: &Group, looks: &mut Looks, sent: &mut Sent) {
        let (waits, full) = {
            let (mut state, now) = (group.state(), Instant::now());
            (state.changing.holds_back(now), state.full.holds_back(now))
        };
        if !waits {
            self.follow(group, full, looks, sent).await;
        }
        self.gates.write_gates(&self.shared, group).await;
        let priority = group.state().look_due(Instant::now());
        if let Some(priority) = priority {
            looks.begin(self, group, priority);
        }
        self.tell(group);
    }

    /// Makes the calls that bring the group to its endpoints. `full` says whether a quota that has no room is not tried
    /// yet.
    async fn follow(&self, group: &Group, full: bool, looks: &mut Looks, sent: &mut Sent) {
        let begun = tokio::time::Instant::now();
        let (namespace, priority) = {
            let mut state = group.state();
            state.planner.begin(Instant::now(), full);
            (state.backend.namespace.clone(), if state.established { Priority::Follow } else { Priority::Fill })
        };
        let mut turn = None;
        while !self.stop.is_cancelled() && group.bound() {
            // Checked again before each call: the endpoints may have changed during the wait for a turn.
            let Some((wanted, known)) = self.shared.aim(group) else { return };
            let gone = self.shared.gone_targets(group);
            let step = group.state().planner.next(&wanted, &gone);
            if matches!(step, Step::Read | Step::Rest) {
                self.agreed(group, &wanted, known);
                return;
            }
            // Given back after each call, so that the other namespaces have their turns before the next one.
            let Some(_turn) = turn.take() else {
                turn = self.priorities.turn(priority, &namespace).await;
                continue;
            };
            sent.0 = Some(Instant::now());
            let outcome = match &step {
                Step::Register(targets) => self.register(group, targets).await,
                Step::Deregister(targets) => self.deregister(group, targets).await,
                Step::Read | Step::Rest => Ok(()),
            };
            if let Err(error) = outcome {
                if error.ambiguous {
                    // A read that is under way may show the state before the call.
                    looks.forget();
                }
                if error.is(FULL) {
                    self.no_room(group, &error);
                } else {
                    self.not_changed(group, error.class, error.to_string());
                }
                if error.is(GONE) {
                    self.shared.registry.wake(group.state().objects_to_wake());
                    return;
                }
            }
            if begun.elapsed() >= FOLLOWED_FOR {
                group.changed.notify_one();
                return;
            }
        }
    }

    async fn register(&self, group: &Group, targets: &[Target]) -> Result<(), AwsError> {
        let vpc = group.state().vpc.clone();
        let outside = match &vpc {
            Some(vpc) => self.zones.outside(vpc, targets).await,
            None => BTreeSet::new(),
        };
        let outcome = self.elb.register_targets(&group.arn, targets, &outside).await;
        let (mut state, now) = (group.state(), Instant::now());
        state.wrote(now);
        match outcome {
            Ok(()) => {
                state.planner.registered(targets, now);
                if let Some(since) = state.behind_since {
                    self.metrics.targets_registered(now.duration_since(since));
                }
                tracing::info!(group = group.arn, ?targets, "targets registered");
                Ok(())
            }
            Err(error) if state.planner.not_registered(targets, &error, now) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn deregister(&self, group: &Group, targets: &[Target]) -> Result<(), AwsError> {
        let outcome = self.elb.deregister_targets(&group.arn, targets).await;
        let (mut state, now) = (group.state(), Instant::now());
        state.wrote(now);
        match outcome {
            Ok(()) => {
                state.planner.deregistered(targets, now);
                tracing::info!(group = group.arn, ?targets, "targets deregistered");
                Ok(())
            }
            Err(error) => {
                state.planner.not_deregistered(&error);
                Err(error)
            }
        }
    }

    /// Notes that the group has the wanted targets, if it has. `known` says whether they are its endpoints.
    fn agreed(&self, group: &Group, wanted: &BTreeSet<Target>, known: bool) {
        let mut state = group.state();
        if state.planner.arrived(wanted) {
            if known {
                state.established = true;
                state.behind_since = None;
            }
            state.changing.note_success();
            state.full.note_success();
            self.failures.record_success(&group.arn);
        }
    }

    /// Notes that a change failed. It is made again after a pause.
    fn not_changed(&self, group: &Group, class: Class, why: String) {
        let delay = self.failures.record_failure(&group.arn, class, self.sweep);
        tracing::warn!(group = group.arn, error = why, class = class.as_str(), ?delay, "targets not changed");
        group.state().changing.suffer(why, delay, Instant::now());
    }

    /// Notes that a quota has no room for more targets. It is tried again after a pause; all other changes go on.
    fn no_room(&self, group: &Group, error: &AwsError) {
        let delay = self.failures.record_failure(&group.arn, error.class, self.sweep);
        tracing::warn!(group = group.arn, %error, ?delay, "no room for more targets");
        group.state().full.suffer(error.to_string(), delay, Instant::now());
    }

    /// Enters the outcome of a read; `None` if it panicked.
    fn looked(&self, group: &Group, outcome: Option<Read>) {
        let panicked = || Err(AwsError::stale(READ, PANICKED.into()));
        let outcome = outcome.unwrap_or_else(panicked);
        let (mut state, now) = (group.state(), Instant::now());
        for recheck in state.take_rechecks() {
            // A receiver that was dropped needs no answer.
            let _ = recheck.send(outcome.as_ref().map(|_| ()).map_err(Clone::clone));
        }
        match outcome {
            Ok(answer) => {
                let before = state.planner.cache.states();
                state.planner.read(answer, now);
                let news = state.planner.cache.states() != before;
                state.looked(now, news);
                state.reading.note_success();
                self.failures.record_success(&reads_of(&group.arn));
            }
            Err(error) => {
                let delay = self.failures.record_failure(&reads_of(&group.arn), error.class, self.sweep);
                state.reading.suffer(error.to_string(), delay, now);
                let woken = if error.is(GONE) { state.objects_to_wake() } else { BTreeSet::new() };
                drop(state);
                self.shared.registry.wake(woken);
            }
        }
    }

    /// Wakes the objects that have something new to report.
    fn tell(&self, group: &Group) {
        let backend = group.state().backend.clone();
        let endpoints = self.shared.endpoints(&backend);
        let woken = group.state().news(&endpoints);
        self.shared.registry.wake(woken);
    }
}

#[cfg(test)]
mod fairness;
#[cfg(test)]
mod quota;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod selectors;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_change_is_sent_at_once_others_gather() {
        let now = Instant::now();
        assert_eq!(Sent(None).gathers_until(now), now);
        let sent = Sent(Some(now));
        assert_eq!(sent.gathers_until(now), now + GATHER);
        assert_eq!(sent.gathers_until(now + GATHER / 2), now + GATHER);
        // During a call that took longer, changes were gathered all the time.
        assert_eq!(sent.gathers_until(now + GATHER * 3), now + GATHER * 3);
    }
}
