//! Looks in turn at the details that AWS shows of only one balancer per call. The balancer that has waited longest
//! comes first. Each has its turn once in a sweep, or as often as the calls allow that no other read needs (see
//! [`Budget::in_background`]).
//!
//! [`Budget::in_background`]: causeway_aws::budget::Budget::in_background

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::time::{sleep_until, timeout};

use causeway_aws::elbv2::Pairs;

use super::Region;
use super::details::Reader;
use super::known::{Known, Mark};
use crate::ownership::Concerned;
use crate::targets::Targets;

/// A group whose targets cannot be read holds up the others for at most this long.
const RECHECK: Duration = Duration::from_mins(1);
/// If there is no balancer to look at, how long to wait at most until the next check.
const LONGEST_IDLE: Duration = Duration::from_hours(1);

/// The next turn.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Turn<T> {
    Of(T),
    /// No turn is due before then; `None` while there is nothing to look at.
    NotBefore(Option<Instant>),
}

/// The one that is due first: one that was never looked at, or else the one that has waited longest.
fn turn<T>(all: impl Iterator<Item = (Option<Instant>, T)>, every: Duration, now: Instant) -> Turn<T> {
    let Some((looked_at, first)) = all.min_by_key(|(looked_at, _)| *looked_at) else { return Turn::NotBefore(None) };
    match looked_at.map(|at| at.checked_add(every)) {
        None => Turn::Of(first),
        Some(Some(due)) if due <= now => Turn::Of(first),
        Some(due) => Turn::NotBefore(due),
    }
}

/// Looks at our balancers and their target groups in turn, until it is dropped.
pub async fn look_in_turn(region: &Region, targets: &Targets, every: Duration) {
    loop {
        match region.turn(every) {
            Turn::Of(arn) => region.look_at(&arn, targets).await,
            Turn::NotBefore(due) => {
                // A balancer that is created meanwhile is due a whole sweep after its creation.
                let soonest = Instant::now() + every.min(LONGEST_IDLE);
                sleep_until(due.unwrap_or(soonest).min(soonest).into()).await;
            }
        }
    }
}

impl Region {
    fn turn(&self, every: Duration) -> Turn<String> {
        let mut known = self.lock();
        self.pass_over(&mut known, every, Instant::now());
        // Details are needed only of our own balancers.
        let ours = known.marks.iter().filter(|(_, mark)| !mark.depth.is_empty());
        match turn(ours.map(|(arn, mark)| (mark.read.max(mark.turn), arn)), every, Instant::now()) {
            Turn::Of(arn) => Turn::Of(arn.clone()),
            Turn::NotBefore(due) => Turn::NotBefore(due),
        }
    }

    /// Gives balancers their turn of which there is nothing to read: no details are wanted, and they have no target
    /// groups. A search for each alone would make the cost of a sweep grow with the square of their number.
    fn pass_over(&self, known: &mut Known, every: Duration, now: Instant) {
        let due = |mark: &Mark| mark.read.max(mark.turn).map(|at| at.checked_add(every));
        let is_due = |mark: &Mark| due(mark).is_none_or(|due| due.is_some_and(|due| due <= now));
        let bare = known.marks.iter().filter(|(_, mark)| mark.depth.is_of_groups_alone() && is_due(mark));
        let bare: Vec<String> = bare.map(|(arn, _)| arn.clone()).collect();
        if bare.is_empty() {
            return;
        }
        let owners: BTreeSet<_> = known.assets.groups.values().filter_map(|it| self.ours(&it.tags)).collect();
        for arn in bare {
            // A balancer that is gone has no owner; its turn finds that.
            let owner = known.assets.balancers.get(&arn).and_then(|member| self.ours(&member.tags));
            if owner.is_some_and(|owner| !owners.contains(&owner)) {
                known.mark(&arn).read = Some(now);
            }
        }
    }

