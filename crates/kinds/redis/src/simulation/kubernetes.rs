//! Kubernetes: children, the controller of `StatefulSet`s, a kubelet for all pods, and the network between processes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway_api::Redis;
use causeway_databases::ChildAction;
use causeway_databases::password::Emptied;
use causeway_databases::redis::Attached;
use causeway_databases::simulation::{self, Birth, Objects};
use causeway_runtime::quantity::amount;

use super::nodes::{Following, Process, Write};
use crate::action::{Action, Target};
use crate::facts::Certificates;
use crate::facts::{Child, LastWord, Node, NodeState, Observed, Passwords, Pod, SecretString, Users};
use crate::names;

/// The image that the operator runs.
pub const OWN_IMAGE: &str = "causeway:1";

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a pod")]
pub struct PodState {
    pub name: String,
    pub uid: String,
    pub revision: String,
    pub restarted: Option<String>,
    pub address: String,
    pub role: Option<String>,
    pub settings: Option<String>,
    /// The file that a new process starts with.
    pub conf: Option<String>,
    pub certificates: Option<String>,
    /// The certificates whose files the kubelet was made to bring.
    awaited: Option<String>,
    pub terminating: bool,
    /// A user took our label off.
    pub unlabelled: bool,
    /// Its container has a liveness probe.
    probed: bool,
    pub startable: bool,
    /// A process of it was started.
    pub has_run: bool,
    /// Another of its containers does not run, or its kubelet does not report.
    pub unready: bool,
    /// Seconds until the kubelet starts a process again, without any trouble of the pod: its machine boots.
    pub away: u16,
    /// Seconds until a process that was killed again and again is started again.
    pub waits: u8,
    /// Seconds since it was made.
    pub age: i64,
    /// It has answered the operator.
    pub heard: bool,
    /// How packets between the operator and it are lost, if they are. All others reach it.
    pub cut: Option<Cut>,
    /// Clients do not reach it.
    pub unreached: bool,
    /// The memory limit of its container.
    limit: Option<u64>,
    pub process: Option<Process>,
}

/// A value that Redis refuses, for whatever directive.
pub const REFUSED: &str = "bogus";

/// How packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Packets get no answer, since so many seconds.
    Dropped(u64),
    Rejected,
}

/// The data on a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    pub writes: Vec<Write>,
    /// No process can read them.
    pub damaged: bool,
}

/// Everything that there is.
#[derive(Clone, Debug, Default)]
pub struct Kubernetes {
    /// Children, pods and volumes.
    pub set: Objects<PodState, Volume>,
    pub slices: BTreeMap<String, Child>,
    pub passwords: Passwords,
    pub certificates: Certificates,
    /// Kinds of children that the apiserver refuses, as a quota or a webhook makes it do.
    pub denied: BTreeSet<&'static str>,
    /// The storage class lets no volume grow.
    pub rigid: bool,
    /// Pairs of pods between which the network drops packets, by their addresses.
    pub severed: BTreeSet<(String, String)>,
    /// For so many seconds all machines are switched off.
    pub dark: u16,
    /// Bytes of memory that the data take.
    pub used: u64,
    /// The last answers of masters to the operator, by the names of their pods.
    pub words: BTreeMap<String, Said>,
}

/// The last two answers of a master.
#[derive(Clone, Debug, Default)]
pub struct Said {
    earlier: u64,
    latest: u64,
    seconds_ago: u64,
}

/// Redis gives up a link over which nothing came for this long.
/// <https://github.com/redis/redis/blob/7.0/redis.conf> (`repl-timeout`)
pub const LINK_TIMEOUT: u64 = 60;

impl Said {
    fn last_word(&self) -> LastWord {
        LastWord { offset: self.earlier, ago: Duration::from_secs(self.seconds_ago), empty: false }
    }
}

impl simulation::PodState for PodState {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn terminate(&mut self) {
        self.terminating = true;
    }

    fn unlabelled(&mut self) -> &mut bool {
        &mut self.unlabelled
    }
}

