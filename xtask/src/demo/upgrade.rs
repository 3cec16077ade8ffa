//! `cargo xtask upgrade`: an earlier version creates objects of all kinds, this version takes over, and then the
//! earlier one again.
//!
//! Neither may change more than it is asked to: no pod, volume, Service or balancer is replaced, no data is lost, and
//! each reads the backups of the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};

use super::backups::{Backups, Kept};
use super::install::NAMESPACE;
use super::kubectl::Kubectl;
use super::snapshot::Snapshot;
use super::{Local, PACKAGES, install, role, traffic};
use crate::cluster::{self, Cluster};
use crate::images::Which;
use crate::progress::{Progress, Step};
use crate::test::crates;
use crate::{cargo, host, images, localstack};

/// The cluster for this task alone.
const NAME: &str = "upgrade";
/// How long the new pods may take to lead. A leader that is asked to stop hands over at once, and its successor
/// reconciles databases right after that.
const TAKE_OVER: Duration = Duration::from_mins(2);
/// How long an edit may take. It starts at most one pod.
const EDIT: Duration = Duration::from_mins(2);

/// Options of `cargo xtask upgrade`.
#[derive(Args)]
pub struct Options {
    /// Tag or commit of the version to upgrade from, and to go back to
    #[arg(long)]
    from: String,
    /// A kind whose pods the upgrade replaces, as CHANGELOG.md says: redis, etcdcluster or myapp; may be repeated
    #[arg(long)]
    may_roll: Vec<String>,
    /// Leave the cluster running, to look into it
    #[arg(long)]
    keep: bool,
}

/// A version of the operator.
struct Version {
    /// Its name for the report.
    name: String,
    checkout: PathBuf,
    binary: PathBuf,
}

/// Upgrades and goes back. Fails with all changes that it found.
pub fn run(options: &Options) -> Result<()> {
    host::require_root()?;
    host::require_tools()?;
    let mut steps = Progress::new(cluster::STEPS + 10);
    steps.step("Install Debian packages", |step| host::install_packages(step, PACKAGES))?;
    let versions = steps.step("Build both versions", |step| {
        host::install_build_tools(step)?;
        let earlier = earlier(&options.from, step)?;
        let checkout = host::repo_root()?;
        let target = images::operator::target_directory()?;
        cargo::run(&mut build_command(&checkout), "this version", &target.join("upgrade/build.log"), step)?;
        let binary = target.join("debug/causeway");
        cluster::build(step)?;
        Ok([earlier, Version { name: "this version".to_owned(), checkout, binary }])
    })?;
    let [earlier, this] = &versions;
    // A failed run may have left its cluster.
    Cluster::down(NAME)?;
    let cluster = Cluster::up_in_memory(NAME, &mut steps)?;
    let localstack = steps.step("Start LocalStack", |step| localstack::start(&cluster, step))?;
    let local = Local {
        cluster: &cluster,
        localstack: &localstack,
        binary: &this.binary,
        kubectl: Kubectl::local(&cluster),
        by_helm: false,
    };
    let kept = steps.step(format!("Install {}, apply its examples, back them up", earlier.name), |step| {
        role::create(&local.kubectl, &localstack)?;
        images::push(Which::OfExamples, &cluster, step)?;
        local.install_of(&earlier.checkout, &earlier.binary, step)?;
        install::examples(&local.kubectl, &earlier.checkout)?;
        install::balancer_shows(&local.kubectl, "myapp", "alb.dns", step)?;
        install::pods_running(&local.kubectl, step)?;
        install::members_healthy(&local.kubectl, step)?;
        install::replicas_follow(&local.kubectl, step)?;
        traffic::wait_for_answer(&local, step)?;
        Backups::of_examples(&local.kubectl).write_and_back_up(step)
    })?;
    let change = |steps: &mut Progress, version: &Version, replicas: u32, kept: &Kept| {
        let before = Snapshot::now(&local.kubectl, &localstack)?;
        steps.step(format!("Let {} take over", version.name), |step| {
            local.install_of(&version.checkout, &version.binary, step)?;
            leads(&local.kubectl, step)
        })?;
        steps.step("Edit every object, and see that nothing else changes", |step| {
            edit(&local.kubectl, replicas, step)?;
            let now = Snapshot::now(&local.kubectl, &localstack)?;
            let changes = before.changes_until(&now, &options.may_roll, &localstack)?;
            if !changes.is_empty() {
                bail!("{} changed what it was not asked for:\n{}", version.name, changes.join("\n"));
            }
            traffic::ask(&local)?;
            Backups::of_examples(&local.kubectl).still_have(kept)
        })?;
        steps.step("Bring a backup of the other version back", |step| {
            Backups::of_examples(&local.kubectl).lose_and_bring_back(kept, step)?;
            Backups::of_examples(&local.kubectl).write_and_back_up(step)
        })
    };
    let kept = change(&mut steps, this, 4, &kept)?;
    change(&mut steps, earlier, 5, &kept)?;
    println!(
        "\n{} → this version → {}: nothing was replaced, and each read the other's backup.",
        earlier.name, earlier.name
    );
    if !options.keep {
        Cluster::down(NAME)?;
    }
    Ok(())
}

