//! The annotation of a pod that records which settings were applied to its process. Pure.

use std::collections::BTreeSet;
use std::fmt;

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
}

impl fmt::Display for AppliedConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.hash, self.run_id)?;
        self.names.iter().try_for_each(|name| write!(formatter, "/{name}"))
    }
}

impl AppliedConfig {
    /// What the annotation of a pod records.
    pub fn of(pod: &Pod) -> Option<Self> {
        let mut parts = pod.own.settings.as_deref()?.split('/').map(str::to_owned);
        Some(Self { hash: parts.next()?, run_id: parts.next()?, names: parts.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Node;
    use super::*;

    #[test]
    fn what_is_noted_is_read_again() {
        for names in [vec![], vec!["maxmemory"], vec!["maxmemory", "save"]] {
            let names = names.into_iter().map(str::to_owned).collect();
            let note = AppliedConfig { hash: "h".into(), run_id: "r".into(), names };
            let own = Node { settings: Some(note.to_string()), ..Node::default() };
            let pod = Pod { own, ..Pod::default() };
            assert_eq!(AppliedConfig::of(&pod), Some(note));
        }
        assert_eq!(AppliedConfig::of(&Pod::default()), None);
    }
}
