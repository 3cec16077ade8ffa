//! Specs that the apiserver refuses, with a message that names the field and the fix; and what a condition reports about the
//! rest.

use std::fmt::Debug;

use causeway_api::{DatabaseBackup, DatabaseRestore, EtcdCluster, Redis};
use kube::Resource;
use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::stage::{NAME, NEVER, Stage, describe};
use crate::support::{Operator, Scene};

async fn refusal(scene: &Scene, field: &str, value: Value) -> String {
    let mut spec = json!({ "schedule": "@daily" });
    spec[field] = value;
    let outcome = scene.try_create::<DatabaseBackup>("refused", spec.clone()).await;
    outcome.expect_err(&format!("{spec} is refused")).to_string()
}

/// A server with programs of its own, with one field changed; `null` removes the field.
fn sql(change: &Value) -> Value {
    let mut server = json!({ "host": "db", "image": "postgres:15", "authSecretName": "login" });
    for (field, value) in change.as_object().into_iter().flatten() {
        server[field] = value.clone();
    }
    if let Some(fields) = server.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    server
}

#[tokio::test]
async fn statements_are_run_by_sql_servers_around_a_dump_alone() {
    let scene = Scene::new("crds").await;
    let hooks = json!({ "before": ["CHECKPOINT"], "after": ["CHECKPOINT"] });
    let spec = |source: Value, method: &str| {
        let retention = if method == "Wal" { json!({ "maxAge": "15d" }) } else { json!({ "keepLast": 1 }) };
        json!({ "schedule": "@daily", "hooks": hooks, "source": source, "method": method, "retention": retention })
    };
    let postgresql = || json!({ "postgresql": sql(&json!({})) });
    for (source, method) in [
        (postgresql(), "BaseBackup"),
        (postgresql(), "Wal"),
        (json!({ "redis": { "name": "cache" } }), "Dump"),
        (json!({ "redisServer": { "address": "cache:6379" } }), "Dump"),
        (json!({ "etcdCluster": { "name": "prod-etcd" } }), "Dump"),
        (json!({ "etcd": { "endpoints": ["http://etcd:2379"] } }), "Dump"),
    ] {
        let outcome = scene.try_create::<DatabaseBackup>("hooked", spec(source.clone(), method)).await;
        let answer = outcome.expect_err(&format!("{source} {method} is refused")).to_string();
        let words = "give spec.source.postgresql or spec.source.mysql, with method: Dump";
        assert!(answer.contains(words), "{answer}\nshould say: {words}");
    }
    for (name, source) in [("postgres", postgresql()), ("mysql", json!({ "mysql": sql(&json!({})) }))] {
        let taken = scene.create::<DatabaseBackup>(name, spec(source, "Dump")).await.spec.hooks.expect("hooks");
        assert_eq!((taken.before.len(), taken.after.len(), taken.timeout.seconds()), (1, 1, 300));
    }
}

