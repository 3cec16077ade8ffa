//! `Redis` and `EtcdCluster`.

use causeway_api::{EtcdCluster, Redis};
use serde_json::{Value, json};

use super::judge::{container, has, lies, pods_serve};
use super::{carried_out, fails, says};
use crate::support::chronicle::{Chronicle, Moment};
use crate::support::{Operator, Scene};

/// An image that does not exist.
const NOTHING: &str = "registry.invalid/nothing:1";

/// The set and each of its pods are as the spec asks for.
fn rolled_out(
    name: &str,
    spec: &Value,
    moment: &Moment,
    (label, process, image, count): (&str, &str, &str, i64),
) -> Result<(), String> {
    let like = |pod: &Value| {
        let node = container(pod, process);
        has("image", &node["image"], &json!(image))?;
        has("resources", &node["resources"], &spec["resources"])?;
        has("nodeSelector", &pod["nodeSelector"], &spec["nodeSelector"])?;
        has("priorityClassName", &pod["priorityClassName"], &spec["priorityClassName"])?;
        has("exporter", &container(pod, "exporter")["image"], &spec["exporter"]["image"])
    };
    let set = moment.get(&("StatefulSet".to_owned(), name.to_owned())).ok_or("there is no StatefulSet")?;
    has("replicas", &set["spec"]["replicas"], &json!(count))?;
    like(&set["spec"]["template"]["spec"]).map_err(|why| format!("the StatefulSet: {why}"))?;
    pods_serve(moment, (label, name), count, like)
}

fn redis(name: &str, spec: &Value, moment: &Moment) -> Result<(), String> {
    let image = format!("redis:{}", spec["version"].as_str().unwrap());
    let image = spec["image"].as_str().map_or(image, str::to_owned);
    let count = spec["replicas"].as_i64().unwrap() + 1;
    rolled_out(name, spec, moment, ("causeway.example.com/redis", "redis", &image, count))
}

fn etcd(name: &str, spec: &Value, moment: &Moment) -> Result<(), String> {
    let image = format!("quay.io/coreos/etcd:v{}", spec["version"].as_str().unwrap());
    let image = spec["image"].as_str().map_or(image, str::to_owned);
    let count = spec["replicas"].as_i64().unwrap();
    rolled_out(name, spec, moment, ("causeway.example.com/etcd", "etcd", &image, count))
}

