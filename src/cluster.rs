//! Which Kubernetes cluster this is: by the name that people gave it, and by what no other cluster has.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tracing::warn;

/// Kubernetes has no id of its own for a cluster. The uid of this namespace stands for it: the namespace is there for as
/// long as the cluster is, and uids do not come twice.
/// <https://opentelemetry.io/docs/specs/semconv/resource/k8s/#cluster>
pub const NAMESPACE: &str = "kube-system";

/// A Kubernetes cluster, as tags in AWS name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its name, as `CLUSTER_NAME` has it. Nothing keeps two clusters from having the same.
    pub name: String,
    /// What tells it from all others; `None` where that could not be read.
    pub uid: Option<String>,
}

impl From<&str> for Cluster {
    /// A cluster of which nothing but the name is known.
    fn from(name: &str) -> Self {
        Self { name: name.into(), uid: None }
    }
}

impl Cluster {
    /// The cluster of that name which `client` talks to. `given` is a uid that somebody chose for it.
    pub async fn found(client: &Client, name: &str, user_provided: Option<&String>) -> Result<Self, kube::Error> {
        let user_provided = user_provided.filter(|uid| !uid.is_empty()).cloned();
        let uid = match user_provided {
            Some(uid) => Some(uid),
            None => read(client).await?,
        };
        Ok(Self { name: name.into(), uid })
    }
}

/// The uid of the namespace; none where we may not read it.
async fn read(client: &Client) -> Result<Option<String>, kube::Error> {
    let problem = match Api::<Namespace>::all(client.clone()).get_metadata(NAMESPACE).await {
        Ok(namespace) => return Ok(namespace.metadata.uid),
        Err(kube::Error::Api(problem)) if matches!(problem.code, 403 | 404) => problem.message.clone(),
        Err(problem) => return Err(problem),
    };
    warn!(
        problem,
        "the uid of this cluster is not known: another cluster of the same CLUSTER_NAME cannot be told from it. Grant \
         `get` on the namespace {NAMESPACE}, or set CLUSTER_UID"
    );
    Ok(None)
}
