//! Members run where their user says. A placement that the apiserver refuses disturbs no member.

use causeway_api::EtcdCluster;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{NAME, Stage, running, settled, spec, stalls, successor, uids};
use crate::support::Operator;

/// Pods that keep off nodes by an expression with that operator.
fn apart_by(operator: &str) -> Value {
    let selector = json!({ "matchExpressions": [{ "key": "tier", "operator": operator }] });
    let term = json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": selector });
    json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_run_where_their_user_says() {
    let scene = Stage::new("etcd-placement").await;
    let _operator = Operator::start(&scene).await;
    let mut placed = spec(1);
    placed["affinity"] = apart_by("Exists");
    placed["topologySpreadConstraints"] =
        json!([{ "topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway" }]);
    running(&scene, placed).await;
    let set = scene.api::<StatefulSet>().get(NAME).await.expect("the StatefulSet");
    let pods = set.spec.and_then(|set| set.template.spec).expect("pods");
    let anti = pods.affinity.and_then(|it| it.pod_anti_affinity).expect("what was given");
    assert_eq!(anti.required_during_scheduling_ignored_during_execution.map(|terms| terms.len()), Some(1));
    assert_eq!(anti.preferred_during_scheduling_ignored_during_execution, None, "not the default beside it");
    let spread: Vec<(String, i32, bool)> = pods
        .topology_spread_constraints
        .into_iter()
        .flatten()
        .map(|it| (it.topology_key, it.max_skew, it.label_selector.is_some()))
        .collect();
    assert_eq!(spread, [("rack".to_owned(), 2, true)]);

    // Only the apiserver knows that `Gt` selects nodes, but not pods.
    let before = uids(&scene).await;
    scene.edit::<EtcdCluster>(NAME, json!({ "affinity": apart_by("Gt") })).await;
    let (reason, message) = stalls(&scene, "a message about the affinity").await;
    assert_eq!(reason, "SpecRefused", "{message}");
    assert!(message.contains("affinity") && message.contains("correct it"), "{message}");
    assert_eq!(uids(&scene).await, before, "no pod was touched");
    scene.delete::<Pod>("db-0").await;
    successor(&scene, "db-0", &before["db-0"]).await;
    let none: Value = Value::Null;
    scene.edit::<EtcdCluster>(NAME, json!({ "affinity": none, "topologySpreadConstraints": [] })).await;
    settled(&scene, "the mistake corrected").await;
    let set = scene.api::<StatefulSet>().get(NAME).await.expect("the StatefulSet");
    let pods = set.spec.and_then(|set| set.template.spec).expect("pods");
    assert!(pods.topology_spread_constraints.is_none_or(|all| all.is_empty()), "none was asked for");
}

#[tokio::test]
async fn two_constraints_of_the_same_kind_are_refused() {
    let scene = Stage::new("etcd-placement").await;
    let one = json!({ "topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule" });
    for (field, value, words) in [
        ("topologySpreadConstraints", json!([one, one]), "duplicate entries"),
        ("topologySpreadConstraints", json!([{ "topologyKey": "rack" }]), "Required value"),
        ("affinity", json!({ "podAffinity": "none" }), "spec.affinity.podAffinity"),
        ("defrag", json!({ "schedule": "0 3 * * *", "thresholdPercent": 0 }), "spec.defrag.thresholdPercent"),
    ] {
        let mut wrong = spec(1);
        wrong[field] = value;
        let outcome = scene.try_create::<EtcdCluster>(NAME, wrong).await;
        let answer = outcome.expect_err(field).to_string();
        assert!(answer.contains(words), "{answer}");
    }
}
