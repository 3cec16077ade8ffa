//! How nodes and clients know each other.

use clap::ValueEnum;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Duration;

/// TLS among the nodes, and between them and their clients.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("duration(self.authorityDuration).getSeconds() >= 3 * duration(self.certificateDuration).getSeconds()", "spec.tls.authorityDuration must be at least three times spec.tls.certificateDuration: no certificate may outlive the authority that issued it"))]
pub struct Tls {
    /// Secret of the same namespace with `tls.crt`, `tls.key` and `ca.crt`, as cert-manager makes them. The certificate
    /// must be valid for the names of both Services, NAME.NAMESPACE.svc and NAME-replicas.NAMESPACE.svc, with
    /// `spec.sentinel` for NAME-sentinel.NAMESPACE.svc, and for clients, too, unless `clientCertificates` is `Off`. Left out, Causeway issues one, and one for clients in the
    /// Secret NAME-client-tls. Yours needs the label `causeway.example.com/usable-by: redis`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,

    /// Whether clients, too, must show a certificate that the authority has signed: `Off`, the default, asks for none,
    /// `Optional` checks one that is shown, `Required` serves nobody without.
    #[serde(default)]
    pub client_certificates: ClientCertificates,

    /// How long certificates are valid that Causeway issues, such as `720h`: 1h to 87600h, 2160h (90 days) unless given.
    /// They are renewed after two thirds of that, without a restart.
    #[serde(default = "ninety_days")]
    #[x_kube(validation = ("duration(self) >= duration('1h') && duration(self) <= duration('87600h')", "spec.tls.certificateDuration must be 1h to 87600h, such as 2160h"))]
    pub certificate_duration: Duration,

    /// How long the authority is valid that signs them: 3h to 262800h, and at least three times `certificateDuration`;
    /// 87600h (10 years) unless given. It is replaced after two thirds of that, and no connection is refused meanwhile.
    #[serde(default = "ten_years")]
    #[x_kube(validation = ("duration(self) >= duration('3h') && duration(self) <= duration('262800h')", "spec.tls.authorityDuration must be 3h to 262800h, such as 87600h"))]
    pub authority_duration: Duration,

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
            certificate_duration: ninety_days(),
            authority_duration: ten_years(),
            renewal: None,
        }
    }
}

/// Whether clients must show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum ClientCertificates {
    /// They are not asked for one.
    #[default]
    Off,
    /// One that is shown must be good.
    Optional,
    /// Nobody is served without one.
    Required,
}

impl ClientCertificates {
    /// As a manifest has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "Off",
            Self::Optional => "Optional",
            Self::Required => "Required",
        }
    }
}

fn ninety_days() -> Duration {
    Duration::from_hours(90 * 24)
}

fn ten_years() -> Duration {
    Duration::from_hours(3650 * 24)
}
