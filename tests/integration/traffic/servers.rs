//! Web servers in pods, whose answers tell who answers.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::load::Exchange;
use crate::support::{Scene, wait_for};

/// A Deployment with a Service of the same name.
#[derive(Clone, Debug)]
pub struct Servers {
    /// Its name, and the first word of every answer.
    pub name: &'static str,
    /// Pods.
    pub replicas: u32,
    /// A new version is a new roll-out.
    pub version: u32,
    /// True if pods wait at our readiness gate.
    pub gated: bool,
    /// True if they speak HTTPS as well, with the certificate of the Secret [`TLS`].
    pub tls: bool,
}

/// Name of the Secret with the servers' certificate.
pub const TLS: &str = "tls";

impl Servers {
    /// So many pods that wait at our readiness gate.
    pub fn gated(name: &'static str, replicas: u32) -> Self {
        Self { name, replicas, version: 1, gated: true, tls: false }
    }

    /// So many pods that are ready when their containers are.
    pub fn plain(name: &'static str, replicas: u32) -> Self {
        Self { gated: false, ..Self::gated(name, replicas) }
    }

    /// Creates the servers, or updates them.
    pub async fn apply(&self, scene: &Scene) {
        scene.create::<Deployment>(self.name, self.deployment()).await;
        let ports = json!([{ "name": "http", "port": 80, "targetPort": 8080 }, { "name": "https", "port": 443, "targetPort": 8443 }]);
        scene.create::<Service>(self.name, json!({ "selector": { "app": self.name }, "ports": ports })).await;
    }

    /// Creates or updates the servers, and waits until all pods are of this version and ready.
    pub async fn settle(&self, scene: &Scene) {
        self.apply(scene).await;
        let api = scene.api::<Deployment>();
        let look = || async { api.get(self.name).await.expect("the Deployment") };
        let wanted = i32::try_from(self.replicas).expect("a few");
        wait_for(&format!("{} pods of {} version {}", wanted, self.name, self.version), look, |deployment| {
            let status = deployment.status.clone().unwrap_or_default();
            let counts = [status.replicas, status.updated_replicas, status.available_replicas];
            status.observed_generation == deployment.metadata.generation
                && counts.iter().all(|count| count.unwrap_or_default() == wanted)
        })
        .await;
    }

    /// The pods, without those that are being deleted.
    pub async fn pods(&self, scene: &Scene) -> Vec<Pod> {
        let pods = scene.pods().await.into_iter();
        pods.filter(|pod| pod.labels().get("app").is_some_and(|app| app == self.name))
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .collect()
    }

    /// The targets that the ready pods should be.
    pub async fn ready_targets(&self, scene: &Scene) -> BTreeSet<String> {
        let pods = self.pods(scene).await;
        let ready = pods.iter().filter(|pod| is(pod, "Ready")).filter_map(address);
        ready.map(|address| format!("{address}:8080")).collect()
    }

    fn deployment(&self) -> Value {
        let gates =
            if self.gated { json!([{ "conditionType": "causeway.example.com/target-health" }]) } else { json!([]) };
        let start = "mkdir /tmp/state && : > /tmp/state/ready && printf %s \"$CONFIGURATION\" > /tmp/nginx.conf && \
                     exec nginx -c /tmp/nginx.conf";
        let (volumes, mounts) = if self.tls {
            (json!([{ "name": TLS, "secret": { "secretName": TLS } }]), json!([{ "name": TLS, "mountPath": "/tls" }]))
        } else {
            (json!([]), json!([]))
        };
        json!({
            "replicas": self.replicas,
            "selector": { "matchLabels": { "app": self.name } },
            "strategy": { "rollingUpdate": { "maxSurge": "100%", "maxUnavailable": 0 } },
            "template": {
                "metadata": { "labels": { "app": self.name } },
                "spec": {
                    "readinessGates": gates,
                    "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 90,
                    "volumes": volumes,
                    "containers": [{
                        "name": "nginx",
                        "image": "nginx:latest",
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["sh", "-c", start],
                        "env": [
                            { "name": "CONFIGURATION", "value": self.configuration() },
                            { "name": "VERSION", "value": self.version.to_string() },
                        ],
                        "volumeMounts": mounts,
                        // An answer that comes late on a busy machine does not make a pod unready.
                        "readinessProbe": {
                            "httpGet": { "path": "/ready", "port": 8080 },
                            "periodSeconds": 1, "timeoutSeconds": 20, "failureThreshold": 1,
                        },
                        // Requests come until the balancer has learnt that the pod leaves. On a machine that runs other
                        // tests, too, this takes a while. No test waits for a pod to end.
                        "lifecycle": { "preStop": { "sleep": { "seconds": 60 } } },
                    }],
                },
            },
        })
    }

    /// `/ready` exists until it is deleted; every other path returns which pod answers.
    fn configuration(&self) -> String {
        let tls = if self.tls {
            "listen 8443 ssl; ssl_certificate /tls/tls.crt; ssl_certificate_key /tls/tls.key;"
        } else {
            ""
        };
        format!(
            "daemon off; user root; worker_processes 1; pid /tmp/pid; error_log stderr warn;
             events {{ worker_connections 1024; }}
             http {{
                 access_log off;
                 client_body_temp_path /tmp/body;
                 server {{
                     listen 8080; {tls}
                     location = /ready {{ root /tmp/state; dav_methods PUT DELETE; }}
                     location / {{ default_type text/plain; return 200 \"{} $hostname $scheme\\n\"; }}
                 }}
             }}",
            self.name
        )
    }
}

pub fn address(pod: &Pod) -> Option<String> {
    pod.status.as_ref()?.pod_ip.clone()
}

/// True if the pod's condition of that type is true.
pub fn is(pod: &Pod, condition: &str) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == condition && it.status == "True")
}

/// Counts answers by pod.
pub fn by_pod(exchanges: &[Exchange]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let answers = exchanges.iter().filter_map(|exchange| exchange.outcome.as_ref().ok());
    for answer in answers.filter(|answer| !answer.pod.is_empty()) {
        *counts.entry(answer.pod.clone()).or_default() += 1;
    }
    counts
}

/// Makes the pod's readiness probe pass or fail.
pub async fn set_ready(pod: &Pod, ready: bool) {
    let url = format!("http://{}:8080/ready", address(pod).expect("an address"));
    let call = move || {
        let agent = ureq::Agent::config_builder().proxy(None).build().new_agent();
        if ready { agent.put(&url).send("yes") } else { agent.delete(&url).call() }
    };
    tokio::task::spawn_blocking(call).await.expect("no panic").expect("the pod agrees");
}