    /// Looks at a balancer and at the target groups of its owner. What cannot be read stays as it was, and does not
    /// keep the others from being looked at.
    async fn look_at(&self, arn: &str, targets: &Targets) {
        let (depth, owner) = {
            let mut known = self.lock();
            let mark = known.mark(arn);
            mark.turn = Some(Instant::now());
            let depth = mark.depth;
            (depth, known.assets.balancers.get(arn).and_then(|member| self.ours(&member.tags)))
        };
        // The balancer is gone, or no longer ours.
        let Some(owner) = owner else { return };
        let groups = self.groups_of(&owner);
        let begun = Instant::now();
        match self.read_balancer(&self.spare, arn, depth, &groups).await {
            Ok(tags) => self.enter_group_tags(tags, begun),
            Err(error) => tracing::warn!(arn, %error, "cannot read the parts of this load balancer in this turn"),
        }
        for group in &groups {
            if let Err(error) = self.read_group_attributes(&self.spare, group).await {
                tracing::warn!(arn = group, %error, "cannot read the attributes of this target group in this turn");
            }
        }
        join_all(groups.iter().map(|group| recheck(targets, group))).await;
    }

    /// The target groups of an owner.
    fn groups_of(&self, owner: &Concerned) -> Vec<String> {
        let known = self.lock();
        let theirs = known.assets.groups.iter().filter(|(_, it)| self.ours(&it.tags).as_ref() == Some(owner));
        theirs.map(|(arn, _)| arn.clone()).collect()
    }

    fn enter_group_tags(&self, tags: impl IntoIterator<Item = (String, Pairs)>, begun: Instant) {
        let mut known = self.lock();
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
}

/// Reads the targets of a group, because others may have changed them.
async fn recheck(targets: &Targets, group: &str) {
    match timeout(RECHECK, targets.recheck(group)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(arn = group, %error, "cannot read the targets of this group in this turn"),
        Err(_) => tracing::warn!(arn = group, "reading the targets took too long: other groups are read first"),
    }
}

impl Reader {
    /// The same clients for work that can wait.
    pub fn in_background(&self) -> Self {
        Self { elb: self.elb.in_background(), wafv2: self.wafv2.in_background() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWEEP: Duration = Duration::from_mins(5);

    /// When each of this many balancers is looked at if a look takes this long, in seconds since the beginning.
    fn looks(balancers: usize, a_look_takes: Duration, lasts: Duration) -> Vec<Vec<u64>> {
        let begun = Instant::now();
        let mut now = begun;
        let mut looked_at = vec![Some(begun); balancers];
        let mut looks = vec![Vec::new(); balancers];
        while now < begun + lasts {
            let all = looked_at.iter().enumerate().map(|(number, at)| (*at, number));
            match turn(all, SWEEP, now) {
                Turn::Of(number) => {
                    looked_at[number] = Some(now);
                    looks[number].push((now - begun).as_secs());
                    now += a_look_takes;
                }
                Turn::NotBefore(due) => now = due.unwrap(),
            }
        }
        looks
    }

    #[test]
    fn few_are_looked_at_once_in_a_sweep() {
        let looks = looks(3, Duration::from_secs(2), SWEEP * 3);
        assert!(looks.iter().all(|looks| looks.len() == 2), "{looks:?}");
        assert_eq!(looks[0], [300, 600]);
    }

    /// A balancer with everything takes 14 calls, and 8 calls a second are left over.
    #[test]
    fn three_hundred_balancers_take_ten_minutes_a_thousand_thirty() {
        for (balancers, within) in [(300, 600), (1000, 1800)] {
            let a_look_takes = Duration::from_secs_f64(14.0 / 8.0);
            let looks = looks(balancers, a_look_takes, Duration::from_hours(3));
            for looks in looks {
                let gaps = looks.windows(2).map(|two| two[1] - two[0]);
                let longest = gaps.max().unwrap();
                assert!(longest <= within, "{balancers}: {longest} s");
            }
        }
    }

    #[test]
    fn a_balancer_that_was_never_looked_at_comes_first() {
        let now = Instant::now();
        let all = [(Some(now), 'a'), (None, 'b'), (Some(now), 'c')];
        assert_eq!(turn(all.into_iter(), SWEEP, now), Turn::Of('b'));
        assert_eq!(turn(std::iter::empty::<(Option<Instant>, char)>(), SWEEP, now), Turn::NotBefore(None));
        assert_eq!(turn([(Some(now), 'a')].into_iter(), Duration::MAX, now), Turn::NotBefore(None));
    }
}
