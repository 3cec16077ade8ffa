//! The process: from its options to running controllers, and in order back out.
//!
//! ```text
//! options ──▶ clients ──▶ lease ──▶ term ──▶ controllers
//!                           ▲         │
//!                           └─────────┘ the lease was lost
//! ```

mod term;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::api::definitions::definitions;
use crate::clients;
use crate::cluster::Cluster;
use crate::config::RunOptions;
use crate::controllers::{self, Served, World};
use crate::external::etcd::Grpc;
use crate::external::redis::Tcp;
use crate::health::{self, Health};
use crate::leader::{self, Election, Fence, Lost, Timing};
use crate::metrics::Metrics;
use crate::runtime::{Environment, said};
use crate::telemetry;
use term::{Term, Undead};

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
    /// No thread could be made.
    #[error("no threads: {0}")]
    Threads(#[source] std::io::Error),
    /// Another process may lead now, and something of this one goes on.
    #[error("{0}, and the controllers do not end: the process does")]
    Lost(Lost),
}

/// Runs the operator until SIGTERM or SIGINT. The caller's runtime is for the lease, and for what the kubelet asks: see
/// [`term`].
pub async fn run(options: RunOptions) -> Result<(), Error> {
    telemetry::init(options.log_format, &options.log_level, std::env::var("RUST_LOG").ok().as_deref())?;
    info!(version = env!("CARGO_PKG_VERSION"), cluster = options.cluster_name, "starting");
    let stop = stop_on_signal()?;
    let config = kube::Config::infer().await.map_err(Error::Kubeconfig)?;
    let (metrics, health) = (Metrics::new(), Health::default());
    let client = clients::kubernetes(config.clone(), &metrics).map_err(Error::Client)?;
    let lease_client = leader::client(&config).map_err(Error::Client)?;
    if clients::aws().load().await.region().is_none() {
        return Err(Error::Region);
    }
    let address = options.metrics_address;
    let listener = TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
    tokio::spawn(health::serve(listener, health.clone(), metrics.clone(), stop.clone().cancelled_owned()));

    let identity = leader::unique_identity(&options.pod_name);
    let mut election = Election::new(lease_client, &options.namespace, &options.lease_name, identity, Timing::DEFAULT);
    let cluster = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        cluster = async {
            definitions_served(&client, &options.namespaces(), &options.kinds).await;
            identified(&client, &options).await
        } => cluster,
    };
    health.set_ready(true);
    let process = Process { options, config, cluster, metrics, health, stop };
    loop {
        let mut leadership = tokio::select! {
            () = process.stop.cancelled() => return Ok(()),
            leadership = election.acquire() => leadership,
        };
        process.metrics.set_leader(true);
        let mut term = Term::begin(process.clone().lead(leadership.fence())).map_err(Error::Threads)?;
        let lost = tokio::select! {
            lost = leadership.hold() => Some(lost),
            () = term.done() => None,
            () = async { process.stop.cancelled().await; sleep(DRAIN).await } => {
                warn!("the calls in hand did not end in time");
                None
            }
        };
        let ended = term.end().await;
        process.metrics.stopped_leading();
        let Some(lost) = lost else {
            leadership.release().await;
            return if process.stop.is_cancelled() { Ok(()) } else { Err(Error::ControllersDied) };
        };
        if let Err(Undead) = ended {
            return Err(Error::Lost(lost));
        }
        warn!(%lost, "leading no more: all that was going on has ended, standing by for the leader lease");
        process.health.stopped_leading();
        election = leadership.stand_by();
    }
}

/// What outlives a term.
#[derive(Clone)]
struct Process {
    options: RunOptions,
    config: kube::Config,
    cluster: Cluster,
    metrics: Metrics,
    health: Health,
    stop: CancellationToken,
}

impl Process {
    /// Runs the controllers. Clients are made here: their connections end with the term.
    async fn lead(self, fence: Fence) {
        let Self { options, config, cluster, metrics, health, stop } = self;
        let client = match clients::kubernetes_fenced(config, &metrics, fence.clone()) {
            Ok(client) => client,
            Err(problem) => {
                error!(problem = %said(&problem), "cannot make a Kubernetes client");
                return;
            }
        };
        let aws = clients::aws().load().await;
        let environment = Environment {
            client,
            metrics,
            health,
            namespaces: options.namespaces(),
            sweep: options.sweep_interval,
            concurrency: options.concurrency,
            instance: options.pod_name.clone(),
            stop,
        };
        let region = aws.region().map(ToString::to_string);
        let endpoint = aws.endpoint_url().map(str::to_owned);
        let mut backups = options.backups.settings(&options.cluster_name, region, endpoint);
        if backups.image.is_none() {
            backups.image = own_image(&environment.client, &options.namespace, &options.pod_name).await;
        }
        let world = World {
            kinds: options.kinds.clone(),
            environment,
            aws,
            backups,
            fence,
            budget: options.budget(),
            cluster,
            etcd: Arc::new(Grpc::default()),
            redis: Arc::new(Tcp::default()),
            replacement_grace: options.replacement_grace,
            security_group_rules: options.security_group_rules,
        };
        controllers::run(world).await;
    }
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
