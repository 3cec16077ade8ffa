//! Finds what runs left behind (pure), and removes it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use super::aws::CLAIM_NAMESPACE;
use super::options::{RunId, Target, Where};
use super::place::Place;
use super::{consent, operator};
use crate::progress::{Progress, Step};

/// The tag with the operator's name for the cluster.
const CLUSTER: &str = "causeway.example.com/cluster";

/// AWS keeps a security group for minutes, until the network interfaces of a balancer are gone.
const REMOVAL: Duration = Duration::from_mins(10);

/// Types of resources that a run creates in AWS, in the order in which they can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An Application Load Balancer. Its listeners and rules are deleted with it.
    LoadBalancer,
    /// A target group, which is in use until its balancer is deleted.
    TargetGroup,
    /// A security group, which is also in use until its balancer is deleted.
    SecurityGroup,
    /// An EBS volume.
    Volume,
    /// All S3 objects of a namespace in the bucket of backups.
    Backups,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::LoadBalancer => "load balancer",
            Self::TargetGroup => "target group",
            Self::SecurityGroup => "security group",
            Self::Volume => "volume",
            Self::Backups => "backups",
        }
    }
}

/// A resource in AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub kind: Kind,
    /// Its ARN, id or URI.
    pub id: String,
    pub tags: BTreeMap<String, String>,
}

impl Resource {
    /// Its name in messages.
    pub fn name(&self) -> String {
        format!("{} {}", self.kind.name(), self.id)
    }

    /// The run that created it for that cluster. It is found by the run's tag and the operator's tag of the cluster.
    /// Volumes and backups have no tags of ours: a volume is found by the driver's tag of its claim's namespace, and
    /// backups by their folder.
    pub fn run(&self, cluster: &str) -> Option<RunId> {
        match self.kind {
            Kind::LoadBalancer | Kind::TargetGroup | Kind::SecurityGroup => {
                let ours = self.tags.get(CLUSTER).is_some_and(|it| it == cluster);
                self.tags.get(RunId::KEY).filter(|_| ours)?.parse().ok()
            }
            Kind::Volume => RunId::of_namespace(self.tags.get(CLAIM_NAMESPACE)?),
            Kind::Backups => RunId::of_namespace(self.id.trim_end_matches('/').rsplit('/').next()?),
        }
    }

    /// The arguments of the AWS CLI that remove it.
    pub fn removal(&self) -> Vec<&str> {
        match self.kind {
            Kind::LoadBalancer => vec!["elbv2", "delete-load-balancer", "--load-balancer-arn", &self.id],
            Kind::TargetGroup => vec!["elbv2", "delete-target-group", "--target-group-arn", &self.id],
            Kind::SecurityGroup => vec!["ec2", "delete-security-group", "--group-id", &self.id],
            Kind::Volume => vec!["ec2", "delete-volume", "--volume-id", &self.id],
            Kind::Backups => vec!["s3", "rm", "--recursive", "--only-show-errors", &self.id],
        }
    }
}

/// The actions of a sweep.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Resources to remove, in this order.
    pub remove: Vec<Resource>,
    /// Resources of runs that the sweep leaves, and the reasons.
    pub stays: Vec<(Resource, &'static str)>,
}

/// Plans a sweep for that cluster over all resources found: it removes those of one run, or of all runs.
pub fn plan(mut found: Vec<Resource>, cluster: &str, run: Option<&RunId>) -> Plan {
    found.sort_by(|one, other| (one.kind, &one.id).cmp(&(other.kind, &other.id)));
    let mut plan = Plan::default();
    for resource in found {
        let Some(made_by) = resource.run(cluster) else { continue };
        let has_our_tag = !matches!(resource.kind, Kind::Volume | Kind::Backups);
        match run {
            Some(run) if made_by == *run => plan.remove.push(resource),
            Some(_) => {}
            None if has_our_tag => plan.remove.push(resource),
            None => plan.stays.push((resource, "it has no tag of a run, only its name: give --run RUNID")),
        }
    }
    plan
}

