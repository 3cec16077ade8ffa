//! Carries out changes of children.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod as CorePod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ObjectMeta, PostParams, PropagationPolicy};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use causeway_runtime::child_watch::Owner;
use causeway_runtime::manifest::{Manifest, delete_exactly, patch_exactly};

use super::names::{ADOPTED, EPOCH, HURRIED, MEMBER};
use super::{ChildAction, Database, Error, Sets};

/// A uid that no object has.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

impl<D: Database> Sets<D> {
    /// Carries out `action`.
    pub async fn carry_out(&self, object: &D::Object, action: &ChildAction) -> Result<(), Error> {
        match action {
            ChildAction::Apply { child, uid } => {
                self.expect_change(object);
                self.apply(object, child, uid.as_deref()).await
            }
            ChildAction::TakeBack { kind, name, uid, version, owners } => {
                self.expect_change(object);
                let patch = json!({ "metadata": { "resourceVersion": version, "ownerReferences": owners } });
                self.take_back(object, (kind, name, uid), patch).await
            }
            ChildAction::DeletePod { name, uid, at_once, .. } => {
                let how = DeleteParams { grace_period_seconds: at_once.then_some(1), ..DeleteParams::default() };
                self.delete::<CorePod>(object, name, uid, how).await
            }
            ChildAction::Revive { name, uid, .. } => {
                self.delete::<CorePod>(object, name, uid, DeleteParams::default()).await?;
                self.revivals.note(&object.uid().unwrap_or_default(), name);
                Ok(())
            }
            ChildAction::Hurry { name, uid, version, .. } => {
                self.expect_change(object);
                let patch = json!({ "metadata": { "annotations": { HURRIED: version } } });
                self.change::<StatefulSet>(object, name, uid, patch).await.map(drop)
            }
            ChildAction::DeleteClaim { name, uid, .. } => {
                self.delete::<PersistentVolumeClaim>(object, name, uid, DeleteParams::default()).await
            }
            ChildAction::DeletePolicy { name, uid } => {
                self.delete::<NetworkPolicy>(object, name, uid, DeleteParams::default()).await
            }
            // We may not delete Services, but Kubernetes deletes objects whose owner does not exist.
            // https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents
            ChildAction::Abandon { name, uid } => {
                self.expect_change(object);
                let owner =
                    object.controller_owner_ref(&()).map(|owner| OwnerReference { uid: NO_UID.into(), ..owner });
                let patch = json!({ "metadata": { "ownerReferences": owner.as_slice() } });
                self.change::<Service>(object, name, uid, patch).await.map(drop)
            }
            ChildAction::Orphan { name, uid } => {
                self.can_be_made_again(object, name).await?;
                let orphaning =
                    DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
                self.delete::<StatefulSet>(object, name, uid, orphaning).await
            }
            ChildAction::LabelPod { name, uid } => self.change_pod(object, name, uid, &labels::<D>(object)).await,
            ChildAction::LabelClaim { name, uid } => {
                self.change_claim(object, name, uid, json!({ "metadata": labels::<D>(object) })).await
            }
            ChildAction::MarkClaim { name, uid, member } => {
                let annotations = json!({ MEMBER: format!("{member:x}"), ADOPTED: object.uid() });
                self.change_claim(object, name, uid, json!({ "metadata": { "annotations": annotations } })).await
            }
            ChildAction::NoteEpoch { name, uid, epoch } => {
                let annotations = json!({ EPOCH: epoch.to_string() });
                self.change_claim(object, name, uid, json!({ "metadata": { "annotations": annotations } })).await
            }
            ChildAction::GrowClaim { name, uid, size } => self.grow(object, name, uid, size).await,
            ChildAction::Restore(step) => {
                let carried_out = self.restores.carry_out(object, step).await;
                carried_out.map_err(|source| Error::Change { name: "the DatabaseRestore".into(), source })
            }
        }
    }

