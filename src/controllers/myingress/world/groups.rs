//! Objects that share a balancer.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::shape::{Shape, assert_same, foreign};
use super::{World, specs};
use crate::api::MyIngress;
use crate::controllers::myingress::assets::Assets;
use crate::controllers::myingress::model::fixtures::born;
use crate::controllers::myingress::ownership::{Owner, member_tag};
use crate::external::elbv2::Pairs;

fn members(specs: &[Value]) -> Vec<MyIngress> {
    let names = ["a", "b", "c"];
    let objects = specs.iter().zip(names).zip(0..).map(|((spec, name), second)| born(name, second, spec.clone()));
    objects.collect()
}

fn shape(world: &mut World) -> Shape {
    let object = world.objects[0].clone();
    let observed = world.observe(&object);
    Shape::of(&observed.owner, &world.aws.assets, observed.built.model.as_ref())
}

/// Rules and target groups of one member.
fn parts(assets: &Assets, owner: &Owner, name: &str) -> Vec<String> {
    let (tag, value) = member_tag(&("shop".into(), name.into()));
    let mine = |tags: &Pairs| owner.owns(tags) && tags.get(&tag) == Some(&value);
    let groups = assets.groups.iter().filter(|(_, it)| mine(&it.tags));
    let mut parts: Vec<String> =
        groups.map(|(arn, it)| format!("{arn} {:?} {:?}", it.group.health_check, it.attributes)).collect();
    let listeners = assets.balancers.values().flat_map(|it| &it.listeners).flat_map(|it| it.values());
    let rules = listeners.flat_map(|it| &it.rules).filter(|(_, it)| mine(&it.tags));
    parts.extend(rules.map(|(arn, it)| format!("{arn} {:?}", it.rule.settings)));
    parts
}

/// Whether some member is left out.
fn complains(world: &mut World) -> bool {
    let object = world.objects[0].clone();
    !world.observe(&object).built.complaints.is_empty()
}

fn shared() -> impl Strategy<Value = Vec<Value>> {
    (specs::standing(), specs::joining(8081), specs::joining(8082), 1..=2_usize)
        .prop_map(|(first, second, third, more)| [first, second, third].into_iter().take(more + 1).collect())
}

proptest! {
    // An eighth of what is usual: each case is a long story.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn a_group_becomes_what_its_members_say_in_whatever_order_they_are_seen(
        specs in shared(), rotation in 0..3_usize, crash in 0..40_usize,
    ) {
        let mut world = World::with(members(&specs));
        world.settle(None);
        let mut other = World::with(members(&specs));
        let count = other.objects.len();
        other.objects.rotate_left(rotation % count);
        other.settle(Some(crash));
        assert_same(&shape(&mut world), &shape(&mut other));
    }

    #[test]
    fn edits_of_a_group_lead_where_its_creation_does(
        before in shared(), after in shared(), crash in 0..40_usize, others in specs::foreign(World::owner(&members(&[json!({ "group": { "name": "all" } })])[0])),
    ) {
        // Who cannot take part keeps what there was: that is not where a creation leads.
        let everybody = |specs: &[Value]| specs.iter().map(|spec| specs::without(spec, &["suspend"])).collect::<Vec<_>>();
        let count = before.len().min(after.len());
        let (before, after) = (everybody(&before[..count]), everybody(&after[..count]));
        let mut world = World::with(members(&before));
        let owner = World::owner(&world.objects[0]);
        world.aws.assets = others.clone();
        let mut mistaken = complains(&mut world);
        world.settle(Some(crash));
        for (object, spec) in world.objects.iter_mut().zip(&after) {
            object.spec = serde_json::from_value(spec.clone()).unwrap();
        }
        mistaken |= complains(&mut world);
        world.settle(Some(crash / 2));
        if !mistaken {
            let mut fresh = World::with(members(&after));
            fresh.settle(None);
            assert_same(&shape(&mut world), &shape(&mut fresh));
        }
        prop_assert_eq!(foreign(std::slice::from_ref(&owner), &world.aws.assets).0, others.clone());
        for name in ["b", "a", "c"] {
            if world.objects.iter().any(|object| object.metadata.name.as_deref() == Some(name)) {
                world.delete(name);
                world.settle(Some(crash / 3));
            }
        }
        prop_assert!(world.objects.is_empty());
        prop_assert_eq!(&world.aws.assets, &others);
    }

    #[test]
    fn a_member_that_cannot_take_part_keeps_what_it_has_while_others_change(
        before in specs::standing(), after in specs::standing(), member in specs::joining(8081), suspended: bool,
    ) {
        let after = { let mut it = after; it["scheme"] = before["scheme"].clone(); it };
        let member = specs::without(&member, &["suspend"]);
        let mut world = World::with(members(&[before, member]));
        let owner = World::owner(&world.objects[0]);
        world.settle(None);
        let had = parts(&world.aws.assets, &owner, "b");
        let followed = world.followed(&owner);
        if suspended {
            world.object("b").spec.suspend = true;
        } else {
            world.object("b").spec.tags.insert("aws:reserved".into(), "x".into());
        }
        world.object("a").spec = serde_json::from_value(after).unwrap();
        world.settle(None);
        prop_assert_eq!(parts(&world.aws.assets, &owner, "b"), had);
        let (tag, value) = member_tag(&("shop".into(), "b".into()));
        let mine = world.aws.assets.groups.iter().filter(|(_, it)| it.tags.get(&tag) == Some(&value));
        let mine: Vec<String> = mine.map(|(arn, _)| arn.clone()).collect();
        let still = world.followed(&owner);
        prop_assert!(mine.iter().all(|arn| followed.contains(arn) == still.contains(arn)));
    }
}
