//! Monitors nodes of databases: each has tasks of its own, for as long as its controller asks about it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::wake::Key;

/// A node that was not asked about for this long is not monitored any more: its object is suspended.
pub const IDLE: Duration = Duration::from_secs(150);

/// A node, and what its listener learns about it.
pub trait Listened {
    /// The identity of a node: it stays the same while it is the same node.
    type Id: Clone + Eq + Hash;

    /// Returns the identity of this node.
    fn id(&self) -> Self::Id;

    /// Takes over how the node is reached now; what was learnt about it stays.
    fn refresh(&mut self, now: Self);
}

/// The answers of a node.
pub struct ProbeState<N> {
    /// When it answered last, or when it was asked first.
    last: Instant,
    /// True if it has answered at all since then.
    has_answered: bool,
    /// When its controller asked about it last.
    wanted: Instant,
    /// The node, and what its listener learnt about it.
    pub node: N,
}

/// The same, shared by the tasks of a node and those who ask about it.
pub type Shared<N> = Arc<Mutex<ProbeState<N>>>;

impl<N> ProbeState<N> {
    /// Reports whether its controller has asked about it lately.
    pub fn is_wanted(&self) -> bool {
        self.wanted.elapsed() < IDLE
    }

    /// How long it has not answered.
    pub fn silence(&self) -> Duration {
        self.last.elapsed()
    }

    /// Reports whether it has answered since it is monitored.
    pub fn is_heard(&self) -> bool {
        self.has_answered
    }

    /// Notes that it has answered.
    pub fn answered(&mut self) {
        (self.last, self.has_answered) = (Instant::now(), true);
    }
}

struct Listener<N> {
    tasks: Vec<JoinHandle<()>>,
    latest: Shared<N>,
}

impl<N> Listener<N> {
    fn has_ended(&self) -> bool {
        self.tasks.iter().any(JoinHandle::is_finished)
    }
}

impl<N> Drop for Listener<N> {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// The listeners of one object.
struct OfObject<N: Listened> {
    uid: String,
    nodes: HashMap<N::Id, Listener<N>>,
}

/// The listeners of all objects of a kind.
pub struct Listeners<N: Listened>(Mutex<HashMap<Key, OfObject<N>>>);

impl<N: Listened> Default for Listeners<N> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<N: Listened> Listeners<N> {
    /// Monitors these nodes of an object, and no others of it any more; returns the nodes that are monitored no longer.
    /// `listen` starts the tasks of one node.
    pub fn follow(
        &self,
        key: &Key,
        uid: &str,
        nodes: Vec<N>,
        listen: impl Fn(&Shared<N>) -> Vec<JoinHandle<()>>,
    ) -> Vec<N::Id> {
        let mut all = locked(&self.0);
        if !all.contains_key(key) {
            // Drop the listeners of objects about which their controller asks no more.
            all.retain(|_, object| object.nodes.values().any(|listener| !listener.has_ended()));
        }
        let object = all.entry(key.clone()).or_insert_with(|| OfObject { uid: String::new(), nodes: HashMap::new() });
        uid.clone_into(&mut object.uid);
        let listeners = &mut object.nodes;
        let wanted: HashSet<N::Id> = nodes.iter().map(N::id).collect();
        let left = listeners.keys().filter(|id| !wanted.contains(id)).cloned().collect();
        listeners.retain(|id, listener| wanted.contains(id) && !listener.has_ended());
        let now = Instant::now();
        for node in nodes {
            match listeners.entry(node.id()) {
                Entry::Occupied(known) => {
                    let mut latest = locked(&known.get().latest);
                    latest.wanted = now;
                    latest.node.refresh(node);
                }
                Entry::Vacant(place) => {
                    let latest = Arc::new(Mutex::new(ProbeState { last: now, has_answered: false, wanted: now, node }));
                    place.insert(Listener { tasks: listen(&latest), latest });
                }
            }
        }
        if listeners.is_empty() {
            all.remove(key);
        }
        left
    }

    /// Stops monitoring the nodes of an object that is gone, and returns them.
    pub fn forget(&self, uid: &str) -> Vec<N::Id> {
        let mut all = locked(&self.0);
        let gone = all.extract_if(|_, object| object.uid == uid).flat_map(|(_, object)| object.nodes);
        gone.map(|(id, _)| id).collect()
    }

    /// Reports whether that node is monitored, whichever object it belongs to.
    pub fn are_following(&self, node: &N::Id) -> bool {
        locked(&self.0).values().any(|object| object.nodes.contains_key(node))
    }

