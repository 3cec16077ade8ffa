//! The processes that Jobs run, against real servers in pods and LocalStack's S3. Whatever happens on the way, a backup
//! is complete, or it is no backup.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use causeway_backup::manifest::{self, Manifest};
use causeway_backup::report::Report;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::support::{Scene, operator, wait_for};

/// The folder of every source.
pub const FOLDER: &str = "source";
/// The ID of every backup: when it was due.
pub const ID: &str = "20261122T000500Z";
const PREFIX: &str = "shop/nightly/uid";

/// A scene with a bucket, and a directory for plans and what is fetched.
pub struct Plane {
    scene: Scene,
    s3: aws_sdk_s3::Client,
    /// Names of buckets are unique across all accounts.
    bucket: String,
    directory: PathBuf,
}

impl Deref for Plane {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.directory).ok();
    }
}

impl Plane {
    pub async fn new(name: &str) -> Self {
        let scene = Scene::new(name).await;
        let s3 = scene.s3();
        let bucket = format!("backups-{}", scene.namespace);
        s3.create_bucket().bucket(&bucket).send().await.expect("a bucket");
        let directory = std::env::temp_dir().join(&scene.namespace);
        fs::create_dir_all(&directory).expect("a directory");
        Self { scene, s3, bucket, directory }
    }

