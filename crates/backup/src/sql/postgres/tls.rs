//! TLS with a server, as the programs of PostgreSQL make it: with an authority like their `sslmode=verify-full`, without one
//! like `sslmode=prefer`, which verifies nothing.
//! <https://www.postgresql.org/docs/current/libpq-ssl.html>

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use super::super::Tls;

/// Makes TLS connections with these certificates. The error is in words that show no key.
pub fn connector(tls: Option<&Tls>) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let trusted = tls.map(|tls| certificates(&tls.authority)).transpose()?;
    let verifier = Verifier { trusted, algorithms: provider.signature_verification_algorithms };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?.dangerous();
    let builder = builder.with_custom_certificate_verifier(Arc::new(verifier));
    let Some((chain, key)) = tls.and_then(|tls| tls.identity.as_ref()) else {
        return Ok(MakeRustlsConnect::new(builder.with_no_client_auth()));
    };
    let wrong = |what: &str| format!("client certificate: {}: {what}", key.display());
    let bytes = fs::read(key).map_err(|error| wrong(&error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| wrong("no private key in PEM"))?;
    let config = builder.with_client_auth_cert(certificates(chain)?, key);
    config.map(MakeRustlsConnect::new).map_err(|error| wrong(&error.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |what: &str| format!("certificate file {}: {what}", path.display());
    let bytes = fs::read(path).map_err(|error| wrong(&error.to_string()))?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&bytes).filter_map(Result::ok).collect();
    if found.is_empty() { Err(wrong("no certificate in PEM")) } else { Ok(found) }
}

/// Checks what a server shows. In two cases `libpq` takes a certificate that rustls alone refuses, and people make such ones with
/// the commands in the documentation of PostgreSQL: a self-signed one of an authority that is trusted itself, and one whose name
/// is only in its subject.
/// <https://www.postgresql.org/docs/current/ssl-tcp.html#SSL-CERTIFICATE-CREATION>
#[derive(Debug)]
struct Verifier {
    /// Certificates that are trusted; without them, any certificate is taken.
    trusted: Option<Vec<CertificateDer<'static>>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn check(
        &self,
        trusted: &[CertificateDer<'static>],
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let (_, certificate) = X509Certificate::from_der(leaf).map_err(|_| CertificateError::BadEncoding)?;
        if trusted.iter().any(|it| it == leaf) {
            is_in_time(&certificate, now)?;
        } else {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(trusted.iter().cloned());
            let parsed = ParsedCertificate::try_from(leaf)?;
            verify_server_cert_signed_by_trust_anchor(&parsed, &roots, chain, now, self.algorithms.all)?;
        }
        if has_names(&certificate) {
            return verify_server_name(&ParsedCertificate::try_from(leaf)?, name);
        }
        let host = name.to_str();
        let mut names = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        if names.any(|pattern| is_for(pattern, &host)) {
            return Ok(());
        }
        Err(CertificateError::NotValidForName.into())
    }
}

fn is_in_time(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let now = i64::try_from(now.as_secs()).ok().and_then(|now| ASN1Time::from_timestamp(now).ok());
    let validity = certificate.validity();
    match now {
        Some(now) if now < validity.not_before => Err(CertificateError::NotValidYet),
        Some(now) if now <= validity.not_after => Ok(()),
        _ => Err(CertificateError::Expired),
    }
}

/// Reports whether a certificate has alternative names of hosts. Then its subject does not count.
fn has_names(certificate: &X509Certificate<'_>) -> bool {
    let is_name = |name: &GeneralName<'_>| matches!(name, GeneralName::DNSName(_) | GeneralName::IPAddress(_));
    // One that cannot be read is checked by rustls, which refuses it.
    let names = certificate.subject_alternative_name();
    names.map_or(true, |names| names.is_some_and(|names| names.value.general_names.iter().any(is_name)))
}

/// Reports whether the name in a subject is that of a host. A `*` stands for its first part.
fn is_for(pattern: &str, host: &str) -> bool {
    let wild = || pattern.strip_prefix("*.").zip(host.split_once('.')).filter(|_| !is_address(host));
    pattern.eq_ignore_ascii_case(host) || wild().is_some_and(|(rest, (_, its))| rest.eq_ignore_ascii_case(its))
}

fn is_address(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok()
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(trusted) = &self.trusted {
            self.check(trusted, leaf, chain, name, now)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    // The signature is checked in any case: a log-in that is bound to the certificate relies on it.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // Only its key is needed. Whether rustls reads the rest, such as a certificate of version 1, is a question of `check`.
        let (_, certificate) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let key = SubjectPublicKeyInfoDer::from(certificate.public_key().raw);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

    use super::*;

    const HOST: &str = "shop-db.shop.svc";

    /// A certificate for these alternative names, with that name in its subject.
    fn parameters(names: &[&str], subject: &str) -> CertificateParams {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, subject);
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2026, 1, 3);
        parameters
    }

    fn authority(subject: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut parameters = parameters(&[], subject);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
    }

    fn signed(parameters: &CertificateParams, by: &CertifiedIssuer<'_, KeyPair>) -> CertificateDer<'static> {
        parameters.signed_by(&KeyPair::generate().unwrap(), by).unwrap().der().clone()
    }

    /// Returns a client's answer to a certificate, so many days after it became valid.
    fn verdict(trusted: &[&CertificateDer<'static>], leaf: &CertificateDer<'static>, host: &str, days: i64) -> bool {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        let verifier = Verifier { trusted: Some(trusted.iter().map(|it| (*it).clone()).collect()), algorithms };
        let seconds = u64::try_from(1_767_225_600 + days * 86_400).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let host = ServerName::try_from(host.to_owned()).unwrap();
        verifier.verify_server_cert(leaf, &[], &host, &[], now).is_ok()
    }

    #[test]
    fn a_server_is_known_by_authority_name_and_time() {
        let (ours, other) = (authority("ours"), authority("other"));
        let leaf = signed(&parameters(&[HOST, "10.0.0.7"], "shop"), &ours);
        assert!(verdict(&[ours.der()], &leaf, HOST, 1) && verdict(&[other.der(), ours.der()], &leaf, "10.0.0.7", 1));
        assert!(!verdict(&[other.der()], &leaf, HOST, 1), "another authority");
        assert!(!verdict(&[ours.der()], &leaf, "shop-db", 1), "another name");
        assert!(!verdict(&[ours.der()], &leaf, HOST, 3) && !verdict(&[ours.der()], &leaf, HOST, -1), "another time");
    }

    #[test]
    fn the_subject_of_a_certificate_counts_if_it_has_no_other_names() {
        let ours = authority("ours");
        let leaf = |names: &[&str], subject: &str| signed(&parameters(names, subject), &ours);
        for (leaf, host, good) in [
            (leaf(&[], HOST), HOST, true),
            (leaf(&[], "SHOP-DB.shop.svc"), HOST, true),
            (leaf(&[], "*.shop.svc"), HOST, true),
            (leaf(&[], "10.0.0.7"), "10.0.0.7", true),
            (leaf(&[], "*.0.0.7"), "10.0.0.7", false),
            (leaf(&[], "*.svc"), HOST, false),
            (leaf(&[], "shop-db"), HOST, false),
            (leaf(&["other.shop.svc"], HOST), HOST, false),
        ] {
            assert_eq!(verdict(&[ours.der()], &leaf, host, 1), good);
        }
    }

    #[test]
    fn a_self_signed_certificate_is_taken_if_it_is_trusted_itself() {
        let (ours, other) = (authority(HOST), authority(HOST));
        let leaf = ours.der().clone();
        assert!(verdict(&[&leaf], &leaf, HOST, 1));
        assert!(!verdict(&[&leaf], &leaf, HOST, 3), "it has expired");
        assert!(!verdict(&[&leaf], &leaf, "other.shop.svc", 1));
        assert!(!verdict(&[other.der()], &leaf, HOST, 1));
    }

    #[test]
    fn without_an_authority_any_certificate_is_taken() {
        let leaf = signed(&parameters(&["other"], "other"), &authority("other"));
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        let verifier = Verifier { trusted: None, algorithms };
        let host = ServerName::try_from(HOST).unwrap();
        verifier.verify_server_cert(&leaf, &[], &host, &[], UnixTime::now()).unwrap();
    }

    #[test]
    fn files_that_hold_no_certificates_are_named_and_no_key_is_shown() {
        let directory = std::env::temp_dir().join(format!("causeway-postgres-tls-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let paths = ["ca.crt", "tls.crt", "tls.key"].map(|name| directory.join(name));
        let [authority_file, chain, key] = &paths;
        let tls = Tls { authority: authority_file.clone(), identity: Some((chain.clone(), key.clone())) };
        let failure = || connector(Some(&tls)).err().unwrap_or_default();
        assert!(failure().contains("ca.crt"), "{}", failure());
        let ours = authority("ours");
        fs::write(authority_file, ours.pem()).unwrap();
        let pair = KeyPair::generate().unwrap();
        fs::write(chain, parameters(&[], "client").signed_by(&pair, &ours).unwrap().pem()).unwrap();
        fs::write(key, "hunter2").unwrap();
        assert!(failure().contains("tls.key") && !failure().contains("hunter2"), "{}", failure());
        fs::write(key, pair.serialize_pem()).unwrap();
        assert_eq!(failure(), "");
        fs::remove_dir_all(&directory).unwrap();
    }
}
