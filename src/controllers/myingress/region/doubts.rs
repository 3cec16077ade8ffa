//! Names for which the outcome of a call is not known: its answer was lost, or the name turned out to be taken.

use std::time::{Duration, Instant};

use super::Region;
use crate::controllers::myingress::assets::{GroupMember, Member};
use crate::controllers::myingress::ownership::Owner;
use crate::external::aws::AwsError;
use crate::external::elbv2::{Balancer, Pairs};

/// What is not known about a name.
#[derive(Clone, Debug)]
pub struct Doubt {
    /// Since when.
    since: Instant,
    /// What may have the name.
    what: Named,
    /// Uid of the owner that would have it.
    uid: String,
}

/// What may have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A load balancer.
    Balancer,
    /// A target group.
    Group,
}

impl Region {
    /// Notes that nobody knows what has that name.
    pub(super) fn doubt(&self, what: Named, name: &str, uid: &str) {
        let doubt = Doubt { since: Instant::now(), what, uid: uid.to_owned() };
        self.known().doubts.insert(name.to_owned(), doubt);
    }

    /// Notes that it is known what has that name.
    pub(super) fn settled(&self, name: &str) {
        self.known().doubts.remove(name);
    }

    /// Finds out what became of calls on these names, and on all names of the owner, whose outcome is not known. That
    /// nothing has a name is believed only when the doubt is older than `patience`.
    pub async fn settle_doubts(&self, owner: &Owner, names: &[String], patience: Duration) -> Result<(), AwsError> {
        let concerning = |(name, doubt): (&String, &Doubt)| {
            (names.contains(name) || doubt.uid == owner.uid).then(|| (name.clone(), doubt.clone()))
        };
        let doubts: Vec<(String, Doubt)> = self.known().doubts.iter().filter_map(concerning).collect();
        for (name, doubt) in doubts {
            let found = match doubt.what {
                Named::Balancer => self.look_for_balancer(&name).await?,
                Named::Group => self.look_for_group(&name).await?,
            };
            if !found && doubt.since.elapsed() < patience {
                let unknown = format!("whether {name} was created is not known yet");
                return Err(AwsError::raced("Describe", unknown));
            }
            self.settled(&name);
        }
        Ok(())
    }

    async fn look_for_balancer(&self, name: &str) -> Result<bool, AwsError> {
        let member = match self.elb.named(name).await? {
            Some(balancer) => Some(self.with_tags(balancer).await?),
            None => None,
        };
        let found = member.is_some();
        let mut known = self.known();
        known.assets.balancers.retain(|_, member| member.balancer.name != name);
        if let Some((balancer, tags)) = member {
            let arn = balancer.arn.clone();
            // Nothing is known of what stands on it.
            let member = Member::unread(balancer, tags);
            known.shown(&arn);
            known.assets.balancers.insert(arn, member);
        }
        Ok(found)
    }

    async fn look_for_group(&self, name: &str) -> Result<bool, AwsError> {
        let member = match self.elb.target_group_named(name).await? {
            Some(group) => {
                let tags = self.tags_of(&group.arn, name).await?;
                Some(GroupMember { group, tags, attributes: None, fresh: false })
            }
            None => None,
        };
        let found = member.is_some();
        let mut known = self.known();
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
        // Reads lag behind writes. What has no tags would count as somebody else's, so look again.
        tags.remove(arn).ok_or_else(|| AwsError::raced("DescribeTags", format!("{name} is not to be seen yet")))
    }
}
