//! Security groups. All of the cluster's are read at once when an object first needs one, and in every sweep from then
//! on. If only one owner's are unconfirmed, only that owner's are read. The rules of any group that let them in are
//! read with them. So a rule is found again whichever process made it, and whatever its object says now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use causeway_aws::aws::AwsError;
use causeway_aws::ec2::{Entry, SecurityGroup};
use causeway_aws::elbv2::Pairs;

use super::Region;
use super::known::{Known, SecurityGroupsKnown};
use super::lookups::Lookup;
use crate::ownership::{Owner, cluster_tag, uid_tag};

impl Region {
    /// Reads the owner's security groups, if they have not been read or a change is unconfirmed. An owner that is `new`
    /// never had one: what it creates is entered as it is created.
    pub async fn learn_security_groups(&self, owner: &Owner, new: bool) -> Result<(), AwsError> {
        loop {
            let (known, unconfirmed) = {
                let security = &mut self.lock().security;
                if new && !security.listed {
                    security.complete.insert(owner.uid.clone());
                }
                let known = security.listed || security.complete.contains(&owner.uid);
                (known, security.unconfirmed.contains_key(&owner.uid))
            };
            if unconfirmed {
                self.read_security_groups_of(owner).await?;
            } else if known {
                return Ok(());
            } else {
                let known = || self.lock().security.listed.then_some(());
                self.shared(Lookup::SecurityGroups, owner, known, self.read_security_groups()).await?;
            }
        }
    }

    /// Reads all groups of the cluster.
    pub async fn read_security_groups(&self) -> Result<(), AwsError> {
        let begun = Instant::now();
        let found = self.ec2.security_groups(&[cluster_tag(&self.cluster)]).await?;
        let entries = self.ec2.entries(&ids(&found)).await?;
        let mut known = self.lock();
        let mut changed = known.enter_entries(&entries, begun, |_| true);
        changed.extend(known.enter_security_groups(found, begun, |_| true));
        known.security.listed = true;
        known.security.complete.clear();
        known.security.unconfirmed.retain(|_, since| *since > begun);
        let woken = changed.iter().filter_map(|tags| self.concerned(tags)).collect();
        known.wake(woken);
        Ok(())
    }

    /// Reads the groups of one owner.
    async fn read_security_groups_of(&self, owner: &Owner) -> Result<(), AwsError> {
        let begun = Instant::now();
        let found = self.ec2.security_groups(&[cluster_tag(&self.cluster), uid_tag(owner)]).await?;
        let asked = ids(&found);
        let entries = self.ec2.entries(&asked).await?;
        let mut known = self.lock();
        known.enter_entries(&entries, begun, |from| asked.contains(from));
        known.enter_security_groups(found, begun, |group| owner.owns(&group.tags));
        known.security.unconfirmed.retain(|uid, since| *uid != owner.uid || *since > begun);
        Ok(())
    }
}

fn ids(groups: &[SecurityGroup]) -> BTreeSet<String> {
    groups.iter().map(|group| group.id.clone()).collect()
}

impl SecurityGroupsKnown {
    /// Reports whether an object needs to know security groups. From then on they are read in every sweep.
    pub fn matters(&self) -> bool {
        self.listed || !self.complete.is_empty()
    }
}

impl Known {
    /// Enters the groups that were found, out of those that `asked` selects. Returns the former tags of the groups that
    /// changed.
    fn enter_security_groups(
        &mut self,
        found: Vec<SecurityGroup>,
        begun: Instant,
        asked: impl Fn(&SecurityGroup) -> bool,
    ) -> BTreeSet<Pairs> {
        let (before, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.assets.security_groups).into_iter().partition(|(_, group)| asked(group));
        let mut after = BTreeMap::new();
        for group in found {
            // A change that was made since the read began is newer than what was read, even if it was a deletion.
            if self.written_since(&group.id, begun) {
                after.extend(before.get(&group.id).map(|newer| (group.id.clone(), newer.clone())));
            } else {
                after.insert(group.id.clone(), group);
            }
        }
        // Reads lag behind writes, so a group that was just created stays.
        for (id, group) in &before {
            if self.written_lately(id) {
                after.entry(id.clone()).or_insert_with(|| group.clone());
            }
        }
        let changed = before.iter().filter(|(id, group)| after.get(*id) != Some(group));
        let changed = changed.map(|(_, group)| group.tags.clone()).collect();
        after.extend(others);
        self.assets.security_groups = after;
        changed
    }

