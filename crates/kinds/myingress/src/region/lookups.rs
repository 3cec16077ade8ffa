//! Answers that several objects need. Each is asked for once for all of them, and kept until the next sweep.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use causeway_aws::acm::Certificate;
use causeway_aws::aws::AwsError;
use causeway_aws::ec2::{SecurityGroup, Subnet};
use causeway_aws::elbv2::Pairs;
use causeway_runtime::Class;

use super::Region;
use super::shared::SharedRead;
use crate::decide::ASKED_AGAIN;
use crate::model::is_group_id;
use crate::ownership::Owner;

/// Tags that subnets must have: values by key; no values stand for any value.
pub type SubnetTags = BTreeMap<String, Vec<String>>;

/// The answers since the last sweep.
#[derive(Default)]
pub struct Lookups {
    by_tags: HashMap<SubnetTags, Answer<Vec<Subnet>>>,
    by_ids: HashMap<Vec<String>, Answer<Vec<Subnet>>>,
    groups: HashMap<BTreeSet<String>, Answer<Vec<SecurityGroup>>>,
    certificates: Option<Answer<Vec<Certificate>>>,
    /// Target groups of others that a list has not shown: why AWS does not know them; `None` for those that exist.
    target_groups: HashMap<String, Answer<Option<String>>>,
    /// Security groups of balancers that are not Causeway's, by id; `None` if there is none with that id.
    balancer_groups: HashMap<String, Answer<Option<SecurityGroup>>>,
    /// True if these may not be read. They are not needed, so they are not requested again.
    balancer_groups_denied: bool,
    /// Names that no balancer had, and when that was read.
    no_balancers: HashMap<String, Answer<()>>,
}

struct Answer<T> {
    found: T,
    at: Instant,
}

impl<T: Clone> Answer<T> {
    fn now(found: &T) -> Self {
        Self { found: found.clone(), at: Instant::now() }
    }

    /// Reports whether some of those who waited for it may not have taken it yet.
    fn is_new(&self) -> bool {
        self.at.elapsed() < TAKEN_WITHIN
    }
}

/// An object that waited for an answer takes it within this time, however often the region is swept.
const TAKEN_WITHIN: Duration = Duration::from_secs(1);

/// A filter takes at most so many ids.
/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html#Filtering_Resources_CLI>
const MOST_IDS: usize = 200;

/// A question that is asked once for all objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    SecurityGroups,
    Certificates,
    SubnetsTagged(SubnetTags),
    Subnets(Vec<String>),
    SecurityGroupsCalled(BTreeSet<String>),
    TargetGroup(String),
    Balancer(String),
    GroupsOfBalancers,
}

impl Region {
    /// The subnets that have these tags.
    pub async fn subnets_tagged(&self, owner: &Owner, tags: &SubnetTags) -> Result<Vec<Subnet>, AwsError> {
        let known = || self.lock().lookups.by_tags.get(tags).map(|it| it.found.clone());
        let read = async {
            let found = self.ec2.subnets_tagged(tags).await?;
            self.lock().lookups.by_tags.insert(tags.clone(), Answer::now(&found));
            Ok(found)
        };
        self.shared(Lookup::SubnetsTagged(tags.clone()), owner, known, read).await
    }

    /// The subnets of these ids.
    pub async fn subnets(&self, owner: &Owner, ids: &[String]) -> Result<Vec<Subnet>, AwsError> {
        let known = || self.lock().lookups.by_ids.get(ids).map(|it| it.found.clone());
        let read = async {
            let found = self.ec2.subnets(ids).await?;
            self.lock().lookups.by_ids.insert(ids.to_vec(), Answer::now(&found));
            Ok(found)
        };
        self.shared(Lookup::Subnets(ids.to_vec()), owner, known, read).await
    }

    /// The security groups with one of these ids, or of these names.
    pub async fn security_groups_called(
        &self,
        owner: &Owner,
        called: &BTreeSet<String>,
    ) -> Result<Vec<SecurityGroup>, AwsError> {
        let known = || self.lock().lookups.groups.get(called).map(|it| it.found.clone());
        let read = async {
            let (ids, names): (Vec<_>, Vec<_>) = called.iter().cloned().partition(|it| is_group_id(it));
            let found = self.ec2.security_groups_called(&ids, &names).await?;
            self.lock().lookups.groups.insert(called.clone(), Answer::now(&found));
            Ok(found)
        };
        self.shared(Lookup::SecurityGroupsCalled(called.clone()), owner, known, read).await
    }

    /// The security groups with these ids, which balancers have. Those of all balancers are read at once. If they cannot be
    /// read, there are none: nothing but a warning depends on them.
    pub async fn security_groups_of_balancers(&self, owner: &Owner, ids: &BTreeSet<String>) -> Vec<SecurityGroup> {
        let known = || {
            let lookups = &self.lock().lookups;
            if lookups.balancer_groups_denied {
                return Some(Vec::new());
            }
            let groups = ids.iter().map(|id| lookups.balancer_groups.get(id).map(|it| it.found.clone()));
            groups.collect::<Option<Vec<_>>>().map(|found| found.into_iter().flatten().collect())
        };
        let read = async {
            let all: BTreeSet<String> = {
                let known = self.lock();
                let ours = known.assets.balancers.values().filter(|member| self.ours(&member.tags).is_some());
                ours.flat_map(|member| &member.balancer.security_groups).chain(ids).cloned().collect()
            };
            let mut found = BTreeMap::new();
            for some in all.iter().cloned().collect::<Vec<_>>().chunks(MOST_IDS) {
                let groups = self.ec2.security_groups_called(some, &[]).await?;
                found.extend(groups.into_iter().map(|group| (group.id.clone(), group)));
            }
            let lookups = &mut self.lock().lookups;
            lookups.balancer_groups = all.into_iter().map(|id| (id.clone(), Answer::now(&found.remove(&id)))).collect();
            Ok(ids.iter().filter_map(|id| lookups.balancer_groups.get(id)?.found.clone()).collect())
        };
        match self.shared(Lookup::GroupsOfBalancers, owner, known, read).await {
            Ok(groups) => groups,
            Err(error) => {
                tracing::info!(%error, "whether security groups of balancers let clients in is not known");
                self.lock().lookups.balancer_groups_denied |= error.class == Class::Denied;
                Vec::new()
            }
        }
    }

