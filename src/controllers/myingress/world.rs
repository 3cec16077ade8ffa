//! A small AWS in memory, in which every decision must lead to the same end and touch nothing foreign.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::apply::Action;
use super::decide::{decide, decide_removal};
use super::fleet::Member;
use super::names::candidates;
use super::observe::Observed;
use super::ownership::Owner;
use crate::api::myingress::Scheme;
use crate::api::{DeletionPolicy, MyIngress, MyIngressSpec};
use crate::external::elbv2::{Balancer, Pairs, State};
use crate::runtime::Health;

fn owner() -> Owner {
    Owner { cluster: "prod".into(), namespace: "shop".into(), name: "web".into(), uid: "uid".into() }
}

fn ingress(spec: MyIngressSpec) -> MyIngress {
    let mut object = MyIngress::new("web", spec);
    object.metadata.namespace = Some("shop".into());
    object.metadata.uid = Some("uid".into());
    object
}

/// AWS, and the object whose status is remembered from plan to plan.
#[derive(Clone, Debug)]
struct World {
    members: Vec<Member>,
    object: MyIngress,
    born: usize,
}

impl World {
    fn observe(&self) -> Observed {
        let names: Vec<String> =
            [Scheme::Internal, Scheme::InternetFacing].into_iter().flat_map(|it| candidates(&owner(), it)).collect();
        let status = self.object.status.clone().unwrap_or_default();
        let recorded = status.alb.filter(|alb| {
            self.members.iter().any(|member| member.balancer.arn == alb.arn && !owner().owns(&member.tags))
        });
        Observed {
            owner: owner(),
            owned: self.members.iter().filter(|member| owner().owns(&member.tags)).cloned().collect(),
            taken: self.members.iter().map(|it| it.balancer.name.clone()).filter(|it| names.contains(it)).collect(),
            disowned: recorded,
        }
    }

    fn act(&mut self, action: &Action) {
        let find =
            |members: &mut Vec<Member>, arn: &String| members.iter().position(|it| it.balancer.arn == *arn).unwrap();
        match action {
            Action::Create(new) => {
                assert!(!self.members.iter().any(|it| it.balancer.name == new.name), "{} is taken", new.name);
                self.born += 1;
                self.members.push(Member {
                    balancer: Balancer {
                        arn: format!("arn-{}", self.born),
                        name: new.name.clone(),
                        dns: format!("{}-{}.elb", new.name, self.born),
                        zone_id: None,
                        scheme: Some(new.scheme),
                        state: State::Provisioning,
                        subnets: new.subnets.clone(),
                        security_groups: new.security_groups.clone(),
                    },
                    tags: new.tags.clone(),
                    attributes: Some(BTreeMap::from([("idle_timeout.timeout_seconds".into(), "60".into())])),
                });
            }
            Action::SetSubnets { arn, subnets } => {
                let index = find(&mut self.members, arn);
                self.members[index].balancer.subnets.clone_from(subnets);
            }
            Action::SetSecurityGroups { arn, groups } => {
                let index = find(&mut self.members, arn);
                self.members[index].balancer.security_groups.clone_from(groups);
            }
            Action::SetAttributes { arn, attributes } => {
                let index = find(&mut self.members, arn);
                self.members[index].attributes.get_or_insert_default().extend(attributes.clone());
            }
            Action::AddTags { arn, tags } => {
                let index = find(&mut self.members, arn);
                self.members[index].tags.extend(tags.clone());
            }
            Action::RemoveTags { arn, keys } => {
                let index = find(&mut self.members, arn);
                self.members[index].tags.retain(|key, _| !keys.contains(key));
            }
            Action::Delete { arn, owner, .. } => {
                let index = find(&mut self.members, arn);
                assert!(owner.owns(&self.members[index].tags), "a foreign balancer is deleted");
                self.members.remove(index);
            }
        }
    }

    fn foreign(&self) -> Vec<Member> {
        self.members.iter().filter(|member| !owner().owns(&member.tags)).cloned().collect()
    }

