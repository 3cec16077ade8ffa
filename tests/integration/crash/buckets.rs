//! Reads the backups of an account in S3 and the reports of objects about them, without the parts that depend on time.

use serde_json::{Value, json};

use crate::support::Scene;

/// The account's buckets: their settings, and the keys in them.
pub async fn buckets(scene: &Scene) -> Vec<Value> {
    let s3 = scene.s3();
    let mut all = Vec::new();
    for name in names(scene).await {
        let tags = s3.get_bucket_tagging().bucket(&name).send().await.map(|it| format!("{:?}", it.tag_set)).ok();
        let block = s3.get_public_access_block().bucket(&name).send().await.ok();
        let owner = s3.get_bucket_ownership_controls().bucket(&name).send().await.ok();
        let policy = s3.get_bucket_policy().bucket(&name).send().await.ok().and_then(|it| it.policy);
        let rules = s3.get_bucket_lifecycle_configuration().bucket(&name).send().await.ok();
        let uploads = s3.list_multipart_uploads().bucket(&name).send().await.expect("a list").uploads().len();
        all.push(json!({
            "name": name,
            "tags": tags,
            "block": block.map(|it| format!("{:?}", it.public_access_block_configuration)),
            "owner": owner.map(|it| format!("{:?}", it.ownership_controls)),
            "policy": policy,
            "rules": rules.map(|it| format!("{:?}", it.rules)),
            "uploads": uploads,
            "keys": backups_among(&keys(scene, &name).await),
        }));
    }
    all
}

/// The keys, without data and signatures that have no manifest and so are no backup: what a dead run left behind is
/// deleted an hour later.
fn backups_among(keys: &[String]) -> Vec<String> {
    let of_backup = |key: &&String| {
        let Some((folder, file)) = key.rsplit_once('/') else { return true };
        !matches!(file, "data" | "manifest.json.sig") || keys.contains(&format!("{folder}/manifest.json"))
    };
    keys.iter().filter(of_backup).cloned().collect()
}

/// Empties and removes the account's buckets.
pub async fn remove(scene: &Scene) {
    let s3 = scene.s3();
    for name in names(scene).await {
        for key in keys(scene, &name).await {
            s3.delete_object().bucket(&name).key(key).send().await.expect("an object goes");
        }
        s3.delete_bucket().bucket(&name).send().await.expect("the bucket goes");
    }
}

async fn names(scene: &Scene) -> Vec<String> {
    let answer = scene.s3().list_buckets().send().await.expect("a list");
    answer.buckets.unwrap_or_default().into_iter().filter_map(|bucket| bucket.name).collect()
}

/// Keys in a bucket.
pub async fn keys(scene: &Scene, bucket: &str) -> Vec<String> {
    let page = scene.s3().list_objects_v2().bucket(bucket).send().await.expect("a list");
    page.contents.unwrap_or_default().into_iter().filter_map(|object| object.key).collect()
}

/// The text with `<id>` in place of IDs of backups, which are instants.
pub fn without_ids(text: &str) -> String {
    const FORM: &[u8] = b"20000000T000000Z";
    let is_id = |word: &[u8]| {
        let alike = |(byte, form): (&u8, &u8)| if form.is_ascii_digit() { byte.is_ascii_digit() } else { byte == form };
        word.len() == FORM.len() && word.iter().zip(FORM).all(alike)
    };
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let id = rest.as_bytes().get(..FORM.len()).is_some_and(is_id);
        result.push_str(if id { "<id>" } else { &rest[..first.len_utf8()] });
        rest = &rest[if id { FORM.len() } else { first.len_utf8() }..];
    }
    result
}

/// A `DatabaseBackup` or `DatabaseRestore` without times, and without how many bytes it came to.
pub fn timeless(mut object: Value) -> Value {
    const TIMES: [&str; 9] =
        ["nextRun", "lastSuccess", "storedBytes", "size", "backupId", "started", "finished", "message", "keys"];
    if let Some(status) = object["status"].as_object_mut() {
        for time in TIMES.into_iter().chain(["recoverable", "signingKey"]) {
            status.remove(time);
        }
    }
    for run in object["status"]["recent"].as_array_mut().into_iter().flatten() {
        *run = json!({ "source": run["source"], "folder": run["folder"], "keys": run["keys"] });
    }
    for database in object["status"]["databases"].as_array_mut().into_iter().flatten() {
        database.as_object_mut().expect("a database").remove("newest");
    }
    for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition.as_object_mut().expect("a condition").remove("message");
    }
    object
}

/// A `Job`, a `CronJob` or a `ServiceAccount` without what differs from run to run.
pub fn child(mut object: Value) -> Value {
    // Owners are named by their uids, which are random: only their number is kept.
    let owners = object["owners"].as_array().map(Vec::len);
    object["owners"] = json!(owners);
    object
}
