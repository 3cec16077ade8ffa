//! Ready means that nothing is left to do: every child is as the object asks for, and every pod was made from it and
//! serves. `kubectl wait` relies on that.

use std::collections::BTreeSet;

use kube::ResourceExt;

use causeway_api::EtcdCluster;
use causeway_databases::ChildAction;
use causeway_databases::simulation::{assert_helpful, is_as_wanted};
use causeway_runtime::{ConditionStatus, Health};

use super::Simulation;
use crate::action::Action;
use crate::decide::decide;
use crate::facts::Observed;
use crate::fixtures::cluster;
use crate::resources::{self, Begin, Shape};
use crate::tls::facts::StoredCertificate;
use crate::tls::{Channel, Side, Transport};

/// Asserts that the cluster is reported ready only if it is, as far as it was observed, and that Stalled says what to do.
/// A defragmentation or a restore may run while the cluster is ready.
pub fn assert_true(object: &EtcdCluster, observed: &Observed, health: &Health, actions: &[Action]) {
    assert_helpful(health);
    if !matches!(health, Health::Ready(_)) {
        return;
    }
    let disturbs =
        |action: &Action| matches!(action, Action::Defragment { .. } | Action::Child(ChildAction::Restore(_)));
    assert!(actions.iter().all(disturbs), "ready before {actions:?}");
    let side = |side: Side| {
        let (mode, kept) = (side.wanted_mode(object), observed.certificates.side(side).kept.as_ref());
        Channel { mode, trust: kept.filter(|_| mode.has_files()).map(StoredCertificate::label) }
    };
    let transport = Transport { peer: side(Side::Peer), client: side(Side::Client) };
    let shape = Shape { first: 0, replicas: object.spec.replicas, begin: Begin::Usual };
    let mut children = resources::around(object, &observed.set.rules);
    children.push(resources::pods(object, shape, &transport));
    for child in children {
        let live = observed.set.child(child.kind(), child.name());
        assert!(live.is_some_and(|live| is_as_wanted(&child, live)), "ready without {child:?}");
    }
    assert!(observed.set.child("ConfigMap", &object.name_any()).is_some(), "ready without settings");
    let wanted: BTreeSet<i32> = (0..object.spec.replicas).collect();
    assert_eq!(observed.set.pods.keys().copied().collect::<BTreeSet<_>>(), wanted, "ready with other pods");
    assert_eq!(observed.members(object).keys().copied().collect::<BTreeSet<_>>(), wanted, "ready with other members");
    let revision = resources::revision(object, Begin::Usual, &transport);
    for (ordinal, pod) in &observed.set.pods {
        assert!(pod.ready && !pod.terminating && pod.revision == revision, "ready with {pod:#?}");
        let member = observed.members(object)[ordinal];
        assert!(observed.is_healthy(*ordinal, member) && !member.is_learner, "ready with {member:?}");
    }
}

/// Members are asked one by one, before the majority: some of them may be choosing a leader at that moment.
#[test]
fn health_is_judged_by_a_majority() {
    let mut simulation = Simulation::settled(cluster(3));
    let object = simulation.object.clone();
    let mut observed = simulation.observe(&object, false);
    for choosing in [1, 2] {
        observed.statuses.get_mut(&choosing).unwrap().leader = 0;
        let parts = decide(&object, &observed, simulation.now).parts;
        let quorate = parts.iter().find(|part| part.type_ == "Quorate").unwrap();
        let message = match choosing {
            1 => "2 of 3 voting members are healthy",
            _ => "a majority of 3 voting members answers",
        };
        assert_eq!((quorate.status, quorate.message.as_str()), (ConditionStatus::True, message));
    }
}