    /// Decides and acts until nothing is left to do; `crash` cuts the first plan short, before its status is written
    /// where it need not be written first.
    fn settle(&mut self, mut crash: Option<usize>) -> Health {
        for _ in 0..100 {
            let plan = decide(&self.object, &self.observe());
            if plan.record_first || plan.actions.is_empty() {
                self.object.status = Some(plan.status.clone());
            }
            let count = crash.take().unwrap_or(usize::MAX);
            plan.actions.iter().take(count).for_each(|action| self.act(action));
            let provisioning = self.members.iter_mut().filter(|it| it.balancer.state == State::Provisioning);
            let set_up = provisioning.map(|it| it.balancer.state = State::Active).count();
            if plan.actions.is_empty() && set_up == 0 {
                return plan.health;
            }
        }
        panic!("never settles: {self:#?}");
    }
}

fn any_set(prefix: &'static str, size: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    proptest::collection::btree_set(0..5u8, size)
        .prop_map(move |set: BTreeSet<u8>| set.into_iter().map(|it| format!("{prefix}-{it}")).collect())
}

fn any_pairs(key: &'static str) -> impl Strategy<Value = Pairs> {
    proptest::collection::btree_map(0..3u8, 0..3u8, 0..3)
        .prop_map(move |map| map.into_iter().map(|(k, v)| (format!("{key}{k}"), v.to_string())).collect())
}

fn any_scheme() -> impl Strategy<Value = Scheme> {
    prop_oneof![Just(Scheme::Internal), Just(Scheme::InternetFacing)]
}

fn any_spec() -> impl Strategy<Value = MyIngressSpec> {
    (any_set("subnet", 2..4), any_scheme(), any_set("sg", 0..3), any_pairs("waf.k"), any_pairs("team")).prop_map(
        |(subnets, scheme, security_groups, attributes, tags)| MyIngressSpec {
            subnets,
            scheme,
            security_groups,
            attributes,
            tags,
            deletion_policy: DeletionPolicy::Delete,
            suspend: false,
        },
    )
}

/// Balancers of others, some under names that we would like, some with a part of our tags.
fn any_foreign() -> impl Strategy<Value = Vec<Member>> {
    let one = (0..4usize, any_scheme(), 0..3u8).prop_map(|(name, scheme, tags)| {
        let mut names = candidates(&owner(), scheme);
        names.push("somebody-elses".into());
        let mut tags_of = owner().tags();
        match tags {
            0 => tags_of.clear(),
            1 => drop(tags_of.insert("causeway.example.com/uid".into(), "another".into())),
            _ => drop(tags_of.insert("causeway.example.com/cluster".into(), "another".into())),
        }
        let balancer = Balancer {
            arn: format!("foreign-{name}-{}", scheme.as_str()),
            name: names[name].clone(),
            dns: String::new(),
            zone_id: None,
            scheme: Some(scheme),
            state: State::Active,
            subnets: BTreeSet::new(),
            security_groups: BTreeSet::new(),
        };
        Member { balancer, tags: tags_of, attributes: None }
    });
    proptest::collection::vec(one, 0..2)
}

