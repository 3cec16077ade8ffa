//! Writes a status only if it changed, even while the watch still shows an older one.

use std::collections::HashMap;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

use causeway_api::Conditioned;
use causeway_api::common::FIELD_MANAGER;

use super::Kind;
use super::decoding::Decoded;

/// Statuses that we wrote and that the watch has not delivered yet.
pub struct Statuses<K: Kind> {
    client: Client,
    written: Mutex<HashMap<String, (u64, K::Status)>>,
}

impl<K: Kind> Statuses<K> {
    /// Starts with no written statuses.
    pub fn new(client: Client) -> Self {
        Self { client, written: Mutex::default() }
    }

    /// Returns the newest status that we know: the object's own without the conditions of others, or what we wrote
    /// after that version of the object.
    pub fn current(&self, object: &K::Object) -> Option<K::Status> {
        let mut written = self.written.lock();
        let uid = object.uid().unwrap_or_default();
        if let Some((version, status)) = written.get(&uid) {
            if version_of(object) < *version {
                return Some(status.clone());
            }
            written.remove(&uid);
        }
        own_status::<K>(object)
    }

    /// Applies `status` if it differs from the current one. Returns true if it was written.
    pub async fn write(&self, object: &K::Object, status: K::Status) -> Result<bool, kube::Error> {
        if self.current(object).as_ref() == Some(&status) {
            return Ok(false);
        }
        // Decoded leniently: the answer may be an object that cannot be decoded as a whole, and only its version
        // matters.
        let api: Api<Decoded<K::Object>> =
            Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        // The uid makes the patch fail if the object was replaced by another one of the same name.
        let patch = json!({
            "apiVersion": K::Object::api_version(&()),
            "kind": K::Object::kind(&()),
            "metadata": { "name": object.name_any(), "uid": object.uid() },
            "status": status,
        });
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let updated = api.patch_status(&object.name_any(), &parameters, &Patch::Apply(&patch)).await?;
        let mut written = self.written.lock();
        written.insert(object.uid().unwrap_or_default(), (version_of(&updated), status));
        Ok(true)
    }

    /// Records the status that another process wrote and that the watch may not show yet.
    pub fn learn(&self, live: &K::Object) {
        let Some(status) = own_status::<K>(live) else { return };
        let mut written = self.written.lock();
        written.insert(live.uid().unwrap_or_default(), (version_of(live), status));
    }

    /// Counts the objects for which a status is remembered.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.written.lock().len()
    }

    /// Forgets a deleted object.
    pub fn forget(&self, uid: &str) {
        self.written.lock().remove(uid);
    }
}

/// Returns the status without the conditions of others. With server-side apply, fields that we do not send stay as
/// their owner set them: <https://kubernetes.io/docs/reference/using-api/server-side-apply/>
fn own_status<K: Kind>(object: &K::Object) -> Option<K::Status> {
    let mut status = K::status(object).cloned()?;
    status.conditions_mut().retain(|condition| K::Status::owns(&condition.type_));
    Some(status)
}

/// The resource version as a number, to tell which of two versions of an object is newer.
/// <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>
fn version_of(object: &impl Resource) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}
