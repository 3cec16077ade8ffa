//! Properties that hold for all specs.

use std::collections::BTreeSet;

use kube::ResourceExt;
use proptest::prelude::*;

use causeway_api::MyIngress;

use super::actions::groups_of;
use super::fixtures::built;
use super::specs::member;
use super::{Built, Model, order};

fn members() -> impl Strategy<Value = Vec<MyIngress>> {
    (member("a"), member("b"), member("c"), member("d")).prop_map(|(a, b, c, d)| vec![a, b, c, d])
}

fn built_in_order(members: &[MyIngress]) -> Built {
    let mut members: Vec<&MyIngress> = members.iter().collect();
    order(&mut members, "shop");
    built(&members)
}

fn forwarded_to(model: &Model) -> BTreeSet<&String> {
    groups_of(model.listeners.values().flat_map(|listener| {
        let rules = listener.rules.iter().flat_map(|rule| &rule.settings.actions);
        rules.chain(&listener.default_actions)
    }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_member_gets_what_it_wants_or_a_complaint(members in members()) {
        let built = built_in_order(&members);
        let Some(model) = built.model else {
            prop_assert_eq!(built.complaints.len(), members.len());
            return Ok(());
        };
        prop_assert!(built.complaints.len() < members.len());
        prop_assert_eq!(forwarded_to(&model), model.groups.keys().collect::<BTreeSet<_>>());
        for object in &members {
            let key = (object.namespace().unwrap_or_default(), object.name_any());
            let rules = model.listeners.values().flat_map(|it| &it.rules).filter(|rule| rule.member == key).count();
            let asked: usize = object.spec.listeners.iter().map(|listener| listener.rules.len()).sum();
            let wanted = if built.complaints.contains_key(&key) { 0 } else { asked };
            prop_assert_eq!(rules, wanted);
        }
    }

    #[test]
    fn the_order_in_which_members_are_found_does_not_matter(
        (members, shuffled) in members().prop_flat_map(|members| (Just(members.clone()), Just(members).prop_shuffle()))
    ) {
        prop_assert_eq!(built_in_order(&members), built_in_order(&shuffled));
    }

    #[test]
    fn a_member_left_out_changes_nothing_for_the_others(members in members()) {
        let with = built_in_order(&members);
        let good = |object: &&MyIngress| {
            !with.complaints.contains_key(&(object.namespace().unwrap_or_default(), object.name_any()))
        };
        let fine: Vec<MyIngress> = members.iter().filter(good).cloned().collect();
        let without = built_in_order(&fine);
        prop_assert_eq!(with.model, without.model);
        prop_assert!(without.complaints.is_empty());
    }
}
