//! Databases that must keep what was written, in S3 too.

use anyhow::Result;

use super::super::objects;
use super::super::scene::{Scene, Watch, require};
use crate::demo::backups::Backups;

/// Creates both databases, writes into them, and reads what was written.
pub fn come_up(scene: &Scene<'_>, watch: &Watch<'_>) -> Result<Vec<String>> {
    scene.apply(&objects::databases(&scene.run, &scene.wishes))?;
    let mut seen = Vec::new();
    for (object, first) in
        [("etcdcluster/prod-etcd", "{.status.leader}"), ("redises.example.com/cache", "{.status.master}")]
    {
        watch.wait(scene, object, "condition=Ready")?;
        let says = scene.field(object, "{.status.conditions[?(@.type==\"Ready\")].message}")?;
        seen.push(format!("{object}: {} is first; {says}", scene.field(object, first)?));
    }
    let (kubectl, namespace) = (scene.kubectl(), scene.run.namespace());
    let databases = Backups::in_namespace(&kubectl, &namespace, watch.remaining());
    let word = databases.write(watch.step())?;
    databases.have(&word)?;
    seen.push(format!("wrote {word} into both, and read it"));
    scene.word.set(word).ok();
    Ok(seen)
}

/// Requests a backup, and waits until the status shows a backup of both.
pub fn back_up(scene: &Scene<'_>, watch: &Watch<'_>) -> Result<Vec<String>> {
    scene.apply(&objects::backup(&scene.run))?;
    let object = "databasebackup/backup";
    watch.wait(scene, object, "condition=Ready")?;
    let (kubectl, namespace) = (scene.kubectl(), scene.run.namespace());
    let databases = Backups::in_namespace(&kubectl, &namespace, watch.remaining());
    let kept = databases.back_up(require(&scene.word, "databases")?.clone(), watch.step())?;
    watch.wait(scene, object, "jsonpath={.status.upToDate}=2/2")?;
    let size = scene.field(object, "{.status.size}")?;
    let bucket = scene.field(object, "{.status.bucket}")?;
    let seen = vec![format!("2/2 are up to date: {size} as {} in {bucket}", kept.id())];
    scene.kept.set(kept).ok();
    Ok(seen)
}

/// Deletes what was written, restores it, and reads it.
pub fn restore(scene: &Scene<'_>, watch: &Watch<'_>) -> Result<Vec<String>> {
    let (kubectl, namespace) = (scene.kubectl(), scene.run.namespace());
    let kept = require(&scene.kept, "a backup")?;
    Backups::in_namespace(&kubectl, &namespace, watch.remaining()).lose_and_bring_back(kept, watch.step())?;
    let restores = kubectl.run(&[
        "-n",
        &namespace,
        "get",
        "databaserestores",
        "-o",
        "jsonpath={range .items[*]}{.metadata.name} {.status.phase}, {end}",
    ])?;
    Ok(vec![format!("deleted it from both, and read it again after {}", restores.trim_end_matches(", "))])
}