#[tokio::test]
async fn refusals_of_backups_name_field_and_fix() {
    let scene = Scene::new("crds").await;
    let redis = json!({ "name": "cache" });
    for (field, value, words) in [
        ("schedule", json!("* * * *"), "spec.schedule must be a cron schedule of five fields, such as 0 2 * * *"),
        ("schedule", json!("@often"), "spec.schedule must be a cron schedule of five fields"),
        ("schedule", json!("TZ=UTC * * * * *"), "spec.schedule must be a cron schedule of five fields"),
        ("timeZone", json!("not a zone"), "spec.timeZone must be a name of the time zone database"),
        (
            "source",
            json!({}),
            "spec.source must have exactly one of etcdCluster, redis, etcd, redisServer, postgresql and mysql",
        ),
        (
            "source",
            json!({ "redis": redis, "etcdCluster": redis }),
            "spec.source must have exactly one of etcdCluster, redis, etcd, redisServer, postgresql and mysql",
        ),
        ("source", json!({ "etcd": { "endpoints": ["db:2379"] } }), "endpoints must be URLs without a path"),
        ("source", json!({ "etcd": { "endpoints": [] } }), "should have at least 1 items"),
        ("source", json!({ "redisServer": { "address": "db" } }), "address must be a host and a port"),
        (
            "source",
            json!({ "postgresql": sql(&json!({ "host": "db:5432" })) }),
            "host must be a name or an address without",
        ),
        ("source", json!({ "postgresql": sql(&json!({ "port": 0 })) }), "greater than or equal to 1"),
        (
            "source",
            json!({ "mysql": sql(&json!({ "database": "a\nb" })) }),
            "database must not have control characters",
        ),
        ("source", json!({ "mysql": sql(&json!({ "image": "a b" })) }), "image must be the reference of an image"),
        ("source", json!({ "mysql": sql(&json!({ "image": "$(id)" })) }), "image must be the reference of an image"),
        ("source", json!({ "mysql": sql(&json!({ "port": 99_999 })) }), "less than or equal to 65535"),
        ("source", json!({ "redisServer": { "address": "db:0" } }), "address must be a host and a port"),
        ("source", json!({ "redisServer": { "address": "db:65536" } }), "address must be a host and a port"),
        ("source", json!({ "etcd": { "endpoints": ["https://db:99999"] } }), "endpoints must be URLs without a path"),
        ("resources", json!({ "requests": { "memory": "-1Gi" } }), "spec.resources.requests.memory"),
        (
            "destination",
            json!({ "region": "eu-west-1", "kmsKeyId": "arn:aws:kms:us-east-1:111122223333:key/1234abcd" }),
            "spec.destination.kmsKeyId must be a key of the region of spec.destination.region",
        ),
        ("source", json!({ "mysql": sql(&json!({ "authSecretName": null })) }), "authSecretName: Required value"),
        (
            "source",
            json!({ "mysql": sql(&json!({})), "postgresql": sql(&json!({})) }),
            "spec.source must have exactly one of etcdCluster, redis, etcd, redisServer, postgresql and mysql",
        ),
        ("method", json!("BaseBackup"), "spec.method: BaseBackup and Wal are of a whole PostgreSQL"),
        ("hooks", json!({ "before": ["CHECKPOINT"] }), "spec.hooks are SQL statements around a dump"),
        ("hooks", json!({ "before": [" ;"] }), "spec.hooks.before must be SQL statements"),
        ("hooks", json!({ "after": ["SELECT '\u{0}'"] }), "spec.hooks.after must be SQL statements"),
        ("hooks", json!({ "after": [""] }), "spec.hooks.after[0] in body should be at least 1 chars long"),
        ("hooks", json!({ "after": vec!["CHECKPOINT"; 17] }), "must have at most 16 items"),
        ("hooks", json!({ "before": ["x".repeat(4097)] }), "spec.hooks.before[0]: Too long"),
        ("hooks", json!({ "timeout": "2h" }), "spec.hooks.timeout must be 1s to 1h"),
        ("method", json!("Wal"), "spec.retention of method: Wal must be {}, which keeps log as long"),
        ("retention", json!({}), "spec.retention keeps nothing: give at least one of keepLast"),
        ("retention", json!({ "keepLast": 0 }), "spec.retention keeps nothing"),
        ("retention", json!({ "maxAge": "soon" }), "spec.retention.maxAge must be hours, days or weeks"),
        ("retry", json!({ "deadline": "1s" }), "spec.retry.deadline must be 1m to 24h"),
        ("verify", json!({}), "spec.verify must have either schedule or afterEach: true"),
        ("verify", json!({ "schedule": "often" }), "spec.verify.schedule must be a cron schedule of five fields"),
        ("encryption", json!({ "recipients": [] }), "should have at least 1 items"),
        ("encryption", json!({ "recipients": ["ssh-ed25519 AAAA"] }), "must be public keys of age-keygen"),
        ("destination", json!({ "bucket": "My_Bucket" }), "spec.destination.bucket must have lower case letters"),
        ("destination", json!({ "prefix": "/a" }), "spec.destination.prefix must be of letters"),
        ("destination", json!({ "prefix": "a/../b" }), "spec.destination.prefix must have no part that is . or .."),
        ("destination", json!({ "prefix": ".." }), "spec.destination.prefix must have no part that is . or .."),
        ("destination", json!({ "storageClass": "GLACIER" }), "from others nothing can be read at once"),
        ("destination", json!({ "kmsKeyId": "alias/x" }), "spec.destination.kmsKeyId must be the ARN of a key"),
        ("destination", json!({ "endpoint": "minio" }), "spec.destination.endpoint must be a URL without a path"),
        ("deletionPolicy", json!("Keep"), "supported values: \"Delete\", \"Retain\""),
    ] {
        let answer = refusal(&scene, field, value).await;
        assert!(answer.contains(words), "{answer}\nshould say: {words}");
    }
    let log =
        json!({ "schedule": "@daily", "source": { "postgresql": sql(&json!({})) }, "method": "Wal", "retention": {} });
    let taken = scene.create::<DatabaseBackup>("log", log).await.spec.retention;
    assert_eq!((taken.keep_last, taken.max_age), (0, None), "base backups say how long log is kept");
    let base = json!({ "schedule": "@daily", "source": { "postgresql": sql(&json!({})) }, "method": "BaseBackup" });
    let answer = scene.try_create::<DatabaseBackup>("log", base).await.expect_err("the method stays").to_string();
    assert!(answer.contains("spec.method cannot change: make another DatabaseBackup"), "{answer}");
    scene.create::<DatabaseBackup>("kept", json!({ "schedule": "@daily", "destination": { "prefix": "a" } })).await;
    let edited = scene.try_create::<DatabaseBackup>("kept", json!({ "schedule": "@daily" })).await;
    let answer = edited.expect_err("the prefix stays").to_string();
    assert!(answer.contains("cannot change: make another DatabaseBackup"), "{answer}");
    the_server_stays(&scene).await;
}

