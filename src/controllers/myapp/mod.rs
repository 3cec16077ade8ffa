//! `MyApp`: keeps a set of pods that print a banner.

mod apply;
mod decide;
mod observe;
mod resources;
#[cfg(test)]
mod world;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client};

use super::World;
use crate::api::{MyApp, MyAppStatus};
use crate::runtime::{self, ActionEvent, Class, Failure, Kind, Plan, Removal, class_of_kubernetes, said};
use apply::Action;
use observe::Observed;

/// The kind.
struct MyAppKind {
    client: Client,
}

impl MyAppKind {
    /// Keeps pods through `client`.
    fn new(client: Client) -> Self {
        Self { client }
    }
}

/// Runs the controller.
pub async fn controller(world: World) {
    let kind = MyAppKind::new(world.environment.client.clone());
    runtime::run(Arc::new(kind), world.environment).await;
}

/// Why observing or changing pods failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pods could not be read.
    #[error("cannot list the pods: {}", said(.0))]
    List(#[source] kube::Error),
    /// A pod could not be created.
    #[error("cannot create pod {name}: {}", said(.source))]
    Create {
        /// The pod.
        name: String,
        /// What the API said.
        source: kube::Error,
    },
    /// A pod could not be changed.
    #[error("cannot label pod {name}: {}", said(.source))]
    Label {
        /// The pod.
        name: String,
        /// What the API said.
        source: kube::Error,
    },
    /// A pod could not be deleted.
    #[error("cannot delete pod {name}: {}", said(.source))]
    Delete {
        /// The pod.
        name: String,
        /// What the API said.
        source: kube::Error,
    },
    /// A pod that is not ours has the name.
    #[error("a pod {0} that does not belong to this object exists: delete that pod, or choose another metadata.name")]
    NameTaken(String),
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::List(source)
            | Self::Create { source, .. }
            | Self::Label { source, .. }
            | Self::Delete { source, .. } => class_of_kubernetes(source),
            Self::NameTaken(_) => Class::Denied,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::List(_) => "ListFailed",
            Self::Create { .. } => "CreateFailed",
            Self::Label { .. } => "LabelFailed",
            Self::Delete { .. } => "DeleteFailed",
            Self::NameTaken(_) => "NameTaken",
        }
    }
}

impl Kind for MyAppKind {
    type Object = MyApp;
    type Status = MyAppStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "MyApp";
    /// Kubernetes deletes the pods with their owner.
    const FINALIZER: Option<&'static str> = None;

    fn status(object: &MyApp) -> Option<&MyAppStatus> {
        object.status.as_ref()
    }

    fn suspended(object: &MyApp) -> bool {
        object.spec.suspend
    }

    async fn observe(&self, object: &MyApp) -> Result<Observed, Error> {
        observe::observe(&self.client, object).await
    }

    fn decide(object: &MyApp, observed: &Observed, _: Timestamp) -> Plan<Action, MyAppStatus> {
        decide::decide(object, observed)
    }

    fn decide_removal(_: &MyApp, _: &Observed) -> Removal<Action> {
        Removal { actions: Vec::new(), farewell: None }
    }

    async fn apply(&self, object: &MyApp, action: &Action) -> Result<(), Error> {
        apply::apply(&self.client, object, action).await
    }

    fn event(action: &Action) -> Option<ActionEvent> {
        action.event()
    }

    fn triggers(&self, controller: Controller<MyApp>, namespace: Option<&str>) -> Controller<MyApp> {
        let pods: Api<Pod> = match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        controller.owns(pods, watcher::Config::default().labels(resources::APP_LABEL))
    }
}