impl PodState {
    fn new(birth: &Birth<'_, Volume>) -> Self {
        Self {
            name: birth.name.clone(),
            uid: birth.uid.clone(),
            revision: birth.label(names::REVISION).unwrap().into(),
            restarted: birth.restarted(),
            address: birth.address.clone(),
            role: None,
            settings: None,
            conf: birth.template["metadata"]["annotations"][names::CONF].as_str().map(str::to_owned),
            certificates: None,
            awaited: None,
            terminating: false,
            unlabelled: false,
            probed: !birth.template["spec"]["containers"][0]["livenessProbe"].is_null(),
            startable: !birth.image().contains("nothing"),
            has_run: false,
            unready: false,
            away: 0,
            waits: 0,
            age: 0,
            heard: false,
            cut: None,
            unreached: false,
            limit: birth.template["spec"]["containers"][0]["resources"]["limits"]["memory"]
                .as_str()
                .and_then(|text| u64::try_from(amount(text)? / 1000).ok()),
            process: None,
        }
    }

    /// It takes writes.
    pub fn is_master(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.follows.is_none())
    }

    /// The line of its file for which no process starts.
    fn refused_line(&self) -> Option<&str> {
        self.conf.as_ref()?.lines().find(|line| line.ends_with(REFUSED))
    }

    pub fn answers(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.hangs.is_none())
    }
}

impl Kubernetes {
    pub fn observe(&self, object: &Redis) -> Observed {
        let damaged = |pod: &PodState| {
            let claim = self.set.claims.values().find(|claim| claim.facts.name.ends_with(&pod.name));
            claim.is_some_and(|claim| claim.volume.damaged) && pod.startable && pod.process.is_none()
        };
        let refuses =
            |pod: &PodState| pod.refused_line().filter(|_| pod.process.is_none() && pod.has_run).map(str::to_owned);
        let pod = |pod: &PodState| Pod {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            revision: pod.revision.clone(),
            restarted: pod.restarted.clone(),
            address: Some(pod.address.clone()),
            ready: pod.process.is_some() && !pod.unready,
            terminating: pod.terminating,
            young: pod.terminating,
            controlled: self.set.children.keys().any(|(kind, _)| kind == "StatefulSet"),
            unlabelled: pod.unlabelled,
            trouble: if damaged(pod) || pod.waits > 0 || (pod.startable && refuses(pod).is_some()) {
                Some("CrashLoopBackOff".into())
            } else {
                (!pod.startable).then(|| "ImagePullBackOff".to_owned())
            },
            placed: true,
            runs: pod.process.is_some(),
            has_run: pod.has_run,
            lasts: pod.process.is_some(),
            revival: (pod.waits > 0).then(|| "its process was killed".to_owned()),
            last_words: if damaged(pod) {
                Some("# Bad file format reading the append only file x".to_owned())
            } else {
                refuses(pod).map(|line| format!("Reading the configuration file, at line 9\n>>> '{line}'\nno"))
            },
            own: Node {
                role: pod.role.clone(),
                settings: pod.settings.clone(),
                conf: pod.conf.clone(),
                certificates: pod.certificates.clone(),
                probed: pod.probed,
                state: match &pod.process {
                    _ if pod.cut == Some(Cut::Rejected) => NodeState::Gone,
                    _ if let Some(Cut::Dropped(seconds)) = pod.cut => NodeState::Silent(Duration::from_secs(seconds)),
                    None => NodeState::Gone,
                    Some(Process { hangs: Some(seconds), .. }) => NodeState::Silent(Duration::from_secs(*seconds)),
                    Some(process) => NodeState::Answers(Box::new(process.info(self.attached(&pod.address)))),
                },
                clients: pod.process.iter().filter(|process| process.client).count(),
                stalled: self.is_stalled(pod),
                memory_limit: pod.limit,
                used: (self.used > 0 && pod.answers()).then_some(self.used),
                unchanged: unchanged(pod),
                has_answered: pod.cut.is_some() && pod.heard,
                writes: (pod.is_master() && pod.answers() && pod.cut.is_none())
                    .then(|| self.answer_to_a_write(pod, object)),
                drift: pod
                    .process
                    .iter()
                    .filter(|it| it.tampered)
                    .map(|_| "min-replicas-to-write".to_owned())
                    .collect(),
                ..Node::default()
            },
            ..Pod::default()
        };
        assert!(object.metadata.uid.is_some());
        Observed {
            // There is one operator, and its clock is right.
            candidate_seen: std::time::Duration::MAX,
            set: self.set.observe(|_, state| pod(state)),
            passwords: self.passwords.clone(),
            certificates: self.certificates.clone(),
            slices: self.slices.clone(),
            own_image: Some(OWN_IMAGE.into()),
            refused: BTreeMap::new(),
            words: self.words.iter().map(|(name, said)| (name.clone(), said.last_word())).collect(),
        }
    }