/// Another server's backups would be taken for those of the one before, which retention would then delete.
async fn the_server_stays(scene: &Scene) {
    let spec = |source: &Value| json!({ "schedule": "@daily", "source": source });
    let postgresql = |more: Value| json!({ "postgresql": sql(&more) });
    let etcd = |endpoints: &[&str]| json!({ "etcd": { "endpoints": endpoints } });
    let redis = |address: &str| json!({ "redisServer": { "address": address } });
    let cases = [
        ("host", postgresql(json!({})), postgresql(json!({ "host": "another.example.com" })), "spec.source.postgresql"),
        ("database", postgresql(json!({})), postgresql(json!({ "database": "other" })), "spec.source.postgresql"),
        ("kind", postgresql(json!({})), redis("cache:6379"), "spec.source.postgresql"),
        ("address", redis("cache:6379"), redis("other:6379"), "spec.source.redisServer"),
        ("endpoints", etcd(&["http://a:2379", "http://b:2379"]), etcd(&["http://c:2379"]), "spec.source.etcd"),
    ];
    for (name, before, after, words) in cases {
        scene.create::<DatabaseBackup>(name, spec(&before)).await;
        let answer = scene.try_create::<DatabaseBackup>(name, spec(&after)).await.expect_err("a refusal").to_string();
        assert!(answer.contains(words) && answer.contains("cannot change"), "{name}: {answer}");
        let without = scene.try_create::<DatabaseBackup>(name, json!({ "schedule": "@daily" })).await;
        assert!(without.expect_err("a refusal").to_string().contains(words), "{name}");
    }
    // The same server in other words, and an etcd that loses a member.
    scene.create::<DatabaseBackup>("host", spec(&postgresql(json!({ "port": 5432, "image": "postgres:16" })))).await;
    scene.create::<DatabaseBackup>("endpoints", spec(&etcd(&["http://b:2379", "http://c:2379"]))).await;
}

