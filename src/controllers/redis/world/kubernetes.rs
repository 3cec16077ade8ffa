//! Kubernetes: children, the controller of `StatefulSet`s, a kubelet for all pods, and the network between processes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::nodes::{Process, Write};
use crate::api::Redis;
use crate::controllers::redis::action::{Action, Target};
use crate::controllers::redis::facts::{Child, Claim, Hidden, Observed, Passwords, Pod, Users, Voice};
use crate::controllers::redis::names;
use crate::controllers::redis::tls::Certificates;
use crate::controllers::restore_from::Seen;
use crate::controllers::restore_from::fixtures::happen;
use crate::external::redis::Attached;

/// A pod.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a pod")]
pub struct PodState {
    pub name: String,
    pub uid: String,
    pub revision: String,
    pub address: String,
    pub role: Option<String>,
    pub settings: Option<String>,
    pub certificates: Option<String>,
    /// The certificates whose files the kubelet was made to bring.
    awaited: Option<String>,
    pub terminating: bool,
    /// Somebody took our label off.
    pub unlabelled: bool,
    /// Its image exists.
    pub startable: bool,
    /// Another of its containers does not run, or its kubelet does not tell.
    pub unready: bool,
    /// Seconds until a process that was killed again and again is started anew.
    pub waits: u8,
    pub process: Option<Process>,
}

/// A volume claim and what its volume has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimState {
    pub facts: Claim,
    pub writes: Vec<Write>,
    /// No process can read them.
    pub damaged: bool,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Kubernetes {
    pub children: BTreeMap<(String, String), Child>,
    pub slices: BTreeMap<String, Child>,
    pub pods: BTreeMap<i32, PodState>,
    pub claims: BTreeMap<i32, ClaimState>,
    /// Claims of our names that are somebody else's: whose.
    pub others: BTreeMap<i32, &'static str>,
    pub passwords: Passwords,
    pub certificates: Certificates,
    /// The `DatabaseRestore`; nobody knows anything of it unless a test says so.
    pub restore: Seen,
    born: u32,
}

impl PodState {
    /// It takes writes.
    pub fn is_master(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.follows.is_none())
    }

    pub fn answers(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.hangs.is_none())
    }
}

impl Kubernetes {
    pub fn observe(&self, object: &Redis) -> Observed {
        let damaged = |pod: &PodState| {
            let claim = self.claims.values().find(|claim| claim.facts.name.ends_with(&pod.name));
            claim.is_some_and(|claim| claim.damaged) && pod.startable && pod.process.is_none()
        };
        let pod = |pod: &PodState| Pod {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            revision: pod.revision.clone(),
            role: pod.role.clone(),
            settings: pod.settings.clone(),
            certificates: pod.certificates.clone(),
            address: Some(pod.address.clone()),
            ready: pod.process.is_some() && !pod.unready,
            terminating: pod.terminating,
            controlled: self.children.keys().any(|(kind, _)| kind == "StatefulSet"),
            unlabelled: pod.unlabelled,
            trouble: if damaged(pod) {
                Some("CrashLoopBackOff".into())
            } else {
                (!pod.startable).then(|| "ImagePullBackOff".to_owned())
            },
            revival: (pod.waits > 0).then(|| "its process was killed".to_owned()),
            last_words: damaged(pod).then(|| "# Bad file format reading the append only file x".to_owned()),
            voice: match &pod.process {
                None => Voice::Gone,
                Some(Process { hangs: Some(seconds), .. }) => Voice::Silent(Duration::from_secs(*seconds)),
                Some(process) => Voice::Answers(Box::new(process.info(self.attached(&pod.address)))),
            },
            writes: (pod.is_master() && pod.answers()).then(|| self.answer_to_a_write(pod, object)),
            drift: pod.process.iter().filter(|it| it.tampered).map(|_| "min-replicas-to-write".to_owned()).collect(),
            ..Pod::default()
        };
        assert!(object.metadata.uid.is_some());
        Observed {
            children: self.children.clone(),
            pods: self.pods.iter().map(|(ordinal, state)| (*ordinal, pod(state))).collect(),
            claims: self.claims.iter().map(|(ordinal, claim)| (*ordinal, claim.facts.clone())).collect(),
            passwords: self.passwords.clone(),
            certificates: self.certificates.clone(),
            restore: self.restore.clone(),
            unmade: None,
            foreign: self.others.iter().map(|(ordinal, whose)| (*ordinal, (*whose).to_owned())).collect(),
            slices: self.slices.clone(),
        }
    }

