//! A client on the pod network reads the operator's metrics, which name objects: that takes the token of an account
//! with the right to do so.

use std::sync::Arc;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::leadership::process::{Process, free_port};
use crate::support::Scene;
use crate::support::wait::wait_for;

/// Accepts any certificate, as Prometheus is set to.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The answer over TLS, with the status line first.
async fn ask(address: &str, token: Option<&str>) -> String {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.expect("a listener");
    let name = ServerName::try_from("causeway-metrics").expect("a name");
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("TLS is spoken");
    let header = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
    let mut answer = Vec::new();
    // A server that closes without a TLS `close_notify` has sent its whole answer before.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// An account of the scene's namespace, and a token of it.
async fn account(scene: &Scene, name: &str) -> String {
    let api = scene.api::<ServiceAccount>();
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": name } })).expect("an account");
    api.create(&PostParams::default(), &account).await.expect("the account is taken");
    let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let token = api.create_token_request(name, &PostParams::default(), &request).await.expect("a token");
    token.status.expect("a token").token
}

/// Binds the role that is shipped, under a name of the scene's, to an account.
async fn may_read(scene: &Scene, name: &str) {
    let path = format!("{}/../deploy/base/clusterrole-metrics-reader.yaml", env!("CARGO_MANIFEST_DIR"));
    let mut role: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).expect("the file")).expect("YAML");
    let called = scene.namespace.as_str();
    role["metadata"]["name"] = called.into();
    let role: ClusterRole = serde_json::from_value(role).expect("a ClusterRole");
    Api::all(scene.client.clone()).create(&PostParams::default(), &role).await.expect("the role is taken");
    let binding = json!({
        "metadata": { "name": called },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": called },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": called }],
    });
    let binding: ClusterRoleBinding = serde_json::from_value(binding).expect("a binding");
    Api::all(scene.client.clone()).create(&PostParams::default(), &binding).await.expect("the binding is taken");
}

#[tokio::test]
async fn only_accounts_with_the_right_read_metrics_by_tls() {
    let scene = Scene::new("security-metrics").await;
    let address = format!("127.0.0.1:{}", free_port());
    let variables = [("METRICS_AUTH", "true"), ("METRICS_TLS_ADDRESS", address.as_str()), ("KINDS", "MyApp")];
    let operator = Process::start_with(&scene, "reads", &variables).await;
    let (reader, stranger) = (account(&scene, "prometheus").await, account(&scene, "stranger").await);
    may_read(&scene, "prometheus").await;

    let (status, words) = operator.get("/metrics").await;
    assert_eq!(status, 403, "without TLS: {words}");
    assert!(!words.contains("causeway_"), "{words}");
    assert_eq!(operator.get("/healthz").await.0, 200, "the kubelet has no token");
    for (token, status) in [(None, "401"), (Some("guess"), "401"), (Some(stranger.as_str()), "403")] {
        let answer = ask(&address, token).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        assert!(!answer.contains("causeway_build_info"), "{answer}");
    }
    // The authorizer knows a new binding only after a moment.
    let read = || ask(&address, Some(&reader));
    let answer = wait_for("the reader to read", read, |answer| answer.starts_with("HTTP/1.1 200")).await;
    assert!(answer.contains("causeway_build_info"), "{answer}");

    let name = scene.namespace.as_str();
    Api::<ClusterRoleBinding>::all(scene.client.clone()).delete(name, &DeleteParams::default()).await.expect("tidy");
    Api::<ClusterRole>::all(scene.client.clone()).delete(name, &DeleteParams::default()).await.expect("tidy");
}
