//! Attributes that a spec no longer has.

use serde_json::{Value, json};

use causeway_aws::elbv2::Pairs;

use super::Simulation;
use crate::model::fixtures::standing;

/// The emulator's rules, which say what a new balancer has.
const EMULATOR: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../localstack/causeway_localstack/rules/attributes.py"));

/// The attributes of a new balancer in the emulator.
fn defaults(scheme: &str) -> Pairs {
    let (_, table) = EMULATOR.split_once("_DEFAULTS: Mapping[str, str] = {").unwrap();
    let (table, _) = table.split_once('}').unwrap();
    let entry = |line: &str| {
        let mut quoted = line.split('"').skip(1).step_by(2);
        Some((quoted.next()?.to_owned(), quoted.next()?.to_owned()))
    };
    let mut all: Pairs = table.lines().filter_map(entry).collect();
    assert!(EMULATOR.contains(r#""ipv6.deny_all_igw_traffic": "true" if scheme == "internal" else "false""#));
    all.insert("ipv6.deny_all_igw_traffic".into(), (scheme == "internal").to_string());
    // No bucket cannot be written, and an Application Load Balancer always balances across zones.
    all.retain(|key, _| !key.ends_with(".bucket") && key != "load_balancing.cross_zone.enabled");
    all
}

/// Another value that AWS allows.
fn another(value: &str) -> String {
    match value {
        "true" => "false".into(),
        "false" => "true".into(),
        "defensive" => "strictest".into(),
        "append" => "remove".into(),
        "" => "shop".into(),
        number => (number.parse::<u32>().unwrap() + 1).to_string(),
    }
}

#[test]
fn every_dropped_attribute_goes_back_to_its_default() {
    for scheme in ["internet-facing", "internal"] {
        let defaults = defaults(scheme);
        assert!(defaults.len() > 15, "the table is read: {defaults:?}");
        let others: Pairs = defaults.iter().map(|(key, value)| (key.clone(), another(value))).collect();
        let spec = |attributes: Value| standing("web", json!({ "scheme": scheme, "attributes": attributes }));
        let mut simulation = Simulation::with(vec![spec(json!(others))]);
        simulation.settle(None);
        let present = |simulation: &Simulation| -> Pairs {
            let member = simulation.aws.assets.balancers.values().next().unwrap();
            let attributes = member.attributes.clone().unwrap();
            attributes.into_iter().filter(|(key, _)| defaults.contains_key(key)).collect()
        };
        assert_eq!(present(&simulation), others, "{scheme}");
        simulation.objects[0].spec = spec(json!({})).spec;
        simulation.settle(None);
        assert_eq!(present(&simulation), defaults, "{scheme}");
        assert_eq!(simulation.objects[0].status.clone().unwrap().managed, None, "they are forgotten");
    }
}
