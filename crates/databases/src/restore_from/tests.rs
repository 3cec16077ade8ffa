//! Decisions from the beginning to the end; nothing is brought back twice, whatever goes wrong.

use std::collections::BTreeMap;
use std::slice::from_ref;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use proptest::prelude::*;
use serde_json::json;

use causeway_api::databaserestore::{BackupChoice, RestoreOutcome, RestorePhase, Restored};
use causeway_api::{EtcdCluster, EtcdClusterStatus, Redis};
use causeway_runtime::{ConditionStatus, Health, Plan};

use super::child::{name, restore, spec};
use super::decide::{Database, Decision, decide, matters};
use super::facts::{Live, Seen};
use super::fixtures::{self, live, live_in};
use super::{Step, join};

fn cluster(name: &str) -> EtcdCluster {
    let object = json!({
        "apiVersion": "mycompany.com/v1alpha1", "kind": "EtcdCluster",
        "metadata": { "name": name, "namespace": "shop", "uid": "uid-1" }, "spec": { "version": "3.5.9" },
    });
    serde_json::from_value(object).expect("a cluster")
}

fn nightly() -> BackupChoice {
    BackupChoice { source: Some("EtcdCluster/prod".into()), ..fixtures::nightly() }
}

fn record_of(outcome: RestoreOutcome, uid: Option<&str>) -> Restored {
    Restored { backup: "nightly".into(), outcome, uid: uid.map(str::to_owned), ..Restored::default() }
}

/// Returns the decision for a cluster that serves.
fn next(asked: bool, before: Option<&Restored>, seen: &Seen) -> Decision {
    let (object, from) = (cluster("db"), nightly());
    let asked = asked.then_some(&from);
    decide(&Database {
        object: &object,
        asked,
        before,
        seen,
        serves: true,
        found_volumes: false,
        labels: BTreeMap::new(),
    })
}

fn reason(decision: &Decision) -> &'static str {
    decision.part.as_ref().map(|part| part.reason).unwrap_or_default()
}

fn is_stalled(decision: &Decision) -> bool {
    matches!(decision.hold, Some(Health::Stalled(_)))
}

#[test]
fn the_restore_stays_as_it_was_reviewed() {
    let labels = BTreeMap::from([("causeway.example.com/etcd".to_owned(), "db".to_owned())]);
    let redis = json!({
        "apiVersion": "example.com/v1", "kind": "Redis",
        "metadata": { "name": "cache", "namespace": "shop", "uid": "uid-2" }, "spec": {},
    });
    let redis: Redis = serde_json::from_value(redis).expect("a Redis");
    let latest = BackupChoice { source: None, ..nightly() };
    let made = [restore(&cluster("db"), &nightly(), labels), restore(&redis, &latest, BTreeMap::new())];
    let made = made.map(|it| it.value);
    insta::assert_yaml_snapshot!(made);
}

#[test]
fn long_names_get_distinct_hashes() {
    assert_eq!(name(&cluster(&"a".repeat(40))), format!("{}-restore", "a".repeat(40)));
    let names: Vec<String> = ["b", "c"].map(|end| name(&cluster(&format!("{}-{end}", "a".repeat(44))))).into();
    assert_ne!(names[0], names[1]);
    for name in names {
        assert!(name.len() <= 48 && name.starts_with("aaa") && name.ends_with("-restore"), "{name}");
    }
    assert!(!name(&cluster(&format!("{}-{}", "a".repeat(30), "b".repeat(14)))).contains("--"));
}

