//! Orphans: resources in AWS that carry this cluster's tags and belong to no object of the cluster. They are left over
//! when an object vanishes while no operator runs, or kept on purpose by `deletionPolicy: Retain`. The operator reports
//! them. By itself it removes only what this very process created for an object that did not ask to keep it.

pub mod command;
pub mod options;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use tokio::time::sleep;
use tracing::{info, warn};

use causeway_api::{DeletionPolicy, MyIngress};
use causeway_runtime::cluster::Cluster;
use causeway_runtime::{Environment, Unlisted};

use crate::MyIngressKind;
use crate::action::{Action, BalancerAction, GroupAction, SecurityAction};
use crate::ownership::{Owner, owner_of};
use crate::region::assets::Assets;

/// This many looks in a row must find that something belongs to no object.
const LOOKS: u32 = 2;

/// Something in AWS that belongs to no object.
#[derive(Clone, Debug)]
pub struct Orphan {
    /// The owner that its tags name.
    pub owner: Owner,
    /// The resources.
    pub assets: Assets,
}

/// The owners in this cluster that some tags name and that are not among the living. What another cluster of the same
/// name has is no orphan of ours. Nothing is an orphan whose object may be in a namespace that is not known; members of
/// a group may be in any.
pub fn orphans(
    assets: &Assets,
    cluster: &Cluster,
    living: &BTreeSet<String>,
    (namespaces, unlisted): (&[String], &Unlisted),
) -> Vec<Orphan> {
    let balancers = assets.balancers.values().map(|member| &member.tags);
    let groups = assets.groups.values().map(|member| &member.tags);
    let security = assets.security_groups.values().map(|group| &group.tags);
    let owners = balancers.chain(groups).chain(security).filter_map(|tags| owner_of(cluster, tags));
    let served = |owner: &Owner| namespaces.is_empty() || namespaces.contains(&owner.namespace);
    let known = |owner: &Owner| {
        if owner.is_group() { unlisted.is_empty() } else { !unlisted.contains(&owner.namespace) }
    };
    let lost = owners.filter(|owner| !owner.uid.is_empty() && !living.contains(&owner.uid));
    let lost = lost.filter(|owner| served(owner) && known(owner));
    let lost: BTreeMap<String, Owner> = lost.map(|owner| (owner.uid.clone(), owner)).collect();
    lost.into_values().map(|owner| Orphan { assets: assets.owned_by(&owner), owner }).collect()
}

impl Orphan {
    /// Kind, name and ARN or id of each part.
    pub fn parts(&self) -> Vec<(&'static str, &str, &str)> {
        let assets = &self.assets;
        let balancers =
            assets.balancers.iter().map(|(arn, it)| ("load balancer", it.balancer.name.as_str(), arn.as_str()));
        let groups = assets.groups.iter().map(|(arn, it)| ("target group", it.group.name.as_str(), arn.as_str()));
        let entries = assets
            .entries_of(&self.owner)
            .map(|entry| ("rule of a security group", entry.group.as_str(), entry.from.as_str()));
        let security = assets.security_groups.iter().map(|(id, it)| ("security group", it.name.as_str(), id.as_str()));
        balancers.chain(groups).chain(entries).chain(security).collect()
    }

    /// The actions that remove it, in order. Before each deletion AWS is asked whether the tags still say the same.
    pub fn removal(&self) -> Vec<Action> {
        let (owner, assets) = (&self.owner, &self.assets);
        let balancers = assets.balancers.iter().map(|(arn, member)| {
            let name = member.balancer.name.clone();
            Action::Balancer(BalancerAction::Delete { owner: owner.clone(), arn: arn.clone(), name })
        });
        let groups = assets.groups.iter().map(|(arn, member)| {
            let name = member.group.name.clone();
            Action::Group(GroupAction::Delete { owner: owner.clone(), arn: arn.clone(), name })
        });
        let entries = assets.entries_of(owner).map(Action::shut_out);
        let security = assets
            .security_groups
            .iter()
            .map(|(id, group)| Action::Security(SecurityAction::Delete { id: id.clone(), name: group.name.clone() }));
        balancers.chain(groups).chain(entries).chain(security).collect()
    }

    fn described(&self) -> String {
        let parts: Vec<String> = self.parts().into_iter().map(|(what, name, _)| format!("{what} {name}")).collect();
        let Owner { namespace, name, uid, .. } = &self.owner;
        format!(
            "{} in AWS carry the tags of {namespace}/{name} (uid {uid}), which is not in the cluster: `causeway orphans ls` \
             lists them, `causeway orphans rm {uid}` deletes them",
            parts.join(", ")
        )
    }
}

/// The objects for which this process created something, by uid, and the deletion policy of each.
#[derive(Default)]
pub struct Journal(Mutex<HashMap<String, DeletionPolicy>>);

