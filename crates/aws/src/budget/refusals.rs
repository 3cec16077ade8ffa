//! A call that AWS throttles is sent again after a pause. All callers of a class share that pause, and during it one
//! call at a time tries whether AWS accepts calls again. So many objects do not cause a storm of retries, and the first
//! call that passes lets all of them go on.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The pause after a refusal doubles with each refusal in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The throttling of one class of operations.
#[derive(Debug, Default)]
pub struct Refusals {
    state: Mutex<State>,
    /// Held by the caller whose turn is next. The mutex is fair.
    turn: tokio::sync::Mutex<()>,
    passed: Notify,
}

#[derive(Debug, Default)]
struct State {
    pause: Duration,
    /// The time before which no call is sent; `None` while AWS accepts calls.
    until: Option<Instant>,
}

impl Refusals {
    /// Waits until a call may be sent: not at all, unless AWS throttled the last one.
    pub async fn wait(&self) {
        if self.state().until.is_none() {
            return;
        }
        let _turn = self.turn.lock().await;
        loop {
            let passed = self.passed.notified();
            let until = {
                let mut state = self.state();
                let now = Instant::now();
                match state.until {
                    None => return,
                    Some(until) if until <= now => {
                        // This call tries; the next one waits for its outcome, or for another pause.
                        state.until = Some(now + state.pause);
                        return;
                    }
                    Some(until) => until,
                }
            };
            tokio::select! {
                () = sleep_until(until) => {}
                () = passed => {}
            }
        }
    }

    /// Records that AWS throttled a call.
    pub fn record_refusal(&self) {
        let mut state = self.state();
        state.pause = (state.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        state.until = Some(Instant::now() + state.pause);
    }

    /// Records that AWS accepted a call.
    pub fn record_success(&self) {
        let mut state = self.state();
        if state.until.is_some() {
            *state = State::default();
            drop(state);
            self.passed.notify_waiters();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::future::join_all;

    #[tokio::test(start_paused = true)]
    async fn no_call_waits_while_aws_takes_calls() {
        let refusals = Refusals::default();
        assert!(refusals.wait().now_or_never().is_some());
        refusals.record_refusal();
        assert!(refusals.wait().now_or_never().is_none());
        refusals.record_success();
        assert!(refusals.wait().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_doubles_up_to_a_second() {
        let refusals = Refusals::default();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            refusals.record_refusal();
            let begun = Instant::now();
            refusals.wait().await;
            pauses.push(begun.elapsed().as_millis());
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_tries_and_the_others_follow_when_it_passes() {
        let refusals = Refusals::default();
        refusals.record_refusal();
        let begun = Instant::now();
        let waits = join_all((0..20).map(|number| {
            let refusals = &refusals;
            async move {
                refusals.wait().await;
                let waited = begun.elapsed();
                if number == 2 {
                    refusals.record_success();
                }
                waited
            }
        }))
        .await;
        // The first two tries have no outcome, and the third one passes.
        let millis: Vec<_> = waits.iter().map(Duration::as_millis).collect();
        assert_eq!(millis[..3], [50, 100, 150]);
        assert!(millis[3..].iter().all(|waited| *waited == 150), "{millis:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_gives_up_does_not_delay_others() {
        let refusals = Refusals::default();
        refusals.record_refusal();
        assert!(refusals.wait().now_or_never().is_none());
        let begun = Instant::now();
        refusals.wait().await;
        assert_eq!(begun.elapsed(), FIRST_PAUSE);
    }
}