/// Options of `cargo xtask e2e sweep`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    place: Where,
    /// Only what this run left; without it, what all runs left in this cluster
    #[arg(long, value_name = "RUNID")]
    run: Option<RunId>,
    /// Remove what is listed, after you have typed the account's id; without it nothing is changed
    #[arg(long)]
    remove: bool,
    /// The account's id, instead of a question
    #[arg(long, value_name = "ACCOUNT_ID", requires = "remove")]
    yes: Option<String>,
}

impl Options {
    /// The cluster and account that the user named; `None` for local runs.
    pub fn target(&self) -> Result<Option<Target>> {
        self.place.target()
    }
}

/// Lists what runs left, and removes it on request.
pub fn run(options: &Options, place: &Place<'_>) -> Result<()> {
    let kubectl = place.kubectl();
    let (aws, named) = (place.aws(), place.names());
    let caller = aws.caller()?;
    // The operator may have been uninstalled.
    let options_of_operator = operator::options(&kubectl).ok();
    if let Some(options) = &options_of_operator {
        operator::must_be_called(options, &named)?;
    }
    let bucket = operator::bucket(&options_of_operator.unwrap_or_default(), &named, &caller.account);
    let namespaces: Vec<String> = namespaces(place, options.run.as_ref())?;
    let found = plan(aws.inventory(&bucket)?, &named.cluster, options.run.as_ref());

    println!("Left by {} in cluster {}, account {}, {}:", whose(options), named.cluster, caller.account, named.region);
    for namespace in &namespaces {
        println!("  namespace {namespace}, with all that is in it");
    }
    for resource in &found.remove {
        println!("  {}", resource.name());
    }
    for (resource, why) in &found.stays {
        println!("  {} (stays: {why})", resource.name());
    }
    if namespaces.is_empty() && found.remove.is_empty() {
        println!("  nothing that is to be removed");
        return Ok(());
    }
    if !options.remove {
        println!("Nothing was changed. With --remove it is removed, after a question.");
        return Ok(());
    }
    if place.asks() {
        consent::ask(&caller.account, options.yes.as_deref())?;
    }
    let mut steps = Progress::new(2);
    // If the operator runs, it deletes what it created. What is left is deleted afterwards.
    let gone = steps.step("Delete namespaces, and let the operator delete what it made for them", |step| {
        namespaces.iter().try_for_each(|namespace| place.delete_namespace(namespace, step))
    });
    steps.step("Delete what is left in AWS", |step| {
        let left = plan(aws.inventory(&bucket)?, &named.cluster, options.run.as_ref());
        remove(&left.remove, place, step)
    })?;
    gone.context("what was in AWS is gone; a namespace is not")?;
    println!("Nothing is left.");
    Ok(())
}

fn whose(options: &Options) -> String {
    options.run.as_ref().map_or_else(|| "all runs".to_owned(), |run| format!("run {run}"))
}

fn namespaces(place: &Place<'_>, run: Option<&RunId>) -> Result<Vec<String>> {
    let label = run.map_or_else(|| RunId::KEY.to_owned(), |run| format!("{}={run}", RunId::KEY));
    let listed = place.kubectl().run(&["get", "namespaces", "--selector", &label, "-o", "json"])?;
    let listed: Value = serde_json::from_str(&listed)?;
    let names = listed["items"].as_array().into_iter().flatten().filter_map(|it| it["metadata"]["name"].as_str());
    // A namespace with our label but another name is not ours.
    Ok(names.filter(|name| RunId::of_namespace(name).is_some()).map(str::to_owned).collect())
}

/// Removes these resources. Those still in use are tried again.
fn remove(resources: &[Resource], place: &Place<'_>, step: &Step) -> Result<()> {
    let aws = place.aws();
    for resource in resources {
        step.note(format!("aws {}", resource.removal().join(" ")));
        let what = format!("{} to be deleted", resource.name());
        step.wait_for(what, REMOVAL, || aws.remove(resource).map(Some))?;
    }
    if resources.is_empty() {
        step.note("nothing is left in AWS");
    }
    Ok(())
}

