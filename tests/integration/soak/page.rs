//! What came of it, on one page.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway::api::{EtcdCluster, Redis};
use futures::StreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::task::JoinHandle;

use super::chaos::Fault;
use crate::support::Scene;
use crate::{etcd, redis};

/// Clients wait for less at any time: writes are 20 to 40 ms apart, and a busy machine is late.
const NOTICEABLE: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Database {
    Redis,
    Etcd,
}

/// From when on `Ready` was true, or was not.
type Readiness = Vec<(Instant, bool)>;

/// What one fault did to one database.
pub struct Turn {
    pub fault: Fault,
    pub database: Database,
    pub begun: Instant,
    /// All processes were as they should be by then, whatever the status said.
    pub well: Instant,
    /// The status said so, too.
    pub until: Instant,
    /// When writes were acknowledged, from before it began.
    pub moments: Vec<Instant>,
    pub readiness: Readiness,
}

impl Turn {
    /// The longest time in which no write was acknowledged.
    fn outage(&self) -> Duration {
        self.gaps().map(|(from, to)| to - from).max().unwrap_or_default()
    }

    fn gaps(&self) -> impl Iterator<Item = (Instant, Instant)> {
        let moments = [self.begun].into_iter().chain(self.moments.iter().copied()).chain([self.until]);
        let all: Vec<Instant> = moments.collect();
        (1..all.len()).map(move |at| (all[at - 1], all[at].max(all[at - 1])))
    }

    /// For how long `Ready` was true while nobody could write.
    fn falsely_well(&self) -> Duration {
        let outages = self.gaps().filter(|(from, to)| *to - *from > NOTICEABLE);
        outages.map(|(from, to)| self.ready_between(from, to, true)).sum()
    }

    /// For how long `Ready` was not true while all was well.
    fn falsely_sick(&self) -> Duration {
        self.ready_between(self.well, self.until, false)
    }

    /// How much of that time the condition had that value.
    fn ready_between(&self, from: Instant, to: Instant, ready: bool) -> Duration {
        let ends = self.readiness.iter().skip(1).map(|(at, _)| *at).chain([to]);
        let spans = self.readiness.iter().zip(ends).filter(|((_, is_ready), _)| *is_ready == ready);
        spans.map(|((begins, _), ends)| ends.min(to).saturating_duration_since((*begins).max(from))).sum()
    }
}

/// How `Ready` changed, of both databases.
pub struct Statuses {
    known: Arc<Mutex<BTreeMap<Database, Readiness>>>,
    tasks: [JoinHandle<()>; 2],
}

impl Statuses {
    pub fn follow(scene: &Scene) -> Self {
        let known: Arc<Mutex<BTreeMap<Database, Readiness>>> = Arc::default();
        let note = |known: &Mutex<BTreeMap<Database, Readiness>>, database, is_ready| {
            let mut known = known.lock().expect("nobody panics with it");
            let changes: &mut Readiness = known.entry(database).or_default();
            if changes.last().map(|(_, last)| *last) != Some(is_ready) {
                changes.push((Instant::now(), is_ready));
            }
        };
        let says = |status: Option<(String, String, String)>| status.is_some_and(|(status, ..)| status == "True");
        let (of_redis, of_etcd) = (known.clone(), known.clone());
        let (sets, clusters) = (scene.api::<Redis>(), scene.api::<EtcdCluster>());
        let tasks = [
            tokio::spawn(async move {
                let mut events = watcher(sets, watcher::Config::default()).boxed();
                while let Some(event) = events.next().await {
                    if let Ok(Event::Apply(object) | Event::InitApply(object)) = event {
                        note(&of_redis, Database::Redis, says(redis::describe(&object, "Ready")));
                    }
                }
            }),
            tokio::spawn(async move {
                let mut events = watcher(clusters, watcher::Config::default()).boxed();
                while let Some(event) = events.next().await {
                    if let Ok(Event::Apply(object) | Event::InitApply(object)) = event {
                        note(&of_etcd, Database::Etcd, says(etcd::describe(&object, "Ready")));
                    }
                }
            }),
        ];
        Self { known, tasks }
    }

    /// All changes so far.
    pub fn of(&self, database: Database) -> Readiness {
        self.known.lock().expect("nobody panics with it").get(&database).cloned().unwrap_or_default()
    }
}

impl Drop for Statuses {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// All of it.
pub struct Page {
    seed: u64,
    turns: Vec<Turn>,
    loads: Vec<(Database, Duration, usize, usize)>,
}

impl Page {
    pub fn new(seed: u64) -> Self {
        Self { seed, turns: Vec::new(), loads: Vec::new() }
    }

    pub fn add(&mut self, turn: Turn) {
        self.turns.push(turn);
    }

    /// Writes that were acknowledged in that time, and those of them that are gone.
    pub fn note_load(&mut self, database: Database, took: Duration, written: usize, lost: usize) {
        self.loads.push((database, took, written, lost));
    }

    /// Prints it.
    pub fn print(&self) {
        println!("» soak with seed {}", self.seed);
        for (database, took, written, lost) in &self.loads {
            let seconds = took.as_secs().max(1);
            let rate = u64::try_from(*written).unwrap_or_default() / seconds;
            println!("» {database:?}: {written} writes acknowledged in {seconds} s ({rate} a second), {lost} lost");
        }
        println!("» | fault | database | times | outage p50 | p99 | Ready and no write | not Ready and all well |");
        println!("» |---|---|---:|---:|---:|---:|---:|");
        let mut kinds: BTreeMap<(Fault, Database), Vec<&Turn>> = BTreeMap::new();
        for turn in &self.turns {
            kinds.entry((turn.fault, turn.database)).or_default().push(turn);
        }
        for ((fault, database), turns) in kinds {
            let outages = turns.iter().map(|turn| turn.outage()).collect();
            let [p50, p99] = percentiles(outages).map(seconds);
            let well = turns.iter().map(|turn| turn.falsely_well()).max().unwrap_or_default();
            let sick = turns.iter().map(|turn| turn.falsely_sick()).max().unwrap_or_default();
            let (fault, count) = (fault.as_str(), turns.len());
            println!("» | {fault} | {database:?} | {count} | {p50} | {p99} | {} | {} |", seconds(well), seconds(sick));
        }
    }
}

fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

/// The middle one, and that which all but one in a hundred are below.
fn percentiles(mut spans: Vec<Duration>) -> [Duration; 2] {
    spans.sort_unstable();
    let at = |share: usize| spans.get((spans.len() * share / 100).min(spans.len().saturating_sub(1)));
    [50, 99].map(|share| at(share).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_lies_while_it_says_what_clients_do_not_find() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let turn = Turn {
            fault: Fault::MasterKilled,
            database: Database::Redis,
            begun,
            well: at(6000),
            until: at(8000),
            moments: [100, 200, 3200, 3300, 5900, 7900].map(at).to_vec(),
            // It was told not ready one second too late, and well two seconds too late.
            readiness: vec![(begun, true), (at(1200), false), (at(3300), true), (at(7000), false), (at(8000), true)],
        };
        assert_eq!(turn.outage(), Duration::from_secs(3));
        assert_eq!(turn.falsely_well(), Duration::from_millis(1000 + 2600 + 1100));
        assert_eq!(turn.falsely_sick(), Duration::from_secs(1));
        assert_eq!(percentiles(vec![Duration::from_secs(3), Duration::from_secs(1)])[1], Duration::from_secs(3));
    }
}