proptest! {
    #[test]
    fn aws_becomes_what_the_object_says_whatever_was_and_wherever_it_crashed(
        specs in proptest::collection::vec((any_spec(), 0..6usize), 1..4),
        foreign in any_foreign(),
    ) {
        let mut world = World { members: foreign, object: ingress(specs[0].0.clone()), born: 0 };
        let before = world.foreign();
        for (spec, crash) in specs {
            world.object.spec = spec.clone();
            let health = world.settle(Some(crash));
            prop_assert!(matches!(health, Health::Ready(_)), "{health:?}");
            let observed = world.observe();
            prop_assert_eq!(observed.owned.len(), 1);
            let member = &observed.owned[0];
            prop_assert_eq!(member.balancer.scheme, Some(spec.scheme));
            prop_assert_eq!(&member.balancer.subnets, &spec.subnets.iter().cloned().collect());
            if !spec.security_groups.is_empty() {
                prop_assert_eq!(&member.balancer.security_groups, &spec.security_groups.iter().cloned().collect());
            }
            let mut tags = spec.tags.clone();
            tags.extend(owner().tags());
            prop_assert_eq!(&member.tags, &tags);
            let attributes = member.attributes.clone().unwrap();
            prop_assert!(spec.attributes.iter().all(|(key, value)| attributes.get(key) == Some(value)));
            let alb = world.object.status.clone().unwrap().alb.unwrap();
            prop_assert_eq!(&alb.arn, &member.balancer.arn);
        }
        prop_assert_eq!(world.foreign(), before.clone());
        while let Some(action) = decide_removal(&world.object, &world.observe()).actions.into_iter().next() {
            world.act(&action);
        }
        prop_assert_eq!(world.members, before);
    }
}

fn spec() -> MyIngressSpec {
    MyIngressSpec {
        subnets: vec!["subnet-1".into(), "subnet-2".into()],
        scheme: Scheme::InternetFacing,
        security_groups: Vec::new(),
        attributes: Pairs::new(),
        tags: Pairs::new(),
        deletion_policy: DeletionPolicy::Delete,
        suspend: false,
    }
}

#[test]
fn the_old_balancer_is_shown_and_stays_until_its_replacement_is_active() {
    let mut world = World { members: Vec::new(), object: ingress(spec()), born: 0 };
    world.settle(None);
    let old = world.object.status.clone().unwrap().alb.unwrap();
    world.object.spec.scheme = Scheme::Internal;
    let plan = decide(&world.object, &world.observe());
    assert!(matches!(plan.actions.as_slice(), [Action::Create(_)]), "{plan:#?}");
    plan.actions.iter().for_each(|action| world.act(action));
    let waiting = decide(&world.object, &world.observe());
    assert_eq!((waiting.actions.as_slice(), waiting.status.alb.as_ref()), (&[][..], Some(&old)));
    world.members[1].balancer.state = State::Active;
    let switch = decide(&world.object, &world.observe());
    assert!(switch.record_first, "the new name is told before the old balancer goes");
    assert_ne!(switch.status.alb.unwrap().arn, old.arn);
    assert!(matches!(switch.actions.as_slice(), [Action::Delete { arn, .. }] if *arn == old.arn));
}

#[test]
fn a_balancer_whose_ownership_tags_were_taken_is_left_alone_and_not_doubled() {
    let mut world = World { members: Vec::new(), object: ingress(spec()), born: 0 };
    world.settle(None);
    world.members[0].tags.clear();
    let plan = decide(&world.object, &world.observe());
    assert_eq!(plan.actions, Vec::new());
    assert!(matches!(plan.health, Health::Stalled(cause) if cause.reason == "OwnershipLost"));
}

#[test]
fn retain_leaves_the_balancer() {
    let mut world = World { members: Vec::new(), object: ingress(spec()), born: 0 };
    world.settle(None);
    world.object.spec.deletion_policy = DeletionPolicy::Retain;
    let removal = decide_removal(&world.object, &world.observe());
    assert_eq!(removal.actions, Vec::new());
    assert_eq!(removal.farewell.unwrap().reason, "Retained");
}

#[test]
fn protection_that_the_spec_turned_off_is_turned_off_before_the_deletion() {
    let mut object = ingress(spec());
    object.spec.attributes.insert("deletion_protection.enabled".into(), "false".into());
    let mut world = World { members: Vec::new(), object, born: 0 };
    world.settle(None);
    world.members[0].attributes = Some(Pairs::from([("deletion_protection.enabled".into(), "true".into())]));
    let removal = decide_removal(&world.object, &world.observe());
    assert!(
        matches!(removal.actions.as_slice(), [Action::SetAttributes { .. }, Action::Delete { .. }]),
        "{removal:#?}"
    );
}