/// Requests above the limits: only the apiserver refuses them.
fn impossible() -> Value {
    json!({ "requests": { "memory": "2Gi" }, "limits": { "memory": "1Gi" } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_without_replicas_is_never_ready_too_early() {
    let scene = Scene::new("ready-redis").await;
    let operator = Operator::start(&scene).await;
    let chronicle = Chronicle::start::<Redis>(&scene).await;
    scene.create::<Redis>("one", json!({ "replicas": 0 })).await;
    says::<Redis>(&scene, "one", "the first node", |status, _| status == "True").await;
    let resources = json!({ "resources": { "requests": { "cpu": "20m", "memory": "48Mi" } } });
    carried_out::<Redis>(&scene, "one", resources).await;
    carried_out::<Redis>(&scene, "one", json!({ "config": { "maxmemory": "64mb" } })).await;

    let message = fails::<Redis>(&scene, "one", json!({ "image": NOTHING }), "ImagePullFailed").await;
    assert!(message.contains("spec.image") && message.contains(NOTHING), "{message}");
    scene.has_warning("one", "ImagePullFailed").await;
    carried_out::<Redis>(&scene, "one", json!({ "image": null })).await;

    let elsewhere = json!({ "nodeSelector": { "rack": "nowhere" } });
    let message = fails::<Redis>(&scene, "one", elsewhere, "Unschedulable").await;
    assert!(message.contains("spec.nodeSelector") && message.contains("nodes are available"), "{message}");
    carried_out::<Redis>(&scene, "one", json!({ "nodeSelector": null })).await;

    let message = fails::<Redis>(&scene, "one", json!({ "exporter": { "image": NOTHING } }), "ImagePullFailed").await;
    assert!(message.contains("spec.exporter.image") && message.contains(NOTHING), "{message}");
    carried_out::<Redis>(&scene, "one", json!({ "exporter": null })).await;

    let message = fails::<Redis>(&scene, "one", json!({ "priorityClassName": "absent" }), "BroughtBack").await;
    assert!(
        message.contains("spec.priorityClassName") && message.contains("no PriorityClass with name absent"),
        "{message}"
    );
    carried_out::<Redis>(&scene, "one", json!({ "priorityClassName": null })).await;

    let message = fails::<Redis>(&scene, "one", json!({ "resources": impossible() }), "ApplyFailed").await;
    assert!(message.contains("spec.resources"), "{message}");
    let resources = json!({ "resources": { "requests": { "memory": "32Mi" }, "limits": null } });
    carried_out::<Redis>(&scene, "one", resources).await;
    operator.stop().await;
    let chronicle = chronicle.complete().await;
    assert_eq!(lies(&chronicle, "Redis", redis), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_with_replicas_is_never_ready_too_early() {
    let scene = Scene::new("ready-redis").await;
    let operator = Operator::start(&scene).await;
    let chronicle = Chronicle::start::<Redis>(&scene).await;
    scene.create::<Redis>("two", json!({ "replicas": 1 })).await;
    says::<Redis>(&scene, "two", "the first nodes", |status, _| status == "True").await;
    let resources = json!({ "resources": { "requests": { "cpu": "20m", "memory": "48Mi" } } });
    carried_out::<Redis>(&scene, "two", resources).await;
    fails::<Redis>(&scene, "two", json!({ "image": NOTHING }), "ImagePullFailed").await;
    carried_out::<Redis>(&scene, "two", json!({ "image": null })).await;
    carried_out::<Redis>(&scene, "two", json!({ "replicas": 2 })).await;
    carried_out::<Redis>(&scene, "two", json!({ "replicas": 0 })).await;
    operator.stop().await;
    let chronicle = chronicle.complete().await;
    assert_eq!(lies(&chronicle, "Redis", redis), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_of_one_member_is_never_ready_too_early() {
    let scene = Scene::new("ready-etcd").await;
    let operator = Operator::start(&scene).await;
    let chronicle = Chronicle::start::<EtcdCluster>(&scene).await;
    scene.create::<EtcdCluster>("db", json!({ "version": "3.5.9", "replicas": 1, "storageSize": "1Gi" })).await;
    says::<EtcdCluster>(&scene, "db", "the first member", |status, _| status == "True").await;
    let resources = json!({ "resources": { "requests": { "cpu": "20m", "memory": "96Mi" } } });
    carried_out::<EtcdCluster>(&scene, "db", resources).await;
    carried_out::<EtcdCluster>(&scene, "db", json!({ "config": { "snapshot-count": "20000" } })).await;

    let message = fails::<EtcdCluster>(&scene, "db", json!({ "image": NOTHING }), "ImagePullFailed").await;
    assert!(message.contains("spec.image") && message.contains(NOTHING), "{message}");
    carried_out::<EtcdCluster>(&scene, "db", json!({ "image": null })).await;

    let elsewhere = json!({ "nodeSelector": { "rack": "nowhere" } });
    let message = fails::<EtcdCluster>(&scene, "db", elsewhere, "Unschedulable").await;
    assert!(message.contains("spec.nodeSelector") && message.contains("nodes are available"), "{message}");
    carried_out::<EtcdCluster>(&scene, "db", json!({ "nodeSelector": null })).await;

    let message = fails::<EtcdCluster>(&scene, "db", json!({ "priorityClassName": "absent" }), "BroughtBack").await;
    assert!(
        message.contains("spec.priorityClassName") && message.contains("no PriorityClass with name absent"),
        "{message}"
    );
    carried_out::<EtcdCluster>(&scene, "db", json!({ "priorityClassName": null })).await;

    let message = fails::<EtcdCluster>(&scene, "db", json!({ "resources": impossible() }), "SpecRefused").await;
    assert!(message.contains("spec.resources"), "{message}");
    let resources = json!({ "resources": { "requests": { "memory": "64Mi" }, "limits": null } });
    carried_out::<EtcdCluster>(&scene, "db", resources).await;
    operator.stop().await;
    let chronicle = chronicle.complete().await;
    assert_eq!(lies(&chronicle, "EtcdCluster", etcd), Vec::<String>::new());
}
