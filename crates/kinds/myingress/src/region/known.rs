//! The snapshot: what AWS showed last, what we have changed since, and which of the two is newer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use futures::channel::mpsc::UnboundedSender;

use causeway_aws::elbv2::{Balancer, Pairs, TargetGroup};

use super::Depth;
use super::account::Account;
use super::indexed::Indexed;
use super::lookups::Lookups;
use super::sweep::List;
use super::unconfirmed::{Made, Unconfirmed};
use crate::ownership::{Concerned, Owner};
use crate::region::assets::{GroupMember, Member};

/// Reads lag behind writes: something that we created and no read has shown yet is not taken for gone within this time.
pub const READ_LAG: Duration = Duration::from_mins(1);

/// How much is known of security groups.
#[derive(Debug, Default)]
pub struct SecurityGroupsKnown {
    /// True if all of the cluster's have been read.
    pub listed: bool,
    /// Uids of owners that had none when they were first looked at. This process created everything that they have.
    pub complete: BTreeSet<String>,
    /// Uids of owners with a change whose outcome is not known, and since when.
    pub unconfirmed: HashMap<String, Instant>,
}

/// Everything known about the region.
#[derive(Default)]
pub struct Known {
    pub assets: Indexed,
    /// How recent our knowledge about an ARN or id is.
    pub marks: HashMap<String, Mark>,
    /// Names for which the outcome of a call is not known.
    pub unconfirmed: HashMap<String, Unconfirmed>,
    /// Resources that were found although the answer to their create call was lost, by uid of the owner, until an
    /// object asks.
    pub found_made: HashMap<String, Vec<Made>>,
    /// ARNs of balancers and target groups that an object claims although their tags name another owner. The tags may
    /// be put back.
    pub disowned: BTreeSet<String>,
    /// How much is known of security groups.
    pub security: SecurityGroupsKnown,
    pub lookups: Lookups,
    /// The account's quotas.
    pub account: Account,
    /// Lists that were read at least once.
    pub loaded: BTreeSet<List>,
    pub subscribers: Vec<UnboundedSender<Concerned>>,
}

/// How recent our knowledge about one resource is.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// When we last changed it, or tried to.
    pub written: Option<Instant>,
    /// When a read last showed it. From then on, its absence in a later read means that it is gone.
    pub shown: Option<Instant>,
    /// When its details were last read, or when it was created.
    pub read: Option<Instant>,
    /// When it last had its turn to be looked at, whether that succeeded or not.
    pub turn: Option<Instant>,
    /// The details that an object needs to know.
    pub depth: Depth,
}

impl Known {
    /// The target groups of others that have one of these names: their ARNs by name. They are noted as disowned.
    pub fn taken_groups(&mut self, owner: &Owner, names: &BTreeSet<&String>) -> BTreeMap<String, String> {
        let mut taken = BTreeMap::new();
        for (arn, member) in self.assets.groups.iter().filter(|(_, it)| names.contains(&it.group.name)) {
            if owner.owns(&member.tags) {
                self.disowned.remove(arn);
            } else {
                self.disowned.insert(arn.clone());
                taken.insert(member.group.name.clone(), arn.clone());
            }
        }
        taken
    }

    /// Wakes these objects. A subscriber that hung up is removed.
    pub fn wake(&mut self, concerned: BTreeSet<Concerned>) {
        for one in concerned {
            self.subscribers.retain(|subscriber| subscriber.unbounded_send(one.clone()).is_ok());
        }
    }

    /// Notes that we changed it, or tried to. A read that is under way may show an earlier state.
    pub fn written(&mut self, id: &str) {
        self.mark(id).written = Some(Instant::now());
    }

    /// Notes that a read has just shown it.
    pub fn shown(&mut self, id: &str) {
        self.mark(id).shown = Some(Instant::now());
    }

    pub fn mark(&mut self, id: &str) -> &mut Mark {
        self.marks.entry(id.to_owned()).or_default()
    }

    /// Reports whether it was written so lately that a read may not show it yet.
    pub fn written_lately(&self, id: &str) -> bool {
        self.marks.get(id).is_some_and(Mark::written_lately)
    }

    pub fn written_since(&self, id: &str, begun: Instant) -> bool {
        self.marks.get(id).and_then(|mark| mark.written).is_some_and(|written| written > begun)
    }

    /// Enters a list of the region's balancers, and drops those that are gone. `begun` is when the list was begun, and
    /// `tags` are those that were read.
    pub fn refresh_balancers(
        &mut self,
        balancers: Vec<Balancer>,
        tags: &mut BTreeMap<String, Pairs>,
        begun: Instant,
        wake: &mut dyn FnMut(&Pairs),
    ) {
        let seen: BTreeSet<String> = balancers.iter().map(|it| it.arn.clone()).collect();
        for balancer in balancers {
            let tags = tags.remove(&balancer.arn);
            self.refresh_balancer(balancer, tags, begun, wake);
        }
        drop_gone(&mut self.assets.balancers, |member| &member.tags, &self.marks, &seen, begun, wake);
        self.forget_marks();
    }

