//! The `DatabaseRestore`s that databases own: looked at, made, stopped, and watched.

use std::future::ready;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::api::{DeleteParams, PartialObjectMeta, PropagationPolicy};
use kube::runtime::{Controller, WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use causeway_api::DatabaseRestore;
use causeway_api::databaserestore::{Restorable, Restored};
use causeway_runtime::child_watch::{Owner, owners_to_wake};
use causeway_runtime::manifest::{delete_exactly, patch_exactly};
use causeway_runtime::{Class, Decoded, PerObject, SlowBackoff, class_of_kubernetes, decoded, of_metadata};

use super::Step;
use super::child::name;
use super::decide::matters;
use super::facts::{Live, Seen};

/// How long to wait for an answer: a failover may be due.
const DEADLINE: Duration = Duration::from_secs(3);
/// How long to wait before trying again what the apiserver refused.
const RETRY: Duration = Duration::from_secs(30);

/// The `DatabaseRestore`s of all objects of one kind.
pub struct Restores {
    client: Client,
    /// Label with the name of the owner.
    label: &'static str,
    /// By the owner's uid: the apiserver's message when it refused one, and when that was.
    refused: PerObject<(String, Instant)>,
}

impl Restores {
    /// Of objects whose children have that label.
    pub fn with_label(client: Client, label: &'static str) -> Self {
        Self { client, label, refused: PerObject::default() }
    }

    /// Lets them wake the controller. Their kind may not be there: then it is looked for seldom.
    pub fn add_to<O: Owner>(&self, controller: Controller<O>, namespace: Option<&str>) -> Controller<O> {
        // Their metadata are enough: they show that something happened.
        let api: Api<Decoded<PartialObjectMeta<DatabaseRestore>>> = match namespace {
            Some(namespace) => Api::namespaced(of_metadata(&self.client), namespace),
            None => Api::all(of_metadata(&self.client)),
        };
        let label = self.label;
        let seen = watcher(api, watcher::Config::default().labels(label))
            .backoff(SlowBackoff::default())
            .filter_map(|event| ready(decoded(event)))
            .touched_objects()
            // Errors are dropped: a kind that is missing needs no warning at every attempt.
            .filter(|seen| ready(seen.is_ok()));
        let owners = move |restore: PartialObjectMeta<DatabaseRestore>| owners_to_wake(&restore, label);
        controller.watches_stream(seen, owners)
    }

    /// The object's `DatabaseRestore`, read from the apiserver unless nothing depends on it. If it cannot be read, nothing
    /// else is held up.
    pub async fn look<O: Restorable>(&self, object: &O, asked: bool, before: Option<&Restored>) -> Seen {
        if !matters(asked, before) {
            return Seen::Unknown;
        }
        let name = name(object);
        let namespace = object.meta().namespace.clone().unwrap_or_default();
        let api: Api<DatabaseRestore> = Api::namespaced(self.client.clone(), &namespace);
        match timeout(DEADLINE, api.get_opt(&name)).await {
            Ok(Ok(Some(live))) => Seen::Present(Live::read(&live, object, self.label)),
            Ok(Ok(None)) => self.refusal(object).map_or(Seen::Absent, Seen::Refused),
            // A missing object is `Ok(None)`: this 404 means that the kind is missing.
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Seen::KindMissing,
            Ok(Err(error)) if class_of_kubernetes(&error) == Class::Denied => Seen::Denied,
            Ok(Err(error)) => {
                tracing::info!(name, %error, "the DatabaseRestore could not be read");
                Seen::Unknown
            }
            Err(_) => {
                tracing::info!(name, seconds = DEADLINE.as_secs(), "no answer about the DatabaseRestore");
                Seen::Unknown
            }
        }
    }

    /// Carries out a step. If a `DatabaseRestore` cannot be made, that is no error: it is reported, and nothing else waits
    /// for it.
    pub async fn carry_out<O: Restorable>(&self, object: &O, step: &Step) -> Result<(), kube::Error> {
        let namespace = object.meta().namespace.clone().unwrap_or_default();
        match step {
            Step::Make { restore } => {
                match restore.create(&self.client, &namespace).await {
                    Ok(()) => self.forgive(object),
                    // It was made before we died, or belongs to another owner and stays as it is: the next look shows which.
                    Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => self.forgive(object),
                    Err(error) => {
                        tracing::info!(name = restore.name(), %error, "the DatabaseRestore could not be made");
                        self.note_refusal(object, error.to_string());
                    }
                }
                Ok(())
            }
            Step::Stop { name, uid } => self.stop(&namespace, name, uid).await,
            Step::TakeBack { name, uid, version, owners } => {
                let api: Api<DatabaseRestore> = Api::namespaced(self.client.clone(), &namespace);
                let patch = json!({ "metadata": { "resourceVersion": version, "ownerReferences": owners } });
                patch_exactly(&api, name, uid, patch).await.map(drop)
            }
            Step::Tell { .. } => Ok(()),
        }
    }

    /// Deletes it in the foreground: it is there until its Job and the Job's pods are gone.
    async fn stop(&self, namespace: &str, name: &str, uid: &str) -> Result<(), kube::Error> {
        let api: Api<DatabaseRestore> = Api::namespaced(self.client.clone(), namespace);
        let how = DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
        delete_exactly(&api, name, uid, how).await
    }

    fn refusal(&self, object: &impl Restorable) -> Option<String> {
        self.refused.get(&uid(object)).filter(|(_, at)| at.elapsed() < RETRY).map(|(words, _)| words)
    }

    fn note_refusal(&self, object: &impl Restorable, words: String) {
        self.refused.set(&uid(object), (words, Instant::now()));
    }

    fn forgive(&self, object: &impl Restorable) {
        self.refused.forget(&uid(object));
    }

    /// Forgets the owner with that uid, which is gone.
    pub fn forget(&self, uid: &str) {
        self.refused.forget(uid);
    }
}

fn uid(object: &impl Restorable) -> String {
    object.meta().uid.clone().unwrap_or_default()
}
