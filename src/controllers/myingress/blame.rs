//! Finds the member of a group that an action is made for. If AWS refuses the action, only that member reports the
//! error. Pure.

use super::action::{Action, BalancerAction, GroupAction, ListenerAction, SecurityAction};
use super::assets::Assets;
use super::members::{Members, key};
use super::ownership::{ObjectKey, member_of};
use crate::api::MyIngress;
use crate::api::myingress::ListenerSpec;
use crate::external::ec2::Source;
use crate::external::elbv2::Pairs;

/// The member whose part the action makes. `api_message` is AWS's answer: it often names the value that it refuses.
pub fn blamed(action: &Action, members: &Members, assets: &Assets, api_message: &str) -> Option<ObjectKey> {
    let mut active = members.active();
    if !members.grouped {
        return active.first().map(|object| key(object));
    }
    // Shared settings come from members of the group's own namespace, never from guests.
    active.retain(|object| !members.is_guest(&key(object)));
    tagged(action, assets).or_else(|| contributor(action, &active, api_message)).or_else(|| anchor(&active))
}

/// The part of a failed action that AWS refused. Certificates are added and removed one after the other, and the assets
/// show those that went well.
pub fn refused_part(action: &Action, assets: &Assets) -> Action {
    let present = |balancer: &str, arn: &str| {
        let listeners = assets.balancers.get(balancer).and_then(|member| member.listeners.as_ref());
        listeners.and_then(|listeners| listeners.get(arn)).map(|listener| &listener.certificates)
    };
    let mut action = action.clone();
    match &mut action {
        Action::Listener(ListenerAction::AddCertificates { balancer, arn, certificates, .. }) => {
            let refused = present(balancer, arn).and_then(|present| certificates.difference(present).next());
            if let Some(refused) = refused.cloned() {
                *certificates = [refused].into();
            }
        }
        Action::Listener(ListenerAction::RemoveCertificates { balancer, arn, certificates, .. }) => {
            if let Some(present) = present(balancer, arn) {
                certificates.retain(|certificate| present.contains(certificate));
            }
        }
        _ => {}
    }
    action
}

/// The member that the tags of a rule or a target group name.
fn tagged(action: &Action, assets: &Assets) -> Option<ObjectKey> {
    let group = |arn: &str| assets.groups.get(arn).map(|member| &member.tags);
    let rule = |arn: &str| {
        let listeners = assets.balancers.values().flat_map(|member| member.listeners.iter().flat_map(|it| it.values()));
        listeners.into_iter().find_map(|listener| listener.rules.get(arn)).map(|member| &member.tags)
    };
    let tags: Option<&Pairs> = match action {
        Action::Group(GroupAction::Create(new)) => Some(&new.tags),
        Action::Group(_) => action.group().and_then(group),
        Action::Listener(ListenerAction::CreateRule { tags, .. }) => Some(tags),
        Action::Listener(
            ListenerAction::ModifyRule { arn, .. }
            | ListenerAction::DeleteRule { arn, .. }
            | ListenerAction::AddTags { arn, .. },
        ) => rule(arn),
        _ => None,
    };
    member_of(tags?)
}

/// The member that gave one of several shared values: the one whose value AWS names, else the last one, which is
/// usually the newest.
fn contributor(action: &Action, active: &[&MyIngress], api_message: &str) -> Option<ObjectKey> {
    let gave = |gives: &dyn Fn(&MyIngress) -> Vec<String>| {
        let givers: Vec<(&&MyIngress, Vec<String>)> =
            active.iter().map(|object| (object, gives(object))).filter(|(_, values)| !values.is_empty()).collect();
        let named = givers.iter().find(|(_, values)| values.iter().any(|value| api_message.contains(value)));
        named.or_else(|| givers.last()).map(|(object, _)| key(object))
    };
    match action {
        Action::Listener(ListenerAction::Modify { settings, .. } | ListenerAction::Create { settings, .. }) => {
            gave(&|object| values_on(object, settings.port))
        }
        Action::Listener(ListenerAction::AddCertificates { port, certificates, .. }) => {
            let named = |object: &MyIngress| -> Vec<String> {
                values_on(object, *port).into_iter().filter(|value| certificates.contains(value)).collect()
            };
            gave(&named).or_else(|| gave(&|object| values_on(object, *port)))
        }
        Action::Listener(
            ListenerAction::RemoveCertificates { port, .. } | ListenerAction::SetAttributes { port, .. },
        ) => gave(&|object| values_on(object, *port)),
        Action::Balancer(BalancerAction::AddTags { tags, .. }) => gave(&|object| {
            let own = object.spec.tags.iter().filter(|(key, _)| tags.contains_key(*key));
            own.flat_map(|(key, value)| [key.clone(), value.clone()]).filter(|it| !it.is_empty()).collect()
        }),
        Action::Security(SecurityAction::Authorize { permissions, .. }) => gave(&|object| {
            let asked = |cidr: &&String| {
                permissions.iter().any(|it| matches!(&it.source, Source::Network(network) if network == *cidr))
            };
            object.spec.inbound_cidrs.iter().filter(asked).cloned().collect()
        }),
        Action::Security(SecurityAction::LetIn(_)) => gave(&|object| object.spec.target_security_groups.clone()),
        _ => None,
    }
}

/// The values that a member sets for the listener on that port, as AWS would repeat them.
fn values_on(object: &MyIngress, port: u16) -> Vec<String> {
    let listeners = object.spec.listeners.iter().filter(|listener| listener.port == port);
    let values = |listener: &ListenerSpec| {
        let mutual = listener.mutual_authentication.as_ref().and_then(|it| it.trust_store_arn.clone());
        let attributes = listener.attributes.keys().cloned();
        let mut values: Vec<String> = listener.certificate_arns.clone();
        values.extend(listener.ssl_policy.clone());
        values.extend(mutual);
        values.extend(attributes);
        values.extend(listener.default_action.as_ref().map(|_| format!("default action on port {port}")));
        values
    };
    listeners.flat_map(values).collect()
}

