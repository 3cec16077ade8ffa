//! Reads the region in batches: everything that AWS lists at once. Details that take a call for each balancer have
//! their own turns (see `turns`). So a sweep costs no more with more objects, and one list that cannot be read does not
//! keep the others from being read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use causeway_aws::aws::AwsError;
use causeway_aws::elbv2::{Balancer, Pairs, State, TargetGroup};

use super::Region;
use crate::region::assets::Member;

/// A list that AWS returns at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    /// Balancers, with the tags of ours.
    Balancers,
    /// Target groups, with the tags of new ones, and of those whose names are taken from us.
    Groups,
    /// Security groups of the cluster, once an object needed one.
    SecurityGroups,
}

impl List {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Balancers, Self::Groups, Self::SecurityGroups];
}

impl Region {
    /// Reads all lists once. Fails if one cannot be read.
    pub async fn sweep(&self) -> Result<(), AwsError> {
        let failed = self.read_lists(&List::ALL.into()).await;
        failed.into_values().next().map_or(Ok(()), Err)
    }

    /// Reads these lists, and wakes the objects for which something in the region changed. Returns the lists that could
    /// not be read.
    pub async fn read_lists(&self, lists: &BTreeSet<List>) -> BTreeMap<List, AwsError> {
        self.forget_lookups();
        let limits = self.read_limits();
        let read = |list: List| async move {
            let outcome = match list {
                _ if !lists.contains(&list) => Ok(()),
                List::Balancers => self.read_balancers().await,
                List::Groups => self.read_groups().await,
                List::SecurityGroups if self.lock().security.matters() => self.read_security_groups().await,
                List::SecurityGroups => Ok(()),
            };
            (list, outcome)
        };
        let (outcomes, ()) = tokio::join!(futures::future::join_all(List::ALL.map(read)), limits);
        let failed: BTreeMap<_, _> =
            outcomes.into_iter().filter_map(|(list, outcome)| Some((list, outcome.err()?))).collect();
        self.note_loaded(lists, &failed);
        self.tell_quotas();
        failed
    }

    /// Notes which lists were read for the first time. Once loaded, the region stays loaded: an old snapshot serves
    /// better than none.
    fn note_loaded(&self, lists: &BTreeSet<List>, failed: &BTreeMap<List, AwsError>) {
        // Objects need balancers and target groups. If they need security groups, they read them themselves.
        let needed = [List::Balancers, List::Groups];
        let missing = {
            let mut known = self.lock();
            known.loaded.extend(lists.iter().filter(|list| !failed.contains_key(*list)));
            needed.into_iter().find(|list| !known.loaded.contains(list))
        };
        let outcome = match missing {
            None => Ok(()),
            Some(list) => match failed.get(&list) {
                Some(error) => Err(error.clone()),
                None => return,
            },
        };
        self.loaded.send_if_modified(|loaded| {
            let better = !matches!(loaded, Some(Ok(())));
            if better {
                *loaded = Some(outcome);
            }
            better
        });
    }

    async fn read_balancers(&self) -> Result<(), AwsError> {
        let begun = Instant::now();
        let balancers: Vec<Balancer> = self.elb.balancers().await?;
        let unknown_or_ours = |arn: &String| {
            let known = self.lock();
            let ours = |member: &Member| self.concerned(&member.tags).is_some();
            known.disowned.contains(arn) || known.assets.balancers.get(arn).is_none_or(ours)
        };
        // Balancers of others do not become ours, so their tags are read only once. Those of a cluster of the same name
        // are read like ours, so the end of that conflict is reported.
        let arns: Vec<String> = balancers.iter().map(|it| it.arn.clone()).filter(unknown_or_ours).collect();
        let mut tags = self.elb.tags(&arns).await?;
        let mut known = self.lock();
        let mut woken = BTreeSet::new();
        let mut wake = |tags: &Pairs| woken.extend(self.concerned(tags));
        known.refresh_balancers(balancers, &mut tags, begun, &mut wake);
        known.wake(woken);
        Ok(())
    }

    async fn read_groups(&self) -> Result<(), AwsError> {
        let begun = Instant::now();
        let groups: Vec<TargetGroup> = self.elb.target_groups().await?;
        let unknown_or_disowned = |arn: &String| {
            let known = self.lock();
            known.disowned.contains(arn) || !known.assets.groups.contains_key(arn)
        };
        let arns: Vec<String> = groups.iter().map(|it| it.arn.clone()).filter(unknown_or_disowned).collect();
        let mut tags = self.elb.tags(&arns).await?;
        let mut known = self.lock();
        let mut woken = BTreeSet::new();
        let mut wake = |tags: &Pairs| woken.extend(self.concerned(tags));
        known.refresh_groups(groups, &mut tags, begun, &mut wake);
        known.wake(woken);
        Ok(())
    }

    /// Polls our balancers that are being set up. Returns whether there are any left.
    pub async fn poll_provisioning(&self) -> Result<bool, AwsError> {
        let arns = self.provisioning();
        if arns.is_empty() {
            return Ok(false);
        }
        let mut woken = BTreeSet::new();
        for balancer in self.elb.describe_balancers(&arns).await? {
            let mut known = self.lock();
            known.shown(&balancer.arn);
            let Some(member) = known.assets.balancers.get_mut(&balancer.arn) else { continue };
            if member.balancer.state != balancer.state {
                member.balancer.state = balancer.state;
                woken.extend(self.concerned(&member.tags));
            }
        }
        self.lock().wake(woken);
        Ok(!self.provisioning().is_empty())
    }

    fn provisioning(&self) -> Vec<String> {
        let known = self.lock();
        let ours = known
            .assets
            .balancers
            .values()
            .filter(|member| member.balancer.state == State::Provisioning && self.ours(&member.tags).is_some());
        ours.map(|member| member.balancer.arn.clone()).collect()
    }
}
