//! Two clusters with the same name in one account.

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use causeway_api::MyIngress;
use causeway_aws::elbv2::Pairs;
use causeway_runtime::Health;
use causeway_runtime::cluster::Cluster;

use super::drift::every_part;
use super::{Simulation, specs};
use crate::action::{Action, BalancerAction, GroupAction, ListenerAction, SecurityAction};
use crate::drift::rivals::REASON;
use crate::model::fixtures::born;
use crate::ownership::CLUSTER_UID;

/// Two members of a group, whose tags and names are the same in every cluster with that name, and an object that stands
/// alone.
fn objects(specs: &[Value; 3], cluster: &str) -> Vec<MyIngress> {
    let names = ["a", "b", "alone"];
    let born = |((spec, name), second)| {
        let mut object: MyIngress = born(name, second, Clone::clone(spec));
        object.metadata.uid = Some(format!("uid-{name}-in-{cluster}"));
        object
    };
    specs.iter().zip(names).zip(0..).map(born).collect()
}

fn everything() -> impl Strategy<Value = [Value; 3]> {
    let member = specs::joining(8081).prop_map(|spec| specs::drop_fields(&spec, &["suspend"]));
    (specs::standing(), member, specs::alone()).prop_map(|(first, second, alone)| [first, second, alone])
}

fn of_cluster(objects: Vec<MyIngress>, uid: Option<&str>) -> Simulation {
    Simulation {
        cluster: Some(Cluster { name: "prod".into(), uid: uid.map(str::to_owned) }),
        ..Simulation::with(objects)
    }
}

fn is_stalled_by_a_rival(health: &Health) -> bool {
    matches!(health, Health::Stalled(cause) if cause.reason == REASON)
}

/// The tags that an action adds, if it does nothing else in AWS.
fn added(action: &Action) -> Option<&Pairs> {
    match action {
        Action::Balancer(BalancerAction::AddTags { tags, .. })
        | Action::Group(GroupAction::AddTags { tags, .. })
        | Action::Listener(ListenerAction::AddTags { tags, .. })
        | Action::Security(SecurityAction::AddTags { tags, .. }) => Some(tags),
        _ => None,
    }
}

proptest! {
    // An eighth of the usual number of cases, for each case takes long.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn the_second_cluster_of_a_name_does_nothing(
        specs in everything(), more in everything(),
    ) {
        let mut first = of_cluster(objects(&specs, "first"), Some("first"));
        first.settle(None);
        let mut second = of_cluster(objects(&more, "second"), Some("second"));
        second.aws = first.aws.clone();
        second.settle(None);
        prop_assert!(second.health.values().all(is_stalled_by_a_rival), "{:#?}", second.health);
        for name in ["a", "b", "alone"] {
            second.delete(name);
        }
        second.settle(None);
        prop_assert!(second.objects.is_empty(), "an object that has nothing goes");
        prop_assert_eq!(&second.journal, &Vec::new());
        prop_assert_eq!(&second.aws.assets, &first.aws.assets);

        for name in ["a", "b", "alone"] {
            first.delete(name);
        }
        first.settle(None);
        let mut second = of_cluster(objects(&more, "second"), Some("second"));
        second.aws = first.aws.clone();
        second.settle(None);
        prop_assert!(!second.health.values().any(is_stalled_by_a_rival), "{:#?}", second.health);
    }

    #[test]
    fn resources_without_cluster_uid_are_adopted_by_their_tags(
        specs in everything(), crash in 0..40_usize,
    ) {
        let mut simulation = of_cluster(objects(&specs, "first"), None);
        simulation.settle(None);
        let (health, expected) = (simulation.health.clone(), simulation.aws.assets.clone());
        simulation.cluster = Some(Cluster { name: "prod".into(), uid: Some("first".into()) });
        simulation.journal.clear();
        simulation.settle(Some(crash));
        let owners: Vec<_> = simulation.objects.iter().map(|object| simulation.owner_of(object)).collect();
        for action in simulation.journal.iter().filter(|action| !matches!(action, Action::Bind(_))) {
            let keys = added(action).map(|tags| tags.keys().map(String::as_str).collect::<Vec<_>>());
            prop_assert_eq!(keys, Some(vec![CLUSTER_UID]), "{:?}", action);
        }
        let mut aws = simulation.aws.clone();
        aws.assets = expected;
        for owner in &owners {
            every_part(&mut aws, owner, |tags| drop(tags.insert(CLUSTER_UID.into(), "first".into())));
        }
        for member in simulation.aws.assets.groups.values_mut().chain(aws.assets.groups.values_mut()) {
            member.fresh = false;
        }
        prop_assert_eq!(&simulation.aws.assets, &aws.assets);
        prop_assert_eq!(simulation.health, health);
    }

    #[test]
    fn resources_taken_by_another_cluster_are_reported_and_left(
        specs in everything(), taken in vec(any::<bool>(), 1..12),
    ) {
        let mut simulation = of_cluster(objects(&specs, "first"), Some("first"));
        simulation.settle(None);
        let owner = simulation.owner_of(&simulation.objects[0]);
        let (count, marked) = (Cell::new(0), Cell::new(false));
        let mut aws = simulation.aws.clone();
        every_part(&mut aws, &owner, |tags| {
            if taken[count.get() % taken.len()] {
                tags.insert(CLUSTER_UID.into(), "second".into());
                marked.set(true);
            }
            count.set(count.get() + 1);
        });
        simulation.aws = aws;
        let before = simulation.aws.assets.clone();
        simulation.journal.clear();
        simulation.settle(None);
        let stalled = simulation.health.iter().filter(|(key, _)| key.1 != "alone").all(|(_, it)| is_stalled_by_a_rival(it));
        prop_assert!(!marked.get() || stalled, "{:#?}", simulation.health);
        prop_assert_eq!(&simulation.aws.assets, &before);
        prop_assert!(simulation.journal.iter().all(|action| matches!(action, Action::Bind(_))), "{:#?}", simulation.journal);
        let ours = simulation.aws.assets.owned_by(&owner).groups;
        prop_assert!(simulation.followed(&owner).iter().all(|arn| ours.contains_key(arn)), "theirs are not followed");
    }
}
