//! The children that a database in a `StatefulSet` has: their watches wake the controller, and keep what was seen last.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::runtime::Controller;

use super::child_watch::{Owner, Watch};
use super::config_maps::ConfigMaps;

/// The watches of all kinds of children of objects of kind `O`.
pub struct Children<O> {
    /// How its pods are made.
    pub statefulsets: Watch<O, StatefulSet>,
    /// How many pods may be away.
    pub budgets: Watch<O, PodDisruptionBudget>,
    /// Who may connect.
    pub policies: Watch<O, NetworkPolicy>,
    /// Settings.
    pub config_maps: ConfigMaps<O>,
    /// How clients and peers find the pods.
    pub services: Watch<O, Service>,
    /// Processes.
    pub pods: Watch<O, Pod>,
    /// Volumes.
    pub claims: Watch<O, PersistentVolumeClaim>,
}

impl<O: Owner> Children<O> {
    /// Of children whose `label` names their object.
    pub fn labelled(label: &'static str) -> Self {
        Self {
            statefulsets: Watch::new(label),
            budgets: Watch::new(label),
            policies: Watch::new(label),
            config_maps: ConfigMaps::new(label),
            services: Watch::new(label),
            pods: Watch::new(label),
            claims: Watch::new(label),
        }
    }

    /// Lets the children wake the controller.
    pub fn add_to(&self, controller: Controller<O>, client: &Client, namespace: Option<&str>) -> Controller<O> {
        let controller = self.statefulsets.add_to(controller, client, namespace);
        let controller = self.budgets.add_to(controller, client, namespace);
        let controller = self.policies.add_to(controller, client, namespace);
        let controller = self.config_maps.add_to(controller, client, namespace);
        let controller = self.services.add_to(controller, client, namespace);
        let controller = self.pods.add_to(controller, client, namespace);
        self.claims.add_to(controller, client, namespace)
    }

    /// Waits until everything was listed once.
    pub async fn ready(&self) {
        tokio::join!(
            self.statefulsets.ready(),
            self.budgets.ready(),
            self.policies.ready(),
            self.config_maps.ready(),
            self.services.ready(),
            self.pods.ready(),
            self.claims.ready(),
        );
    }
}
