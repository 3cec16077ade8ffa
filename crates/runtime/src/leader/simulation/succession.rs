//! Tests of when another process takes over the lease, and when not.

use super::super::step::{holder, release};
use super::*;

/// The shortest and the longest time from the death of a leader until the rival takes its lease.
fn gaps(timing: Timing, identities: [&str; 2]) -> (Duration, Duration) {
    let gaps = (0..20).map(|phase| {
        let mut pair = Pair::with_timing(timing, identities, [3_600, -3_600]);
        pair.run(seconds(60.0) + seconds(0.1) * phase, true);
        assert!(pair.leader.leads(pair.now), "a living leader stays");
        let died = pair.now;
        // The leader's process has ended, and does nothing more.
        pair.leader.view = View::new(died);
        pair.run(seconds(60.0), false);
        assert!(pair.rival.leads(pair.now));
        pair.now - died
    });
    let gaps: Vec<_> = gaps.collect();
    (gaps.iter().min().copied().unwrap(), gaps.iter().max().copied().unwrap())
}

#[test]
fn a_living_leader_stays_however_wrong_the_clocks_are() {
    for (ours, theirs) in [(0, 0), (-86_400, 86_400), (86_400, -86_400)] {
        let mut pair = Pair::new(ours, theirs);
        pair.run(seconds(300.0), true);
        assert!(pair.leader.leads(pair.now));
        let record = pair.cluster.record.unwrap();
        assert_eq!(holder(Some(&record)), Some("leader"));
        assert_eq!(record.lease_transitions, Some(0));
        assert_eq!(record.lease_duration_seconds, Some(15));
        assert!(record.renew_time > record.acquire_time);
        assert!(pair.cluster.version <= 155, "one write every two seconds, not {} in 300", pair.cluster.version);
    }
}

#[test]
fn a_dead_leader_is_replaced_after_the_lease_duration() {
    for phase in 0..20 {
        let mut pair = Pair::new(3_600, -3_600);
        pair.run(seconds(60.0) + seconds(0.1) * phase, true);
        let died = pair.now;
        pair.run(seconds(60.0), false);
        let gap = pair.now - died;
        assert!(pair.rival.leads(pair.now));
        assert!(gap >= seconds(13.0) && gap <= seconds(15.2), "{gap:?}");
        assert_eq!(pair.cluster.record.unwrap().lease_transitions, Some(1));
    }
}

#[test]
fn the_lease_for_databases_is_taken_within_five_seconds() {
    let (shortest, longest) = gaps(short(), ["a_1_x", "b_2_y"]);
    assert!(shortest >= short().renew_deadline && longest <= seconds(5.2), "{shortest:?} to {longest:?}");
}

#[test]
fn a_process_soon_follows_another_of_its_own_pod() {
    for (identities, is_same_pod) in [
        (["a_1_x", "a_1_y"], true),
        (["a_1_x", "a_2_y"], false),
        // Identities outside a pod, and of another form.
        (["a__x", "a__y"], false),
        (["a_x", "a_y"], false),
    ] {
        let (shortest, longest) = gaps(short(), identities);
        assert_eq!(longest <= seconds(2.2), is_same_pod, "{identities:?}: {shortest:?} to {longest:?}");
        assert_eq!(shortest < short().renew_deadline, is_same_pod, "{identities:?}: {shortest:?} to {longest:?}");
    }
}

#[test]
fn a_restarted_process_waits_for_requests_of_its_predecessor() {
    let mut pair = Pair::with_timing(short(), ["a_1_x", "a_1_y"], [0, 0]);
    pair.run(seconds(0.7), true);
    let died = pair.now;
    pair.leader.view = View::new(died);
    pair.rival = Process::new("a_1_y", short(), 0, pair.now);
    pair.run(seconds(60.0), false);
    let gap = pair.now - died;
    assert!(gap >= seconds(2.0) && gap <= seconds(2.2), "{gap:?}");
    assert_eq!(pair.cluster.record.unwrap().lease_transitions, Some(1));
}

