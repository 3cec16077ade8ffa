//! TLS among members and with clients: from the start, turned on and off under load, renewed, and given by the user.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use causeway_api::EtcdCluster;
use causeway_databases::etcd::{Credentials, Endpoint, Grpc, Reply, Request, Transport};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::DeleteParams;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};

use super::access::{self, SERVERS, text};
use super::checker::Checker;
use super::{NAME, Stage, WAIT_TIMEOUT, pods, running, settled, spec, stalls, successor, took, uids};
use crate::support::certificates::give;
use crate::support::rollout_watch::RolloutWatch;
use crate::support::wait::wait_within;
use crate::support::{Operator, Scene};

/// TLS everywhere, with certificates of clients.
fn strict() -> Value {
    json!({ "peer": {}, "client": { "verifyClients": true } })
}

/// The peer URLs that the members advertise; `None` if the member that is asked does not answer.
async fn peer_urls(scene: &Scene) -> Option<BTreeSet<String>> {
    let pod = pods(scene).await.pop().expect("a pod");
    let address = pod.status.as_ref()?.pod_ip.clone()?;
    let endpoint = access::endpoint(&scene.api(), &address, access::speaks_tls(&pod)).await;
    let grpc = Grpc::default();
    let call = tokio::time::timeout(std::time::Duration::from_secs(5), grpc.call(&endpoint, &Request::Members));
    match call.await.ok()?.ok()? {
        Reply::Members(members) => Some(members.into_iter().flat_map(|member| member.peer_urls).collect()),
        other => panic!("{other:?}"),
    }
}

/// Waits until all members advertise URLs of that scheme.
async fn all_by(scene: &Scene, scheme: &str) {
    let start = format!("{scheme}://");
    let all = |urls: &Option<BTreeSet<String>>| {
        urls.as_ref().is_some_and(|urls| !urls.is_empty() && urls.iter().all(|url| url.starts_with(&start)))
    };
    wait_within(WAIT_TIMEOUT, &format!("peer URLs of {scheme}"), || peer_urls(scene), all).await;
}

/// Reports whether a client without TLS is answered by a member.
async fn answers_without(pod: &Pod) -> bool {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).expect("an address");
    let endpoint = Endpoint { url: format!("http://{address}:2379"), tls: None, login: None };
    let grpc = Grpc::default();
    let call = tokio::time::timeout(std::time::Duration::from_secs(2), grpc.call(&endpoint, &Request::Status));
    matches!(call.await, Ok(Ok(_)))
}

/// The certificate that a member presents to clients.
async fn shown_certificate(pod: &Pod, credentials: Credentials) -> Option<Vec<u8>> {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone())?;
    let look = move || {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(
            CertificateDer::pem_slice_iter(credentials.trusted.as_bytes()).filter_map(Result::ok),
        );
        let (certificate, key) = credentials.identity?;
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).filter_map(Result::ok).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).ok()?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
        let mut config = config.with_root_certificates(roots).with_client_auth_cert(chain, key).ok()?;
        // A client that offers nothing but HTTP/2 is a gRPC client to etcd.
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(credentials.server_name).ok()?;
        let mut connection = rustls::ClientConnection::new(Arc::new(config), name).ok()?;
        let mut socket = TcpStream::connect((address, 2379)).ok()?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).ok()?;
        }
        connection.peer_certificates()?.first().map(|certificate| certificate.to_vec())
    };
    tokio::task::spawn_blocking(look).await.expect("it does not panic")
}

