//! Another Kubernetes cluster whose operator was given our cluster's name, in the same account and region. The names
//! are equal, but the uids of the clusters differ. Nothing that the other cluster has is changed or deleted, and both
//! operators report the conflict.
//!
//! The cluster that came first goes on: it keeps what it has, and creates more. A cluster that finds the other's
//! resources and has none of its own creates nothing, because its name can still be changed without a loss.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::time::sleep;
use tracing::{info, warn};

use causeway_aws::elbv2::Pairs;
use causeway_runtime::Environment;
use causeway_runtime::cluster::{Cluster, NAMESPACE};

use crate::MyIngressKind;
use crate::ownership::{CLUSTER_UID, Owner, is_surely_of, rival_of};
use crate::region::assets::{Assets, Member};

/// Reason of the conditions and events that report it.
pub const REASON: &str = "ClusterNameShared";

/// Something that another cluster with our name has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// The other cluster's uid.
    pub uid: String,
    /// A resource that it has.
    pub what: String,
}

impl Rival {
    /// The meaning of the conflict, and how to end it.
    pub fn message(&self, cluster: &Cluster) -> String {
        let Self { uid, what } = self;
        let name = &cluster.name;
        match &cluster.uid {
            Some(ours) => format!(
                "another Kubernetes cluster has the CLUSTER_NAME {name} in this AWS account and region, too: {what} carries \
                 {CLUSTER_UID}={uid}, and this cluster's uid is {ours}. Nothing of it is changed: give one of the two \
                 operators another CLUSTER_NAME; if this cluster replaces that one, set CLUSTER_UID={uid}"
            ),
            None => format!(
                "{what} carries {CLUSTER_UID}={uid}, and this operator does not know its own cluster's uid, so it is left \
                 alone: let the operator get the namespace {NAMESPACE} (deploy/base/clusterrole.yaml) and restart it, or \
                 set CLUSTER_UID"
            ),
        }
    }
}

/// Returns a resource of another cluster that keeps this owner from changing anything: one with the name that the
/// owner's would have. If the owner has nothing in AWS, any resource does, unless our cluster was here before.
pub fn rival(assets: &Assets, owner: &Owner, owns: bool) -> Option<Rival> {
    let cluster = &owner.cluster;
    let mut newcomer = None;
    let mut established = owns;
    for (tags, what) in parts(assets, owner) {
        match rival_of(cluster, tags) {
            Some(uid) if owner.is_named_by(tags) => return Some(Rival { uid: uid.clone(), what: what.describe() }),
            Some(uid) => {
                newcomer.get_or_insert((uid, what));
            }
            None => established |= is_surely_of(cluster, tags),
        }
    }
    newcomer.filter(|_| !established).map(|(uid, what)| Rival { uid: uid.clone(), what: what.describe() })
}

