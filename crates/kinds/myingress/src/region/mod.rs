//! Everything known about the region: one snapshot that serves every object, so a reconcile with nothing to do calls
//! nothing in AWS. It is read again in batches every sweep. Our own changes are entered as they are made.

mod account;
pub mod assets;
mod changes;
mod deletions;
mod details;
mod dry_run;
#[cfg(test)]
pub(super) mod fixtures;
mod in_flight;
mod indexed;
mod known;
mod lookups;
mod refresh;
mod security;
mod shared;
mod sweep;
mod turns;
mod unconfirmed;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use causeway_api::myingress::Scheme;
use causeway_aws::acm::Acm;
use causeway_aws::aws::AwsError;
use causeway_aws::budget::Budget;
use causeway_aws::ec2::Ec2;
use causeway_aws::elbv2::{Elbv2, Pairs};
use causeway_aws::wafv2::Wafv2;
use causeway_runtime::cluster::Cluster;
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

use super::ownership::{Concerned, Owner, concerned_by, owner_of, uid_named_by};
use crate::drift::rivals::Rival;
use crate::region::assets::Assets;

use details::Reader;
use known::Known;
use lookups::Lookup;
use shared::SharedRead;

pub use details::Depth;
pub use refresh::keep_fresh;
pub use unconfirmed::{Made, Named};

/// The snapshot, and the clients that read it and change the region.
pub struct Region {
    /// Load balancing.
    pub elb: Elbv2,
    ec2: Ec2,
    wafv2: Wafv2,
    /// Reads details in turn, with calls that no other read needs.
    spare: Reader,
    acm: Acm,
    cluster: Cluster,
    metrics: Metrics,
    known: Mutex<Known>,
    /// Answers that several objects need, each read once for all of them.
    reads: Mutex<HashMap<Lookup, Arc<SharedRead>>>,
    loaded: watch::Sender<Option<Result<(), AwsError>>>,
    /// Wakes the poll of provisioning balancers.
    provisioning_began: Notify,
    /// ARNs of what is being deleted.
    deleting: Mutex<BTreeSet<String>>,
    /// Notified when one of these deletions ended.
    deletion_ended: Notify,
}

impl Region {
    /// A region about which nothing is known yet.
    pub fn new(
        aws: &SdkConfig,
        metrics: &Metrics,
        fence: &Fence,
        budget: Budget,
        elb: Elbv2,
        cluster: Cluster,
    ) -> Self {
        let wafv2 = Wafv2::new(aws, metrics.clone(), fence.clone(), budget);
        Self {
            spare: Reader { elb: elb.clone(), wafv2: wafv2.clone() }.in_background(),
            elb,
            ec2: Ec2::new(aws, metrics.clone(), fence.clone()),
            wafv2,
            acm: Acm::new(aws, metrics.clone(), fence.clone()),
            cluster,
            metrics: metrics.clone(),
            known: Mutex::default(),
            reads: Mutex::default(),
            loaded: watch::Sender::new(None),
            provisioning_began: Notify::new(),
            deleting: Mutex::default(),
            deletion_ended: Notify::new(),
        }
    }

    /// The Kubernetes cluster in ownership tags.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The objects to wake, from now on, because something changed without them.
    pub fn subscribe(&self) -> UnboundedReceiver<Concerned> {
        let (sender, receiver) = unbounded();
        self.lock().subscribers.push(sender);
        receiver
    }

    /// Wakes these objects.
    pub fn wake(&self, concerned: Concerned) {
        self.lock().wake(BTreeSet::from([concerned]));
    }