    pub fn attached(&self, address: &str) -> Vec<Attached> {
        let attached = self.pods.values().filter(|pod| {
            let follows = pod.process.as_ref().and_then(|process| process.follows.as_ref());
            follows.is_some_and(|following| following.up && following.host == address)
        });
        let told = |pod: &PodState| {
            let lag_seconds = pod.process.as_ref().and_then(|process| process.hangs).unwrap_or(0);
            Attached { host: pod.address.clone(), online: true, offset: 0, lag_seconds }
        };
        attached.map(told).collect()
    }

    pub fn by_address(&self, address: &str) -> Option<i32> {
        self.pods.iter().find(|(_, pod)| pod.address == address).map(|(ordinal, _)| *ordinal)
    }

    fn meant(&mut self, target: &Target) -> Result<&mut PodState, ()> {
        self.pods.values_mut().find(|pod| pod.name == target.name && pod.uid == target.uid).ok_or(())
    }

    pub fn process(&mut self, target: &Target) -> Result<&mut Process, ()> {
        self.meant(target)?.process.as_mut().filter(|process| process.hangs.is_none()).ok_or(())
    }

    /// The action is done where it can be.
    pub fn act(&mut self, action: &Action) -> Result<(), ()> {
        match action {
            Action::Apply { child, uid } => {
                let key = (child.kind().to_owned(), child.name().to_owned());
                let live = self.children.get(&key).map(|live| live.uid.clone());
                if uid.is_some() && *uid != live {
                    return Err(());
                }
                let uid = live.unwrap_or_else(|| self.next().to_string());
                self.children.insert(key, Child { value: child.value.clone(), uid, ours: true });
            }
            Action::DeletePod { name, uid, .. } | Action::Revive { name, uid, .. } => {
                if let Some(pod) = self.pods.values_mut().find(|pod| pod.name == *name) {
                    if pod.uid != *uid {
                        return Err(());
                    }
                    pod.terminating = true;
                }
            }
            Action::DeleteClaim { name, uid, .. } => {
                let meant = |claim: &ClaimState| claim.facts.name == *name && claim.facts.uid == *uid;
                // It stays as long as a pod uses it.
                self.claims.retain(|ordinal, claim| !meant(claim) || self.pods.contains_key(ordinal));
                self.claims.values_mut().filter(|claim| meant(claim)).for_each(|claim| claim.facts.terminating = true);
            }
            Action::LabelPod(pod) => self.meant(pod)?.unlabelled = false,
            Action::LabelClaim { name, uid } => {
                let claim = self.claims.values_mut().find(|claim| claim.facts.name == *name).ok_or(())?;
                if claim.facts.uid != *uid {
                    return Err(());
                }
                claim.facts.unlabelled = false;
            }
            Action::GrowClaim { name, size, .. } => {
                let claim = self.claims.values_mut().find(|claim| claim.facts.name == *name).ok_or(())?;
                claim.facts.size.clone_from(size);
            }
            Action::Orphan { name, .. } => drop(self.children.remove(&("StatefulSet".to_owned(), name.clone()))),
            Action::Lead(publication) => self.lead(publication)?,
            Action::Unselect { service, uid } => {
                let live = self.children.get_mut(&("Service".to_owned(), service.clone())).ok_or(())?;
                if live.uid != *uid {
                    return Err(());
                }
                live.value["spec"]["selector"] = serde_json::Value::Null;
            }
            Action::Sweep { slices, .. } => {
                self.slices.retain(|name, live| !slices.contains(&(name.clone(), live.uid.clone())));
            }
            Action::SetRole { pod, role } => self.meant(pod)?.role = role.map(str::to_owned),
            Action::Follow { node, master, .. } => self.process(node)?.follow(master),
            Action::Promote { node, run_id, .. } => {
                let history = self.next();
                let process = self.process(node)?;
                if process.run.to_string() != *run_id {
                    return Err(());
                }
                process.promote(history);
            }
            Action::HandOver { from, address, hide, .. } => {
                self.hand_over(from, address)?;
                if let Some(publication) = hide {
                    self.lead(publication)?;
                }
            }
            Action::Configure { node, note, .. } => {
                self.process(node)?.tampered = false;
                self.meant(node)?.settings = Some(note.clone());
            }
            Action::LoadCertificates { node, content, note, .. } => {
                let pod = self.meant(node)?;
                // A process that is new finds the files that there are; for another they come a little later.
                if pod.certificates.is_some() && pod.awaited.replace(content.clone()).as_ref() != Some(content) {
                    return Err(());
                }
                let kept = self.certificates.nodes.kept.clone();
                let kept = kept.filter(|kept| kept.content().as_ref() == Some(content)).ok_or(())?;
                self.process(node)?.files = Some(kept);
                self.meant(node)?.certificates = Some(note.clone());
            }
            Action::Certify(_) => unreachable!("it takes the time to do it"),
            Action::MakePassword { .. } => self.passwords.given = Some(Hidden("secret".into())),
            Action::MakeUsers { hash, .. } => {
                let users = Users {
                    internal: Hidden("internal".into()),
                    current: hash.clone(),
                    previous: None,
                    exporter: true,
                };
                self.passwords.users = Some(users);
            }
            Action::Restore(step) => happen(&mut self.restore, step),
            Action::Fence { .. }
            | Action::StepDown { .. }
            | Action::KeepMastership { .. }
            | Action::DropClients { .. }
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
        let writes = self.process(from)?.writes.clone();
        let history = self.next();
        let heir = self.by_address(address).ok_or(())?;
        // What it is given is on its volume as well.
        let kept = writes.clone();
        let successor = self.pods.get_mut(&heir).ok_or(())?;
        let process = successor.process.as_mut().filter(|process| process.hangs.is_none()).ok_or(())?;
        process.writes = writes;
        process.promote(history);
        let next_history = process.history.clone();
        self.claims.get_mut(&heir).ok_or(())?.writes = kept;
        let old = self.process(from)?;
        old.follow(address);
        old.earlier = std::mem::replace(&mut old.history, next_history);
        self.meant(from)?.role = None;
        Ok(())
    }

    /// A second passes.
    pub fn time_passes(&mut self, object: &Redis) {
        let gone: Vec<i32> = self.pods.iter().filter(|(_, pod)| pod.terminating).map(|(at, _)| *at).collect();
        for ordinal in gone {
            // Told to stop, a master first gives its replicas what they lack.
            self.replicate();
            self.pods.remove(&ordinal);
        }
        let pods = &self.pods;
        self.claims.retain(|ordinal, claim| !claim.facts.terminating || pods.contains_key(ordinal));
        self.follow_set(object);
        for (ordinal, pod) in &mut self.pods {
            pod.waits = pod.waits.saturating_sub(1);
            if pod.waits > 0 {
                continue;
            }
            let readable = self.claims.get(ordinal).is_some_and(|claim| !claim.damaged);
            if pod.process.is_none() && pod.startable && readable {
                self.born += 1;
                let files = self.certificates.nodes.kept.clone();
                let process = Process::start(self.born, self.claims[ordinal].writes.clone());
                pod.process = Some(Process { files, ..process });
            }
            // As a replica, one whose disk takes nothing ends itself; there is room when it is started again.
            if pod.process.as_ref().is_some_and(|process| process.full && process.follows.is_some()) {
                pod.process = None;
            }
            if let Some(process) = &mut pod.process {
                process.age += 1;
                process.hangs = process.hangs.map(|seconds| seconds + 1);
            }
        }
        self.replicate();
    }

    /// Replicas that find their master get what they lack.
    fn replicate(&mut self) {
        for ordinal in self.pods.keys().copied().collect::<Vec<_>>() {
            let Some(process) = self.pods[&ordinal].process.as_ref().filter(|process| process.hangs.is_none()) else {
                continue;
            };
            let Some(following) = &process.follows else { continue };
            let master = self.by_address(&following.host).and_then(|at| self.pods[&at].process.clone());
            let master = master.filter(|master| master.follows.is_none());
            let pod = self.pods.get_mut(&ordinal).unwrap();
            let process = pod.process.as_mut().unwrap();
            let following = process.follows.as_mut().unwrap();
            match master {
                // Its socket is open; nothing comes.
                Some(master) if master.hangs.is_some() => following.quiet += 1,
                Some(master) => {
                    let goes_on = master.writes.starts_with(&process.writes)
                        && (process.history == master.history || process.history == master.earlier);
                    if goes_on || following.syncing {
                        process.writes.clone_from(&master.writes);
                        process.history.clone_from(&master.history);
                        process.earlier.clone_from(&master.earlier);
                        following.up = true;
                        following.syncing = false;
                    } else {
                        following.up = false;
                        following.syncing = true;
                    }
                    following.quiet = 0;
                    self.claims.get_mut(&ordinal).unwrap().writes.clone_from(&pod.process.as_ref().unwrap().writes);
                }
                None => {
                    following.up = false;
                    following.syncing = false;
                    following.quiet += 1;
                }
            }
        }
    }

    /// A process is gone; its volume stays.
    pub fn kill(&mut self, ordinal: i32) {
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            pod.process = None;
        }
        // What is not taken notice of in the moment of its death.
        self.replicate_links();
    }

