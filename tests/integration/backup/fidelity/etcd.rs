//! Which features of an etcd come back.

use causeway_api::databaserestore::RestorePhase;
use etcd_client::{Client, GetOptions, KeyValue, LeaseGrantOptions, Permission, PutOptions};
use serde_json::json;

use super::{documented, together};
use crate::backup::control_restore::etcd;
use crate::backup::disaster::restored;
use crate::backup::stage::{NAME, Stage};
use crate::support::Operator;

const LEASE: i64 = 4711;

async fn fill(client: &mut Client) {
    for number in 0..100 {
        client.put(format!("key-{number}"), format!("value-{number}"), None).await.expect("written");
    }
    let odd: [(&[u8], &[u8]); 2] = [(b"bytes/\0\xff", b"\0\xff\n"), (b"bytes/empty", &[])];
    for (key, value) in odd {
        client.put(key, value, None).await.expect("written");
    }
    for value in ["one", "two", "three"] {
        client.put("changed", value, None).await.expect("written");
    }
    client.lease_grant(100_000, Some(LeaseGrantOptions::new().with_id(LEASE))).await.expect("a lease");
    client.put("leased", "value", Some(PutOptions::new().with_lease(LEASE))).await.expect("written");
    client.role_add("reader").await.expect("a role");
    client.role_grant_permission("reader", Permission::read("key-1")).await.expect("a right");
    client.user_add("app", "of the app", None).await.expect("a user");
    client.user_grant_role("app", "reader").await.expect("a member");
}

async fn pair(client: &mut Client, key: &str, revision: i64) -> Option<KeyValue> {
    let options = GetOptions::new().with_revision(revision);
    client.get(key, Some(options)).await.expect("an answer").take_kvs().pop()
}

async fn pairs(client: &mut Client, prefix: &str) -> String {
    let found = client.get(prefix, Some(GetOptions::new().with_prefix())).await.expect("an answer");
    format!("{:?}", found.kvs().iter().map(|pair| (pair.key(), pair.value())).collect::<Vec<_>>())
}

/// The answers to all questions, each with its feature.
async fn look(client: &mut Client) -> Vec<(&'static str, String)> {
    let changed = pair(client, "changed", 0).await;
    let earlier = match &changed {
        Some(pair_now) => pair(client, "changed", pair_now.mod_revision() - 1).await,
        None => None,
    };
    let counters = changed.as_ref().map(|pair| (pair.version(), pair.create_revision(), pair.mod_revision()));
    let leased = pair(client, "leased", 0).await;
    let lease = client.lease_time_to_live(LEASE, None).await.expect("an answer").granted_ttl();
    let users = client.user_list().await.expect("users").users().to_vec();
    let roles = client.role_list().await.expect("roles").roles().to_vec();
    vec![
        ("keys and values", pairs(client, "key-").await),
        ("binary and empty values, binary keys", pairs(client, "bytes/").await),
        ("keys that have a lease", format!("{:?}", leased.as_ref().map(KeyValue::value))),
        ("leases, and which keys go with them", format!("{lease} {:?}", leased.as_ref().map(KeyValue::lease))),
        ("earlier values of keys", format!("{:?}", earlier.as_ref().map(KeyValue::value))),
        ("versions and revisions of keys", format!("{counters:?}")),
        ("users", format!("{users:?}")),
        ("roles", format!("{roles:?}")),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_features_of_etcd_match_the_documentation() {
    let stage = Stage::new("fidelity-etcd").await;
    let _operator = Operator::start(&stage).await;
    futures::join!(stage.etcd("prod-etcd"), stage.etcd("other"));
    let mut from = etcd(&stage, "prod-etcd").await;
    let bare = look(&mut from).await;
    fill(&mut from).await;
    let made = look(&mut from).await;
    stage.backed_up(json!({ "etcdCluster": { "name": "prod-etcd" } })).await;

    let target = json!({ "etcdCluster": { "name": "other" } });
    let (phase, reason, message) = restored(&stage, "back", json!({ "backup": NAME }), target).await;
    assert_eq!(phase, RestorePhase::Succeeded, "{reason}: {message}");
    let back = look(&mut etcd(&stage, "other").await).await;
    let features: Vec<_> = bare.iter().map(|it| it.0).collect();
    let looks = [bare, made, back].map(|look| look.into_iter().map(|it| it.1).collect());
    documented("etcd", &together(features.into_iter(), looks));
}
