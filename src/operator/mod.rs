//! The process: from its options to running controllers, and to an orderly end.
//!
//! ```text
//! options ──▶ clients ─┬▶ lease of databases ──▶ term ──▶ controllers
//!                      │    ▲                     │
//!                      │    └─────────────────────┘ the lease was lost
//!                      └▶ lease of all others ──▶ …
//! ```

mod group;
mod lead;
mod term;

use std::net::TcpListener as StdListener;
use std::time::Duration;

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::RunOptions;
use crate::controllers::Served;
use causeway_aws::connect;
use causeway_backup::jobs::{Egress, Identity};
use causeway_runtime::clients;
use causeway_runtime::cluster::Cluster;
use causeway_runtime::consent::account;
use causeway_runtime::health::{self, Health};
use causeway_runtime::leader::Lost;
use causeway_runtime::metrics::{Metrics, serving};
use causeway_runtime::telemetry;
use causeway_runtime::{Class, api_message, class_of_kubernetes};
use group::Group;
use lead::{Ending, Process};

/// A reason for which the operator ended without being asked to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Logging could not be set up.
    #[error(transparent)]
    Telemetry(#[from] telemetry::Error),
    /// There is no way to reach the cluster.
    #[error("no cluster to talk to: {0}; run in a pod with a service account, or set KUBECONFIG")]
    Kubeconfig(#[source] kube::config::InferConfigError),
    /// The Kubernetes client could not be made.
    #[error("cannot make a Kubernetes client: {}", api_message(.0))]
    Client(#[source] kube::Error),
    /// Neither the environment nor the machine names an AWS region.
    #[error("no AWS region to work in: set AWS_REGION, for example to us-east-1")]
    Region,
    /// The operator cannot listen on the address for health checks.
    #[error("cannot listen on METRICS_ADDRESS {address}: {source}")]
    Listen {
        /// The address for health checks.
        address: std::net::SocketAddr,
        /// The error of the socket.
        source: std::io::Error,
    },
    /// The operator cannot listen on the address for metrics.
    #[error(
        "cannot listen on METRICS_TLS_ADDRESS {address}: {source}; with METRICS_AUTH=false every client reads metrics without TLS"
    )]
    ListenTls {
        /// The address for metrics.
        address: std::net::SocketAddr,
        /// The error of the socket.
        source: std::io::Error,
    },
    /// Metrics cannot be served over TLS.
    #[error(transparent)]
    Metrics(serving::Error),
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(#[source] std::io::Error),
    /// Every controller ended by itself.
    #[error("the controllers ended by themselves; the log says why")]
    ControllersDied,
    /// No thread could be created.
    #[error("no threads: {0}")]
    Threads(#[source] std::io::Error),
    /// Another process may lead now, and some work of this one has not ended.
    #[error("{0}, and the controllers do not end: the process does")]
    Lost(Lost),
}

/// Runs the operator until SIGTERM or SIGINT. The caller's runtime only renews the leases and answers the kubelet: see
/// [`term`].
pub async fn run(options: RunOptions) -> Result<(), Error> {
    telemetry::init(options.log_format, &options.log_level, std::env::var("RUST_LOG").ok().as_deref())?;
    info!(version = env!("CARGO_PKG_VERSION"), cluster = options.cluster_name, "starting");
    account::runs_as(&options.namespace, &options.service_account);
    let stop = stop_on_signal()?;
    let config = kube::Config::infer().await.map_err(Error::Kubeconfig)?;
    let (metrics, health) = (Metrics::new(), Health::default());
    let client = clients::kubernetes(config.clone(), &metrics).map_err(Error::Client)?;
    let lease_client = causeway_runtime::leader::client(&config).map_err(Error::Client)?;
    if connect::aws().load().await.region().is_none() {
        return Err(Error::Region);
    }
    let address = options.metrics_address;
    let listener = TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
    let open = (!options.metrics_auth).then(|| metrics.clone());
    tokio::spawn(health::serve(listener, health.clone(), open, stop.clone().cancelled_owned()));
    if options.metrics_auth {
        let address = options.metrics_tls_address;
        let listener = StdListener::bind(address).map_err(|source| Error::ListenTls { address, source })?;
        serving::serve(listener, config.clone(), metrics.clone(), stop.clone()).map_err(Error::Metrics)?;
    }

    let (cluster, image) = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        known = async {
            definitions_served(&client, &options.namespaces(), &options.kinds).await;
            tokio::join!(identify_cluster(&client, &options), own_image(&client, &options.namespace, &options.pod_name))
        } => known,
    };
    health.set_ready(true);
    let jobs = options.backups.settings(&options.cluster_name, None, None).identity;
    if jobs.as_ref().is_some_and(Identity::is_shared) {
        warn!(
            "BACKUP_ROLE_ARN names one role for the Jobs of all namespaces: put {{namespace}} into it, as in \
             docs/databasebackup.md, or only one namespace can have backups"
        );
    }
    let egress = Egress::of(|name| std::env::var(name).ok());
    if jobs.is_some() && egress.has_login {
        warn!(
            "HTTPS_PROXY has a login, so the Jobs of backups do not get it: they must reach AWS by another way \
             (docs/databasebackup.md)"
        );
    }
    let identity = causeway_runtime::leader::unique_identity(&options.pod_name, options.pod_uid.as_deref());
    let groups = Group::of_options(&options);
    let process = Process { options, config, cluster, image, egress, identity, metrics, health, stop };
    let serve = |group: Group| lead::serve(process.clone(), group, lease_client.clone());
    // If the work of a lost term does not end, the process exits at once, and its other lease expires.
    let endings = try_join_all(groups.into_iter().map(serve)).await?;
    if endings.contains(&Ending::Died) { Err(Error::ControllersDied) } else { Ok(()) }
}

/// Returns the image of our own pod, which Jobs run too; `None` outside a cluster.
async fn own_image(client: &Client, namespace: &str, name: &str) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    loop {
        match pods.get_opt(name).await {
            Ok(pod) => return pod?.spec?.containers.into_iter().find(|it| it.name == env!("CARGO_PKG_NAME"))?.image,
            Err(problem) if class_of_kubernetes(&problem) == Class::Denied => {
                warn!(
                    %problem,
                    "the operator may not read its own pod: without the option JOB_IMAGE no backups are taken, and no Redis has a \
                     sentinel"
                );
                return None;
            }
            Err(problem) => {
                warn!(problem = %api_message(&problem), "the operator's own pod cannot be read, trying again");
            }
        }
        sleep(Duration::from_secs(2)).await;
    }
}