    fn replicate_links(&mut self) {
        let alive: Vec<String> =
            self.pods.values().filter(|pod| pod.process.is_some()).map(|pod| pod.address.clone()).collect();
        for process in self.pods.values_mut().filter_map(|pod| pod.process.as_mut()) {
            if let Some(following) = process.follows.as_mut().filter(|following| !alive.contains(&following.host)) {
                following.up = false;
                following.syncing = false;
            }
        }
    }

    /// `StatefulSet`: pods and claims that are missing are made, pods beyond the last are deleted.
    fn follow_set(&mut self, object: &Redis) {
        let key = ("StatefulSet".to_owned(), object.metadata.name.clone().unwrap());
        let Some(set) = self.children.get(&key).map(|set| set.value.clone()) else { return };
        let count = i32::try_from(set["spec"]["replicas"].as_i64().unwrap()).unwrap();
        // It has let go of that pod, and cannot make another of its name: with that its turn ends.
        if self.pods.iter().any(|(ordinal, pod)| pod.unlabelled && *ordinal < count) {
            return;
        }
        self.pods.retain(|ordinal, _| *ordinal < count);
        for ordinal in 0..count {
            assert!(!self.others.contains_key(&ordinal), "a volume of {} is used", self.others[&ordinal]);
            let uid = self.next().to_string();
            self.claims.entry(ordinal).or_insert_with(|| ClaimState {
                facts: Claim {
                    name: format!("{}-{}", names::VOLUME, names::pod(object, ordinal)),
                    uid,
                    ours: true,
                    unlabelled: false,
                    terminating: false,
                    bound: true,
                    size: object.spec.storage.size.clone(),
                },
                writes: Vec::new(),
                damaged: false,
            });
            let template = &set["spec"]["template"];
            let number = self.next();
            self.pods.entry(ordinal).or_insert_with(|| PodState {
                name: names::pod(object, ordinal),
                uid: number.to_string(),
                revision: template["metadata"]["labels"][names::REVISION].as_str().unwrap().into(),
                address: format!("10.0.{}.{}", number / 256, number % 256),
                role: None,
                settings: None,
                certificates: None,
                awaited: None,
                terminating: false,
                unlabelled: false,
                startable: !template["spec"]["containers"][0]["image"].as_str().unwrap().contains("nothing"),
                unready: false,
                waits: 0,
                process: None,
            });
        }
    }

    pub fn next(&mut self) -> u32 {
        self.born += 1;
        self.born
    }
}
