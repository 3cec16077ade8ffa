//! Runs a scenario undisturbed, then once for every state in which a dying process can leave the cluster and AWS.
//!
//! A process that died remembers nothing. So all is the same whether the reply to its last call arrived or not,
//! and the same as if it had died just before its next call. It is enough to try each call once: the controllers die
//! before its reply and after its reply in turn, and at the first call also before it is sent.

use std::any::Any;
use std::collections::BTreeSet;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::scenes::{Scenes, clear};
use super::state::State;
use crate::support::interception::kind_of;
use crate::support::sample;
use crate::support::wait::WAIT_TIMEOUT;
use crate::support::{Interception, Moment, Operator, Scene, Target, is_thorough, wait_for};

/// How many points are tried at the same time.
static PLACES: Semaphore = Semaphore::const_new(3);
/// Controllers that make no call for so long have nothing left to do.
const QUIET: Duration = Duration::from_millis(250);
/// A state that stays the same for so long has come to rest.
const REST: Duration = Duration::from_secs(10);
/// Sweeps would make calls forever, and a run would never end: the one at the start is enough.
const NO_SWEEP: Duration = Duration::from_hours(1);

/// A piece of work that controllers do.
pub trait Scenario: 'static {
    /// Its name, for people.
    const NAME: &'static str;

    /// True if the work is requested while no controllers run: then they may die while they start, too.
    const WHILE_AWAY: bool = false;

    /// At most so many calls are tried, each with one moment to die. They are others with each commit; a thorough run
    /// tries all calls. The unit tests beside the code, whose states are in memory, try all prefixes of all plans.
    const MOST: usize = usize::MAX;

    /// True if the controllers poll, so that no two runs make the same calls. Then they die only at changes, which are
    /// the same in all runs, and not at reads.
    const POLLS: bool = false;

    /// Makes what is there before, with controllers at work that do not die.
    fn prepare(scene: &Scene) -> impl Future<Output = ()> + Send;

    /// Asks for the work.
    fn act(scene: &Scene) -> impl Future<Output = ()> + Send;

    /// Reports whether the work is done.
    fn settled(scene: &Scene) -> impl Future<Output = bool> + Send;
}

/// Lets the controllers die everywhere. Panics with the list of points after which the state differs from the
/// undisturbed run's.
pub async fn die_everywhere<S: Scenario>() {
    let begun = Instant::now();
    let undisturbed = Interception::new();
    let scenes = Arc::new(Scenes::default());
    let permit = PLACES.acquire().await.expect("the semaphore is never closed");
    let reference = try_point::<S>(&scenes, &undisturbed, None, None).await;
    drop(permit);
    let usual = undisturbed.calls().len();
    let most = if is_thorough() { usize::MAX } else { S::MOST };
    let sampled = S::POLLS || usual > most;
    let seed = sample::seed();
    let tried = match (S::POLLS, sampled) {
        (true, _) => sample_of_changes(&undisturbed.calls(), most, seed),
        (false, true) => sample(&undisturbed.calls(), most, seed),
        (false, false) => (1..=usual).collect(),
    };
    // The first moment is tried at the first call alone: no run has to end before it reaches that point.
    let over = Moment::ALL.map(|moment| moment == Moment::ALL[0]);
    let mut trial = Trial { name: S::NAME, tried: [0; 3], over, failures: Vec::new() };
    let mut running = JoinSet::new();
    let mut n = 0;
    while n < usual || !sampled && trial.over.contains(&false) {
        n += 1;
        if n <= usual && !tried.contains(&n) {
            continue;
        }
        for &moment in moments(n, sampled, seed) {
            let permit = PLACES.acquire().await.expect("the semaphore is never closed");
            while let Some(done) = running.try_join_next() {
                trial.note(done.expect("a point catches its panics"));
            }
            // Runs differ by a call or two: all calls of the undisturbed run are tried in any case.
            if n > usual && trial.over[moment as usize] {
                continue;
            }
            let (scenes, reference) = (scenes.clone(), reference.clone());
            let target = if S::POLLS { of_kind(&undisturbed.calls(), n) } else { Target::Nth(n) };
            running.spawn(async move {
                let done = point::<S>(&scenes, n, (target, moment), &reference).await;
                drop(permit);
                done
            });
        }
    }
    while let Some(done) = running.join_next().await {
        trial.note(done.expect("a point catches its panics"));
    }
    scenes.close().await;
    trial.tell(usual, begun.elapsed());
}