    /// Applies a child. If it seems to be missing, it is looked for first: applying would take over a foreign object of that
    /// name.
    pub async fn apply(&self, object: &D::Object, child: &Manifest, uid: Option<&str>) -> Result<(), Error> {
        let failed = |source| Error::Apply { kind: child.kind().to_owned(), name: child.name().to_owned(), source };
        let namespace = object.namespace().unwrap_or_default();
        let is_ours = child.apply_for(&self.client, &namespace, object, uid).await.map_err(failed)?;
        if is_ours { Ok(()) } else { Err(Error::NameTaken(format!("{} {}", child.kind(), child.name()))) }
    }

    /// Changes metadata of exactly that pod.
    pub async fn change_pod(&self, object: &D::Object, name: &str, uid: &str, metadata: &Value) -> Result<(), Error> {
        let pod = self.change::<CorePod>(object, name, uid, json!({ "metadata": metadata })).await?;
        self.note_pod(object, pod);
        Ok(())
    }

    async fn change_claim(&self, object: &D::Object, name: &str, uid: &str, patch: Value) -> Result<(), Error> {
        self.expect_change(object);
        self.change::<PersistentVolumeClaim>(object, name, uid, patch).await.map(drop)
    }

    async fn grow(&self, object: &D::Object, name: &str, uid: &str, size: &str) -> Result<(), Error> {
        let patch = json!({ "spec": { "resources": { "requests": { "storage": size } } } });
        match self.change_claim(object, name, uid, patch).await {
            Err(Error::Change { source: kube::Error::Api(status), .. }) if matches!(status.code, 403 | 422) => {
                Err(Error::CannotGrow { name: name.to_owned(), field: D::SIZE, message: status.message.clone() })
            }
            outcome => outcome,
        }
    }

    async fn take_back(
        &self,
        object: &D::Object,
        (kind, name, uid): (&str, &str, &str),
        patch: Value,
    ) -> Result<(), Error> {
        match kind {
            "StatefulSet" => self.change::<StatefulSet>(object, name, uid, patch).await.map(drop),
            "Service" => self.change::<Service>(object, name, uid, patch).await.map(drop),
            "ConfigMap" => self.change::<ConfigMap>(object, name, uid, patch).await.map(drop),
            "Secret" => self.change::<Secret>(object, name, uid, patch).await.map(drop),
            "PodDisruptionBudget" => self.change::<PodDisruptionBudget>(object, name, uid, patch).await.map(drop),
            "NetworkPolicy" => self.change::<NetworkPolicy>(object, name, uid, patch).await.map(drop),
            _ => Err(Error::NameTaken(format!("{kind} {name}"))),
        }
    }

    /// Asks by a dry run whether the API server would take the `StatefulSet` again: without one, no pod is replaced. Where
    /// it would, it says that there is one of that name. A full quota has room again after the deletion.
    async fn can_be_made_again(&self, object: &D::Object, name: &str) -> Result<(), Error> {
        let api: Api<StatefulSet> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let failed = |source| Error::Change { name: format!("StatefulSet {name} (to make it again)"), source };
        let mut set = api.get(name).await.map_err(failed)?;
        let kept = set.metadata;
        set.metadata = ObjectMeta {
            name: kept.name,
            labels: kept.labels,
            annotations: kept.annotations,
            owner_references: kept.owner_references,
            ..ObjectMeta::default()
        };
        set.status = None;
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        match api.create(&dry_run, &set).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 || status.message.contains("exceeded quota") => Ok(()),
            Err(source) => Err(failed(source)),
        }
    }

    async fn delete<K: Owner>(
        &self,
        object: &D::Object,
        name: &str,
        uid: &str,
        how: DeleteParams,
    ) -> Result<(), Error> {
        self.expect_change(object);
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let deleted = delete_exactly(&api, name, uid, how).await;
        deleted.map_err(|source| Error::Change { name: format!("{} {name}", K::kind(&())), source })
    }

    async fn change<K: Owner>(&self, object: &D::Object, name: &str, uid: &str, patch: Value) -> Result<K, Error> {
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let changed = patch_exactly(&api, name, uid, patch).await;
        changed.map_err(|source| Error::Change { name: format!("{} {name}", K::kind(&())), source })
    }
}

/// The label by which pods and claims are found, as metadata.
fn labels<D: Database>(object: &D::Object) -> Value {
    json!({ "labels": { D::LABEL: object.name_any() } })
}
