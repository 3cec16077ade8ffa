//! Backups of the demo's databases: they arrive in S3, and bring back what was lost.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::kubectl::Kubectl;
use crate::progress::Step;

/// The DatabaseBackup of the examples.
const BACKUP: &str = "backup";
/// What is written, lost, and brought back.
const KEY: &str = "greeting";
/// Jobs pull nothing and have little to do, on a machine that may be slow.
const BACKUP_TIMEOUT: Duration = Duration::from_mins(3);

/// A database of the examples, and a client in one of its pods.
struct Database {
    /// Its kind and name, as backups call it.
    source: &'static str,
    target: (&'static str, &'static str),
    pod: &'static str,
    client: &'static [&'static str],
    /// The client's words to write, to delete and to read.
    verbs: [&'static str; 3],
}

const DATABASES: [Database; 2] = [
    Database {
        source: "EtcdCluster/prod-etcd",
        target: ("etcdCluster", "prod-etcd"),
        pod: "prod-etcd-0",
        client: &["etcdctl"],
        verbs: ["put", "del", "get"],
    },
    Database {
        source: "Redis/cache",
        target: ("redis", "cache"),
        pod: "cache-0",
        // The Service leads to the master, whichever pod that is.
        client: &["redis-cli", "-h", "cache"],
        verbs: ["set", "del", "get"],
    },
];

impl Database {
    fn ask(&self, kubectl: &Kubectl<'_>, verb: usize, words: &[&str]) -> Result<String> {
        let before = ["-n", "default", "exec", self.pod, "--"];
        let all: Vec<&str> =
            before.iter().chain(self.client).chain([&self.verbs[verb], &KEY]).chain(words).copied().collect();
        kubectl.run(&all)
    }
}

/// What both databases had when they were backed up.
pub struct Kept {
    word: String,
    id: String,
}

/// Writes into both databases, backs them up, deletes what was written, and restores it.
pub fn come_back(kubectl: &Kubectl<'_>, step: &Step) -> Result<()> {
    let kept = write_and_back_up(kubectl, step)?;
    lose_and_bring_back(kubectl, &kept, step)
}

/// Writes into both databases and backs them up.
pub fn write_and_back_up(kubectl: &Kubectl<'_>, step: &Step) -> Result<Kept> {
    // Another one each time: what is brought back can be from no earlier run.
    let word = format!("hello-{}", SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis());
    step.note("writing into both databases");
    for database in &DATABASES {
        database.ask(kubectl, 0, &[&word])?;
    }
    let id = back_up(kubectl, &word, step)?;
    Ok(Kept { word, id })
}

/// Deletes what was written, and restores it from that backup.
pub fn lose_and_bring_back(kubectl: &Kubectl<'_>, kept: &Kept, step: &Step) -> Result<()> {
    for database in &DATABASES {
        database.ask(kubectl, 1, &[])?;
        if database.ask(kubectl, 2, &[])?.contains(&kept.word) {
            bail!("{} still has what was deleted", database.source);
        }
    }
    let restores: Vec<String> =
        DATABASES.iter().map(|database| restore(kubectl, database, &kept.id)).collect::<Result<_>>()?;
    for (database, restore) in DATABASES.iter().zip(&restores) {
        ends_well(kubectl, restore, step)?;
        still_has(kubectl, database, kept).with_context(|| format!("{} was restored by {restore}", database.source))?;
    }
    Ok(())
}

/// Both databases have what was written.
pub fn still_have(kubectl: &Kubectl<'_>, kept: &Kept) -> Result<()> {
    DATABASES.iter().try_for_each(|database| still_has(kubectl, database, kept))
}

fn still_has(kubectl: &Kubectl<'_>, database: &Database, kept: &Kept) -> Result<()> {
    let read = database.ask(kubectl, 2, &[])?;
    if !read.contains(&kept.word) {
        bail!("{} does not have {}, but {read:?}", database.source, kept.word);
    }
    Ok(())
}

/// Asks for a backup at once; returns its ID when it is complete.
fn back_up(kubectl: &Kubectl<'_>, token: &str, step: &Step) -> Result<String> {
    let before = jobs(kubectl)?;
    let asked = format!("causeway.example.com/backup-now={token}");
    kubectl.run(&["-n", "default", "annotate", "databasebackup", BACKUP, &asked, "--overwrite"])?;
    let job = step
        .wait_for("the Job of a backup", BACKUP_TIMEOUT, || Ok(jobs(kubectl)?.difference(&before).next().cloned()))?;
    step.wait_for(format!("{job} to back both databases up"), BACKUP_TIMEOUT, || {
        let ended = field(kubectl, &job, "{.status.conditions[?(@.status==\"True\")].type}")?;
        if ended.contains("Failed") {
            bail!("{job} failed:\n{}", kubectl.run(&["-n", "default", "logs", &job])?);
        }
        Ok(ended.contains("Complete").then_some(()))
    })?;
    field(kubectl, &job, "{.spec.template.spec.containers[0].env[?(@.name==\"CAUSEWAY_DUE\")].value}")
}

/// The Jobs of backups that somebody asked for.
fn jobs(kubectl: &Kubectl<'_>) -> Result<BTreeSet<String>> {
    let ours = format!("--selector=causeway.example.com/backup={BACKUP}");
    let names = kubectl.run(&["-n", "default", "get", "jobs", &ours, "-o", "name"])?;
    let now = format!("job.batch/{BACKUP}-now-");
    Ok(names.lines().filter(|name| name.starts_with(&now)).map(str::to_owned).collect())
}

/// Makes a DatabaseRestore; returns what kubectl calls it.
fn restore(kubectl: &Kubectl<'_>, database: &Database, id: &str) -> Result<String> {
    let (kind, name) = database.target;
    let object = json!({
        "apiVersion": "example.com/v1",
        "kind": "DatabaseRestore",
        "metadata": { "generateName": format!("{name}-back-") },
        "spec": {
            "from": { "backup": BACKUP, "source": database.source, "id": id },
            "target": { kind: { "name": name } },
            // Somebody may have tried the databases since they were made.
            "force": true,
        },
    });
    let made = kubectl.feed(&["-n", "default", "create", "-f", "-", "-o", "name"], &object.to_string())?;
    Ok(made.trim().to_owned())
}

fn ends_well(kubectl: &Kubectl<'_>, restore: &str, step: &Step) -> Result<()> {
    step.wait_for(format!("{restore} to succeed"), BACKUP_TIMEOUT, || {
        let phase = field(kubectl, restore, "{.status.phase}")?;
        if phase == "Failed" {
            bail!("{restore} failed: {}", field(kubectl, restore, "{.status.message}")?);
        }
        Ok((phase == "Succeeded").then_some(()))
    })
}

fn field(kubectl: &Kubectl<'_>, object: &str, path: &str) -> Result<String> {
    kubectl.run(&["-n", "default", "get", object, "-o", &format!("jsonpath={path}")])
}