    pub fn attached(&self, address: &str) -> Vec<Attached> {
        let attached = self.set.pods.values().filter(|pod| {
            let follows = pod.process.as_ref().and_then(|process| process.follows.as_ref());
            follows.is_some_and(|following| following.up && following.host == address)
        });
        let attach = |pod: &PodState| {
            let process = pod.process.as_ref();
            let unheard = process.and_then(|process| process.follows.as_ref()).map_or(0, |following| following.quiet);
            let lag_seconds = process.and_then(|process| process.hangs).unwrap_or(0).max(unheard);
            let offset = process.map_or(0, |process| process.offset);
            Attached { host: pod.address.clone(), online: true, offset, lag_seconds }
        };
        attached.map(attach).collect()
    }

    pub fn by_address(&self, address: &str) -> Option<i32> {
        self.set.pods.iter().find(|(_, pod)| pod.address == address).map(|(ordinal, _)| *ordinal)
    }

    fn meant(&mut self, target: &Target) -> Result<&mut PodState, ()> {
        self.set.pods.values_mut().find(|pod| pod.name == target.name && pod.uid == target.uid).ok_or(())
    }

    pub fn process(&mut self, target: &Target) -> Result<&mut Process, ()> {
        let pod = self.meant(target)?;
        let is_reached = pod.cut.is_none();
        pod.process.as_mut().filter(|process| process.hangs.is_none() && is_reached).ok_or(())
    }

    /// Carries out the action, if that can be done.
    pub fn act(&mut self, object: &Redis, action: &Action) -> Result<(), ()> {
        match action {
            Action::Child(ChildAction::TakeBack { kind, name, owners, .. }) if kind == "EndpointSlice" => {
                simulation::taken_back(self.slices.get_mut(name).ok_or(())?, owners);
            }
            Action::Child(action) => return self.set.act(object, action),
            Action::WriteSlice(slice_write) => self.lead(slice_write)?,
            Action::Unselect { service, uid } => {
                let live = self.set.children.get_mut(&("Service".to_owned(), service.clone())).ok_or(())?;
                if live.uid != *uid {
                    return Err(());
                }
                live.value["spec"]["selector"] = serde_json::Value::Null;
            }
            Action::Sweep { slices, .. } => {
                self.slices.retain(|name, live| !slices.contains(&(name.clone(), live.uid.clone())));
            }
            Action::SetRole { pod, role } => self.meant(pod)?.role = role.map(str::to_owned),
            Action::Follow { node, master, drop_clients } => {
                let process = self.process(node)?;
                process.follow(master);
                process.client &= !drop_clients;
            }
            Action::DropClients { node } => self.process(node)?.client = false,
            Action::Promote { node, run_id, .. } => {
                let history = self.set.next_number();
                let process = self.process(node)?;
                if process.run.to_string() != *run_id {
                    return Err(());
                }
                process.promote(history);
            }
            Action::HandOver { from, address, hide, .. } => {
                self.hand_over(from, address)?;
                if let Some(slice_write) = hide {
                    self.lead(slice_write)?;
                }
            }
            Action::Configure { node, settings, note, .. } => {
                let process = self.process(node)?;
                if settings.iter().any(|(_, value)| value == REFUSED) {
                    return Err(());
                }
                process.tampered = false;
                self.meant(node)?.settings = Some(note.to_string());
            }
            Action::WriteSettings { pod, file } => self.meant(pod)?.conf = Some(file.clone()),
            Action::LoadCertificates { node, content, note, .. } => {
                let pod = self.meant(node)?;
                // A new process finds the files that there are; for a running one they come a little later.
                if pod.certificates.is_some() && pod.awaited.replace(content.clone()).as_ref() != Some(content) {
                    return Err(());
                }
                let kept = self.certificates.nodes.kept.clone();
                let kept = kept.filter(|kept| kept.content().as_ref() == Some(content)).ok_or(())?;
                self.process(node)?.files = Some(kept);
                self.meant(node)?.certificates = Some(note.clone());
            }
            Action::Certify(_) => unreachable!("it takes the time to do it"),
            Action::MakePassword { before, .. } => {
                let passwords = &mut self.passwords;
                let there = passwords.emptied.as_ref().map(Emptied::version);
                let is_another = there.is_some_and(|version| version.is_none() || version != before.as_ref());
                if passwords.user_provided.is_some() || is_another {
                    return Err(());
                }
                (passwords.user_provided, passwords.emptied) = (Some(SecretString("secret".into())), None);
            }
            Action::MakeUsers { hash, .. } => {
                let users = Users {
                    internal: SecretString("internal".into()),
                    current: hash.clone(),
                    previous: None,
                    exporter: true,
                    sentinel: object.spec.sentinel.is_some(),
                };
                self.passwords.users = Some(users);
            }
            Action::EndBusy { node, .. } => self.kill(names::ordinal_of(object, &node.name).unwrap()),
            Action::Fence { .. }
            | Action::StepDown { .. }
            | Action::KeepMastership { .. }
            | Action::RewriteLog { .. }
            | Action::Tell { .. } => {}
        }
        Ok(())
    }

