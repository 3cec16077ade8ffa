//! Edits of rules under load: every request meets the rules before the edit or those after it.

use std::time::Instant;

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::entrance::{self, Entrance, Stage, backend, forward};
use super::load::{Load, Record};
use super::servers::Servers;
use super::timeline::{Right, Timeline};
use crate::support::{Operator, Scene};

const PATHS: &[&str] = &["/one", "/one/deep", "/two", "/other"];

/// An edit: its name, the rules, the default action, and who may answer then.
type Edit = (&'static str, Value, Value, Right);

/// Two Services with a pod each, behind a listener with these rules.
async fn ruled(scene: &Scene, rules: &Value, default: &Value) -> Entrance {
    let (blue, green) = (Servers::plain("blue", 1), Servers::plain("green", 1));
    tokio::join!(blue.settle(scene), green.settle(scene));
    let backends = json!([backend("blue", json!({})), backend("green", json!({}))]);
    let listener = json!({ "rules": rules, "defaultAction": default });
    scene.create::<MyIngress>("web", entrance::spec(listener, json!({ "backends": backends }))).await;
    entrance::serving(scene, "web", 2).await
}

/// Makes the edits under load, again and again.
async fn edited(scene: &Scene, edits: &[Edit], rounds: usize, paths: &'static [&'static str]) -> (Record, Timeline) {
    let (_, rules, default, right) = &edits[0];
    let entrance = ruled(scene, rules, default).await;
    let mut timeline = Timeline::new(right);
    let load = Load::start(&entrance, paths);
    for (what, rules, default, right) in edits.iter().cycle().skip(1).take(edits.len() * rounds) {
        let begun = Instant::now();
        let listener = json!({ "port": 80, "rules": rules, "defaultAction": default });
        scene.edit::<MyIngress>("web", json!({ "listeners": [listener] })).await;
        scene.ingress("web", &format!("the listener to be ready after: {what}"), crate::support::scene::is_ready).await;
        entrance::in_force(scene).await;
        timeline.settled(what, begun, right);
        load.wait_until("each path to be asked for", |exchanges| {
            paths.iter().all(|path| exchanges.iter().filter(|exchange| exchange.path == *path).count() >= 20)
        })
        .await;
    }
    (load.stop(), timeline)
}

fn report(what: &str, record: &Record, timeline: &Timeline) {
    record.print(what);
    timeline.print(record);
    let wrong = timeline.wrong(record);
    println!("»   {} wrong answers", wrong.len());
    assert!(wrong.is_empty(), "{} wrong answers:\n{}", wrong.len(), record.listed(&wrong));
    record.assert_no_failures();
}

fn says(word: &str) -> Value {
    json!({ "fixedResponse": { "statusCode": 200, "body": word } })
}

fn rule(kind: &str, path: &str, action: &Value) -> Value {
    json!({ "paths": [{ "type": kind, "value": path }], "action": action })
}

fn numbered(rules: &[Value], numbers: &[u16]) -> Value {
    let numbered = rules.iter().zip(numbers).map(|(rule, number)| {
        let mut rule = rule.clone();
        rule["priority"] = json!(number);
        rule
    });
    numbered.collect()
}

#[tokio::test]
async fn edits_of_rules_give_no_wrong_answer() {
    let scene = Stage::new("rules").await;
    let _operator = Operator::start(&scene).await;
    let (blue, green) = (forward(&[("blue", 1)]), forward(&[("green", 1)]));
    let one = rule("Prefix", "/one", &blue);
    let one_green = rule("Prefix", "/one", &green);
    let deep = rule("Exact", "/one/deep", &says("deep"));
    let two = rule("Prefix", "/two", &says("two"));
    let begin: Right = &[("/one", &["blue"]), ("/one/deep", &["blue"]), ("/two", &["two"]), ("/other", &["green"])];
    let with_deep: Right = &[("/one", &["blue"]), ("/one/deep", &["deep"]), ("/two", &["two"]), ("/other", &["green"])];
    let other_action: Right =
        &[("/one", &["green"]), ("/one/deep", &["deep"]), ("/two", &["two"]), ("/other", &["green"])];
    let hidden: Right = &[("/one", &["green"]), ("/one/deep", &["green"]), ("/two", &["two"]), ("/other", &["green"])];
    let without_two: Right =
        &[("/one", &["green"]), ("/one/deep", &["deep"]), ("/two", &["green"]), ("/other", &["green"])];
    let default: Right = &[("/one", &["green"]), ("/one/deep", &["deep"]), ("/two", &["none"]), ("/other", &["none"])];
    let in_order = [deep.clone(), one_green.clone(), two.clone()];
    let edits: [Edit; 11] = [
        ("as in the beginning", json!([one, two]), green.clone(), begin),
        ("a rule is inserted above", json!([deep, one, two]), green.clone(), with_deep),
        ("a rule's action changes", json!(in_order), green.clone(), other_action),
        ("rules change places", json!([one_green, deep, two]), green.clone(), hidden),
        ("and back, all of them", json!([two, deep, one_green]), green.clone(), other_action),
        ("priorities become explicit", numbered(&in_order, &[10, 20, 30]), green.clone(), other_action),
        ("priorities change places", numbered(&in_order, &[20, 10, 30]), green.clone(), hidden),
        ("priorities move among those in use", numbered(&in_order, &[10, 30, 20]), green.clone(), other_action),
        ("priorities become automatic", json!(in_order), green.clone(), other_action),
        ("a rule is removed", json!([deep, one_green]), green.clone(), without_two),
        ("the default action changes", json!([deep, one_green]), says("none"), default),
    ];
    let (record, timeline) = edited(&scene, &edits, 2, PATHS).await;
    report("22 edits of rules", &record, &timeline);
}

#[tokio::test]
async fn shifts_of_weights_give_no_wrong_answer() {
    let scene = Stage::new("weights").await;
    let _operator = Operator::start(&scene).await;
    let (blue, both, green): (Right, Right, Right) =
        (&[("/one", &["blue"])], &[("/one", &["blue", "green"])], &[("/one", &["green"])]);
    let shifted =
        |weights: [u16; 2]| json!([rule("Prefix", "/one", &forward(&[("blue", weights[0]), ("green", weights[1])]))]);
    let alone = |backend| json!([rule("Prefix", "/one", &forward(&[(backend, 1)]))]);
    // The default action uses both backends: otherwise some edits would leave one target group unused.
    let default = forward(&[("blue", 1), ("green", 1)]);
    let edits: [Edit; 7] = [
        ("all to blue", shifted([100, 0]), default.clone(), blue),
        ("half to each", shifted([50, 50]), default.clone(), both),
        ("all to green", shifted([0, 100]), default.clone(), green),
        ("green alone", alone("green"), default.clone(), green),
        ("blue alone", alone("blue"), default.clone(), blue),
        ("a tenth to green", shifted([90, 10]), default.clone(), both),
        ("all to green at once", shifted([0, 1]), default.clone(), green),
    ];
    let (record, timeline) = edited(&scene, &edits, 2, &["/one"]).await;
    report("14 shifts of weights", &record, &timeline);
}