#[test]
fn what_comes_next_stays_as_it_was_reviewed() {
    let text = |before: Option<&Restored>, seen: &Seen| {
        let decision = next(true, before, seen);
        let part = decision.part.expect("it is reported");
        let step = decision.step.map_or_else(|| "nothing".into(), |step| format!("{step:?}"));
        json!({
            "condition": format!("{:?} {}: {}", part.status, part.reason, part.message),
            "step": step, "ready": decision.hold.is_none(), "noted": decision.record,
        })
    };
    let (running, failed) =
        (record_of(RestoreOutcome::Running, Some("restore-1")), record_of(RestoreOutcome::Failed, Some("restore-1")));
    let waiting = Seen::Present(Live { stalled: true, ..live("restore-1") });
    let courses = BTreeMap::from([
        ("01 not looked for yet", text(None, &Seen::Unknown)),
        ("02 no kind", text(None, &Seen::KindMissing)),
        ("03 no right", text(None, &Seen::Denied)),
        ("04 refused", text(None, &Seen::Refused("quota exceeded".into()))),
        ("05 none yet", text(None, &Seen::Absent)),
        ("06 of another owner", text(None, &Seen::Present(Live { ours: false, ..live("x") }))),
        ("07 just made", text(None, &Seen::Present(live("restore-1")))),
        ("08 waits for a user", text(Some(&running), &waiting)),
        ("09 writes", text(Some(&running), &live_in("restore-1", RestorePhase::Restoring, "it is written"))),
        ("10 failed", text(Some(&running), &live_in("restore-1", RestorePhase::Failed, "TargetNotEmpty: 5 keys."))),
        ("11 failed and deleted", text(Some(&failed), &Seen::Absent)),
        ("12 succeeded", text(Some(&running), &live_in("restore-1", RestorePhase::Succeeded, "it is in: 7 keys"))),
        ("13 deleted while it ran", text(Some(&running), &Seen::Absent)),
        ("14 another one", text(Some(&running), &Seen::Present(live("restore-2")))),
    ]);
    insta::assert_yaml_snapshot!(courses);
}

#[test]
fn what_succeeded_is_not_looked_at_and_not_done_again() {
    let done = record_of(RestoreOutcome::Succeeded, Some("restore-1"));
    assert!(!matters(true, Some(&done)) && !matters(false, Some(&done)) && !matters(false, None));
    assert!(matters(true, None));
    for seen in [Seen::Unknown, Seen::Absent, Seen::KindMissing, Seen::Present(live("restore-2"))] {
        let decision = next(true, Some(&done), &seen);
        assert_eq!((decision.step, decision.hold, decision.record.as_ref()), (None, None, Some(&done)), "{seen:?}");
        assert_eq!(decision.part.map(|part| part.status), Some(ConditionStatus::True));
    }
}

#[test]
fn data_on_found_volumes_are_kept() {
    let (object, from) = (cluster("db"), nightly());
    let running = record_of(RestoreOutcome::Running, Some("restore-1"));
    let next = |before: &Restored, seen: &Seen| {
        let labels = BTreeMap::new();
        let (asked, before) = (Some(&from), Some(before));
        decide(&Database { object: &object, asked, before, seen, serves: true, found_volumes: true, labels })
    };
    let holds = live_in("restore-1", RestorePhase::Failed, "TargetNotEmpty: 5 keys");
    let skipped = next(&running, &holds);
    assert!(matches!(skipped.step, Some(Step::Tell { reason: "RestoreSkipped", .. })), "{skipped:?}");
    assert_eq!((reason(&skipped), &skipped.hold), ("VolumesFound", &None));
    let record = skipped.record.expect("it is noted");
    assert_eq!(record.outcome, RestoreOutcome::Skipped);
    let later = next(&record, &Seen::Absent);
    assert_eq!((later.step, later.hold, later.record.as_ref()), (None, None, Some(&record)), "noted once");

    // Half of a backup that an earlier object was to begin with is no client's data.
    let half = next(&running, &live_in("restore-1", RestorePhase::Failed, "TargetHalfRestored: 5 keys"));
    assert!(is_stalled(&half) && reason(&half) == "RestoreFailed", "{half:?}");
}

