//! What clients do to a few keys that they share, and the judge of it: `tests/judge`, a program that looks for one order of
//! all calls that explains what each of them saw.
//!
//! The checkers' keys are written once, each by one client. Here several clients write, read, swap and compare the same keys,
//! so that a stale read, an update that another one overwrote, or a value that comes back is seen.

pub mod judge;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::support::wait::{WAIT_TIMEOUT, wait_within};
use judge::Judgement;

/// Keys in use at the same time.
const KEYS: u64 = 3;
/// After so many calls others take their place, so that the search for an order ends.
const CALLS_OF_A_KEY: u64 = 200;
/// Between two calls of a client.
const PAUSE: Duration = Duration::from_millis(50);

/// What a call does to the value under its key. Every value is written once; 0 stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Do {
    /// Reads `seen`.
    #[default]
    Get,
    /// Writes `value`.
    Put,
    /// Writes `value`, and reads in the same moment what was there before: `seen`.
    Swap,
    /// Writes `value` if `expected` is there; otherwise reads `seen`.
    Cas,
    /// Adds one, and reads the sum: `seen`.
    Add,
}

/// A call, as the judge reads it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Operation {
    pub key: String,
    pub client: usize,
    #[serde(rename = "do")]
    pub does: Do,
    /// Nanoseconds after the history began.
    pub call: u64,
    /// `None`: nobody knows whether it had its effect, or will have it.
    #[serde(rename = "return", skip_serializing_if = "Option::is_none")]
    pub returned: Option<u64>,
    pub value: u64,
    pub expected: u64,
    pub seen: u64,
    pub done: bool,
    pub revision: i64,
}

/// Every call of every client.
pub struct History {
    begun: Instant,
    given: AtomicU64,
    calls: AtomicU64,
    operations: Mutex<Vec<Operation>>,
}

impl History {
    /// One without calls.
    fn new() -> Self {
        let (given, calls, operations) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
        Self { begun: Instant::now(), given, calls, operations }
    }

    /// A key whose turn it is, and which of those in use at the same time it is.
    fn key(&self) -> (String, u64) {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let which = number % KEYS;
        (format!("shared:{}:{which}", number / (KEYS * CALLS_OF_A_KEY)), which)
    }

    /// A call that is made now. A value that it may write is new.
    pub fn call(&self, client: usize, key: &str, does: Do) -> Operation {
        let value = 1 + self.given.fetch_add(1, Ordering::Relaxed);
        let value = if matches!(does, Do::Get | Do::Add) { 0 } else { value };
        Operation { key: key.to_owned(), client, does, call: self.now(), value, ..Operation::default() }
    }

    /// The call has returned now.
    pub fn returned(&self, operation: Operation) {
        self.keep(Operation { returned: Some(self.now()), ..operation });
    }

    /// What became of the call is not known. A read that was not answered says nothing.
    pub fn unknown(&self, operation: Operation) {
        if operation.does != Do::Get {
            self.keep(operation);
        }
    }

    fn keep(&self, operation: Operation) {
        self.operations.lock().expect("nobody panics with it").push(operation);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).expect("less than 500 years")
    }

    fn operations(&self) -> Vec<Operation> {
        self.operations.lock().expect("nobody panics with it").clone()
    }
}

/// A client of a store.
pub trait Store: Send + 'static {
    /// Makes the client's next call, of one key of so many in use.
    fn act(
        &mut self,
        history: &History,
        client: usize,
        round: u64,
        key: (String, u64),
    ) -> impl Future<Output = ()> + Send;

    /// Reads a key; tells why there is no answer that counts.
    fn read(
        &mut self,
        history: &History,
        client: usize,
        key: &str,
    ) -> impl Future<Output = Result<(u64, i64), String>> + Send;
}

/// Clients at work. They stop when this is dropped, too.
pub struct Mixed<S> {
    history: Arc<History>,
    stop: CancellationToken,
    tasks: JoinSet<S>,
}

impl<S: Store> Mixed<S> {
    /// Starts these clients.
    pub fn start(stores: Vec<S>) -> Self {
        let (history, stop, mut tasks) = (Arc::new(History::new()), CancellationToken::new(), JoinSet::new());
        for (client, store) in stores.into_iter().enumerate() {
            tasks.spawn(work(store, client, history.clone(), stop.clone()));
        }
        Self { history, stop, tasks }
    }

    /// Waits for so many further calls whose outcome is known.
    pub async fn calls(&self, count: usize) {
        let known = || self.history.operations().iter().filter(|it| it.returned.is_some()).count();
        let before = known();
        let look = || async { known() - before };
        wait_within(WAIT_TIMEOUT, &format!("{count} further calls"), look, |made| *made >= count).await;
    }

    /// Ends the clients, reads each key once more, and has all of it judged under that name.
    pub async fn judged(mut self, name: &str) -> Judgement {
        self.stop.cancel();
        let mut last = None;
        let mut clients = 0;
        while let Some(ended) = self.tasks.join_next().await {
            last = Some(ended.expect("a client never panics"));
            clients += 1;
        }
        let store = tokio::sync::Mutex::new(last.expect("a client"));
        let mut keys: Vec<String> = self.history.operations().into_iter().map(|it| it.key).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in &keys {
            let look = || async { Box::pin(store.lock().await.read(&self.history, clients, key)).await };
            wait_within(WAIT_TIMEOUT, &format!("a read of {key} in the end"), look, Result::is_ok).await.ok();
        }
        judge::judge(name, &self.history.operations())
    }
}

impl<S> Drop for Mixed<S> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn work<S: Store>(mut store: S, client: usize, history: Arc<History>, stop: CancellationToken) -> S {
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Each begins with another sort of call.
    let mut round = u64::try_from(client).expect("a small number");
    while !stop.is_cancelled() {
        ticks.tick().await;
        store.act(&history, client, round, history.key()).await;
        round += 1;
    }
    store
}
