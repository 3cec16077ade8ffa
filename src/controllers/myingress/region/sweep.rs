//! Reads the region in batches: everything that AWS lists at once in every sweep, and of the rest, which must be asked
//! for balancer by balancer, what was not looked at for longest. So a sweep costs no more with more objects.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Known, Region, SecurityGroups};
use crate::controllers::myingress::assets::{GroupMember, Member};
use crate::controllers::myingress::ownership::Concerned;
use crate::external::aws::AwsError;
use crate::external::elbv2::{Balancer, Pairs, State, TargetGroup};

/// Reads lag behind writes: what we created and no read has shown is not believed gone before this.
pub const READ_LAG: Duration = Duration::from_mins(1);

/// Calls that a sweep spends on what AWS tells of one balancer at a time only.
const DETAIL_CALLS: usize = 150;

impl Region {
    /// Reads the region and wakes the objects for which it is not as it was. Returns the target groups whose turn it was
    /// to be looked at closely.
    pub async fn sweep(&self) -> Result<Vec<String>, AwsError> {
        let outcome = self.read_lists().await;
        self.loaded.send_if_modified(|loaded| {
            // Once loaded it stays so: an old snapshot serves better than none.
            let better = !matches!(loaded, Some(Ok(())));
            if better {
                *loaded = Some(outcome.clone());
            }
            better
        });
        outcome?;
        self.forget_lookups();
        let security = self.known().security_groups;
        if security != SecurityGroups::Unread {
            self.read_security_groups().await?;
        }
        Ok(self.read_in_turn().await)
    }

    async fn read_lists(&self) -> Result<(), AwsError> {
        let begun = Instant::now();
        let balancers = self.elb.all().await?;
        let groups = self.elb.target_groups().await?;
        let unknown_or_ours = |arn: &String| {
            let known = self.known();
            let ours = |member: &Member| self.concerned(&member.tags).is_some();
            known.disowned.contains(arn) || known.assets.balancers.get(arn).is_none_or(ours)
        };
        let unknown = |arn: &String| !self.known().assets.groups.contains_key(arn);
        // What belongs to others is not ours later: their tags are read once.
        let balancer_arns = balancers.iter().map(|it| it.arn.clone()).filter(unknown_or_ours);
        let group_arns = groups.iter().map(|it| it.arn.clone()).filter(unknown);
        let arns: Vec<String> = balancer_arns.chain(group_arns).collect();
        let mut tags = self.elb.tags(&arns).await?;
        let mut known = self.known();
        let mut woken = BTreeSet::new();
        let mut wake = |tags: &Pairs| woken.extend(self.concerned(tags));
        let mut seen = BTreeSet::new();
        for balancer in balancers {
            seen.insert(balancer.arn.clone());
            let tags = tags.remove(&balancer.arn);
            known.refresh_balancer(balancer, tags, begun, &mut wake);
        }
        for group in groups {
            seen.insert(group.arn.clone());
            let tags = tags.remove(&group.arn);
            known.refresh_group(group, tags, begun, &mut wake);
        }
        known.drop_unseen(&seen, &mut wake);
        known.wake(woken);
        Ok(())
    }

    /// Reads details of those of our balancers that were not looked at for longest, as many as the calls allow. What
    /// cannot be read stays as it was: it must not keep the others from being looked at.
    async fn read_in_turn(&self) -> Vec<String> {
        let ours: Vec<(String, Concerned)> = {
            let known = self.known();
            let balancers = known.assets.balancers.iter();
            balancers.filter_map(|(arn, member)| Some((arn.clone(), self.concerned(&member.tags)?))).collect()
        };
        let mut turns: Vec<(Option<Instant>, String, Concerned)> =
            ours.into_iter().map(|(arn, concerned)| (self.last_read(&arn), arn, concerned)).collect();
        turns.sort();
        let mut calls = 0;
        let mut groups = Vec::new();
        for (_, arn, concerned) in turns {
            if calls >= DETAIL_CALLS {
                break;
            }
            let depth = self.known().marks.get(&arn).map(|mark| mark.depth).unwrap_or_default();
            if depth.is_empty() {
                continue;
            }
            match self.read_balancer(&arn, depth).await {
                Ok(took) => calls += took,
                Err(error) => {
                    calls += 1;
                    tracing::warn!(arn, %error, "its parts could not be read in this sweep");
                }
            }
            let arns = self.groups_of(&concerned);
            calls += self.read_groups(&arns).await;
            // One more for each, to look at its targets.
            calls += arns.len();
            groups.extend(arns);
        }
        groups
    }

    /// The target groups of an owner.
    fn groups_of(&self, owner: &Concerned) -> Vec<String> {
        let known = self.known();
        let theirs = known.assets.groups.iter().filter(|(_, it)| self.concerned(&it.tags).as_ref() == Some(owner));
        theirs.map(|(arn, _)| arn.clone()).collect()
    }

