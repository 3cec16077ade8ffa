//! Members and what they agree on: one log, of which each member holds a beginning, and etcd's rules for changes.

use std::collections::{BTreeMap, BTreeSet};

use causeway_databases::etcd::{Member, Trouble};

use crate::settings::Start;

/// The log message of a member whose version is below the cluster's.
const TOO_OLD: &str = "invalid downgrade; server version is lower than determined cluster version";

/// Entries that a cluster has from its beginning, so that a learner needs a while to catch up.
const FIRST_ENTRIES: u64 = 40;

/// The data on a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    pub member: u64,
    pub damaged: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Raft {
    /// ID of the cluster, once a member has begun it.
    pub cluster: Option<u64>,
    /// The members as the last committed change left them.
    pub members: BTreeMap<u64, Member>,
    /// How much of the log each member has that still has its data.
    pub logs: BTreeMap<u64, u64>,
    /// Bytes that each member's database has on disk; none of them is in use.
    pub sizes: BTreeMap<u64, i64>,
    /// The members that run, with their minor versions.
    pub up: BTreeMap<u64, u16>,
    pub leader: Option<u64>,
    /// The last entry that was acknowledged to a client.
    pub acknowledged: u64,
    /// Members that have started once: they may have acknowledged something.
    started: BTreeSet<u64>,
    /// The minor version that all members agreed on; none may be older.
    pub agreed_minor: u16,
    /// The minor version to which members may go back.
    pub downgrade: Option<u16>,
    /// The minor version whose format the data of each member have, from 3.6 on.
    pub storage: BTreeMap<u64, u16>,
    /// Another client enabled or cancelled a downgrade.
    pub tampered: bool,
    added: u64,
}

impl Raft {
    /// Starts a member, or returns its last output.
    pub fn start(
        &mut self,
        name: &str,
        url: &str,
        volume: &mut Option<Data>,
        start: &Start,
        minor: u16,
    ) -> Result<u64, Option<String>> {
        let id = match volume {
            Some(data) if data.damaged => return Err(Some(cannot_read(data.member))),
            // It learns from the others that it was removed, and stops without an error.
            Some(data) if !self.members.contains_key(&data.member) => return Err(None),
            Some(data) => data.member,
            None => {
                let id = self.first_start(name, url, start, minor).map_err(|words| Some(fatal(&words)))?;
                assert!(self.started.insert(id), "{name} came back without the data of member {id:x}");
                *volume = Some(Data { member: id, damaged: false });
                self.logs.insert(id, 0);
                id
            }
        };
        if minor < self.agreed_minor {
            return Err(Some(fatal(TOO_OLD)));
        }
        if self.storage.get(&id).is_some_and(|form| minor < *form) {
            assert!(self.tampered, "{name} starts with data that it cannot read");
            return Err(Some(fatal(TOO_OLD)));
        }
        self.storage.entry(id).or_insert(minor);
        self.up.insert(id, minor);
        Ok(id)
    }

