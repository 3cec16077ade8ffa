//! Backups of the demo's databases: they must arrive in S3, and restore what was lost.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::kubectl::Kubectl;
use crate::progress::Step;

/// The DatabaseBackup of the examples.
const BACKUP: &str = "backup";
/// The key that is written, deleted and restored.
const KEY: &str = "greeting";
/// Jobs pull no images and have little to do, but the machine may be slow.
const BACKUP_TIMEOUT: Duration = Duration::from_mins(10);

/// A database of the examples, and a client in one of its pods.
struct Database {
    /// Its kind and name, as in the source of a backup.
    source: &'static str,
    target: (&'static str, &'static str),
    pod: &'static str,
    client: &'static [&'static str],
    /// The client's commands to write, delete and read.
    verbs: [&'static str; 3],
}

const DATABASES: [Database; 2] = [
    Database {
        source: "EtcdCluster/prod-etcd",
        target: ("etcdCluster", "prod-etcd"),
        pod: "prod-etcd-0",
        // Its own limits are too short for a busy machine.
        client: &["etcdctl", "--dial-timeout=60s", "--command-timeout=60s"],
        verbs: ["put", "del", "get"],
    },
    Database {
        source: "Redis/cache",
        target: ("redis", "cache"),
        pod: "cache-0",
        // The Service routes to the master, whichever pod that is.
        client: &["redis-cli", "-h", "cache"],
        verbs: ["set", "del", "get"],
    },
];

/// The databases of the examples and their DatabaseBackup, in a namespace.
pub struct Backups<'a> {
    kubectl: &'a Kubectl<'a>,
    namespace: &'a str,
    /// How long a backup or a restore may take.
    limit: Duration,
}

/// The contents of both databases when they were backed up.
pub struct Kept {
    word: String,
    id: String,
}

impl Kept {
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl<'a> Backups<'a> {
    /// Those of the demo.
    pub fn of_examples(kubectl: &'a Kubectl<'a>) -> Self {
        Self::in_namespace(kubectl, "default", BACKUP_TIMEOUT)
    }

    /// Databases and a DatabaseBackup of the same names in another namespace.
    pub fn in_namespace(kubectl: &'a Kubectl<'a>, namespace: &'a str, limit: Duration) -> Self {
        Self { kubectl, namespace, limit }
    }

    /// Writes into both databases, backs them up, deletes what was written, and restores it.
    pub fn come_back(&self, step: &Step) -> Result<()> {
        let kept = self.back_up(self.write(step)?, step)?;
        self.lose_and_bring_back(&kept, step)
    }

    /// Writes a word into both databases. It differs each time, so that restored data cannot be from an earlier run.
    pub fn write(&self, step: &Step) -> Result<String> {
        let word = format!("hello-{}", SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis());
        step.note("writing into both databases");
        for database in &DATABASES {
            self.ask(database, 0, &[&word])?;
        }
        Ok(word)
    }

    /// Both databases must have that word.
    pub fn have(&self, word: &str) -> Result<()> {
        DATABASES.iter().try_for_each(|database| self.has(database, word))
    }

    fn has(&self, database: &Database, word: &str) -> Result<()> {
        let read = self.ask(database, 2, &[])?;
        if !read.contains(word) {
            bail!("{} does not have {word}, but {read:?}", database.source);
        }
        Ok(())
    }

    /// Requests a backup now, and waits until it is complete.
    pub fn back_up(&self, word: String, step: &Step) -> Result<Kept> {
        let before = self.jobs()?;
        let asked = format!("causeway.example.com/backup-now={word}");
        self.run(&["annotate", "databasebackup", BACKUP, &asked, "--overwrite"])?;
        let job =
            step.wait_for("the Job of a backup", self.limit, || Ok(self.jobs()?.difference(&before).next().cloned()))?;
        step.wait_for(format!("{job} to back both databases up"), self.limit, || {
            let ended = self.field(&job, "{.status.conditions[?(@.status==\"True\")].type}")?;
            if ended.contains("Failed") {
                bail!("{job} failed:\n{}", self.run(&["logs", &job])?);
            }
            Ok(ended.contains("Complete").then_some(()))
        })?;
        let id = self.field(&job, "{.spec.template.spec.containers[0].env[?(@.name==\"CAUSEWAY_DUE\")].value}")?;
        Ok(Kept { word, id })
    }

    /// The Jobs of requested backups.
    fn jobs(&self) -> Result<BTreeSet<String>> {
        let ours = format!("--selector=causeway.example.com/backup={BACKUP}");
        let names = self.run(&["get", "jobs", &ours, "-o", "name"])?;
        let now = format!("job.batch/{BACKUP}-now-");
        Ok(names.lines().filter(|name| name.starts_with(&now)).map(str::to_owned).collect())
    }

    /// Deletes what was written, and restores it from that backup.
    pub fn lose_and_bring_back(&self, kept: &Kept, step: &Step) -> Result<()> {
        for database in &DATABASES {
            self.ask(database, 1, &[])?;
            if self.ask(database, 2, &[])?.contains(&kept.word) {
                bail!("{} still has what was deleted", database.source);
            }
        }
        let restores: Vec<String> =
            DATABASES.iter().map(|database| self.restore(database, &kept.id)).collect::<Result<_>>()?;
        for (database, restore) in DATABASES.iter().zip(&restores) {
            self.ends_well(restore, step)?;
            self.has(database, &kept.word).with_context(|| format!("{} was restored by {restore}", database.source))?;
        }
        Ok(())
    }

    /// Creates a DatabaseRestore; returns its name for kubectl.
    fn restore(&self, database: &Database, id: &str) -> Result<String> {
        let (kind, name) = database.target;
        let object = json!({
            "apiVersion": "example.com/v1",
            "kind": "DatabaseRestore",
            "metadata": { "generateName": format!("{name}-back-") },
            "spec": {
                "from": { "backup": BACKUP, "source": database.source, "id": id },
                "target": { kind: { "name": name } },
                // Users may have written into the databases since they were created.
                "force": true,
            },
        });
        let create = ["-n", self.namespace, "create", "-f", "-", "-o", "name"];
        Ok(self.kubectl.feed(&create, &object.to_string())?.trim().to_owned())
    }

    fn ends_well(&self, restore: &str, step: &Step) -> Result<()> {
        step.wait_for(format!("{restore} to succeed"), self.limit, || {
            let phase = self.field(restore, "{.status.phase}")?;
            if phase == "Failed" {
                bail!("{restore} failed: {}", self.field(restore, "{.status.message}")?);
            }
            Ok((phase == "Succeeded").then_some(()))
        })
    }

    fn field(&self, object: &str, path: &str) -> Result<String> {
        self.run(&["get", object, "-o", &format!("jsonpath={path}")])
    }

    fn ask(&self, database: &Database, verb: usize, words: &[&str]) -> Result<String> {
        let before = ["exec", database.pod, "--"];
        let all: Vec<&str> =
            before.iter().chain(database.client).chain([&database.verbs[verb], &KEY]).chain(words).copied().collect();
        self.run(&all)
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let all: Vec<&str> = ["-n", self.namespace].iter().chain(arguments).copied().collect();
        self.kubectl.run(&all)
    }
}
