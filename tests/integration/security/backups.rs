//! A tenant who may run pods in a namespace runs them as `causeway-backup`, and so has the rights of its Jobs. These
//! give no access to backups of other namespaces, and do not allow to overwrite or delete its own.

use std::fmt::Debug;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use causeway_api::DatabaseBackup;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{Container, Namespace, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use serde_json::json;

use crate::backup::stage::{NAME, NEVER, Stage, describe, redis_command};
use crate::support::backends;
use crate::support::role::{self, Session};
use crate::support::{Operator, Scene};

const ACCOUNT: &str = "causeway-backup";

/// A token of the service account of Jobs, as the kubelet gives it to any pod that runs as it.
async fn token(scene: &Scene, namespace: &str) -> String {
    let asked = TokenRequest {
        spec: TokenRequestSpec { audiences: vec!["sts.amazonaws.com".into()], ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let api: Api<ServiceAccount> = Api::namespaced(scene.client.clone(), namespace);
    let answer = api.create_token_request(ACCOUNT, &PostParams::default(), &asked).await.expect("a token");
    answer.status.expect("a token").token
}

/// S3 with these credentials.
fn s3(scene: &Scene, session: &Session) -> Client {
    Client::from_conf(aws_sdk_s3::config::Builder::from(&session.config(scene)).force_path_style(true).build())
}

/// Checks that S3 refused a call.
fn refused<T: Debug, E>(what: &str, answer: Result<T, SdkError<E, HttpResponse>>)
where
    E: ProvideErrorMetadata + Debug,
{
    let error = answer.expect_err(what);
    let status = error.raw_response().map(|answer| answer.status().as_u16());
    assert_eq!(status, Some(403), "{what}: {error:?}");
    // An answer to HEAD has no body.
    assert!(matches!(error.code(), Some("AccessDenied") | None), "{what}: {error:?}");
}

fn evil() -> ByteStream {
    ByteStream::from_static(b"evil")
}

/// Tries what an attacker would try with the backup of another namespace.
async fn kept_out(s3: &Client, bucket: &str, namespace: &str, theirs: &str) {
    let key = || (bucket, theirs);
    let (at, of) = key();
    refused("read", s3.get_object().bucket(at).key(of).send().await);
    refused("look at", s3.head_object().bucket(at).key(of).send().await);
    refused("list all", s3.list_objects_v2().bucket(at).send().await);
    refused("list", s3.list_objects_v2().bucket(at).prefix(format!("{namespace}/")).send().await);
    refused("list uploads", s3.list_multipart_uploads().bucket(at).send().await);
    refused("overwrite", s3.put_object().bucket(at).key(of).body(evil()).send().await);
    let newer = theirs.replace("/data", "/forged");
    refused("forge", s3.put_object().bucket(at).key(newer).if_none_match("*").body(evil()).send().await);
    refused("begin an upload", s3.create_multipart_upload().bucket(at).key(of).send().await);
    refused("delete", s3.delete_object().bucket(at).key(of).send().await);
    let named = ObjectIdentifier::builder().key(of).build().expect("a key");
    let all = Delete::builder().objects(named).build().expect("keys");
    refused("delete several", s3.delete_objects().bucket(at).delete(all).send().await);
}

/// Checks that its own backups can be written once and read, but not overwritten or deleted.
async fn writes_once(s3: &Client, bucket: &str, key: &str) {
    let put = || s3.put_object().bucket(bucket).key(key).body(evil());
    refused("write without a condition", put().send().await);
    put().if_none_match("*").send().await.expect("an own backup is written");
    refused("overwrite", put().send().await);
    let error = put().if_none_match("*").send().await.expect_err("it is there already");
    assert_eq!(error.code(), Some("PreconditionFailed"), "{error:?}");
    refused("delete", s3.delete_object().bucket(bucket).key(key).send().await);
    let read = s3.get_object().bucket(bucket).key(key).send().await.expect("an own backup is read");
    assert_eq!(read.body.collect().await.expect("its data").to_vec(), b"evil");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_account_of_backups_has_nothing_of_another_namespace() {
    let bank = Stage::new("bank").await;
    let _operator = Operator::start(&bank).await;
    let address = bank.redis("cache").await;
    let () = redis_command(&address, &["SET", "greeting", "hello"]).await;
    bank.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER })).await;
    bank.backup_now("first").await;
    let status = bank.has_backups(1).await;
    let (bucket, prefix) = (bank.bucket(), status.prefix.expect("a prefix"));
    assert!(prefix.starts_with(&format!("{}/", bank.namespace)), "{prefix} does not begin with the namespace");
    let before = bank.keys(&bucket).await;
    let theirs = before.iter().find(|key| key.ends_with("/data")).expect("a backup").clone();

    let shop = format!("{}-shop", bank.namespace);
    let metadata = |name: &str| ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    let namespaces: Api<Namespace> = Api::all(bank.client.clone());
    let namespace = Namespace { metadata: metadata(&shop), ..Namespace::default() };
    namespaces.create(&PostParams::default(), &namespace).await.expect("a namespace");
    let accounts: Api<ServiceAccount> = Api::namespaced(bank.client.clone(), &shop);
    let account = ServiceAccount { metadata: metadata(ACCOUNT), ..ServiceAccount::default() };
    accounts.create(&PostParams::default(), &account).await.expect("a service account");
    let issuer = role::trust_cluster(&bank).await;
    role::put_jobs(&bank, &issuer, &shop).await;

    let token = token(&bank, &shop).await;
    let number = bank.emulator.account();
    let error = Session::by_token(&bank, &role::of_jobs(number, &bank.namespace), &token).await.expect_err("its role");
    assert!(error.contains("AccessDenied"), "{error}");
    let by_token = Session::by_token(&bank, &role::of_jobs(number, &shop), &token).await.expect("its own role");
    let by_eks = Session::of_pod(&bank, &shop).await;
    for (session, name) in [(by_token, "by-token"), (by_eks, "by-eks")] {
        let s3 = s3(&bank, &session);
        kept_out(&s3, &bucket, &bank.namespace, &theirs).await;
        writes_once(&s3, &bucket, &format!("{shop}/nightly/uid/redis-cache/{name}/data")).await;
        let listed = s3.list_objects_v2().bucket(&bucket).prefix(format!("{shop}/")).send().await.expect("its own");
        assert!(listed.contents().iter().all(|it| it.key().is_some_and(|key| key.starts_with(&shop))), "{listed:?}");
    }
    let after = bank.keys(&bucket).await;
    assert!(before.iter().all(|key| after.contains(key)), "{before:?} is not all of {after:?}");
    namespaces.delete(&shop, &DeleteParams::background()).await.expect("the namespace goes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenants_image_gets_no_token_for_s3() {
    const EVIL: &str = "registry.example.com/evil:1";
    let stage = Stage::new("evil-image").await;
    let _operator = Operator::start(&stage).await;
    backends::secret(&stage, "login", "password", "hunter2").await;
    let server = json!({ "host": "db", "image": EVIL, "authSecretName": "login" });
    let spec = json!({ "schedule": NEVER, "source": { "postgresql": server } });
    stage.create::<DatabaseBackup>(NAME, spec).await;
    stage.becomes("the schedule", |status| describe(status, "Ready").1 == "Scheduled").await;
    let schedule = stage.api::<CronJob>().get(NAME).await.expect("the CronJob").spec.expect("a spec");
    let template = schedule.job_template.spec.expect("a Job").template;
    let pod = template.spec.expect("a pod");
    let is_token = |volume: &&k8s_openapi::api::core::v1::Volume| volume.projected.is_some();
    let tokens: Vec<String> = pod.volumes.iter().flatten().filter(is_token).map(|it| it.name.clone()).collect();
    let has_token = |it: &Container| it.volume_mounts.iter().flatten().any(|mount| tokens.contains(&mount.name));
    let all: Vec<&Container> = pod.init_containers.iter().flatten().chain(&pod.containers).collect();
    let (evil, ours): (Vec<&Container>, Vec<&Container>) =
        all.into_iter().partition(|it| it.image.as_deref() == Some(EVIL));
    assert_eq!((evil.len(), tokens.len()), (1, 1), "{pod:?}");
    assert!(ours.iter().any(|it| has_token(it)), "no container of ours can write to S3: {pod:?}");
    assert!(!has_token(evil[0]), "{:?}", evil[0]);
    assert!(!evil[0].env.iter().flatten().any(|it| it.name.starts_with("AWS_")), "{:?}", evil[0]);
    let annotations = template.metadata.and_then(|it| it.annotations).unwrap_or_default();
    let without = annotations.get("eks.amazonaws.com/skip-containers").expect("containers without credentials");
    assert!(without.split(',').any(|name| name == evil[0].name), "EKS gives {} credentials: {without}", evil[0].name);
}
