//! Carries out what was decided about pods.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use causeway_api::MyApp;
use causeway_api::common::FIELD_MANAGER;
use causeway_runtime::manifest::{delete_exactly, is_controlled_by, is_left_over};
use causeway_runtime::{ActionEvent, Replacement};

use super::Error;
use super::resources::{ADMITTED, image_of, labels, pod};

/// One change in the cluster or in AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create the pod with that index and name.
    Create { index: i32, name: String },
    /// Put our labels back on a pod.
    Label { name: String, uid: String },
    /// Delete exactly that pod.
    Delete { name: String, uid: String, why: String },
}

impl Action {
    pub fn event(&self) -> Option<ActionEvent> {
        match self {
            Self::Create { name, .. } => Some(ActionEvent::normal("Created", format!("Created pod {name}"))),
            Self::Delete { name, why, .. } => {
                Some(ActionEvent::normal("Deleted", format!("Deleted pod {name}: {why}")))
            }
            Self::Label { .. } => None,
        }
    }

    /// Returns the pod that the action replaces, and what differs.
    pub fn replaces(&self) -> Option<Replacement<'_>> {
        match self {
            Self::Delete { name, why, .. } if why != SURPLUS => Some(Replacement { kind: "Pod", name, why }),
            Self::Delete { .. } | Self::Create { .. } | Self::Label { .. } => None,
        }
    }
}

/// The reason to delete a pod in whose place no other one is created.
pub const SURPLUS: &str = "spec.replicas is smaller";

pub async fn apply(client: &Client, object: &MyApp, action: &Action) -> Result<(), Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    match action {
        Action::Create { index, name } => create(&api, object, *index, name).await,
        Action::Label { name, uid } => label(&api, object, name, uid).await,
        Action::Delete { name, uid, .. } => delete(&api, name, uid).await,
    }
}

/// Creates rather than applies: applying would take over a foreign pod of that name.
async fn create(api: &Api<Pod>, object: &MyApp, index: i32, name: &str) -> Result<(), Error> {
    let failed = |source| Error::Create { name: name.to_owned(), source };
    let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
    match api.create(&parameters, &pod(object, index)).await {
        Ok(made) => note_image(api, object, &made).await,
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            match api.get_opt(name).await.map_err(failed)? {
                Some(there) if is_left_over(there.owner_references(), object) => Err(Error::LeftOver(name.to_owned())),
                Some(there) if !is_controlled_by(&there, object) => Err(Error::NameTaken(name.to_owned())),
                // The pod is ours: a crash came after its creation, or it lost its labels and was not listed.
                Some(there) => label(api, object, name, &there.uid().unwrap_or_default()).await,
                None => Err(failed(kube::Error::Api(status))),
            }
        }
        Err(error) => Err(failed(error)),
    }
}

/// Records the image that a pod was admitted with, if a webhook changed it: that is no change by hand.
async fn note_image(api: &Api<Pod>, object: &MyApp, made: &Pod) -> Result<(), Error> {
    let Some(image) = image_of(made).filter(|image| *image != object.spec.image) else { return Ok(()) };
    let (name, uid) = (made.name_any(), made.uid());
    let patch = json!({ "metadata": { "uid": uid, "annotations": { ADMITTED: image } } });
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    let patched = api.patch_metadata(&name, &parameters, &Patch::Merge(&patch)).await;
    patched.map(drop).map_err(|source| Error::Label { name, source })
}

async fn label(api: &Api<Pod>, object: &MyApp, name: &str, uid: &str) -> Result<(), Error> {
    let patch = json!({ "metadata": { "uid": uid, "labels": labels(object) } });
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    let patched = api.patch_metadata(name, &parameters, &Patch::Merge(&patch)).await;
    patched.map(drop).map_err(|source| Error::Label { name: name.to_owned(), source })
}

async fn delete(api: &Api<Pod>, name: &str, uid: &str) -> Result<(), Error> {
    let deleted = delete_exactly(api, name, uid, DeleteParams::default()).await;
    deleted.map_err(|source| Error::Delete { name: name.to_owned(), source })
}