#[test]
fn a_restarted_process_counts_from_its_start() {
    let mut pair = Pair::with_timing(short(), ["a_1_x", "a_1_y"], [0, 0]);
    pair.run(seconds(0.7), true);
    let died = pair.now;
    pair.leader.view = View::new(died);
    pair.rival = Process::new("a_1_y", short(), 0, died);
    // A busy apiserver delays its first answer by this time.
    pair.pass(seconds(1.8));
    pair.run(seconds(60.0), false);
    let gap = pair.now - died;
    assert!(gap >= seconds(2.0) && gap <= seconds(2.2), "{gap:?}");
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let mut pair = Pair::new(0, 0);
    pair.run(seconds(30.0), true);
    let released = release(pair.cluster.record.as_ref().unwrap(), pair.wall);
    assert_eq!(holder(Some(&released)), None);
    pair.cluster.put(Some(released));
    pair.leader.view = View::new(pair.now);
    pair.rival.turn(&mut pair.cluster, pair.now, pair.wall);
    assert!(pair.rival.leads(pair.now));
    assert_eq!(pair.cluster.record.unwrap().lease_transitions, Some(1));
}

#[test]
fn a_cleared_or_deleted_lease_frees_nothing_too_early() {
    for deleted in [false, true] {
        let mut pair = Pair::new(0, 0);
        pair.run(seconds(30.0), true);
        let cleared = LeaseSpec { holder_identity: Some(String::new()), ..pair.cluster.record.clone().unwrap() };
        pair.cluster.put(Some(cleared).filter(|_| !deleted));
        pair.run(seconds(60.0), false);
        assert!(pair.rival.leads(pair.now));
    }
}

/// An account that may write the leases can have two processes lead: nothing in a record proves who wrote it. It is over when the
/// leader next sees the lease, which it watches.
#[test]
fn a_forged_release_ends_when_the_leader_sees_the_lease() {
    let mut pair = Pair::new(0, 0);
    pair.run(seconds(30.0), true);
    pair.cluster.put(Some(release(pair.cluster.record.as_ref().unwrap(), pair.wall)));
    pair.rival.turn(&mut pair.cluster, pair.now, pair.wall);
    assert!(pair.rival.leads(pair.now) && pair.leader.leads(pair.now), "docs/security.md says so");
    pair.leader.look(&pair.cluster, pair.now, pair.wall);
    assert!(!pair.leader.leads(pair.now) && pair.rival.leads(pair.now));
}

/// Every other record that is written over the leader's frees nothing while the leader may act.
#[test]
fn a_forged_holder_frees_nothing_while_the_leader_may_act() {
    let identity = "causeway-2_uid-2_1";
    for (holder, duration) in [("another", 15), ("", 15), (identity, 15), ("causeway-1_uid-1_0", 15), ("", 0)] {
        let mut pair = Pair::new(0, 0);
        pair.run(seconds(30.0), true);
        let before = pair.cluster.record.clone().unwrap();
        pair.cluster.put(Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(duration),
            ..before
        }));
        pair.run(seconds(60.0), false);
        assert!(pair.rival.leads(pair.now), "{holder} {duration}");
    }
}

#[test]
fn a_leader_writes_a_deleted_lease_again() {
    let mut pair = Pair::new(0, 0);
    pair.cluster.put(None);
    pair.rival.turn(&mut pair.cluster, pair.now, pair.wall);
    pair.pass(seconds(1.0));
    pair.leader.look(&pair.cluster, pair.now, pair.wall);
    pair.leader.send(pair.now);
    pair.leader.arrive(&mut pair.cluster);
    pair.leader.receive(true, pair.now, pair.wall);
    pair.run(seconds(60.0), true);
    assert!(pair.leader.leads(pair.now));
}

/// A standby that warms up before it leads has about three seconds for that.
#[test]
fn a_standbys_turn_is_near_after_two_missed_renewals() {
    let mut pair = Pair::with_timing(short(), ["a_1_x", "b_2_y"], [0, 0]);
    let is_near = |pair: &Pair| pair.rival.view.is_near(&short(), pair.now);
    for _ in 0..100 {
        pair.run(seconds(0.1), true);
        assert!(!is_near(&pair), "the leader lives");
    }
    let died = pair.now;
    while !is_near(&pair) {
        pair.run(seconds(0.1), false);
        // A waiting standby wakes in time, never later than 5 s after the leader's death.
        let Action::Wait(wait) = pair.rival.decision else { panic!("{:?}", pair.rival.decision) };
        assert!(pair.now + wait <= died + seconds(5.0));
    }
    let after = pair.now - died;
    assert!(after >= seconds(1.0) && after <= seconds(2.1), "{after:?}");
    assert!(!pair.rival.leads(pair.now));
    pair.leader.turn(&mut pair.cluster, pair.now, pair.wall);
    pair.run(seconds(0.1), true);
    assert!(!is_near(&pair), "the leader is back");
}