    /// Enters the rules that let in the groups that `asked` selects. Returns the tags of the groups for which they
    /// changed.
    fn enter_entries(
        &mut self,
        found: &BTreeSet<Entry>,
        begun: Instant,
        asked: impl Fn(&String) -> bool,
    ) -> BTreeSet<Pairs> {
        let before = std::mem::take(&mut self.assets.entries);
        // A change that was made since the read began is newer than what was read.
        let read = |entry: &&Entry| asked(&entry.from) && !self.written_since(&entry.from, begun);
        let mut after: BTreeSet<Entry> = before.iter().filter(|entry| !read(entry)).cloned().collect();
        after.extend(found.iter().filter(read).cloned());
        let changed: BTreeSet<&String> = before.symmetric_difference(&after).map(|entry| &entry.from).collect();
        let groups = &self.assets.security_groups;
        let changed = changed.into_iter().filter_map(|id| groups.get(id)).map(|group| group.tags.clone()).collect();
        self.assets.entries = after;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(id: &str, owner: &str) -> SecurityGroup {
        SecurityGroup {
            id: id.into(),
            name: id.into(),
            vpc: "vpc-1".into(),
            tags: Pairs::from([("owner".into(), owner.into())]),
            ingress: BTreeSet::new(),
            egress: BTreeSet::new(),
        }
    }

    fn ids(known: &Known) -> Vec<&str> {
        known.assets.security_groups.keys().map(String::as_str).collect()
    }

    #[test]
    fn a_read_of_one_owners_leaves_the_others_alone() {
        let mut known = Known::default();
        known.enter_security_groups(vec![group("a", "1"), group("b", "2")], Instant::now(), |_| true);
        let ours = |group: &SecurityGroup| group.tags.get("owner").is_some_and(|owner| owner == "1");
        let changed = known.enter_security_groups(vec![group("c", "1")], Instant::now(), ours);
        assert_eq!(ids(&known), ["b", "c"]);
        assert_eq!(changed, BTreeSet::from([group("a", "1").tags]));
    }

    fn entry(group: &str, from: &str) -> Entry {
        let (group, from, protocol) = (group.into(), from.into(), "tcp".into());
        Entry { group, from, protocol, ports: None, description: String::new() }
    }

    #[test]
    fn rules_that_let_ours_in_wake_their_owners() {
        let mut known = Known::default();
        known.enter_security_groups(vec![group("a", "1"), group("b", "2")], Instant::now(), |_| true);
        let begun = Instant::now();
        let both = BTreeSet::from([entry("nodes", "a"), entry("nodes", "b")]);
        assert_eq!(known.enter_entries(&both, begun, |_| true).len(), 2);
        assert_eq!(known.enter_entries(&both, begun, |_| true).len(), 0, "nothing new");
        let changed = known.enter_entries(&BTreeSet::new(), begun, |from| from == "a");
        assert_eq!(changed, BTreeSet::from([group("a", "1").tags]));
        assert_eq!(known.assets.entries, BTreeSet::from([entry("nodes", "b")]));
        known.written("b");
        assert_eq!(known.enter_entries(&BTreeSet::new(), begun, |_| true).len(), 0, "what was written since is newer");
        assert_eq!(known.assets.entries, BTreeSet::from([entry("nodes", "b")]));
    }

    #[test]
    fn own_changes_are_newer_than_what_is_read() {
        let mut known = Known::default();
        let begun = Instant::now();
        known.assets.security_groups.insert("made".into(), group("made", "1"));
        known.written("made");
        known.written("deleted");
        known.enter_security_groups(vec![group("deleted", "1")], begun, |_| true);
        assert_eq!(ids(&known), ["made"]);
    }
}
