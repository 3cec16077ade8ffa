//! Whatever happens, in whatever order: one verification at a time, each backup tried and reported once, and good backups
//! stay.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use proptest::prelude::*;

use causeway_backup::jobs::End;
use causeway_runtime::Plan;

use super::super::action::Change;
use super::super::decide::{catalog, decide, settled};
use super::super::facts::Job;
use super::tests::{FOLDER, after_each, instant, on_schedule, read_next};
use super::*;

/// The next event; a minute passes with each.
#[derive(Clone, Debug)]
enum Event {
    /// A backup is complete.
    Backup,
    /// The running Job ends: true where it succeeds.
    Ends(bool),
    /// Jobs that ended are deleted.
    JobsGo,
    /// A user deletes the newest backup.
    Deleted,
    /// The operator is down for so many minutes.
    Outage(i64),
    /// The operator dies before it wrote its status.
    Crash,
}

struct Simulation {
    object: DatabaseBackup,
    settled: Observed,
    complete: BTreeSet<Timestamp>,
    jobs: Vec<Verification>,
    now: Timestamp,
    started: Vec<String>,
    message: Vec<String>,
}

impl Simulation {
    fn new(mut object: DatabaseBackup) -> Self {
        object.spec.retention = serde_json::from_value(serde_json::json!({ "keepLast": 2 })).expect("rules");
        let (settled, now) = (settled(&object), instant("2026-11-22T00:00:00Z"));
        let (complete, jobs) = (BTreeSet::new(), Vec::new());
        Self { object, settled, complete, jobs, now, started: Vec::new(), message: Vec::new() }
    }

    fn observe(&self) -> Observed {
        let ids: Vec<String> = self.complete.iter().map(|due| id_of(*due)).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let found = Some(catalog(&ids, &[], self.now));
        let mut observed = Observed { catalog: found, verifications: self.jobs.clone(), ..self.settled.clone() };
        read_next(&self.object, &mut observed, self.now);
        observed
    }

    /// Does what the runner does. A crash comes before the first status is written.
    fn reconcile(&mut self, crash: bool) {
        for _ in 0..12 {
            let Plan { actions, status, write_status_first, .. } = decide(&self.object, &self.observe(), self.now);
            let done = actions.is_empty();
            if done || write_status_first {
                if crash {
                    return;
                }
                self.object.status = Some(status);
            }
            for action in actions {
                self.carry_out(action);
            }
            if done {
                return;
            }
        }
        panic!("still something to do");
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Verify { job, .. } => {
                assert!(self.jobs.iter().all(|it| it.job.end.is_some()), "one at a time");
                assert!(self.jobs.iter().all(|it| it.job.name != job.name()), "it is there already");
                let id = job.value["metadata"]["labels"][names::VERIFIES].as_str().expect("an ID").to_owned();
                self.started.push(job.name().to_owned());
                let job = Job { name: job.name().to_owned(), ..Job::default() };
                let (folder, source) = (FOLDER.to_owned(), "Redis cache".to_owned());
                self.jobs.push(Verification { job, folder, id, source, keys: None });
            }
            Action::Forget { name, .. } => self.jobs.retain(|it| it.job.name != name),
            Action::Tell { event, .. } => self.message.push(event.note),
            Action::Bucket { change: Change::DeleteObjects { keys, .. }, .. } => {
                let deleted: Vec<Timestamp> = keys.iter().filter_map(|key| due_of(key.split('/').nth(4)?)).collect();
                let running = self.jobs.iter().filter(|it| it.job.end.is_none()).map(|it| it.id.clone());
                let proven = self.object.status.iter().flat_map(|status| &status.verified);
                let kept: Vec<String> = proven.filter_map(|it| it.proven.last().cloned()).chain(running).collect();
                for due in deleted {
                    assert!(!kept.contains(&id_of(due)), "{} is kept: {kept:?}", id_of(due));
                    self.complete.remove(&due);
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn meet(&mut self, event: &Event) {
        self.now += SignedDuration::from_mins(1);
        match event {
            Event::Backup => drop(self.complete.insert(self.now)),
            Event::Ends(ok) => {
                let failure = (!ok).then(|| ("Differs".to_owned(), "one key is missing".to_owned()));
                let end = End { at: self.now, failure };
                self.jobs.iter_mut().filter(|it| it.job.end.is_none()).for_each(|it| it.job.end = Some(end.clone()));
            }
            Event::JobsGo => self.jobs.retain(|it| it.job.end.is_none()),
            Event::Deleted => drop(self.complete.pop_last()),
            Event::Outage(minutes) => self.now += SignedDuration::from_mins(*minutes),
            Event::Crash => self.reconcile(true),
        }
        self.reconcile(false);
        let settled = self.object.status.clone();
        self.reconcile(false);
        assert_eq!(self.object.status, settled, "a second look finds nothing new");
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => Just(Event::Backup),
        5 => any::<bool>().prop_map(Event::Ends),
        1 => Just(Event::JobsGo),
        1 => Just(Event::Deleted),
        2 => (1..200_i64).prop_map(Event::Outage),
        2 => Just(Event::Crash),
    ];
    proptest::collection::vec(event, 1..40)
}

fn unique(names: &[String]) -> bool {
    names.iter().collect::<BTreeSet<_>>().len() == names.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn after_each_verifies_every_backup_at_most_once(events in events()) {
        let mut simulation = Simulation::new(after_each());
        for event in &events {
            simulation.meet(event);
        }
        simulation.meet(&Event::Ends(true));
        simulation.meet(&Event::Ends(true));
        prop_assert!(unique(&simulation.started), "{:?}", simulation.started);
        prop_assert!(unique(&simulation.message), "{:?}", simulation.message);
        let results = simulation.object.status.map(|status| status.verified).unwrap_or_default();
        let verdict = |due: &Timestamp| verdict(&results, FOLDER, &id_of(*due));
        prop_assert!(simulation.complete.last().is_none_or(|newest| verdict(newest).is_some()));
    }

    #[test]
    fn a_schedule_verifies_at_most_once_each_time(events in events()) {
        let mut simulation = Simulation::new(on_schedule("*/10 * * * *"));
        let (begun, mut deleted) = (simulation.now.as_second(), 0);
        for event in &events {
            let before = simulation.started.len();
            simulation.meet(event);
            prop_assert!(simulation.started.len() <= before + 1, "an outage is caught up with once");
            let came = usize::try_from((simulation.now.as_second() - begun) / 600).unwrap();
            // The outcome of a backup that was deleted meanwhile does not count, and the backup before it has its turn.
            deleted += usize::from(matches!(event, Event::Deleted));
            prop_assert!(simulation.started.len() <= came + deleted, "{came} times, and {:?}", simulation.started);
        }
        prop_assert!(unique(&simulation.started), "{:?}", simulation.started);
    }
}