    /// Returns what `ask` finds in the state of a node; `None` if it is not monitored.
    pub fn ask<T>(&self, key: &Key, node: &N::Id, ask: impl FnOnce(&mut ProbeState<N>) -> T) -> Option<T> {
        let all = locked(&self.0);
        let mut latest = locked(&all.get(key)?.nodes.get(node)?.latest);
        Some(ask(&mut latest))
    }
}

/// Locks a mutex. If a task panicked while holding it, its value is whole all the same.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Node {
        name: &'static str,
        password: u8,
        learnt: u8,
    }

    impl Listened for Node {
        type Id = &'static str;

        fn id(&self) -> &'static str {
            self.name
        }

        fn refresh(&mut self, now: Self) {
            self.password = now.password;
        }
    }

    fn node(name: &'static str, password: u8) -> Node {
        Node { name, password, learnt: 0 }
    }

    fn key(name: &str) -> Key {
        ("shop".into(), name.into())
    }

    /// Listens as long as the node is asked about.
    fn listen(latest: &Shared<Node>) -> Vec<JoinHandle<()>> {
        let latest = latest.clone();
        vec![tokio::spawn(async move {
            while locked(&latest).is_wanted() {
                sleep(Duration::from_secs(1)).await;
            }
        })]
    }

    #[tokio::test(start_paused = true)]
    async fn a_refreshed_node_keeps_its_state() {
        let listeners = Listeners::default();
        listeners.follow(&key("a"), "uid-a", vec![node("0", 1)], listen);
        listeners.ask(&key("a"), &"0", |latest| latest.node.learnt = 7);
        assert_eq!(listeners.follow(&key("a"), "uid-a", vec![node("0", 2), node("1", 2)], listen), [""; 0]);
        let seen = listeners.ask(&key("a"), &"0", |latest| latest.node.clone());
        assert_eq!(seen, Some(Node { name: "0", password: 2, learnt: 7 }));
        assert_eq!(listeners.follow(&key("a"), "uid-a", vec![node("1", 2)], listen), ["0"]);
        assert_eq!(listeners.ask(&key("a"), &"0", |_| ()), None);
        assert_eq!(listeners.ask(&key("b"), &"1", |_| ()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_the_time_since_the_last_answer() {
        let listeners = Listeners::default();
        listeners.follow(&key("a"), "uid-a", vec![node("0", 1)], listen);
        let silence = || listeners.ask(&key("a"), &"0", |latest| latest.silence()).expect("it is listened to");
        sleep(Duration::from_secs(3)).await;
        assert_eq!(silence(), Duration::from_secs(3));
        let has_answered = || listeners.ask(&key("a"), &"0", |latest| latest.is_heard());
        assert_eq!(has_answered(), Some(false));
        listeners.ask(&key("a"), &"0", ProbeState::answered);
        assert_eq!((silence(), has_answered()), (Duration::ZERO, Some(true)));
        // That stays known while it is silent, and while its controller asks about it again.
        sleep(Duration::from_secs(3)).await;
        listeners.follow(&key("a"), "uid-a", vec![node("0", 2)], listen);
        assert_eq!(has_answered(), Some(true));
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_of_a_deleted_object_are_forgotten() {
        let listeners = Listeners::default();
        listeners.follow(&key("a"), "uid-a", vec![node("0", 1)], listen);
        listeners.follow(&key("b"), "uid-b", vec![node("1", 1)], listen);
        assert_eq!(listeners.forget("uid-a"), ["0"]);
        assert_eq!(listeners.ask(&key("a"), &"0", |_| ()), None);
        assert_eq!(listeners.ask(&key("b"), &"1", |_| ()), Some(()));
        // Another object has its name by then, and the event of the first one's end comes late.
        listeners.follow(&key("b"), "uid-of-another", vec![node("1", 1)], listen);
        assert_eq!(listeners.forget("uid-b"), [""; 0]);
        assert_eq!(listeners.ask(&key("b"), &"1", |_| ()), Some(()));
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_are_not_asked_about_are_forgotten() {
        let listeners = Listeners::default();
        listeners.follow(&key("a"), "uid-a", vec![node("0", 1)], listen);
        sleep(IDLE * 2).await;
        listeners.follow(&key("b"), "uid-b", vec![node("0", 1)], listen);
        assert_eq!(locked(&listeners.0).len(), 1);
        listeners.follow(&key("b"), "uid-b", Vec::new(), listen);
        assert_eq!(locked(&listeners.0).len(), 0);
    }
}
