//! Objects that share a balancer.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use causeway_api::MyIngress;
use causeway_api::myingress::Scheme;
use causeway_aws::elbv2::{Pairs, Protocol, RuleSettings};
use causeway_runtime::Health;

use super::shape::{Shape, assert_same, foreign};
use super::specs::balancer_called;
use super::{Simulation, specs};
use crate::model::fixtures::born;
use crate::model::nothing_here;
use crate::ownership::names::candidates;
use crate::ownership::{Owner, member_tag};
use crate::region::assets::{Assets, ListenerMember, Member};

pub fn members(specs: &[Value]) -> Vec<MyIngress> {
    let names = ["a", "b", "c"];
    let objects = specs.iter().zip(names).zip(0..).map(|((spec, name), second)| born(name, second, spec.clone()));
    objects.collect()
}

fn shape(simulation: &mut Simulation) -> Shape {
    let object = simulation.objects[0].clone();
    let observed = simulation.observe(&object);
    Shape::new(&observed.owner, &simulation.aws.assets, observed.built.model.as_ref())
}

/// Returns whether tags are those of a member of the group.
fn is_of(owner: &Owner, name: &str, tags: &Pairs) -> bool {
    let (tag, value) = member_tag(&("shop".into(), name.into()));
    owner.owns(tags) && tags.get(&tag) == Some(&value)
}

/// The rules of one member, by ARN, with the protocol of their listener.
fn rules<'a>(assets: &'a Assets, owner: &Owner, name: &str) -> BTreeMap<&'a String, (&'a RuleSettings, Protocol)> {
    let listeners = assets.balancers.values().flat_map(|it| &it.listeners).flat_map(|it| it.values());
    let rules = listeners.flat_map(|it| it.rules.iter().map(|rule| (rule, it.listener.settings.protocol)));
    let mine = rules.filter(|((_, it), _)| is_of(owner, name, &it.tags));
    mine.map(|((arn, it), protocol)| (arn, (&it.rule.settings, protocol))).collect()
}

/// Rules and target groups of one member.
fn parts(assets: &Assets, owner: &Owner, name: &str) -> Vec<String> {
    let groups = assets.groups.iter().filter(|(_, it)| is_of(owner, name, &it.tags));
    let groups = groups.map(|(arn, it)| format!("{arn} {:?} {:?}", it.group.health_check, it.attributes));
    let rules = rules(assets, owner, name);
    groups.chain(rules.into_iter().map(|(arn, (settings, _))| format!("{arn} {settings:?}"))).collect()
}

/// Reports whether some member is left out.
pub fn complains(simulation: &mut Simulation) -> bool {
    let object = simulation.objects[0].clone();
    !simulation.observe(&object).built.complaints.is_empty()
}

/// A group of `a` and `b`, settled: before `b` stops being able to take part, and after.
fn with_b_left_out(a: Value, b: Value) -> [Simulation; 2] {
    let mut simulation = Simulation::with(members(&[a, b]));
    simulation.settle(None);
    let before = simulation.clone();
    simulation.object("b").spec.tags.insert("aws:reserved".into(), "x".into());
    simulation.settle(None);
    assert!(complains(&mut simulation));
    [before, simulation]
}

fn first(group: &Value, listeners: &Value) -> Value {
    json!({ "group": group, "subnets": ["subnet-a", "subnet-b"], "inboundCidrs": ["10.0.0.0/8"], "listeners": listeners })
}

/// Ports of listeners, their certificates besides the default ones, and the inbound rules.
fn doors(simulation: &Simulation) -> (Vec<u16>, Vec<String>, Vec<String>) {
    let assets = &simulation.aws.assets;
    let listeners = || assets.balancers.values().flat_map(|it| &it.listeners).flat_map(|it| it.values());
    let mut ports: Vec<u16> = listeners().map(|it| it.listener.settings.port).collect();
    ports.sort_unstable();
    let certificates = listeners().flat_map(|it| it.certificates.iter().cloned()).collect();
    let ingress = assets.security_groups.values().flat_map(|group| &group.ingress);
    (ports, certificates, ingress.map(|it| format!("{:?} {:?}", it.ports.map(|ports| ports.from), it.source)).collect())
}

