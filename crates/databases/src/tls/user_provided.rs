//! Checks a certificate as its peers will check it. Pure.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;

use super::facts::Leaf;
use super::pem::certificates;

/// The files of a Secret, as PEM.
#[derive(Clone, Default)]
pub struct Files {
    /// The certificate chain, from `tls.crt`.
    pub certificate: String,
    /// The private key, from `tls.key`.
    pub key: String,
    /// The authorities to trust, from `ca.crt`.
    pub trusted: String,
}

/// The demands on a certificate.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// The names that it is called by.
    pub names: Vec<String>,
    /// Clients present it, too.
    pub clients: bool,
}

/// The certificate; or what is wrong with the files.
pub fn check(files: &Files, needs: &Needs, now: Timestamp) -> Result<Leaf, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let chain = chain(files);
    fits(files)?;
    let facts = certificates(&files.certificate).into_iter().next().map(|certificate| certificate.facts);
    let ((leaf, intermediates), facts) = chain.split_first().zip(facts).ok_or("tls.crt holds no certificate")?;
    let roots = Arc::new(roots(&files.trusted)?);
    let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default()));
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
    let verifier = verifier.map_err(|_| "ca.crt holds no certificate of an authority")?;
    for name in &needs.names {
        let server = ServerName::try_from(name.as_str()).map_err(|_| format!("{name} is no name"))?;
        let outcome = verifier.verify_server_cert(leaf, intermediates, &server, &[], now);
        outcome.map_err(|error| in_words(&error, &format!("not valid for {name}")))?;
    }
    if needs.clients {
        clients(roots, provider)?
            .verify_client_cert(leaf, intermediates, now)
            .map_err(|error| in_words(&error, "not valid for clients (extended key usage clientAuth)"))?;
    }
    Ok(facts)
}

/// Checks that there are a certificate and its key; the error says what is wrong with them.
pub fn fits(files: &Files) -> Result<(), &'static str> {
    let chain = chain(files);
    if chain.is_empty() {
        return Err("tls.crt holds no certificate");
    }
    let key = PrivateKeyDer::from_pem_slice(files.key.as_bytes()).map_err(|_| "tls.key holds no private key")?;
    let pair = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
    pair.map(drop).map_err(|_| "tls.key does not belong to tls.crt")
}

fn chain(files: &Files) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(files.certificate.as_bytes()).filter_map(Result::ok).collect()
}

fn clients(roots: Arc<RootCertStore>, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
    verifier.map_err(|_| "ca.crt holds no certificate of an authority".into())
}

fn roots(text: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(text.as_bytes()).filter_map(Result::ok));
    if roots.is_empty() { Err("ca.crt holds no certificate of an authority".into()) } else { Ok(roots) }
}

fn in_words(error: &rustls::Error, otherwise: &str) -> String {
    use rustls::CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidYet, NotValidYetContext, UnknownIssuer,
    };
    let what = match error {
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => "expired",
        rustls::Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => "not valid yet",
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature) => "not signed by an authority in ca.crt",
        _ => otherwise,
    };
    format!("the certificate in tls.crt is {what}")
}