/// The member that names the balancer's subnets. It reports what concerns all members.
fn anchor(active: &[&MyIngress]) -> Option<ObjectKey> {
    let stands = |object: &&&MyIngress| !object.spec.subnets.is_empty() || object.spec.subnet_selector.is_some();
    active.iter().find(stands).or_else(|| active.first()).map(|object| key(object))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::controllers::myingress::assets::{Answer, Member};
    use crate::controllers::myingress::model::fixtures::{joining, standing};
    use crate::controllers::myingress::ownership::member_tag;
    use crate::controllers::myingress::region::fixtures::balancer;
    use crate::external::elbv2::{Listener, ListenerSettings, Protocol, RuleSettings};

    fn members(objects: Vec<MyIngress>) -> Members {
        Members { present: objects.into_iter().map(Arc::new).collect(), grouped: true, ..Members::default() }
    }

    fn https(port: u16) -> Action {
        let settings = ListenerSettings {
            port,
            protocol: Protocol::Https,
            certificate: None,
            ssl_policy: None,
            mutual_authentication: None,
            default_actions: Vec::new(),
        };
        Action::Listener(ListenerAction::Create { balancer: "b".into(), settings, tags: Pairs::new() })
    }

    fn name(blamed: Option<ObjectKey>) -> Option<String> {
        blamed.map(|(_, name)| name)
    }

    #[test]
    fn a_refused_rule_is_blamed_on_its_member() {
        let group = members(vec![standing("a", json!({})), joining("b", json!({}))]);
        let tags = Pairs::from([member_tag(&("shop".into(), "b".into()))]);
        let settings = RuleSettings { conditions: BTreeSet::new(), actions: Vec::new(), transforms: Vec::new() };
        let (balancer, listener) = ("b".into(), "l".into());
        let rule = ListenerAction::CreateRule { balancer, listener, port: 80, priority: 1, settings, tags };
        let action = Action::Listener(rule);
        assert_eq!(name(blamed(&action, &group, &Assets::default(), "")), Some("b".into()));
    }

    #[test]
    fn a_refused_certificate_is_blamed_on_the_member_that_gave_it() {
        let arn = |name: &str| format!("arn:aws:acm:eu-west-1:000000000000:certificate/{name}");
        let listener = |name: &str| json!({ "listeners": [{ "port": 443, "certificateArns": [arn(name)] }] });
        let group = members(vec![standing("a", listener("x")), joining("b", listener("y")), joining("c", json!({}))]);
        let api_message = format!("Certificate ARN '{}' not found", arn("x"));
        assert_eq!(name(blamed(&https(443), &group, &Assets::default(), &api_message)), Some("a".into()));
        // If AWS names no certificate, the last member that gave one is blamed.
        assert_eq!(name(blamed(&https(443), &group, &Assets::default(), "no")), Some("b".into()));
    }

    fn adding(certificates: &[&str]) -> Action {
        let (balancer, arn, port) = ("b".into(), "l".into(), 443);
        let certificates = certificates.iter().map(|it| (*it).to_owned()).collect();
        Action::Listener(ListenerAction::AddCertificates { balancer, arn, port, certificates })
    }

    #[test]
    fn a_further_certificate_is_blamed_on_a_member_that_names_it_even_if_aws_does_not() {
        let listener = |name: &str| json!({ "listeners": [{ "port": 443, "certificateArns": [name] }] });
        let group = members(vec![standing("a", listener("x")), joining("b", listener("y"))]);
        let of = |certificate| name(blamed(&adding(&[certificate]), &group, &Assets::default(), "no"));
        assert_eq!(["x", "y", "found by host"].map(of), ["a", "b", "b"].map(|it| Some(it.to_owned())));
    }

    #[test]
    fn of_several_certificates_those_that_went_well_are_not_refused() {
        let mut assets = Assets::default();
        let all = adding(&["1", "2", "3"]);
        assert_eq!(refused_part(&all, &assets), all, "nothing is known of the listener");
        let Action::Listener(ListenerAction::Create { settings, .. }) = https(443) else { panic!() };
        assets.balancers.insert("b".into(), Member::new(balancer(), Pairs::new()));
        assets.enter(&https(443), Answer::Listener(Listener { arn: "l".into(), settings }));
        assets.enter(&adding(&["1"]), Answer::Done);
        assert_eq!(refused_part(&all, &assets), adding(&["2"]));
        assets.enter(&adding(&["2", "3"]), Answer::Done);
        let removal = |certificates: &[&str]| {
            let (balancer, arn, port) = ("b".into(), "l".into(), 443);
            let certificates = certificates.iter().map(|it| (*it).to_owned()).collect();
            Action::Listener(ListenerAction::RemoveCertificates { balancer, arn, port, certificates })
        };
        assets.enter(&removal(&["1"]), Answer::Done);
        assert_eq!(refused_part(&removal(&["1", "2", "3"]), &assets), removal(&["2", "3"]));
    }

    #[test]
    fn what_concerns_all_is_blamed_on_the_member_that_names_the_subnets() {
        let group = members(vec![joining("a", json!({})), standing("b", json!({}))]);
        let action = Action::Balancer(BalancerAction::SetCapacity { arn: "b".into(), units: None });
        assert_eq!(name(blamed(&action, &group, &Assets::default(), "")), Some("b".into()));
    }
}
