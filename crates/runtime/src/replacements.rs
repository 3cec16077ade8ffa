//! Counts the recent replacements of each child: no kind may replace the same one again and again.
//!
//! A replacement that does not end has a cause outside, such as a webhook that changes what is created. Only a pause
//! and a message help then.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::PerObject;

/// The most replacements of a child within [`WINDOW`].
pub const MOST: usize = 3;
/// The time within which replacements count.
pub const WINDOW: Duration = Duration::from_mins(1);

/// A child that an action replaces, and the field in which it differs from what is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement<'a> {
    /// The kind of the child.
    pub kind: &'static str,
    /// The name of the child.
    pub name: &'a str,
    /// The difference from what is wanted.
    pub why: &'a str,
}

/// The times at which children of one version of an object were replaced, by the child's kind and name.
#[derive(Debug, Default)]
struct Recent {
    version: u64,
    children: BTreeMap<(&'static str, String), Vec<Instant>>,
}

/// The times at which children were replaced, by object.
#[derive(Debug, Default)]
pub struct Replacements(PerObject<Recent>);

impl Replacements {
    /// Returns true if a child may be replaced now. Another version of the object is a new reason for it.
    pub fn allow(&self, uid: &str, version: u64, replacement: &Replacement<'_>) -> bool {
        let count = self.0.with(uid, |recent| {
            if recent.version != version {
                recent.children.clear();
            }
            recent.children.retain(|_, times| {
                times.retain(|at| at.elapsed() < WINDOW);
                !times.is_empty()
            });
            recent.children.get(&(replacement.kind, replacement.name.to_owned())).map_or(0, Vec::len)
        });
        count.unwrap_or_default() < MOST
    }

    /// Records that a child was replaced.
    pub fn note(&self, uid: &str, version: u64, replacement: &Replacement<'_>) {
        let child = (replacement.kind, replacement.name.to_owned());
        self.0.change(uid, Recent::default, |recent| {
            recent.version = version;
            recent.children.entry(child).or_default().push(Instant::now());
        });
    }

    pub fn forget(&self, uid: &str) {
        self.0.forget(uid);
    }
}

/// The message about a child that is not replaced again now.
pub fn describe(replacement: &Replacement<'_>) -> String {
    let Replacement { kind, name, why } = replacement;
    format!(
        "{kind} {name} was replaced {MOST} times within a minute, and is not as it should be: {why}. Something changes it when \
         it is created, or afterwards: look at kubectl get mutatingwebhookconfigurations, and at the managers that kubectl get \
         {} {name} -o yaml --show-managed-fields names. Causeway pauses before it replaces it again",
        kind.to_ascii_lowercase()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_child_is_replaced_a_few_times_a_minute() {
        let all = Replacements::default();
        let pod = |name| Replacement { kind: "Pod", name, why: "its image differs" };
        for _ in 0..MOST {
            assert!(all.allow("uid", 1, &pod("a")));
            all.note("uid", 1, &pod("a"));
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        assert!(!all.allow("uid", 1, &pod("a")));
        assert!(all.allow("uid", 1, &pod("b")) && all.allow("other", 1, &pod("a")), "each child has its own count");
        tokio::time::sleep(WINDOW).await;
        assert!(all.allow("uid", 1, &pod("a")));
        (0..MOST).for_each(|_| all.note("uid", 1, &pod("a")));
        assert!(!all.allow("uid", 1, &pod("a")) && all.allow("uid", 2, &pod("a")), "the spec changed");
        let message = describe(&pod("a"));
        assert!(message.contains("Pod a") && message.contains("its image differs"), "{message}");
    }
}
