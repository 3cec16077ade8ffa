//! The objects that a run creates in Kubernetes. Pure.

use serde_json::{Value, json};

use super::cost::Quantities;
use super::options::{RunId, Wishes};

/// The name of the application's Deployment and Service, and of its backend.
pub const APP: &str = "web";
/// A text in the answer to a request.
pub const ANSWER: &str = "Welcome to nginx!";
/// Differs from AWS's default. The test changes it by hand.
pub const IDLE_TIMEOUT: &str = "61";

/// The number of etcd members, and of Redis nodes, one of which is the master.
const NODES: u32 = 3;
/// The size of each volume, which is the smallest of EBS.
const GIBIBYTES: u32 = 1;

/// The namespace of all other objects.
pub fn namespace(run: &RunId) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": run.namespace(), "labels": { RunId::KEY: run.as_str() } },
    })
}

/// A small application.
pub fn app(run: &RunId) -> Value {
    let labels = json!({ "app": APP });
    list(&[
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": APP, "namespace": run.namespace() },
            "spec": {
                "replicas": 2,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{
                        "name": "nginx", "image": "nginx:latest",
                        "ports": [{ "name": "http", "containerPort": 80 }],
                        "readinessProbe": { "httpGet": { "path": "/", "port": "http" } },
                    }] },
                },
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": APP, "namespace": run.namespace() },
            "spec": { "selector": labels, "ports": [{ "name": "http", "port": 80 }] },
        }),
    ])
}

/// The balancer in front of it. Its tags are on all its resources in AWS.
pub fn ingress(run: &RunId, wishes: &Wishes) -> Value {
    let mut spec = json!({
        "scheme": if wishes.internal { "internal" } else { "internet-facing" },
        "inboundCidrs": [wishes.inbound_cidr],
        "idleTimeout": format!("{IDLE_TIMEOUT}s"),
        "tags": { RunId::KEY: run.as_str() },
        "listeners": [{ "port": 80, "defaultAction": { "forward": { "backends": [{ "name": APP }] } } }],
        "backends": [{
            "name": APP, "port": "http", "deregistrationDelay": "5s",
            "healthCheck": { "interval": "5s", "timeout": "2s" },
        }],
    });
    if wishes.subnets.is_empty() {
        spec["subnetSelector"] = json!({ "tags": { wishes.subnet_tag(): [] } });
    } else {
        spec["subnets"] = json!(wishes.subnets);
    }
    if !wishes.let_in.is_empty() {
        spec["targetSecurityGroups"] = json!(wishes.let_in);
    }
    json!({
        "apiVersion": "demo.rtfm.co.ua/v1", "kind": "MyIngress",
        "metadata": { "name": run.ingress(), "namespace": run.namespace() },
        "spec": spec,
    })
}

/// An etcd cluster and a Redis, with the names of the examples.
pub fn databases(run: &RunId, wishes: &Wishes) -> Value {
    let mut storage = json!({ "size": format!("{GIBIBYTES}Gi") });
    if let Some(class) = &wishes.storage_class {
        storage["className"] = json!(class);
    }
    let redis = json!({ "replicas": NODES - 1, "storage": storage, "deletionPolicy": "Delete" });
    let mut etcd = redis.clone();
    etcd["replicas"] = json!(NODES);
    etcd["version"] = json!("3.5.9");
    let object = |api: &str, kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": api, "kind": kind,
            "metadata": { "name": name, "namespace": run.namespace() }, "spec": spec,
        })
    };
    list(&[
        object("mycompany.com/v1alpha1", "EtcdCluster", "prod-etcd", etcd),
        object("example.com/v1", "Redis", "cache", redis),
    ])
}

/// Their DatabaseBackup. Its backups are requested, because the schedule is not due during a run.
pub fn backup(run: &RunId) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "DatabaseBackup",
        "metadata": { "name": "backup", "namespace": run.namespace() },
        "spec": { "schedule": "@yearly", "deletionPolicy": "Delete" },
    })
}

/// The quantities of everything that costs money.
pub fn quantities(wishes: &Wishes, subnets: usize) -> Quantities {
    let addresses = if wishes.internal { 0 } else { u32::try_from(subnets).unwrap_or(u32::MAX) };
    Quantities { addresses, gibibytes: 2 * NODES * GIBIBYTES }
}

/// Says what will be created.
pub fn summary(run: &RunId) -> String {
    format!(
        "namespace {}: 2 pods of nginx, a MyIngress (an Application Load Balancer with its target group and security group),\n  \
         an EtcdCluster and a Redis of {NODES} with a volume of {GIBIBYTES} GiB each, a DatabaseBackup (a few objects in S3).\n  \
         Elastic Load Balancing and EC2 show the tag {}={run}.",
        run.namespace(),
        RunId::KEY
    )
}

fn list(items: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunId {
        "1".parse().unwrap()
    }

    #[test]
    fn all_is_in_the_runs_namespace() {
        let wishes = Wishes::default();
        let made = [app(&run()), ingress(&run(), &wishes), databases(&run(), &wishes), backup(&run())];
        for object in &made {
            let items = object["items"].as_array().cloned().unwrap_or_else(|| vec![object.clone()]);
            for item in items {
                assert_eq!(item["metadata"]["namespace"], "causeway-e2e-1", "{item}");
            }
        }
        assert_eq!(namespace(&run())["metadata"]["labels"]["causeway-e2e"], "1");
    }

    #[test]
    fn resources_in_aws_carry_the_tag_and_go_with_their_object() {
        let wishes = Wishes::default();
        assert_eq!(ingress(&run(), &wishes)["spec"]["tags"]["causeway-e2e"], "1");
        for database in databases(&run(), &wishes)["items"].as_array().unwrap() {
            assert_eq!(database["spec"]["deletionPolicy"], "Delete");
        }
        assert_eq!(backup(&run())["spec"]["deletionPolicy"], "Delete");
    }

    #[test]
    fn wishes_are_applied() {
        let wishes = Wishes {
            subnets: vec!["subnet-a".to_owned(), "subnet-b".to_owned()],
            internal: true,
            inbound_cidr: "10.0.0.0/8".to_owned(),
            let_in: vec!["sg-1".to_owned()],
            storage_class: Some("gp3".to_owned()),
        };
        let spec = &ingress(&run(), &wishes)["spec"];
        assert_eq!((&spec["subnets"], &spec["scheme"]), (&json!(["subnet-a", "subnet-b"]), &json!("internal")));
        assert_eq!(spec["targetSecurityGroups"], json!(["sg-1"]));
        assert!(spec.get("subnetSelector").is_none());
        assert_eq!(databases(&run(), &wishes)["items"][1]["spec"]["storage"]["className"], "gp3");
        assert_eq!((quantities(&wishes, 2).addresses, quantities(&Wishes::default(), 3).addresses), (0, 3));
        let spec = ingress(&run(), &Wishes::default())["spec"].clone();
        assert_eq!(spec["subnetSelector"]["tags"], json!({ "kubernetes.io/role/elb": [] }));
    }
}