/// Waits until every member presents the certificate that is in its Secret.
async fn renewed(scene: &Scene, before: &str) {
    let secrets = scene.api::<Secret>();
    let changed = |secret: &Secret| text(secret, "tls.crt") != before;
    let get = || async { secrets.get(SERVERS).await.expect("the Secret") };
    let kept = wait_within(WAIT_TIMEOUT, "another certificate", get, changed).await;
    let wanted = CertificateDer::from_pem_slice(text(&kept, "tls.crt").as_bytes()).expect("a certificate").to_vec();
    let look = || async {
        let mut behind = Vec::new();
        for pod in pods(scene).await {
            let credentials = access::credentials(&secrets).await.expect("credentials");
            if shown_certificate(&pod, credentials).await.as_ref() != Some(&wanted) {
                behind.push(pod.name_any());
            }
        }
        behind
    };
    wait_within(WAIT_TIMEOUT, "all members to present it", look, Vec::is_empty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_authorities_are_renewed_without_a_gap() {
    let scene = Stage::new("etcd-tls").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(3);
    wanted["version"] = json!("3.6.16");
    wanted["tls"] = strict();
    let begun = Instant::now();
    running(&scene, wanted).await;
    took("three members with TLS serve", begun);
    all_by(&scene, "https").await;
    for pod in pods(&scene).await {
        assert!(!answers_without(&pod).await, "{} answers without TLS", pod.name_any());
    }
    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    let old = text(&scene.api::<Secret>().get(SERVERS).await.expect("the Secret"), "tls.crt");
    let begun = Instant::now();
    scene.edit::<EtcdCluster>(NAME, json!({ "tls": { "certificateDuration": "24h" } })).await;
    renewed(&scene, &old).await;
    took("all members show a renewed certificate", begun);
    settled(&scene, "renewed certificates").await;
    assert_eq!(uids(&scene).await, before, "no member was restarted");
    checker.goes_on("renewed certificates").await;

    let authority = text(&scene.api::<Secret>().get(SERVERS).await.expect("the Secret"), "ca.crt");
    let (begun, watch) = (Instant::now(), RolloutWatch::start(&scene).await);
    scene.edit::<EtcdCluster>(NAME, json!({ "tls": { "renewal": "once" } })).await;
    let trusted = || async { text(&scene.api::<Secret>().get(SERVERS).await.expect("the Secret"), "ca.crt") };
    let alone = |other: &String| *other != authority && other.matches("BEGIN").count() == 1;
    wait_within(WAIT_TIMEOUT, "only the new authority to be trusted", trusted, alone).await;
    settled(&scene, "other authorities").await;
    took("other authorities are trusted, used, and the old ones forgotten", begun);
    assert_eq!(watch.fewest_ready(), 2, "one at a time");
    checker.goes_on("other authorities").await;
    checker.finish(&scene, "certificates and authorities renewed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_turned_on_and_off_under_load() {
    let scene = Stage::new("etcd-tls").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let (checker, watch) = (Checker::start(&scene).await, RolloutWatch::start(&scene).await);
    let begun = Instant::now();
    scene.edit::<EtcdCluster>(NAME, json!({ "tls": strict() })).await;
    settled(&scene, "TLS").await;
    took("TLS is on", begun);
    all_by(&scene, "https").await;
    for pod in pods(&scene).await {
        assert!(!answers_without(&pod).await, "{} answers without TLS", pod.name_any());
    }
    checker.goes_on("TLS").await;
    let begun = Instant::now();
    scene.edit::<EtcdCluster>(NAME, json!({ "tls": Value::Null })).await;
    settled(&scene, "no TLS").await;
    took("TLS is off", begun);
    all_by(&scene, "http").await;
    assert_eq!(watch.fewest_ready(), 2, "one at a time");
    assert_eq!(watch.replaced().len(), 12, "two rollouts each: {:?}", watch.replaced());
    checker.goes_on("no TLS").await;
    checker.finish(&scene, "TLS turned on and off").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_secret_is_followed_and_may_vanish() {
    let scene = Stage::new("etcd-tls").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    let user_provided = json!({ "tls": { "peer": { "secretName": "given" }, "client": { "secretName": "given" } } });
    scene.edit::<EtcdCluster>(NAME, user_provided).await;
    let (reason, message) = stalls(&scene, "a message about the Secret that is missing").await;
    assert_eq!(reason, "SecretInvalid");
    assert!(message.contains("spec.tls.peer.secretName") && message.contains("no Secret given"), "{message}");
    give(&scene, "given", &["example.com".into()]).await;
    let is_named = |object: &EtcdCluster| {
        let conditions = object.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|it| it.type_ == "Stalled" && it.message.contains("not valid for db-0.db-peers"))
    };
    super::becomes(&scene, "a message about the name that is missing", is_named).await;
    assert_eq!(uids(&scene).await, before, "no pod was touched");

    let namespace = &scene.namespace;
    let names = [format!("*.db-peers.{namespace}.svc"), format!("db.{namespace}.svc"), "localhost".into()];
    give(&scene, "given", &names).await;
    let begun = Instant::now();
    settled(&scene, "TLS by the given Secret").await;
    took("TLS by a given Secret is on", begun);
    all_by(&scene, "https").await;
    checker.goes_on("TLS by the given Secret").await;

    // The user gives another authority and another certificate: the members follow in the same way as with our own.
    let begun = Instant::now();
    let old = text(&scene.api::<Secret>().get(SERVERS).await.expect("the Secret"), "ca.crt");
    give(&scene, "given", &names).await;
    let followed = || async {
        let kept = text(&scene.api::<Secret>().get(SERVERS).await.expect("the Secret"), "ca.crt");
        kept != old && kept.matches("BEGIN").count() == 1
    };
    wait_within(WAIT_TIMEOUT, "another given authority to be used alone", followed, |followed| *followed).await;
    settled(&scene, "another given authority").await;
    took("another given authority is followed", begun);

    scene.api::<Secret>().delete("given", &DeleteParams::default()).await.expect("the deletion is accepted");
    stalls(&scene, "a message about the Secret that is gone").await;
    let uid = uids(&scene).await["db-1"].clone();
    scene.api::<Pod>().delete("db-1", &DeleteParams::default()).await.expect("the deletion is accepted");
    successor(&scene, "db-1", &uid).await;
    checker.goes_on("a member that came back without the given Secret").await;
    checker.finish(&scene, "a given Secret").await;
}
