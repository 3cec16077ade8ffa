//! The annotation of a pod that records which settings were applied to its process. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use causeway_runtime::fingerprint;

use super::facts::Pod;

/// The settings that were applied to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedConfig {
    /// Hash of all of them.
    pub hash: String,
    /// The process: a new one starts with the settings in its configuration file.
    pub run_id: String,
    /// All directives of the user that were ever applied to this process.
    pub names: BTreeSet<String>,
    /// Directives that this process refuses to change, and the fingerprint of the value that it was started with; empty
    /// where that value is not known.
    pub fixed: BTreeMap<String, String>,
}

impl fmt::Display for AppliedConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.hash, self.run_id)?;
        self.names.iter().try_for_each(|name| write!(formatter, "/{name}"))?;
        self.fixed.iter().try_for_each(|(name, value)| write!(formatter, "/{name}={value}"))
    }
}

impl AppliedConfig {
    /// Reads the annotation of a pod.
    pub fn read(pod: &Pod) -> Option<Self> {
        let mut parts = pod.own.settings.as_deref()?.split('/');
        let (hash, run_id) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let (mut names, mut fixed) = (BTreeSet::new(), BTreeMap::new());
        for part in parts {
            match part.split_once('=') {
                Some((name, value)) => drop(fixed.insert(name.to_owned(), value.to_owned())),
                None => drop(names.insert(part.to_owned())),
            }
        }
        Some(Self { hash, run_id, names, fixed })
    }

    /// Notes the directives that the process has just refused to change. A process `is_new` until its settings were
    /// applied once: it was started with the values that they have now.
    pub fn refusing(mut self, refused: &[(String, String)], is_new: bool) -> Self {
        for (name, value) in refused {
            let begun = if is_new { value_print(value) } else { String::new() };
            self.fixed.entry(name.clone()).or_insert(begun);
        }
        self
    }

    /// Reports whether a directive that the process refuses to change has another value now: only a new process gets
    /// that.
    pub fn needs_another_process(&self, settings: &BTreeMap<String, String>) -> bool {
        self.fixed
            .iter()
            .any(|(name, begun)| settings.get(name).map(|value| value_print(value)).as_ref() != Some(begun))
    }
}

fn value_print(value: &str) -> String {
    fingerprint(&[value.as_bytes()], 8)
}

#[cfg(test)]
mod tests {
    use super::super::facts::Node;
    use super::*;

    #[test]
    fn what_is_noted_is_read_again() {
        for names in [vec![], vec!["maxmemory"], vec!["maxmemory", "save"]] {
            let names = names.into_iter().map(str::to_owned).collect();
            let note = AppliedConfig { hash: "h".into(), run_id: "r".into(), names, fixed: BTreeMap::new() };
            assert_eq!(AppliedConfig::read(&pod_with(&note)), Some(note.clone()));
            let note = note.refusing(&[("rdbchecksum".into(), "a/b=c".into())], true);
            assert_eq!(AppliedConfig::read(&pod_with(&note)), Some(note));
        }
        assert_eq!(AppliedConfig::read(&Pod::default()), None);
    }

    fn pod_with(note: &AppliedConfig) -> Pod {
        Pod { own: Node { settings: Some(note.to_string()), ..Node::default() }, ..Pod::default() }
    }

    #[test]
    fn a_process_that_refuses_a_value_is_replaced() {
        let none =
            || AppliedConfig { hash: "h".into(), run_id: "r".into(), names: BTreeSet::new(), fixed: BTreeMap::new() };
        let pair = |value: &str| ("new-directive".to_owned(), value.to_owned());
        let settings = |value: &str| BTreeMap::from([pair(value)]);
        let begun = none().refusing(&[pair("1kb")], true);
        assert!(!begun.needs_another_process(&settings("1kb")), "it has that value");
        assert!(begun.needs_another_process(&settings("2kb")) && begun.needs_another_process(&BTreeMap::new()));
        let again = begun.refusing(&[pair("1kb")], false);
        assert!(!again.needs_another_process(&settings("1kb")), "another directive was changed");
        assert!(none().refusing(&[pair("1kb")], false).needs_another_process(&settings("1kb")), "it came later");
        assert!(!none().needs_another_process(&settings("1kb")));
    }
}
