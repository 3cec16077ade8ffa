//! The children of a database with a `StatefulSet`. Their watches wake the controller and keep the latest state.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaim, Pod, Probe, ResourceRequirements, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::runtime::Controller;

use super::child_watch::{Owner, Watch};
use super::config_maps::ConfigMaps;

/// The watches of all kinds of children of objects of kind `O`.
pub struct Children<O> {
    /// The templates of its pods.
    pub statefulsets: Watch<O, StatefulSet>,
    /// The numbers of pods that may be unavailable at a time.
    pub budgets: Watch<O, PodDisruptionBudget>,
    /// The clients that may connect.
    pub policies: Watch<O, NetworkPolicy>,
    /// The settings of the database, if they are in a `ConfigMap`.
    pub config_maps: Option<ConfigMaps<O>>,
    /// The addresses of the pods for clients and peers.
    pub services: Watch<O, Service>,
    /// The running pods, without what makes them large.
    pub pods: Watch<O, Pod>,
    /// The volume claims of the pods.
    pub claims: Watch<O, PersistentVolumeClaim>,
}

impl<O: Owner> Children<O> {
    /// Watches children whose `label` names their object, with or without a `ConfigMap` of settings.
    pub fn with_label(label: &'static str, has_settings: bool) -> Self {
        Self {
            statefulsets: Watch::new(label),
            budgets: Watch::new(label).with_others(),
            policies: Watch::new(label),
            config_maps: has_settings.then(|| ConfigMaps::new(label)),
            services: Watch::new(label),
            pods: Watch::new(label).prune_with(prune_pod),
            claims: Watch::new(label),
        }
    }

    /// Adds the watches to the controller, so that children wake it.
    pub fn add_to(&self, controller: Controller<O>, client: &Client, namespace: Option<&str>) -> Controller<O> {
        let controller = self.statefulsets.add_to(controller, client, namespace);
        let controller = self.budgets.add_to(controller, client, namespace);
        let controller = self.policies.add_to(controller, client, namespace);
        let controller = match &self.config_maps {
            Some(config_maps) => config_maps.add_to(controller, client, namespace),
            None => controller,
        };
        let controller = self.services.add_to(controller, client, namespace);
        let controller = self.pods.add_to(controller, client, namespace);
        self.claims.add_to(controller, client, namespace)
    }

    /// Waits until the first list of every kind in the object's namespace is complete.
    pub async fn ready(&self, object: &O) {
        tokio::join!(
            self.statefulsets.ready(object),
            self.budgets.ready(object),
            self.policies.ready(object),
            async {
                if let Some(config_maps) = &self.config_maps {
                    config_maps.ready(object).await;
                }
            },
            self.services.ready(object),
            self.pods.ready(object),
            self.claims.ready(object),
        );
    }
}

/// Removes what makes pods large, and nothing here reads: it is in the StatefulSet's template, too.
fn prune_pod(pod: &mut Pod, _: &str) {
    let Some(spec) = &mut pod.spec else { return };
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        let read = std::mem::take(container);
        let env = read.env.map(|all| all.into_iter().filter(|it| it.value_from.is_some()).collect());
        // Only the presence of a probe matters, not its fields.
        let liveness_probe = read.liveness_probe.map(|_| Probe::default());
        // A LimitRange or a webhook may have given limits that no template has.
        let limits = read.resources.and_then(|resources| resources.limits);
        let resources =
            limits.map(|limits| ResourceRequirements { limits: Some(limits), ..ResourceRequirements::default() });
        *container =
            Container { name: read.name, image: read.image, env, liveness_probe, resources, ..Container::default() };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_containers_only_what_is_read_is_kept() {
        let variables = json!([
            { "name": "LARGE", "value": "x".repeat(99_000) },
            { "name": "A", "valueFrom": { "configMapKeyRef": { "name": "a", "key": "b" } } },
        ]);
        let container = json!({
            "name": "redis", "image": "redis:8", "command": ["sh", "-c", "x".repeat(99_000)], "env": variables,
            "livenessProbe": { "exec": { "command": ["x".repeat(99_000)] } },
            "resources": { "requests": { "cpu": "1" }, "limits": { "memory": "256Mi" } },
        });
        let pod = json!({ "metadata": { "name": "a" }, "spec": { "containers": [container], "initContainers": [container] } });
        let mut pod: Pod = serde_json::from_value(pod).expect("a pod");
        prune_pod(&mut pod, "");
        assert!(super::super::room::size_of(&pod) < 1000);
        let spec = pod.spec.expect("a spec");
        for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
            assert_eq!((container.name.as_str(), container.image.as_deref()), ("redis", Some("redis:8")));
            assert_eq!(container.env.as_ref().map(Vec::len), Some(1));
            assert!(container.liveness_probe.is_some());
            let resources = container.resources.clone().expect("limits");
            assert!(resources.requests.is_none());
            assert_eq!(resources.limits.map(|limits| limits["memory"].0.clone()).as_deref(), Some("256Mi"));
        }
    }
}
