//! Every field of every kind, with every kind of bad value: each object is refused with a message that names the field,
//! or gets ready, or reports what is wrong. No object may disturb another one or the operator.

mod mutations;
mod schema;

use std::collections::BTreeMap;

use causeway_api::definitions::definitions;
use futures::{StreamExt, stream};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::support::{Account, Operator, Scene, backends, full, sample, wait_for};
use mutations::{Mutation, mutations};
use schema::leaves;

/// Objects that are tried at the same time.
const AT_ONCE: usize = 12;

/// Edits that one object goes through, one after the other.
const EDITS_OF_ONE: usize = 25;

/// One of so many values is tried as an edit of an object. The API server's answer to each value is checked when
/// objects are created.
const EDITS_EVERY: usize = 4;

/// A kind under test, with a spec that is right.
struct Subject {
    kind: &'static str,
    api: Api<DynamicObject>,
    resource: ApiResource,
    schema: Value,
    good: Value,
    /// One of so many values is really created, if the API server accepts it in a dry run.
    creates_every: usize,
    /// Only fields whose paths begin with this are tried.
    beneath: &'static str,
}

impl Subject {
    fn new(scene: &Scene, kind: &'static str, good: Value, creates_every: usize) -> Self {
        let definition = definitions().into_iter().find(|it| it.spec.names.kind == kind).expect("a definition");
        let version = definition.spec.versions.into_iter().next().expect("a version");
        let gvk = GroupVersionKind::gvk(&definition.spec.group, &version.name, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &definition.spec.names.plural);
        let schema = serde_json::to_value(version.schema.and_then(|it| it.open_api_v3_schema)).expect("JSON");
        let api = Api::namespaced_with(scene.client.clone(), &scene.namespace, &resource);
        Self { kind, api, resource, schema: schema["properties"]["spec"].clone(), good, creates_every, beneath: "" }
    }

    fn object(&self, name: &str, spec: &Value) -> DynamicObject {
        DynamicObject::new(name, &self.resource).data(json!({ "spec": spec }))
    }

    fn mutations(&self) -> Vec<Mutation> {
        let mut mutations: Vec<_> = leaves(&self.schema).iter().flat_map(|leaf| mutations(leaf, &self.good)).collect();
        mutations.retain(|mutation| mutation.leaf.starts_with(self.beneath));
        // A hundred pods would keep a small machine busy for minutes: here it is enough that the number is accepted.
        for mutation in
            mutations.iter_mut().filter(|it| it.spec["replicas"].as_i64().is_some_and(|replicas| replicas > 3))
        {
            mutation.spec["suspend"] = json!(true);
        }
        mutations
    }

    async fn get(&self, name: &str) -> DynamicObject {
        self.api.get(name).await.expect("the object is there")
    }

    async fn wait_until(&self, name: &str, what: &str, good: fn(&DynamicObject) -> bool) -> DynamicObject {
        wait_for(&format!("{} {name} {what}", self.kind), || self.get(name), good).await
    }
}

/// Reports whether the status is about the present spec.
fn is_seen(object: &DynamicObject) -> bool {
    object.data["status"]["observedGeneration"].as_i64() == object.metadata.generation
}

