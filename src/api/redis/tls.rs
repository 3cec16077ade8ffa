//! How nodes and clients know each other.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TLS among the nodes, and between them and their clients.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.authorityHours >= 3 * self.certificateHours", "spec.tls.authorityHours must be at least three times spec.tls.certificateHours: no certificate may outlive the authority that issued it"))]
pub struct Tls {
    /// Secret of the same namespace with `tls.crt`, `tls.key` and `ca.crt`, as cert-manager makes them. The certificate
    /// must be valid for the names of both Services, NAME.NAMESPACE.svc and NAME-replicas.NAMESPACE.svc, and for clients,
    /// too, unless `clientCertificates` is `Off`. Left out, Causeway issues one, and one for clients in the Secret
    /// NAME-client-tls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,

    /// Whether clients, too, must show a certificate that the authority has signed: `Off`, the default, asks for none,
    /// `Optional` checks one that is shown, `Required` serves nobody without.
    #[serde(default)]
    pub client_certificates: ClientCertificates,

    /// How long certificates are valid that Causeway issues, in hours. They are renewed after two thirds of that, without a
    /// restart.
    #[serde(default = "ninety_days")]
    #[schemars(range(min = 1, max = 87_600))]
    pub certificate_hours: i32,

    /// How long the authority is valid that signs them, in hours. It is replaced after two thirds of that, without a moment
    /// in which somebody is not trusted.
    #[serde(default = "ten_years")]
    #[schemars(range(min = 3, max = 262_800))]
    pub authority_hours: i32,

    /// Any text, such as today's date. Another text asks for a new authority, and new certificates from it, as after a key
    /// has become known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub renewal: Option<String>,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            secret_name: None,
            client_certificates: ClientCertificates::Off,
            certificate_hours: ninety_days(),
            authority_hours: ten_years(),
            renewal: None,
        }
    }
}

/// Whether clients must show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClientCertificates {
    /// They are not asked for one.
    #[default]
    Off,
    /// One that is shown must be good.
    Optional,
    /// Nobody is served without one.
    Required,
}

fn ninety_days() -> i32 {
    90 * 24
}

fn ten_years() -> i32 {
    3650 * 24
}
