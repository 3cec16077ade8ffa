//! What is noted on a pod of the settings that its process was told. Pure.

use std::collections::BTreeSet;
use std::fmt;

use super::facts::Pod;

/// The settings that a process was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedConfig {
    /// Hash of all of them.
    pub hash: String,
    /// The process: another one begins with what its file says.
    pub run_id: String,
    /// The directives of the user that it was told ever.
    pub names: BTreeSet<String>,
}

impl fmt::Display for AppliedConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.hash, self.run_id)?;
        self.names.iter().try_for_each(|name| write!(formatter, "/{name}"))
    }
}

impl AppliedConfig {
    /// What is noted on a pod.
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
