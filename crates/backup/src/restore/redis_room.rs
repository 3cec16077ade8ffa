//! Finds out whether a Redis has room for a backup, and whether it evicted keys while it was written to. Pure.
//! <https://redis.io/docs/latest/develop/reference/eviction/>

use crate::Error;
use crate::plan::Source;
use crate::source::Node;

/// A recommended setting is a multiple of this.
const STEP: u64 = 1 << 20;
/// The folder of a server that is named by its address. A Redis of Causeway has a folder with its name.
const BY_ADDRESS: &str = "redisserver";

/// The memory of a node, as the node reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes that it may take; 0 means no bound.
    limit: u64,
    /// Its policy at that bound, such as `allkeys-lru`.
    policy: String,
    /// Bytes that count against the bound.
    used: u64,
    /// How many keys it evicted since its process began.
    evicted: u64,
    /// The process that reported it.
    process: String,
}

impl Room {
    /// Reads it from what a node reports.
    pub fn read(node: &Node) -> Self {
        let number = |name| node.number(name).unwrap_or_default();
        Self {
            limit: number("maxmemory"),
            policy: node.field("maxmemory_policy").to_owned(),
            used: number("used_memory").saturating_sub(number("mem_not_counted_for_evict")),
            evicted: number("evicted_keys"),
            process: node.field("run_id").to_owned(),
        }
    }

    /// Reports whether it has a bound.
    pub fn is_bounded(&self) -> bool {
        self.limit > 0
    }

    /// Reports whether both were reported by the same process.
    pub fn is_same_process(&self, other: &Self) -> bool {
        self.process == other.process
    }

    /// How many keys were evicted between `earlier` and this. Another process began to count from 0.
    pub fn evicted_since(&self, earlier: &Self) -> u64 {
        if self.is_same_process(earlier) { self.evicted.saturating_sub(earlier.evicted) } else { self.evicted }
    }

    /// The error if it has no room for that many more bytes, with the setting that is enough.
    pub fn lacks(&self, needed: u64, target: &Source) -> Option<Error> {
        let wanted = self.used.saturating_add(needed);
        (self.is_bounded() && wanted > self.limit).then(|| {
            Error::MemoryTooSmall(format!(
                "the backup needs about {needed} bytes beside the {} that {} uses, and its maxmemory is {} ({}): {}, then \
                 restore again",
                self.used,
                target.title,
                self.limit,
                self.policy,
                advice(wanted, target)
            ))
        })
    }

    /// The error of a restore that ran into the bound.
    pub fn full(&self, needed: u64, target: &Source) -> Error {
        let wanted = self.used.saturating_add(needed).max(self.limit);
        Error::MemoryTooSmall(format!(
            "{} refuses to write: its maxmemory is {}, and the restore has not ended: {}, then restore again with force: true",
            target.title,
            self.limit,
            advice(wanted, target)
        ))
    }

    /// The error of a restore that has lost keys to evictions: `kept` of `all` keys are there.
    pub fn evicting(&self, evicted: u64, (kept, all): (u64, u64), target: &Source) -> Error {
        let needed = u128::from(self.used.max(self.limit)) * u128::from(all) / u128::from(kept.max(1));
        Error::KeysEvicted(format!(
            "{} evicted {evicted} keys meanwhile (maxmemory {}, {}), and lacks {} of the backup's {all}: {}, then restore again \
             with force: true",
            target.title,
            self.limit,
            self.policy,
            all.saturating_sub(kept),
            advice(u64::try_from(needed).unwrap_or(u64::MAX), target)
        ))
    }
}

/// The bytes that a node's keys take; none if an old version does not report the memory of an empty one.
pub fn bytes_of_keys(node: &Node) -> Option<u64> {
    Some(node.number("used_memory")?.saturating_sub(node.number("used_memory_startup")?))
}

/// The part of the bytes that is for `new` of `all` keys.
pub fn share(bytes: u64, new: u64, all: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(new) / u128::from(all.max(1))).unwrap_or(u64::MAX)
}

/// The setting with room for that many bytes and a fifth more: another version, or other limits of its compact encodings, may
/// need more than the server that was backed up.
fn advice(bytes: u64, target: &Source) -> String {
    let setting = (bytes.saturating_add(bytes / 5) / STEP + 1).saturating_mul(STEP);
    if target.folder == BY_ADDRESS {
        format!("CONFIG SET maxmemory {setting}")
    } else {
        let limit = (setting / 3).saturating_mul(4) / STEP + 1;
        format!("set spec.config.maxmemory to {setting} and resources.limits.memory to {limit}Mi or more")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Server;

    fn target(folder: &str) -> Source {
        let server = Server::Redis { addresses: vec![], login: None, tls: None };
        Source { folder: folder.into(), title: "Redis cache".into(), server }
    }

    fn room(used: u64, evicted: u64, process: &str) -> Room {
        let text = format!(
            "maxmemory:10485760\nmaxmemory_policy:allkeys-lru\nused_memory:{used}\nmem_not_counted_for_evict:48\n\
             evicted_keys:{evicted}\nrun_id:{process}\n"
        );
        Room::read(&Node::parse(&text))
    }

    #[test]
    fn the_error_names_a_sufficient_maxmemory() {
        let room = room(1_000_048, 0, "a");
        assert!(room.lacks(9_000_000, &target(BY_ADDRESS)).is_none());
        let error = room.lacks(20_000_000, &target(BY_ADDRESS)).expect("too little");
        assert_eq!((error.reason(), error.is_final(), error.is_refusal()), ("MemoryTooSmall", true, true));
        assert_eq!(
            error.to_string(),
            "the backup needs about 20000000 bytes beside the 1000000 that Redis cache uses, and its maxmemory is 10485760 \
             (allkeys-lru): CONFIG SET maxmemory 26214400, then restore again"
        );
        let enough = Room { limit: 26_214_400, ..room.clone() };
        assert!(enough.lacks(20_000_000, &target(BY_ADDRESS)).is_none(), "the advice is good");
        let ours = room.lacks(20_000_000, &target("redis-cache")).expect("too little").describe();
        assert!(ours.contains("spec.config.maxmemory to 26214400 and resources.limits.memory to 34Mi"), "{ours}");
        assert!(!ours.ends_with('…'), "{ours}");
    }

    #[test]
    fn a_target_without_a_bound_has_room() {
        assert!(Room::default().lacks(u64::MAX, &target(BY_ADDRESS)).is_none());
    }

    #[test]
    fn keys_that_were_evicted_meanwhile_are_counted() {
        assert_eq!(room(0, 7, "a").evicted_since(&room(0, 5, "a")), 2);
        assert_eq!(room(0, 3, "b").evicted_since(&room(0, 5, "a")), 3, "after a failover");
        let error = room(10_485_760, 500, "a").evicting(500, (500, 1000), &target(BY_ADDRESS));
        assert_eq!((error.reason(), error.is_final()), ("KeysEvicted", true));
        let text = error.describe();
        assert!(text.contains("evicted 500 keys") && text.contains("lacks 500 of the backup's 1000"), "{text}");
        assert!(text.contains("CONFIG SET maxmemory 26214400") && text.ends_with("with force: true"), "{text}");
    }

    #[test]
    fn keys_that_the_target_has_already_need_no_further_room() {
        assert_eq!(share(1000, 25, 100), 250);
        assert_eq!(share(u64::MAX, 1, 1), u64::MAX);
        assert_eq!(share(1000, 0, 0), 0);
    }
}