/// At most `most` calls: the first of each kind, then the last of each kind, then every nth of the others. The same
/// calls and the same seed always give the same sample.
fn sample(calls: &[String], most: usize, seed: usize) -> BTreeSet<usize> {
    let same = |call: &String| {
        let kind = kind_of(call);
        move |other: &String| kind_of(other) == kind
    };
    let (mut firsts, mut lasts, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (index, call) in calls.iter().enumerate() {
        let list = if !calls[..index].iter().any(same(call)) {
            &mut firsts
        } else if !calls[index + 1..].iter().any(same(call)) {
            &mut lasts
        } else {
            &mut others
        };
        list.push(index + 1);
    }
    let mut chosen = BTreeSet::new();
    for list in [firsts, lasts, others] {
        chosen.extend(sample::spread(&list, most.saturating_sub(chosen.len()), seed));
    }
    chosen
}

/// When to die at the call of that number.
fn moments(n: usize, sampled: bool, seed: usize) -> &'static [Moment] {
    match n {
        _ if sampled => std::slice::from_ref(&Moment::ALL[(n + seed) % Moment::ALL.len()]),
        1 => &Moment::ALL,
        n => std::slice::from_ref(&Moment::ALL[1 + n % 2]),
    }
}

/// The same of changes alone. Events are left out: nothing is decided by them.
fn sample_of_changes(calls: &[String], most: usize, seed: usize) -> BTreeSet<usize> {
    let numbered = calls.iter().enumerate().filter(|(_, call)| !call.contains("GET ") && !call.contains("/events"));
    let (numbers, changes): (Vec<usize>, Vec<String>) = numbered.map(|(index, call)| (index + 1, call.clone())).unzip();
    sample(&changes, most, seed).into_iter().map(|n| numbers[n - 1]).collect()
}

/// The call with that number, as the nth of its kind.
fn of_kind(calls: &[String], n: usize) -> Target {
    let kind = kind_of(&calls[n - 1]);
    let count = calls[..n].iter().filter(|call| kind_of(call) == kind).count();
    Target::OfKind(kind, count)
}

/// The outcome of one point.
struct Done {
    n: usize,
    moment: Moment,
    /// The call at which the controllers died; `None` when the run ended before.
    call: Option<String>,
    failure: Option<String>,
}

struct Trial {
    name: &'static str,
    /// By moment: points at which the controllers died.
    tried: [usize; 3],
    /// By moment: a run ended without reaching its point.
    over: [bool; 3],
    failures: Vec<String>,
}

impl Trial {
    fn note(&mut self, done: Done) {
        let Done { n, moment, call, failure } = done;
        if let Some(failure) = failure {
            let call = call.as_deref().unwrap_or("not reached");
            self.failures.push(format!("{}, call {n} ({call}), {}: {failure}", self.name, moment.as_str()));
            // This may not have been the last point, but more failures of the same kind tell nothing new.
            self.over[moment as usize] |= self.failures.len() > 20;
        } else if call.is_some() {
            self.tried[moment as usize] += 1;
        } else {
            self.over[moment as usize] = true;
        }
    }

    fn tell(&self, usual: usize, took: Duration) {
        let [before, lost, after] = self.tried;
        println!(
            "» crash points, {}: {} tried ({before} before sending, {lost} with the reply lost, {after} after the reply); \
             undisturbed it makes {usual} calls; {} s",
            self.name,
            before + lost + after,
            took.as_secs(),
        );
        assert!(self.failures.is_empty(), "{} points failed:\n{}", self.failures.len(), self.failures.join("\n\n"));
    }
}

