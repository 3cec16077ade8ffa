//! Carries out what was decided.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, DynamicObject, ListParams, PropagationPolicy};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::action::Action;
use super::auth::secrets;
use super::error::Error;
use super::names::{ADOPTED, LABEL, MEMBER};
use super::resources::backup_kind;
use super::tls::write;
use crate::api::EtcdCluster;
use crate::controllers::restore_from::Restores;
use crate::external::etcd::{Endpoint, Etcd, EtcdError, Password, Request, Trouble};
use crate::runtime::manifest::{Manifest, delete_exactly, is_controlled_by, patch_exactly};

/// Carries out `action`.
pub async fn apply(
    client: &Client,
    etcd: &Etcd,
    restores: &Restores,
    object: &EtcdCluster,
    action: &Action,
) -> Result<(), Error> {
    let namespace = object.namespace().unwrap_or_default();
    match action {
        Action::Apply { child, uid } => apply_child(client, object, &namespace, child, uid.as_deref()).await,
        Action::ApplyBackup { child, uid } => {
            let applied = apply_child(client, object, &namespace, child, uid.as_deref()).await;
            applied.map_err(|error| match error {
                Error::Apply { source, .. } => Error::Backup(source),
                other => other,
            })
        }
        Action::DeleteBackup { name, uid } => {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &backup_kind());
            delete_exactly(&api, name, uid, DeleteParams::default()).await.map_err(Error::Backup)
        }
        Action::Restore(step) => restores
            .carry_out(object, step)
            .await
            .map_err(|source| Error::Change { name: "the DatabaseRestore".into(), source }),
        Action::DeletePod { name, uid, .. } | Action::Revive { name, uid, .. } => {
            delete::<Pod>(client, &namespace, name, uid, &DeleteParams::default()).await
        }
        Action::DeleteClaim { name, uid, .. } => {
            delete::<PersistentVolumeClaim>(client, &namespace, name, uid, &DeleteParams::default()).await
        }
        Action::Orphan { name, uid } => {
            let orphaning =
                DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
            delete::<StatefulSet>(client, &namespace, name, uid, &orphaning).await
        }
        Action::MarkClaim { name, uid, member } => {
            let annotations = json!({ MEMBER: format!("{member:x}"), ADOPTED: object.uid() });
            let patch = json!({ "metadata": { "annotations": annotations } });
            change::<PersistentVolumeClaim>(client, &namespace, name, uid, patch).await
        }
        Action::Label { kind, name, uid } => {
            let patch = json!({ "metadata": { "labels": { LABEL: object.name_any() } } });
            match *kind {
                "Pod" => change::<Pod>(client, &namespace, name, uid, patch).await,
                _ => change::<PersistentVolumeClaim>(client, &namespace, name, uid, patch).await,
            }
        }
        Action::GrowClaim { name, uid, size } => {
            let patch = json!({ "spec": { "resources": { "requests": { "storage": size } } } });
            match change::<PersistentVolumeClaim>(client, &namespace, name, uid, patch).await {
                Err(Error::Change { source: kube::Error::Api(status), .. }) if matches!(status.code, 403 | 422) => {
                    Err(Error::CannotGrow { name: name.clone(), message: status.message.clone() })
                }
                outcome => outcome,
            }
        }
        Action::AddLearner { peer_url, via, .. } => {
            Ok(etcd.change(via, Request::AddLearner { peer_url: peer_url.clone() }).await?)
        }
        Action::Promote { id, via, .. } => Ok(etcd.change(via, Request::Promote { id: *id }).await?),
        Action::Remove { id, via, .. } => Ok(etcd.change(via, Request::Remove { id: *id }).await?),
        Action::MoveLeader { id, via, .. } => Ok(etcd.change(via, Request::MoveLeader { to: *id }).await?),
        Action::Certify(certify) => write::certify(client, object, certify).await,
        Action::UpdatePeer { id, peer_url, pods, via, .. } => {
            // What the pods speak decides whether the others still reach the member.
            if current_pods(client, object).await? != *pods {
                return Err(Error::PodsChanged);
            }
            Ok(etcd.change(via, Request::UpdatePeer { id: *id, peer_url: peer_url.clone() }).await?)
        }
        Action::Compact { revision, via } => match etcd.change(via, Request::Compact { revision: *revision }).await {
            Err(error) if error.trouble == Trouble::Compacted => Ok(()),
            outcome => Ok(outcome?),
        },
        Action::Defragment { via, .. } => Ok(etcd.change(via, Request::Defragment).await?),
        Action::Disarm { alarm, via } => Ok(etcd.change(via, Request::Disarm(*alarm)).await?),
        Action::MakePassword { known, .. } => secrets::make(client, object, known.as_ref()).await,
        Action::NotePassword(note) => secrets::note(client, object, note).await,
        Action::PrepareRoot { password, via } => Ok(prepare_root(etcd, via, password).await?),
        Action::ChangePassword { password, via } => {
            Ok(etcd.change(via, Request::ChangePassword { password: password.clone() }).await?)
        }
        Action::EnableAuth { via } => Ok(etcd.change(via, Request::EnableAuth).await?),
        Action::DisableAuth { via } => match etcd.change(via, Request::DisableAuth).await {
            // Somebody was faster.
            Err(error) if error.trouble == Trouble::AuthOff => Ok(()),
            outcome => Ok(outcome?),
        },
    }
}

