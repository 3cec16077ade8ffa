//! Listens to every node, and wakes the controller when one changes its role, loses its master, dies or falls silent.
//!
//! It holds one connection to each node open, and asks for the role over it twice a second. That costs about a hundred
//! bytes, and no call to the apiserver. The answer says as well how far a master is, and what its replicas acknowledged
//! (`words.rs`). A process that dies breaks its connection, which is seen at once; a process
//! that hangs is seen by its silence. An answer here only wakes the controller, which asks the nodes again before it
//! decides.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::Stream;
use kube::runtime::reflector::ObjectRef;
use tokio::time::{Instant, sleep};

use causeway_api::Redis as Object;
use causeway_databases::listeners::{Listened, Listeners, ProbeState, Shared, locked};
use causeway_databases::redis::{Admission, Endpoint, Position, Redis, RedisError, Role, Trouble, Writes};
use causeway_databases::wake::{Key, Wake};

use super::door::Door;
use super::listened::{Node, POLL_INTERVAL};
use super::pulse::Pulse;
use super::words::Words;

/// How often a node without a process is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How often a master is asked for the number of its keys.
const KEYS_INTERVAL: Duration = Duration::from_millis(900);
/// Nodes of an object that is gone are not called any more after this time: every reconcile has ended.
const CALLED: Duration = Duration::from_mins(2);
/// A node that has been without a process for this long is tried less often.
const GONE: Duration = Duration::from_secs(10);

/// Listens to the nodes of all objects.
pub struct Monitor {
    redis: Redis,
    listeners: Arc<Listeners<Node>>,
    /// The last answers of masters.
    pub words: Words,
    wake: Wake,
}

impl Monitor {
    /// Creates a monitor that listens to no node yet.
    pub fn new(redis: Redis) -> Self {
        Self { redis, listeners: Arc::default(), words: Words::default(), wake: Wake::default() }
    }

    /// The objects that are to be reconciled.
    pub fn requests(&self, namespace: Option<&str>) -> impl Stream<Item = ObjectRef<Object>> + Send + 'static + use<> {
        self.wake.requests(namespace)
    }

    /// Listens to these nodes of an object, and to no others of it any more.
    pub fn follow(&self, key: &Key, uid: &str, nodes: Vec<Node>) {
        let left = self.listeners.follow(key, uid, nodes, |latest| {
            let (redis, wake, words) = (self.redis.clone(), self.wake.clone(), self.words.clone());
            let (node, latest_of_probe) = (locked(latest).node.id(), latest.clone());
            let probe =
                Probe { redis, node, latest: latest_of_probe, key: key.clone(), uid: uid.to_owned(), words, wake };
            let (redis, wake) = (self.redis.clone(), self.wake.clone());
            let pulse = Pulse { redis: redis.clone(), latest: latest.clone(), key: key.clone(), wake: wake.clone() };
            let door = Door { redis, latest: latest.clone(), key: key.clone(), wake };
            vec![tokio::spawn(probe.listen()), tokio::spawn(pulse.beat()), tokio::spawn(door.watch())]
        });
        self.hang_up(&left);
    }

    /// Listens to no node of an object that is gone.
    pub fn forget(&self, uid: &str) {
        let nodes = self.listeners.forget(uid);
        self.words.forget(uid);
        self.hang_up(&nodes);
        if nodes.is_empty() {
            return;
        }
        // A reconcile that still runs may call them again. The connection and its password must not stay.
        let (redis, listeners) = (self.redis.clone(), self.listeners.clone());
        tokio::spawn(async move {
            sleep(CALLED).await;
            nodes.iter().filter(|node| !listeners.are_following(node)).for_each(|node| redis.hang_up(node));
        });
    }

    fn hang_up(&self, nodes: &[Endpoint]) {
        for node in nodes {
            self.redis.hang_up(node);
        }
    }

    /// How long a node has not answered; `None` for a node that no task listens to.
    pub fn silence(&self, key: &Key, node: &Endpoint) -> Option<Duration> {
        self.listeners.ask(key, node, |latest| latest.silence())
    }

    /// Reports whether a node has answered since a task began to listen to it.
    pub fn has_answered(&self, key: &Key, node: &Endpoint) -> bool {
        self.listeners.ask(key, node, |latest| latest.is_heard()).unwrap_or_default()
    }

    /// For how long a node has reported that role, and the same link to its master.
    pub fn unchanged(&self, key: &Key, node: &Endpoint, role: &Role) -> Duration {
        self.listeners.ask(key, node, |latest| latest.node.unchanged(role)).unwrap_or_default()
    }

    /// Returns a master's answer to the last write, if there was one.
    pub fn writes(&self, key: &Key, node: &Endpoint) -> Option<Writes> {
        self.listeners.ask(key, node, |latest| latest.node.writes.as_ref().map(|(writes, _)| writes.clone()))?
    }

    /// Returns a node's answer to new clients, unless it lets them in.
    pub fn turned_away(&self, key: &Key, node: &Endpoint) -> Option<Admission> {
        self.listeners.ask(key, node, |latest| latest.node.turned_away.clone())?
    }

    /// Forgets what a node answered to new clients: something was changed that may let them in.
    pub fn forget_admission(&self, key: &Key, node: &Endpoint) {
        self.listeners.ask(key, node, |latest| latest.node.turned_away = None);
    }

    /// Reports whether a node runs a script, and answers nothing else.
    pub fn is_busy(&self, key: &Key, node: &Endpoint) -> bool {
        self.listeners.ask(key, node, |latest| latest.node.busy).unwrap_or_default()
    }

    /// Notes that a node has answered another caller.
    pub fn note_answer(&self, key: &Key, node: &Endpoint) {
        self.listeners.ask(key, node, ProbeState::answered);
    }
}

