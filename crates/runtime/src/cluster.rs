//! Identifies this Kubernetes cluster: by the name that its users gave it, and by a uid that no other cluster has.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tracing::warn;

/// Kubernetes has no id for a cluster. The uid of this namespace stands for it: the namespace exists as long as the
/// cluster does, and a uid is never used twice.
/// <https://opentelemetry.io/docs/specs/semconv/resource/k8s/#cluster>
pub const NAMESPACE: &str = "kube-system";

/// A Kubernetes cluster, as tags in AWS name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The value of `CLUSTER_NAME`. Two clusters can have the same name.
    pub name: String,
    /// Distinguishes this cluster from all others; `None` if it could not be read.
    pub uid: Option<String>,
}

impl From<&str> for Cluster {
    /// Returns a cluster of which only the name is known.
    fn from(name: &str) -> Self {
        Self { name: name.into(), uid: None }
    }
}

impl Cluster {
    /// Identifies the cluster `name` that `client` talks to. A uid in `user_provided` replaces the one read from the
    /// cluster.
    pub async fn identify(client: &Client, name: &str, user_provided: Option<&String>) -> Result<Self, kube::Error> {
        let user_provided = user_provided.filter(|uid| !uid.is_empty()).cloned();
        let uid = match user_provided {
            Some(uid) => Some(uid),
            None => read(client).await?,
        };
        Ok(Self { name: name.into(), uid })
    }
}

/// Reads the uid of the namespace; `None` if it may not be read.
async fn read(client: &Client) -> Result<Option<String>, kube::Error> {
    let problem = match Api::<Namespace>::all(client.clone()).get_metadata(NAMESPACE).await {
        Ok(namespace) => return Ok(namespace.metadata.uid),
        Err(kube::Error::Api(problem)) if matches!(problem.code, 403 | 404) => problem.message.clone(),
        Err(problem) => return Err(problem),
    };
    warn!(
        problem,
        "the uid of this cluster is not known: another cluster of the same CLUSTER_NAME cannot be distinguished from it. Grant \
         `get` on the namespace {NAMESPACE}, or set CLUSTER_UID"
    );
    Ok(None)
}
