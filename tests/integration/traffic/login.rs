//! Clients that log in through the balancer, and programs that bring a token.

use std::collections::BTreeMap;
use std::time::Instant;

use aws_sdk_acm::primitives::Blob;
use causeway_api::MyIngress;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;

use super::entrance::{self, Stage, backend, forward};
use super::provider::{CLIENT, Provider, authority};
use super::servers::Servers;
use crate::redis::checker::Secure;
use crate::support::backends::secret;
use crate::support::{Operator, Scene, wait_for};

/// Where the shop is, for clients.
const HOST: &str = "shop.example.com";

/// A client that keeps cookies.
struct Browser {
    address: String,
    secure: Secure,
    jar: BTreeMap<String, String>,
}

/// The answer that a client got.
#[derive(Debug)]
struct Answer {
    status: u16,
    location: String,
    text: String,
}

impl Browser {
    /// One request with these lines of headers, on a connection of its own.
    async fn get(&mut self, path: &str, headers: &str) -> Answer {
        let mut stream = self.secure.stream(&self.address).await.expect("a connection");
        let cookies: Vec<String> = self.jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nCookie: {}\r\n{headers}\r\n",
            cookies.join("; ")
        );
        stream.write_all(request.as_bytes()).await.expect("a request");
        let mut output = Vec::new();
        // Not every peer ends TLS with a `close_notify`.
        stream.read_to_end(&mut output).await.ok();
        let output = String::from_utf8_lossy(&output).into_owned();
        let (head, text) = output.split_once("\r\n\r\n").unwrap_or((&output, ""));
        let mut answer = Answer { status: 0, location: String::new(), text: text.to_owned() };
        answer.status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
            match name.to_lowercase().as_str() {
                "location" => value.clone_into(&mut answer.location),
                "set-cookie" => self.keep(value),
                _ => {}
            }
        }
        answer
    }

    fn keep(&mut self, cookie: &str) {
        let Some((name, rest)) = cookie.split_once('=') else { return };
        if rest.contains("Max-Age=0") {
            self.jar.remove(name);
        } else {
            let value = rest.split(';').next().unwrap_or_default();
            self.jar.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Logs in to reach that path; returns the balancer's answer to the log-in.
    async fn log_in(&mut self, path: &str) -> Answer {
        self.jar.clear();
        let sent = self.get(path, "").await;
        assert_eq!(sent.status, 302, "{sent:?}");
        assert!(sent.location.contains("/authorize?"), "{sent:?}");
        // The provider would redirect the client to this path at once.
        let state = super::provider::parameter(&sent.location, "state").to_owned();
        self.get(&format!("/oauth2/idpresponse?code=good&state={state}"), "").await
    }
}

/// A certificate for the shop in the account; its ARN, and a client that trusts it.
async fn certified(scene: &Scene) -> (String, Secure) {
    let authority = authority("shop");
    let key = rcgen::KeyPair::generate().expect("a key");
    let leaf = rcgen::CertificateParams::new(vec![HOST.to_owned()]).expect("a name");
    let leaf = leaf.signed_by(&key, &authority).expect("a certificate");
    let (certificate, chain) = (Blob::new(leaf.pem()), Blob::new(authority.pem()));
    let call = scene.acm().import_certificate().certificate(certificate).certificate_chain(chain);
    let taken = call.private_key(Blob::new(key.serialize_pem())).send().await.expect("the certificate is taken");
    (taken.certificate_arn.expect("an ARN"), Secure::new(&authority.pem(), HOST, None))
}

/// A shop that asks for a log-in below /private, and for a token below /api.
fn spec(certificate: &str, provider: &Provider) -> Value {
    let url = &provider.url;
    let shop = &forward(&[("shop", 1)])["forward"];
    let oidc = json!({
        "issuer": url, "authorizationEndpoint": format!("{url}/authorize"), "tokenEndpoint": format!("{url}/token"),
        "userInfoEndpoint": format!("{url}/user"), "clientId": CLIENT, "clientSecretName": "login",
    });
    let claims = json!([{ "name": "scope", "format": "space-separated-values", "values": ["orders"] }]);
    let jwt = json!({ "issuer": url, "jwksEndpoint": format!("{url}/keys"), "claims": claims });
    let below = |path: &str, action: Value| json!({ "paths": [{ "type": "Prefix", "value": path }], "action": action });
    json!({
        "subnets": ["subnet-abc", "subnet-def"],
        "listeners": [{
            "port": 443, "certificateArns": [certificate],
            "defaultAction": { "fixedResponse": { "statusCode": 200, "body": "open" } },
            "rules": [
                below("/private", json!({ "authenticateOidc": oidc, "forward": shop })),
                below("/api", json!({ "validateJwt": jwt, "forward": shop })),
            ],
        }],
        "backends": [backend("shop", json!({}))],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_log_in_and_another_client_secret_is_used() {
    let scene = Stage::new("login").await;
    let _operator = Operator::start(&scene).await;
    let provider = Provider::start(&scene, "the-first").await;
    let (certificate, secure) = certified(&scene).await;
    secret(&scene, "login", "clientSecret", "the-first").await;
    let servers = Servers::plain("shop", 1);
    servers.settle(&scene).await;
    scene.create::<MyIngress>("web", spec(&certificate, &provider)).await;
    let entrance = entrance::serving(&scene, "web", 1).await;
    let address = entrance.address.replace(":80", ":443");
    let mut browser = Browser { address, secure, jar: BTreeMap::new() };

    assert_eq!(browser.get("/", "").await.text, "open");
    let back = browser.log_in("/private/cart?item=1").await;
    assert_eq!((back.status, back.location), (302, format!("https://{HOST}/private/cart?item=1")));
    let inside = browser.get("/private/cart?item=1", "").await;
    assert!(inside.status == 200 && inside.text.contains("shop"), "{inside:?}");

    // An administrator changes the client's secret at the provider, and then in the Secret.
    provider.change_secret("the-second");
    assert_eq!(browser.log_in("/private").await.status, 561, "the balancer has the first secret");
    let changed = Instant::now();
    secret(&scene, "login", "clientSecret", "the-second").await;
    let shared = Mutex::new(browser);
    let look = || async { shared.lock().await.log_in("/private").await };
    wait_for("the second secret to be in use", look, |back| back.status == 302).await;
    println!("» another client secret is in use after {:.1} s", changed.elapsed().as_secs_f64());
    let mut browser = shared.into_inner();
    assert_eq!(browser.get("/private", "").await.status, 200);

    // Tokens of programs.
    let bearer = |claims: Value| format!("Authorization: Bearer {}\r\n", provider.token(&claims));
    browser.jar.clear();
    assert_eq!(browser.get("/api/orders", "").await.status, 401);
    assert_eq!(browser.get("/api/orders", &bearer(json!({ "scope": "read orders" }))).await.status, 200);
    assert_eq!(browser.get("/api/orders", &bearer(json!({ "scope": "read" }))).await.status, 401);
    assert_eq!(browser.get("/api/orders", &bearer(json!({ "scope": "orders", "exp": 1 }))).await.status, 401);

    // A Secret that is gone is reported.
    scene.api::<Secret>().delete("login", &DeleteParams::default()).await.expect("it goes");
    let look = || async { scene.api::<MyIngress>().get("web").await.expect("the object") };
    let is_reported = |object: &MyIngress| {
        let conditions = object.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        conditions.iter().any(|condition| condition.message.contains("clientSecret"))
    };
    wait_for("the object to report that its Secret is gone", look, is_reported).await;
}
