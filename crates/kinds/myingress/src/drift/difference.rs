//! Describes the differences between two states of an owner's resources. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::action::Action;
use crate::action::predicted::PredictedAws;
use crate::commands::plan::{Field, Fields, Thing, difference};
use crate::region::assets::{Assets, ListenerMember, Member};

/// Something in AWS that was not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind of part, as the metric of drift labels it.
    pub part: &'static str,
    /// The part and how it differed.
    pub message: String,
}

/// A resource: its kind, what it stands on, and the name that people know it by.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    part: &'static str,
    attribute: &'static str,
    thing: Thing,
    /// The resource that it stands on. While that was missing, this one is not reported separately.
    on: Option<String>,
    subject: String,
}

/// A repair: what was found, as far as Causeway changes it. Others may change more meanwhile, where that is not
/// Causeway's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// The resources when it began, by ARN or id.
    there: BTreeSet<String>,
    /// The values that fields had when they were first to be changed, by ARN or id and by field; `None` where there was
    /// none.
    fields: BTreeMap<String, BTreeMap<String, Option<String>>>,
    /// Kinds of parts that it creates.
    created: BTreeSet<&'static str>,
    /// The resources that it deletes.
    deleted: BTreeMap<String, Known>,
}

impl Repair {
    /// A repair of these resources.
    pub fn begin(assets: &Assets) -> Self {
        Self { there: things(assets).into_keys().collect(), ..Self::default() }
    }

    /// Takes in what these actions change in these resources, if AWS allows them.
    pub fn take(&mut self, actions: &[&Action], assets: &Assets) {
        let (mut after, mut aws) = (assets.clone(), PredictedAws::default());
        for action in actions {
            aws.enter(&mut after, &[], action);
        }
        let (known, then) = (things(assets), things(&after));
        self.created.extend(then.iter().filter(|(id, _)| !known.contains_key(*id)).map(|(_, it)| it.part));
        for (id, it) in known {
            if !then.contains_key(&id) {
                self.deleted.insert(id, it);
                continue;
            }
            let (before, after) = (it.thing.fields(assets), it.thing.fields(&after));
            let changed = difference(&before, &after);
            if changed.is_empty() {
                continue;
            }
            let first = self.fields.entry(id).or_default();
            for field in changed {
                let old = before.get(&field.path).cloned();
                first.entry(field.path).or_insert(old);
            }
        }
    }

    /// The differences between what was found and what is right.
    pub fn differences(&self, right: &Assets) -> Vec<Difference> {
        let after = things(right);
        let mut list = Vec::new();
        for (id, known) in &after {
            let is_there = |id: &String| self.there.contains(id);
            if is_there(id) {
                let Some(first) = self.fields.get(id) else { continue };
                let before = first.iter().filter_map(|(path, old)| Some((path.clone(), old.clone()?))).collect();
                let mut now = known.thing.fields(right);
                now.retain(|path, _| first.contains_key(path));
                list.extend(changed(known, &before, &now));
            } else if known.on.as_ref().is_none_or(is_there) && self.created.contains(known.part) {
                list.push(Difference { part: known.part, message: format!("{} was missing", known.subject) });
            }
        }
        let gone = self.deleted.iter().filter(|(id, _)| self.there.contains(*id) && !after.contains_key(*id));
        for (_, known) in gone.filter(|(_, known)| known.on.as_ref().is_none_or(|on| after.contains_key(on))) {
            list.push(Difference { part: known.part, message: format!("{} was too much", known.subject) });
        }
        list
    }
}

/// One difference for each kind of part.
fn changed(known: &Known, before: &Fields, after: &Fields) -> Vec<Difference> {
    let mut parts: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    // AWS may list an attribute without a value or leave it out. Neither is a change.
    let is_something = |field: &Field| [&field.old, &field.new].into_iter().flatten().any(|value| !value.is_empty());
    for field in difference(before, after).into_iter().filter(is_something) {
        parts.entry(part(known, &field.path)).or_default().push(describe(&field));
    }
    let difference = |(part, fields): (_, Vec<String>)| {
        let message = format!("{}: {}", known.subject, fields.join(", "));
        Difference { part, message }
    };
    parts.into_iter().map(difference).collect()
}