    /// Writes wait until the replica has everything; then both change their roles.
    fn hand_over(&mut self, from: &Target, address: &str) -> Result<(), ()> {
        let own = self.meant(from)?.address.clone();
        if !self.attached(&own).iter().any(|attached| attached.host == address) {
            return Err(());
        }
        let (writes, offset) = (self.process(from)?.writes.clone(), self.process(from)?.offset);
        let history = self.set.next_number();
        let heir = self.by_address(address).ok_or(())?;
        // The data that the successor is given are on its volume as well.
        let kept = writes.clone();
        let successor = self.set.pods.get_mut(&heir).ok_or(())?;
        let process = successor.process.as_mut().filter(|process| process.hangs.is_none()).ok_or(())?;
        (process.writes, process.offset) = (writes, offset);
        process.promote(history);
        let next_history = process.history.clone();
        self.set.claims.get_mut(&heir).ok_or(())?.volume.writes = kept;
        let old = self.process(from)?;
        old.follow(address);
        old.earlier = std::mem::replace(&mut old.history, next_history);
        self.meant(from)?.role = None;
        Ok(())
    }

    /// A second passes.
    pub fn time_passes(&mut self, object: &Redis) {
        let gone: Vec<i32> = self.set.pods.iter().filter(|(_, pod)| pod.terminating).map(|(at, _)| *at).collect();
        for ordinal in gone {
            // A master that gets SIGTERM first gives its replicas what they lack.
            self.replicate();
            self.set.pods.remove(&ordinal);
        }
        let pods = &self.set.pods;
        self.set.claims.retain(|ordinal, claim| !claim.facts.terminating || pods.contains_key(ordinal));
        for spare in self.set.follow_set(object, PodState::new) {
            self.set.pods.remove(&spare);
        }
        self.dark = self.dark.saturating_sub(1);
        for ordinal in self.set.pods.keys().copied().collect::<Vec<_>>() {
            let number = self.set.next_number();
            let Objects { pods, claims, .. } = &mut self.set;
            let pod = pods.get_mut(&ordinal).unwrap();
            pod.waits = pod.waits.saturating_sub(1);
            pod.age += 1;
            pod.heard |= pod.cut.is_none() && pod.answers();
            pod.cut = match pod.cut {
                Some(Cut::Dropped(seconds)) => Some(Cut::Dropped(seconds + 1)),
                cut => cut,
            };
            pod.away = pod.away.saturating_sub(1);
            if pod.waits > 0 || pod.away > 0 || self.dark > 0 {
                continue;
            }
            let readable = claims.get(&ordinal).is_some_and(|claim| !claim.volume.damaged);
            pod.has_run |= pod.startable;
            if pod.process.is_none() && pod.startable && readable && pod.refused_line().is_none() {
                let files = self.certificates.nodes.kept.clone();
                let process = Process::start(number, claims[&ordinal].volume.writes.clone());
                pod.process = Some(Process { files, ..process });
            }
            // A replica whose disk takes nothing ends itself; there is room when it is started again.
            if pod.process.as_ref().is_some_and(|process| process.full && process.follows.is_some()) {
                pod.process = None;
            }
            if let Some(process) = &mut pod.process {
                process.age += 1;
                process.hangs = process.hangs.map(|seconds| seconds + 1);
                process.offset += u64::from(process.follows.is_none() && process.hangs.is_none());
            }
        }
        self.replicate();
        self.listen();
    }

    /// The operator hears what masters have.
    fn listen(&mut self) {
        for pod in self.set.pods.values().filter(|pod| pod.answers() && pod.cut.is_none()) {
            let process = pod.process.as_ref().unwrap();
            if process.follows.as_ref().is_some_and(|following| following.up) {
                self.words.remove(&pod.name);
            } else if process.follows.is_none() {
                let earlier = self.words.get(&pod.name).map_or(process.offset, |said| said.latest.min(process.offset));
                self.words.insert(pod.name.clone(), Said { earlier, latest: process.offset, seconds_ago: 0 });
            }
        }
        self.words.values_mut().for_each(|said| said.seconds_ago += 1);
    }

