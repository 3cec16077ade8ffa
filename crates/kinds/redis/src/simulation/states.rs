//! The table of states in `decide/failover/mod.rs`, against what happens here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::redis::Failover;
use causeway_api::{Redis, RedisStatus};
use causeway_databases::redis::{Link, Role};

use super::Simulation;
use super::looks::{dies, says};
use crate::decide::{decide, failover_state};
use crate::facts::{NodeState, Observed};
use crate::fixtures::redis;
use crate::names::PORT;

/// A row: with which records the state is possible, and what it may record.
struct Row {
    recorded: BTreeSet<&'static str>,
    records: BTreeSet<&'static str>,
}

/// The rows by the names of their states.
static TABLE: LazyLock<BTreeMap<&str, Row>> = LazyLock::new(|| {
    let source = include_str!("../decide/failover/mod.rs");
    let rows = source.lines().filter_map(|line| line.strip_prefix("//! | ")?.strip_suffix('|'));
    let rows = rows.skip(1).map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{row}");
        let words = |cell: &'static str| cell.split(", ").filter(|word| !word.is_empty()).collect();
        (cells[0].trim_matches('`'), Row { recorded: words(cells[1]), records: words(cells[4]) })
    });
    rows.collect()
});

/// Names the record of a status about the master.
fn record(status: Option<&RedisStatus>) -> &'static str {
    match status.and_then(|status| status.failover.as_ref()) {
        Some(failover) if failover.planned => "switchover",
        Some(_) => "failover",
        None if status.is_some_and(|status| status.master.is_some()) => "master",
        None => "nothing",
    }
}

/// The states that an object was in, with what was recorded, and what they recorded.
#[derive(Clone, Debug, Default)]
pub struct States {
    seen: BTreeSet<(&'static str, &'static str)>,
    recorded: BTreeSet<(&'static str, &'static str)>,
}

impl States {
    /// Asserts that the table has a row for the state, which lists what was recorded before it and what it records.
    /// `after` is the status that was decided.
    pub fn follow(&mut self, object: &Redis, observed: &Observed, now: Timestamp, after: &RedisStatus) {
        let (state, before) = (failover_state(object, observed, now), object.status.as_ref());
        let Some(row) = TABLE.get(state) else { panic!("{state} has no row") };
        let known = record(before);
        assert!(row.recorded.contains(known), "{state} while {known} is recorded");
        self.seen.insert((state, known));
        let failover = |status: Option<&RedisStatus>| status.and_then(|status| status.failover.clone());
        if failover(before) != failover(Some(after)) || known != record(Some(after)) {
            let next = record(Some(after));
            assert!(row.records.contains(next), "{state} records {next}");
            self.recorded.insert((state, next));
        }
    }

    /// Follows one look at a master and its two replicas, with a change of the master recorded or none.
    fn look(
        &mut self,
        settled: &Simulation,
        failover: Option<(Option<i32>, i32, bool)>,
        change: impl FnOnce(&mut Simulation, &mut Observed),
    ) {
        let mut simulation = settled.clone();
        let name = |ordinal: i32| format!("cache-{ordinal}");
        let begun = Time(simulation.now);
        let status = simulation.object.status.as_mut().unwrap();
        status.failover = failover.map(|(from, to, planned)| Failover {
            epoch: status.epoch + 1,
            from: from.map(name),
            target: name(to),
            reason: "MasterGone".into(),
            planned,
            begun,
        });
        let mut observed = simulation.observe();
        change(&mut simulation, &mut observed);
        let after = decide(&simulation.object, &observed, simulation.now).status;
        self.follow(&simulation.object, &observed, simulation.now, &after);
    }
}

fn is(observed: &mut Observed, ordinals: &[i32], state: &NodeState) {
    for ordinal in ordinals {
        if *state == NodeState::Gone {
            dies(observed, *ordinal);
        }
        observed.set.pods.get_mut(ordinal).unwrap().own.state = state.clone();
    }
}

#[test]
fn every_row_of_the_table_comes_true() {
    let (gone, silent) = (NodeState::Gone, NodeState::Silent(Duration::from_millis(700)));
    let settled = Simulation::settled(redis(2));
    let mut states = settled.states.clone();
    let (failover, switchover) = (Some((Some(0), 1, false)), Some((Some(0), 1, true)));
    // The first master is recorded, and its node does not answer any more.
    states.look(&settled, Some((None, 0, false)), |simulation, observed| {
        simulation.object.status.as_mut().unwrap().master = None;
        is(observed, &[0, 1, 2], &gone);
    });
    states.look(&settled, None, |_, observed| is(observed, &[0], &gone));
    states.look(&settled, None, |_, observed| is(observed, &[0, 1, 2], &gone));
    states.look(&settled, None, |_, observed| is(observed, &[0], &silent));
    states.look(&settled, None, |_, observed| observed.set.pods.get_mut(&0).unwrap().terminating = true);
    // A user made it hand over by hand.
    states.look(&settled, None, |_, observed| {
        let host = observed.set.pods[&1].address.clone().unwrap();
        let link = Link { host, port: PORT, up: true, syncing: false };
        says(observed, 0, |info| info.role = Role::Replica(link.clone()));
        says(observed, 1, |info| info.role = Role::Master);
    });
    states.look(&settled, failover, |_, observed| is(observed, &[0], &gone));
    states.look(&settled, failover, |_, observed| is(observed, &[0, 1], &gone));
    states.look(&settled, failover, |_, observed| is(observed, &[0, 1, 2], &gone));
    states.look(&settled, switchover, |_, _| {});
    states.look(&settled, switchover, |simulation, _| simulation.now += SignedDuration::from_secs(16));
    states.look(&settled, switchover, |_, observed| is(observed, &[0], &silent));
    states.look(&settled, switchover, |_, observed| is(observed, &[0], &gone));
    states.look(&settled, switchover, |_, observed| is(observed, &[0, 1, 2], &gone));
    // The target is the master, and all is as it should be.
    for planned in [false, true] {
        states.look(&settled, Some((Some(1), 0, planned)), |_, _| {});
    }
    let all = |cells: fn(&Row) -> &BTreeSet<&'static str>| -> BTreeSet<(&str, &str)> {
        TABLE.iter().flat_map(|(state, row)| cells(row).iter().map(move |cell| (*state, *cell))).collect()
    };
    assert_eq!(states.seen, all(|row| &row.recorded));
    assert_eq!(states.recorded, all(|row| &row.records));
}
