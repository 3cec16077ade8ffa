//! Children that the apiserver refuses, such as by a quota or a webhook: everything else goes on.

use causeway_databases::Claim;
use causeway_databases::redis::Writes;
use causeway_databases::refusals::{self, ChildKey};

use super::super::facts::Pod;
use super::View;

/// Reports whether the apiserver refused that child of this spec moments ago.
pub fn is_set_aside(view: &View<'_>, kind: &str, name: &str) -> bool {
    view.observed.refused.contains_key(&(kind.to_owned(), name.to_owned()))
}

/// Reports whether the apiserver refused to let that volume grow moments ago.
pub fn is_rigid(view: &View<'_>, claim: &Claim) -> bool {
    view.observed.refused.contains_key(&refusals::claim(&claim.name))
}

/// Explains why the apiserver rejects the pods: none is replaced, for its successor would be like it. And no set begins without
/// any of its children, such as its network policy.
pub fn complaint(view: &View<'_>) -> Option<(&'static str, String)> {
    let begins = view.before.master.is_none();
    let is_needed = |(kind, _): &ChildKey| kind == "StatefulSet" || (begins && kind != "PersistentVolumeClaim");
    let (_, refusal) = view.observed.refused.iter().find(|(child, _)| is_needed(child))?;
    Some((refusal.reason, refusal.message.clone()))
}

/// Reports other refusals. A volume that cannot grow is reported if its node is out of space, or if nothing else is left to do;
/// another child while a master takes writes, for that matters more.
pub fn report(view: &View<'_>, rests: bool) -> Option<(&'static str, String)> {
    let has_trouble = |pod: &Pod| matches!(pod.own.writes, Some(Writes::Refused(_) | Writes::Waiting));
    let serves = view.serving_master().is_some_and(|(_, pod, _)| !has_trouble(pod));
    let is_due = |child: &ChildKey| {
        let mut claims = view.observed.set.claims.iter();
        let claim = claims.find(|(_, claim)| refusals::claim(&claim.name) == *child);
        claim.map_or(serves, |(ordinal, _)| rests || view.is_full(*ordinal))
    };
    let (_, refusal) = view.observed.refused.iter().find(|(child, _)| is_due(child))?;
    Some((refusal.reason, refusal.message.clone()))
}
