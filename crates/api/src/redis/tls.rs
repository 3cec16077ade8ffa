//! How nodes and clients know each other.

use clap::ValueEnum;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Duration;

/// TLS between the nodes, and between clients and nodes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("duration(self.authorityDuration).getSeconds() >= 3 * duration(self.certificateDuration).getSeconds()", "spec.tls.authorityDuration must be at least three times spec.tls.certificateDuration: no certificate may outlive the authority that issued it"))]
pub struct Tls {
    /// Your own Secret of the namespace with `tls.crt`, `tls.key` and `ca.crt`, as cert-manager creates it. The
    /// certificate must be valid for the names of both Services, `<name>.<namespace>.svc` and
    /// `<name>-replicas.<namespace>.svc`, with `spec.sentinel` also for `<name>-sentinel.<namespace>.svc`, and also as
    /// a client certificate unless `clientCertificates` is `Off`. The Secret needs the label
    /// `causeway.example.com/usable-by: redis`. Left out, Causeway issues a certificate, and one for clients in the
    /// Secret `<name>-client-tls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,

    /// Decides whether clients must present a certificate signed by the authority. `Off` (the default) asks for none,
    /// `Optional` checks a certificate only if the client presents one, and `Required` refuses clients without one.
    #[serde(default)]
    pub client_certificates: ClientCertificates,

    /// How long certificates that Causeway issues are valid, such as `720h`: 1h to 87600h; 2160h (90 days) unless
    /// given. Causeway renews a certificate after two thirds of this time, without a restart.
    #[serde(default = "ninety_days")]
    #[x_kube(validation = ("duration(self) >= duration('1h') && duration(self) <= duration('87600h')", "spec.tls.certificateDuration must be 1h to 87600h, such as 2160h"))]
    pub certificate_duration: Duration,

    /// How long the certificate authority that signs them is valid, such as `8760h`: 3h to 262800h, and at least three
    /// times `certificateDuration`; 87600h (10 years) unless given. Causeway replaces the authority after two thirds of
    /// this time, and no connection is refused meanwhile.
    #[serde(default = "ten_years")]
    #[x_kube(validation = ("duration(self) >= duration('3h') && duration(self) <= duration('262800h')", "spec.tls.authorityDuration must be 3h to 262800h, such as 87600h"))]
    pub authority_duration: Duration,

    /// Any text, such as today's date. Each new text makes Causeway replace the authority and all certificates, for
    /// example after a key was leaked.
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

/// Decides whether clients must show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum ClientCertificates {
    /// Clients are not asked for a certificate.
    #[default]
    Off,
    /// A certificate is checked if the client presents one.
    Optional,
    /// Clients without a certificate are refused.
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
