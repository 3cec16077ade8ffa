//! Finds the member of a group that an action is made for. If AWS refuses the action, only that member reports the
//! error. Pure.

use causeway_api::MyIngress;
use causeway_api::myingress::{ActionSpec, ListenerSpec};
use causeway_aws::elbv2::Pairs;

use crate::action::{Action, BalancerAction, GroupAction, ListenerAction, SecurityAction};
use crate::members::{Members, key};
use crate::model::{inbound_of, is_group_id};
use crate::ownership::{ObjectKey, member_of};
use crate::refusals::field::is_named;
use crate::region::assets::Assets;

/// The member whose part the action makes. `api_message` is AWS's answer: it often names the value that it refuses.
pub fn blamed(action: &Action, members: &Members, assets: &Assets, api_message: &str) -> Option<ObjectKey> {
    let mut active = members.active();
    if !members.grouped {
        return active.first().map(|object| key(object));
    }
    // Shared settings come from members of the group's own namespace, never from guests.
    active.retain(|object| !members.is_guest(&key(object)));
    tagger(action, &active, api_message)
        .or_else(|| tagged(action, assets))
        .or_else(|| contributor(action, &active, api_message))
        .or_else(|| anchor(&active))
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
        let named = givers.iter().find(|(_, values)| values.iter().any(|value| is_named(value, api_message)));
        named.or_else(|| givers.last()).map(|(object, _)| key(object))
    };
    match action {
        Action::Listener(ListenerAction::Modify { settings, .. } | ListenerAction::Create { settings, .. }) => {
            gave(&|object| values_named(object, settings.port, api_message))
                .or_else(|| gave(&|object| values_on(object, settings.port)))
        }
        Action::Listener(ListenerAction::AddCertificates { port, certificates, .. }) => {
            let named = |object: &MyIngress| -> Vec<String> {
                values_on(object, *port).into_iter().filter(|value| certificates.contains(value)).collect()
            };
            gave(&named).or_else(|| gave(&|object| values_on(object, *port)))
        }
        Action::Listener(ListenerAction::SetAttributes { port, attributes, .. }) => {
            let sets = |object: &MyIngress| -> Vec<String> {
                let listeners = object.spec.listeners.iter().filter(|listener| listener.port == *port);
                let keys = listeners.flat_map(|listener| listener.attributes.keys());
                keys.filter(|key| attributes.contains_key(*key)).cloned().collect()
            };
            gave(&sets).or_else(|| gave(&|object| values_on(object, *port)))
        }
        Action::Listener(ListenerAction::RemoveCertificates { port, .. }) => gave(&|object| values_on(object, *port)),
        Action::Balancer(BalancerAction::AddTags { tags, .. })
        | Action::Security(SecurityAction::AddTags { tags, .. }) => gave(&|object| tags_of(object, tags)),
        Action::Security(SecurityAction::Authorize { permissions, .. }) => gave(&|object| {
            let mut asked = inbound_of(&object.spec);
            asked.retain(|it| permissions.iter().any(|permission| it.asks_for(permission)));
            asked.iter().flat_map(|it| [it.text.to_owned(), it.canonical().to_owned()]).collect()
        }),
        Action::Security(SecurityAction::LetIn(entry)) => {
            let names = |object: &MyIngress| -> Vec<String> {
                object.spec.target_security_groups.iter().filter(|called| **called == entry.group).cloned().collect()
            };
            // Others call it by its name.
            let by_name = |object: &MyIngress| -> Vec<String> {
                object.spec.target_security_groups.iter().filter(|called| !is_group_id(called)).cloned().collect()
            };
            gave(&names).or_else(|| gave(&by_name))
        }
        _ => None,
    }
}

/// The member that gave a tag which AWS names. Every part has the tags of all members.
fn tagger(action: &Action, active: &[&MyIngress], api_message: &str) -> Option<ObjectKey> {
    let tags = match action {
        Action::Balancer(BalancerAction::Create(new)) => &new.tags,
        Action::Group(GroupAction::Create(new)) => &new.tags,
        Action::Balancer(BalancerAction::AddTags { tags, .. })
        | Action::Group(GroupAction::AddTags { tags, .. })
        | Action::Security(SecurityAction::Create { tags, .. } | SecurityAction::AddTags { tags, .. })
        | Action::Listener(
            ListenerAction::Create { tags, .. }
            | ListenerAction::CreateRule { tags, .. }
            | ListenerAction::AddTags { tags, .. },
        ) => tags,
        _ => return None,
    };
    let names_tags = api_message.to_lowercase().contains("tag");
    let gave = |object: &&&MyIngress| tags_of(object, tags).iter().any(|it| is_named(it, api_message));
    active.iter().filter(|_| names_tags).find(gave).map(|object| key(object))
}

