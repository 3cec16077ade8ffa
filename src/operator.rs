//! The process: from its options to running controllers, and in order back out.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::api::definitions::definitions;
use crate::clients;
use crate::cluster::Cluster;
use crate::config::RunOptions;
use crate::controllers::{self, Served, World};
use crate::external::etcd::Grpc;
use crate::external::redis::Tcp;
use crate::health::{self, Health};
use crate::leader::{self, Election, Lost, Timing};
use crate::metrics::Metrics;
use crate::runtime::{Environment, said};
use crate::telemetry;

/// After SIGTERM the calls in hand get so long; the pod's grace period is longer.
const DRAIN: Duration = Duration::from_secs(20);

/// Why the operator ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Logging could not be set up.
    #[error(transparent)]
    Telemetry(#[from] telemetry::Error),
    /// There is no way to reach the cluster.
    #[error("no cluster to talk to: {0}; run in a pod with a service account, or set KUBECONFIG")]
    Kubeconfig(#[source] kube::config::InferConfigError),
    /// The Kubernetes client could not be made.
    #[error("cannot make a Kubernetes client: {}", said(.0))]
    Client(#[source] kube::Error),
    /// Neither the environment nor the machine names an AWS region.
    #[error("no AWS region to work in: set AWS_REGION, for example to us-east-1")]
    Region,
    /// The address for health and metrics is not to be had.
    #[error("cannot listen on METRICS_ADDRESS {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(#[source] std::io::Error),
    /// Every controller ended by itself.
    #[error("the controllers ended by themselves; the log says why")]
    ControllersDied,
    /// Another process may lead now: this one must end before it changes anything more.
    #[error("{0}")]
    Lost(Lost),
}

/// Runs the operator until SIGTERM or SIGINT, or until it loses the lease.
pub async fn run(options: RunOptions) -> Result<(), Error> {
    telemetry::init(options.log_format, &options.log_level, std::env::var("RUST_LOG").ok().as_deref())?;
    info!(version = env!("CARGO_PKG_VERSION"), cluster = options.cluster_name, "starting");
    let stop = stop_on_signal()?;
    let namespaces = options.namespaces();
    let config = kube::Config::infer().await.map_err(Error::Kubeconfig)?;
    let (metrics, health) = (Metrics::new(), Health::default());
    let client = clients::kubernetes(config.clone(), &metrics).map_err(Error::Client)?;
    let lease_client = leader::client(&config).map_err(Error::Client)?;
    let aws = clients::aws().load().await;
    if aws.region().is_none() {
        return Err(Error::Region);
    }
    let address = options.metrics_address;
    let listener = TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
    tokio::spawn(health::serve(listener, health.clone(), metrics.clone(), stop.clone().cancelled_owned()));

    let identity = leader::unique_identity(&options.pod_name);
    let election = Election::new(lease_client, &options.namespace, &options.lease_name, identity, Timing::DEFAULT);
    let (cluster, mut leadership) = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        begun = async {
            definitions_served(&client, &namespaces, &options.kinds).await;
            let cluster = identified(&client, &options).await;
            health.set_ready(true);
            (cluster, election.acquire().await)
        } => begun,
    };
    metrics.set_leader(true);
    let environment = Environment {
        client,
        metrics,
        health,
        namespaces,
        sweep: options.sweep_interval,
        concurrency: options.concurrency,
        instance: options.pod_name.clone(),
        stop: stop.clone(),
    };
    let region = aws.region().map(ToString::to_string);
    let mut backups = options.backups.settings(&options.cluster_name, region, aws.endpoint_url().map(str::to_owned));
    if backups.image.is_none() {
        backups.image = own_image(&environment.client, &options.namespace, &options.pod_name).await;
    }
    let world = World {
        kinds: options.kinds.clone(),
        environment,
        aws,
        backups,
        fence: leadership.fence(),
        budget: options.budget(),
        cluster,
        etcd: Arc::new(Grpc::default()),
        redis: Arc::new(Tcp::default()),
        replacement_grace: options.replacement_grace,
        security_group_rules: options.security_group_rules,
    };
    tokio::select! {
        lost = leadership.hold() => return Err(Error::Lost(lost)),
        () = controllers::run(world) => {}
        () = async { stop.cancelled().await; sleep(DRAIN).await } => warn!("the calls in hand did not end in time"),
    }
    leadership.release().await;
    if stop.is_cancelled() { Ok(()) } else { Err(Error::ControllersDied) }
}

/// The image of our own pod: what Jobs run, too. Outside a cluster there is none.
async fn own_image(client: &Client, namespace: &str, name: &str) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    match pods.get_opt(name).await {
        Ok(pod) => pod?.spec?.containers.into_iter().find(|it| it.name == env!("CARGO_PKG_NAME"))?.image,
        Err(problem) => {
            warn!(%problem, "the operator's own pod cannot be read: without the option JOB_IMAGE no backups are taken");
            None
        }
    }
}

/// Cancelled by SIGTERM or SIGINT.
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
        info!("told to stop: finishing the calls in hand");
        stopper.cancel();
    });
    Ok(stop)
}

/// Waits until the cluster serves our kinds to us: without them or the right to list them there is nothing to do.
async fn definitions_served(client: &Client, namespaces: &[String], kinds: &[Served]) {
    let mut told = None;
    while let Err(problem) = list_each(client, namespaces.first().map(String::as_str), kinds).await {
        let problem = problem.to_string();
        if told.as_ref() != Some(&problem) {
            warn!(%problem, "waiting for the custom resource definitions (install crds/) and the right to list them");
            told = Some(problem);
        }
        sleep(Duration::from_secs(2)).await;
    }
}

/// Finds out which cluster this is: nothing is changed in AWS before.
async fn identified(client: &Client, options: &RunOptions) -> Cluster {
    loop {
        match Cluster::found(client, &options.cluster_name, options.cluster_uid.as_ref()).await {
            Ok(cluster) => {
                info!(name = cluster.name, uid = cluster.uid, "this is the cluster");
                return cluster;
            }
            Err(problem) => {
                warn!(problem = %said(&problem), "the uid of the namespace kube-system cannot be read, trying again");
            }
        }
        sleep(Duration::from_secs(2)).await;
    }
}

async fn list_each(client: &Client, namespace: Option<&str>, kinds: &[Served]) -> Result<(), kube::Error> {
    let all = definitions().into_iter().map(|definition| definition.spec);
    for spec in all.filter(|spec| kinds.iter().any(|kind| kind.name() == spec.names.kind)) {
        let version = spec.versions.first().map(|version| version.name.clone()).unwrap_or_default();
        let kind = GroupVersionKind::gvk(&spec.group, &version, &spec.names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.list_metadata(&ListParams::default().limit(1)).await?;
    }
    Ok(())
}
