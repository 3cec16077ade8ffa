//! Describes how a member is reached: its address, the authorities to trust, and the certificate and password to
//! present.

use std::fmt;
use std::sync::Arc;

use etcd_client::{Certificate, Identity, TlsOptions};

/// The address at which a member answers its clients, and how to call it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// The URL, such as `http://10.0.0.7:2379`.
    pub url: String,
    /// The credentials for calls by https.
    pub tls: Option<Arc<Credentials>>,
    /// The password of the user [`ROOT`], if members ask for it.
    pub login: Option<Password>,
}

/// The user that may do everything, and its role: etcd knows both by this name.
/// <https://etcd.io/docs/v3.5/op-guide/authentication/rbac/>
pub const ROOT: &str = "root";

/// A password. It is never shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}

/// The material that a client needs for TLS with members.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Certificates of the authorities that are trusted, as PEM.
    pub trusted: String,
    /// The name that a member's certificate must be valid for. Members are called by IP address, which it does not contain.
    pub server_name: String,
    /// Certificate and key for members that ask for them, as PEM.
    pub identity: Option<(String, String)>,
}

impl Credentials {
    /// Returns them in the form of the client's library.
    #[must_use]
    pub fn options(&self) -> TlsOptions {
        let options = TlsOptions::new()
            .ca_certificate(Certificate::from_pem(&self.trusted))
            .domain_name(self.server_name.clone());
        match &self.identity {
            Some((certificate, key)) => options.identity(Identity::from_pem(certificate, key)),
            None => options,
        }
    }
}

/// Leaves out all that is secret: actions are logged with the endpoints that they go to.
impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credentials").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_endpoint_holds_no_key_and_no_password() {
        let credentials = Credentials {
            trusted: "public".into(),
            server_name: "db.shop.svc".into(),
            identity: Some(("certificate".into(), "private key".into())),
        };
        let login = Some(Password("hunter2".into()));
        let endpoint = Endpoint { url: "https://10.0.0.7:2379".into(), tls: Some(Arc::new(credentials)), login };
        let logged = format!("{endpoint:?}");
        assert!(logged.contains("db.shop.svc") && !logged.contains("private key"), "{logged}");
        assert!(!logged.contains("hunter2"), "{logged}");
    }
}