/// Fails if anything of a run is left, and lists it.
pub fn nothing_left(place: &Place<'_>, bucket: &str, run: &RunId) -> Result<()> {
    let left = plan(place.aws().inventory(bucket)?, &place.names().cluster, Some(run)).remove;
    if !left.is_empty() {
        bail!("AWS still has: {}", left.iter().map(Resource::name).collect::<Vec<_>>().join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(kind: Kind, id: &str, tags: &[(&str, &str)]) -> Resource {
        let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Resource { kind, id: id.to_owned(), tags }
    }

    fn everything() -> Vec<Resource> {
        vec![
            resource(Kind::Backups, "s3://b/causeway-e2e-1/", &[]),
            resource(Kind::Backups, "s3://b/causeway-e2e-2/", &[]),
            resource(Kind::Volume, "vol-1", &[(CLAIM_NAMESPACE, "causeway-e2e-1")]),
            resource(Kind::Volume, "vol-shop", &[(CLAIM_NAMESPACE, "shop")]),
            resource(Kind::SecurityGroup, "sg-1", &[(RunId::KEY, "1"), (CLUSTER, "prod")]),
            resource(Kind::TargetGroup, "tg-1", &[(RunId::KEY, "1"), (CLUSTER, "prod")]),
            resource(Kind::TargetGroup, "tg-2", &[(RunId::KEY, "2"), (CLUSTER, "prod")]),
            resource(Kind::LoadBalancer, "lb-1", &[(RunId::KEY, "1"), (CLUSTER, "prod")]),
            resource(Kind::LoadBalancer, "lb-shop", &[(CLUSTER, "prod")]),
            resource(Kind::LoadBalancer, "lb-of-others", &[(RunId::KEY, "1"), (CLUSTER, "other")]),
            resource(Kind::LoadBalancer, "lb-unowned", &[(RunId::KEY, "1")]),
        ]
    }

    fn ids(resources: &[Resource]) -> Vec<&str> {
        resources.iter().map(|it| it.id.as_str()).collect()
    }

    #[test]
    fn a_run_has_what_carries_its_mark_and_the_clusters() {
        let run = "1".parse().unwrap();
        let plan = plan(everything(), "prod", Some(&run));
        assert_eq!(ids(&plan.remove), ["lb-1", "tg-1", "sg-1", "vol-1", "s3://b/causeway-e2e-1/"]);
        assert!(plan.stays.is_empty());
    }

    #[test]
    fn without_a_run_only_what_has_the_tag_goes() {
        let plan = plan(everything(), "prod", None);
        assert_eq!(ids(&plan.remove), ["lb-1", "tg-1", "tg-2", "sg-1"]);
        let stays: Vec<_> = plan.stays.iter().map(|(it, _)| it.id.as_str()).collect();
        assert_eq!(stays, ["vol-1", "s3://b/causeway-e2e-1/", "s3://b/causeway-e2e-2/"]);
    }

    #[test]
    fn nothing_else_is_ever_named() {
        let stranger = "9".parse().unwrap();
        assert_eq!(plan(everything(), "prod", Some(&stranger)), Plan::default());
        let all = plan(everything(), "prod", None);
        for foreign in ["lb-shop", "vol-shop", "lb-of-others", "lb-unowned"] {
            assert!(!ids(&all.remove).contains(&foreign) && !all.stays.iter().any(|(it, _)| it.id == foreign));
        }
    }

    #[test]
    fn what_is_in_use_goes_last() {
        let order = [Kind::LoadBalancer, Kind::TargetGroup, Kind::SecurityGroup, Kind::Volume, Kind::Backups];
        assert!(order.is_sorted());
        let balancer = resource(Kind::LoadBalancer, "arn", &[]);
        assert_eq!(balancer.removal(), ["elbv2", "delete-load-balancer", "--load-balancer-arn", "arn"]);
    }
}