#[test]
fn a_member_that_cannot_take_part_keeps_its_ports_open() {
    let group = json!({ "name": "all" });
    let forward = json!({ "forward": { "backends": [{ "name": "app" }] } });
    let redirect = json!({ "redirect": { "protocol": "HTTPS", "port": "443" } });
    let b = json!({
        "group": group,
        "inboundCidrs": ["10.0.0.0/8"],
        "listeners": [
            { "port": 81, "defaultAction": redirect },
            { "port": 8081, "defaultAction": forward },
            { "port": 80, "inboundCidrs": ["192.168.1.1/16"] },
        ],
        "backends": [{ "name": "app", "port": 80 }],
    });
    let a = first(&group, &json!([{ "port": 80, "inboundCidrs": ["172.16.0.0/12"] }, { "port": 8080 }]));
    let [before, mut after] = with_b_left_out(a, b);
    assert_eq!(doors(&before).0, [80, 81, 8080, 8081]);
    assert_eq!(doors(&after), doors(&before));
    // Listeners that only other members have change as their specs say.
    let listeners = json!([{ "port": 80, "inboundCidrs": ["172.17.0.0/16"] }]);
    after.object("a").spec.listeners = serde_json::from_value(listeners).unwrap();
    after.settle(None);
    let (ports, _, ingress) = doors(&after);
    assert_eq!(ports, [80, 81, 8081]);
    let networks = |of: &str| ingress.iter().filter(|it| it.starts_with(of)).count();
    assert_eq!((networks("Some(80)"), networks("Some(8080)"), ingress.len()), (2, 0, 4), "{ingress:?}");
    assert!(!ingress.iter().any(|it| it.contains("172.16.")), "{ingress:?}");
    // Once it takes part again, what it no longer wants is removed.
    after.object("b").spec.tags.clear();
    after.object("b").spec.listeners.truncate(1);
    after.object("b").spec.backends.clear();
    after.settle(None);
    assert_eq!((doors(&after).0, doors(&after).2.len()), (vec![80, 81], 2));
}

/// The names that any user can foresee of the balancer of the group `all`.
const FORESEEN: [&str; 4] = ["all-alb", "all-57e8a002", "all-01978df6", "all-10f87d65"];

#[test]
fn a_group_has_a_balancer_despite_taken_foreseeable_names() {
    let named = |(name, second): (&str, i64)| {
        let spec = json!({ "name": name, "subnets": ["subnet-a", "subnet-b"] });
        born(&format!("squatter-{second}"), second, spec)
    };
    let mut simulation = Simulation::with(FORESEEN.into_iter().zip(0..).map(named).collect());
    simulation.settle(None);
    simulation.objects.extend(members(&[first(&json!({ "name": "all" }), &json!([{ "port": 80 }]))]));
    let owner = Simulation::owner(simulation.object("a"));
    let foreseen = Owner { cluster: "prod".into(), ..owner.clone() };
    let schemes = [Scheme::InternetFacing, Scheme::Internal];
    assert!(schemes.iter().flat_map(|it| candidates(&foreseen, *it, None)).all(|it| FORESEEN.contains(&it.as_str())));
    for scheme in schemes {
        simulation.object("a").spec.scheme = scheme;
        simulation.settle(None);
        let balancers = simulation.aws.assets.owned_by(&owner).balancers;
        assert_eq!(balancers.values().map(|it| it.balancer.scheme).collect::<Vec<_>>(), [Some(scheme)]);
    }
    assert_eq!(simulation.aws.assets.balancers.len(), FORESEEN.len() + 1, "no owner lost a balancer");
}

#[test]
fn a_group_without_free_name_points_to_its_own_name() {
    let mut simulation = Simulation::with(members(&[first(&json!({ "name": "all" }), &json!([{ "port": 80 }]))]));
    let owner = Simulation::owner(simulation.object("a"));
    let names = candidates(&owner, Scheme::InternetFacing, None);
    for name in &names {
        let balancer = balancer_called(name.clone(), Scheme::InternetFacing);
        simulation.aws.assets.balancers.insert(balancer.arn.clone(), Member::new(balancer, Pairs::new()));
    }
    simulation.settle(None);
    let health = &simulation.health[&("shop".to_owned(), "a".to_owned())];
    let Health::Stalled(cause) = health else { panic!("{health:?}") };
    assert!(cause.reason == "NameTaken" && cause.message.contains("another spec.group.name"), "{cause:?}");
    assert!(names.iter().all(|name| cause.message.contains(name)), "{cause:?}");
}

