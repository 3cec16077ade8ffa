//! Records of backups in the operator's own namespace, cached in memory: read once, and written through.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::api::common::FIELD_MANAGER;
use crate::backup::record::Record;
use crate::runtime::{Class, PerObject, class_of_kubernetes};

/// The records.
pub struct Records {
    client: Client,
    namespace: String,
    /// The records as last read or written, by the uid of the object.
    seen: PerObject<Seen>,
    /// Uids of deleted objects whose records we may not delete.
    left: PerObject<()>,
}

#[derive(Clone)]
struct Seen {
    record: Record,
    resource_version: Option<String>,
}

impl Records {
    /// The records in that namespace.
    pub fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace, seen: PerObject::default(), left: PerObject::default() }
    }

    /// The record of the object with that uid, as last read or written: no other process writes it.
    pub async fn of(&self, uid: &str) -> Result<Option<Record>, kube::Error> {
        let seen = self.seen.with(uid, |seen| seen.record.clone());
        if seen.is_some() || self.left.get(uid).is_some() {
            return Ok(seen);
        }
        let Some((record, live)) = self.live(uid).await? else { return Ok(None) };
        self.keep(uid, &record, live);
        Ok(Some(record))
    }

    /// The record as the apiserver has it now. It is not cached, because the object is of another kind.
    pub async fn read(&self, uid: &str) -> Result<Option<Record>, kube::Error> {
        Ok(self.live(uid).await?.map(|(record, _)| record))
    }

    /// The record of another object of the same kind. It is not cached here: only reconciles of that object cache and
    /// write it.
    pub async fn known(&self, uid: &str) -> Result<Option<Record>, kube::Error> {
        match self.seen.with(uid, |seen| seen.record.clone()) {
            Some(record) => Ok(Some(record)),
            None => self.read(uid).await,
        }
    }

    async fn live(&self, uid: &str) -> Result<Option<(Record, ConfigMap)>, kube::Error> {
        let live = self.api().get_opt(&Record::name_of(uid)).await?;
        Ok(live.map(|live| (Record::from_data(&live.data.clone().unwrap_or_default()), live)))
    }

    /// Writes a record, only over the version that was read before.
    pub async fn write(&self, uid: &str, record: &Record) -> Result<(), kube::Error> {
        // Whether the write succeeds or not, the cached version is out of date.
        let before = self.seen.take(uid);
        let name = Record::name_of(uid);
        let live = match before {
            None => {
                let made = ConfigMap {
                    metadata: ObjectMeta { name: Some(name), labels: Some(labels()), ..ObjectMeta::default() },
                    data: Some(record.data()),
                    ..ConfigMap::default()
                };
                let how = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
                self.api().create(&how, &made).await?
            }
            Some(Seen { record: before, resource_version }) => {
                let data = record.data();
                let gone =
                    before.data().into_keys().filter(|key| !data.contains_key(key)).map(|key| (key, Value::Null));
                let data: BTreeMap<String, Value> =
                    data.iter().map(|(key, text)| (key.clone(), text.as_str().into())).chain(gone).collect();
                let patch = json!({ "metadata": { "resourceVersion": resource_version }, "data": data });
                let how = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
                self.api().patch(&name, &how, &Patch::Merge(&patch)).await?
            }
        };
        self.keep(uid, record, live);
        Ok(())
    }

    /// Deletes the record of an object whose backups are deleted. If we may not delete it, the record stays, but does
    /// not block the deletion of the object.
    pub async fn delete(&self, uid: &str) -> Result<(), kube::Error> {
        self.seen.forget(uid);
        match self.api().delete(&Record::name_of(uid), &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) if class_of_kubernetes(&error) == Class::Denied => {
                tracing::warn!(uid, %error, "the record of backups stays");
                self.left.set(uid, ());
                Ok(())
            }
            deleted => deleted.map(drop),
        }
    }

    /// The object with that uid was deleted.
    pub fn forget(&self, uid: &str) {
        self.seen.forget(uid);
        self.left.forget(uid);
    }

    fn keep(&self, uid: &str, record: &Record, live: ConfigMap) {
        let seen = Seen { record: record.clone(), resource_version: live.metadata.resource_version };
        self.seen.set(uid, seen);
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".into(), "backup-record".into()),
        ("app.kubernetes.io/managed-by".into(), "causeway".into()),
    ])
}