    /// Reports whether a master that the operator hears has had no acknowledgement of that replica for two seconds.
    fn is_stalled(&self, pod: &PodState) -> bool {
        let Some(process) = &pod.process else { return false };
        let is_late = |following: &&Following| following.up && process.hangs.unwrap_or(0).max(following.quiet) >= 2;
        let Some(following) = process.follows.as_ref().filter(is_late) else { return false };
        let master = self.by_address(&following.host).map(|ordinal| &self.set.pods[&ordinal]);
        master.is_some_and(|master| master.is_master() && master.answers() && master.cut.is_none())
    }

    /// Reports whether the network drops packets between two addresses.
    fn is_severed(&self, one: &str, other: &str) -> bool {
        self.severed.iter().any(|(a, b)| (a == one && b == other) || (a == other && b == one))
    }

    /// Drops all packets between two pods from now on.
    pub fn sever(&mut self, one: i32, other: i32) {
        let [one, other] = [one, other].map(|ordinal| self.set.pods[&ordinal].address.clone());
        self.severed.insert((one, other));
    }

    /// Replicas that find their master get what they lack.
    fn replicate(&mut self) {
        for ordinal in self.set.pods.keys().copied().collect::<Vec<_>>() {
            let Some(process) = self.set.pods[&ordinal].process.as_ref().filter(|process| process.hangs.is_none())
            else {
                continue;
            };
            let Some(following) = &process.follows else { continue };
            if self.is_severed(&self.set.pods[&ordinal].address, &following.host) {
                let pod = self.set.pods.get_mut(&ordinal).unwrap();
                pod.process.as_mut().unwrap().follows.as_mut().unwrap().hears_nothing();
                continue;
            }
            let master = self.by_address(&following.host).and_then(|at| self.set.pods[&at].process.clone());
            let master = master.filter(|master| master.follows.is_none());
            let pod = self.set.pods.get_mut(&ordinal).unwrap();
            let process = pod.process.as_mut().unwrap();
            let following = process.follows.as_mut().unwrap();
            match master {
                // Its socket is open, but nothing comes.
                Some(master) if master.hangs.is_some() => following.quiet += 1,
                Some(master) => {
                    let goes_on = master.writes.starts_with(&process.writes)
                        && (process.history == master.history || process.history == master.earlier);
                    if goes_on || following.syncing {
                        process.writes.clone_from(&master.writes);
                        process.offset = master.offset;
                        process.history.clone_from(&master.history);
                        process.earlier.clone_from(&master.earlier);
                        following.up = true;
                        following.syncing = false;
                        process.linked = true;
                    } else {
                        following.up = false;
                        following.syncing = true;
                    }
                    (following.quiet, following.lost) = (0, 0);
                    self.set
                        .claims
                        .get_mut(&ordinal)
                        .unwrap()
                        .volume
                        .writes
                        .clone_from(&pod.process.as_ref().unwrap().writes);
                }
                None => {
                    following.breaks();
                    following.quiet += 1;
                    following.lost += 1;
                }
            }
        }
    }

    /// A process is gone; its volume stays.
    pub fn kill(&mut self, ordinal: i32) {
        if let Some(pod) = self.set.pods.get_mut(&ordinal) {
            pod.process = None;
        }
        // Its replicas notice at once that it is gone.
        self.replicate_links();
    }

    fn replicate_links(&mut self) {
        let alive: Vec<String> =
            self.set.pods.values().filter(|pod| pod.process.is_some()).map(|pod| pod.address.clone()).collect();
        let severed = self.severed.clone();
        for pod in self.set.pods.values_mut() {
            // A replica that is cut off is not told.
            let hears = |host: &String| {
                !severed.contains(&(pod.address.clone(), host.clone()))
                    && !severed.contains(&(host.clone(), pod.address.clone()))
            };
            let following = pod.process.as_mut().and_then(|process| process.follows.as_mut());
            if let Some(following) = following.filter(|it| !alive.contains(&it.host) && hears(&it.host)) {
                following.breaks();
            }
        }
    }
}

/// For how long a process that does not find its master has reported that.
fn unchanged(pod: &PodState) -> Duration {
    let following = pod.process.as_ref().and_then(|process| process.follows.as_ref());
    following.map_or(Duration::ZERO, |following| Duration::from_secs(following.quiet))
}
