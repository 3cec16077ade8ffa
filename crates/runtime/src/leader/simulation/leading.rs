//! Tests of a leader whose writes or answers are lost, or whose lease another client changes.

use super::super::step::Lost;
use super::*;

#[test]
fn a_leader_that_cannot_renew_stops_before_the_rival_starts() {
    let mut pair = Pair::new(0, 0);
    pair.pass(seconds(9.9));
    pair.leader.step(Observation::Nothing, pair.now, pair.wall);
    assert!(matches!(pair.leader.decision, Action::Write(_)), "it tries until the end");
    assert!(pair.leader.leads(pair.now));
    pair.pass(seconds(0.1));
    assert!(!pair.leader.leads(pair.now), "the fence closes by itself");
    pair.leader.step(Observation::Nothing, pair.now, pair.wall);
    assert_eq!(pair.leader.decision, Action::Stop(Lost::Late));
}

#[test]
fn a_leader_that_finds_another_holder_stops() {
    let mut pair = Pair::new(0, 0);
    let other = LeaseSpec { holder_identity: Some("other".to_owned()), ..LeaseSpec::default() };
    pair.cluster.put(Some(other));
    pair.leader.look(&pair.cluster, pair.now, pair.wall);
    assert_eq!(pair.leader.decision, Action::Stop(Lost::Taken("other".to_owned())));
    assert!(!pair.leader.leads(pair.now));
}

#[test]
fn a_write_whose_answer_was_lost_is_found_again() {
    let mut pair = Pair::new(0, 0);
    let (now, wall) = (pair.now, pair.wall);
    let mut cluster = Cluster::default();
    let process = &mut pair.rival;
    process.view = View::new(now);
    process.look(&cluster, now, wall);
    process.send(now);
    process.arrive(&mut cluster);
    process.receive(false, now, wall);
    assert!(!process.leads(now));
    process.turn(&mut cluster, now, wall);
    assert!(process.leads(now));
    assert_eq!(cluster.record.unwrap().lease_transitions, Some(0));
}

#[test]
fn a_leader_whose_writes_arrive_without_answers_stays() {
    let mut pair = Pair::new(0, 0);
    for _ in 0..100 {
        pair.pass(seconds(2.5));
        let (now, wall) = (pair.now, pair.wall);
        pair.leader.step(Observation::Nothing, now, wall);
        pair.leader.send(now);
        pair.pass(seconds(1.0));
        pair.leader.arrive(&mut pair.cluster);
        let (now, wall) = (pair.now, pair.wall);
        pair.leader.receive(false, now, wall);
        // Its next attempt is based on a version that is outdated, so it reads.
        pair.leader.look(&pair.cluster, now, wall);
        pair.rival.turn(&mut pair.cluster, now, wall);
        assert!(pair.leader.leads(now) && !pair.rival.leads(now));
    }
}

#[test]
fn a_write_accepted_long_ago_gives_no_time_to_lead() {
    let mut pair = Pair::new(0, 0);
    pair.pass(seconds(2.0));
    let (now, wall) = (pair.now, pair.wall);
    pair.leader.step(Observation::Nothing, now, wall);
    pair.leader.send(now);
    pair.leader.arrive(&mut pair.cluster);
    pair.pass(seconds(10.0));
    let (now, wall) = (pair.now, pair.wall);
    pair.leader.receive(false, now, wall);
    assert_eq!(pair.leader.decision, Action::Stop(Lost::Late));
    pair.leader.look(&pair.cluster, now, wall);
    assert!(!pair.leader.leads(now));
    assert!(matches!(pair.leader.decision, Action::Write(_)), "it claims the lease again, and does not stop twice");
}

#[test]
fn a_clock_that_stands_still_changes_the_record() {
    let mut pair = Pair::new(0, 0);
    for _ in 0..100 {
        let before = pair.cluster.record.clone().unwrap().renew_time;
        pair.now += seconds(2.0);
        pair.leader.turn(&mut pair.cluster, pair.now, pair.wall);
        pair.wall -= SignedDuration::from_secs(1);
        assert!(pair.cluster.record.clone().unwrap().renew_time > before);
    }
}

#[test]
fn nonsense_in_the_lease_is_survived() {
    let nonsense = [
        LeaseSpec::default(),
        LeaseSpec { lease_duration_seconds: Some(-5), holder_identity: Some("x".to_owned()), ..LeaseSpec::default() },
        LeaseSpec { lease_transitions: Some(i32::MAX), ..LeaseSpec::default() },
        LeaseSpec {
            renew_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(Timestamp::MAX)),
            ..LeaseSpec::default()
        },
    ];
    for record in nonsense {
        let mut pair = Pair::new(0, 0);
        pair.cluster.put(Some(record));
        pair.run(seconds(60.0), false);
        assert!(pair.rival.leads(pair.now));
    }
}