/// A root that is there already may have any password: it gets this one.
async fn prepare_root(etcd: &Etcd, via: &Endpoint, password: &Password) -> Result<(), EtcdError> {
    let unless_there = |outcome: Result<(), EtcdError>| match outcome {
        Err(error) if error.trouble == Trouble::AlreadyThere => Ok(false),
        outcome => outcome.map(|()| true),
    };
    if !unless_there(etcd.change(via, Request::AddRoot { password: password.clone() }).await)? {
        etcd.change(via, Request::ChangePassword { password: password.clone() }).await?;
    }
    unless_there(etcd.change(via, Request::AddRole).await)?;
    etcd.change(via, Request::GrantRole).await
}

/// What seems not to be there is looked for first: applying would take over a foreign object of that name.
async fn apply_child(
    client: &Client,
    object: &EtcdCluster,
    namespace: &str,
    child: &Manifest,
    uid: Option<&str>,
) -> Result<(), Error> {
    let failed = |source| Error::Apply { kind: child.kind().to_owned(), name: child.name().to_owned(), source };
    if uid.is_none() {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &child.resource);
        let there = api.get_opt(child.name()).await.map_err(failed)?;
        if there.is_some_and(|there| !is_controlled_by(&there, object)) {
            return Err(Error::NameTaken(format!("{} {}", child.kind(), child.name())));
        }
    }
    child.apply(client, namespace, uid).await.map_err(failed)
}

/// The uids of the members' pods, by name.
async fn current_pods(client: &Client, object: &EtcdCluster) -> Result<BTreeMap<String, String>, Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let selector = format!("{LABEL}={}", object.name_any());
    let list = api.list(&ListParams::default().labels(&selector)).await;
    let pods = list.map_err(|source| Error::Read { what: "pods", source })?.items;
    Ok(pods.into_iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect())
}

async fn delete<K>(client: &Client, namespace: &str, name: &str, uid: &str, how: &DeleteParams) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let deleted = delete_exactly(&api, name, uid, how.clone()).await;
    deleted.map_err(|source| Error::Change { name: format!("{} {name}", K::kind(&())), source })
}

async fn change<K>(client: &Client, namespace: &str, name: &str, uid: &str, patch: Value) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let changed = patch_exactly(&api, name, uid, patch).await;
    changed.map(drop).map_err(|source| Error::Change { name: format!("{} {name}", K::kind(&())), source })
}
