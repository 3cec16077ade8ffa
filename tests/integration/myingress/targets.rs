//! Targets follow the endpoints of Services, and nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_api::MyIngress;
use causeway_aws::ec2::Parameters;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{spec, stalled_by, two_sweeps};
use crate::support::account::{target_groups, targets_if_there};
use crate::support::backends::{apply_service, endpoints, remove_service, service};
use crate::support::scene::condition;
use crate::support::{Operator, Scene, wait_for};

/// A balancer in front of the Service `web`; `more` is about the backend.
fn fronting(more: &Value) -> Value {
    let mut backend = json!({ "name": "web", "port": 80 });
    backend.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    spec(json!({
        "listeners": [{ "port": 80, "defaultAction": { "forward": { "backends": [{ "name": "web" }] } } }],
        "backends": [backend],
    }))
}

/// The targets of the only group there is; `None` before it is made.
async fn registered(scene: &Scene) -> Option<BTreeMap<String, String>> {
    let groups = target_groups(scene).await;
    targets_if_there(scene, groups.first()?.target_group_arn()?).await
}

/// Waits until exactly these are registered; those that drain do not count.
async fn becomes(scene: &Scene, what: &str, wanted: &[&str]) {
    let good = |seen: &Option<BTreeMap<String, String>>| {
        let staying = seen.iter().flatten().filter(|(_, state)| *state != "draining").map(|(place, _)| place.as_str());
        seen.is_some() && staying.collect::<Vec<_>>() == wanted
    };
    wait_for(what, || registered(scene), good).await;
}