async fn point<S: Scenario>(scenes: &Scenes, n: usize, target: (Target, Moment), reference: &State) -> Done {
    let (interception, moment) = (Interception::new(), target.1);
    let what = match &target.0 {
        Target::Nth(_) => None,
        Target::OfKind(kind, n) => Some(format!("{kind}, no. {n}")),
    };
    let trying = try_point::<S>(scenes, &interception, Some(target), Some(reference));
    let outcome = AssertUnwindSafe(trying).catch_unwind().await;
    let call = interception
        .is_dead()
        .then(|| what.unwrap_or_else(|| interception.calls().get(n - 1).cloned().unwrap_or_default()));
    Done { n, moment, call, failure: outcome.err().map(|panic| text_of(&*panic)) }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

/// One run in a scene of its own; returns the state as it ended.
async fn try_point<S: Scenario>(
    scenes: &Scenes,
    interception: &Interception,
    target: Option<(Target, Moment)>,
    reference: Option<&State>,
) -> State {
    let scene = scenes.take().await;
    let client = Operator::client().await;
    let mortal = || Operator::through(&scene, interception, client, NO_SWEEP);
    let operator = if S::WHILE_AWAY {
        let others = Operator::start(&scene).await;
        S::prepare(&scene).await;
        others.stop().await;
        S::act(&scene).await;
        interception.arm(target);
        mortal()
    } else {
        let operator = mortal();
        interception.quiet_for(QUIET).await;
        S::prepare(&scene).await;
        interception.quiet_for(QUIET).await;
        interception.arm(target);
        S::act(&scene).await;
        operator
    };
    tokio::select! {
        () = interception.died() => {}
        () = async {
            wait_for("the work to be done", || S::settled(&scene), |settled| *settled).await;
            interception.quiet_for(QUIET).await;
        } => {}
    }
    drop(operator);
    let operator = Operator::start(&scene).await;
    wait_for("fresh controllers to finish the work", || S::settled(&scene), |settled| *settled).await;
    let state = match reference {
        None => rest::<S>(&scene).await,
        Some(reference) => becomes(&scene, reference).await,
    };
    clear(&scene).await;
    operator.stop().await;
    scenes.give_back(scene);
    state
}

/// Waits until the work is done and the state stays as it is. The states of all other runs are compared with it.
async fn rest<S: Scenario>(scene: &Scene) -> State {
    let (begun, mut state, mut since) = (Instant::now(), State::read(scene).await, Instant::now());
    while since.elapsed() < REST {
        tokio::time::sleep(QUIET).await;
        let now = State::read(scene).await;
        if now != state || !S::settled(scene).await {
            assert!(begun.elapsed() < WAIT_TIMEOUT, "the state does not come to rest:\n{}", state.diff(&now));
            (state, since) = (now, Instant::now());
        }
    }
    state
}

/// Waits until the state is as after the undisturbed run.
async fn becomes(scene: &Scene, reference: &State) -> State {
    let begun = Instant::now();
    loop {
        let state = State::read(scene).await;
        if state == *reference {
            return state;
        }
        assert!(
            begun.elapsed() < WAIT_TIMEOUT,
            "the state differs from the undisturbed run's:\n{}",
            reference.diff(&state)
        );
        tokio::time::sleep(QUIET).await;
    }
}

#[test]
fn a_sample_is_spread_over_all_kinds_of_calls() {
    let calls: Vec<String> = ["A", "B", "A", "C", "A", "B", "A", "D"].map(ToOwned::to_owned).to_vec();
    let sampled = |most| sample(&calls, most, 0).into_iter().collect::<Vec<_>>();
    assert!(sampled(0).is_empty());
    assert_eq!(sampled(2), [1, 4]);
    assert_eq!(sampled(4), [1, 2, 4, 8]);
    assert_eq!(sampled(6), [1, 2, 4, 6, 7, 8]);
    assert_eq!(sampled(usize::MAX), [1, 2, 3, 4, 5, 6, 7, 8]);
    let with_other_seeds: BTreeSet<usize> = (0..8).flat_map(|seed| sample(&calls, 2, seed)).collect();
    assert_eq!(with_other_seeds.into_iter().collect::<Vec<_>>(), [1, 2, 4, 8], "each kind has its turn");
}