    /// The same for target groups.
    pub fn refresh_groups(
        &mut self,
        groups: Vec<TargetGroup>,
        tags: &mut BTreeMap<String, Pairs>,
        begun: Instant,
        wake: &mut dyn FnMut(&Pairs),
    ) {
        let seen: BTreeSet<String> = groups.iter().map(|it| it.arn.clone()).collect();
        for group in groups {
            let tags = tags.remove(&group.arn);
            self.refresh_group(group, tags, begun, wake);
        }
        drop_gone(&mut self.assets.groups, |member| &member.tags, &self.marks, &seen, begun, wake);
        self.forget_marks();
    }

    fn refresh_balancer(
        &mut self,
        balancer: Balancer,
        tags: Option<Pairs>,
        begun: Instant,
        wake: &mut dyn FnMut(&Pairs),
    ) {
        let arn = balancer.arn.clone();
        self.shown(&arn);
        // A change that was made since the list was begun is newer than the list.
        if self.written_since(&arn, begun) {
            return;
        }
        let Some(member) = self.assets.balancers.get_mut(&arn) else {
            // Without tags it would count as another owner's. The next list shows it again.
            let Some(tags) = tags else { return };
            wake(&tags);
            // Its listeners and rules are not known.
            self.assets.balancers.insert(arn, Member::unread(balancer, tags));
            return;
        };
        let before = member.clone();
        member.balancer = balancer;
        if let Some(tags) = tags {
            member.verify(tags);
        }
        if *member != before {
            wake(&before.tags);
            wake(&member.tags);
        }
    }

    fn refresh_group(&mut self, group: TargetGroup, tags: Option<Pairs>, begun: Instant, wake: &mut dyn FnMut(&Pairs)) {
        let arn = group.arn.clone();
        self.shown(&arn);
        if self.written_since(&arn, begun) {
            return;
        }
        if let Some(member) = self.assets.groups.get_mut(&arn) {
            if member.group != group {
                wake(&member.tags);
                member.group = group;
            }
            if let Some(tags) = tags.filter(|tags| *tags != member.tags) {
                wake(&member.tags);
                wake(&tags);
                member.tags = tags;
            }
            return;
        }
        // See above.
        let Some(tags) = tags else { return };
        wake(&tags);
        self.assets.groups.insert(arn, GroupMember { group, tags, attributes: None, fresh: false });
    }

    /// Forgets how recent our knowledge is about resources that are gone, and whether an object claimed them.
    fn forget_marks(&mut self) {
        let assets = &self.assets;
        self.marks.retain(|id, mark| {
            assets.balancers.contains_key(id)
                || assets.groups.contains_key(id)
                || assets.security_groups.contains_key(id)
                || mark.written_lately()
        });
        self.disowned.retain(|arn| assets.balancers.contains_key(arn) || assets.groups.contains_key(arn));
    }
}

impl Mark {
    fn written_lately(&self) -> bool {
        self.written.is_some_and(|written| written.elapsed() < READ_LAG)
    }

    /// Reports whether the resource stays although a list that was begun at that time does not show it: we changed it
    /// or another read showed it since then, or we created it a moment ago.
    fn outlives(&self, begun: Instant) -> bool {
        let since = |at: Option<Instant>| at.is_some_and(|at| at > begun);
        since(self.written) || since(self.shown) || (self.shown.is_none() && self.written_lately())
    }
}

