//! One pod that is stuck keeps no other member from being helped.

use std::collections::BTreeSet;

use causeway_databases::etcd::{Alarm, AlarmKind};
use causeway_runtime::Health;

use super::Simulation;
use super::faults::{Edit, Mishap};
use super::kubernetes::Container;
use super::raft::{LEARNERS, cannot_read};
use crate::action::Action;
use crate::decide::decide;
use crate::fixtures::cluster;

impl Simulation {
    /// The operator works, and a while passes, that many times.
    pub fn works(&mut self, passes: usize) {
        for _ in 0..passes {
            self.reconcile(&Mishap::default());
            self.time_passes();
        }
    }

    fn message(&self) -> &str {
        match self.health.as_ref().unwrap() {
            Health::Progressing(cause) | Health::Stalled(cause) => &cause.message,
            health => panic!("{health:?}"),
        }
    }

    /// The node of that pod stops answering.
    fn lose_node(&mut self, ordinal: i32) {
        self.kubernetes.stop(ordinal, Container::Waiting(None), &mut self.raft);
        self.kubernetes.set.pods.get_mut(&ordinal).unwrap().lost = true;
    }
}

/// etcd allows one learner at a time, and a voter that is replaced comes back as one.
#[test]
fn a_stuck_learner_gives_way_to_a_voter() {
    for damaged in [true, false] {
        let mut simulation = Simulation::settled(cluster(3));
        simulation.kubernetes.homeless = Some(3);
        Edit::Replicas(5).happens(&mut simulation);
        simulation.works(20);
        assert!(simulation.raft.members.values().any(|member| member.is_learner), "{:#?}", simulation.raft);
        if damaged {
            let data = simulation.kubernetes.set.claims.get_mut(&0).unwrap().volume.as_mut().unwrap();
            data.damaged = true;
            let member = data.member;
            simulation.kubernetes.stop(0, Container::Waiting(None), &mut simulation.raft);
            simulation.raft.lose(member);
        } else {
            simulation.kubernetes.delete_pod(0, &mut simulation.raft);
            simulation.kubernetes.drop_claim(0, &mut simulation.raft);
        }
        simulation.works(80);
        assert_eq!(simulation.raft.healthy().len(), 3, "damaged: {damaged}: {:#?}", simulation.raft);
        assert!(simulation.ordinals().is_superset(&BTreeSet::from([0, 1, 2])), "{:#?}", simulation.raft);
        assert!(simulation.message().contains("prod-etcd-3"), "{}", simulation.message());
        simulation.kubernetes.homeless = None;
        simulation.settle();
        simulation.assert_settled();
    }
}

#[test]
fn a_stuck_voter_is_replaced_despite_a_stuck_learner() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.kubernetes.homeless = Some(3);
    Edit::Replicas(5).happens(&mut simulation);
    simulation.works(20);
    // A drain before anything shows that the spec is wrong.
    Edit::Image(Some("registry.example.com/nothing")).happens(&mut simulation);
    simulation.kubernetes.delete_pod(0, &mut simulation.raft);
    simulation.works(6);
    assert_eq!(simulation.raft.healthy().len(), 2, "{:#?}", simulation.raft);
    Edit::Image(None).happens(&mut simulation);
    simulation.works(20);
    assert_eq!(simulation.raft.healthy().len(), 3, "{:#?}", simulation.raft);
}

/// The edit that takes the image back has a mistake in the settings.
#[test]
fn a_member_without_image_comes_back_although_a_setting_is_refused() {
    for replicas in [1, 3] {
        for image in [None, Some("registry.example.com/nothing")] {
            let mut simulation = Simulation::settled(cluster(replicas));
            Edit::Image(Some("registry.example.com/nothing")).happens(&mut simulation);
            let healthy = usize::try_from(replicas).unwrap();
            while simulation.raft.healthy().len() == healthy {
                simulation.works(1);
            }
            Edit::Image(image).happens(&mut simulation);
            simulation.object.spec.config.insert("no-such-flag".into(), "1".into());
            simulation.works(60);
            assert_eq!(simulation.raft.healthy().len(), healthy, "{replicas} {image:?}: {:?}", simulation.health);
            simulation.object.spec.config.clear();
            Edit::Image(None).happens(&mut simulation);
            simulation.settle();
            simulation.assert_settled();
        }
    }
}

#[test]
fn a_removed_member_on_a_lost_node_stops_only_growth() {
    let mut simulation = Simulation::settled(cluster(5));
    simulation.lose_node(4);
    Edit::Replicas(3).happens(&mut simulation);
    simulation.works(40);
    assert_eq!(simulation.ordinals(), BTreeSet::from([0, 1, 2]), "{:?}", simulation.health);
    Edit::Version("3.5.30").happens(&mut simulation);
    simulation.works(40);
    for ordinal in 0..3 {
        let version = simulation.kubernetes.set.pods[&ordinal].version.as_deref();
        assert_eq!(version, Some("3.5.30"), "pod {ordinal}: {:?}", simulation.health);
    }
    for words in ["prod-etcd-4", "kubectl delete node node-4", "--force"] {
        assert!(simulation.message().contains(words), "{words} is not in: {}", simulation.message());
    }
    simulation.nodes_return();
    simulation.settle();
    simulation.assert_settled();
}