/// Keys and values of those of these tags that the object gives.
fn tags_of(object: &MyIngress, tags: &Pairs) -> Vec<String> {
    let own = object.spec.tags.iter().filter(|(key, _)| tags.contains_key(*key));
    own.flat_map(|(key, value)| [key.clone(), value.clone()]).filter(|it| !it.is_empty()).collect()
}

/// The values that a member sets for the listener on that port, of the kind that AWS's message is about.
fn values_named(object: &MyIngress, port: u16, api_message: &str) -> Vec<String> {
    let text = api_message.to_lowercase();
    let about = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let listeners = object.spec.listeners.iter().filter(|listener| listener.port == port);
    let values = |listener: &ListenerSpec| -> Vec<String> {
        if about(&["ssl policy", "sslpolicy", "security policy"]) {
            listener.ssl_policy.iter().cloned().collect()
        } else if about(&["trust store", "truststore"]) {
            listener.mutual_authentication.iter().filter_map(|it| it.trust_store_arn.clone()).collect()
        } else if about(&["certificate"]) {
            listener.certificate_arns.clone()
        } else if about(&["target group", "targetgroup", "action"]) {
            let action = listener.default_action.iter();
            action.flat_map(|action| [default_action(port)].into_iter().chain(forwarded_by(action))).collect()
        } else {
            Vec::new()
        }
    };
    listeners.flat_map(values).collect()
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
        values.extend(listener.default_action.iter().flat_map(forwarded_by));
        values.extend(listener.default_action.as_ref().map(|_| default_action(port)));
        values
    };
    listeners.flat_map(values).collect()
}

/// Stands for a default action, which AWS does not repeat.
fn default_action(port: u16) -> String {
    format!("default action on port {port}")
}