impl Journal {
    /// Notes that something is created for the owner, as the object wants it.
    pub fn makes(&self, owner: &Owner, object: &MyIngress) {
        if decides(owner, object) {
            let mut policies = self.0.lock();
            policies.insert(owner.uid.clone(), object.spec.deletion_policy);
        }
    }

    /// Updates the deletion policy of the owner.
    pub fn says(&self, owner: &Owner, object: &MyIngress) {
        if let Some(policy) = self.0.lock().get_mut(&owner.uid)
            && decides(owner, object)
        {
            *policy = object.spec.deletion_policy;
        }
    }

    /// Forgets what was created for the owner: it is to stay.
    pub fn forget(&self, owner: &Owner) {
        self.0.lock().remove(&owner.uid);
    }

    fn may_remove(&self, uid: &str) -> bool {
        self.0.lock().get(uid) == Some(&DeletionPolicy::Delete)
    }

    /// Forgets objects that are gone and left nothing behind.
    fn retain(&self, uids: &BTreeSet<String>) {
        self.0.lock().retain(|uid, _| uids.contains(uid));
    }
}

/// Reports whether the object has a say in what becomes of the owner's resources. In a group, those of its own
/// namespace have: any user may name a group of another one.
fn decides(owner: &Owner, object: &MyIngress) -> bool {
    object.metadata.namespace.as_ref() == Some(&owner.namespace)
}

/// Looks for orphans until it is dropped.
pub(crate) async fn watch(kind: &MyIngressKind, environment: &Environment) {
    let reporter = Reporter { controller: "causeway".into(), instance: Some(environment.instance.clone()) };
    let recorder = Recorder::new(environment.client.clone(), reporter);
    let mut found: HashMap<String, u32> = HashMap::new();
    loop {
        sleep(environment.sweep.max(Duration::from_secs(1))).await;
        if kind.region.ready().await.is_err() {
            continue;
        }
        let (living, orphans) = kind.region.search(|assets| {
            // The objects are read after the snapshot and after what is unlisted, so every object that has something in
            // the snapshot is known, or may be in a namespace that is not.
            let unlisted = kind.stores.unlisted_namespaces();
            let living = kind.living();
            let orphans = orphans(assets, kind.region.cluster(), &living, (&environment.namespaces, &unlisted));
            (living, orphans)
        });
        environment.metrics.set_orphans(orphans.len());
        let uids: BTreeSet<String> = orphans.iter().map(|orphan| orphan.owner.uid.clone()).collect();
        kind.journal.retain(&living.union(&uids).cloned().collect());
        kind.drift.retain(&living);
        kind.refusals.retain(&living);
        kind.region.retain_found_made(&living);
        found.retain(|uid, _| uids.contains(uid));
        for orphan in &orphans {
            let looks = found.entry(orphan.owner.uid.clone()).or_default();
            *looks += 1;
            if *looks == LOOKS {
                tell(&recorder, orphan).await;
            }
            if *looks >= LOOKS && kind.journal.may_remove(&orphan.owner.uid) {
                remove(kind, orphan).await;
            }
        }
    }
}

/// Publishes an event in the namespace where the object was. If that is gone too, only the log has the message.
async fn tell(recorder: &Recorder, orphan: &Orphan) {
    let note = orphan.described();
    warn!(namespace = orphan.owner.namespace, name = orphan.owner.name, uid = orphan.owner.uid, note, "orphaned");
    let event = Event {
        type_: EventType::Warning,
        reason: "Orphaned".into(),
        note: Some(note.chars().take(1000).collect()),
        action: format!("Orphaned-{}", orphan.owner.uid),
        secondary: None,
    };
    let reference = ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Namespace".into()),
        name: Some(orphan.owner.namespace.clone()),
        namespace: Some(orphan.owner.namespace.clone()),
        ..ObjectReference::default()
    };
    if let Err(error) = recorder.publish(&event, &reference).await {
        info!(namespace = orphan.owner.namespace, %error, "event about orphans not published");
    }
}

