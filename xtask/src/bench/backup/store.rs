//! A bucket, and the two ways to write into it and to read from it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::databases::{Kind, Source};
use super::pipeline::{Ran, run};
use super::{size, whole};
use crate::bench::aws::Call;
use crate::bench::directory;
use crate::bench::scene::{Bench, Scene};
use crate::images::etcd;
use crate::progress::Step;

/// How users fetch it without Causeway.
pub const PIPELINE_BACK: &str = "aws s3 cp - | zstd -d > FILE";

/// Debian's AWS CLI, even if another program of that name comes first in the `PATH`.
const AWS: &str = "/usr/bin/aws";
const FOLDER: &str = "source";
/// The version in the pod.
const ETCD: &str = "v3.5.9";

/// A bucket in a scene's account, and a directory for input and output.
pub struct Store<'a> {
    bench: &'a Bench<'a>,
    scene: &'a Scene<'a>,
    bucket: String,
    /// The directory for input and output.
    pub directory: PathBuf,
    etcdctl: PathBuf,
}

impl Drop for Store<'_> {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.directory).ok();
    }
}

impl<'a> Store<'a> {
    /// A new bucket and directory.
    pub fn new(bench: &'a Bench<'a>, scene: &'a Scene<'a>, step: &Step) -> Result<Self> {
        let directory = directory()?.join("backup");
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let bucket = scene.namespace().to_owned();
        let store = Self { bench, scene, bucket, directory, etcdctl: etcdctl(step)? };
        run(vec![store.aws(&["s3", "mb", &store.uri("")])], None)?;
        Ok(store)
    }

    /// The AWS calls since the last call of this function.
    pub fn calls(&self) -> Result<Vec<Call>> {
        self.scene.account.calls()
    }

    /// Deletes all S3 objects.
    pub fn empty(&self) -> Result<()> {
        run(vec![self.aws(&["s3", "rm", "--recursive", "--only-show-errors", &self.uri("")])], None).map(drop)
    }

    /// Runs what a backup Job runs.
    pub fn back_up(&self, source: &Source, round: usize) -> Result<Ran> {
        let server = match source.kind {
            Kind::Etcd => json!({ "type": "etcd", "endpoints": [format!("http://{}:2379", source.host)] }),
            Kind::Redis => json!({ "type": "redis", "addresses": [format!("{}:6379", source.host)] }),
        };
        let source = json!({ "folder": FOLDER, "title": "the source", "server": server });
        let mut command = self.causeway("backup", &json!({ "destination": self.place(), "sources": [source] }))?;
        command.args(["--due", &format!("20260101T00000{round}Z")]);
        run(vec![command], None)
    }

    /// Runs the first container of a restore Job.
    pub fn fetch(&self, source: &Source) -> Result<Ran> {
        let plan = json!({
            "origin": self.place(), "folder": FOLDER, "id": "latest", "work": self.directory,
            "scratch": "127.0.0.1:1",
        });
        let ran = run(vec![self.causeway("fetch", &plan)?], None)?;
        let name = match source.kind {
            Kind::Etcd => "snapshot.db",
            Kind::Redis => "dump.rdb",
        };
        self.taken(name, source.mebibytes)?;
        Ok(ran)
    }

    /// Runs the pipeline that users would use instead.
    pub fn pipe_out(&self, source: &Source) -> Result<Ran> {
        let upload = self.aws(&["s3", "cp", "--only-show-errors", "-", &self.uri("piped")]);
        let mut zstd = Command::new("zstd");
        zstd.args(["--stdout", "--quiet", "-3"]);
        match source.kind {
            Kind::Etcd => {
                let file = self.directory.join("saved.db");
                let mut save = Command::new(&self.etcdctl);
                save.args(["--endpoints", &format!("http://{}:2379", source.host), "snapshot", "save"]).arg(&file);
                save.stderr(std::process::Stdio::null());
                let saved = run(vec![save], None)?;
                zstd.arg(&file);
                let ran = saved.then(run(vec![zstd, upload], None)?);
                self.taken("saved.db", source.mebibytes)?;
                Ok(ran)
            }
            Kind::Redis => {
                let mut dump = Command::new("redis-cli");
                dump.args(["-h", &source.host, "--rdb", "-"]).stderr(std::process::Stdio::null());
                run(vec![dump, zstd, upload], None)
            }
        }
    }

    /// Runs the pipeline back.
    pub fn pipe_in(&self, source: &Source) -> Result<Ran> {
        let download = self.aws(&["s3", "cp", "--only-show-errors", &self.uri("piped"), "-"]);
        let mut zstd = Command::new("zstd");
        zstd.args(["--decompress", "--stdout", "--quiet"]);
        let file = File::create(self.directory.join("piped"))?;
        let ran = run(vec![download, zstd], Some(file))?;
        self.taken("piped", source.mebibytes)?;
        Ok(ran)
    }

    /// Fails unless the file has all that was written. Deletes it.
    fn taken(&self, name: &str, mebibytes: usize) -> Result<()> {
        let file = self.directory.join(name);
        whole(name, size(&file)?, mebibytes)?;
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))
    }

    /// The bucket as a destination in a plan.
    pub fn place(&self) -> Value {
        json!({
            "bucket": self.bucket, "owner": self.scene.account.number, "region": "us-east-1", "prefix": "bench",
        })
    }

    /// The URI of an S3 object, for `aws s3`.
    pub fn uri(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.bucket)
    }

    /// The program as Jobs run it, with that plan.
    pub fn causeway(&self, subcommand: &str, plan: &Value) -> Result<Command> {
        let path = self.directory.join(format!("{subcommand}.json"));
        fs::write(&path, plan.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
        let log = directory()?.join(format!("{subcommand}.log"));
        let mut command = Command::new(&self.bench.binary);
        command
            .arg(subcommand)
            .env_clear()
            .env("CAUSEWAY_PLAN", &path)
            .env("CAUSEWAY_TERMINATION_LOG", self.directory.join(format!("{subcommand}.report")))
            .env("AWS_ENDPOINT_URL", self.bench.endpoint())
            .stderr(File::create(&log).with_context(|| format!("cannot write {}", log.display()))?);
        Ok(self.as_account(command))
    }

    /// The AWS CLI.
    pub fn aws(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(AWS);
        command.args(["--endpoint-url", self.bench.endpoint()]).args(arguments);
        self.as_account(command)
    }

    fn as_account(&self, mut command: Command) -> Command {
        command
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", &self.scene.account.number)
            .env("AWS_SECRET_ACCESS_KEY", "test");
        command
    }
}

/// etcdctl of the measured version, from its image.
fn etcdctl(step: &Step) -> Result<PathBuf> {
    let modules = etcd::versions()?;
    let module = modules.iter().find(|module| module.ends_with(ETCD)).context("there is no such etcd")?;
    etcd::prepare(module, step)?.file("usr/local/bin/etcdctl").context("the image of etcd lacks etcdctl")
}
