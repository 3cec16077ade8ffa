//! Facts that a node reports of itself in INFO, before it is asked for anything else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::link::{Link, LinkError};
use crate::Error;

/// A node's INFO, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    fields: BTreeMap<String, String>,
    /// Names of the modules that are loaded.
    modules: BTreeSet<String>,
}

/// Keys of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keyspace {
    /// Number of keys in all databases.
    pub keys: u64,
    /// Those that have a time to live.
    pub expiring: u64,
}

impl Node {
    /// Reads `INFO` of a node.
    pub async fn ask(link: &mut Link) -> Result<Self, LinkError> {
        Ok(Self::parse(&link.ask(&["INFO"]).await?.text()))
    }

    /// Reads what INFO says.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        let modules = text.lines().filter_map(|line| line.strip_prefix("module:name=")?.split(',').next());
        Self {
            modules: modules.map(str::to_owned).collect(),
            fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }

    /// The modules that are loaded, such as `ReJSON, search`; none if there are none.
    #[must_use]
    pub fn modules(&self) -> Option<String> {
        let names: Vec<&str> = self.modules.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Returns a field of `INFO`; empty if it is absent.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// A field that is a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.field(name).parse().ok()
    }

    /// The server's own version. Valkey reports that beside the version of Redis with which it is compatible.
    #[must_use]
    pub fn version(&self) -> &str {
        match self.field("valkey_version") {
            "" => self.field("redis_version"),
            own => own,
        }
    }

    /// Returns `redis` or `valkey`.
    #[must_use]
    pub fn server(&self) -> &'static str {
        if self.field("valkey_version").is_empty() { "redis" } else { "valkey" }
    }

    /// Reports whether it takes writes.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.field("role") == "master"
    }

    /// Reports whether it is loading its data, and does not serve them yet.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.field("loading") == "1" || self.field("async_loading") == "1"
    }

    /// Explains why its data may be old or incomplete; none if the node is fit.
    #[must_use]
    pub fn is_unfit(&self) -> Option<&'static str> {
        if self.is_loading() {
            return Some("it is loading its data");
        }
        if !self.is_master() && self.field("master_link_status") != "up" {
            return Some("it is a replica without a link to its master");
        }
        if !self.is_master() && self.field("master_sync_in_progress") == "1" {
            return Some("it is a replica that has not all data yet");
        }
        (self.field("cluster_enabled") == "1")
            .then_some("Redis Cluster is not supported: each node has a part of the keys")
    }

    /// Returns the keys by database.
    #[must_use]
    pub fn keyspace(&self) -> BTreeMap<u32, Keyspace> {
        let mut found = BTreeMap::new();
        for (name, value) in &self.fields {
            let Some(number) = name.strip_prefix("db").and_then(|number| number.parse().ok()) else { continue };
            let part = |name: &str| {
                let mut parts = value.split(',').filter_map(|part| part.split_once('='));
                parts.find(|(it, _)| *it == name).and_then(|(_, value)| value.parse().ok()).unwrap_or_default()
            };
            found.insert(number, Keyspace { keys: part("keys"), expiring: part("expires") });
        }
        found
    }
}

/// The first of the addresses that is a fit master, and what that reports of itself.
pub async fn find_master(
    addresses: &[String],
    tls: Option<&Path>,
    login: Option<&Path>,
) -> Result<(Link, Node), Error> {
    let mut refusals = Vec::new();
    for address in addresses {
        let problem = match Link::open(address, tls, login).await {
            Err(error @ Error::Secret { .. }) => return Err(error),
            Err(Error::SourceUnreachable(problem)) => problem,
            Err(error) => error.to_string(),
            Ok(mut link) => match Node::ask(&mut link).await {
                Err(error) => format!("{address}: {error}"),
                Ok(node) if !node.is_master() => format!("{address}: it is a replica"),
                Ok(node) => match node.is_unfit() {
                    Some(why) => format!("{address}: {why}"),
                    None => return Ok((link, node)),
                },
            },
        };
        refusals.push(problem);
    }
    Err(Error::TargetUnreachable(refusals.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASTER: &str = "# Server\r\nredis_version:7.0.15\r\n# Replication\r\nrole:master\r\nloading:0\r\n\
                          # Keyspace\r\ndb0:keys=12,expires=2,avg_ttl=5\r\ndb11:keys=1,expires=0,avg_ttl=0\r\n";

    #[test]
    fn a_master_is_good_and_its_keys_are_known() {
        let node = Node::parse(MASTER);
        assert_eq!((node.version(), node.server(), node.is_unfit()), ("7.0.15", "redis", None));
        let keyspace = [(0, Keyspace { keys: 12, expiring: 2 }), (11, Keyspace { keys: 1, expiring: 0 })];
        assert_eq!(node.keyspace(), BTreeMap::from(keyspace));
    }

    #[test]
    fn who_has_no_data_or_old_ones_is_not_good() {
        let unfit = |text: &str| Node::parse(text).is_unfit().is_some();
        assert!(unfit("role:master\nloading:1"));
        assert!(unfit("role:slave\nmaster_link_status:down\nloading:0"));
        assert!(unfit("role:slave\nmaster_link_status:up\nmaster_sync_in_progress:1"));
        assert!(!unfit("role:slave\nmaster_link_status:up\nmaster_sync_in_progress:0\nloading:0"));
        assert!(unfit("role:master\ncluster_enabled:1"));
    }

    #[test]
    fn valkey_is_told_by_its_own_version() {
        let node = Node::parse("redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.1.4");
        assert_eq!((node.version(), node.server()), ("8.1.4", "valkey"));
    }
}