#[tokio::test]
async fn refusals_of_restores_name_field_and_fix() {
    let scene = Scene::new("crds").await;
    let target = json!({ "redis": { "name": "cache" } });
    for (spec, field, words) in [
        (json!({ "from": { "backup": "b" }, "target": {} }), "spec.target", "spec.target must have exactly one of"),
        (
            json!({ "from": { "backup": "b", "id": "newest" }, "target": target }),
            "spec.from.id",
            "id must be latest or the ID of a backup",
        ),
        (json!({ "from": { "backup": "b" } }), "spec.target", "spec.target: Required value"),
    ] {
        let answer = scene.try_create::<DatabaseRestore>("back", spec).await.expect_err("a refusal").to_string();
        assert!(answer.contains(words) && answer.contains(field), "{answer}\nshould say: {words}");
    }
    scene.create::<DatabaseRestore>("back", json!({ "from": { "backup": "b" }, "target": target })).await;
    let other = json!({ "from": { "backup": "b" }, "target": target, "force": true });
    let answer = scene.try_create::<DatabaseRestore>("back", other).await.expect_err("a refusal").to_string();
    assert!(answer.contains("spec cannot change: a restore is done once; make another DatabaseRestore"), "{answer}");
}

async fn a_backup_to_begin_with_is_only_taken_at_the_beginning<K>(scene: &Scene, plain: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let from = |id: &str| json!({ "backup": "nightly", "id": id });
    let with = |from: Value| {
        let mut spec = plain.clone();
        spec["restoreFrom"] = from;
        spec
    };
    let answer = scene.try_create::<K>("begins", with(from("newest"))).await.expect_err("a refusal").to_string();
    assert!(answer.contains("spec.restoreFrom.id") && answer.contains("id must be latest or the ID"), "{answer}");

    let only_at_creation = "spec.restoreFrom can only be given when the object is created";
    let edit = async |name: &str, from: Value| {
        let patch = Patch::Merge(json!({ "spec": { "restoreFrom": from } }));
        scene.api::<K>().patch(name, &PatchParams::default(), &patch).await.map_err(|error| error.to_string())
    };
    scene.create::<K>("later", plain.clone()).await;
    let answer = edit("later", from("latest")).await.expect_err("a refusal");
    assert!(answer.contains(only_at_creation), "{answer}");

    scene.create::<K>("begins", with(from("latest"))).await;
    let answer = edit("begins", from("20261122T000500Z")).await.expect_err("a refusal");
    assert!(answer.contains(only_at_creation), "{answer}");
    edit("begins", Value::Null).await.expect("it may be removed");
    let answer = edit("begins", from("latest")).await.expect_err("a refusal");
    assert!(answer.contains(only_at_creation), "{answer}");
}

#[tokio::test]
async fn a_backup_to_begin_with_is_no_later_wish() {
    let scene = Scene::new("crds").await;
    let etcd = json!({ "version": "3.5.9", "replicas": 1, "suspend": true });
    a_backup_to_begin_with_is_only_taken_at_the_beginning::<EtcdCluster>(&scene, etcd).await;
    a_backup_to_begin_with_is_only_taken_at_the_beginning::<Redis>(&scene, json!({ "suspend": true })).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_controller_can_know_is_a_condition() {
    let stage = Stage::new("backup-invalid").await;
    let _operator = Operator::start(&stage).await;
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": "61 * * * *" })).await;
    stage.becomes("a complaint", |status| describe(status, "Stalled").1 == "ScheduleInvalid").await;
    stage.edit::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "timeZone": "Europe/Atlantis" })).await;
    let is_zone = |status: &causeway_api::DatabaseBackupStatus| {
        let stalled = status.conditions.iter().find(|it| it.type_ == "Stalled");
        stalled.is_some_and(|it| it.message.contains("spec.timeZone \"Europe/Atlantis\""))
    };
    stage.becomes("another", is_zone).await;
    stage.edit::<DatabaseBackup>(NAME, json!({ "timeZone": "Europe/Berlin" })).await;
    stage.becomes("no complaint", |status| describe(status, "Ready").0 == "True").await;
}