#[test]
fn tls_is_turned_on_despite_a_lost_node() {
    let mut simulation = Simulation::settled(cluster(5));
    simulation.lose_node(3);
    Edit::Replicas(3).happens(&mut simulation);
    simulation.works(40);
    Edit::Replicas(5).happens(&mut simulation);
    Edit::Tls(true, None).happens(&mut simulation);
    simulation.works(80);
    let urls: Vec<&String> = simulation.raft.members.values().flat_map(|member| &member.peer_urls).collect();
    assert!(urls.iter().all(|url| url.starts_with("https:")), "{urls:?}: {:?}", simulation.health);
    let message = simulation.message();
    assert!(message.contains("3 of 5 members") && message.contains("kubectl delete node node-3"), "{message}");
    simulation.nodes_return();
    simulation.settle();
    simulation.assert_settled();
}

/// Five members: the node of one does not answer, and another was removed because its volume was replaced.
fn without_two(lost: i32) -> Simulation {
    let mut simulation = Simulation::settled(cluster(5));
    simulation.lose_node(lost);
    simulation.kubernetes.delete_pod(1, &mut simulation.raft);
    simulation.kubernetes.drop_claim(1, &mut simulation.raft);
    simulation.works(40);
    assert_eq!(simulation.ordinals(), BTreeSet::from([0, 2, 3, 4]), "{:?}", simulation.health);
    simulation
}

/// etcd adds no member while a voter is not connected.
#[test]
fn a_member_to_be_added_does_not_stop_freeing_space() {
    let mut simulation = without_two(0);
    for words in ["before prod-etcd-1 is added again", "prod-etcd-0", "kubectl delete node node-0"] {
        assert!(simulation.message().contains(words), "{words} is not in: {}", simulation.message());
    }
    let full = Alarm { member: simulation.raft.leader.unwrap(), kind: AlarmKind::NoSpace };
    let actions = simulation.plan_with(&[full]).actions;
    assert!(matches!(&actions[..], [Action::Compact { .. }]), "{actions:?}");
    simulation.nodes_return();
    simulation.settle();
    simulation.assert_settled();
}

/// A voter whose kubelet finds it ready is connected to the others, even if it does not answer Causeway.
#[test]
fn a_voter_unreached_by_causeway_alone_stops_no_addition() {
    let mut simulation = without_two(0);
    let object = simulation.object.clone();
    let mut observed = simulation.observe(&object, false);
    let pod = observed.set.pods.get_mut(&0).unwrap();
    (pod.ready, pod.lost_node) = (true, None);
    let actions = decide(&object, &observed, simulation.now).actions;
    assert!(matches!(&actions[..], [Action::AddLearner { name, .. }] if name == "prod-etcd-1"), "{actions:?}");
}

/// etcd removes members that are away, and adds none meanwhile.
#[test]
fn a_waiting_addition_does_not_stop_a_removal() {
    for lost in [4, 3] {
        let mut simulation = without_two(lost);
        Edit::Replicas(3).happens(&mut simulation);
        simulation.works(80);
        assert_eq!(simulation.ordinals(), BTreeSet::from([0, 1, 2]), "{lost}: {:?}", simulation.health);
        assert_eq!(simulation.raft.healthy().len(), 3, "{lost}: {:#?}", simulation.raft);
        simulation.nodes_return();
        simulation.settle();
        simulation.assert_settled();
    }
}

#[test]
fn a_single_member_comes_back_with_the_spec_that_worked() {
    let mut simulation = Simulation::settled(cluster(1));
    Edit::Image(Some("registry.example.com/nothing")).happens(&mut simulation);
    simulation.works(30);
    assert_eq!(simulation.raft.healthy().len(), 1, "{:?}", simulation.health);
    let uid = simulation.kubernetes.set.pods[&0].uid.clone();
    for words in ["spec.image", "rollout restart statefulset/prod-etcd"] {
        assert!(simulation.message().contains(words), "{words} is not in: {}", simulation.message());
    }
    simulation.works(30);
    assert_eq!(simulation.kubernetes.set.pods[&0].uid, uid, "it is not tried again by itself");
    Edit::Image(None).happens(&mut simulation);
    simulation.settle();
    simulation.assert_settled();
}

#[test]
fn a_lost_member_comes_back_while_an_image_is_missing() {
    for lost in 0..3 {
        let mut simulation = Simulation::settled(cluster(3));
        Edit::Image(Some("registry.example.com/nothing")).happens(&mut simulation);
        simulation.works(10);
        simulation.kubernetes.delete_pod(lost, &mut simulation.raft);
        simulation.works(20);
        assert!(simulation.raft.healthy().len() >= 2, "{lost}: {:#?}", simulation.kubernetes.set.pods);
        Edit::Image(None).happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
    }
}

/// Such a list was left behind by a recovery, on one of the members that joined after it.
#[test]
fn a_member_that_counts_too_many_learners_is_replaced() {
    let mut tried = 0;
    for ordinal in 0..3 {
        let mut simulation = Simulation::settled(cluster(3));
        let data = simulation.kubernetes.set.claims.get_mut(&ordinal).unwrap().volume.as_mut().unwrap();
        let (member, words) = (data.member, cannot_read(data.member));
        if !words.contains(LEARNERS) {
            continue;
        }
        tried += 1;
        data.damaged = true;
        let claim = simulation.kubernetes.set.claims[&ordinal].facts.uid.clone();
        simulation.kubernetes.stop(ordinal, Container::Ended(Some(words), 1), &mut simulation.raft);
        simulation.works(80);
        assert!(!simulation.raft.members.contains_key(&member), "{:?}", simulation.health);
        assert_ne!(simulation.kubernetes.set.claims[&ordinal].facts.uid, claim, "it has another volume");
        simulation.settle();
        simulation.assert_settled();
    }
    assert!(tried > 0, "no member says so");
}
