//! Which changes must wait for which others: what is replaced stays until its replacement is there. Pure.

use crate::action::{Action, BalancerAction, ListenerAction, SecurityAction};

/// Reports whether `later` must not be carried out because `refused`, which comes before it in the same plan, was not.
pub fn depends(refused: &Action, later: &Action) -> bool {
    match (refused, later) {
        (Action::Security(refused), Action::Security(later)) => in_security_group(refused, later),
        // A balancer is not given a group that does not let in all its clients.
        (
            Action::Security(SecurityAction::Authorize { id, .. }),
            Action::Balancer(BalancerAction::SetSecurityGroups { groups, .. }),
        ) => groups.contains(id),
        // A new balancer must not serve without its web ACL.
        (
            Action::Balancer(BalancerAction::SetWebAcl { arn, acl: Some(_) }),
            Action::Listener(ListenerAction::Create { balancer, .. }),
        ) => arn == balancer,
        (Action::Listener(refused), Action::Listener(later)) => on_listener(refused, later),
        _ => false,
    }
}

fn in_security_group(refused: &SecurityAction, later: &SecurityAction) -> bool {
    match (refused, later) {
        (SecurityAction::Authorize { id, .. }, SecurityAction::Revoke { id: of, .. })
        // Rules that come after others have gone need the room of those.
        | (SecurityAction::Revoke { id, .. }, SecurityAction::Authorize { id: of, .. })
        | (SecurityAction::LetOut { id, .. }, SecurityAction::KeepIn { id: of, .. }) => id == of,
        _ => false,
    }
}