#[test]
fn a_running_restore_is_stopped_before_readiness() {
    let running = record_of(RestoreOutcome::Running, Some("restore-1"));
    let writes = live_in("restore-1", RestorePhase::Restoring, "it is written");
    let decision = next(false, Some(&running), &writes);
    assert_eq!(decision.step, Some(Step::Stop { name: "db-restore".into(), uid: "restore-1".into() }));
    assert!(decision.hold.is_some());
    let Seen::Present(mut going) = writes else { panic!("it is there") };
    going.going = true;
    let decision = next(false, Some(&running), &Seen::Present(going));
    assert!(decision.step.is_none() && decision.hold.is_some());
    let ended = live_in("restore-1", RestorePhase::Failed, "it failed");
    for seen in [Seen::Absent, Seen::KindMissing, ended, Seen::Present(Live { ours: false, ..live("x") })] {
        let decision = next(false, Some(&running), &seen);
        assert_eq!((decision.step, decision.hold, decision.record), (None, None, None), "{seen:?}");
    }
    assert!(next(false, Some(&running), &Seen::Unknown).hold.is_some(), "it may write");
    let never = next(false, None, &Seen::Unknown);
    assert_eq!(
        (never.step, never.hold, never.part.map(|part| part.status)),
        (None, None, Some(ConditionStatus::Absent))
    );
}

/// As after `kubectl delete --cascade=orphan`, a restore of the objects, or an edit of the owner references.
fn lost_live(uid: &str, phase: RestorePhase) -> Live {
    let spec = spec(&cluster("db"), &nightly());
    Live { ours: false, lost: true, phase, spec: Some(Box::new(spec)), version: "7".into(), ..live(uid) }
}

#[test]
fn a_restore_that_lost_its_owner_is_taken_back() {
    let taken = |before: Option<&Restored>, live: Live| {
        let decision = next(true, before, &Seen::Present(live));
        assert_eq!(decision.record.as_ref(), before, "what is recorded stays");
        match decision.step {
            Some(Step::TakeBack { uid, version, owners, .. }) => {
                assert_eq!((version.as_str(), decision.hold.is_some()), ("7", true));
                owners.into_iter().map(|owner| (uid.clone(), owner.uid, owner.controller)).collect()
            }
            step => {
                assert_eq!((step, decision.part.map(|part| part.reason)), (None, Some("NameTaken")));
                Vec::new()
            }
        }
    };
    let ours = ("restore-1".to_owned(), "uid-1".to_owned(), Some(true));
    let running = record_of(RestoreOutcome::Running, Some("restore-1"));
    assert_eq!(taken(None, lost_live("restore-1", RestorePhase::Pending)), from_ref(&ours));
    assert_eq!(taken(Some(&running), lost_live("restore-1", RestorePhase::Restoring)), from_ref(&ours));
    let mut others = lost_live("restore-1", RestorePhase::Succeeded);
    others.spec = None;
    others.owners = vec![OwnerReference { uid: "x".into(), kind: "Deployment".into(), ..OwnerReference::default() }];
    let owners = taken(Some(&running), others);
    assert_eq!(owners, [("restore-1".to_owned(), "x".to_owned(), None), ours], "it is the one that is recorded");
    let mut forced = lost_live("restore-1", RestorePhase::Pending);
    forced.spec.as_mut().expect("a spec").force = true;
    assert!(taken(None, forced).is_empty(), "a user made it");
    assert!(taken(Some(&running), lost_live("restore-2", RestorePhase::Pending)).is_empty());
    assert!(taken(None, Live { lost: false, ..lost_live("restore-1", RestorePhase::Pending) }).is_empty());
}

#[test]
fn an_orphaned_restore_is_stopped_too() {
    let running = record_of(RestoreOutcome::Running, Some("restore-1"));
    let decision = next(false, Some(&running), &Seen::Present(lost_live("restore-1", RestorePhase::Restoring)));
    assert_eq!(decision.step, Some(Step::Stop { name: "db-restore".into(), uid: "restore-1".into() }));
    let earlier = Live { ours: false, left_over: true, ..live("restore-0") };
    let decision = next(true, None, &Seen::Present(earlier));
    assert!(!is_stalled(&decision) && decision.hold.is_some(), "{decision:?}");
    assert!(decision.part.is_some_and(|part| part.message.contains("an earlier EtcdCluster of this name")));
}

