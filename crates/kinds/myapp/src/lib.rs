//! `MyApp`: keeps a set of pods that print a banner.

mod apply;
mod decide;
mod observe;
mod resources;
#[cfg(test)]
mod simulation;

use std::future::ready;
use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::core::PartialObjectMeta;
use kube::runtime::{Controller, WatchStreamExt, watcher};
use kube::{Api, Client};

use apply::Action;
use causeway_api::{MyApp, MyAppSpec, MyAppStatus};
use causeway_runtime::guardrails::Guardrails;
use causeway_runtime::guardrails::asks::{Ask, Topic, ask};
use causeway_runtime::manifest::left_over;
use causeway_runtime::{
    ActionEvent, Class, Decoded, Environment, Failure, Kind, Plan, Replacement, WatchBackoff, api_message,
    class_of_kubernetes, decoded, of_metadata,
};
use observe::Observed;

/// The kind `MyApp`, with what its reconciles share.
struct MyAppKind {
    client: Client,
    guardrails: Guardrails,
}

impl MyAppKind {
    /// Keeps pods through `client`.
    fn new(client: Client, guardrails: Guardrails) -> Self {
        Self { client, guardrails }
    }
}

/// Runs the controller of all `MyApp` objects.
pub async fn controller(environment: Environment) {
    let kind = MyAppKind::new(environment.client.clone(), environment.guardrails.clone());
    causeway_runtime::run(Arc::new(kind), environment).await;
}

/// A failure to observe or change pods.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pods could not be read.
    #[error("cannot list the pods: {}", api_message(.0))]
    List(#[source] kube::Error),
    /// A pod could not be created.
    #[error("cannot create pod {name}: {}", api_message(.source))]
    Create {
        /// The name of the pod.
        name: String,
        /// The error of the API.
        source: kube::Error,
    },
    /// A pod could not be changed.
    #[error("cannot label pod {name}: {}", api_message(.source))]
    Label {
        /// The name of the pod.
        name: String,
        /// The error of the API.
        source: kube::Error,
    },
    /// A pod could not be deleted.
    #[error("cannot delete pod {name}: {}", api_message(.source))]
    Delete {
        /// The name of the pod.
        name: String,
        /// The error of the API.
        source: kube::Error,
    },
    /// A pod that is not ours has the name.
    #[error("a pod {0} that does not belong to this object exists: delete that pod, or choose another metadata.name")]
    NameTaken(String),
    /// A pod of an earlier object of the name has the name.
    #[error("{}", left_over::<MyApp>("Pod", .0))]
    LeftOver(String),
}

impl Failure for Error {
    fn class(&self) -> Class {
        match self {
            Self::List(source)
            | Self::Create { source, .. }
            | Self::Label { source, .. }
            | Self::Delete { source, .. } => class_of_kubernetes(source),
            Self::NameTaken(_) => Class::Denied,
            // Kubernetes garbage-collects it soon.
            Self::LeftOver(_) => Class::NotYet,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::List(_) => "ListFailed",
            Self::Create { .. } => "CreateFailed",
            Self::Label { .. } => "LabelFailed",
            Self::Delete { .. } => "DeleteFailed",
            Self::NameTaken(_) => "NameTaken",
            Self::LeftOver(_) => "Applying",
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
    const TROUBLE: &'static [&'static str] = &["ImagePullFailed", "PodsCrashing", "Unschedulable"];

    fn status(object: &MyApp) -> Option<&MyAppStatus> {
        object.status.as_ref()
    }

    fn is_suspended(object: &MyApp) -> bool {
        object.spec.suspend
    }

    async fn observe(&self, object: &MyApp) -> Result<Observed, Error> {
        self.guardrails.ready().await;
        let denied = self.guardrails.denial(object, || asks(&object.spec));
        Ok(Observed { denied, ..observe::observe(&self.client, object).await? })
    }

    fn decide(object: &MyApp, observed: &Observed, _: Timestamp) -> Plan<Action, MyAppStatus> {
        decide::decide(object, observed)
    }

    async fn apply(&self, object: &MyApp, action: &Action) -> Result<(), Error> {
        apply::apply(&self.client, object, action).await
    }

    fn replaces(action: &Action) -> Option<Replacement<'_>> {
        action.replaces()
    }

    fn event(action: &Action) -> Option<ActionEvent> {
        action.event()
    }

    fn triggers(&self, controller: Controller<MyApp>, namespace: Option<&str>) -> Controller<MyApp> {
        let client = of_metadata(&self.client);
        let pods: Api<Decoded<PartialObjectMeta<Pod>>> = match namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        // Not `owns`: its watch has no back-off.
        let seen = watcher(pods, watcher::Config::default().labels(resources::APP_LABEL))
            .backoff(WatchBackoff::default())
            .filter_map(|event| ready(decoded(event)))
            .touched_objects();
        controller.owns_stream(seen)
    }
}

/// Lists what a `MyApp` asks for.
pub fn asks(spec: &MyAppSpec) -> Vec<Ask> {
    vec![ask(Topic::Image, "spec.image", &spec.image)]
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use tokio::time::timeout;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use causeway_runtime::Environment;
    use causeway_runtime::denied::denying_apiserver;
    use causeway_runtime::health::Health;
    use causeway_runtime::leader::Fence;
    use causeway_runtime::metrics::Metrics;

    #[tokio::test(start_paused = true)]
    async fn a_denied_list_is_retried_slowly() {
        let (client, lists) = denying_apiserver();
        let environment = Environment {
            client: client.clone(),
            metrics: Metrics::new(),
            health: Health::default(),
            namespaces: vec!["shop".into()],
            sweep: Duration::from_mins(5),
            concurrency: 1,
            instance: "test".into(),
            guardrails: Guardrails::default(),
            fence: Fence::always_open(),
            stop: CancellationToken::new(),
        };
        let kind = Arc::new(MyAppKind::new(client, Guardrails::default()));
        assert!(timeout(Duration::from_mins(10), causeway_runtime::run(kind, environment)).await.is_err(), "it ended");
        // Of objects and of pods.
        let lists = lists.load(Ordering::Relaxed);
        assert!((20..60).contains(&lists), "{lists} lists in ten minutes");
    }
}
