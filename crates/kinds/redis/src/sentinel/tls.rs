//! TLS for clients, with the certificates of the set. They are read for each connection, because the kubelet replaces
//! them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use causeway_api::redis::ClientCertificates;

/// The certificates of the set, as PEM.
pub struct Files {
    /// The certificates of the authorities.
    pub trusted: String,
    /// The set's own certificate, with its chain.
    pub certificate: String,
    /// The key of that certificate.
    pub key: String,
}

impl Files {
    /// Reads those in a directory.
    pub fn read(directory: &Path) -> io::Result<Self> {
        let read = |name: &str| std::fs::read_to_string(directory.join(name));
        Ok(Self { trusted: read("ca.crt")?, certificate: read("tls.crt")?, key: read("tls.key")? })
    }
}

/// The certificate that clients are presented, and the one that they must present.
#[derive(Clone, Debug)]
pub struct Server {
    /// The directory with the certificates.
    pub directory: PathBuf,
    /// Says which clients must show a certificate.
    pub clients: ClientCertificates,
}

impl Server {
    /// Makes the TLS handshake with a client.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(Arc::new(self.config()?)).accept(stream).await
    }

    fn config(&self) -> io::Result<ServerConfig> {
        let files = Files::read(&self.directory)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(io::Error::other)?;
        let certificates =
            |text: &str| CertificateDer::pem_slice_iter(text.as_bytes()).filter_map(Result::ok).collect();
        let builder = match self.clients {
            ClientCertificates::Off => builder.with_no_client_auth(),
            asked => {
                let mut roots = RootCertStore::empty();
                let trusted: Vec<_> = certificates(&files.trusted);
                roots.add_parsable_certificates(trusted);
                let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                if asked == ClientCertificates::Optional {
                    verifier = verifier.allow_unauthenticated();
                }
                builder.with_client_cert_verifier(verifier.build().map_err(io::Error::other)?)
            }
        };
        // The error must not reveal the key.
        let key = PrivateKeyDer::from_pem_slice(files.key.as_bytes());
        let key = key.map_err(|_| io::Error::other("no private key in PEM"))?;
        builder.with_single_cert(certificates(&files.certificate), key).map_err(io::Error::other)
    }
}