fn on_listener(refused: &ListenerAction, later: &ListenerAction) -> bool {
    use ListenerAction::{
        AddCertificates, AddTags, CreateRule, DeleteRule, Modify, ModifyRule, RemoveCertificates, SetPriorities,
    };
    match (refused, later) {
        // Requests for the new rule would get the default action, or the answer of whatever rule is left.
        (
            CreateRule { listener, .. } | ModifyRule { listener, .. },
            DeleteRule { listener: on, .. } | Modify { arn: on, .. },
        )
        // Each step has the numbers that the moves before it leave.
        | (
            SetPriorities { listener, .. },
            CreateRule { listener: on, .. }
            | ModifyRule { listener: on, .. }
            | SetPriorities { listener: on, .. }
            | DeleteRule { listener: on, .. }
            | Modify { arn: on, .. },
        )
        // The new default action may have to answer what a rule answered so far. Guests set none, and what they remove
        // does not wait for a mistake of others.
        | (Modify { arn: listener, .. }, DeleteRule { listener: on, of_guest: false, .. })
        | (AddCertificates { arn: listener, .. }, RemoveCertificates { arn: on, .. })
        // One that comes after another has gone needs the room of that one.
        | (RemoveCertificates { arn: listener, .. }, AddCertificates { arn: on, .. })
        // A tag says which client secret was set. It must not say so of one that was not.
        | (Modify { arn: listener, .. } | ModifyRule { arn: listener, .. }, AddTags { arn: on, .. }) => listener == on,
        // With its old answer a rule must not come before others.
        (ModifyRule { arn, .. }, SetPriorities { priorities, .. }) => priorities.contains_key(arn),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::region::fixtures::listener_on;
    use causeway_aws::elbv2::{Pairs, Protocol, RuleSettings};

    fn security(change: fn(String) -> SecurityAction, id: &str) -> Action {
        Action::Security(change(id.into()))
    }

    fn authorize(id: String) -> SecurityAction {
        SecurityAction::Authorize { id, permissions: BTreeSet::new() }
    }

    fn revoke(id: String) -> SecurityAction {
        SecurityAction::Revoke { id, permissions: BTreeSet::new() }
    }

    fn settings() -> RuleSettings {
        RuleSettings { conditions: BTreeSet::new(), transforms: Vec::new(), actions: Vec::new() }
    }

    fn delete(listener: &str, of_guest: bool) -> ListenerAction {
        let (balancer, arn, port) = ("b".into(), format!("rule of {listener}"), 80);
        ListenerAction::DeleteRule { balancer, listener: listener.into(), port, arn, priority: 1, of_guest }
    }

    /// The changes of a listener and its rules, in the order in which a plan has them.
    fn changes(listener: &str) -> [Action; 5] {
        let (balancer, on, port) = (|| "b".to_owned(), || listener.to_owned(), 80);
        let rule = || format!("rule of {listener}");
        let (tags, priorities) = (Pairs::new(), BTreeMap::from([(rule(), 1)]));
        [
            ListenerAction::CreateRule {
                balancer: balancer(),
                listener: on(),
                port,
                priority: 1,
                settings: settings(),
                tags,
            },
            ListenerAction::ModifyRule {
                balancer: balancer(),
                listener: on(),
                port,
                arn: rule(),
                settings: settings(),
            },
            ListenerAction::SetPriorities { balancer: balancer(), listener: on(), port, priorities },
            ListenerAction::Modify { balancer: balancer(), arn: on(), settings: listener_on(80, Protocol::Http) },
            delete(listener, false),
        ]
        .map(Action::Listener)
    }

    #[test]
    fn old_inbound_rules_stay_until_all_new_ones_are_in() {
        let balancer = |groups: &[&str]| {
            let groups = groups.iter().map(|id| (*id).to_owned()).collect();
            Action::Balancer(BalancerAction::SetSecurityGroups { arn: "b".into(), groups })
        };
        let refused = security(authorize, "own");
        assert!(depends(&refused, &security(revoke, "own")));
        assert!(depends(&refused, &balancer(&["edge", "own"])));
        assert!(!depends(&refused, &security(revoke, "other")));
        assert!(!depends(&refused, &balancer(&["edge"])));
        assert!(!depends(&refused, &security(authorize, "own")), "one bad network keeps out no good one");
        assert!(depends(&security(revoke, "own"), &security(authorize, "own")), "there is no room");
    }

    #[test]
    fn old_rules_stay_until_all_new_ones_are_in() {
        let [create, modify, moves, default, delete] = changes("l");
        for refused in [&create, &modify] {
            assert!(depends(refused, &default) && depends(refused, &delete), "{refused:?}");
            assert!(!depends(refused, &create) && !depends(refused, &modify), "{refused:?}");
        }
        assert!(depends(&modify, &moves) && !depends(&create, &moves));
        for later in changes("l") {
            assert!(depends(&moves, &later), "{later:?}");
        }
        assert!(depends(&default, &delete));
        let of_guest = Action::Listener(self::delete("l", true));
        assert!(!depends(&default, &of_guest) && depends(&create, &of_guest) && depends(&moves, &of_guest));
    }

    #[test]
    fn a_new_listener_waits_for_the_web_acl() {
        let set = |acl: Option<&str>| {
            Action::Balancer(BalancerAction::SetWebAcl { arn: "b".into(), acl: acl.map(str::to_owned) })
        };
        let create = |balancer: &str| {
            let settings = listener_on(80, Protocol::Http);
            Action::Listener(ListenerAction::Create { balancer: balancer.into(), settings, tags: Pairs::new() })
        };
        assert!(depends(&set(Some("acl")), &create("b")));
        assert!(!depends(&set(Some("acl")), &create("other")), "another balancer has another web ACL");
        assert!(!depends(&set(None), &create("b")), "nothing is protected by its removal");
        for later in changes("l") {
            assert!(!depends(&set(Some("acl")), &later), "what serves goes on: {later:?}");
        }
    }

    #[test]
    fn no_tag_claims_a_refused_client_secret() {
        let tag = |arn: &str| {
            let (balancer, arn, port, tags) = ("b".into(), arn.into(), 80, Pairs::new());
            Action::Listener(ListenerAction::AddTags { balancer, arn, port, tags })
        };
        let [_, modify, _, default, _] = changes("l");
        assert!(depends(&modify, &tag("rule of l")) && !depends(&modify, &tag("l")));
        assert!(depends(&default, &tag("l")) && !depends(&default, &tag("rule of l")));
    }

    #[test]
    fn listeners_do_not_wait_for_one_another() {
        for refused in changes("l") {
            for later in changes("other") {
                assert!(!depends(&refused, &later), "{refused:?} {later:?}");
            }
        }
    }

    #[test]
    fn certificates_stay_until_new_ones_are_in() {
        let (balancer, port) = (|| "b".to_owned(), 443);
        let certificates = || BTreeSet::from(["c".to_owned()]);
        let (arn, other) = (|| "l".to_owned(), || "other".to_owned());
        let add =
            ListenerAction::AddCertificates { balancer: balancer(), arn: arn(), port, certificates: certificates() };
        let remove = |arn| {
            let (balancer, certificates) = (balancer(), certificates());
            Action::Listener(ListenerAction::RemoveCertificates { balancer, arn, port, certificates })
        };
        let add = Action::Listener(add);
        assert!(depends(&add, &remove(arn())) && !depends(&add, &remove(other())));
    }
}
