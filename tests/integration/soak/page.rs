//! The results of a soak, on one page.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway_api::{EtcdCluster, Redis};
use futures::StreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::chaos::Fault;
use crate::history::judge::Judgement;
use crate::support::Scene;
use crate::{etcd, redis};

/// The variable with the path of the file that figures are written to.
const REPORT: &str = "CAUSEWAY_REPORT";
/// No outage is to last longer, and no status is to be wrong for longer.
const GOAL: Duration = Duration::from_secs(3);
/// Shorter gaps are normal: writes of a client are 50 to 80 ms apart, and a busy machine delays them.
const NOTICEABLE: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Database {
    Redis,
    Etcd,
}

/// Each change of `Ready`: when it changed, and whether it was true from then on.
type Readiness = Vec<(Instant, bool)>;

/// The effect of one fault on one database.
pub struct Turn {
    pub fault: Fault,
    pub database: Database,
    pub begun: Instant,
    /// When all processes were as they should be, whatever the status said.
    pub well: Instant,
    /// When the status said so, too.
    pub reported: Instant,
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
        let moments = [self.begun].into_iter().chain(self.moments.iter().copied()).chain([self.reported]);
        let all: Vec<Instant> = moments.collect();
        (1..all.len()).map(move |at| (all[at - 1], all[at].max(all[at - 1])))
    }

    /// For how long `Ready` was true while no client could write.
    fn falsely_well(&self) -> Duration {
        let outages = self.gaps().filter(|(from, to)| *to - *from > NOTICEABLE);
        outages.map(|(from, to)| self.ready_between(from, to, true)).sum()
    }

    /// For how long `Ready` was not true while all was well.
    fn falsely_sick(&self) -> Duration {
        self.ready_between(self.well, self.reported, false)
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
            let mut known = known.lock().expect("the lock is not poisoned");
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
    pub fn readiness(&self, database: Database) -> Readiness {
        self.known.lock().expect("the lock is not poisoned").get(&database).cloned().unwrap_or_default()
    }
}

impl Drop for Statuses {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// The effect of one kind of fault on a database. The spans are the median and the 99th percentile of its outages, and the
/// longest time that `Ready` was true without writes, and not true while all was well.
struct Row {
    fault: Fault,
    database: Database,
    count: usize,
    spans: [Duration; 4],
}

/// All results.
#[derive(Default)]
pub struct Page {
    turns: Vec<Turn>,
    loads: Vec<(Database, Duration, usize, usize)>,
    judgements: Vec<(Database, usize, String)>,
}

impl Page {
    pub fn add(&mut self, turn: Turn) {
        self.turns.push(turn);
    }

    /// Writes that were acknowledged in that time, and those of them that are gone.
    pub fn note_load(&mut self, database: Database, took: Duration, written: usize, lost: usize) {
        self.loads.push((database, took, written, lost));
    }

    /// Records the judge's results for the keys that clients share.
    pub fn note_judgements(&mut self, all: &[(Database, Judgement)]) {
        self.judgements = all.iter().map(|(database, it)| (*database, it.operations, it.summary())).collect();
    }

    /// Prints the page, and writes its figures to the file that [`REPORT`] names.
    pub fn print(&self) {
        if let Ok(path) = std::env::var(REPORT) {
            std::fs::write(path, Value::from(self.figures()).to_string()).expect("the report is written");
        }
        for (database, took, written, lost) in &self.loads {
            let seconds = took.as_secs().max(1);
            let rate = u64::try_from(*written).unwrap_or_default() / seconds;
            println!("» {database:?}: {written} writes acknowledged in {seconds} s ({rate} a second), {lost} lost");
        }
        for (database, _, summary) in &self.judgements {
            println!("» {database:?}: {summary}");
        }
        println!("» | fault | database | times | outage p50 | p99 | Ready and no write | not Ready and all well |");
        println!("» |---|---|---:|---:|---:|---:|---:|");
        for row in self.rows() {
            let Row { fault, database, count, spans } = row;
            let spans = spans.map(seconds).join(" | ");
            println!("» | {} | {database:?} | {count} | {spans} |", fault.as_str());
        }
    }