    /// Reads tags and attributes of target groups; returns how many calls that took.
    async fn read_groups(&self, arns: &[String]) -> usize {
        if arns.is_empty() {
            return 0;
        }
        let begun = Instant::now();
        match self.elb.tags(arns).await {
            Ok(tags) => {
                let mut known = self.known();
                let mut woken = BTreeSet::new();
                for (arn, tags) in tags {
                    if known.written_since(&arn, begun) {
                        continue;
                    }
                    if let Some(member) = known.assets.groups.get_mut(&arn).filter(|member| member.tags != tags) {
                        woken.extend(self.concerned(&member.tags));
                        member.tags = tags;
                    }
                }
                known.wake(woken);
            }
            Err(error) => tracing::warn!(%error, "tags of target groups could not be read in this sweep"),
        }
        for arn in arns {
            if let Err(error) = self.read_group_attributes(arn).await {
                tracing::warn!(arn, %error, "attributes could not be read in this sweep");
            }
        }
        arns.len() + arns.len().div_ceil(20)
    }

    /// Looks at our balancers that are being set up; true while there are any.
    pub async fn poll_provisioning(&self) -> Result<bool, AwsError> {
        let arns = self.provisioning();
        if arns.is_empty() {
            return Ok(false);
        }
        let mut woken = BTreeSet::new();
        for balancer in self.elb.described(&arns).await? {
            let mut known = self.known();
            known.marks.entry(balancer.arn.clone()).or_default().seen = true;
            let Some(member) = known.assets.balancers.get_mut(&balancer.arn) else { continue };
            if member.balancer.state != balancer.state {
                member.balancer.state = balancer.state;
                woken.extend(self.concerned(&member.tags));
            }
        }
        self.known().wake(woken);
        Ok(!self.provisioning().is_empty())
    }

    fn provisioning(&self) -> Vec<String> {
        let known = self.known();
        let ours =
            known.assets.balancers.values().filter(|member| {
                member.balancer.state == State::Provisioning && self.concerned(&member.tags).is_some()
            });
        ours.map(|member| member.balancer.arn.clone()).collect()
    }
}

impl Known {
    fn refresh_balancer(
        &mut self,
        balancer: Balancer,
        tags: Option<Pairs>,
        begun: Instant,
        wake: &mut impl FnMut(&Pairs),
    ) {
        let arn = balancer.arn.clone();
        self.marks.entry(arn.clone()).or_default().seen = true;
        // What was written since the sweep began is newer than what the sweep read.
        if self.written_since(&arn, begun) {
            return;
        }
        if let Some(member) = self.assets.balancers.get_mut(&arn) {
            let before = member.clone();
            member.balancer = balancer;
            member.tags = tags.unwrap_or_else(|| before.tags.clone());
            if *member != before {
                wake(&before.tags);
                wake(&member.tags);
            }
            return;
        }
        let tags = tags.unwrap_or_default();
        wake(&tags);
        // Nothing is known of what stands on it.
        let member = Member::unread(balancer, tags);
        self.assets.balancers.insert(arn, member);
    }

    fn refresh_group(
        &mut self,
        group: TargetGroup,
        tags: Option<Pairs>,
        begun: Instant,
        wake: &mut impl FnMut(&Pairs),
    ) {
        let arn = group.arn.clone();
        self.marks.entry(arn.clone()).or_default().seen = true;
        if self.written_since(&arn, begun) {
            return;
        }
        if let Some(member) = self.assets.groups.get_mut(&arn) {
            if member.group != group {
                wake(&member.tags);
                member.group = group;
            }
            return;
        }
        let tags = tags.unwrap_or_default();
        wake(&tags);
        self.assets.groups.insert(arn, GroupMember { group, tags, attributes: None, fresh: false });
    }

    fn drop_unseen(&mut self, seen: &BTreeSet<String>, wake: &mut impl FnMut(&Pairs)) {
        let marks = &self.marks;
        let stays = |arn: &String| {
            let mark = marks.get(arn);
            let lagging =
                mark.is_some_and(|mark| !mark.seen && mark.written.is_some_and(|written| written.elapsed() < READ_LAG));
            seen.contains(arn) || lagging
        };
        let gone = |arn: &String, tags: &Pairs, wake: &mut dyn FnMut(&Pairs)| {
            let gone = !stays(arn);
            if gone {
                wake(tags);
            }
            !gone
        };
        self.assets.balancers.retain(|arn, member| gone(arn, &member.tags, wake));
        self.assets.groups.retain(|arn, member| gone(arn, &member.tags, wake));
        let assets = &self.assets;
        self.marks.retain(|id, _| {
            assets.balancers.contains_key(id)
                || assets.groups.contains_key(id)
                || assets.security_groups.contains_key(id)
        });
    }
}
