//! Which members are ours, and at which ordinal. Pure.
//!
//! A member is recognized by its ID, which the process in a pod reports, and which is noted on its volume claim and in the
//! status; or by the name that it reported when it started. Its peer URL counts only if none of these knows the member:
//! any client can change the URL, or add a member with any URL.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::EtcdCluster;
use causeway_databases::etcd::Member;

use super::facts::Observed;
use super::names;

impl Observed {
    /// The members that are ours, by ordinal.
    pub fn members(&self, object: &EtcdCluster) -> BTreeMap<i32, &Member> {
        let all = self.quorum.as_ref().map(|quorum| quorum.members.as_slice());
        ours(object, self, all.unwrap_or_default())
    }
}

/// Those of `members` that are ours, by ordinal.
pub fn ours<'a>(object: &EtcdCluster, observed: &Observed, members: &'a [Member]) -> BTreeMap<i32, &'a Member> {
    let reported = observed.statuses.iter().map(|(ordinal, status)| (*ordinal, status.member_id));
    let noted = observed.set.claims.iter().filter_map(|(ordinal, claim)| Some((*ordinal, claim.member?)));
    let recorded = object.status.iter().flat_map(|status| &status.members).filter_map(|member| {
        Some((names::ordinal_of(object, &member.name)?, u64::from_str_radix(&member.id, 16).ok()?))
    });
    // A member reports its name, which is its pod's, when it starts.
    let named = members.iter().filter_map(|member| Some((names::ordinal_of(object, &member.name)?, member.id)));
    let addressed =
        members.iter().filter_map(|member| Some((names::ordinal_at(object, &member.peer_urls)?, member.id)));
    let mut found: BTreeMap<i32, &Member> = BTreeMap::new();
    let mut placed = BTreeSet::new();
    for (ordinal, id) in reported.chain(noted).chain(recorded).chain(named).chain(addressed) {
        let Some(member) = members.iter().find(|member| member.id == id) else { continue };
        if !found.contains_key(&ordinal) && placed.insert(id) {
            found.insert(ordinal, member);
        }
    }
    found
}

/// Reports whether a member was added and has never run: it has no data, and has acknowledged nothing.
pub fn never_started(member: &Member) -> bool {
    member.name.is_empty() && member.client_urls.is_empty()
}

/// A member that is not ours, in words.
pub fn describe(member: &Member) -> String {
    let name = if member.name.is_empty() { String::new() } else { format!(" {}", member.name) };
    format!("{:x}{name} ({})", member.id, member.peer_urls.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Claim, Set};
    use super::super::fixtures::cluster;
    use super::*;
    use causeway_api::EtcdClusterStatus;
    use causeway_api::etcdcluster::MemberStatus;

    fn member(id: u64, url: &str) -> Member {
        Member { id, name: "x".into(), peer_urls: vec![url.into()], ..Member::default() }
    }

    #[test]
    fn a_changed_peer_url_does_not_change_a_member() {
        let mut object = cluster(3);
        let noted = Claim { member: Some(2), ..Claim::default() };
        let observed =
            Observed { set: Set { claims: BTreeMap::from([(1, noted)]), ..Set::default() }, ..Observed::default() };
        let known = MemberStatus { name: "prod-etcd-2".into(), id: "3".into(), ..MemberStatus::default() };
        object.status = Some(EtcdClusterStatus { members: vec![known], ..EtcdClusterStatus::default() });
        let usurper = names::peer_url(&object, 1, false);
        let all = [
            member(1, &names::peer_url(&object, 0, false)),
            member(2, "http://elsewhere:2380"),
            member(3, "http://nowhere:2380"),
            member(4, &usurper),
        ];
        let ids: Vec<(i32, u64)> =
            ours(&object, &observed, &all).into_iter().map(|(ordinal, member)| (ordinal, member.id)).collect();
        assert_eq!(ids, [(0, 1), (1, 2), (2, 3)]);
    }
}
