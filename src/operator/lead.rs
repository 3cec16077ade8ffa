//! Takes part in one election as long as the process runs, and serves the kinds of its group while it leads.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use causeway_aws::connect;
use causeway_backup::jobs::Egress;
use causeway_databases::etcd::Grpc;
use causeway_databases::redis::Tcp;
use causeway_runtime::clients;
use causeway_runtime::cluster::Cluster;
use causeway_runtime::guardrails::Guardrails;
use causeway_runtime::health::Health;
use causeway_runtime::leader::{Election, Fence, Lost};
use causeway_runtime::metrics::Metrics;
use causeway_runtime::{Environment, api_message};

use super::Error;
use super::group::Group;
use super::term::{Term, Undead};
use crate::config::RunOptions;
use crate::controllers::{self, Context};

/// The pause after a warm-up that did not lead to leadership. If the apiserver is so slow that a leader cannot renew in
/// time, lists of all objects must not be repeated again and again.
const BETWEEN_WARM_UPS: Duration = Duration::from_mins(1);

/// The state that outlives a term.
#[derive(Clone)]
pub struct Process {
    pub options: RunOptions,
    pub config: kube::Config,
    pub cluster: Cluster,
    /// The image of our own pod.
    pub image: Option<String>,
    /// The part of our own environment that Jobs get.
    pub egress: Egress,
    /// Our identity in leases.
    pub identity: String,
    pub metrics: Metrics,
    pub health: Health,
    pub stop: CancellationToken,
}

/// The reason for which leading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The process was asked to stop.
    Stopped,
    /// The controllers ended by themselves, so the process stops.
    Died,
}

/// The reason for which a term ended.
enum End {
    /// Another process may lead now.
    Lost(Lost),
    /// The controllers ended by themselves.
    Done,
    /// Calls in progress did not end in time.
    CutOff,
}

/// Leads for `group` whenever this process holds its lease, until `process.stop`. The lease is free afterwards.
pub async fn serve(process: Process, group: Group, client: Client) -> Result<Ending, Error> {
    let (namespace, identity) = (&process.options.namespace, process.identity.clone());
    let mut election = Election::new(client, namespace, &group.lease, identity, group.timing);
    process.metrics.set_leader(&group.lease, false);
    loop {
        let (mut near, fence) = (election.watch_near(), election.fence());
        let (mut warm, mut rests_until) = (None, Instant::now());
        let mut leadership = {
            let mut acquiring = pin!(election.acquire());
            loop {
                tokio::select! {
                    () = process.stop.cancelled() => return Ok(Ending::Stopped),
                    leadership = &mut acquiring => break leadership,
                    () = until_otherwise(&mut near, warm.is_some(), rests_until), if group.warms_up => {}
                }
                // Until the fence opens, the controllers only list, watch and listen. The first failover then does not
                // wait for that.
                if let Some(term) = warm.take() {
                    process.end_warm_up(&group, term).await?;
                    rests_until = Instant::now() + BETWEEN_WARM_UPS;
                } else {
                    info!(lease = group.lease, "warming up: the leader may be gone");
                    warm = Some(process.begin(&group, fence.clone())?);
                }
            }
        };
        process.metrics.set_leader(&group.lease, true);
        let mut term = match warm {
            Some(term) => term,
            None => process.begin(&group, leadership.fence())?,
        };
        let end = tokio::select! {
            lost = leadership.hold() => End::Lost(lost),
            () = term.wait_done() => End::Done,
            () = async { process.stop.cancelled().await; sleep(group.drain).await } => End::CutOff,
        };
        let ended = term.end().await;
        process.metrics.stopped_leading(&group.lease, &group.names());
        let lease = &group.lease;
        match (end, ended) {
            (end @ (End::Done | End::CutOff), ended) => {
                let ending = if process.stop.is_cancelled() { Ending::Stopped } else { Ending::Died };
                // The process ends, so it also hands over the lease of the other group.
                process.stop.cancel();
                if matches!(end, End::Done) && ended.is_ok() {
                    leadership.release().await;
                } else {
                    warn!(lease, "the calls in progress did not end in time");
                    leadership.release_later().await;
                }
                return Ok(ending);
            }
            (End::Lost(lost), Err(Undead)) => return Err(Error::Lost(lost)),
            (End::Lost(lost), Ok(())) => {
                warn!(lease, %lost, "leading no more: all work has ended, waiting for the leader lease");
                process.health.stopped_leading(&group.names());
                election = leadership.stand_by();
            }
        }
    }
}

/// Waits until the controllers should start because this process may soon lead, or should stop because it no longer
/// may.
async fn until_otherwise(near: &mut watch::Receiver<bool>, warm: bool, rests_until: Instant) {
    if !warm {
        sleep_until(rests_until).await;
    }
    if near.wait_for(|near| *near != warm).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl Process {
    /// Starts the controllers of a group.
    fn begin(&self, group: &Group, fence: Fence) -> Result<Term, Error> {
        Term::begin(self.clone().work(group.clone(), fence)).map_err(Error::Threads)
    }

    /// Stops controllers that were started for a term that did not begin.
    async fn end_warm_up(&self, group: &Group, term: Term) -> Result<(), Error> {
        term.end().await.map_err(|Undead| Error::Lost(Lost::Late))?;
        info!(lease = group.lease, "the leader is back: standing by");
        self.metrics.stopped_leading(&group.lease, &group.names());
        self.health.stopped_leading(&group.names());
        Ok(())
    }

    /// Runs the controllers. Clients are made here so that their connections end with the term.
    async fn work(self, group: Group, fence: Fence) {
        let Self { options, config, cluster, image, egress, metrics, health, stop, .. } = self;
        let client = match clients::kubernetes_fenced(config, &metrics, fence.clone()) {
            Ok(client) => client,
            Err(problem) => {
                error!(problem = %api_message(&problem), "cannot make a Kubernetes client");
                return;
            }
        };
        let aws = connect::aws().load().await;
        let telling = || Guardrails::watch_and_report(&client, fence.clone());
        let guardrails = options.guardrails.then(telling).unwrap_or_default();
        let environment = Environment {
            guardrails,
            client,
            metrics,
            health,
            namespaces: options.namespaces(),
            sweep: options.sweep_interval,
            concurrency: options.concurrency,
            instance: options.pod_name.clone(),
            fence: fence.clone(),
            stop,
        };
        let region = aws.region().map(ToString::to_string);
        let endpoint = aws.endpoint_url().map(str::to_owned);
        let mut backups = options.backups.settings(&options.cluster_name, region, endpoint);
        backups.image = backups.image.or(image);
        backups.namespace.clone_from(&options.namespace);
        backups.egress = egress;
        let databases = options.databases.rules(&options.namespace);
        let context = Context {
            kinds: group.kinds,
            environment,
            aws,
            databases,
            backups,
            fence,
            budget: options.budget(),
            cluster,
            etcd: Arc::new(Grpc::default()),
            redis: Arc::new(Tcp::default()),
            replacement_grace: options.replacement_grace,
            security_group_rules: options.security_group_rules,
        };
        controllers::run(context).await;
    }
}
