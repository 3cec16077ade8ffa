//! Watches which nodes are behind the master's Service, and asks these every 10 ms whether they are masters (`ROLE`).
//!
//! Two nodes that both answer twice in a row that they are masters were masters at the same time: each has said so
//! after the other had.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::runtime::watcher::{self, Event, watcher};
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::entrance::Entrance;
use crate::redis::{LABEL, NAME, ROLE_LABEL};
use crate::support::Scene;

const EVERY: Duration = Duration::from_millis(10);
/// A node that does not answer for so long takes no writes either.
const DEADLINE: Duration = Duration::from_millis(300);
/// A node that has left the Service is asked for so long: connections to it may still be open.
const LINGERING: Duration = Duration::from_secs(2);

pub struct Watch {
    seen: Arc<Mutex<Seen>>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// The observations of a watcher.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Two writable masters behind the Service at once: their addresses, and when after the start.
    pub doubles: Vec<(BTreeSet<String>, Duration)>,
    /// Two pods that had the master's label at once.
    pub labelled_twice: Vec<BTreeSet<String>>,
    /// Looks at several nodes, one of which had left the Service a moment ago.
    pub looks: usize,
    /// The looks in which such a node was still a master, beside another one.
    pub lingering: usize,
    /// How often a node became an endpoint of the Service.
    pub changes: usize,
}

#[derive(Default)]
struct Seen {
    slices: BTreeMap<String, BTreeSet<String>>,
    labelled: BTreeSet<String>,
    left: BTreeMap<String, Instant>,
    watched: Watched,
}

impl Seen {
    fn behind(&self) -> BTreeSet<String> {
        self.slices.values().flatten().cloned().collect()
    }

    /// Changes the endpoints of the Service, and remembers the nodes that leave it.
    fn change(&mut self, change: impl FnOnce(&mut BTreeMap<String, BTreeSet<String>>)) {
        let before = self.behind();
        change(&mut self.slices);
        let after = self.behind();
        self.watched.changes += after.difference(&before).count();
        let now = Instant::now();
        self.left.extend(before.difference(&after).map(|address| (address.clone(), now)));
    }

    fn label(&mut self, pod: &Pod, gone: bool) {
        let is_master = pod.labels().get(ROLE_LABEL).is_some_and(|role| role == "master");
        if is_master && !gone && pod.metadata.deletion_timestamp.is_none() {
            self.labelled.insert(pod.name_any());
        } else {
            self.labelled.remove(&pod.name_any());
        }
        if self.labelled.len() > 1 {
            self.watched.labelled_twice.push(self.labelled.clone());
        }
    }
}

impl Watch {
    /// Starts to watch. The endpoint of the Service is known when this returns.
    pub async fn start(scene: &Scene, entrance: Entrance) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let slices = watcher(scene.api(), selecting(&format!("kubernetes.io/service-name={NAME}")));
        let pods = watcher(scene.api(), selecting(&format!("{LABEL}={NAME}")));
        tasks.spawn(follow_slices(slices, seen.clone()));
        tasks.spawn(follow_pods(pods, seen.clone()));
        tasks.spawn(ask_all(entrance, seen.clone(), stop.clone()));
        let watch = Self { seen, stop, tasks };
        let look = || async { locked(&watch.seen).behind().len() };
        crate::support::wait_for("a master behind the Service", look, |count| *count == 1).await;
        watch
    }

    /// Ends the watch, and returns what was seen.
    pub async fn finish(mut self) -> Watched {
        self.stop.cancel();
        self.tasks.shutdown().await;
        locked(&self.seen).watched.clone()
    }
}

impl Watched {
    /// Lists what must never happen, but did.
    pub fn complaints(&self) -> Vec<String> {
        let doubles = self.doubles.first().map(|(who, after)| {
            let times = self.doubles.len();
            format!("several writable masters behind the Service: {who:?}, {times} times, first after {after:?}")
        });
        let labelled = self.labelled_twice.first().map(|who| format!("several pods bear the master's label: {who:?}"));
        doubles.into_iter().chain(labelled).collect()
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} changes behind the Service, {} times two writable masters behind it; in {} of {} looks at one that had \
             left, it was a master beside another",
            self.changes,
            self.doubles.len(),
            self.lingering,
            self.looks,
        )
    }
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().expect("the lock is not poisoned")
}