async fn remove(kind: &MyIngressKind, orphan: &Orphan) {
    let begun = Instant::now();
    for action in orphan.removal() {
        info!(?action, "deleting what this process created in AWS for an object that no longer exists");
        if let Err(error) = kind.region.change(&orphan.owner, &action).await {
            warn!(uid = orphan.owner.uid, %error, "an orphan could not be removed yet");
            return;
        }
    }
    info!(uid = orphan.owner.uid, took_ms = u64::try_from(begun.elapsed().as_millis()).ok(), "orphan removed");
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_aws::ec2::SecurityGroup;

    fn owner(namespace: &str, uid: &str) -> Owner {
        Owner { cluster: "prod".into(), namespace: namespace.into(), name: "web".into(), uid: uid.into() }
    }

    fn object(namespace: &str) -> MyIngress {
        let mut object = MyIngress::new("web", serde_json::from_value(serde_json::json!({})).expect("a spec"));
        object.metadata.namespace = Some(namespace.into());
        object
    }

    fn group(id: &str, owner: &Owner) -> (String, SecurityGroup) {
        let (name, vpc, none) = (id.to_owned(), "vpc".to_owned(), BTreeSet::new);
        let (ingress, egress) = (none(), none());
        (id.to_owned(), SecurityGroup { id: id.into(), name, vpc, tags: owner.tags(), ingress, egress })
    }

    fn uids(orphans: &[Orphan]) -> Vec<&str> {
        orphans.iter().map(|orphan| orphan.owner.uid.as_str()).collect()
    }

    #[test]
    fn a_resource_of_no_living_object_is_orphaned() {
        let other = Owner { cluster: "test".into(), ..owner("shop", "4") };
        let groups = [group("a", &owner("shop", "1")), group("b", &owner("shop", "2")), group("c", &other)];
        let assets = Assets { security_groups: groups.into(), ..Assets::default() };
        let living = BTreeSet::from(["1".to_owned()]);
        let found = orphans(&assets, &"prod".into(), &living, (&[], &Unlisted::default()));
        assert_eq!(uids(&found), ["2"]);
        assert_eq!(found[0].removal().len(), 1);
        assert!(found[0].described().contains("causeway orphans rm 2"), "{}", found[0].described());
    }

    #[test]
    fn a_resource_of_a_namesake_cluster_is_no_orphan() {
        let cluster = |uid: &str| Cluster { name: "prod".into(), uid: Some(uid.into()) };
        let of = |uid: &str, object: &str| Owner { cluster: cluster(uid), ..owner("shop", object) };
        let groups = [group("a", &of("ours", "1")), group("b", &of("theirs", "2")), group("c", &of("theirs", "1"))];
        let assets = Assets { security_groups: groups.into(), ..Assets::default() };
        let found = orphans(&assets, &cluster("ours"), &BTreeSet::new(), (&[], &Unlisted::default()));
        assert_eq!(uids(&found), ["1"]);
        assert_eq!(found[0].removal().len(), 1, "theirs stays, whatever uid it names");
    }

    #[test]
    fn an_operator_of_some_namespaces_knows_nothing_of_the_others() {
        let groups = [group("a", &owner("shop", "1")), group("b", &owner("bank", "2"))];
        let assets = Assets { security_groups: groups.into(), ..Assets::default() };
        let served = (&["bank".to_owned()][..], &Unlisted::default());
        assert_eq!(uids(&orphans(&assets, &"prod".into(), &BTreeSet::new(), served)), ["2"]);
    }

    #[test]
    fn unlisted_namespaces_have_no_orphans() {
        let groups = [
            group("a", &owner("shop", "1")),
            group("b", &owner("bank", "2")),
            group("c", &owner("bank", "group-3")),
            group("d", &owner("shop", "group-4")),
        ];
        let assets = Assets { security_groups: groups.into(), ..Assets::default() };
        let found = |unlisted: &Unlisted| {
            let found = orphans(&assets, &"prod".into(), &BTreeSet::new(), (&[], unlisted));
            found.iter().map(|orphan| orphan.owner.uid.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found(&Unlisted::new(&["shop"])), ["2"]);
        assert_eq!(found(&Unlisted::default()), ["1", "2", "group-3", "group-4"]);
    }

    #[test]
    fn only_unwanted_resources_that_this_process_made_are_removed() {
        let (journal, owner) = (Journal::default(), owner("shop", "1"));
        let mut object = object("shop");
        journal.says(&owner, &object);
        assert!(!journal.may_remove("1"));
        journal.makes(&owner, &object);
        assert!(journal.may_remove("1"));
        object.spec.deletion_policy = DeletionPolicy::Retain;
        journal.says(&owner, &object);
        assert!(!journal.may_remove("1"));
        journal.retain(&BTreeSet::new());
        object.spec.deletion_policy = DeletionPolicy::Delete;
        journal.says(&owner, &object);
        assert!(!journal.may_remove("1"));
    }

    #[test]
    fn a_guest_does_not_decide_what_becomes_of_a_group() {
        let (journal, owner) = (Journal::default(), owner("shop", "group-1"));
        let mut home = object("shop");
        home.spec.deletion_policy = DeletionPolicy::Retain;
        journal.makes(&owner, &home);
        journal.says(&owner, &object("guests"));
        journal.makes(&owner, &object("guests"));
        assert!(!journal.may_remove("group-1"));
        // Resources that were kept when the last object went are not removed because of the next one.
        journal.forget(&owner);
        journal.says(&owner, &object("shop"));
        assert!(!journal.may_remove("group-1"));
    }
}