/// Drops what a list that was begun at that time does not show, unless we know better.
fn drop_gone<M>(
    members: &mut BTreeMap<String, M>,
    tags: impl Fn(&M) -> &Pairs,
    marks: &HashMap<String, Mark>,
    seen: &BTreeSet<String>,
    begun: Instant,
    wake: &mut dyn FnMut(&Pairs),
) {
    members.retain(|arn, member| {
        let stays = seen.contains(arn) || marks.get(arn).is_some_and(|mark| mark.outlives(begun));
        if !stays {
            wake(tags(member));
        }
        stays
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::fixtures;
    use causeway_aws::elbv2::State;

    fn balancer(arn: &str) -> Balancer {
        Balancer {
            arn: arn.into(),
            name: arn.into(),
            dns: format!("{arn}.example"),
            state: State::Provisioning,
            ..fixtures::balancer()
        }
    }

    fn group(arn: &str) -> TargetGroup {
        TargetGroup { arn: arn.into(), name: arn.into(), kind: None, health_check: None, balancers: BTreeSet::new() }
    }

    /// A snapshot with a new balancer and a new target group that we have just entered.
    fn known_region() -> Known {
        let mut known = Known::default();
        known.assets.balancers.insert("lb".into(), Member::new(balancer("lb"), Pairs::new()));
        let member = GroupMember { group: group("tg"), tags: Pairs::new(), attributes: None, fresh: true };
        known.assets.groups.insert("tg".into(), member);
        known.written("lb");
        known.written("tg");
        known
    }

    /// Enters lists that are empty.
    fn empty_lists(known: &mut Known, begun: Instant) {
        known.refresh_balancers(Vec::new(), &mut BTreeMap::new(), begun, &mut |_| {});
        known.refresh_groups(Vec::new(), &mut BTreeMap::new(), begun, &mut |_| {});
    }

    fn is_there(known: &Known) -> [bool; 2] {
        [known.assets.balancers.contains_key("lb"), known.assets.groups.contains_key("tg")]
    }

    #[test]
    fn resources_newer_than_a_list_stay() {
        let begun = Instant::now();
        let mut known = known_region();
        // The poll of provisioning balancers shows them.
        known.shown("lb");
        known.shown("tg");
        empty_lists(&mut known, begun);
        assert_eq!(is_there(&known), [true, true]);
        assert!(known.written_since("lb", begun), "how recent it is must not be forgotten");
    }

    #[test]
    fn what_another_read_found_since_a_list_was_begun_stays() {
        let mut known = known_region();
        known.marks.clear();
        let begun = Instant::now();
        // A lookup of a name after a create call without an answer shows them. They are not marked as written.
        known.shown("lb");
        known.shown("tg");
        empty_lists(&mut known, begun);
        assert_eq!(is_there(&known), [true, true]);
    }

    #[test]
    fn what_was_changed_since_a_list_was_begun_stays() {
        let mut known = known_region();
        known.shown("lb");
        known.shown("tg");
        let begun = Instant::now();
        known.written("lb");
        known.written("tg");
        empty_lists(&mut known, begun);
        assert_eq!(is_there(&known), [true, true]);
    }

    #[test]
    fn a_resource_missing_from_a_later_list_is_gone() {
        let mut known = known_region();
        known.shown("lb");
        known.shown("tg");
        let mut woken = 0;
        let begun = Instant::now();
        known.refresh_balancers(Vec::new(), &mut BTreeMap::new(), begun, &mut |_| woken += 1);
        known.refresh_groups(Vec::new(), &mut BTreeMap::new(), begun, &mut |_| woken += 1);
        assert_eq!(is_there(&known), [false, false]);
        assert_eq!(woken, 2);
    }

    #[test]
    fn what_was_made_a_moment_ago_and_never_shown_stays() {
        let mut known = known_region();
        empty_lists(&mut known, Instant::now());
        assert_eq!(is_there(&known), [true, true]);
    }

    #[test]
    fn a_target_group_with_restored_tags_is_ours_again() {
        let owner = Owner { cluster: "prod".into(), namespace: "shop".into(), name: "web".into(), uid: "uid".into() };
        let names = ["tg".to_owned()];
        let taken = |known: &mut Known| known.taken_groups(&owner, &names.iter().collect()).len();
        let mut known = known_region();
        known.marks.clear();
        assert_eq!((taken(&mut known), known.disowned.contains("tg")), (1, true));
        known.disowned.insert("gone".into());
        let mut woken = Vec::new();
        let mut tags = BTreeMap::from([("tg".to_owned(), owner.tags())]);
        known.refresh_groups(vec![group("tg")], &mut tags, Instant::now(), &mut |tags| woken.push(tags.clone()));
        assert!(woken.contains(&owner.tags()), "the object is looked at again");
        assert!(!known.disowned.contains("gone"), "no client can put back the tags of what is gone");
        assert_eq!((taken(&mut known), known.disowned.contains("tg")), (0, false));
    }

    #[test]
    fn a_resource_without_known_tags_has_no_owner_yet() {
        let mut known = Known::default();
        known.refresh_balancers(vec![balancer("lb")], &mut BTreeMap::new(), Instant::now(), &mut |_| {});
        known.refresh_groups(vec![group("tg")], &mut BTreeMap::new(), Instant::now(), &mut |_| {});
        assert_eq!(is_there(&known), [false, false]);
    }

    #[test]
    fn a_list_from_before_a_change_does_not_undo_it() {
        let begun = Instant::now();
        let mut known = known_region();
        let old = Balancer { dns: "old".into(), ..balancer("lb") };
        known.refresh_balancers(vec![old], &mut BTreeMap::new(), begun, &mut |_| {});
        assert_eq!(known.assets.balancers["lb"].balancer.dns, "lb.example");
    }

    #[test]
    fn listed_tags_verify_a_new_balancer_or_show_its_age() {
        let tagged = |tags: Pairs| BTreeMap::from([("lb".to_owned(), tags)]);
        let mut known = known_region();
        assert!(!known.assets.balancers["lb"].verified);
        known.refresh_balancers(vec![balancer("lb")], &mut tagged(Pairs::new()), Instant::now(), &mut |_| {});
        assert!(known.assets.balancers["lb"].verified);
        assert!(known.assets.balancers["lb"].listeners.is_some());

        let mut known = self::known_region();
        let foreign = Pairs::from([("team".to_owned(), "others".to_owned())]);
        known.refresh_balancers(vec![balancer("lb")], &mut tagged(foreign.clone()), Instant::now(), &mut |_| {});
        let member = &known.assets.balancers["lb"];
        assert!(member.verified && member.tags == foreign && member.listeners.is_none());
    }
}
