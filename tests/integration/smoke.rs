//! The main job: the samples as they stand.

use causeway::api::{MyApp, MyIngress};
use serde_json::json;

use crate::support::scene::is_ready;
use crate::support::{Operator, Scene};

#[tokio::test]
async fn a_my_ingress_gets_a_balancer_and_its_dns_name() {
    let scene = Scene::new("smoke").await;
    let _operator = Operator::start(&scene).await;
    let spec = json!({ "subnets": ["subnet-abc", "subnet-def"], "scheme": "internet-facing" });
    scene.create::<MyIngress>("myapp", spec).await;
    let object = scene.ingress("myapp", "the balancer to be active", is_ready).await;
    let alb = object.status.unwrap().alb.unwrap();
    assert_eq!(alb.name, "myapp-alb");
    assert!(alb.dns.ends_with(".us-east-1.elb.amazonaws.com"), "{}", alb.dns);
    assert_eq!(scene.balancers().await.len(), 1);
    scene.delete::<MyIngress>("myapp").await;
    scene.gone::<MyIngress>("myapp").await;
    assert!(scene.balancers().await.is_empty());
}

#[tokio::test]
async fn a_my_app_gets_its_pods() {
    let scene = Scene::new("smoke").await;
    let _operator = Operator::start(&scene).await;
    scene.create::<MyApp>("example-app", json!({ "image": "nginx:latest", "banner": "hi", "replicas": 3 })).await;
    scene
        .app("example-app", "three ready pods", |app| app.status.as_ref().is_some_and(|it| it.ready_replicas == 3))
        .await;
    let mut names: Vec<_> = scene.pods().await.into_iter().filter_map(|pod| pod.metadata.name).collect();
    names.sort();
    assert_eq!(names, ["example-app-pod", "example-app-pod-1", "example-app-pod-2"]);
}