/// A resource in AWS, with the name that people know it by.
pub enum Part<'a> {
    Balancer(&'a str),
    Group(&'a str),
    SecurityGroup(&'a str),
    Listener(&'a str, u16),
    Rule(&'a str, u16, u16),
}

impl Part<'_> {
    fn describe(&self) -> String {
        match self {
            Self::Balancer(name) => format!("load balancer {name}"),
            Self::Group(name) => format!("target group {name}"),
            Self::SecurityGroup(name) => format!("security group {name}"),
            Self::Listener(name, port) => format!("the listener on port {port} of {name}"),
            Self::Rule(name, port, number) => format!("rule {number} on port {port} of {name}"),
        }
    }
}

/// All resources that stand by themselves, and the listeners and rules on the owner's balancers.
fn parts<'a>(assets: &'a Assets, owner: &'a Owner) -> impl Iterator<Item = (&'a Pairs, Part<'a>)> {
    let ours = assets.balancers.values().filter(|member| owner.owns(&member.tags));
    alone(assets).chain(ours.flat_map(tagged_parts))
}

fn alone(assets: &Assets) -> impl Iterator<Item = (&Pairs, Part<'_>)> {
    let balancers = assets.balancers.values().map(|it| (&it.tags, Part::Balancer(&it.balancer.name)));
    let groups = assets.groups.values().map(|it| (&it.tags, Part::Group(&it.group.name)));
    let security = assets.security_groups.values().map(|it| (&it.tags, Part::SecurityGroup(&it.name)));
    balancers.chain(groups).chain(security)
}

/// The listeners and rules of a balancer.
pub fn tagged_parts(member: &Member) -> impl Iterator<Item = (&Pairs, Part<'_>)> {
    let name = member.balancer.name.as_str();
    member.listeners.iter().flat_map(|listeners| listeners.values()).flat_map(move |listener| {
        let port = listener.listener.settings.port;
        let rules = listener.rules.values();
        let rules = rules.map(move |rule| (&rule.tags, Part::Rule(name, port, rule.rule.priority)));
        rules.chain([(&listener.tags, Part::Listener(name, port))])
    })
}

/// All other clusters with our name, by uid, with one resource of each.
fn rivals(assets: &Assets, cluster: &Cluster) -> BTreeMap<String, Rival> {
    let mut rivals = BTreeMap::new();
    for (tags, what) in alone(assets) {
        if let Some(uid) = rival_of(cluster, tags) {
            rivals.entry(uid.clone()).or_insert_with(|| Rival { uid: uid.clone(), what: what.describe() });
        }
    }
    rivals
}

/// Looks for other clusters with our name until it is dropped. So the conflict is published even if no object is
/// affected.
pub(crate) async fn watch(kind: &MyIngressKind, environment: &Environment) {
    let reporter = Reporter { controller: "causeway".into(), instance: Some(environment.instance.clone()) };
    let recorder = Recorder::new(environment.client.clone(), reporter);
    let cluster = kind.region.cluster();
    let mut published: BTreeSet<String> = BTreeSet::new();
    loop {
        if kind.region.ready().await.is_ok() {
            let rivals = kind.region.search(|assets| rivals(assets, cluster));
            environment.metrics.set_cluster_name_rivals(rivals.len());
            published.retain(|uid| rivals.contains_key(uid));
            for (uid, rival) in rivals {
                if published.insert(uid) {
                    tell(&recorder, &rival.message(cluster)).await;
                }
            }
        }
        sleep(environment.sweep.max(Duration::from_secs(1))).await;
    }
}

/// Publishes an event about the namespace whose uid stands for the cluster. If that fails, only the log has the
/// message.
async fn tell(recorder: &Recorder, note: &str) {
    warn!(note, "another cluster has the same CLUSTER_NAME");
    let event = Event {
        type_: EventType::Warning,
        reason: REASON.into(),
        note: Some(note.chars().take(1000).collect()),
        action: REASON.into(),
        secondary: None,
    };
    let reference = ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Namespace".into()),
        name: Some(NAMESPACE.into()),
        namespace: Some(NAMESPACE.into()),
        ..ObjectReference::default()
    };
    if let Err(error) = recorder.publish(&event, &reference).await {
        info!(%error, "event about another cluster not published");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_aws::ec2::SecurityGroup;

    fn owner(cluster_uid: Option<&str>, uid: &str) -> Owner {
        let cluster = Cluster { name: "prod".into(), uid: cluster_uid.map(str::to_owned) };
        Owner { cluster, namespace: "shop".into(), name: "web".into(), uid: uid.into() }
    }

    fn assets(owners: &[Owner]) -> Assets {
        let group = |(number, owner): (usize, &Owner)| {
            let id = format!("sg-{number}");
            let (name, vpc, none) = (id.clone(), "vpc".to_owned(), BTreeSet::new);
            (id.clone(), SecurityGroup { id, name, vpc, tags: owner.tags(), ingress: none(), egress: none() })
        };
        Assets { security_groups: owners.iter().enumerate().map(group).collect(), ..Assets::default() }
    }

    #[test]
    fn an_owner_without_resources_finds_a_rival_by_any_resource() {
        let (ours, theirs) = (owner(Some("a"), "1"), owner(Some("b"), "2"));
        let found = rival(&assets(&[theirs]), &ours, false).unwrap();
        assert_eq!((found.uid.as_str(), found.what.as_str()), ("b", "security group sg-0"));
        let message = found.message(&ours.cluster);
        for words in ["CLUSTER_NAME prod", "cluster-uid=b", "uid is a"] {
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn a_cluster_that_was_here_before_goes_on() {
        let (ours, theirs) = (owner(Some("a"), "1"), owner(Some("b"), "2"));
        assert_eq!(rival(&assets(std::slice::from_ref(&theirs)), &ours, true), None, "this object was");
        let other = owner(Some("a"), "3");
        assert_eq!(rival(&assets(&[theirs, other]), &ours, false), None, "another object was");
    }

    #[test]
    fn a_rivals_resource_of_the_same_name_stops_the_owner() {
        let (ours, theirs) = (owner(Some("a"), "1"), owner(Some("b"), "1"));
        let found = rival(&assets(&[ours.clone(), theirs]), &ours, true).unwrap();
        assert_eq!(found.uid, "b");
    }

    #[test]
    fn a_cluster_without_uid_names_the_missing_permission() {
        let (ours, theirs) = (owner(None, "1"), owner(Some("b"), "1"));
        let message = rival(&assets(&[theirs]), &ours, false).unwrap().message(&ours.cluster);
        assert!(message.contains("get the namespace kube-system") && message.contains("CLUSTER_UID"), "{message}");
    }

    #[test]
    fn each_namesake_cluster_is_found_once() {
        let cluster = |name: &str, uid: &str| Cluster { name: name.into(), uid: Some(uid.into()) };
        let of = |name: &str, uid: &str| Owner { cluster: cluster(name, uid), ..owner(None, "1") };
        let found = rivals(
            &assets(&[of("prod", "a"), of("prod", "b"), of("prod", "b"), of("test", "c")]),
            &cluster("prod", "a"),
        );
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["b"]);
    }
}
