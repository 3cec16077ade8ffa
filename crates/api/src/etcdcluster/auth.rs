//! Who may log in to an etcd cluster.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Authentication of clients; off by default. You can turn it on and off while the cluster runs.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.secretName) || self.enabled", "spec.auth.secretName needs spec.auth.enabled: true"))]
pub struct Auth {
    /// Requires clients to log in; `false` unless given. The password of the user `root` is in key `password` of the Secret
    /// `<name>-auth`, which Causeway creates unless `secretName` names another. You create all other users and roles.
    #[serde(default)]
    pub enabled: bool,

    /// Name of your own Secret with the password of the user `root` in key `password`, such as `etcd-root`. It needs
    /// the label `causeway.example.com/usable-by: etcdcluster`. When the password in the Secret changes, Causeway
    /// changes it in etcd. Left out, Causeway creates the Secret `<name>-auth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
}

/// Progress of authentication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthStatus {
    /// Name of the Secret whose key `password` holds the current password of the user `root`.
    pub secret_name: String,
}
