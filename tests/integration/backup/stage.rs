//! A scene in which Jobs have an identity in AWS.

use std::ops::Deref;
use std::time::Duration;

use causeway_api::{DatabaseBackup, DatabaseBackupStatus, EtcdCluster, Redis};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::Scene;
use crate::support::role;
use crate::support::scene::condition;
use crate::support::wait::wait_within;

/// The object of every test.
pub const NAME: &str = "nightly";
/// A schedule that never comes while a test runs.
pub const NEVER: &str = "0 0 29 2 *";
/// Pods start one after the other, on a machine that runs other tests, too.
pub const WAIT_TIMEOUT: Duration = Duration::from_mins(6);

/// A scene whose account trusts the service accounts of Jobs.
pub struct Stage {
    scene: Scene,
    /// S3, for what the test itself looks at.
    pub s3: aws_sdk_s3::Client,
}

impl Deref for Stage {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

impl Stage {
    pub async fn new(name: &str) -> Self {
        let scene = Scene::new(name).await;
        trusted(&scene).await;
        let s3 = scene.s3();
        Self { scene, s3 }
    }

    /// The bucket of objects that name none.
    pub fn bucket(&self) -> String {
        let name = format!("causeway-{}-{}-us-east-1", self.namespace, self.emulator.account());
        assert!(name.len() <= 63, "{name} is cut");
        name
    }

    /// Keys in a bucket; none where there is no bucket.
    pub async fn keys(&self, bucket: &str) -> Vec<String> {
        let Ok(page) = self.s3.list_objects_v2().bucket(bucket).send().await else { return Vec::new() };
        page.contents.unwrap_or_default().into_iter().filter_map(|object| object.key).collect()
    }

    /// Asks for a backup at once.
    pub async fn backup_now(&self, token: &str) {
        let patch = json!({ "metadata": { "annotations": { "causeway.example.com/backup-now": token } } });
        let api = self.api::<DatabaseBackup>();
        api.patch(NAME, &PatchParams::default(), &Patch::Merge(&patch)).await.expect("the annotation is taken");
    }

    /// Creates the object for that source, and waits until it has its first backup.
    pub async fn backed_up(&self, source: Value) -> DatabaseBackupStatus {
        self.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "source": source })).await;
        self.backup_now("one").await;
        self.has_backups(1).await
    }

    /// Waits until the object's status is as `good` says.
    pub async fn becomes(&self, what: &str, good: impl Fn(&DatabaseBackupStatus) -> bool) -> DatabaseBackup {
        self.becomes_of(NAME, what, good).await
    }

    /// The same of the object with that name.
    pub async fn becomes_of(
        &self,
        name: &str,
        what: &str,
        good: impl Fn(&DatabaseBackupStatus) -> bool,
    ) -> DatabaseBackup {
        let api = self.api::<DatabaseBackup>();
        let look = || async { api.get(name).await.expect("the object") };
        wait_within(WAIT_TIMEOUT, what, look, |it| good(&it.status.clone().unwrap_or_default())).await
    }

    /// Waits until there are so many backups.
    pub async fn has_backups(&self, count: usize) -> DatabaseBackupStatus {
        let what = format!("{count} backups");
        let object = self.becomes(&what, |status| status.recent.len() >= count).await;
        object.status.expect("a status")
    }

    /// Waits until so many backups are signed.
    pub async fn has_signatures(&self, count: usize) {
        let (bucket, what) = (self.bucket(), format!("{count} signatures"));
        let signed =
            |keys: &Vec<String>| keys.iter().filter(|key| key.ends_with("/manifest.json.sig")).count() == count;
        wait_within(WAIT_TIMEOUT, &what, || self.keys(&bucket), signed).await;
    }

    /// Creates an etcd of one member, unless it exists, and waits until it serves.
    pub async fn etcd(&self, name: &str) {
        self.create::<EtcdCluster>(name, json!({ "version": "3.5.9", "replicas": 1 })).await;
        let ready = |object: &EtcdCluster| {
            let status = object.status.clone().unwrap_or_default();
            condition(&status.conditions, "Ready").is_some_and(|(status, ..)| status == "True")
        };
        let api = self.api::<EtcdCluster>();
        wait_within(WAIT_TIMEOUT, "an etcd", || async { api.get(name).await.expect("the object") }, ready).await;
    }

    /// Creates a Redis without replicas; returns its address when it serves.
    pub async fn redis(&self, name: &str) -> String {
        self.redis_of(name, json!({ "replicas": 0 })).await
    }

    /// The same of another spec.
    pub async fn redis_of(&self, name: &str, spec: Value) -> String {
        self.create::<Redis>(name, spec).await;
        let ready = |object: &Redis| {
            let status = object.status.clone().unwrap_or_default();
            condition(&status.conditions, "Ready").is_some_and(|(status, ..)| status == "True")
        };
        let api = self.api::<Redis>();
        wait_within(WAIT_TIMEOUT, "a Redis", || async { api.get(name).await.expect("the object") }, ready).await;
        let pods = ListParams::default().labels(&format!("causeway.example.com/redis={name}"));
        let pods = self.api::<Pod>().list(&pods).await.expect("pods").items;
        let pod = pods.into_iter().next().expect("a pod");
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        format!("{}:6379", address.unwrap_or_else(|| panic!("{} has an address", pod.name_any())))
    }
}

/// Lets the account trust the service account of the scene's Jobs.
pub async fn trusted(scene: &Scene) {
    let issuer = role::trust_cluster(scene).await;
    role::put_jobs(scene, &issuer, &scene.namespace).await;
}

/// A condition's status and reason.
pub fn describe(status: &DatabaseBackupStatus, type_: &str) -> (String, String) {
    condition(&status.conditions, type_).map(|(status, reason, _)| (status, reason)).unwrap_or_default()
}

/// A connection to a Redis, with a long timeout: a machine that runs all tests at once is slow.
pub async fn redis_connection(address: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(format!("redis://{address}/")).expect("an address");
    let patient = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(WAIT_TIMEOUT))
        .set_response_timeout(Some(WAIT_TIMEOUT));
    client.get_multiplexed_async_connection_with_config(&patient).await.expect("a connection")
}

/// Sends a command to a Redis.
pub async fn redis_command<T: redis::FromRedisValue>(address: &str, words: &[&str]) -> T {
    let mut connection = redis_connection(address).await;
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(*word);
    }
    command.query_async(&mut connection).await.expect("an answer")
}
