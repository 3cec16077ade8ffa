//! Certificates: generated ones for servers in pods, and fixed ones for an account's AWS Certificate Manager. The fixed
//! ones are self-signed, protect nothing, and are valid for a century. They were made with
//!
//! ```text
//! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 \
//!     -keyout NAME.key -out NAME.crt -subj /CN=HOST -addext subjectAltName=DNS:HOST,DNS:OTHER
//! ```

use aws_sdk_acm::primitives::Blob;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::Scene;
use super::backends::USABLE_BY_ALL;

/// A certificate and its key, as PEM.
#[derive(Clone, Copy, Debug)]
pub struct Pem {
    certificate: &'static str,
    key: &'static str,
}

/// For `*.example.com` and `example.com`.
pub const EXAMPLE_COM: Pem = Pem { certificate: include_str!("pem/example.crt"), key: include_str!("pem/example.key") };
/// For the same hosts, and valid longer.
pub const EXAMPLE_COM_RENEWED: Pem =
    Pem { certificate: include_str!("pem/renewed.crt"), key: include_str!("pem/renewed.key") };
/// For `example.org` and `www.example.org`.
pub const EXAMPLE_ORG: Pem = Pem { certificate: include_str!("pem/org.crt"), key: include_str!("pem/org.key") };

/// Brings a certificate into the account; returns its ARN.
pub async fn import(scene: &Scene, pem: Pem) -> String {
    let call = scene.acm().import_certificate().certificate(Blob::new(pem.certificate)).private_key(Blob::new(pem.key));
    call.send().await.expect("the certificate is taken").certificate_arn.expect("an ARN")
}

/// Puts a certificate into a Secret of the scene's namespace, for pods.
pub async fn as_secret(scene: &Scene, name: &str, pem: Pem) {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": { "name": name },
        "stringData": { "tls.crt": pem.certificate, "tls.key": pem.key },
    });
    let api = scene.api::<Secret>();
    api.patch(name, &PatchParams::apply("test"), &Patch::Apply(&object)).await.expect("the Secret is taken");
}

/// Creates or replaces a Secret as cert-manager does: a certificate for these names, signed by a new authority.
pub async fn give(scene: &Scene, name: &str, names: &[String]) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut authority = rcgen::CertificateParams::default();
    // The authority needs a name of its own: OpenSSL takes a certificate whose subject is its issuer for self-signed.
    authority.distinguished_name.push(rcgen::DnType::CommonName, "an authority of the user's");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(authority, key).expect("an authority");
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut leaf = rcgen::CertificateParams::new(names.to_vec()).expect("names");
    leaf.extended_key_usages =
        vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let leaf = leaf.signed_by(&key, &authority).expect("a certificate");
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": name, "labels": { "causeway.example.com/usable-by": USABLE_BY_ALL } },
        "stringData": { "tls.crt": leaf.pem(), "tls.key": key.serialize_pem(), "ca.crt": authority.pem() },
    });
    let apply = PatchParams::apply("test").force();
    scene.api::<Secret>().patch(name, &apply, &Patch::Apply(&object)).await.expect("the Secret is taken");
}
