//! TLS as clients speak it: they trust one authority, and expect one name, whatever the address.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The certificates that a client trusts and presents.
#[derive(Clone)]
pub struct Secure {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Secure {
    /// Trusts these authorities, and presents that certificate with that key, all as PEM.
    pub fn new(trusted: &str, name: &str, identity: Option<(&str, &str)>) -> Self {
        let certificates = |text: &str| -> Vec<CertificateDer<'static>> {
            CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<_, _>>().expect("certificates")
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(trusted));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("versions").with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(certificates(certificate), key).expect("a pair")
            }
        };
        Self { config: Arc::new(config), name: ServerName::try_from(name.to_owned()).expect("a name") }
    }

    /// Connects to a node.
    pub async fn stream(&self, address: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(self.config.clone()).connect(self.name.clone(), stream).await
    }

    /// Connects to a server.
    pub async fn open(&self, address: &str, password: Option<&str>) -> Result<MultiplexedConnection, RedisError> {
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = password {
            settings = settings.set_password(password);
        }
        // Deadlines are the caller's.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let stream = self.stream(address).await?;
        let (connection, driver) = MultiplexedConnection::new_with_config(&settings, stream, config).await?;
        tokio::spawn(driver);
        Ok(connection)
    }

    /// The certificate that a server presents.
    pub async fn shown_certificate(&self, address: &str) -> Option<Vec<u8>> {
        let stream = self.stream(address).await.ok()?;
        stream.get_ref().1.peer_certificates()?.first().map(|certificate| certificate.to_vec())
    }
}