fn selecting(labels: &str) -> watcher::Config {
    watcher::Config::default().labels(labels)
}

async fn follow_slices(
    events: impl Stream<Item = Result<Event<EndpointSlice>, watcher::Error>> + Send,
    seen: Arc<Mutex<Seen>>,
) {
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(slice) | Event::InitApply(slice)) => {
                locked(&seen).change(|slices| slices.insert(slice.name_any(), serving(&slice)).map_or((), drop));
            }
            Ok(Event::Delete(slice)) => {
                locked(&seen).change(|slices| slices.remove(&slice.name_any()).map_or((), drop));
            }
            Ok(Event::Init | Event::InitDone) | Err(_) => {}
        }
    }
}

/// The endpoints to which new connections go.
fn serving(slice: &EndpointSlice) -> BTreeSet<String> {
    let ready = |ready: Option<bool>| ready.unwrap_or(true);
    let endpoints = slice.endpoints.iter().filter(|it| ready(it.conditions.as_ref().and_then(|it| it.ready)));
    endpoints.flat_map(|endpoint| endpoint.addresses.clone()).collect()
}

async fn follow_pods(events: impl Stream<Item = Result<Event<Pod>, watcher::Error>> + Send, seen: Arc<Mutex<Seen>>) {
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => locked(&seen).label(&pod, false),
            Ok(Event::Delete(pod)) => locked(&seen).label(&pod, true),
            // All pods are listed again: what happened since the watch broke is not known.
            Ok(Event::Init) => locked(&seen).labelled.clear(),
            Ok(Event::InitDone) | Err(_) => {}
        }
    }
}

/// Asks all nodes that are behind the Service, or were a moment ago, whenever there are several.
async fn ask_all(entrance: Entrance, seen: Arc<Mutex<Seen>>, stop: CancellationToken) {
    let begun = Instant::now();
    let mut lines: BTreeMap<String, Option<MultiplexedConnection>> = BTreeMap::new();
    let mut before: BTreeSet<String> = BTreeSet::new();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.is_cancelled() {
        ticks.tick().await;
        let candidates = {
            let mut seen = locked(&seen);
            seen.left.retain(|_, at| at.elapsed() < LINGERING);
            let mut candidates = seen.behind();
            candidates.extend(seen.left.keys().cloned());
            candidates
        };
        if candidates.len() < 2 {
            before.clear();
            continue;
        }
        lines.retain(|address, _| candidates.contains(address));
        for address in &candidates {
            lines.entry(address.clone()).or_default();
        }
        let asked = lines.iter_mut().map(|(address, line)| is_master(address, line, &entrance));
        let answers = join_all(asked).await;
        let masters: BTreeSet<String> = answers.into_iter().flatten().collect();
        let twice: BTreeSet<String> = masters.intersection(&before).cloned().collect();
        let mut seen = locked(&seen);
        let behind: BTreeSet<String> = twice.intersection(&seen.behind()).cloned().collect();
        if behind.len() > 1 {
            seen.watched.doubles.push((behind, begun.elapsed()));
        }
        seen.watched.looks += 1;
        seen.watched.lingering += usize::from(twice.len() > 1);
        before = masters;
    }
}

/// The address again, if the node there says that it is a master.
async fn is_master(address: &str, line: &mut Option<MultiplexedConnection>, entrance: &Entrance) -> Option<String> {
    let asked = async {
        if line.is_none() {
            *line = Some(entrance.open(&format!("{address}:6379")).await.ok()?);
        }
        redis::cmd("ROLE").query_async::<Vec<Value>>(line.as_mut()?).await.ok()
    };
    let Ok(Some(answer)) = timeout(DEADLINE, asked).await else {
        *line = None;
        return None;
    };
    matches!(answer.first(), Some(Value::BulkString(role)) if role == b"master").then(|| address.to_owned())
}