    /// The certificates of AWS Certificate Manager.
    pub async fn certificates(&self, owner: &Owner) -> Result<Vec<Certificate>, AwsError> {
        let known = || self.lock().lookups.certificates.as_ref().map(|it| it.found.clone());
        let read = async {
            let found = self.acm.issued_certificates().await?;
            self.lock().lookups.certificates = Some(Answer::now(&found));
            Ok(found)
        };
        self.shared(Lookup::Certificates, owner, known, read).await
    }

    /// The balancer of that name with its tags, if it does not belong to the owner. AWS is asked if no list has shown it.
    pub async fn adoptable(&self, owner: &Owner, name: &str) -> Result<Option<(String, Pairs)>, AwsError> {
        let known = || {
            let missing = || self.lock().lookups.no_balancers.get(name).is_some_and(|it| it.at.elapsed() < ASKED_AGAIN);
            self.foreign_balancer(owner, name).map(Some).or_else(|| missing().then_some(None))
        };
        let read = async {
            if self.look_for_balancer(name).await?.is_none() {
                self.lock().lookups.no_balancers.insert(name.to_owned(), Answer::now(&()));
            }
            Ok(self.foreign_balancer(owner, name))
        };
        self.shared(Lookup::Balancer(name.to_owned()), owner, known, read).await
    }

    /// Those of these target groups that AWS does not know, with its words by ARN. If AWS gives no answer, the group counts
    /// as one that exists: the call that needs it will tell.
    pub async fn unknown_target_groups(&self, owner: &Owner, arns: &BTreeSet<String>) -> BTreeMap<String, String> {
        let mut unknown = BTreeMap::new();
        for arn in arns {
            let read = async {
                let words = self.elb.why_no_target_group(arn).await?;
                let mut known = self.lock();
                let before = known.lookups.target_groups.insert(arn.clone(), Answer::now(&words));
                if words.is_none() && before.is_some_and(|it| it.found.is_some()) {
                    // Another member may act for the group.
                    known.wake(BTreeSet::from([owner.concerned()]));
                }
                Ok(words)
            };
            match self.shared(Lookup::TargetGroup(arn.clone()), owner, || self.known_target_group(arn), read).await {
                Ok(words) => unknown.extend(words.map(|words| (arn.clone(), words))),
                Err(error) => tracing::info!(arn, %error, "whether a target group exists is not known"),
            }
        }
        unknown
    }

    #[expect(clippy::option_option, reason = "not known, there, and why it is not there are three different things")]
    fn known_target_group(&self, arn: &str) -> Option<Option<String>> {
        let known = self.lock();
        if known.assets.groups.contains_key(arn) {
            return Some(None);
        }
        let answer = known.lookups.target_groups.get(arn)?;
        (answer.found.is_none() || answer.at.elapsed() < ASKED_AGAIN).then(|| answer.found.clone())
    }

    /// Forgets what lists and questions said about a target group of others, because AWS says otherwise.
    pub(super) fn doubt_target_group(&self, arn: &str) {
        let mut known = self.lock();
        known.assets.groups.remove(arn);
        known.lookups.target_groups.remove(arn);
    }

    /// Returns the known answer, or reads it once for all objects that ask the same. Wakes the objects that an earlier
    /// failure held up.
    pub(super) async fn shared<T>(
        &self,
        lookup: Lookup,
        owner: &Owner,
        known: impl Fn() -> Option<T>,
        read: impl Future<Output = Result<T, AwsError>>,
    ) -> Result<T, AwsError> {
        let shared: Arc<SharedRead> = self.reads().entry(lookup).or_default().clone();
        let (found, mut held_up) = shared.get(&owner.concerned(), known, read).await?;
        // The calling object goes on without being woken.
        held_up.remove(&owner.concerned());
        self.lock().wake(held_up);
        Ok(found)
    }

    /// Forgets the answers, so the next question calls AWS again.
    pub(super) fn forget_lookups(&self) {
        {
            let lookups = &mut self.lock().lookups;
            lookups.by_tags.retain(|_, answer| answer.is_new());
            lookups.by_ids.retain(|_, answer| answer.is_new());
            lookups.groups.retain(|_, answer| answer.is_new());
            lookups.certificates.take_if(|answer| !answer.is_new());
            lookups.balancer_groups.retain(|_, answer| answer.is_new());
            lookups.no_balancers.retain(|_, answer| answer.at.elapsed() < ASKED_AGAIN);
            let unknown = |it: &Answer<Option<String>>| it.found.is_some() && it.at.elapsed() < ASKED_AGAIN;
            lookups.target_groups.retain(|_, answer| answer.is_new() || unknown(answer));
        }
        self.reads().retain(|_, read| read.matters());
    }

    fn reads(&self) -> MutexGuard<'_, HashMap<Lookup, Arc<SharedRead>>> {
        self.reads.lock()
    }
}
