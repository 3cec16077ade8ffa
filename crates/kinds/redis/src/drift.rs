//! Which directives of a running process differ from what the operator set: a user changed them by hand.
//!
//! Redis returns values in a form of its own: `values.rs` knows the forms of 7.0. What it returned right after a value was
//! set counts as equal to that value as well, for directives that are not known there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use causeway_runtime::PerObject;

use super::values::is_same;

/// How often a process is asked for its settings while nothing is wrong.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Values of directives by their names.
pub type Values = BTreeMap<String, String>;

/// The answers of processes, by object and pod.
#[derive(Default)]
pub struct Drifts(PerObject<HashMap<String, Look>>);

/// The answers of one process.
struct Look {
    /// The process: a new one starts with the settings in its configuration file.
    run_id: String,
    asked: Instant,
    live: Values,
    /// Its answers right after its settings were applied.
    accepted: Values,
}

impl Drifts {
    /// Reports whether a process is to be asked for its settings; `pressing` asks at once.
    pub fn is_due(&self, object: &str, pod: &str, run_id: &str, pressing: bool) -> bool {
        let is_fresh = |look: &Look| look.run_id == run_id && !pressing && look.asked.elapsed() < CHECK_INTERVAL;
        !self.0.with(object, |looks| looks.get(pod).is_some_and(is_fresh)).unwrap_or_default()
    }

    /// Notes what a process answered. `just_applied` means that its settings were applied right before.
    pub fn note(&self, object: &str, pod: &str, run_id: &str, live: Values, just_applied: bool) {
        self.0.change(object, HashMap::default, |looks| {
            let earlier = looks.remove(pod).filter(|look| look.run_id == run_id);
            let accepted =
                if just_applied { live.clone() } else { earlier.map(|look| look.accepted).unwrap_or_default() };
            looks.insert(pod.to_owned(), Look { run_id: run_id.to_owned(), asked: Instant::now(), live, accepted });
        });
    }

    /// The directives of a process that are not as wanted.
    pub fn find(&self, object: &str, pod: &str, run_id: &str, wanted: &[(String, String)]) -> BTreeSet<String> {
        let differing = |looks: &mut HashMap<String, Look>| {
            let look = looks.get(pod).filter(|look| look.run_id == run_id)?;
            Some(differing(wanted, &look.live, &look.accepted))
        };
        self.0.with(object, differing).flatten().unwrap_or_default()
    }

    /// Returns a process's value of one directive.
    pub fn value(&self, object: &str, pod: &str, run_id: &str, name: &str) -> Option<String> {
        self.0.with(object, |looks| looks.get(pod).filter(|look| look.run_id == run_id)?.live.get(name).cloned())?
    }

    /// Forgets pods of an object that are not there any more.
    pub fn keep(&self, object: &str, is_there: impl Fn(&str) -> bool) {
        self.0.with(object, |looks| looks.retain(|pod, _| is_there(pod)));
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, object: &str) {
        self.0.forget(object);
    }
}

/// The directives whose values are not as wanted. Directives that this version of Redis does not know are left out.
fn differing(wanted: &[(String, String)], live: &Values, accepted: &Values) -> BTreeSet<String> {
    let differs = |(name, value): &&(String, String)| {
        let Some(answer) = live.get(name) else { return false };
        !is_same(name, value, answer) && accepted.get(name) != Some(answer)
    };
    wanted.iter().filter(differs).map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn drift(wanted: &[(&str, &str)], live: &[(&str, &str)], accepted: &[(&str, &str)]) -> Vec<String> {
        let wanted: Vec<(String, String)> = values(wanted).into_iter().collect();
        differing(&wanted, &values(live), &values(accepted)).into_iter().collect()
    }

    #[test]
    fn redis_has_forms_of_its_own() {
        let wanted = [
            ("maxmemory", "1gb"),
            ("repl-backlog-size", "32mb"),
            ("appendfsync", "everysec"),
            ("save", ""),
            ("notify-keyspace-events", "Ex"),
            ("maxmemory-policy", "AllKeys-LRU"),
        ];
        let live = [
            ("maxmemory", "1073741824"),
            ("repl-backlog-size", "33554432"),
            ("appendfsync", "everysec"),
            ("save", ""),
            ("notify-keyspace-events", "xE"),
            ("maxmemory-policy", "allkeys-lru"),
        ];
        assert_eq!(drift(&wanted, &live, &[]), Vec::<String>::new());
    }

    #[test]
    fn a_changed_directive_is_found() {
        let wanted = [("maxmemory", "0"), ("min-replicas-to-write", "1"), ("save", "")];
        let live = [("maxmemory", "1"), ("min-replicas-to-write", "5"), ("save", "")];
        assert_eq!(drift(&wanted, &live, &[]), ["maxmemory", "min-replicas-to-write"]);
    }

    #[test]
    fn an_answer_right_after_settings_were_applied_is_no_drift() {
        let wanted = [("new-directive", "two words")];
        let live = [("new-directive", "WORDS=2")];
        assert_eq!(drift(&wanted, &live, &[]).len(), 1);
        assert_eq!(drift(&wanted, &live, &live).len(), 0);
        assert_eq!(drift(&wanted, &[("new-directive", "WORDS=3")], &live).len(), 1);
    }

    #[test]
    fn a_new_process_is_asked_at_once() {
        let drifts = Drifts::default();
        let wanted = [("maxmemory".to_owned(), "0".to_owned())];
        assert!(drifts.is_due("object", "pod", "one", false));
        drifts.note("object", "pod", "one", values(&[("maxmemory", "7")]), false);
        assert!(!drifts.is_due("object", "pod", "one", false) && drifts.is_due("object", "pod", "one", true));
        assert_eq!(drifts.find("object", "pod", "one", &wanted).len(), 1);
        assert_eq!(drifts.find("object", "pod", "two", &wanted).len(), 0);
        assert!(drifts.is_due("object", "pod", "two", false));
        drifts.note("object", "pod", "one", values(&[("maxmemory", "0")]), true);
        assert_eq!(drifts.find("object", "pod", "one", &wanted).len(), 0);
    }
}
