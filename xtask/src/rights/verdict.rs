//! Compares the granted rights with those that were used.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::audit::{Log, Request};
use super::roles::{self, Grant};
use crate::demo::NAMESPACE;

/// Rights that are needed only where no test runs, as `verb resource`, and why.
const UNSEEN: &[(&str, &str)] = &[
    (
        "create endpointslices/restricted.discovery.k8s.io",
        "OpenShift alone asks for it, where addresses are those of pods",
    ),
    (
        "update databaserestores/finalizers.example.com",
        "only clusters with the admission plugin OwnerReferencesPermissionEnforcement ask for it",
    ),
];

/// The objects of the operator's own namespace, beside leases, by the beginnings of their names. For an installed
/// operator, all named objects of its namespace count.
const OWN: [&str; 2] = ["causeway-backups-", "causeway-signing-key"];
const LEASES: &str = "leases.coordination.k8s.io";

/// The granted rights, and those that were used.
pub struct Verdict {
    grants: BTreeSet<Grant>,
    used: BTreeSet<Grant>,
    /// Requests without a right: for each verb and resource, one object and the number of requests.
    without: BTreeMap<String, (String, usize)>,
    requests: usize,
}

impl Verdict {
    /// Starts with no requests.
    pub fn new() -> Result<Self> {
        let grants = roles::of_operator()?.iter().flat_map(roles::Role::grants).collect();
        Ok(Self { grants, used: BTreeSet::new(), without: BTreeMap::new(), requests: 0 })
    }

    /// Adds the requests of a log. If its operators are `settled`, every request without a right counts. If an operator
    /// was installed and removed, its rights may have been removed before its end, so such requests are ignored.
    pub fn take(&mut self, log: &Log, settled: bool) -> Result<()> {
        log.read(|request| self.see(&request, settled))
    }

    fn see(&mut self, request: &Request, settled: bool) {
        self.requests += 1;
        let makes = (request.verb == "patch" && request.created).then_some("create");
        for verb in [request.verb.as_str()].into_iter().chain(makes) {
            let own = is_own(request);
            let granting: Vec<&Grant> = self
                .grants
                .iter()
                .filter(|grant| grant.verb == verb && grant.resource == request.resource && grant.own == own)
                .filter(|grant| grant.object.as_ref().is_none_or(|name| *name == request.name))
                .collect();
            if request.refused || granting.is_empty() {
                if settled {
                    let about = format!("{}/{}", request.namespace, request.name);
                    self.without.entry(format!("{verb} {}", request.resource)).or_insert((about, 0)).1 += 1;
                }
                continue;
            }
            for grant in granting {
                if !self.used.contains(grant) {
                    self.used.insert(grant.clone());
                }
            }
        }
    }

    /// The requests without a right, in lines for the report.
    pub fn missing(&self) -> Vec<String> {
        let line = |(what, (about, times)): (&String, &(String, usize))| {
            format!("an operator asked for what deploy/base does not grant, {times} times: {what}, such as {about}")
        };
        self.without.iter().map(line).collect()
    }

    /// Granted rights that were not used, and entries of [`UNSEEN`] that are no longer needed, in lines for the report.
    pub fn unused(&self) -> Vec<String> {
        let excused = |grant: &Grant| UNSEEN.iter().any(|(what, _)| *what == in_words(grant));
        let unused = self.grants.difference(&self.used).filter(|grant| !excused(grant));
        let mut lines: Vec<String> =
            unused.map(|grant| format!("deploy/base grants what no operator asked for: {grant}")).collect();
        let still = |what: &str| self.grants.difference(&self.used).any(|grant| in_words(grant) == what);
        let stale = UNSEEN.iter().filter(|(what, _)| !still(what));
        lines.extend(stale.map(|(what, _)| format!("{what} needs no excuse: it was used, or is granted no more")));
        lines
    }

    /// The totals, in a line for the report.
    pub fn figure(&self) -> String {
        format!(
            "rights of the operator: {} of {} were used, by {} requests",
            self.used.len(),
            self.grants.len(),
            self.requests
        )
    }
}

fn is_own(request: &Request) -> bool {
    request.resource == LEASES
        || OWN.iter().any(|name| request.name.starts_with(name))
        || (request.namespace == NAMESPACE && !request.name.is_empty())
}

fn in_words(grant: &Grant) -> String {
    format!("{} {}", grant.verb, grant.resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: &str, resource: &str, name: &str) -> Request {
        Request {
            verb: verb.into(),
            resource: resource.into(),
            namespace: "shop".into(),
            name: name.into(),
            refused: false,
            created: false,
        }
    }

    fn verdict() -> Verdict {
        Verdict::new().unwrap()
    }

    #[test]
    fn who_makes_something_by_a_patch_uses_two_rights() {
        let mut verdict = verdict();
        verdict.see(&Request { created: true, ..request("patch", "statefulsets.apps", "cache") }, true);
        let used: Vec<String> = verdict.used.iter().map(in_words).collect();
        assert_eq!(used, ["create statefulsets.apps", "patch statefulsets.apps"]);
        assert!(verdict.missing().is_empty());
        assert!(!verdict.unused().iter().any(|line| line.contains(": patch statefulsets.apps")));
        assert!(verdict.unused().iter().any(|line| line.contains(": delete statefulsets.apps")));
    }

    #[test]
    fn rights_of_the_own_namespace_end_there() {
        let mut verdict = verdict();
        verdict.see(&request("delete", "configmaps", "causeway-backups-0123"), true);
        verdict.see(&request("get", "secrets", "causeway-signing-key"), true);
        assert!(verdict.missing().is_empty(), "{:?}", verdict.missing());
        verdict.see(&Request { namespace: NAMESPACE.into(), ..request("get", "pods", "causeway-5d9c-x2x4v") }, true);
        assert_eq!(verdict.used.len(), 3);
        assert!(verdict.used.iter().all(|grant| grant.own));
        verdict.see(&request("delete", "configmaps", "cache"), true);
        assert_eq!(verdict.missing().len(), 1);
        assert!(verdict.missing()[0].ends_with("1 times: delete configmaps, such as shop/cache"));
    }

    #[test]
    fn refused_requests_use_no_right_and_are_reported_once_settled() {
        let mut verdict = verdict();
        let refused = Request { refused: true, ..request("list", "pods", "") };
        verdict.see(&refused, false);
        assert!(verdict.missing().is_empty() && verdict.used.is_empty());
        verdict.see(&refused, true);
        assert_eq!(verdict.missing().len(), 1);
    }

    #[test]
    fn an_excuse_that_is_not_needed_is_reported() {
        let mut verdict = verdict();
        let (what, _) = UNSEEN[0];
        assert!(!verdict.unused().iter().any(|line| line.contains(what)));
        let (verb, resource) = what.split_once(' ').unwrap();
        verdict.see(&request(verb, resource, ""), true);
        assert!(verdict.unused().iter().any(|line| line.starts_with(what)));
    }
}