fn plan(actions: Vec<Step>, health: Health) -> Plan<Step, EtcdClusterStatus> {
    let status = EtcdClusterStatus::default();
    Plan { actions, status, health, parts: Vec::new(), write_status_first: false, requeue: None }
}

fn joined(
    plan: Plan<Step, EtcdClusterStatus>,
    before: Option<&Restored>,
    seen: &Seen,
) -> Plan<Step, EtcdClusterStatus> {
    let (object, from) = (cluster("db"), nightly());
    let database = Database {
        object: &object,
        asked: Some(&from),
        before,
        seen,
        serves: true,
        found_volumes: false,
        labels: BTreeMap::new(),
    };
    join(plan, &database, |step| step, |status, restored| status.restored = restored)
}

#[test]
fn members_come_first_and_their_trouble_is_reported_first() {
    let busy = || vec![Step::Tell { reason: "Busy", note: String::new() }];
    let well = || Health::ready("AllMembersHealthy", "");
    let joined_busy = joined(plan(busy(), well()), None, &Seen::Absent);
    assert_eq!((joined_busy.actions, joined_busy.write_status_first), (busy(), false));
    assert!(matches!(joined_busy.health, Health::Progressing(_)), "it is not ready without its data");

    let succeeded = live_in("restore-1", RestorePhase::Succeeded, "it is in");
    let running = record_of(RestoreOutcome::Running, Some("restore-1"));
    let later = joined(plan(busy(), well()), Some(&running), &succeeded);
    assert_eq!(later.status.restored.as_ref(), Some(&running), "noted when it can be reported");
    assert!(matches!(later.health, Health::Progressing(_)));

    let lost = joined(plan(Vec::new(), Health::stalled("QuorumLost", "")), None, &Seen::Absent);
    assert!(lost.actions.is_empty(), "{:?}", lost.actions);
    assert!(matches!(lost.health, Health::Stalled(cause) if cause.reason == "QuorumLost"));

    let done = joined(plan(Vec::new(), well()), Some(&running), &succeeded);
    assert!(matches!(done.health, Health::Ready(_)) && done.write_status_first);
    assert_eq!(done.status.restored.map(|it| it.outcome), Some(RestoreOutcome::Succeeded));
}

#[test]
fn a_database_that_takes_no_writes_yet_waits() {
    let (object, from, seen) = (cluster("db"), nightly(), Seen::Absent);
    let decision = decide(&Database {
        object: &object,
        asked: Some(&from),
        before: None,
        seen: &seen,
        serves: false,
        found_volumes: false,
        labels: BTreeMap::new(),
    });
    assert!(decision.step.is_none() && !is_stalled(&decision) && decision.hold.is_some());
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A reconcile; its write of the status may fail, and it may die before it acts.
    Reconcile {
        written: bool,
        acts: bool,
    },
    /// A reconcile that gets no answer about the `DatabaseRestore`.
    Blind,
    /// The `DatabaseRestore` goes one phase further, where it may.
    Progress,
    Fail,
    /// A user deletes it.
    Delete,
    /// A user takes its owner, after it was noted.
    Orphan,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (prop::bool::weighted(0.7), prop::bool::weighted(0.7))
            .prop_map(|(written, acts)| Event::Reconcile { written, acts }),
        1 => Just(Event::Blind),
        5 => Just(Event::Progress),
        1 => Just(Event::Fail),
        1 => Just(Event::Delete),
        1 => Just(Event::Orphan),
    ]
}