    /// A server in a pod of its own; its IP when it is ready.
    pub async fn server(&self, name: &str, image: &str, command: &[&str], port: u16) -> String {
        let pod = json!({
            "metadata": { "name": name },
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "server", "image": image, "command": command,
                    "readinessProbe": { "tcpSocket": { "port": port }, "periodSeconds": 1 },
                }],
            },
        });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let api = self.api::<Pod>();
        api.create(&PostParams::default(), &pod).await.expect("the pod is taken");
        let address = || async {
            let status = api.get(name).await.expect("the pod").status.unwrap_or_default();
            let ready = status.conditions.iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
            status.pod_ip.filter(|_| ready)
        };
        wait_for(&format!("{name} to be ready"), address, Option::is_some).await.expect("just seen")
    }

    /// A Redis; its address.
    pub async fn redis(&self, name: &str) -> String {
        self.redis_with(name, &[]).await
    }

    /// The same, with these settings.
    pub async fn redis_with(&self, name: &str, settings: &[&str]) -> String {
        let command = ["redis-server", "--save", "", "--protected-mode", "no", "--repl-diskless-sync-delay", "0"];
        format!("{}:6379", self.server(name, "redis:7.0.15", &[&command[..], settings].concat(), 6379).await)
    }

    /// An etcd of one member; its URL.
    pub async fn etcd(&self, name: &str) -> String {
        self.etcd_with(name, &[]).await
    }

    /// The same, with these settings.
    pub async fn etcd_with(&self, name: &str, settings: &[&str]) -> String {
        let clients = "--listen-client-urls=http://0.0.0.0:2379";
        let command = ["etcd", "--data-dir=/tmp/data", clients, "--advertise-client-urls=http://127.0.0.1:2379"];
        let command = [&command[..], settings].concat();
        format!("http://{}:2379", self.server(name, "quay.io/coreos/etcd:v3.5.9", &command, 2379).await)
    }

    /// The subcommand with a plan, ready to be started.
    pub fn command(&self, subcommand: &str, plan: &Value) -> Command {
        let path = self.directory.join(format!("{subcommand}.json"));
        fs::write(&path, plan.to_string()).expect("the plan is written");
        let mut command = Command::new(operator::job_program());
        command
            .arg(subcommand)
            .env_clear()
            .env("CAUSEWAY_PLAN", &path)
            .env("CAUSEWAY_TERMINATION_LOG", self.directory.join("report"))
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ENDPOINT_URL", self.emulator.endpoint())
            .env("AWS_ACCESS_KEY_ID", self.emulator.account())
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .stderr(Stdio::piped());
        command
    }

    /// Runs a subcommand to its end.
    pub async fn run(&self, subcommand: &str, plan: &Value) -> Ended {
        fs::remove_file(self.directory.join("report")).ok();
        let mut command = self.command(subcommand, plan);
        if subcommand == "backup" {
            command.args(["--due", ID]);
        }
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("it ends");
        Ended::new(self, &output.expect("it starts"))
    }

    pub fn begin_backup(&self, server: &Value) -> Child {
        let mut command = self.command("backup", &self.backup_plan(server));
        command.args(["--due", ID]).stderr(Stdio::null()).spawn().expect("it starts")
    }

    fn destination(&self) -> Value {
        json!({ "bucket": self.bucket, "owner": self.emulator.account(), "region": "us-east-1", "prefix": PREFIX })
    }

    /// A plan to back one server up.
    pub fn backup_plan(&self, server: &Value) -> Value {
        let source = json!({ "folder": FOLDER, "title": "the source", "server": server });
        json!({ "destination": self.destination(), "sources": [source] })
    }

    /// A plan to fetch the newest backup, and to copy what `scratch` holds into `target`.
    pub fn restore_plan(&self, scratch: &str, target: &Value) -> Value {
        let target = json!({ "folder": "target", "title": "the target", "server": target });
        json!({
            "origin": self.destination(), "folder": FOLDER, "id": "latest", "work": self.directory,
            "scratch": scratch, "target": target,
        })
    }

    /// A file that was fetched.
    pub fn fetched(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.directory.join(name)).ok()
    }

    /// The manifest in S3.
    pub async fn manifest(&self) -> Option<Manifest> {
        let key = format!("{PREFIX}/{FOLDER}/{ID}/{}", manifest::NAME);
        let answer = self.s3.get_object().bucket(&self.bucket).key(key).send().await.ok()?;
        let bytes = answer.body.collect().await.expect("its bytes").into_bytes();
        Some(serde_json::from_slice(&bytes).expect("a manifest"))
    }

    /// Uploads that were begun and not ended.
    pub async fn uploads(&self) -> usize {
        let answer = self.s3.list_multipart_uploads().bucket(&self.bucket).send().await;
        answer.expect("a list").uploads().len()
    }

    /// Keys of all objects with their `ETag`s, which show whether they are still the same.
    pub async fn etags(&self) -> Vec<(String, Option<String>)> {
        let page = self.s3.list_objects_v2().bucket(&self.bucket).send().await.expect("a list");
        let objects = page.contents.unwrap_or_default().into_iter();
        objects.map(|object| (object.key.unwrap_or_default(), object.e_tag)).collect()
    }

    pub async fn remove(&self) {
        for name in [manifest::NAME, manifest::DATA] {
            let key = format!("{PREFIX}/{FOLDER}/{ID}/{name}");
            self.s3.delete_object().bucket(&self.bucket).key(key).send().await.expect("it goes");
        }
    }

    /// Flips one bit in the middle of the data.
    pub async fn flip(&self) {
        let key = format!("{PREFIX}/{FOLDER}/{ID}/{}", manifest::DATA);
        let answer = self.s3.get_object().bucket(&self.bucket).key(&key).send().await.expect("the data");
        let mut bytes = answer.body.collect().await.expect("their bytes").to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        self.s3.put_object().bucket(&self.bucket).key(key).body(bytes.into()).send().await.expect("written");
    }
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    /// The reason in its one result, if that is an error.
    pub reason: Option<String>,
    /// Keys of its one result.
    pub keys: Option<u64>,
    /// The changes that it would make: action, count and kind of each.
    pub outlook: Vec<String>,
    /// The reason why it would be refused.
    pub refused: Option<String>,
    /// Its log messages.
    pub log: String,
}

impl Ended {
    fn new(plane: &Plane, output: &Output) -> Self {
        let report: Report = report_in(&plane.directory).unwrap_or_default();
        let result = report.results.into_iter().next().unwrap_or_default();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let reported = result.outlook.map(|outlook| outlook.reported).unwrap_or_default();
        let (changes, refused) = (reported.changes, reported.refused);
        let outlook = changes.iter().map(|it| format!("{:?} {} {}", it.action, it.count, it.what)).collect();
        Self { code: output.status.code(), reason: result.reason, keys: result.keys, outlook, refused, log }
    }

    /// Panics unless it succeeded.
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.log);
        self
    }
}

fn report_in(directory: &Path) -> Option<Report> {
    serde_json::from_slice(&fs::read(directory.join("report")).ok()?).ok()
}
