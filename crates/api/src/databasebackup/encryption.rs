//! How backups are encrypted before they leave the cluster.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Encryption with [age](https://age-encryption.org).
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Encryption {
    /// Public keys from `age-keygen`, such as `age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p`. Only the secret
    /// key of one of them opens the backups. A change does not affect existing backups.
    #[schemars(length(min = 1, max = 16), inner(length(max = 128)))]
    #[x_kube(validation = ("self.all(key, key.matches('^age1[02-9ac-hj-np-z]{58}$'))", "spec.encryption.recipients must be public keys of age-keygen: age1 and 58 letters and digits"))]
    pub recipients: Vec<String>,

    /// Name of a Secret of the namespace with a secret key in its key `identity`, as `age-keygen` writes it, such as
    /// `backup-key`. The public key must be among the recipients. Only restores and verifications need it. Left out, a
    /// restore must name it. The Secret needs the label
    /// `causeway.example.com/usable-by: databasebackup.databaserestore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')", "spec.encryption.identitySecretName must be the name of a Secret"))]
    pub identity_secret_name: Option<String>,
}
