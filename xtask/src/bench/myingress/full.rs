//! The full example, with everything that its first lines demand. Endpoints are written by hand, so that no pod has to
//! start.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::bench::kubernetes::Event;
use crate::bench::scene::{Scene, is_ready};
use crate::host;

/// The Services: name, port name, port, port of the pods, and address of the only pod.
const SERVICES: [(&str, &str, u16, u16, &str); 3] = [
    ("shop", "", 80, 8080, "198.18.7.1"),
    ("cart", "http", 80, 8080, "198.18.7.2"),
    ("api", "grpc", 9000, 9000, "198.18.7.3"),
];

/// The example in a form that the scene supports.
pub struct Example {
    pub spec: Value,
}

impl Example {
    /// Creates Services, endpoints, a Secret and a certificate, and reads the example.
    pub fn staged(scene: &Scene) -> Result<Self> {
        for (name, port_name, port, pod_port, address) in SERVICES {
            let ports = json!([{ "name": port_name, "port": port, "targetPort": pod_port }]);
            let service = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": { "ports": ports },
            });
            scene.apply_other("/api/v1", "services", &service)?;
            endpoints(scene, name, (port_name, pod_port), &[address])?;
        }
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "shop-login", "labels": { "causeway.example.com/usable-by": "myingress" } },
            "stringData": { "clientSecret": "s3cr3t" },
        });
        scene.apply_other("/api/v1", "secrets", &secret)?;
        let root = host::repo_root()?;
        let pem = root.join("tests/integration/support/pem");
        scene.account.import_certificate(&pem.join("example.crt"), &pem.join("example.key"))?;

        let object = scene.manifest(&root.join("examples/myingress-full.yaml"))?;
        // Its user pool belongs to the scene's account.
        let spec = object["spec"].to_string().replace("000000000000", &scene.account.number);
        Ok(Self { spec: serde_json::from_str(&spec)? })
    }

    /// The example with other weights for the carts.
    pub fn with_other_weights(&self) -> Result<Value> {
        let mut spec = self.spec.clone();
        let weight = spec.pointer_mut("/listeners/1/rules/0/action/forward/backends/1/weight");
        *weight.context("the example weighs carts no more")? = json!(2);
        Ok(spec)
    }

    /// How many AWS resources such a balancer has: itself, its security group, listeners, rules and target groups.
    pub fn parts(&self) -> usize {
        let count = |list: &Value| list.as_array().map_or(0, Vec::len);
        let listeners = &self.spec["listeners"];
        let rules: usize = listeners.as_array().into_iter().flatten().map(|listener| count(&listener["rules"])).sum();
        2 + count(listeners) + rules + count(&self.spec["backends"])
    }

    /// How many of them must be deleted one by one. AWS deletes listeners and rules together with their balancer.
    pub fn parts_to_delete(&self) -> usize {
        2 + self.spec["backends"].as_array().map_or(0, Vec::len)
    }
}

/// Sets the addresses of the pods of `shop`.
pub fn shop_endpoints(scene: &Scene, addresses: &[&str]) -> Result<()> {
    endpoints(scene, "shop", ("", 8080), addresses)
}

fn endpoints(scene: &Scene, service: &str, (port_name, port): (&str, u16), addresses: &[&str]) -> Result<()> {
    let endpoints: Vec<Value> =
        addresses.iter().map(|address| json!({ "addresses": [address], "conditions": { "ready": true } })).collect();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": service, "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4",
        "ports": [{ "name": port_name, "port": port, "protocol": "TCP" }],
        "endpoints": endpoints,
    });
    scene.apply_other("/apis/discovery.k8s.io/v1", "endpointslices", &slice)
}

/// Reports whether the example is ready and its three targets are healthy.
pub fn is_complete(event: &Event) -> bool {
    has_targets(event, "3/3")
}

/// Reports whether an object is ready and shows this number of healthy targets.
pub fn has_targets(event: &Event, targets: &str) -> bool {
    is_ready(event) && event.object["status"]["targets"] == targets
}