    fn rows(&self) -> Vec<Row> {
        let mut kinds: BTreeMap<(Fault, Database), Vec<&Turn>> = BTreeMap::new();
        for turn in &self.turns {
            kinds.entry((turn.fault, turn.database)).or_default().push(turn);
        }
        let row = |((fault, database), turns): ((Fault, Database), Vec<&Turn>)| {
            let [p50, p99] = percentiles(turns.iter().map(|turn| turn.outage()).collect());
            let well = turns.iter().map(|turn| turn.falsely_well()).max().unwrap_or_default();
            let sick = turns.iter().map(|turn| turn.falsely_sick()).max().unwrap_or_default();
            Row { fault, database, count: turns.len(), spans: [p50, p99, well, sick] }
        };
        kinds.into_iter().map(row).collect()
    }

    /// The same for docs/benchmarks.md. Leaves out what a fault did to the other database where no client noticed.
    fn figures(&self) -> Vec<Value> {
        let mut figures = Vec::new();
        for (database, took, written, lost) in &self.loads {
            let name = format!("{database:?}").to_lowercase();
            let note = format!("in {} s", took.as_secs());
            figures.push(json!({ "key": format!("{name}_writes_acknowledged"), "value": written, "note": note }));
            figures.push(json!({ "key": format!("{name}_writes_lost"), "value": lost }));
        }
        for (database, calls, summary) in &self.judgements {
            let name = format!("{database:?}").to_lowercase();
            let note = summary.trim_start_matches(&format!("{calls} calls "));
            figures.push(json!({ "key": format!("{name}_shared_calls"), "value": calls, "note": note }));
        }
        let columns = [
            ("outage_p50", "outage p50, s"),
            ("outage_p99", "p99, s"),
            ("falsely_ready", "`Ready` and no write, s"),
            ("falsely_not_ready", "not `Ready`, all well, s"),
        ];
        for Row { fault, database, count, spans } in self.rows() {
            if !fault.is_done_to(database) && spans.iter().all(|span| *span < NOTICEABLE) {
                continue;
            }
            let which = if database == Database::Redis { "Redis: " } else { "etcd: " };
            let row = format!("{which}{}", fault.as_str().trim_start_matches(which));
            let key = |what: &str| format!("{fault:?}_{database:?}_{what}");
            figures.push(json!({ "key": key("times"), "row": row, "column": "times", "value": count }));
            for ((what, column), span) in columns.iter().zip(spans) {
                let value = (span.as_secs_f64() * 10.0).round() / 10.0;
                let (key, goal) = (key(what), GOAL.as_secs_f64());
                figures.push(json!({ "key": key, "row": row, "column": column, "value": value, "at_most": goal }));
            }
        }
        figures
    }
}

fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

/// The median and the 99th percentile.
fn percentiles(mut spans: Vec<Duration>) -> [Duration; 2] {
    spans.sort_unstable();
    let at = |share: usize| spans.get((spans.len() * share / 100).min(spans.len().saturating_sub(1)));
    [50, 99].map(|share| at(share).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_false_while_clients_observe_otherwise() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let turn = Turn {
            fault: Fault::MasterKilled,
            database: Database::Redis,
            begun,
            well: at(6000),
            reported: at(8000),
            moments: [100, 200, 3200, 3300, 5900, 7900].map(at).to_vec(),
            // The status said not ready one second too late, and ready two seconds too late.
            readiness: vec![(begun, true), (at(1200), false), (at(3300), true), (at(7000), false), (at(8000), true)],
        };
        assert_eq!(turn.outage(), Duration::from_secs(3));
        assert_eq!(turn.falsely_well(), Duration::from_millis(1000 + 2600 + 1100));
        assert_eq!(turn.falsely_sick(), Duration::from_secs(1));
        assert_eq!(percentiles(vec![Duration::from_secs(3), Duration::from_secs(1)])[1], Duration::from_secs(3));
    }
}
