//! Who may log in to an etcd cluster.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Authentication of clients: off unless it is enabled. It can be turned on and off while the cluster runs.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.secretName) || self.enabled", "spec.auth.secretName needs spec.auth.enabled: true"))]
pub struct Auth {
    /// Clients must log in. Users and roles are yours to add; the user `root` has its password in key `password` of the
    /// Secret `<name>-auth`, which is made unless you name another.
    #[serde(default)]
    pub enabled: bool,

    /// Secret of yours with the password of the user `root` in key `password`. When it changes, so does the password in
    /// etcd. Yours needs the label `causeway.example.com/usable-by: etcdcluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
}

/// How far authentication is followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthStatus {
    /// The Secret with the password that the user `root` has now, in key `password`.
    pub secret_name: String,
}