/// Returns a token that is cancelled by SIGTERM or SIGINT.
fn stop_on_signal() -> Result<CancellationToken, Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let stop = CancellationToken::new();
    let stopper = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("received a signal to stop: finishing the calls in progress");
        stopper.cancel();
    });
    Ok(stop)
}

/// Waits until the cluster serves one of our kinds at least and lets us list what it serves, at least in one namespace.
/// Without that there is nothing to do. A kind that is missing must not keep others, such as databases in a failover,
/// from being served: its own watch finds it once it is installed.
async fn definitions_served(client: &Client, namespaces: &[String], kinds: &[Served]) {
    let mut message = None;
    loop {
        let problem = match list_somewhere(client, namespaces, kinds).await {
            Ok(missing) if missing.is_empty() => return,
            Ok(missing) => {
                let missing = missing.join(", ");
                warn!(missing, "the definitions of these kinds are missing (install crds/): the others are served");
                return;
            }
            Err(problem) => problem.to_string(),
        };
        if message.as_ref() != Some(&problem) {
            warn!(%problem, "waiting for the custom resource definitions (install crds/) and the right to list them");
            message = Some(problem);
        }
        sleep(Duration::from_secs(2)).await;
    }
}

/// Finds out which cluster this is. Nothing is changed in AWS before that.
async fn identify_cluster(client: &Client, options: &RunOptions) -> Cluster {
    loop {
        match Cluster::identify(client, &options.cluster_name, options.cluster_uid.as_ref()).await {
            Ok(cluster) => {
                info!(name = cluster.name, uid = cluster.uid, "read the identity of the cluster");
                return cluster;
            }
            Err(problem) => {
                warn!(problem = %api_message(&problem), "the uid of the namespace kube-system cannot be read, trying again");
            }
        }
        sleep(Duration::from_secs(2)).await;
    }
}