/// The kind of part that a field of a thing is.
fn part(known: &Known, path: &str) -> &'static str {
    let field = path.split(['.', ' ', '[']).next().unwrap_or_default();
    match field {
        "tags" => "tag",
        "attributes" => known.attribute,
        "subnets" => "subnets",
        "securityGroups" => "security_groups",
        "ipAddressType" => "ip_address_type",
        "webAcl" => "web_acl",
        "capacityUnits" => "capacity",
        "healthCheck" => "health_check",
        "ingress" | "egress" | "letIn" => "security_group_rule",
        "certificate" | "furtherCertificates" => "certificate",
        _ => known.part,
    }
}

fn describe(field: &Field) -> String {
    match (&field.old, &field.new) {
        (Some(old), Some(new)) => format!("{} was {old}, not {new}", field.path),
        (Some(old), None) => format!("{} was {old}", field.path),
        (None, Some(new)) => format!("{} was missing ({new} again)", field.path),
        (None, None) => field.path.clone(),
    }
}

/// All things, by ARN or id.
fn things(assets: &Assets) -> BTreeMap<String, Known> {
    let balancers = assets.balancers.iter().flat_map(|(arn, member)| {
        let known = Known {
            part: "load_balancer",
            attribute: "load_balancer_attribute",
            thing: Thing::Balancer(arn.clone()),
            on: None,
            subject: format!("load balancer {}", member.balancer.name),
        };
        parts_of_balancer(arn, member).chain([(arn.clone(), known)])
    });
    let groups = assets.groups.iter().map(|(arn, member)| {
        let known = Known {
            part: "target_group",
            attribute: "target_group_attribute",
            thing: Thing::Group(arn.clone()),
            on: None,
            subject: format!("target group {}", member.group.name),
        };
        (arn.clone(), known)
    });
    let security = assets.security_groups.iter().map(|(id, group)| {
        let known = Known {
            part: "security_group",
            attribute: "security_group",
            thing: Thing::SecurityGroup(id.clone()),
            on: None,
            subject: format!("security group {}", group.name),
        };
        (id.clone(), known)
    });
    balancers.chain(groups).chain(security).collect()
}

/// The listeners and rules of a balancer.
fn parts_of_balancer(balancer: &str, member: &Member) -> impl Iterator<Item = (String, Known)> {
    let name = member.balancer.name.as_str();
    member.listeners.iter().flatten().flat_map(move |(arn, listener)| {
        let port = listener.listener.settings.port;
        let known = Known {
            part: "listener",
            attribute: "listener_attribute",
            thing: Thing::Listener { balancer: balancer.to_owned(), arn: arn.clone() },
            on: Some(balancer.to_owned()),
            subject: format!("listener on port {port} of {name}"),
        };
        rules(balancer, name, arn, listener).chain([(arn.clone(), known)])
    })
}

fn rules(balancer: &str, name: &str, listener: &str, member: &ListenerMember) -> impl Iterator<Item = (String, Known)> {
    let port = member.listener.settings.port;
    member.rules.iter().map(move |(arn, rule)| {
        let thing = Thing::Rule { balancer: balancer.to_owned(), listener: listener.to_owned(), arn: arn.clone() };
        let subject = format!("rule {} on port {port} of {name}", rule.rule.priority);
        (arn.clone(), Known { part: "rule", attribute: "rule", thing, on: Some(listener.to_owned()), subject })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_attribute_equals_a_missing_one() {
        let known = Known {
            part: "load_balancer",
            attribute: "load_balancer_attribute",
            thing: Thing::Balancer("arn".into()),
            on: None,
            subject: "load balancer web".into(),
        };
        let with = |value: Option<&str>| -> Fields {
            value.map(|value| ("attributes.a".to_owned(), value.to_owned())).into_iter().collect()
        };
        for (found, right) in [(None, Some("")), (Some(""), None), (None, None)] {
            assert!(changed(&known, &with(found), &with(right)).is_empty(), "{found:?} {right:?}");
        }
        let message = |found, right| changed(&known, &with(found), &with(right)).remove(0).message;
        assert_eq!(message(None, Some("b")), "load balancer web: attributes.a was missing (b again)");
        assert_eq!(message(Some("b"), Some("")), "load balancer web: attributes.a was b, not ");
    }
}
