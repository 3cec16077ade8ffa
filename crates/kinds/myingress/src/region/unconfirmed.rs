//! Names for which the outcome of a call is not known: the answer was lost, or the name turned out to be taken.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use causeway_aws::aws::AwsError;
use causeway_aws::elbv2::{Balancer, Pairs};

use super::Region;
use crate::ownership::Owner;
use crate::region::assets::{GroupMember, Member};

/// A name of which it is not known which resource has it.
#[derive(Clone, Debug)]
pub struct Unconfirmed {
    /// When it became unconfirmed.
    since: Instant,
    /// The kind of resource that may have the name.
    what: Named,
    /// Uid of the owner that would have it.
    uid: String,
    /// True if a create call of ours may have created it.
    created: bool,
    /// True if that call is still under way: for another member of the group, its answer is not lost.
    under_way: bool,
}

/// A resource that was created by a call whose answer was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The kind of resource.
    pub what: Named,
    pub name: String,
}

/// The kind of resource that may have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A load balancer.
    Balancer,
    /// A target group.
    Group,
}

impl Region {
    /// Notes that it is not known what has that name.
    pub(super) fn mark_unconfirmed(&self, what: Named, name: &str, uid: &str) {
        let unconfirmed =
            Unconfirmed { since: Instant::now(), what, uid: uid.to_owned(), created: false, under_way: false };
        let mut known = self.lock();
        let created = known.unconfirmed.get(name).is_some_and(|earlier| earlier.created && earlier.uid == uid);
        known.unconfirmed.insert(name.to_owned(), Unconfirmed { created, ..unconfirmed });
    }

    /// Notes that a create call of ours may have created what has that name.
    pub(super) fn mark_created(&self, what: Named, name: &str, uid: &str) {
        let unconfirmed =
            Unconfirmed { since: Instant::now(), what, uid: uid.to_owned(), created: true, under_way: true };
        self.lock().unconfirmed.insert(name.to_owned(), unconfirmed);
    }

    /// Notes that it is known what has that name.
    pub(super) fn settled(&self, name: &str) {
        self.lock().unconfirmed.remove(name);
    }

    /// Finds out the outcome of unconfirmed calls on these names and on all names of the owner. That nothing has a name
    /// is believed only once the name has been unconfirmed for longer than `timeout`.
    pub async fn confirm_created(&self, owner: &Owner, names: &[String], timeout: Duration) -> Result<(), AwsError> {
        let concerning = |(name, unconfirmed): (&String, &Unconfirmed)| {
            (names.contains(name) || unconfirmed.uid == owner.uid).then(|| (name.clone(), unconfirmed.clone()))
        };
        let all: Vec<(String, Unconfirmed)> = self.lock().unconfirmed.iter().filter_map(concerning).collect();
        for (name, unconfirmed) in all {
            let tags = match unconfirmed.what {
                Named::Balancer => self.look_for_balancer(&name).await?,
                Named::Group => self.look_for_group(&name).await?,
            };
            if tags.is_none() && unconfirmed.since.elapsed() < timeout {
                let unknown = format!("whether {name} was created is not known yet");
                return Err(AwsError::stale("Describe", unknown));
            }
            if unconfirmed.under_way {
                continue;
            }
            let ours = unconfirmed.uid == owner.uid && tags.is_some_and(|tags| owner.owns(&tags));
            if unconfirmed.created && ours {
                let made = Made { what: unconfirmed.what, name: name.clone() };
                self.lock().found_made.entry(owner.uid.clone()).or_default().push(made);
            }
            self.settled(&name);
        }
        Ok(())
    }

    /// Resources of the owner whose create calls lost their answers and that were found since the last call of this
    /// function.
    pub fn take_found_made(&self, uid: &str) -> Vec<Made> {
        self.lock().found_made.remove(uid).unwrap_or_default()
    }

    /// Forgets such resources of owners that no longer exist: no object asks for them any more.
    pub fn retain_found_made(&self, living: &BTreeSet<String>) {
        self.lock().found_made.retain(|uid, _| living.contains(uid));
    }

    /// Looks the name up in AWS, enters what has it, and returns its tags.
    pub(super) async fn look_for_balancer(&self, name: &str) -> Result<Option<Pairs>, AwsError> {
        let member = match self.elb.balancer_named(name).await? {
            Some(balancer) => Some(self.with_tags(balancer).await?),
            None => None,
        };
        let found = member.as_ref().map(|(_, tags)| tags.clone());
        let mut known = self.lock();
        known.assets.balancers.retain(|_, member| member.balancer.name != name);
        if let Some((balancer, tags)) = member {
            let arn = balancer.arn.clone();
            // Its listeners and rules are not known.
            let member = Member::unread(balancer, tags);
            known.shown(&arn);
            known.assets.balancers.insert(arn, member);
        }
        Ok(found)
    }

    /// Looks the name up in AWS, enters what has it, and returns its tags.
    async fn look_for_group(&self, name: &str) -> Result<Option<Pairs>, AwsError> {
        let member = match self.elb.target_group_named(name).await? {
            Some(group) => {
                let tags = self.tags_of(&group.arn, name).await?;
                Some(GroupMember { group, tags, attributes: None, fresh: false })
            }
            None => None,
        };
        let found = member.as_ref().map(|member| member.tags.clone());
        let mut known = self.lock();
        known.assets.groups.retain(|_, member| member.group.name != name);
        if let Some(member) = member {
            known.shown(&member.group.arn);
            known.assets.groups.insert(member.group.arn.clone(), member);
        }
        Ok(found)
    }

    async fn with_tags(&self, balancer: Balancer) -> Result<(Balancer, Pairs), AwsError> {
        let tags = self.tags_of(&balancer.arn, &balancer.name).await?;
        Ok((balancer, tags))
    }

    pub(super) async fn tags_of(&self, arn: &str, name: &str) -> Result<Pairs, AwsError> {
        let mut tags = self.elb.tags(&[arn.to_owned()]).await?;
        // Reads lag behind writes. A resource without tags would count as another owner's, so it must be read again.
        tags.remove(arn).ok_or_else(|| AwsError::stale("DescribeTags", format!("{name} is not visible in AWS yet")))
    }
}