#[tokio::test]
async fn targets_follow_endpoints_and_an_empty_set_is_honoured() {
    let scene = Scene::new("targets").await;
    let _operator = Operator::start(&scene).await;
    service(&scene, "web", &[("", 80)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1", "198.18.7.2"]).await;
    scene.create::<MyIngress>("app", fronting(&json!({}))).await;
    becomes(&scene, "both endpoints", &["198.18.7.1:8080", "198.18.7.2:8080"]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.2", "198.18.7.3"]).await;
    becomes(&scene, "the other endpoints", &["198.18.7.2:8080", "198.18.7.3:8080"]).await;
    endpoints(&scene, "web", &[("", 9090)], &["198.18.7.2"]).await;
    becomes(&scene, "the other port", &["198.18.7.2:9090"]).await;
    endpoints(&scene, "web", &[("", 9090)], &[]).await;
    becomes(&scene, "no target", &[]).await;
    let text = |object: &MyIngress| {
        let conditions = object.status.clone().unwrap_or_default().conditions;
        condition(&conditions, "TargetsHealthy")
            .is_some_and(|(status, reason, _)| (status, reason) == ("False".into(), "NoTargets".into()))
    };
    scene.ingress("app", "TargetsHealthy to say NoTargets", text).await;
}

#[tokio::test]
async fn targets_follow_endpoints_despite_restart_and_wrong_spec() {
    let scene = Scene::new("targets").await;
    let operator = Operator::start(&scene).await;
    service(&scene, "web", &[("http", 80)]).await;
    endpoints(&scene, "web", &[("http", 8080)], &["198.18.7.1"]).await;
    scene.create::<MyIngress>("app", fronting(&json!({ "port": "http" }))).await;
    becomes(&scene, "the first endpoint", &["198.18.7.1:8080"]).await;
    super::ready(&scene, "app").await;
    operator.stop().await;
    let nowhere = json!([{ "port": 80, "defaultAction": { "forward": { "backends": [{ "name": "nowhere" }] } } }]);
    scene.edit::<MyIngress>("app", json!({ "listeners": nowhere })).await;
    let _operator = Operator::start(&scene).await;
    stalled_by(&scene, "app", "BackendMissing").await;
    endpoints(&scene, "web", &[("http", 8080)], &["198.18.7.2"]).await;
    becomes(&scene, "the other endpoint", &["198.18.7.2:8080"]).await;
}

#[tokio::test]
async fn terminating_and_unready_endpoints_get_no_requests() {
    let scene = Scene::new("targets").await;
    let _operator = Operator::start(&scene).await;
    service(&scene, "web", &[("", 80)]).await;
    let slice = |conditions: [Value; 3]| {
        let endpoints: Vec<Value> = (1..)
            .zip(conditions)
            .map(|(number, it)| json!({ "addresses": [format!("198.18.7.{number}")], "conditions": it }))
            .collect();
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": "web-1", "labels": { "kubernetes.io/service-name": "web" } },
            "addressType": "IPv4", "ports": [{ "port": 80, "protocol": "TCP" }], "endpoints": endpoints,
        })
    };
    let api = scene.api::<EndpointSlice>();
    let apply = |object: Value| {
        let api = api.clone();
        async move {
            let force = PatchParams::apply("test").force();
            api.patch("web-1", &force, &Patch::Apply(&object)).await.expect("the endpoints are taken");
        }
    };
    let ready = || json!({ "ready": true, "serving": true, "terminating": false });
    apply(slice([ready(), ready(), json!({ "ready": false, "serving": false, "terminating": false })])).await;
    scene.create::<MyIngress>("app", fronting(&json!({}))).await;
    becomes(&scene, "the ready ones", &["198.18.7.1:80", "198.18.7.2:80"]).await;
    apply(slice([ready(), json!({ "ready": false, "serving": true, "terminating": true }), ready()])).await;
    becomes(&scene, "the ready ones", &["198.18.7.1:80", "198.18.7.3:80"]).await;
}

#[tokio::test]
async fn a_deleted_service_leaves_its_targets_and_is_told() {
    let scene = Scene::new("targets").await;
    let _operator = Operator::start(&scene).await;
    service(&scene, "web", &[("", 80)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1"]).await;
    scene.create::<MyIngress>("app", fronting(&json!({}))).await;
    becomes(&scene, "the endpoint", &["198.18.7.1:8080"]).await;
    remove_service(&scene, "web").await;
    let message = stalled_by(&scene, "app", "ServiceNotFound").await;
    assert!(message.starts_with("spec.backends[0].service: there is no Service web"), "{message}");
    two_sweeps(&scene).await;
    becomes(&scene, "the endpoint to stay", &["198.18.7.1:8080"]).await;
    service(&scene, "web", &[("", 80)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.9"]).await;
    becomes(&scene, "the endpoint of the new Service", &["198.18.7.9:8080"]).await;
    super::ready(&scene, "app").await;
}

#[tokio::test]
async fn ports_are_found_by_name_and_missing_ones_reported() {
    let scene = Scene::new("targets").await;
    let _operator = Operator::start(&scene).await;
    service(&scene, "web", &[("http", 80), ("admin", 81)]).await;
    endpoints(&scene, "web", &[("http", 8080), ("admin", 9090)], &["198.18.7.1"]).await;
    scene.create::<MyIngress>("app", fronting(&json!({ "port": "admin" }))).await;
    becomes(&scene, "the named port", &["198.18.7.1:9090"]).await;
    scene.edit::<MyIngress>("app", json!({ "backends": [{ "name": "web", "port": "metrics" }] })).await;
    let message = stalled_by(&scene, "app", "PortNotFound").await;
    assert!(
        message.starts_with("spec.backends[0].port: ") && message.contains("http") && message.contains("admin"),
        "{message}"
    );
    becomes(&scene, "the targets to stay", &["198.18.7.1:9090"]).await;
    scene.edit::<MyIngress>("app", json!({ "backends": [{ "name": "web", "port": "http" }] })).await;
    becomes(&scene, "the other port", &["198.18.7.1:8080"]).await;
}

#[tokio::test]
async fn a_gated_pod_is_ready_only_with_a_healthy_target() {
    const GATE: &str = "causeway.example.com/target-health";
    let scene = Scene::new("gate").await;
    scene.emulator.settings(json!({ "initial_seconds": 3600 })).await;
    let _operator = Operator::start(&scene).await;
    let selecting = json!({ "ports": [{ "port": 80 }], "selector": { "app": "web" } });
    apply_service(&scene, "web", selecting).await;
    scene.create::<MyIngress>("app", fronting(&json!({}))).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web", "labels": { "app": "web" } },
        "spec": {
            "containers": [{ "name": "web", "image": "nginx:latest" }],
            "readinessGates": [{ "conditionType": GATE }],
            "terminationGracePeriodSeconds": 1,
        },
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    scene.api::<Pod>().create(&PostParams::default(), &pod).await.expect("the pod is taken");
    let status_of = |pod: &Pod, type_: &str| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        conditions.into_iter().find(|it| it.type_ == type_).map(|it| (it.status, it.reason))
    };
    let look = || async { scene.api::<Pod>().get("web").await.expect("the pod") };
    let initial = |seen: &Option<BTreeMap<String, String>>| seen.iter().flatten().any(|(_, state)| state == "initial");
    wait_for("the pod to be a target that is not healthy yet", || registered(&scene), initial).await;
    let waiting = |pod: &Pod| status_of(pod, GATE).is_some_and(|(status, _)| status == "False");
    let pod = wait_for("the gate to say that the pod waits", look, waiting).await;
    assert_eq!(status_of(&pod, "ContainersReady").map(|(status, _)| status).as_deref(), Some("True"));
    assert_eq!(status_of(&pod, "Ready").map(|(status, _)| status).as_deref(), Some("False"));
    scene.emulator.settings(json!({ "initial_seconds": 0 })).await;
    let ready = |pod: &Pod| status_of(pod, "Ready").is_some_and(|(status, _)| status == "True");
    let pod = wait_for("the pod to be ready", look, ready).await;
    assert_eq!(status_of(&pod, GATE), Some(("True".into(), Some("TargetHealthy".into()))));
}

/// Starts an EC2 instance, and creates a Node without a kubelet that claims to be this instance; returns their names.
async fn paper_node(scene: &Scene, number: usize) -> (String, String) {
    let run = Parameters::default().add("ImageId", "ami-12345678").add("SubnetId", "subnet-abc");
    let run = scene.ec2("RunInstances", run.add("MinCount", "1").add("MaxCount", "1")).await;
    let instance = run.items("instancesSet").next().and_then(|it| it.value("instanceId")).expect("an instance");
    let name = format!("paper-{number}-{}", scene.namespace);
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
        "spec": { "providerID": format!("aws:///us-east-1a/{instance}"), "unschedulable": true },
    });
    let api = Api::<Node>::all(scene.client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.expect("the node is taken");
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    api.patch_status(&name, &PatchParams::default(), &Patch::Strategic(&ready)).await.expect("the node is ready");
    (instance, name)
}

/// Keeps a node without a kubelet ready, until the task is aborted. Without heartbeats Kubernetes makes it unknown
/// within a minute.
async fn heartbeats(nodes: Api<Node>, name: String) {
    loop {
        let beat = json!({ "type": "Ready", "status": "True", "lastHeartbeatTime": Timestamp::now().to_string() });
        let status = json!({ "status": { "conditions": [beat] } });
        // The node may have been deleted.
        nodes.patch_status(&name, &PatchParams::default(), &Patch::Strategic(&status)).await.ok();
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn instance_targets_are_nodes_with_the_services_port() {
    let scene = Scene::new("nodes").await;
    let _operator = Operator::start(&scene).await;
    apply_service(&scene, "web", json!({ "type": "NodePort", "ports": [{ "port": 80 }] })).await;
    let port = scene.api::<Service>().get("web").await.unwrap().spec.unwrap().ports.unwrap()[0].node_port.unwrap();
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1"]).await;
    let (first, first_node) = paper_node(&scene, 1).await;
    let (second, second_node) = paper_node(&scene, 2).await;
    let nodes = Api::<Node>::all(scene.client.clone());
    let hearts = [&first_node, &second_node].map(|name| tokio::spawn(heartbeats(nodes.clone(), name.clone())));
    scene.create::<MyIngress>("app", fronting(&json!({ "targetType": "instance" }))).await;
    let mut both = [format!("{first}:{port}"), format!("{second}:{port}")];
    both.sort();
    becomes(&scene, "the nodes", &both.each_ref().map(String::as_str)).await;
    nodes.delete(&first_node, &DeleteParams::default()).await.expect("the node goes");
    becomes(&scene, "the other node", &[&format!("{second}:{port}")]).await;
    // A cluster without nodes is more likely a mistake: the target stays.
    nodes.delete(&second_node, &DeleteParams::default()).await.expect("the node goes");
    let message = stalled_by(&scene, "app", "ServiceUnsuitable").await;
    assert!(message.contains("needs a ready node that is an EC2 instance"), "{message}");
    becomes(&scene, "the target to stay", &[&format!("{second}:{port}")]).await;
    for heart in hearts {
        heart.abort();
    }
}

#[tokio::test]
async fn checks_follow_a_named_port_of_the_service() {
    let scene = Scene::new("targets").await;
    let _operator = super::operator_without_sweeps(&scene).await;
    service(&scene, "web", &[("http", 80), ("metrics", 9)]).await;
    endpoints(&scene, "web", &[("http", 8080), ("metrics", 9090)], &["198.18.7.1"]).await;
    scene.create::<MyIngress>("app", fronting(&json!({ "healthCheck": { "port": "metrics" } }))).await;
    let port = || async {
        let groups = target_groups(&scene).await;
        groups.first().and_then(|group| group.health_check_port.clone()).unwrap_or_default()
    };
    wait_for("checks on the pods' number", port, |port| port == "9090").await;
    endpoints(&scene, "web", &[("http", 8080), ("metrics", 9091)], &["198.18.7.1"]).await;
    wait_for("checks on their new one", port, |port| port == "9091").await;
    service(&scene, "web", &[("http", 80), ("other", 9)]).await;
    let message = stalled_by(&scene, "app", "PortNotFound").await;
    assert!(
        message.starts_with("spec.backends[0].healthCheck.port: Service web has no port called metrics"),
        "{message}"
    );
    assert_eq!(port().await, "9091", "a mistake takes nothing away");
}

#[tokio::test]
async fn addresses_outside_the_vpc_are_registered_as_well() {
    let scene = Scene::new("targets").await;
    let _operator = Operator::start(&scene).await;
    service(&scene, "web", &[("", 80)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1"]).await;
    scene.create::<MyIngress>("app", fronting(&json!({}))).await;
    becomes(&scene, "the address in a subnet", &["198.18.7.1:8080"]).await;
    // An address outside of the VPC, as in a peered one: AWS wants it registered for all zones.
    endpoints(&scene, "web", &[("", 8080)], &["10.99.0.1", "198.18.7.1", "198.18.7.2"]).await;
    becomes(&scene, "all three", &["10.99.0.1:8080", "198.18.7.1:8080", "198.18.7.2:8080"]).await;
    let group = target_groups(&scene).await.remove(0).target_group_arn.expect("an ARN");
    let health = scene.elb.describe_target_health().target_group_arn(&group).send().await.expect("the targets");
    let zones: BTreeMap<String, Option<String>> = health
        .target_health_descriptions()
        .iter()
        .filter_map(|it| it.target())
        .map(|it| (it.id().unwrap_or_default().to_owned(), it.availability_zone().map(str::to_owned)))
        .collect();
    assert_eq!(zones["10.99.0.1"].as_deref(), Some("all"));
    assert_ne!(zones["198.18.7.2"].as_deref(), Some("all"), "AWS refuses it inside");
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.2"]).await;
    becomes(&scene, "the one that is left", &["198.18.7.2:8080"]).await;
}

#[tokio::test]
async fn targets_follow_while_aws_refuses_to_delete_the_protected_balancer() {
    let scene = Scene::new("targets").await;
    let _operator = Operator::start(&scene).await;
    service(&scene, "web", &[("", 80)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1"]).await;
    let mut protected = fronting(&json!({}));
    protected["attributes"] = json!({ "deletion_protection.enabled": "true" });
    scene.create::<MyIngress>("app", protected).await;
    becomes(&scene, "the endpoint", &["198.18.7.1:8080"]).await;
    super::ready(&scene, "app").await;
    scene.delete::<MyIngress>("app").await;
    stalled_by(&scene, "app", "DeletionProtected").await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.2"]).await;
    becomes(&scene, "the other endpoint", &["198.18.7.2:8080"]).await;
}
