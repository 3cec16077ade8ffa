//! Records what clients do to a few keys that they share, and has it checked for linearizability. The checker is the
//! program `tests/judge`: it looks for one order of all calls that explains what each of them saw.
//!
//! The checkers in `redis` and `etcd` write each key once, from one client. Here several clients write, read, swap and
//! compare the same keys: this finds stale reads, lost updates, and old values that come back.

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
/// After so many calls, other keys take the place of these: the search for an order must end.
const CALLS_OF_A_KEY: u64 = 200;
/// Between two calls of a client.
const PAUSE: Duration = Duration::from_millis(50);

/// The effect of a call on the value under its key. Every value is written once; 0 stands for none.
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
    /// When the call was made, in nanoseconds after the history began.
    pub call: u64,
    /// When it returned; `None` if it is unknown whether the call took effect, or still will.
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
    /// A history without calls.
    fn new() -> Self {
        let (given, calls, operations) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
        Self { begun: Instant::now(), given, calls, operations }
    }

    /// The key for the next call, and its number among the keys in use at the same time.
    fn key(&self) -> (String, u64) {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let which = number % KEYS;
        (format!("shared:{}:{which}", number / (KEYS * CALLS_OF_A_KEY)), which)
    }

    /// A call that is made now. The value that it may write was never used before.
    pub fn call(&self, client: usize, key: &str, does: Do) -> Operation {
        let value = 1 + self.given.fetch_add(1, Ordering::Relaxed);
        let value = if matches!(does, Do::Get | Do::Add) { 0 } else { value };
        Operation { key: key.to_owned(), client, does, call: self.now(), value, ..Operation::default() }
    }

    /// The call has returned now.
    pub fn returned(&self, operation: Operation) {
        self.keep(Operation { returned: Some(self.now()), ..operation });
    }

    /// The outcome of the call is unknown. A read without an answer is dropped: it proves nothing.
    pub fn unknown(&self, operation: Operation) {
        if operation.does != Do::Get {
            self.keep(operation);
        }
    }

    fn keep(&self, operation: Operation) {
        self.operations.lock().expect("the lock is not poisoned").push(operation);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).expect("less than 500 years")
    }

    fn operations(&self) -> Vec<Operation> {
        self.operations.lock().expect("the lock is not poisoned").clone()
    }
}

/// A client of a store.
pub trait Store: Send + 'static {
    /// Makes the client's next call, with one of the keys in use.
    fn act(
        &mut self,
        history: &History,
        client: usize,
        round: u64,
        key: (String, u64),
    ) -> impl Future<Output = ()> + Send;

    /// Reads a key; the error says why there is no usable answer.
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

    /// Waits for `count` further calls with a known outcome.
    pub async fn calls(&self, count: usize) {
        let known = || self.history.operations().iter().filter(|it| it.returned.is_some()).count();
        let before = known();
        let look = || async { known() - before };
        wait_within(WAIT_TIMEOUT, &format!("{count} further calls"), look, |made| *made >= count).await;
    }

    /// Ends the clients, reads each key once more, and has the history judged under that name.
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
    // Each client begins with another kind of call.
    let mut round = u64::try_from(client).expect("a small number");
    while !stop.is_cancelled() {
        ticks.tick().await;
        store.act(&history, client, round, history.key()).await;
        round += 1;
    }
    store
}
