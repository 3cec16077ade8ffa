//! `causeway plan`: shows what would change, and changes nothing.
//!
//! It reads what the operator reads, decides as the operator decides, and continues with predicted answers until
//! nothing is left to do. AWS is called through clients whose [`Fence`] never opens, so a change would be
//! refused before it is sent. Of the Kubernetes API only get, list and watch are used.

mod changes;
mod checks;
mod documents;
mod dry_run;
mod fields;
pub mod options;
mod report;
mod table;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use futures::future::join_all;
use kube::api::ListParams;
use kube::runtime::{reflector, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::orphans::Journal;
use crate::MyIngressKind;
use crate::action::predicted::PredictedAws;
use crate::drift;
use crate::members::{key, members_of};
use crate::observe::secrets::Secrets;
use crate::ownership::{ObjectKey, group_of};
use crate::refusals::Refusals;
use crate::region::Region;
use crate::targets::Targets;
use causeway_api::MyIngress;
use causeway_aws::aws::AwsError;
use causeway_aws::connect;
use causeway_aws::ec2::Ec2;
use causeway_aws::elbv2::Elbv2;
use causeway_runtime::cluster::Cluster;
use causeway_runtime::guardrails::Guardrails;
use causeway_runtime::health::Health;
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;
use causeway_runtime::terminal::{self, plain_json};
use causeway_runtime::{Decoded, Environment, Kind, ScopedStores, api_message};
use documents::Documents;
use dry_run::{DryRun, DryRunResult};
use options::{PlanFormat, PlanOptions};
use report::{Check, Origin, Report};

pub(crate) use fields::{Fields, Thing, difference};
pub(crate) use report::Field;
pub use report::Verdict;

/// How long the first lists of the cluster may take.
const LISTING: Duration = Duration::from_secs(30);
/// Members of a group wait for each other, so the dry run passes over all objects at most this many times.
const PASSES: usize = 5;
/// The uid of an object that is not in the cluster yet.
const FUTURE_UID: &str = "(given by Kubernetes)";

/// The reason why nothing could be planned.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is neither a file nor `--all`.
    #[error("nothing to plan: give files with -f, or --all")]
    NothingAsked,
    /// A file cannot be used.
    #[error(transparent)]
    Documents(#[from] documents::Error),
    /// There is no way to reach the cluster or AWS.
    #[error(transparent)]
    Clients(#[from] connect::Error),
    /// Which cluster this is could not be read.
    #[error("cannot read the namespace kube-system, whose uid stands for the cluster: {}", api_message(.0))]
    Cluster(#[source] kube::Error),
    /// The objects could not be read.
    #[error("cannot list MyIngress objects: {}", api_message(.0))]
    Listing(#[source] kube::Error),
    /// Services, endpoints or pods could not be read.
    #[error("the cluster could not be read within {} s{}", LISTING.as_secs(), .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Unread(Option<String>),
    /// The region could not be read.
    #[error("the AWS region could not be read: {0}")]
    Aws(#[source] AwsError),
    /// The report could not be written.
    #[error("cannot write the plan: {0}")]
    Output(#[source] io::Error),
}

/// Plans, and prints the plan.
pub async fn run(options: PlanOptions) -> Result<Verdict, Error> {
    if options.files.is_empty() && !options.all {
        return Err(Error::NothingAsked);
    }
    let mut documents = Documents::default();
    options.files.iter().try_for_each(|file| documents.add(file))?;
    let metrics = Metrics::new();
    let (client, aws) = connect::user_clients(&metrics).await?;
    let cluster = Cluster::identify(&client, &options.cluster_name, options.cluster_uid.as_ref()).await;
    let identity = cluster.map_err(Error::Cluster)?;
    let (fence, budget) = (Fence::closed_until_lease(), options.budget());
    let elb = Elbv2::new(&aws, metrics.clone(), fence.clone(), budget.clone());
    let (store, writer) = reflector::store();
    let guardrails = if options.guardrails { Guardrails::watch(&client) } else { Guardrails::default() };
    let (guardrails, unasked) = match guardrails.once_known().await {
        Ok(guardrails) => (guardrails, None),
        Err(why) => (Guardrails::default(), Some(checks::policies_unasked(&why))),
    };
    let kind = MyIngressKind {
        region: Region::new(&aws, &metrics, &fence, budget, elb.clone(), identity),
        targets: Targets::new(elb, Ec2::new(&aws, metrics.clone(), fence.clone()), guardrails.clone()),
        secrets: Secrets::new(client.clone()),
        stores: ScopedStores::default(),
        begun: Instant::now(),
        bound: Mutex::default(),
        groups_seen: Mutex::default(),
        refusals: Refusals::default(),
        journal: Journal::default(),
        drift: drift::DriftCache::default(),
        metrics: metrics.clone(),
        sweep: Duration::ZERO,
        // The plan shows the final state, so no grace period is waited for.
        replacement_grace: Duration::ZERO,
        security_group_rules: options.security_group_rules,
        guardrails: guardrails.clone(),
    };
    kind.stores.add(None, store);
    let cluster = listed(&client, options.namespace.as_deref()).await?;
    let (planned, known) = chosen(documents.objects, cluster, &options, client.default_namespace());
    let environment = environment(client, metrics, &options, &known);
    show(writer, &known);
    for object in &known {
        guardrails.record_object(MyIngressKind::NAME, object, None);
    }
    kind.region.sweep().await.map_err(Error::Aws)?;
    let result = async {
        let namespaces: BTreeSet<String> = known.iter().filter_map(ResourceExt::namespace).collect();
        let all = join_all(namespaces.iter().map(|namespace| kind.targets.ready(namespace)));
        let why = || namespaces.iter().find_map(|namespace| kind.targets.watch_trouble(namespace));
        tokio::time::timeout(LISTING, all).await.map_err(|_| Error::Unread(why()))?;
        Ok::<_, Error>(result(&kind, planned, unasked.as_slice()).await)
    };
    let objects = tokio::select! {
        // The watches run for as long as the dry run needs them.
        () = kind.targets.watch(&environment) => Vec::new(),
        objects = result => objects?,
    };
    let report = Report { objects, skipped: documents.skipped };
    print(&report, options.output).map_err(Error::Output)?;
    Ok(report.verdict())
}

async fn listed(client: &Client, namespace: Option<&str>) -> Result<Vec<MyIngress>, Error> {
    let api: Api<Decoded<MyIngress>> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let listed = api.list(&ListParams::default()).await.map_err(Error::Listing)?;
    Ok(listed.items.into_iter().filter_map(Decoded::object).collect())
}

/// The objects to plan for, and all objects that would then be known. Objects of the files replace those of the
/// cluster.
fn chosen(
    files: Vec<MyIngress>,
    cluster: Vec<MyIngress>,
    options: &PlanOptions,
    default_namespace: &str,
) -> (Vec<(MyIngress, Origin)>, Vec<MyIngress>) {
    let mut known: BTreeMap<ObjectKey, MyIngress> = cluster.into_iter().map(|object| (key(&object), object)).collect();
    let mut origins: BTreeMap<ObjectKey, Origin> = BTreeMap::new();
    let mut groups = BTreeSet::new();
    for mut object in files {
        let namespace = options.namespace.as_deref().unwrap_or(default_namespace);
        object.metadata.namespace.get_or_insert_with(|| namespace.to_owned());
        let former = known.get(&key(&object));
        groups.extend(former.and_then(group_of).into_iter().chain(group_of(&object)));
        origins.insert(key(&object), if former.is_some() { Origin::File } else { Origin::New });
        known.insert(key(&object), overlay(object, former));
    }
    let touched = |object: &&MyIngress| {
        options.all
            || origins.contains_key(&key(object))
            || group_of(object).is_some_and(|group| groups.contains(&group))
    };
    let origin = |object: &MyIngress| origins.get(&key(object)).copied().unwrap_or(Origin::Cluster);
    let all: Vec<MyIngress> = known.into_values().collect();
    let mut planned: Vec<(MyIngress, Origin)> =
        all.iter().filter(touched).map(|object| (object.clone(), origin(object))).collect();
    // Sorted as in their groups: the first member that can act does so.
    let shared: Vec<_> = all.iter().cloned().map(std::sync::Arc::new).collect();
    planned.sort_by_cached_key(|(object, _)| {
        let members = members_of(object, &shared).present;
        let place = members.iter().position(|member| key(member) == key(object));
        (group_of(object), place, key(object))
    });
    (planned, all)
}

/// The object of a file as it would be in the cluster.
fn overlay(mut object: MyIngress, former: Option<&MyIngress>) -> MyIngress {
    if let Some(former) = former {
        let changed = former.spec != object.spec;
        object.metadata = former.metadata.clone();
        object.metadata.generation = former.metadata.generation.map(|it| if changed { it + 1 } else { it });
        object.status.clone_from(&former.status);
    } else {
        object.metadata.uid = Some(FUTURE_UID.into());
        object.metadata.generation = Some(1);
        object.metadata.finalizers = None;
        object.status = None;
    }
    object
}

fn environment(client: Client, metrics: Metrics, options: &PlanOptions, known: &[MyIngress]) -> Environment {
    let mut namespaces = BTreeSet::new();
    if options.namespace.is_some() {
        namespaces.extend(options.namespace.clone());
        namespaces.extend(known.iter().filter_map(ResourceExt::namespace));
    }
    Environment {
        client,
        metrics,
        health: Health::default(),
        namespaces: namespaces.into_iter().collect(),
        sweep: Duration::MAX,
        concurrency: 1,
        guardrails: Guardrails::default(),
        instance: "plan".into(),
        fence: Fence::closed_until_lease(),
        stop: CancellationToken::new(),
    }
}

/// Shows the objects to the decisions, as the operator's watch would.
fn show(mut writer: reflector::store::Writer<MyIngress>, known: &[MyIngress]) {
    for object in known {
        writer.apply_watcher_event(&watcher::Event::Apply(object.clone()));
    }
}

async fn result(
    kind: &MyIngressKind,
    planned: Vec<(MyIngress, Origin)>,
    unasked: &[Check],
) -> Vec<report::ObjectReport> {
    let mut dry_run = DryRun { kind, predicted: PredictedAws::default() };
    let mut objects: Vec<DryRunResult> =
        planned.into_iter().map(|(object, origin)| DryRunResult::new(object, origin)).collect();
    for _ in 0..PASSES {
        let mut quiet = true;
        for object in &mut objects {
            quiet &= !dry_run.go_on(object).await;
        }
        if quiet {
            break;
        }
    }
    for result in &mut objects {
        if result.object.meta().deletion_timestamp.is_none() && !result.object.spec.suspend {
            result.report.checks = checks::checks(kind, &result.object).await;
            result.report.checks.extend_from_slice(unasked);
        }
    }
    objects.into_iter().map(|result| result.report).collect()
}

fn print(report: &Report, format: PlanFormat) -> io::Result<()> {
    let text = match format {
        PlanFormat::Json => plain_json(&serde_json::to_string_pretty(report)?) + "\n",
        PlanFormat::Table => table::table(report).map_err(io::Error::other)?,
    };
    terminal::print(&text)
}