/// Lists the kinds in the first of the namespaces where that is not forbidden, or in all namespaces at once. A user who
/// may delete a `RoleBinding` in one namespace must not keep the operator from serving the others. Returns the kinds
/// that are missing.
async fn list_somewhere(
    client: &Client,
    namespaces: &[String],
    kinds: &[Served],
) -> Result<Vec<&'static str>, kube::Error> {
    if namespaces.is_empty() {
        return list_each(client, None, kinds).await;
    }
    let mut forbidden = None;
    for namespace in namespaces {
        match list_each(client, Some(namespace), kinds).await {
            Err(problem) if class_of_kubernetes(&problem) == Class::Denied => {
                forbidden.get_or_insert(problem);
            }
            Ok(missing) => {
                if let Some(problem) = forbidden {
                    let problem = api_message(&problem);
                    warn!(%problem, "a namespace is not served: the operator may not list objects there");
                }
                return Ok(missing);
            }
            unknown => return unknown,
        }
    }
    forbidden.map_or_else(|| Ok(Vec::new()), Err)
}

/// Lists the kinds, and returns those that are missing. Fails if all are.
async fn list_each(
    client: &Client,
    namespace: Option<&str>,
    kinds: &[Served],
) -> Result<Vec<&'static str>, kube::Error> {
    // All at the same time, so that a process that was killed is back soon.
    let lists = kinds.iter().map(|kind| async move {
        let resource = kind.resource();
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(_) => Ok(None),
            Err(problem) if class_of_kubernetes(&problem) == Class::NotFound => Ok(Some((kind.name(), problem))),
            Err(problem) => Err(problem),
        }
    });
    let mut missing: Vec<_> = try_join_all(lists).await?.into_iter().flatten().collect();
    if missing.len() == kinds.len()
        && let Some((_, problem)) = missing.pop()
    {
        return Err(problem);
    }
    Ok(missing.into_iter().map(|(kind, _)| kind).collect())
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::timeout;
    use tower::service_fn;

    use super::*;

    /// An apiserver that answers lists in the namespace `shop` with this status code, and lists nothing in others.
    fn apiserver(shop: u16) -> Client {
        apiserver_answering("/namespaces/shop/", shop)
    }

    /// An apiserver that answers lists with this code if their path has this part.
    fn apiserver_answering(part: &'static str, refusal: u16) -> Client {
        let answer = move |request: Request<Body>| async move {
            let (code, body) = if request.uri().path().contains(part) && refusal != 200 {
                let status =
                    json!({ "kind": "Status", "status": "Failure", "code": refusal, "message": "no", "reason": "" });
                (refusal, status)
            } else {
                let kind = "PartialObjectMetadataList";
                (200, json!({ "apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": {}, "items": [] }))
            };
            let answer = Response::builder().status(code).body(Body::from(serde_json::to_vec(&body).unwrap()));
            Ok::<_, kube::Error>(answer.unwrap())
        };
        Client::new(service_fn(answer), "default")
    }

    async fn are_served(client: &Client, namespaces: &[&str]) -> bool {
        let namespaces: Vec<String> = namespaces.iter().map(|it| (*it).to_owned()).collect();
        let kinds = [Served::Redis, Served::MyIngress];
        timeout(Duration::from_mins(6), definitions_served(client, &namespaces, &kinds)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_denied_namespace_does_not_stop_service_of_others() {
        let denied = apiserver(403);
        assert!(are_served(&denied, &["shop", "blog"]).await);
        assert!(are_served(&denied, &["blog", "shop"]).await);
        assert!(!are_served(&denied, &["shop"]).await, "there is nothing to do");
    }

    #[tokio::test(start_paused = true)]
    async fn the_operator_waits_for_definitions_that_are_missing() {
        assert!(!are_served(&apiserver(404), &["shop", "blog"]).await);
        assert!(are_served(&apiserver(200), &["shop"]).await);
        assert!(!are_served(&apiserver_answering("/apis/", 404), &[]).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_definition_does_not_stop_service_of_other_kinds() {
        for namespaces in [&[][..], &["shop"]] {
            assert!(are_served(&apiserver_answering("/myingresses", 404), namespaces).await);
            assert!(
                !are_served(&apiserver_answering("/myingresses", 500), namespaces).await,
                "it is not known what is there"
            );
        }
        let missing =
            list_somewhere(&apiserver_answering("/myingresses", 404), &[], &[Served::Redis, Served::MyIngress]).await;
        assert_eq!(missing.unwrap(), ["MyIngress"]);
    }
}