/// The state of a node; a change of it wakes the controller.
#[derive(Clone, Debug, PartialEq)]
enum State {
    Unknown,
    Is(Role),
    Gone,
    Refuses,
}

impl State {
    fn role(&self) -> Option<&Role> {
        if let Self::Is(role) = self { Some(role) } else { None }
    }
}

/// Listens to one node.
struct Probe {
    redis: Redis,
    node: Endpoint,
    latest: Shared<Node>,
    key: Key,
    /// The uid of the object.
    uid: String,
    words: Words,
    wake: Wake,
}

impl Probe {
    async fn listen(self) {
        let mut state = State::Unknown;
        let mut since = Instant::now();
        let mut counted = Instant::now();
        while locked(&self.latest).is_wanted() {
            let answer = self.ask().await;
            let latest = match answer {
                Ok(position) => {
                    let pod = locked(&self.latest).node.pod.clone();
                    if self.words.hear(&self.uid, &pod, &position) {
                        self.wake.wake(&self.key);
                    }
                    if position.role == Role::Master && counted.elapsed() >= KEYS_INTERVAL {
                        counted = Instant::now();
                        self.ask_for_keys(&pod).await;
                    }
                    Some(State::Is(position.role))
                }
                Err(error) => match error.trouble {
                    Trouble::Gone => Some(State::Gone),
                    Trouble::Broken => {
                        sleep(RETRY_INTERVAL).await;
                        None
                    }
                    // Clients get no other answer: it counts as silent, however often it says so.
                    Trouble::Busy => {
                        locked(&self.latest).node.busy = true;
                        self.wake.wake(&self.key);
                        None
                    }
                    Trouble::Unanswered | Trouble::NotLeading => None,
                    Trouble::Loading | Trouble::Unauthenticated | Trouble::Refused => Some(State::Refuses),
                },
            };
            if let Some(latest) = latest {
                // That a process is gone, or refuses, is an answer too: it is not silent.
                {
                    let mut known = locked(&self.latest);
                    known.answered();
                    known.node.busy = false;
                    if latest != state {
                        known.node.role = latest.role().map(|role| (role.clone(), Instant::now()));
                    }
                }
                if latest != state {
                    state = latest;
                    since = Instant::now();
                    self.wake.wake(&self.key);
                }
            }
            match state {
                State::Gone | State::Refuses if since.elapsed() > GONE => sleep(POLL_INTERVAL * 2).await,
                _ if locked(&self.latest).node.busy => sleep(POLL_INTERVAL).await,
                State::Gone | State::Refuses | State::Unknown => sleep(RETRY_INTERVAL).await,
                State::Is(_) => {
                    tokio::select! {
                        () = sleep(POLL_INTERVAL) => {}
                        () = self.redis.until_broken(&self.node) => {}
                    }
                }
            }
        }
        self.redis.hang_up(&self.node);
    }

    /// Asks a master for the number of its keys: one that comes back empty has lost nothing if it had none before.
    async fn ask_for_keys(&self, pod: &str) {
        let node = locked(&self.latest).node.endpoint.clone();
        if let Ok(keys) = self.redis.keys(&node).await
            && self.words.hear_keys(&self.uid, pod, keys)
        {
            self.wake.wake(&self.key);
        }
    }

    /// Asks for the role, and wakes the controller while the answer is overdue.
    async fn ask(&self) -> Result<Position, RedisError> {
        let node = locked(&self.latest).node.endpoint.clone();
        let mut answer = std::pin::pin!(self.redis.role(&node));
        loop {
            let left = {
                let latest = locked(&self.latest);
                latest.node.timeout.saturating_sub(latest.silence())
            };
            let wait = if left.is_zero() { POLL_INTERVAL } else { left };
            tokio::select! {
                answer = &mut answer => return answer,
                () = sleep(wait) => self.wake.wake(&self.key),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use futures::FutureExt;
    use futures::future::{BoxFuture, pending};

    use super::*;
    use causeway_databases::redis::{Reply, Request, Transport};
    use causeway_runtime::leader::Fence;
    use causeway_runtime::metrics::Metrics;

    /// A network in which no node answers. It notes whose connections were closed.
    #[derive(Default)]
    struct Silent(Mutex<Vec<Endpoint>>);

    impl Transport for Silent {
        fn call<'a>(&'a self, _: &'a Endpoint, _: &'a Request) -> BoxFuture<'a, Result<Reply, RedisError>> {
            pending().boxed()
        }

        fn until_broken<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, ()> {
            pending().boxed()
        }

        fn put_aside(&self, _: &Endpoint) {}

        fn hang_up(&self, to: &Endpoint) {
            self.0.lock().push(to.clone());
        }
    }

    /// A node that is a master for one answer, and then runs a script. It lets no new client in.
    #[derive(Default)]
    struct Scripted(Mutex<u32>);

    impl Transport for Scripted {
        fn call<'a>(&'a self, _: &'a Endpoint, request: &'a Request) -> BoxFuture<'a, Result<Reply, RedisError>> {
            let full = || RedisError::new("AUTH", Trouble::Refused, "ERR max number of clients reached");
            let answer = match request {
                Request::Role => {
                    let mut asked = self.0.lock();
                    *asked += 1;
                    let role = Position { role: Role::Master, ..Position::default() };
                    let busy = || RedisError::new("ROLE", Trouble::Busy, "BUSY Redis is busy running a script");
                    if *asked <= 10 { Ok(Reply::Role(role)) } else { Err(busy()) }
                }
                Request::Knock => Err(full()),
                _ => Ok(Reply::Done),
            };
            std::future::ready(answer).boxed()
        }

