//! How members and clients of an etcd cluster know each other.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Duration;

/// TLS of an etcd cluster. Each side is without TLS as long as it is left out; both can be turned on and off while the
/// cluster runs.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("duration(self.authorityDuration).getSeconds() >= 3 * duration(self.certificateDuration).getSeconds()", "spec.tls.authorityDuration must be at least three times spec.tls.certificateDuration: no certificate may outlive the authority that issued it"))]
pub struct Tls {
    /// TLS among the members, each of which shows a certificate to the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerTls>,

    /// TLS between clients and members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientTls>,

    /// How long certificates are valid that Causeway issues, such as `720h`: 1h to 87600h, 2160h (90 days) unless given.
    /// They are renewed after two thirds of that.
    #[serde(default = "ninety_days")]
    #[x_kube(validation = ("duration(self) >= duration('1h') && duration(self) <= duration('87600h')", "spec.tls.certificateDuration must be 1h to 87600h, such as 2160h"))]
    pub certificate_duration: Duration,

    /// How long the authorities are valid that sign them: 3h to 262800h, and at least three times `certificateDuration`;
    /// 87600h (10 years) unless given. They are replaced after two thirds of that, and no connection is refused meanwhile.
    #[serde(default = "ten_years")]
    #[x_kube(validation = ("duration(self) >= duration('3h') && duration(self) <= duration('262800h')", "spec.tls.authorityDuration must be 3h to 262800h, such as 87600h"))]
    pub authority_duration: Duration,

    /// Any text, such as today's date. Another text asks for new authorities, and new certificates from them, as after a
    /// key has become known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub renewal: Option<String>,
}

/// TLS among the members.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerTls {
    /// Secret of the same namespace with `tls.crt`, `tls.key` and `ca.crt`, as cert-manager makes them. The certificate
    /// must be valid for every member's name and for servers and clients. Left out, Causeway issues one. Yours needs the
    /// label `causeway.example.com/usable-by: etcdcluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
}

/// TLS between clients and members.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientTls {
    /// `Allow` serves clients with and without TLS at the same port, so that they can be moved one by one; `Require`, the
    /// default, serves nobody without.
    #[serde(default)]
    pub mode: ClientTlsMode,

    /// Whether clients, too, must show a certificate that the authority has signed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verify_clients: bool,

    /// Secret of the same namespace with `tls.crt`, `tls.key` and `ca.crt`, as cert-manager makes them. The certificate
    /// must be valid for the Service's name, and for clients, too, where `verifyClients` is set. Left out, Causeway
    /// issues one, and one for clients in the Secret NAME-client-tls. Yours needs the label
    /// `causeway.example.com/usable-by: etcdcluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
}

/// Which clients are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClientTlsMode {
    /// With and without TLS.
    Allow,
    /// Only with TLS.
    #[default]
    Require,
}

fn ninety_days() -> Duration {
    Duration::from_hours(90 * 24)
}

fn ten_years() -> Duration {
    Duration::from_hours(3650 * 24)
}
