//! The last answers of masters to ROLE, which they get twice a second: how far they were, and which of their replicas no longer
//! acknowledge anything. It is kept in memory alone, and costs no call of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use causeway_databases::redis::{Position, Role};
use causeway_runtime::PerObject;

use super::facts::LastWord;

/// A replica has acknowledged nothing for so many further answers of its master, half a second apart, before it counts as
/// stalled. The master pings its replicas every second, and they acknowledge every second, so their offsets stand still for
/// a second at most. A master that pauses answers nothing meanwhile, so its pause does not count.
const UNCHANGED_ANSWERS: u32 = 4;

/// A number of keys that was asked for longer before the last answer than this says nothing about the end.
const FRESH: Duration = Duration::from_secs(2);

/// The answers of the nodes of all objects as masters, by the object's uid and the name of the pod: a pod may be gone, and come
/// back at another address.
#[derive(Clone, Default)]
pub struct Words(Arc<PerObject<BTreeMap<String, Said>>>);

/// The answers of one node as a master.
struct Said {
    /// Its offset by the answer before the last one.
    earlier: u64,
    latest: u64,
    at: Instant,
    /// How many keys it had, and when it said so.
    keys: Option<(u64, Instant)>,
    /// By address of the replica: what it acknowledged, and how many further answers said the same.
    replicas: BTreeMap<String, (u64, u32)>,
}

impl Words {
    /// Notes an answer. Returns whether another replica has stalled, or one that had stalled acknowledges again.
    pub fn hear(&self, uid: &str, pod: &str, position: &Position) -> bool {
        self.0.change(uid, BTreeMap::default, |nodes| match &position.role {
            Role::Master => {
                let before = nodes.remove(pod);
                let stalled: Vec<String> = before.iter().flat_map(Said::stalled).cloned().collect();
                let said = Said::after_answer(before, position);
                let changed = !said.stalled().eq(&stalled);
                nodes.insert(pod.to_owned(), said);
                changed
            }
            // Its data as a master are now its next master's to report.
            Role::Replica(link) if link.up => nodes.remove(pod).is_some_and(|said| said.stalled().next().is_some()),
            Role::Replica(_) | Role::Other => false,
        })
    }

    /// Notes how many keys a master has. Returns whether it was emptied, or has its first key.
    pub fn hear_keys(&self, uid: &str, pod: &str, keys: u64) -> bool {
        let hear = |nodes: &mut BTreeMap<String, Said>| {
            let said = nodes.get_mut(pod)?;
            let before = said.keys.replace((keys, Instant::now()));
            Some(before.is_some_and(|(before, _)| (before == 0) != (keys == 0)))
        };
        self.0.with(uid, hear).flatten().unwrap_or_default()
    }

    /// Returns the last answers of the nodes of an object as masters, by the name of the pod.
    pub fn last(&self, uid: &str) -> BTreeMap<String, LastWord> {
        let word = |said: &Said| LastWord { offset: said.earlier, ago: said.at.elapsed(), empty: said.is_empty() };
        let all =
            |nodes: &mut BTreeMap<String, Said>| nodes.iter().map(|(pod, said)| (pod.clone(), word(said))).collect();
        self.0.with(uid, all).unwrap_or_default()
    }

    /// Reports whether the replica at that address acknowledges nothing to the master in that pod.
    pub fn is_stalled(&self, uid: &str, master: &str, address: &str) -> bool {
        let stalled = |nodes: &mut BTreeMap<String, Said>| {
            nodes.get(master).is_some_and(|said| said.stalled().any(|stalled| stalled == address))
        };
        self.0.with(uid, stalled).unwrap_or_default()
    }

    /// Forgets the nodes of an object that is gone.
    pub fn forget(&self, uid: &str) {
        self.0.forget(uid);
    }
}

impl Said {
    fn after_answer(before: Option<Self>, position: &Position) -> Self {
        let mut known = before.as_ref().map(|said| said.replicas.clone()).unwrap_or_default();
        let replica = |(host, offset): (&String, &u64)| {
            let answers =
                known.remove(host).filter(|(before, _)| before == offset).map_or(0, |(_, answers)| answers + 1);
            (host.clone(), (*offset, answers))
        };
        let replicas = position.acknowledged.iter().map(replica).collect();
        let keys = before.as_ref().and_then(|said| said.keys);
        // A process that was started again counts from the beginning.
        let earlier = before.map_or(position.offset, |said| said.latest).min(position.offset);
        Self { earlier, latest: position.offset, at: Instant::now(), keys, replicas }
    }

    /// Reports whether it had no key when it was asked last, which was shortly before its last answer.
    fn is_empty(&self) -> bool {
        self.keys.is_some_and(|(keys, asked)| keys == 0 && self.at.saturating_duration_since(asked) < FRESH)
    }

    fn stalled(&self) -> impl Iterator<Item = &String> {
        self.replicas.iter().filter(|(_, (_, answers))| *answers >= UNCHANGED_ANSWERS).map(|(host, _)| host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_databases::redis::Link;

    const UID: &str = "6a1f";

    fn master(offset: u64, acknowledged: &[(&str, u64)]) -> Position {
        let acknowledged = acknowledged.iter().map(|(host, offset)| ((*host).to_owned(), *offset)).collect();
        Position { role: Role::Master, offset, acknowledged }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_replica_is_reported_once() {
        let words = Words::default();
        let hear = |offset, acknowledged: &[(&str, u64)]| words.hear(UID, "cache-0", &master(offset, acknowledged));
        let told: Vec<bool> = (0..7).map(|at| hear(20 + at, &[("10.0.0.8", 9), ("10.0.0.9", 20 + at)])).collect();
        assert_eq!(told, [false, false, false, false, true, false, false]);
        assert!(words.is_stalled(UID, "cache-0", "10.0.0.8") && !words.is_stalled(UID, "cache-0", "10.0.0.9"));
        assert!(hear(30, &[("10.0.0.8", 30), ("10.0.0.9", 30)]), "it acknowledges again");
        assert!(!words.is_stalled(UID, "cache-0", "10.0.0.8"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_master_had_is_known_until_it_follows_another() {
        let words = Words::default();
        for offset in [10, 20, 35] {
            words.hear(UID, "cache-0", &master(offset, &[]));
        }
        tokio::time::advance(Duration::from_secs(3)).await;
        let last = |words: &Words| words.last(UID).get("cache-0").copied();
        assert_eq!(last(&words), Some(LastWord { offset: 20, ago: Duration::from_secs(3), empty: false }));
        let replica = |up| Position { role: Role::Replica(Link { up, ..Link::default() }), ..Position::default() };
        words.hear(UID, "cache-0", &replica(false));
        assert!(last(&words).is_some(), "it was only started again");
        words.hear(UID, "cache-0", &master(5, &[]));
        assert_eq!(last(&words).map(|word| word.offset), Some(5), "another process");
        words.hear(UID, "cache-0", &replica(true));
        assert_eq!(last(&words), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_master_that_is_emptied_says_so_before_it_goes() {
        let words = Words::default();
        let hear = |keys| {
            words.hear(UID, "cache-0", &master(10, &[]));
            words.hear_keys(UID, "cache-0", keys)
        };
        assert_eq!([7, 5, 0, 0, 1, 0].map(hear), [false, false, true, false, true, true]);
        let empty = || words.last(UID)["cache-0"].empty;
        assert!(empty());
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(empty(), "it is gone, and has said nothing else");
        words.hear(UID, "cache-0", &master(20, &[]));
        assert!(!empty(), "it may have been written to since");
        assert!(!words.hear_keys(UID, "cache-9", 0), "no master");
    }
}