        fn until_broken<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, ()> {
            pending().boxed()
        }

        fn put_aside(&self, _: &Endpoint) {}

        fn hang_up(&self, _: &Endpoint) {}
    }

    /// A master that answers over the connection that it has, and no new client.
    struct Walled;

    impl Transport for Walled {
        fn call<'a>(&'a self, _: &'a Endpoint, request: &'a Request) -> BoxFuture<'a, Result<Reply, RedisError>> {
            match request {
                Request::Role => {
                    let role = Position { role: Role::Master, ..Position::default() };
                    std::future::ready(Ok(Reply::Role(role))).boxed()
                }
                Request::Knock => pending().boxed(),
                _ => std::future::ready(Ok(Reply::Done)).boxed(),
            }
        }

        fn until_broken<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, ()> {
            pending().boxed()
        }

        fn put_aside(&self, _: &Endpoint) {}

        fn hang_up(&self, _: &Endpoint) {}
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_to_new_clients_is_told_within_three_seconds() {
        let monitor = Monitor::new(Redis::new(Arc::new(Walled), Fence::always_open(), Metrics::new()));
        let node = Endpoint { address: "10.0.0.1:6379".into(), login: None, tls: None };
        let key = ("shop".to_owned(), "cache".to_owned());
        let followed = Node::new("cache-0".into(), node.clone(), Some(node.clone()), Duration::from_secs(7));
        monitor.follow(&key, "uid-1", vec![followed]);
        sleep(Duration::from_millis(1400)).await;
        assert_eq!(monitor.turned_away(&key, &node), None, "a busy machine answers late");
        sleep(Duration::from_millis(1400)).await;
        assert_eq!(monitor.turned_away(&key, &node), Some(Admission::Ignored("gives no answer")));
    }

    #[tokio::test(start_paused = true)]
    async fn busy_and_full_nodes_are_recognized() {
        let monitor = Monitor::new(Redis::new(Arc::new(Scripted::default()), Fence::always_open(), Metrics::new()));
        let node = Endpoint { address: "10.0.0.1:6379".into(), login: None, tls: None };
        let key = ("shop".to_owned(), "cache".to_owned());
        let followed = Node::new("cache-0".into(), node.clone(), Some(node.clone()), Duration::from_secs(7));
        monitor.follow(&key, "uid-1", vec![followed]);
        sleep(Duration::from_millis(2900)).await;
        let words = Admission::Refused("ERR max number of clients reached".into());
        assert_eq!(monitor.turned_away(&key, &node), Some(words), "told within three seconds");
        assert!(!monitor.is_busy(&key, &node));
        sleep(Duration::from_secs(8)).await;
        assert!(monitor.is_busy(&key, &node));
        let silence = monitor.silence(&key, &node).unwrap();
        assert!(silence > Duration::from_secs(5), "its errors are no answers: {silence:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_to_a_deleted_object_are_closed() {
        let network = Arc::new(Silent::default());
        let closed = || network.0.lock().drain(..).count();
        let monitor = Monitor::new(Redis::new(network.clone(), Fence::always_open(), Metrics::new()));
        let nodes = ["10.0.0.1:6379", "10.0.0.2:6379"].map(|address| Endpoint {
            address: address.into(),
            login: None,
            tls: None,
        });
        let followed = |nodes: &[Endpoint]| {
            let timeout = Duration::from_secs(5);
            nodes.iter().map(|node| Node::new("cache-0".into(), node.clone(), Some(node.clone()), timeout)).collect()
        };
        let key = |name: &str| ("shop".to_owned(), name.to_owned());
        monitor.follow(&key("cache"), "uid-1", followed(&nodes));
        monitor.forget("uid-1");
        assert_eq!(closed(), 2);
        // A recreated object has one of the addresses.
        monitor.follow(&key("other"), "uid-2", followed(&nodes[..1]));
        sleep(CALLED + Duration::from_secs(1)).await;
        assert_eq!(*network.0.lock(), [nodes[1].clone()]);
    }
}