/// A database and its `DatabaseRestore`, as the apiserver has them.
#[derive(Default)]
struct Simulation {
    status: Option<Restored>,
    restore: Option<Live>,
    made: usize,
    /// Uids of those that may have written.
    begun: Vec<String>,
    /// Uids of those that the status called failed.
    failed: Vec<String>,
    ready: bool,
}

impl Simulation {
    fn reconcile(&mut self, blind: bool, written: bool, acts: bool) {
        let before = self.status.clone();
        let seen = match &self.restore {
            _ if blind => Seen::Unknown,
            Some(live) => Seen::Present(live.clone()),
            None => Seen::Absent,
        };
        let Decision { record, step, hold, .. } = next(true, before.as_ref(), &seen);
        if !written {
            return;
        }
        self.ready = hold.is_none();
        self.status = record;
        if let Some(failed) = self.status.as_ref().filter(|it| it.outcome == RestoreOutcome::Failed) {
            self.failed.extend(failed.uid.clone());
        }
        match step.filter(|_| acts) {
            Some(Step::Make { .. }) => {
                assert!(self.restore.is_none(), "made beside another");
                self.made += 1;
                self.restore = Some(live(&format!("restore-{}", self.made)));
            }
            Some(Step::TakeBack { .. }) => {
                let live = self.restore.as_mut().expect("it is there");
                (live.ours, live.lost) = (true, false);
            }
            _ => {}
        }
    }

    /// Does the work of the controller of `DatabaseRestore`s: it begins none that is not noted.
    fn progress(&mut self, fails: bool) {
        let Some(live) = &mut self.restore else { return };
        let is_noted = self
            .status
            .as_ref()
            .is_some_and(|it| it.outcome == RestoreOutcome::Running && it.uid.as_ref() == Some(&live.uid));
        live.phase = match live.phase {
            RestorePhase::Pending if !is_noted => return,
            RestorePhase::Pending => {
                self.begun.push(live.uid.clone());
                RestorePhase::Restoring
            }
            RestorePhase::Fetching | RestorePhase::Restoring if fails => RestorePhase::Failed,
            RestorePhase::Fetching | RestorePhase::Restoring => RestorePhase::Succeeded,
            phase => phase,
        };
        live.finished = live.phase.is_final().then_some(Time(Timestamp::UNIX_EPOCH));
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Reconcile { written, acts } => self.reconcile(false, written, acts),
            Event::Blind => self.reconcile(true, true, true),
            Event::Progress => self.progress(false),
            Event::Fail => self.progress(true),
            Event::Delete => self.restore = None,
            Event::Orphan => {
                let noted = self.status.as_ref().and_then(|it| it.uid.clone());
                if let Some(live) = self.restore.as_mut().filter(|live| noted.as_ref() == Some(&live.uid)) {
                    *live = Live { spec: live.spec.clone(), ..lost_live(&live.uid, live.phase) };
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_brought_back_twice(events in prop::collection::vec(event(), 1..60)) {
        let mut simulation = Simulation::default();
        for event in events {
            simulation.happens(event);
            // Another one begins only after the one before was known to have failed.
            for earlier in simulation.begun.iter().rev().skip(1) {
                prop_assert!(simulation.failed.contains(earlier), "{earlier} is followed: {:?}", simulation.begun);
            }
            if simulation.ready {
                let outcome = simulation.status.as_ref().map(|it| it.outcome);
                prop_assert_eq!(outcome, Some(RestoreOutcome::Succeeded));
            }
        }
        // When it stops, all comes to an end.
        for _ in 0..10 {
            simulation.happens(Event::Reconcile { written: true, acts: true });
            simulation.happens(Event::Progress);
        }
        let outcome = simulation.status.as_ref().map(|it| it.outcome);
        let lost = outcome == Some(RestoreOutcome::Running) && simulation.restore.is_none();
        let failed = outcome == Some(RestoreOutcome::Failed) && simulation.restore.is_some();
        prop_assert!(simulation.ready || lost || failed, "{outcome:?} {:?}", simulation.restore);
    }
}
