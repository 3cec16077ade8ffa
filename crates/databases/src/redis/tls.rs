//! TLS with nodes.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The certificates and the key with which a client speaks TLS with nodes.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Certificates of the authorities that are trusted, as PEM.
    pub trusted: String,
    /// The name that a node's certificate must be valid for. Nodes are called by address, which the certificate does
    /// not contain.
    pub server_name: String,
    /// Certificate and key to show to nodes that ask for them, as PEM.
    pub identity: Option<(String, String)>,
}

/// Shows nothing secret: actions are logged with the endpoints that they go to.
impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credentials").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Makes the TLS handshake over a new connection.
    pub(super) async fn shake_hands(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(Arc::new(self.config()?));
        connector.connect(ServerName::try_from(self.server_name.clone()).map_err(invalid)?, stream).await
    }

    fn config(&self) -> io::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(self.trusted.as_bytes()).filter_map(Result::ok));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let verifier = Arc::new(Forbearing(verifier.map_err(invalid)?));
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(invalid)?.dangerous().with_custom_certificate_verifier(verifier);
        let Some((certificate, key)) = &self.identity else { return Ok(builder.with_no_client_auth()) };
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).filter_map(Result::ok).collect();
        // The error must not reveal the key.
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| invalid("no private key in PEM"))?;
        builder.with_client_auth_cert(chain, key).map_err(invalid)
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Checks authority and name as usual, but accepts a certificate that has expired. The operator must reach a node to
/// make it load the next certificate, and the process that presents the old one has its key.
#[derive(Debug)]
struct Forbearing(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Forbearing {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(leaf, chain, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
                self.0.verify_server_cert(leaf, chain, name, ocsp, not_after)
            }
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

    use super::*;

    const NAME: &str = "cache.shop.svc";

    fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
    }

    /// Returns a client's verdict on a certificate for that name, after so many days.
    fn verdict(
        trusted: &CertifiedIssuer<'_, KeyPair>,
        signer: &CertifiedIssuer<'_, KeyPair>,
        name: &str,
        days: u64,
    ) -> Result<(), String> {
        let mut parameters = CertificateParams::new([NAME.to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2026, 1, 3);
        let leaf = parameters.signed_by(&KeyPair::generate().unwrap(), signer).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(trusted.der().clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier =
            Forbearing(WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap());
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_767_225_600 + days * 86_400));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(leaf.der(), &[], &name, &[], now).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn an_expired_certificate_still_identifies_its_node() {
        let (ours, other) = (authority(), authority());
        assert_eq!(verdict(&ours, &ours, NAME, 1), Ok(()));
        assert_eq!(verdict(&ours, &ours, NAME, 30), Ok(()));
        for days in [1, 30] {
            assert!(verdict(&ours, &other, NAME, days).is_err());
            assert!(verdict(&ours, &ours, "web.shop.svc", days).is_err());
        }
    }

    #[test]
    fn what_is_logged_of_credentials_holds_no_key() {
        let identity = Some(("certificate".into(), "private key".into()));
        let credentials = Credentials { trusted: "public".into(), server_name: NAME.into(), identity };
        let logged = format!("{credentials:?}");
        assert!(logged.contains(NAME) && !logged.contains("private key"), "{logged}");
    }
}