fn condition<'a>(object: &'a DynamicObject, type_: &str) -> Option<&'a Value> {
    object.data["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

fn is_ready(object: &DynamicObject) -> bool {
    is_seen(object) && condition(object, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// Returns true if the object is ready, says why not, or is suspended on request.
fn has_spoken(object: &DynamicObject) -> bool {
    let is_described = |type_| {
        condition(object, type_)
            .is_some_and(|it| it["reason"] != "" && it["message"].as_str().is_some_and(|text| text.len() > 5))
    };
    is_seen(object)
        && (is_ready(object)
            || is_described("Stalled")
            || is_described("Reconciling")
            || condition(object, "Ready").is_some_and(|it| it["reason"] == "Suspended"))
}

fn reason(object: &DynamicObject) -> String {
    let found = ["Stalled", "Reconciling", "Ready"].iter().find_map(|type_| condition(object, type_));
    found.and_then(|it| it["reason"].as_str()).unwrap_or_default().to_owned()
}

/// The apiserver's refusal, which must name the field.
fn assert_names_the_field(mutation: &Mutation, refusal: &kube::Error) {
    let kube::Error::Api(status) = refusal else { panic!("{mutation}: no answer: {refusal}") };
    assert!([400, 422].contains(&status.code), "{mutation}: {status:?}");
    assert!(
        mutation.is_named_in(&status.message),
        "{mutation} is refused without naming the field: {}",
        status.message
    );
}

/// An object that a bad value stalls must name the field in its message.
fn assert_blames_the_field(mutation: &Mutation, object: &DynamicObject) {
    let Some(stalled) = condition(object, "Stalled") else { return };
    let message = stalled["message"].as_str().unwrap_or_default();
    assert!(mutation.is_named_in(message), "{mutation}: the message does not name the field: {message}");
}

/// How mutations ended, by outcome.
type Tally = BTreeMap<String, usize>;

/// Creates one object for each mutation, and waits until each has reported its state.
async fn create_each(subject: &Subject) -> Tally {
    let mutations = subject.mutations();
    let trials = mutations.iter().enumerate().map(|(index, mutation)| async move {
        let name = format!("bad-{index}");
        let object = subject.object(&name, &mutation.spec);
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        if let Err(refusal) = subject.api.create(&dry_run, &object).await {
            assert_names_the_field(mutation, &refusal);
            return "refused".to_owned();
        }
        if !sample::tries(index, subject.creates_every) {
            return "accepted".to_owned();
        }
        subject.api.create(&PostParams::default(), &object).await.expect("what the dry run accepted is accepted");
        let object =
            subject.wait_until(&name, &format!("({mutation}) to get ready or to report why not"), has_spoken).await;
        let reason = reason(&object);
        assert_ne!(reason, "Panicked", "{mutation}: {:?}", object.data["status"]);
        assert_blames_the_field(mutation, &object);
        // This object has shown what was to be seen: its deletion makes room for others.
        retain_nothing(subject, &name, &mutation.spec).await;
        delete(subject, &name).await;
        reason
    });
    tally(stream::iter(trials).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await)
}

/// Edits good objects badly and back, and waits until each is ready again.
async fn edit_each(subject: &Subject) -> Tally {
    let numbered = subject.mutations().into_iter().enumerate();
    let mutations: Vec<_> = numbered.filter(|(n, _)| sample::tries(*n, EDITS_EVERY)).map(|(_, it)| it).collect();
    let trials = mutations.chunks(EDITS_OF_ONE).enumerate().map(|(index, mutations)| async move {
        let name = format!("edited-{index}");
        subject.api.create(&PostParams::default(), &subject.object(&name, &subject.good)).await.expect("a good object");
        subject.wait_until(&name, "to be ready", is_ready).await;
        let mut outcomes = Vec::new();
        for mutation in mutations {
            if let Err(refusal) = replace(subject, &name, &mutation.spec).await {
                assert_names_the_field(mutation, &refusal);
                outcomes.push("refused".to_owned());
                continue;
            }
            let what = format!("({mutation}) to get ready or to report why not");
            outcomes.push(reason(&subject.wait_until(&name, &what, has_spoken).await));
            replace(subject, &name, &subject.good).await.expect("the good spec is accepted");
            subject.wait_until(&name, &format!("to be ready again after: {mutation}"), is_ready).await;
        }
        delete(subject, &name).await;
        outcomes
    });
    let outcomes = stream::iter(trials).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    tally(outcomes.into_iter().flatten())
}

/// Deletes the object and waits until it is gone: only then there is room for the next one.
async fn delete(subject: &Subject, name: &str) {
    subject.api.delete(name, &DeleteParams::default()).await.expect("the deletion is accepted");
    let look = || async { subject.api.get_opt(name).await.expect("an answer").is_some() };
    wait_for(&format!("{} {name} to be gone", subject.kind), look, |there| !there).await;
}

/// Makes sure that the deletion leaves nothing behind: the mutations include `Retain`, and protection from deletion by
/// AWS.
async fn retain_nothing(subject: &Subject, name: &str, spec: &Value) {
    let mut good = subject.good.clone();
    if spec["deletionProtection"] == true {
        // Protection is turned off only by a spec that says so, before the deletion.
        good["deletionProtection"] = json!(false);
    } else if spec["deletionPolicy"] != "Retain" {
        return;
    }
    replace(subject, name, &good).await.expect("the good spec is accepted");
}

/// Replaces the spec as a whole: a merge would keep what the mutation leaves out.
async fn replace(subject: &Subject, name: &str, spec: &Value) -> Result<(), kube::Error> {
    let patch = json!([{ "op": "replace", "path": "/spec", "value": spec }]);
    let patch: Patch<Value> = Patch::Json(serde_json::from_value(patch).expect("a patch"));
    subject.api.patch(name, &PatchParams::default(), &patch).await.map(drop)
}

fn tally(outcomes: impl IntoIterator<Item = String>) -> Tally {
    let mut tally = Tally::new();
    for outcome in outcomes {
        *tally.entry(outcome).or_default() += 1;
    }
    tally
}

/// Checks that the operator still serves: an object beside the bad ones follows a change of its spec.
async fn assert_unharmed(subject: &Subject, changed: &Value) {
    replace(subject, "witness", changed).await.expect("the change is accepted");
    subject.wait_until("witness", "to follow its spec beside bad objects", is_ready).await;
    for object in subject.api.list(&ListParams::default()).await.expect("a list") {
        assert_ne!(reason(&object), "Panicked", "{}: {:?}", object.name_any(), object.data["status"]);
    }
}

async fn delete_all(subject: &Subject) {
    subject
        .api
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .expect("the deletion is accepted");
    let left = || async {
        let list = subject.api.list(&ListParams::default()).await.expect("a list").items;
        list.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    wait_for(&format!("every {} to be gone", subject.kind), left, Vec::is_empty).await;
}

async fn try_everything(subject: &Subject, changed: Value) {
    let begun = std::time::Instant::now();
    subject.api.create(&PostParams::default(), &subject.object("witness", &subject.good)).await.expect("a good object");
    subject.wait_until("witness", "to be ready", is_ready).await;
    let created = create_each(subject).await;
    let edited = edit_each(subject).await;
    assert_unharmed(subject, &changed).await;
    delete_all(subject).await;
    let total = created.values().sum::<usize>();
    println!(
        "» fields of {}: {total} bad values; created: {created:?}; edited in and out: {edited:?}; {} s",
        subject.kind,
        begun.elapsed().as_secs(),
    );
    assert!(total > 30, "the schema has more fields than that");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_field_value_of_a_my_ingress_does_harm() {
    let scene = Scene::new("fields").await;
    scene.emulator.settings(json!({ "load_balancers": 500, "draining_scale": 0 })).await;
    full::stage(&scene).await;
    let sweep = std::time::Duration::from_secs(30);
    let _operator = Operator::start_with(&scene, Operator::client().await, scene.aws.clone(), sweep);
    let good = full::spec(&scene);
    let mut changed = good.clone();
    changed["subnets"] = json!(["subnet-abc", "subnet-ghi"]);
    try_everything(&Subject::new(&scene, "MyIngress", good, 10), changed).await;
    let after = Account::of(&scene).await;
    assert!(after.is_empty(), "{}", after.text());
}

#[tokio::test]
async fn no_field_value_of_a_my_app_does_harm() {
    let scene = Scene::new("fields").await;
    let _operator = Operator::start(&scene).await;
    let subject =
        Subject::new(&scene, "MyApp", json!({ "image": "nginx:latest", "banner": "hello", "replicas": 1 }), 3);
    try_everything(&subject, json!({ "image": "nginx:latest", "banner": "bye", "replicas": 1 })).await;
    wait_for("every pod to be gone", || scene.pods(), Vec::is_empty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_field_value_of_a_database_backup_does_harm() {
    let scene = Scene::new("fields").await;
    // The proof of encrypted backups needs this Secret: nothing but the tried value is to be wrong.
    backends::secret(&scene, "shop-age", "identity", "AGE-SECRET-KEY-1").await;
    let _operator = Operator::start(&scene).await;
    let good = json!({
        "schedule": "0 3 1 1 *",
        "timeZone": "Europe/Berlin",
        "startingDeadline": "600s",
        "source": { "redisServer": { "address": "127.0.0.1:6379" } },
        "destination": { "prefix": "team-a" },
        "encryption": {
            "recipients": ["age1ljmwwkts2649rkhmf3tu0nk6vfz849ync5ynh5tjgqzzke2pz90sww4d6y"],
            "identitySecretName": "shop-age",
        },
        "retention": { "keepLast": 1 },
        "retry": { "limit": 0, "deadline": "60s" },
        "resources": { "requests": { "cpu": "10m" } },
        "deletionPolicy": "Delete",
    });
    let mut changed = good.clone();
    changed["schedule"] = json!("@yearly");
    try_everything(&Subject::new(&scene, "DatabaseBackup", good, 4), changed).await;
    let buckets = scene.s3().list_buckets().send().await.expect("a list").buckets.unwrap_or_default();
    assert!(buckets.is_empty(), "{buckets:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_field_value_of_a_server_image_does_harm() {
    let scene = Scene::new("fields").await;
    let _operator = Operator::start(&scene).await;
    for (field, beneath) in [("postgresql", "source.postgresql"), ("mysql", "source.mysql")] {
        let server = json!({
            "host": "127.0.0.1", "port": 1, "database": "shop", "image": "postgres:15", "authSecretName": "login",
            "tlsSecretName": "tls",
        });
        let good = json!({ "schedule": "0 3 1 1 *", "source": { (field): server }, "deletionPolicy": "Delete" });
        let subject = Subject { beneath, ..Subject::new(&scene, "DatabaseBackup", good, 8) };
        let created = create_each(&subject).await;
        println!("» fields of {field}: {created:?}");
        assert!(created.values().sum::<usize>() > 30, "the schema has more fields than that");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_field_value_of_an_etcd_cluster_does_harm() {
    let scene = Scene::new("fields").await;
    let _operator = Operator::start(&scene).await;
    let good = json!({
        "version": "3.5.9",
        "replicas": 1,
        "storageSize": "1Gi",
        "resources": { "requests": { "cpu": "10m" } },
        "config": { "snapshot-count": "5000" },
        "tls": { "peer": {}, "client": { "mode": "Allow" } },
        "auth": { "enabled": true },
        "defrag": { "schedule": "0 3 1 1 *" },
        "deletionPolicy": "Delete",
    });
    // Members take seconds to start: few are created, and other tests try what an edit does to them.
    let subject = Subject::new(&scene, "EtcdCluster", good, 40);
    let created = create_each(&subject).await;
    println!("» fields of EtcdCluster: {created:?}");
    assert!(created.values().sum::<usize>() > 30, "the schema has more fields than that");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_field_value_of_a_database_restore_does_harm() {
    let scene = Scene::new("fields").await;
    let _operator = Operator::start(&scene).await;
    let good = json!({
        "from": { "backup": "nightly", "source": "Redis/cache", "id": "latest", "identitySecretName": "shop-age" },
        "target": { "redis": { "name": "cache" } },
        "force": true,
        "onDependents": "Fail",
        "dryRun": true,
        "deadline": "60s",
    });
    let subject = Subject::new(&scene, "DatabaseRestore", good, 2);
    let created = create_each(&subject).await;
    println!("» fields of DatabaseRestore, which cannot be edited: {created:?}");
    assert!(created.values().sum::<usize>() > 30, "the schema has more fields than that");
    assert!(subject.api.list(&ListParams::default()).await.expect("a list").items.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_field_value_of_a_partial_backup_does_harm() {
    let scene = Scene::new("fields").await;
    backends::secret(&scene, "login", "password", "unused").await;
    let _operator = Operator::start(&scene).await;
    for beneath in ["include", "exclude"] {
        let good = json!({
            "from": { "backup": "base" },
            "include": { "databases": ["shop"], "schemas": ["sales"], "tables": ["public.orders"] },
            "exclude": { "schemas": ["audit"], "tables": ["public.sessions"] },
            "target": { "postgresql": { "host": "127.0.0.1", "port": 1, "image": "postgres:15", "authSecretName": "login" } },
        });
        let subject = Subject { beneath, ..Subject::new(&scene, "DatabaseRestore", good, 4) };
        let created = create_each(&subject).await;
        println!("» fields of spec.{beneath}: {created:?}");
        assert!(created.values().sum::<usize>() > 8, "the schema has more fields than that");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_field_value_of_a_pitr_does_harm() {
    let scene = Scene::new("fields").await;
    // Nothing but the tried value is to be wrong, except that the backups are missing: restores wait for them.
    backends::secret(&scene, "login", "password", "unused").await;
    let _operator = Operator::start(&scene).await;
    let good = json!({
        "from": { "backup": "base" },
        "pointInTime": { "until": "2026-11-22T11:59:00.25Z", "log": "log", "image": "postgres:15" },
        "target": { "postgresql": { "host": "127.0.0.1", "port": 1, "image": "postgres:15", "authSecretName": "login" } },
    });
    let subject = Subject { beneath: "pointInTime", ..Subject::new(&scene, "DatabaseRestore", good, 2) };
    let created = create_each(&subject).await;
    println!("» fields of spec.pointInTime: {created:?}");
    assert!(created.values().sum::<usize>() > 20, "the schema has more fields than that");
    assert!(subject.api.list(&ListParams::default()).await.expect("a list").items.is_empty());
}
