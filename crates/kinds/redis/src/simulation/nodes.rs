//! A process of Redis: which data it has, and which master it follows.

use causeway_databases::redis::{Attached, Info, Link, Role};
use causeway_databases::tls::facts::StoredCertificate;

/// A write; each has a number of its own.
pub type Write = u32;

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Process {
    pub run: u32,
    /// Seconds since it was started.
    pub age: u64,
    /// The master that it follows; a master follows none.
    pub follows: Option<Following>,
    pub history: String,
    pub earlier: String,
    pub writes: Vec<Write>,
    /// Its replication offset: a master counts its writes, and the ping of each second.
    pub offset: u64,
    /// The certificates that it has loaded.
    pub files: Option<StoredCertificate>,
    /// For how many seconds it has not answered, if it hangs.
    pub hangs: Option<u64>,
    /// Its disk takes nothing.
    pub full: bool,
    /// A user made it require more replicas than there are.
    pub tampered: bool,
    /// A client keeps its connection to it.
    pub client: bool,
    /// It has had a link to a master.
    pub linked: bool,
}

/// A replica's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Following {
    pub host: String,
    pub up: bool,
    pub syncing: bool,
    /// Seconds since it last received anything from its master.
    pub quiet: u64,
    /// Seconds since it knows that the link is down.
    pub lost: u64,
}

impl Following {
    /// A second passes in which the network drops all packets of the link. Redis takes a minute to notice that.
    pub fn hears_nothing(&mut self) {
        self.quiet += 1;
        if self.up && self.quiet >= super::kubernetes::LINK_TIMEOUT {
            self.breaks();
        } else if !self.up {
            (self.syncing, self.lost) = (false, self.lost + 1);
        }
    }

    /// The link is down, and the replica knows it.
    pub fn breaks(&mut self) {
        if self.up {
            self.lost = 0;
        }
        (self.up, self.syncing) = (false, false);
    }
}

impl Process {
    /// Every process starts as a replica without a master, with what is on its volume.
    pub fn start(run: u32, writes: Vec<Write>) -> Self {
        let follows = Some(Following { host: "127.0.0.1".into(), up: false, syncing: false, quiet: 1000, lost: 1000 });
        Self {
            run,
            age: 0,
            follows,
            history: format!("h{run}"),
            earlier: String::new(),
            writes,
            offset: 0,
            files: None,
            hangs: None,
            full: false,
            tampered: false,
            client: false,
            linked: false,
        }
    }

    /// Turns master: a history of its own begins.
    pub fn promote(&mut self, history: u32) {
        if self.follows.take().is_some() {
            self.earlier = std::mem::replace(&mut self.history, format!("p{history}"));
        }
    }

    pub fn follow(&mut self, host: &str) {
        if self.follows.as_ref().is_none_or(|following| following.host != host) {
            self.follows = Some(Following { host: host.to_owned(), up: false, syncing: false, quiet: 0, lost: 0 });
        }
    }

    /// Returns the answer to INFO.
    pub fn info(&self, attached: Vec<Attached>) -> Info {
        let role = match &self.follows {
            None => Role::Master,
            Some(following) => Role::Replica(Link {
                host: following.host.clone(),
                port: super::super::names::PORT,
                up: following.up,
                syncing: following.syncing,
            }),
        };
        Info {
            run_id: self.run.to_string(),
            version: "7.0.15".into(),
            uptime_seconds: self.age,
            role,
            loading: false,
            clients: 1 + u64::from(self.client) + u64::from(self.follows.as_ref().is_some_and(|it| it.up)),
            most_clients: None,
            used_memory: None,
            keys: self.writes.len().try_into().unwrap(),
            history: self.history.clone(),
            earlier_history: self.earlier.clone(),
            offset: self.offset,
            quiet_seconds: self.follows.as_ref().map(|following| following.quiet),
            lost_seconds: self.follows.as_ref().filter(|it| !it.up && self.linked).map(|following| following.lost),
            attached,
            handing_over: false,
            log_fails: self.full,
            log_has_writes: false,
            snapshot_fails: false,
            log_rewrites: None,
            rewrites_log: false,
        }
    }
}
