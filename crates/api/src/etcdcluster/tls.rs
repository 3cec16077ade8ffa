//! How members and clients of an etcd cluster know each other.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Duration;

/// TLS of an etcd cluster. You can turn on `peer` and `client` separately, and also turn them off, while the cluster
/// runs.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("duration(self.authorityDuration).getSeconds() >= 3 * duration(self.certificateDuration).getSeconds()", "spec.tls.authorityDuration must be at least three times spec.tls.certificateDuration: no certificate may outlive the authority that issued it"))]
pub struct Tls {
    /// TLS between the members, each of which presents a certificate to the others, such as `{}`. Left out, no TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerTls>,

    /// TLS between clients and members, such as `{ mode: Require }`. Left out, no TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientTls>,

    /// How long certificates that Causeway issues are valid, such as `720h`: 1h to 87600h; 2160h (90 days) unless
    /// given. Causeway renews a certificate after two thirds of this time.
    #[serde(default = "ninety_days")]
    #[x_kube(validation = ("duration(self) >= duration('1h') && duration(self) <= duration('87600h')", "spec.tls.certificateDuration must be 1h to 87600h, such as 2160h"))]
    pub certificate_duration: Duration,

    /// How long the certificate authorities that sign them are valid, such as `8760h`: 3h to 262800h, and at least
    /// three times `certificateDuration`; 87600h (10 years) unless given. Causeway replaces an authority after two
    /// thirds of this time, and no connection is refused meanwhile.
    #[serde(default = "ten_years")]
    #[x_kube(validation = ("duration(self) >= duration('3h') && duration(self) <= duration('262800h')", "spec.tls.authorityDuration must be 3h to 262800h, such as 87600h"))]
    pub authority_duration: Duration,

    /// Any text, such as today's date. Each new text makes Causeway replace the authorities and all certificates, for
    /// example after a key was leaked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub renewal: Option<String>,
}

/// TLS among the members.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerTls {
    /// Your own Secret of the namespace with `tls.crt`, `tls.key` and `ca.crt`, as cert-manager creates it. The
    /// certificate must be valid for the name of every member, and as a server and a client certificate. The Secret
    /// needs the label `causeway.example.com/usable-by: etcdcluster`. Left out, Causeway issues a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
}

/// TLS between clients and members.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientTls {
    /// `Require` (the default) serves only clients with TLS. `Allow` serves clients with and without TLS at the same
    /// port, so that you can move them one by one.
    #[serde(default)]
    pub mode: ClientTlsMode,

    /// Requires clients to present a certificate signed by the authority; `false` unless given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verify_clients: bool,

    /// Your own Secret of the namespace with `tls.crt`, `tls.key` and `ca.crt`, as cert-manager creates it. The
    /// certificate must be valid for the name of the Service, and with `verifyClients` also as a client certificate.
    /// The Secret needs the label `causeway.example.com/usable-by: etcdcluster`. Left out, Causeway issues a
    /// certificate, and one for clients in the Secret `<name>-client-tls`.
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