#[test]
fn a_listener_loses_no_certificate_of_an_absent_member() {
    let group = json!({ "name": "all" });
    let rule = |host: &str| json!([{ "hosts": [host], "action": { "fixedResponse": { "statusCode": 200 } } }]);
    let arn = |name: &str| format!("arn:aws:acm:eu-west-1:000000000000:certificate/{name}");
    let a = first(&group, &json!([{ "port": 443, "rules": rule("a.example.com") }]));
    let listener = json!({ "port": 443, "certificateArns": [arn("one"), arn("two")], "rules": rule("b.example.com") });
    let [before, mut after] = with_b_left_out(a, json!({ "group": group, "listeners": [listener] }));
    // The one for the hosts of `a` is a further one.
    assert_eq!(doors(&before).1, [arn("two"), arn("wild")]);
    assert_eq!(doors(&after).1, [arn("two"), arn("wild")]);
    after.delete("b");
    after.settle(None);
    assert!(doors(&after).1.is_empty());
}

#[test]
fn a_taken_priority_holds_up_only_the_member_with_it() {
    let group = json!({ "name": "all" });
    let rules = |host: &str, priority: Option<u16>| {
        let rule =
            json!({ "hosts": [host], "priority": priority, "action": { "fixedResponse": { "statusCode": 200 } } });
        json!([{ "port": 80, "rules": [rule] }])
    };
    let b = json!({ "group": group, "listeners": rules("b.example.com", Some(3)) });
    let mut simulation = Simulation::with(members(&[first(&group, &rules("a.example.com", None)), b]));
    simulation.settle(None);
    let listener = |simulation: &mut Simulation, change: &mut dyn FnMut(&mut ListenerMember)| {
        let mut all = simulation.aws.assets.balancers.values_mut().flat_map(|it| it.listeners.iter_mut());
        change(all.next().unwrap().values_mut().next().unwrap());
    };
    listener(&mut simulation, &mut |it| {
        let mut theirs = it.rules.values().next().unwrap().clone();
        theirs.tags.clear();
        (theirs.rule.arn, theirs.rule.priority) = ("theirs".into(), 7);
        it.rules.insert("theirs".into(), theirs);
    });
    let edit = |simulation: &mut Simulation, name: &str, listeners: Value| {
        simulation.object(name).spec.listeners = serde_json::from_value(listeners).unwrap();
        simulation.settle(None);
        let mut hosts = String::new();
        listener(simulation, &mut |it| hosts = format!("{:?}", it.rules.values().collect::<Vec<_>>()));
        let health = simulation.health.values();
        (
            hosts,
            health.map(|it| matches!(it, Health::Stalled(why) if why.reason == "PriorityTaken")).collect::<Vec<_>>(),
        )
    };
    let (rules_now, stalled) = edit(&mut simulation, "b", rules("b.example.com", Some(7)));
    assert!(rules_now.contains("b.example.com"), "{rules_now}");
    assert_eq!(stalled, [false, true]);
    let (rules_now, stalled) = edit(&mut simulation, "a", rules("new.example.com", None));
    assert!(rules_now.contains("new.example.com") && rules_now.contains("b.example.com"), "{rules_now}");
    assert_eq!(stalled, [false, true]);
    assert_eq!(edit(&mut simulation, "b", rules("b.example.com", Some(8))).1, [false, false]);
}

pub fn shared() -> impl Strategy<Value = Vec<Value>> {
    (specs::standing(), specs::joining(8081), specs::joining(8082), 1..=2_usize)
        .prop_map(|(first, second, third, more)| [first, second, third].into_iter().take(more + 1).collect())
}

