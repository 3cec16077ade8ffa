//! A tenant writes the largest objects that the API server takes, whose rules and expressions cost the most to check.

use causeway_api::MyIngress;
use serde_json::{Value, json};

use crate::myingress::{ready, spec, stalled_by};
use crate::support::{Operator, Scene};

/// Backtracks without end in matchers that backtrack.
const EXPRESSION: &str = "^(([a-z0-9]+)+[.])+$";

/// Many listeners with as many rules as the schema takes, of which each has conditions with expressions.
fn costly(listeners: u16, rules: usize) -> Value {
    let rule = json!({
        "hostRegexes": [EXPRESSION], "paths": [{ "type": "Regex", "value": EXPRESSION }],
        "headers": [{ "name": "X-A", "regexes": [EXPRESSION] }], "sourceCidrs": ["192.0.2.0/24"],
        "action": { "fixedResponse": { "statusCode": 200 } },
    });
    let listener = |port: u16| json!({ "port": port, "rules": vec![rule.clone(); rules] });
    spec(json!({ "listeners": (1..=listeners).map(listener).collect::<Vec<_>>() }))
}

#[tokio::test]
async fn the_costliest_object_is_refused_or_reported_and_stops_no_other() {
    let scene = Scene::new("security-costly").await;
    let _operator = Operator::start(&scene).await;
    for (name, listeners, rules) in [("wide", 50, 100), ("many", 50, 20), ("some", 2, 100), ("narrow", 1, 100)] {
        match scene.try_create::<MyIngress>(name, costly(listeners, rules)).await {
            // More than the operator keeps of one object.
            Ok(_) if usize::from(listeners) * rules > 500 => {
                scene.has_event(name, "Undecodable", "KiB of memory").await;
            }
            // More than AWS takes on one balancer.
            Ok(_) if usize::from(listeners) * rules > 100 => drop(stalled_by(&scene, name, "LimitReached").await),
            Ok(_) => drop(ready(&scene, name).await),
            Err(kube::Error::Api(refusal)) => {
                println!("{name} is refused: {}", refusal.message.chars().take(300).collect::<String>());
                assert!([413, 422].contains(&refusal.code), "{name}: {refusal:?}");
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
    scene.create::<MyIngress>("app", spec(json!({}))).await;
    ready(&scene, "app").await;
}