fn forwarded_by(action: &ActionSpec) -> impl Iterator<Item = String> {
    action.forward.iter().flat_map(|forward| &forward.target_groups).map(|group| group.arn.clone())
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
    use crate::model::fixtures::{joining, standing};
    use crate::ownership::member_tag;
    use crate::region::assets::{Answer, Member};
    use crate::region::fixtures::{balancer, listener_on};
    use causeway_aws::ec2::{Entry, Permission, Source};
    use causeway_aws::elbv2::{Listener, Protocol, RuleSettings};

    fn members(objects: Vec<MyIngress>) -> Members {
        Members { present: objects.into_iter().map(Arc::new).collect(), grouped: true, ..Members::default() }
    }

    fn https(port: u16) -> Action {
        let settings = listener_on(port, Protocol::Https);
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
    fn a_refused_certificate_is_blamed_on_its_member() {
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
    fn an_unnamed_certificate_is_blamed_on_its_member() {
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

    fn authorize(sources: &[Source]) -> Action {
        let permissions = sources.iter().map(|source| Permission::tcp(80, source.clone())).collect();
        Action::Security(SecurityAction::Authorize { id: "sg-own".into(), permissions })
    }

    #[test]
    fn a_refused_source_is_blamed_on_its_member() {
        let group = members(vec![
            standing("a", json!({ "inboundPrefixLists": ["pl-1"], "inboundCidrs": ["10.1.2.3/8"] })),
            joining("b", json!({ "inboundPrefixLists": ["pl-12"] })),
            joining("c", json!({ "inboundCidrs": ["192.0.2.0/24"], "listeners": [{ "port": 80 }] })),
        ]);
        let (list, network) = (|id: &str| Source::PrefixList(id.into()), |it: &str| Source::Network(it.into()));
        let all = [list("pl-1"), list("pl-12"), network("10.0.0.0/8"), network("192.0.2.0/24")];
        let named =
            |sources: &[Source], words: &str| name(blamed(&authorize(sources), &group, &Assets::default(), words));
        for (words, expected) in [
            ("The prefix list ID 'pl-1' does not exist", "a"),
            ("The prefix list ID 'pl-12' does not exist", "b"),
            ("CIDR block 10.0.0.0/8 is malformed", "a"),
            ("CIDR block 192.0.2.0/24 is malformed.", "c"),
        ] {
            assert_eq!(named(&all, words).as_deref(), Some(expected), "{words}");
        }
        // AWS names nothing: of one source, the member that gave it.
        for (source, expected) in [(&all[0], "a"), (&all[1], "b"), (&all[2], "a"), (&all[3], "c")] {
            assert_eq!(named(std::slice::from_ref(source), "no").as_deref(), Some(expected), "{source:?}");
        }
    }

    #[test]
    fn a_network_of_one_listener_is_blamed_on_its_member() {
        let listener = |network: &str| json!({ "listeners": [{ "port": 80, "inboundCidrs": [network] }] });
        let group = members(vec![
            standing("a", json!({ "inboundCidrs": ["0.0.0.0/0"], "listeners": [{ "port": 443 }] })),
            joining("b", listener("198.51.100.7/24")),
        ]);
        let action = authorize(&[Source::Network("198.51.100.0/24".into())]);
        assert_eq!(name(blamed(&action, &group, &Assets::default(), "no")).as_deref(), Some("b"));
    }

    #[test]
    fn a_refused_default_action_is_blamed_on_its_member() {
        let arn = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/legacy/0123456789abcdef";
        let action = json!({ "forward": { "targetGroups": [{ "arn": arn }] } });
        let group = members(vec![
            standing("a", json!({ "listeners": [{ "port": 443, "defaultAction": action }] })),
            joining("b", json!({ "listeners": [{ "port": 443, "certificateArns": ["x"] }] })),
        ]);
        for words in [arn, "One or more target groups not found"] {
            let named = name(blamed(&https(443), &group, &Assets::default(), words));
            assert_eq!(named.as_deref(), Some("a"), "{words}");
        }
    }

    #[test]
    fn a_refused_listener_attribute_is_blamed_on_its_member() {
        let sets = |key: &str| json!({ "listeners": [{ "port": 80, "attributes": { key: "x" } }] });
        let group = members(vec![standing("a", sets("one.key")), joining("b", sets("other.key"))]);
        let attributes = Pairs::from([("one.key".into(), "x".into())]);
        let (balancer, arn, port) = ("b".into(), "l".into(), 80);
        let action = Action::Listener(ListenerAction::SetAttributes { balancer, arn, port, attributes });
        assert_eq!(name(blamed(&action, &group, &Assets::default(), "no")).as_deref(), Some("a"));
    }

    #[test]
    fn a_refused_tag_is_blamed_on_the_member_with_it() {
        let group = members(vec![standing("a", json!({ "tags": { "team": "x" } })), joining("b", json!({}))]);
        let tags = Pairs::from([member_tag(&("shop".into(), "b".into())), ("team".into(), "x".into())]);
        let settings = RuleSettings { conditions: BTreeSet::new(), actions: Vec::new(), transforms: Vec::new() };
        let (balancer, listener) = ("b".into(), "l".into());
        let rule = ListenerAction::CreateRule { balancer, listener, port: 80, priority: 1, settings, tags };
        let blame = |words| name(blamed(&Action::Listener(rule.clone()), &group, &Assets::default(), words));
        assert_eq!(blame("the value of tag 'team' is not valid").as_deref(), Some("a"));
        assert_eq!(blame("a condition is not valid").as_deref(), Some("b"));
    }

    #[test]
    fn a_security_group_of_targets_is_blamed_on_its_member() {
        let names = |group: &str| json!({ "inboundCidrs": ["0.0.0.0/0"], "targetSecurityGroups": [group] });
        let group =
            members(vec![standing("a", names("sg-1")), joining("b", names("sg-2")), joining("c", names("nodes"))]);
        let blame = |id: &str| {
            let ports = None;
            let entry = Entry {
                group: id.into(),
                from: "sg-own".into(),
                protocol: "tcp".into(),
                ports,
                description: String::new(),
            };
            name(blamed(&Action::Security(SecurityAction::LetIn(entry)), &group, &Assets::default(), "no"))
        };
        assert_eq!(["sg-1", "sg-2", "sg-3"].map(blame), ["a", "b", "c"].map(|it| Some(it.to_owned())));
    }

    #[test]
    fn a_shared_part_is_blamed_on_the_anchor() {
        let group = members(vec![joining("a", json!({})), standing("b", json!({}))]);
        let action = Action::Balancer(BalancerAction::SetCapacity { arn: "b".into(), units: None });
        assert_eq!(name(blamed(&action, &group, &Assets::default(), "")), Some("b".into()));
    }
}
