//! Records of backups in the operator's own namespace, cached in memory: read once, and written through.
//!
//! A record of many backups has several `ConfigMaps`: see [`crate::record::Page`].

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use causeway_api::common::FIELD_MANAGER;
use causeway_runtime::{Class, PerObject, class_of_kubernetes};

use crate::record::Record;

/// How many times a record is read of which a page is missing: it may have been deleted since the list was read.
const TRIES: usize = 3;

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
    /// Resource versions of its `ConfigMaps`: of its pages, and of the first one under no number.
    versions: BTreeMap<Option<u32>, Option<String>>,
}

impl Seen {
    /// The data of a `ConfigMap` and its resource version, if there is one.
    fn page(&self, page: Option<u32>) -> Option<(BTreeMap<String, String>, Option<&str>)> {
        self.versions.get(&page).map(|version| (data_of(&self.record, page), version.as_deref()))
    }
}

impl Records {
    /// The records in that namespace.
    pub fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace, seen: PerObject::default(), left: PerObject::default() }
    }

    /// The record of the object with that uid, as last read or written: no other process writes it.
    pub async fn record(&self, uid: &str) -> Result<Option<Record>, kube::Error> {
        let seen = self.seen.with(uid, |seen| seen.record.clone());
        if seen.is_some() || self.left.get(uid).is_some() {
            return Ok(seen);
        }
        let Some(seen) = self.live(uid).await? else { return Ok(None) };
        let record = seen.record.clone();
        self.seen.set(uid, seen);
        Ok(Some(record))
    }

    /// The record as the apiserver has it now. It is not cached, because the object is of another kind.
    pub async fn read(&self, uid: &str) -> Result<Option<Record>, kube::Error> {
        Ok(self.live(uid).await?.map(|seen| seen.record))
    }

    /// The record of another object of the same kind. It is not cached here: only reconciles of that object cache and
    /// write it.
    pub async fn read_uncached(&self, uid: &str) -> Result<Option<Record>, kube::Error> {
        match self.seen.with(uid, |seen| seen.record.clone()) {
            Some(record) => Ok(Some(record)),
            None => self.read(uid).await,
        }
    }

    async fn live(&self, uid: &str) -> Result<Option<Seen>, kube::Error> {
        let api = self.api();
        let mut tried = 0;
        loop {
            tried += 1;
            let Some(first) = api.get_opt(&Record::name_of(uid)).await? else { return Ok(None) };
            let mut record = Record::from_data(&first.data.unwrap_or_default());
            let mut versions = BTreeMap::from([(None, first.metadata.resource_version)]);
            for number in record.pages.iter().map(|page| page.number).collect::<Vec<_>>() {
                let Some(page) = api.get_opt(&Record::page_name_of(uid, number)).await? else { continue };
                record.add(&page.data.unwrap_or_default());
                versions.insert(Some(number), page.metadata.resource_version);
            }
            let missing = record.pages.len() + 1 - versions.len();
            if missing == 0 || tried == TRIES {
                if missing > 0 {
                    tracing::warn!(uid, missing, "ConfigMaps of a record are gone: what they had does not count");
                }
                return Ok(Some(Seen { record, versions }));
            }
        }
    }

    /// Writes a record, only over the version that was read before. Its pages are written before the first `ConfigMap`,
    /// which lists them, and those that it no longer lists are deleted after that.
    pub async fn write(&self, uid: &str, record: &Record) -> Result<(), kube::Error> {
        // The cached version is out of date, whether or not the write succeeds.
        let before = self.seen.take(uid);
        let mut versions = BTreeMap::new();
        for page in record.pages.iter().map(|page| Some(page.number)).chain([None]) {
            let version = self.write_one(uid, page, record, before.as_ref().and_then(|seen| seen.page(page))).await?;
            versions.insert(page, version);
        }
        let pages = before.map(|seen| seen.versions.into_keys().flatten().collect::<Vec<_>>()).unwrap_or_default();
        for page in pages {
            // One that stays is harmless: it is in no list.
            if !versions.contains_key(&Some(page))
                && let Err(error) = self.delete_one(&Record::page_name_of(uid, page)).await
            {
                tracing::warn!(uid, page, %error, "a ConfigMap of a record stays, although nothing is in it");
            }
        }
        self.seen.set(uid, Seen { record: record.clone(), versions });
        Ok(())
    }

    /// Writes one `ConfigMap` of a record over `before`, and returns its resource version.
    async fn write_one(
        &self,
        uid: &str,
        page: Option<u32>,
        record: &Record,
        before: Option<(BTreeMap<String, String>, Option<&str>)>,
    ) -> Result<Option<String>, kube::Error> {
        let (name, data) = (name_of(uid, page), data_of(record, page));
        let Some((then, version)) = before else {
            let made = ConfigMap {
                metadata: ObjectMeta { name: Some(name.clone()), labels: Some(labels()), ..ObjectMeta::default() },
                data: Some(data.clone()),
                ..ConfigMap::default()
            };
            let how = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
            return match self.api().create(&how, &made).await {
                // A write that stopped half-way left a page that no list names yet.
                Err(kube::Error::Api(status)) if status.code == 409 && page.is_some() => {
                    let live = self.api().get(&name).await?;
                    let version = live.metadata.resource_version.as_deref();
                    self.replace(&name, (&live.data.unwrap_or_default(), version), &data).await
                }
                made => made.map(|made| made.metadata.resource_version),
            };
        };
        if page.is_some() && then == data {
            return Ok(version.map(str::to_owned));
        }
        self.replace(&name, (&then, version), &data).await
    }

    async fn replace(
        &self,
        name: &str,
        (before, version): (&BTreeMap<String, String>, Option<&str>),
        data: &BTreeMap<String, String>,
    ) -> Result<Option<String>, kube::Error> {
        let gone = before.keys().filter(|key| !data.contains_key(*key)).map(|key| (key, Value::Null));
        let data: BTreeMap<&String, Value> =
            data.iter().map(|(key, text)| (key, text.as_str().into())).chain(gone).collect();
        let patch = json!({ "metadata": { "resourceVersion": version }, "data": data });
        let how = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let live = self.api().patch(name, &how, &Patch::Merge(&patch)).await?;
        Ok(live.metadata.resource_version)
    }

    /// Deletes the record of an object whose backups are deleted. If we may not delete it, the record stays, but does
    /// not block the deletion of the object.
    pub async fn delete(&self, uid: &str) -> Result<(), kube::Error> {
        match self.delete_all(uid).await {
            Err(error) if class_of_kubernetes(&error) == Class::Denied => {
                tracing::warn!(uid, %error, "the record of backups stays");
                self.left.set(uid, ());
                Ok(())
            }
            deleted => deleted,
        }
    }

    /// Deletes all `ConfigMaps` of a record. The first one goes last, because it lists the others.
    async fn delete_all(&self, uid: &str) -> Result<(), kube::Error> {
        let record = self.record(uid).await?;
        self.seen.forget(uid);
        for page in record.map(|record| record.pages).unwrap_or_default() {
            self.delete_one(&Record::page_name_of(uid, page.number)).await?;
        }
        self.delete_one(&Record::name_of(uid)).await
    }

    async fn delete_one(&self, name: &str) -> Result<(), kube::Error> {
        match self.api().delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    /// The object with that uid was deleted.
    pub fn forget(&self, uid: &str) {
        self.seen.forget(uid);
        self.left.forget(uid);
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// The name of a `ConfigMap` of a record.
fn name_of(uid: &str, page: Option<u32>) -> String {
    page.map_or_else(|| Record::name_of(uid), |number| Record::page_name_of(uid, number))
}

/// The data of a `ConfigMap` of a record.
fn data_of(record: &Record, page: Option<u32>) -> BTreeMap<String, String> {
    page.map_or_else(|| record.data(), |number| record.data_of(number))
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".into(), "backup-record".into()),
        ("app.kubernetes.io/managed-by".into(), "causeway".into()),
    ])
}
