//! An identity provider over HTTPS, in this process. It logs in every user, gives tokens to clients that know the
//! client's secret, and signs tokens for programs.

use std::io;
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::support::Scene;

/// The client ID of balancers.
pub const CLIENT: &str = "shop";
/// The access token of every user.
const ACCESS: &str = "the-access-token";

/// A provider that answers as long as its test runs.
pub struct Provider {
    /// Where it is.
    pub url: String,
    secret: Arc<Mutex<String>>,
    key: Arc<RsaKeyPair>,
}

impl Provider {
    /// Starts one that knows the client by this secret, and whose certificate balancers of the scene trust.
    pub async fn start(scene: &Scene, secret: &str) -> Self {
        let authority = authority("provider");
        let (config, pem) = (server(&authority, "127.0.0.1"), authority.pem());
        scene.emulator.send("POST", "authorities", &json!({ "pem": pem })).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}", listener.local_addr().expect("an address"));
        let secret = Arc::new(Mutex::new(secret.to_owned()));
        let key = Arc::new(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"));
        let (known, keys) = (Arc::clone(&secret), keys(&key));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, known, keys) = (acceptor.clone(), Arc::clone(&known), keys.clone());
                tokio::spawn(async move { serve(stream, acceptor, &known, &keys).await });
            }
        });
        Self { url, secret, key }
    }

    /// From now on the client is known by another secret.
    pub fn change_secret(&self, secret: &str) {
        secret.clone_into(&mut self.secret.lock().expect("no panic"));
    }

    /// A token with these claims beside its issuer's, good for ten minutes.
    pub fn token(&self, claims: &Value) -> String {
        let mut all = json!({ "iss": self.url, "exp": Timestamp::now().as_second() + 600 });
        all.as_object_mut().expect("claims").extend(claims.as_object().cloned().unwrap_or_default());
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({ "alg": "RS256", "kid": "1" })), part(&all));
        let mut seal = vec![0; self.key.public_modulus_len()];
        self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut seal).expect("a signature");
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(seal))
    }
}

/// An authority of its own.
pub fn authority(name: &str) -> rcgen::CertifiedIssuer<'static, rcgen::KeyPair> {
    let mut about = rcgen::CertificateParams::default();
    about.distinguished_name.push(rcgen::DnType::CommonName, format!("{name} {}", Timestamp::now().as_nanosecond()));
    about.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    rcgen::CertifiedIssuer::self_signed(about, rcgen::KeyPair::generate().expect("a key")).expect("an authority")
}

fn server(authority: &rcgen::CertifiedIssuer<'static, rcgen::KeyPair>, name: &str) -> ServerConfig {
    let key = rcgen::KeyPair::generate().expect("a key");
    let leaf = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let leaf = leaf.signed_by(&key, authority).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let builder = builder.expect("versions").with_no_client_auth();
    builder.with_single_cert(vec![leaf.der().clone()], key).expect("a pair")
}

/// The public key as a JSON Web Key Set. The modulus has a fixed offset in the DER of a key of this size.
fn keys(key: &RsaKeyPair) -> Value {
    let der = key.public_key().as_ref();
    json!({ "keys": [{ "kty": "RSA", "kid": "1", "e": "AQAB", "n": BASE64_URL_SAFE_NO_PAD.encode(&der[9..265]) }] })
}

/// Answers one request.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, secret: &Mutex<String>, keys: &Value) -> io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut request = Vec::new();
    let mut chunk = [0; 8192];
    while !is_whole(&request) {
        match stream.read(&mut chunk).await? {
            0 => return Ok(()),
            length => request.extend_from_slice(&chunk[..length]),
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let secret = secret.lock().expect("no panic").clone();
    let answer = answer(&request, &secret, keys);
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = request.lines().take_while(|line| !line.is_empty());
    lines.find_map(|line| line.split_once(": ").filter(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((_, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = header(&text, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    body.len() >= length
}

fn answer(request: &str, secret: &str, keys: &Value) -> String {
    let path = request.split(' ').nth(1).unwrap_or_default();
    let known = header(request, "authorization");
    let (status, more, body) = match path.split('?').next().unwrap_or_default() {
        "/authorize" => {
            let (back, state) = (parameter(path, "redirect_uri"), parameter(path, "state"));
            let back = back.replace("%3A", ":").replace("%2F", "/");
            (302, format!("location: {back}?code=good&state={state}\r\n"), Value::Null)
        }
        "/token" if known != Some(&format!("Basic {}", BASE64_STANDARD.encode(format!("{CLIENT}:{secret}")))) => {
            (401, String::new(), json!({ "error": "invalid_client" }))
        }
        "/token" => (200, String::new(), json!({ "access_token": ACCESS, "token_type": "Bearer", "expires_in": 3600 })),
        "/user" if known == Some(&format!("Bearer {ACCESS}")) => (200, String::new(), json!({ "sub": "jo" })),
        "/keys" => (200, String::new(), keys.clone()),
        _ => (404, String::new(), Value::Null),
    };
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Said\r\n{more}content-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

/// A parameter of a URL's query, as it is written there.
pub fn parameter<'a>(url: &'a str, name: &str) -> &'a str {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(it, value)| (it == name).then_some(value)).unwrap_or_default()
}