    fn first_start(&mut self, name: &str, url: &str, start: &Start, minor: u16) -> Result<u64, String> {
        if !start.members.iter().any(|(known, _)| known == name) {
            return Err(format!(r#"couldn't find local name \"{name}\" in the initial cluster configuration"#));
        }
        let others = || start.members.iter().filter(|(_, other)| other != url);
        let is_up = |url: &String| self.up.keys().any(|id| self.url_of(*id) == Some(url));
        let any_is_up = others().any(|(_, url)| is_up(url));
        if start.begins {
            let id = number(url);
            if any_is_up && self.members.get(&id).is_some_and(|member| !member.client_urls.is_empty()) {
                return Err(format!("member {id:x} has already been bootstrapped"));
            }
            let cluster = number(&format!("{:?}", start.members));
            assert!(self.cluster.is_none_or(|begun| begun == cluster), "{name} begins a second cluster");
            if self.cluster.is_none() {
                self.cluster = Some(cluster);
                self.members =
                    start.members.iter().map(|(_, url)| (number(url), unstarted(number(url), url))).collect();
            }
            assert!(self.members.contains_key(&id), "{name} begins a cluster that it was removed from");
            return Ok(id);
        }
        if !any_is_up {
            return Err("cannot fetch cluster info from peer urls: could not retrieve cluster information".into());
        }
        // <https://github.com/etcd-io/etcd/blob/v3.6.16/server/etcdserver/cluster_util.go#L174>
        let allowed = match self.downgrade {
            Some(_) => minor + 1..=minor + 1,
            None => 0..=minor,
        };
        if !allowed.contains(&self.agreed_minor) {
            return Err("incompatible with current running cluster".into());
        }
        let urls: BTreeSet<&String> = start.members.iter().map(|(_, url)| url).collect();
        let known: BTreeSet<&String> = self.members.values().flat_map(|member| &member.peer_urls).collect();
        if urls != known {
            return Err("error validating peerURLs: member count is unequal".into());
        }
        let own = self.members.values().find(|member| member.peer_urls[0] == url).map(|member| member.id);
        own.ok_or_else(|| "unmatched member while checking PeerURLs".into())
    }

    /// A member rebuilds the cluster from its data. If it skips revisions, cluster and member get new IDs.
    pub fn force_new_cluster(&mut self, data: &mut Data, name: &str, url: &str, recovery: Option<&str>) {
        let own = recovery.map_or(data.member, |recovery| number(&format!("{url} {recovery}")));
        let log = self.logs.remove(&data.member).expect("it has its data");
        let member = Member { name: name.into(), client_urls: vec![url.into()], ..unstarted(own, url) };
        (self.members, self.logs) = (BTreeMap::from([(own, member)]), BTreeMap::from([(own, log)]));
        self.cluster = recovery.map(|_| own).or(self.cluster);
        (self.acknowledged, self.leader) = (log, None);
        self.started.insert(own);
        data.member = own;
    }

    /// A member stops; what it wrote stays.
    pub fn stop(&mut self, id: u64) {
        self.up.remove(&id);
        if self.leader == Some(id) || !self.has_majority() {
            self.leader = None;
        }
    }

    /// A member's data are lost.
    pub fn lose(&mut self, id: u64) {
        self.stop(id);
        self.logs.remove(&id);
    }

    /// A while passes: a leader is chosen, entries are written and spread.
    pub fn time_passes(&mut self) {
        if self.leader.is_none() && self.has_majority() {
            let longest = self.voters().filter(|id| self.up.contains_key(id)).max_by_key(|id| self.logs[id]);
            self.leader = longest;
            assert!(self.logs[&longest.unwrap()] >= self.acknowledged, "acknowledged entries are lost: {self:#?}");
        }
        if self.leader.is_none() {
            return;
        }
        for (id, member) in &mut self.members {
            let Some(log) = self.logs.get_mut(id).filter(|_| self.up.contains_key(id)) else { continue };
            let pace = if member.is_learner { 1 + self.acknowledged / 3 } else { u64::MAX };
            *log = log.saturating_add(pace).min(self.acknowledged);
            if member.client_urls.is_empty() {
                let host = member.peer_urls[0].split_once("://").unwrap().1;
                member.name = host.split('.').next().unwrap().into();
                member.client_urls = vec![format!("http://{host}")];
            }
        }
        self.write(if self.acknowledged == 0 { FIRST_ENTRIES } else { 1 });
        self.agree();
    }

    /// Data take the format of the agreed version, which follows the members' or a downgrade. A downgrade that is over ends.
    /// <https://github.com/etcd-io/etcd/blob/v3.6.16/server/etcdserver/version/monitor.go>
    fn agree(&mut self) {
        for (id, minor) in &self.up {
            if *minor > 5 {
                self.storage.insert(*id, self.agreed_minor.max(5));
            }
        }
        if !self.members.keys().all(|id| self.up.contains_key(id)) {
            return;
        }
        let lowest = self.members.keys().map(|id| self.up[id]).min().unwrap_or(0);
        match self.downgrade {
            Some(target) if self.members.keys().all(|id| self.up[id] == target) => self.downgrade = None,
            Some(target) => self.agreed_minor = target,
            None => self.agreed_minor = self.agreed_minor.max(lowest),
        }
    }

    /// Enables a downgrade to an earlier minor version.
    pub fn enable_downgrade(&mut self, target: u16) -> Result<(), Trouble> {
        self.answers()?;
        if self.downgrade.is_some() {
            return Err(Trouble::AlreadyThere);
        }
        if target + 1 != self.agreed_minor {
            return Err(Trouble::VersionBehind);
        }
        self.write(1);
        self.downgrade = Some(target);
        Ok(())
    }

    /// Another client enables or cancels a downgrade; etcd refuses if there is nothing to do.
    pub fn tamper(&mut self, enable: bool) {
        self.tampered = true;
        let _ = if enable { self.enable_downgrade(5) } else { self.cancel_downgrade() };
    }

    pub fn cancel_downgrade(&mut self) -> Result<(), Trouble> {
        self.answers()?;
        self.write(1);
        self.downgrade = None;
        Ok(())
    }

    /// Writes entries. When they are acknowledged, no more than a majority has them.
    fn write(&mut self, entries: u64) {
        let Some(leader) = self.leader else { return };
        self.acknowledged += entries;
        let mut holders: Vec<u64> = self.voters().filter(|id| self.up.contains_key(id) && *id != leader).collect();
        if !holders.is_empty() {
            let first = usize::try_from(self.acknowledged).unwrap() % holders.len();
            holders.rotate_left(first);
        }
        for id in [leader].into_iter().chain(holders).take(self.majority()) {
            self.logs.insert(id, self.acknowledged);
        }
    }

    /// Adds a learner: every voter must be connected.
    pub fn add_learner(&mut self, url: &str) -> Result<(), Trouble> {
        self.answers()?;
        if self.members.values().any(|member| member.peer_urls[0] == url) {
            return Err(Trouble::PeerExists);
        }
        if self.members.values().any(|member| member.is_learner) || !self.voters().all(|id| self.up.contains_key(&id)) {
            return Err(Trouble::Unhealthy);
        }
        self.write(1);
        self.added += 1;
        let id = number(&format!("{url} {}", self.added));
        self.members.insert(id, Member { is_learner: true, ..unstarted(id, url) });
        Ok(())
    }

    /// A user adds a member by hand, where etcd allows that; it runs, or never starts.
    pub fn add_stranger(&mut self, is_learner: bool, runs: bool) {
        let voters = self.voters().count();
        let learns = self.members.values().any(|member| member.is_learner);
        let connected = self.voters().all(|id| self.up.contains_key(&id) && self.started.contains(&id));
        if self.leader.is_none() || !connected || voters < 3 || learns {
            return;
        }
        // A change of members is an entry that a majority of the members before it has.
        self.write(1);
        self.added += 1;
        let url = format!("http://stranger-{}:2380", self.added);
        let id = number(&url);
        self.members.insert(id, Member { is_learner, ..unstarted(id, &url) });
        if runs {
            let member = self.members.get_mut(&id).unwrap();
            (member.name, member.client_urls) = ("stranger".into(), vec![url]);
            self.started.insert(id);
            self.logs.insert(id, self.acknowledged);
            self.up.insert(id, self.agreed_minor);
        }
    }

    /// A user changes the peer URL of a member.
    pub fn send_astray(&mut self, id: u64) {
        if self.leader.is_some()
            && let Some(member) = self.members.get_mut(&id)
        {
            let (scheme, _) = member.peer_urls[0].split_once("://").unwrap();
            member.peer_urls = vec![format!("{scheme}://astray-{id:x}:2380")];
        }
    }

    /// Lets a learner vote that has nine tenths of the leader's log.
    pub fn promote(&mut self, id: u64) -> Result<(), Trouble> {
        self.answers()?;
        if !self.members.get(&id).ok_or(Trouble::MemberNotFound)?.is_learner {
            return Err(Trouble::MemberNotFound);
        }
        let logs = self.up.contains_key(&id).then(|| self.logs[&id]).zip(self.leader.map(|leader| self.logs[&leader]));
        if logs.is_none_or(|(own, leader)| own * 10 < leader * 9) {
            return Err(Trouble::LearnerNotReady);
        }
        self.write(1);
        self.members.get_mut(&id).unwrap().is_learner = false;
        Ok(())
    }

    /// Changes the peer URL of a member.
    pub fn update_peer(&mut self, id: u64, url: &str) -> Result<(), Trouble> {
        self.answers()?;
        if self.members.values().any(|member| member.id != id && member.peer_urls[0] == url) {
            return Err(Trouble::PeerExists);
        }
        self.members.get_mut(&id).ok_or(Trouble::MemberNotFound)?.peer_urls = vec![url.to_owned()];
        self.write(1);
        Ok(())
    }

    /// Removes a member. One that is down may always go; one that is up only if the others make a majority.
    pub fn remove(&mut self, id: u64) -> Result<(), Trouble> {
        self.answers()?;
        if !self.members.get(&id).ok_or(Trouble::MemberNotFound)?.is_learner {
            let others = self.voters().filter(|voter| *voter != id);
            let started = others.clone().filter(|voter| !self.members[voter].client_urls.is_empty()).count();
            let up = others.clone().filter(|voter| self.up.contains_key(voter)).count();
            let needed = others.count() / 2 + 1;
            if started < needed || (self.up.contains_key(&id) && up < needed) {
                return Err(Trouble::Unhealthy);
            }
        }
        self.write(1);
        self.members.remove(&id);
        self.lose(id);
        Ok(())
    }

    /// Hands leadership over: the next leader has every entry first.
    pub fn move_leader(&mut self, from: u64, to: u64) -> Result<(), Trouble> {
        self.answers()?;
        if self.leader != Some(from) || !self.voters().any(|voter| voter == to) {
            return Err(Trouble::NotLeader);
        }
        if !self.up.contains_key(&to) {
            return Err(Trouble::NoLeader);
        }
        self.logs.insert(to, self.acknowledged);
        self.leader = Some(to);
        Ok(())
    }

    fn answers(&self) -> Result<(), Trouble> {
        self.leader.map(drop).ok_or(Trouble::NoLeader)
    }

    pub fn voters(&self) -> impl Iterator<Item = u64> + Clone {
        self.members.values().filter(|member| !member.is_learner).map(|member| member.id)
    }

    /// The voters that answer; none while there is no leader.
    pub fn healthy(&self) -> BTreeSet<u64> {
        let up = self.voters().filter(|id| self.up.contains_key(id));
        up.filter(|_| self.leader.is_some()).collect()
    }

    pub fn majority(&self) -> usize {
        self.voters().count() / 2 + 1
    }

    fn has_majority(&self) -> bool {
        !self.members.is_empty() && self.voters().filter(|id| self.up.contains_key(id)).count() >= self.majority()
    }

    /// Reports whether this voter may lose its data: a majority still has all that was acknowledged then.
    pub fn can_lose(&self, id: u64) -> bool {
        let lost = self.voters().filter(|voter| !self.logs.contains_key(voter) || *voter == id).count();
        self.started.contains(&id) && lost <= (self.voters().count() - 1) / 2
    }

    /// Asserts that in every possible majority, one voter has all that was acknowledged.
    pub fn assert_kept(&self) {
        let behind = self.voters().filter(|id| self.logs.get(id).is_some_and(|log| *log < self.acknowledged)).count();
        let fresh = self.voters().filter(|id| !self.started.contains(id)).count();
        assert!(self.acknowledged == 0 || behind + fresh < self.majority(), "could be forgotten: {self:#?}");
    }

    fn url_of(&self, id: u64) -> Option<&String> {
        self.members.get(&id)?.peer_urls.first()
    }
}

fn unstarted(id: u64, url: &str) -> Member {
    Member { id, peer_urls: vec![url.to_owned()], ..Member::default() }
}

/// etcd 3.6 counts the learners of the list in its own data when it starts, which a recovery may have left behind.
pub const LEARNERS: &str = "membership: too many learner members in cluster";

/// The ways in which etcd says that it cannot read its data.
pub fn cannot_read(member: u64) -> String {
    match member % 4 {
        0 => fatal("walpb: crc mismatch"),
        3 => fatal(LEARNERS),
        1 => "{\"error\":\"invalid database\",\"stacktrace\":\"\"}\npanic: failed to open database\n\ngoroutine 1 [running]:\n".into(),
        _ => "goroutine 1 [running]:\ngo.etcd.io/bbolt._assert(...)\n".into(),
    }
}

/// As etcd prints it.
fn fatal(error: &str) -> String {
    format!(r#"{{"level":"fatal","caller":"etcdmain/etcd.go:204","msg":"discovery failed","error":"{error}"}}"#)
}

/// A number that only depends on the text.
fn number(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
