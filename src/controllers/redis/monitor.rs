//! Listens to every node, and wakes the controller when one changes its role, loses its master, dies or falls silent.
//!
//! A connection a node is held open and asked for the role twice a second: about a hundred bytes, and no call of the
//! apiserver. A process that dies breaks its connection, which is seen at once; one that hangs is seen by its silence.
//! What is heard here only wakes: whoever decides asks anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::stream::Stream;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::pulse::Pulse;
use crate::controllers::wake::{Key, Wake};
use crate::external::redis::{Endpoint, Redis, RedisError, Role, Trouble, Writes};

/// How often a node is asked.
pub const RHYTHM: Duration = Duration::from_millis(500);
/// How often one that is gone is looked for.
const AGAIN: Duration = Duration::from_millis(100);
/// After so long without a process it is looked for less often.
const GONE: Duration = Duration::from_secs(10);
/// A node that nobody asked about for so long is not listened to any more: its object is gone, or suspended.
const IDLE: Duration = Duration::from_secs(150);

/// Listens to the nodes of all objects.
pub struct Monitor {
    redis: Redis,
    listeners: Mutex<HashMap<Key, HashMap<Endpoint, Listener>>>,
    wake: Wake,
}

struct Listener {
    task: JoinHandle<()>,
    pulse: JoinHandle<()>,
    heard: Arc<Mutex<Heard>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
        self.pulse.abort();
    }
}

/// What was heard of a node.
pub struct Heard {
    /// When it answered last, or when it was asked first.
    last: Instant,
    /// When somebody asked about it last.
    wanted: Instant,
    /// Silence that wakes the controller.
    patience: Duration,
    /// The node, with the certificates by which a connection is made.
    pub node: Endpoint,
    /// It said that it is a master.
    pub is_master: bool,
    /// What it answers to a write, as long as it is a master, and when it did.
    pub writes: Option<(Writes, Instant)>,
}

impl Heard {
    /// Whether somebody wants to know of it.
    pub fn is_wanted(&self) -> bool {
        self.wanted.elapsed() < IDLE
    }
}

impl Monitor {
    /// Listens through `redis`.
    pub fn new(redis: Redis) -> Self {
        Self { redis, listeners: Mutex::default(), wake: Wake::default() }
    }

    /// The objects that are to be looked at.
    pub fn subscribe(&self) -> impl Stream<Item = Key> + Send + 'static + use<> {
        self.wake.subscribe()
    }

    /// Listens to these nodes of an object, and to no others of it any more.
    pub fn follow(&self, key: &Key, nodes: &[Endpoint], patience: Duration) {
        let mut all = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(key) {
            // Those of objects that are gone, to which nobody listens any more.
            all.retain(|_, listeners| listeners.values().any(|listener| !listener.task.is_finished()));
        }
        let listeners = all.entry(key.clone()).or_default();
        listeners.retain(|node, listener| {
            let wanted = nodes.contains(node);
            if !wanted {
                self.redis.hang_up(node);
            }
            wanted && !listener.task.is_finished()
        });
        for node in nodes {
            let listener = listeners.entry(node.clone()).or_insert_with(|| self.listen(key, node, patience));
            let mut heard = listener.heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.wanted = Instant::now();
            heard.patience = patience;
            heard.node.clone_from(node);
        }
        if listeners.is_empty() {
            all.remove(key);
        }
    }

    /// How long a node has not answered; nothing of one that is not listened to.
    pub fn silence(&self, key: &Key, node: &Endpoint) -> Option<Duration> {
        let all = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = all.get(key)?.get(node)?.heard.lock().unwrap_or_else(PoisonError::into_inner);
        Some(heard.last.elapsed())
    }

    /// What a master answered to the last write, if it was asked.
    pub fn writes(&self, key: &Key, node: &Endpoint) -> Option<Writes> {
        let all = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = all.get(key)?.get(node)?.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.writes.as_ref().map(|(writes, _)| writes.clone())
    }

    /// A node has answered somebody.
    pub fn heard_of(&self, key: &Key, node: &Endpoint) {
        let all = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = all.get(key).and_then(|listeners| listeners.get(node)) {
            listener.heard.lock().unwrap_or_else(PoisonError::into_inner).last = Instant::now();
        }
    }

    fn listen(&self, key: &Key, node: &Endpoint, patience: Duration) -> Listener {
        let now = Instant::now();
        let heard = Heard { last: now, wanted: now, patience, node: node.clone(), is_master: false, writes: None };
        let heard = Arc::new(Mutex::new(heard));
        let ear = Ear {
            redis: self.redis.clone(),
            node: node.clone(),
            heard: heard.clone(),
            key: key.clone(),
            wake: self.wake.clone(),
        };
        let pulse =
            Pulse { redis: self.redis.clone(), heard: heard.clone(), key: key.clone(), wake: self.wake.clone() };
        Listener { task: tokio::spawn(ear.listen()), pulse: tokio::spawn(pulse.beat()), heard }
    }
}

/// The state of a node as far as it wakes somebody.
#[derive(Clone, Debug, PartialEq)]
enum State {
    Unknown,
    Is(Role),
    Gone,
    Refuses,
}

/// Listens to one node.
struct Ear {
    redis: Redis,
    node: Endpoint,
    heard: Arc<Mutex<Heard>>,
    key: Key,
    wake: Wake,
}

impl Ear {
    async fn listen(self) {
        let mut state = State::Unknown;
        let mut since = Instant::now();
        while self.is_wanted() {
            let answer = self.ask().await;
            let heard = match answer {
                Ok(role) => Some(State::Is(role)),
                Err(error) => match error.trouble {
                    Trouble::Gone => Some(State::Gone),
                    Trouble::Broken => {
                        sleep(AGAIN).await;
                        None
                    }
                    Trouble::Unanswered | Trouble::NotLeading => None,
                    Trouble::Loading | Trouble::Unauthenticated | Trouble::Refused => Some(State::Refuses),
                },
            };
            if let Some(heard) = heard {
                // A process that is gone has said so: it is not silent.
                {
                    let mut known = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
                    known.last = Instant::now();
                    known.is_master = heard == State::Is(Role::Master);
                }
                if heard != state {
                    state = heard;
                    since = Instant::now();
                    self.wake.wake(&self.key);
                }
            }
            match state {
                State::Gone | State::Refuses if since.elapsed() > GONE => sleep(RHYTHM * 2).await,
                State::Gone | State::Refuses | State::Unknown => sleep(AGAIN).await,
                State::Is(_) => {
                    tokio::select! {
                        () = sleep(RHYTHM) => {}
                        () = self.redis.broken(&self.node) => {}
                    }
                }
            }
        }
        self.redis.hang_up(&self.node);
    }

    /// Asks for the role, and tells while the answer is overdue.
    async fn ask(&self) -> Result<Role, RedisError> {
        let node = self.heard.lock().unwrap_or_else(PoisonError::into_inner).node.clone();
        let mut answer = std::pin::pin!(self.redis.role(&node));
        loop {
            let left = {
                let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.patience.saturating_sub(heard.last.elapsed())
            };
            let tell = if left.is_zero() { RHYTHM } else { left };
            tokio::select! {
                answer = &mut answer => return answer,
                () = sleep(tell) => self.wake.wake(&self.key),
            }
        }
    }

    fn is_wanted(&self) -> bool {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).is_wanted()
    }
}
