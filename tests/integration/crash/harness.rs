//! Runs a scenario undisturbed, then once for every call and every way to die at it.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::scenes::{Scenes, clear};
use super::state::State;
use crate::support::wait::PATIENCE;
use crate::support::{Interception, Moment, Operator, Scene, wait_for};

/// Points that are tried at the same time, over all scenarios.
static PLACES: Semaphore = Semaphore::const_new(6);
/// Controllers that make no call for so long have nothing left to do.
const QUIET: Duration = Duration::from_millis(250);
/// Sweeps would make calls forever, and a run would never end: the one at the start is enough.
const NO_SWEEP: Duration = Duration::from_hours(1);

/// A piece of work that controllers do.
pub trait Scenario: 'static {
    /// Its name, for people.
    const NAME: &'static str;

    /// Whether the work is asked for while no controllers run: then they may die while they start, too.
    const WHILE_AWAY: bool = false;

    /// Makes what is there before, with controllers at work that do not die.
    fn prepare(scene: &Scene) -> impl Future<Output = ()> + Send;

    /// Asks for the work.
    fn act(scene: &Scene) -> impl Future<Output = ()> + Send;

    /// Whether the work is done.
    fn settled(scene: &Scene) -> impl Future<Output = bool> + Send;
}

/// Lets the controllers die everywhere; fails with every point after which the world is not as it should be.
pub async fn die_everywhere<S: Scenario>() {
    let begun = Instant::now();
    let undisturbed = Interception::new();
    let scenes = Arc::new(Scenes::default());
    let permit = PLACES.acquire().await.expect("nobody closes it");
    let reference = try_point::<S>(&scenes, &undisturbed, None, None).await;
    drop(permit);
    let usual = undisturbed.calls().len();
    let mut trial = Trial { name: S::NAME, tried: [0; 3], over: [false; 3], failures: Vec::new() };
    let mut running = JoinSet::new();
    let mut n = 0;
    while n < usual || trial.over.contains(&false) {
        n += 1;
        for moment in Moment::ALL {
            let permit = PLACES.acquire().await.expect("nobody closes it");
            while let Some(done) = running.try_join_next() {
                trial.note(done.expect("a point catches its panics"));
            }
            // Runs differ by a call or two: all calls of the undisturbed one are tried in any case.
            if n > usual && trial.over[moment as usize] {
                continue;
            }
            let (scenes, reference) = (scenes.clone(), reference.clone());
            running.spawn(async move {
                let done = point::<S>(&scenes, n, moment, &reference).await;
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

/// What came of one point.
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
            // Whether it was the last is not known, but more of the same helps nobody.
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

async fn point<S: Scenario>(scenes: &Scenes, n: usize, moment: Moment, reference: &State) -> Done {
    let interception = Interception::new();
    let trying = try_point::<S>(scenes, &interception, Some((n, moment)), Some(reference));
    let outcome = AssertUnwindSafe(trying).catch_unwind().await;
    let call = interception.is_dead().then(|| interception.calls().get(n - 1).cloned().unwrap_or_default());
    Done { n, moment, call, failure: outcome.err().map(|panic| text_of(&*panic)) }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

/// One run in a scene that nobody else uses; returns the world as it ended.
async fn try_point<S: Scenario>(
    scenes: &Scenes,
    interception: &Interception,
    target: Option<(usize, Moment)>,
    reference: Option<&State>,
) -> State {
    let scene = scenes.take().await;
    let through = interception.kubernetes(Operator::client().await);
    let mortal = || Operator::start_with(&scene, through, interception.aws(&scene.aws), NO_SWEEP);
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
        None => State::of(&scene).await,
        Some(reference) => becomes(&scene, reference).await,
    };
    clear(&scene).await;
    operator.stop().await;
    scenes.give_back(scene);
    state
}

/// Waits until the world is as after the undisturbed run.
async fn becomes(scene: &Scene, reference: &State) -> State {
    let begun = Instant::now();
    loop {
        let state = State::of(scene).await;
        if state == *reference {
            return state;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "the world differs from the undisturbed run's:\n{}",
            reference.diff(&state)
        );
        tokio::time::sleep(QUIET).await;
    }
}