/// Checks out that commit without Git's own files, and builds its program.
fn earlier(revision: &str, step: &Step) -> Result<Version> {
    let root = host::repo_root()?;
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").args(arguments).current_dir(&root).output().context("cannot start git")?;
        if !output.status.success() {
            bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=10", &format!("{revision}^{{commit}}")])?;
    let folder = root.join("target/upgrade").join(&commit);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    step.note(format!("unpacking {commit}"));
    let mut archive = Command::new("git")
        .args(["archive", &commit])
        .current_dir(&root)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start git")?;
    let files = archive.stdout.take().context("git has an output")?;
    let unpacked =
        Command::new("tar").arg("-x").current_dir(&folder).stdin(files).status().context("cannot start tar")?;
    if !archive.wait()?.success() || !unpacked.success() {
        bail!("cannot unpack {commit}");
    }
    let binary = build_apart(&folder, step)?;
    Ok(Version { name: format!("version {commit}"), checkout: folder, binary })
}

/// Compiles the operator of another checkout. Its crates have the same names as ours, and Cargo would confuse them. So
/// they get a target directory of their own, which also contains compiled crates from registries.
fn build_apart(checkout: &Path, step: &Step) -> Result<PathBuf> {
    let target = images::operator::target_directory()?.join("upgrade/target");
    crates::fetch_into(&target, step)?;
    // Crates of another version in that directory would also be taken for these, if they are newer than the sources.
    let ours = ["debug/.fingerprint", "debug/deps", "debug/incremental"].map(|folder| target.join(folder));
    for entry in ours.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten() {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.trim_start_matches("lib").starts_with("causeway-") {
            if path.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
        }
    }
    let mut command = build_command(checkout);
    command.env("CARGO_TARGET_DIR", &target);
    cargo::run(&mut command, "the earlier version", &target.join("build.log"), step)?;
    Ok(target.join("debug/causeway"))
}

/// The same command as for the tests: with all packages of the workspace, crates have the same features and are
/// compiled once.
fn build_command(checkout: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["build", "--locked", "--workspace", "--bin", "causeway"]).current_dir(checkout);
    command
}

/// Waits until pods of the new Deployment lead for all kinds.
fn leads(kubectl: &Kubectl<'_>, step: &Step) -> Result<()> {
    step.wait_for("the new pods to lead", TAKE_OVER, || {
        let get = |what| kubectl.run(&["-n", NAMESPACE, "get", what, "-o", "json"]);
        let (pods, leases): (Value, Value) =
            (serde_json::from_str(&get("pods")?)?, serde_json::from_str(&get("leases")?)?);
        let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
        let stays = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] == "Running";
        let pods: Vec<Value> = items(&pods).into_iter().filter(stays).collect();
        let leads = |lease: &Value| {
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).any(|pod| holder.starts_with(pod))
        };
        let leases = items(&leases);
        Ok((!leases.is_empty() && leases.iter().all(leads)).then_some(()))
    })
}

/// Changes each object, so that the operator must reconcile it, and waits until it matches its spec.
fn edit(kubectl: &Kubectl<'_>, number: u32, step: &Step) -> Result<()> {
    let edits: [(&str, Value); 6] = [
        ("myingress/web", json!({ "tags": { "edited": number.to_string() } })),
        ("myapp/web", json!({ "replicas": number })),
        ("redis/cache", json!({ "replicas": number })),
        ("etcdcluster/prod-etcd", json!({ "backupSchedule": format!("{number} 2 * * *") })),
        ("databasebackup/backup", json!({ "schedule": format!("*/{} * * * *", 5 + number) })),
        ("myapp/example-app", json!({ "replicas": number })),
    ];
    for (object, spec) in &edits {
        let patch = json!({ "spec": spec }).to_string();
        kubectl.run(&["-n", "default", "patch", object, "--type=merge", "--patch", &patch])?;
    }
    for (object, _) in &edits {
        step.wait_for(format!("{object} to be ready again"), EDIT, || {
            let read: Value = serde_json::from_str(&kubectl.run(&["-n", "default", "get", object, "-o", "json"])?)?;
            let conditions = read["status"]["conditions"].as_array().into_iter().flatten();
            let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
            let generation = &read["metadata"]["generation"];
            let done = ready.any(|it| it["status"] == "True" && it["observedGeneration"] == *generation);
            Ok(done.then_some(()))
        })
        .with_context(|| install::what_happened(kubectl, "default"))?;
    }
    Ok(())
}