    /// Waits until the region has been read once. It fails with the reason if the region could not be read.
    pub async fn ready(&self) -> Result<(), AwsError> {
        let mut loaded = self.loaded.subscribe();
        match loaded.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
            // Does not happen: the sender lives in `self`.
            Err(_) => Ok(()),
        }
    }

    /// Waits until the region can be read again after a failure.
    pub fn recovered(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut loaded = self.loaded.subscribe();
        async move {
            // Without a sender the region is never read again, so no object may be woken.
            if loaded.wait_for(|loaded| matches!(loaded, Some(Err(_)))).await.is_err()
                || loaded.wait_for(|loaded| matches!(loaded, Some(Ok(())))).await.is_err()
            {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Everything that belongs to the owner.
    pub fn owned_by(&self, owner: &Owner) -> Assets {
        self.lock().assets.owned_by(owner)
    }

    /// Reports whether the owner has target groups.
    pub fn has_groups(&self, owner: &Owner) -> bool {
        !self.lock().assets.groups_of(owner).is_empty()
    }

    /// The schemes of the owner's balancers.
    pub fn schemes(&self, owner: &Owner) -> Vec<Scheme> {
        let known = self.lock();
        let own = known.assets.balancers_of(owner).into_iter().filter_map(|arn| known.assets.balancers.get(arn));
        own.filter_map(|member| member.balancer.scheme).collect()
    }

    /// How long ago the owner's balancers were read; for one that was not read yet, how long ago we changed it.
    pub fn age(&self, owner: &Owner) -> Duration {
        let known = self.lock();
        let marks = known.assets.balancers_of(owner).into_iter().filter_map(|arn| known.marks.get(arn));
        let ages = marks.filter_map(|mark| mark.read.or(mark.written)).map(|at| at.elapsed());
        ages.max().unwrap_or_default()
    }

    /// Searches everything that was read, of all owners. It is not copied, for it is large. Nothing else can be entered
    /// meanwhile.
    pub fn search<T>(&self, look: impl FnOnce(&Assets) -> T) -> T {
        look(&self.lock().assets)
    }

    /// The balancer of that name with its tags, if it does not belong to the owner.
    pub fn foreign_balancer(&self, owner: &Owner, name: &str) -> Option<(String, Pairs)> {
        let known = self.lock();
        let mut foreign = known.assets.balancers.values().filter(|member| !owner.owns(&member.tags));
        let member = foreign.find(|member| member.balancer.name == name)?;
        Some((member.balancer.arn.clone(), member.tags.clone()))
    }

    /// Reports whether a balancer with that ARN exists and does not belong to the owner. If so, its tags are read in
    /// every sweep from now on.
    pub fn disowned(&self, owner: &Owner, arn: &str) -> bool {
        let mut known = self.lock();
        let disowned = known.assets.balancers.get(arn).is_some_and(|member| !owner.owns(&member.tags));
        if disowned {
            known.disowned.insert(arn.to_owned());
        } else {
            known.disowned.remove(arn);
        }
        disowned
    }

    /// Reads the tags of that balancer in every sweep from now on, no matter which owner it has.
    pub fn watch_tags(&self, arn: &str) {
        self.lock().disowned.insert(arn.to_owned());
    }

    /// The names among these that a balancer has, no matter which owner it has.
    pub fn taken_names(&self, names: &[String]) -> BTreeSet<String> {
        self.lock().assets.taken_names(names)
    }

    /// The target groups of others that have one of these names: their ARNs by name. Their tags are read in every sweep
    /// from now on.
    pub fn taken_groups(&self, owner: &Owner, names: &BTreeSet<&String>) -> BTreeMap<String, String> {
        self.lock().taken_groups(owner, names)
    }

    /// Returns those of these target groups (by ARN) and security groups (by id) that Causeway made for another owner.
    pub fn owned_by_others(&self, owner: &Owner, names: &BTreeSet<String>) -> BTreeSet<String> {
        let known = self.lock();
        let is_other = |name: &&String| {
            let group = known.assets.groups.get(*name).map(|it| &it.tags);
            let tags = group.or_else(|| known.assets.security_groups.get(*name).map(|it| &it.tags));
            tags.is_some_and(|tags| uid_named_by(tags).is_some() && !owner.owns(tags))
        };
        names.iter().filter(is_other).cloned().collect()
    }

    /// Returns a resource of another cluster of the same name that keeps this owner from changing anything. `owns` says
    /// whether the owner has something in AWS.
    pub fn rival(&self, owner: &Owner, owns: bool) -> Option<Rival> {
        self.lock().assets.rival(owner, owns)
    }

    /// The objects to wake about something with these tags, possibly of another cluster of the same name.
    fn concerned(&self, tags: &Pairs) -> Option<Concerned> {
        concerned_by(&self.cluster, tags)
    }

    /// The objects to wake about something with these tags, if it belongs to this cluster.
    fn ours(&self, tags: &Pairs) -> Option<Concerned> {
        owner_of(&self.cluster, tags).map(|owner| owner.concerned())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}