proptest! {
    // An eighth of the usual number of cases, for each case takes long.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn a_group_converges_in_any_order_of_its_members(
        specs in shared(), rotation in 0..3_usize, crash in 0..40_usize,
    ) {
        let mut simulation = Simulation::with(members(&specs));
        simulation.settle(None);
        let mut other = Simulation::with(members(&specs));
        let count = other.objects.len();
        other.objects.rotate_left(rotation % count);
        other.settle(Some(crash));
        assert_same(&shape(&mut simulation), &shape(&mut other));
    }

    #[test]
    fn edits_of_a_group_lead_where_its_creation_does(
        before in shared(), after in shared(), crash in 0..40_usize, others in specs::foreign(Simulation::owner(&members(&[json!({ "group": { "name": "all" } })])[0])),
    ) {
        // A member that cannot take part keeps what it had, so the result differs from a creation. No member is
        // suspended here.
        let resumed = |specs: &[Value]| specs.iter().map(|spec| specs::drop_fields(spec, &["suspend"])).collect::<Vec<_>>();
        let count = before.len().min(after.len());
        let (before, after) = (resumed(&before[..count]), resumed(&after[..count]));
        let mut simulation = Simulation::with(members(&before));
        let owner = Simulation::owner(&simulation.objects[0]);
        simulation.aws.assets = others.clone();
        let mut mistaken = complains(&mut simulation);
        simulation.settle(Some(crash));
        for (object, spec) in simulation.objects.iter_mut().zip(&after) {
            object.spec = serde_json::from_value(spec.clone()).unwrap();
        }
        mistaken |= complains(&mut simulation);
        simulation.settle(Some(crash / 2));
        if !mistaken {
            let mut fresh = Simulation::with(members(&after));
            fresh.settle(None);
            assert_same(&shape(&mut simulation), &shape(&mut fresh));
        }
        prop_assert_eq!(foreign(std::slice::from_ref(&owner), &simulation.aws.assets).0, others.clone());
        for name in ["b", "a", "c"] {
            if simulation.objects.iter().any(|object| object.metadata.name.as_deref() == Some(name)) {
                simulation.delete(name);
                simulation.settle(Some(crash / 3));
            }
        }
        prop_assert!(simulation.objects.is_empty());
        prop_assert_eq!(&simulation.aws.assets, &others);
    }

    #[test]
    fn an_absent_member_keeps_its_parts_while_others_change(
        before in specs::standing(), after in specs::standing(), member in specs::joining(8081), suspended: bool,
    ) {
        let after = { let mut it = after; it["scheme"] = before["scheme"].clone(); it };
        let member = specs::drop_fields(&member, &["suspend"]);
        let mut simulation = Simulation::with(members(&[before, member]));
        let owner = Simulation::owner(&simulation.objects[0]);
        simulation.settle(None);
        let had = parts(&simulation.aws.assets, &owner, "b");
        let mut secure = rules(&simulation.aws.assets, &owner, "b");
        secure.retain(|_, (settings, _)| simulation.needs_https(&settings.actions));
        let secure: Vec<String> = secure.into_keys().cloned().collect();
        let followed = simulation.followed(&owner);
        if suspended {
            simulation.object("b").spec.suspend = true;
        } else {
            simulation.object("b").spec.tags.insert("aws:reserved".into(), "x".into());
        }
        simulation.object("a").spec = serde_json::from_value(after).unwrap();
        simulation.settle(None);
        // Its rules that need HTTPS answer 404 where another member turns the listener to HTTP.
        let mut closed = rules(&simulation.aws.assets, &owner, "b");
        closed.retain(|arn, (_, protocol)| *protocol == Protocol::Http && secure.contains(arn));
        prop_assert!(closed.values().all(|(settings, _)| settings.actions == nothing_here()), "{:?}", closed);
        let open = |part: &String| !closed.keys().any(|arn| part.starts_with(&format!("{arn} ")));
        let has = parts(&simulation.aws.assets, &owner, "b");
        prop_assert!(has.iter().filter(|it| open(it)).eq(had.iter().filter(|it| open(it))), "{:#?} {:#?}", has, had);
        let mine = simulation.aws.assets.groups.iter().filter(|(_, it)| is_of(&owner, "b", &it.tags));
        let mine: Vec<String> = mine.map(|(arn, _)| arn.clone()).collect();
        let still = simulation.followed(&owner);
        // Even the targets of a suspended member stay as they are.
        prop_assert!(mine.iter().all(|arn| still.contains(arn) == (followed.contains(arn) && !suspended)));
    }
}
