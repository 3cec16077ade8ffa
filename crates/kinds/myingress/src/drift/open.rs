//! Settings that a spec leaves open: a change by others stays, and is reported. Pure.

use std::collections::BTreeMap;

use causeway_api::common::PREFIX;
use causeway_aws::elbv2::Pairs;

use crate::commands::plan::Fields;
use crate::model::{ListenerModel, Model, SecurityModel};
use crate::ownership::{MANAGED_BY, Owner};
use crate::region::assets::{Assets, ListenerMember, Member};

/// The present values of what the spec leaves open: by ARN, what people call the resource, and its fields.
pub type Open = BTreeMap<String, (String, Fields)>;

/// Returns the settings of these resources that the spec leaves open. Settings that Causeway has not read are left out.
pub fn open(owner: &Owner, model: &Model, assets: &Assets) -> Open {
    let mut all = Open::new();
    for (arn, member) in &assets.balancers {
        let name = &member.balancer.name;
        let mut fields = of_balancer(model, member);
        fields.extend(of_others(owner, model, assets, member));
        all.insert(arn.clone(), (format!("load balancer {name}"), fields));
        for (arn, listener) in member.listeners.iter().flatten() {
            let port = listener.listener.settings.port;
            if let Some(wanted) = model.listeners.get(&port) {
                let subject = format!("listener on port {port} of {name}");
                all.insert(arn.clone(), (subject, of_listener(wanted, listener)));
            }
        }
    }
    all
}

fn of_balancer(model: &Model, member: &Member) -> Fields {
    let (wanted, balancer) = (&model.balancer, &member.balancer);
    let mut fields = attributes(&wanted.attributes, member.attributes.as_ref());
    if let (None, Some(kind)) = (wanted.ip_address_type, balancer.ip_address_type) {
        fields.insert("ipAddressType".into(), kind.as_str().into());
    }
    if wanted.security == SecurityModel::Default {
        let groups: Vec<&str> = balancer.security_groups.iter().map(String::as_str).collect();
        fields.insert("securityGroups".into(), groups.join(", "));
    }
    fields
}

/// Tags, listeners and rules that others added.
fn of_others(owner: &Owner, model: &Model, assets: &Assets, member: &Member) -> Fields {
    let (mut listeners, mut rules, mut tags) = (Vec::new(), Vec::new(), Vec::new());
    let mut note = |part: String, present: &Pairs| {
        let others = present.iter().filter(|(key, _)| !sets(model, key));
        tags.extend(others.map(|(key, value)| format!("{key}={value} of {part}")));
    };
    note("the load balancer".into(), &member.tags);
    for listener in member.listeners.iter().flat_map(BTreeMap::values) {
        let port = listener.listener.settings.port;
        if !owner.owns(&listener.tags) {
            listeners.push(format!("port {port}"));
            continue;
        }
        note(format!("the listener on port {port}"), &listener.tags);
        for rule in listener.rules.values() {
            let name = format!("rule {} on port {port}", rule.rule.priority);
            if owner.owns(&rule.tags) { note(name, &rule.tags) } else { rules.push(name) }
        }
    }
    let groups = assets.groups.values().filter(|group| group.group.balancers.contains(&member.balancer.arn));
    groups.for_each(|group| note(format!("target group {}", group.group.name), &group.tags));
    let named = |mut parts: Vec<String>| {
        parts.sort();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    };
    Fields::from([
        ("otherListeners".into(), named(listeners)),
        ("otherRules".into(), named(rules)),
        ("otherTags".into(), named(tags)),
    ])
}

/// Reports whether Causeway sets tags with this key.
fn sets(model: &Model, key: &str) -> bool {
    key.starts_with(PREFIX) || key == MANAGED_BY || model.balancer.tags.contains_key(key)
}

fn of_listener(wanted: &ListenerModel, listener: &ListenerMember) -> Fields {
    let mut fields = attributes(&wanted.attributes, listener.attributes.as_ref());
    if let (None, Some(policy)) = (&wanted.ssl_policy, &listener.listener.settings.ssl_policy) {
        fields.insert("sslPolicy".into(), policy.clone());
    }
    fields
}

fn attributes(wanted: &Pairs, present: Option<&Pairs>) -> Fields {
    let open = present.into_iter().flatten().filter(|(key, _)| !wanted.contains_key(*key));
    open.map(|(key, value)| (format!("attributes.{key}"), value.clone())).collect()
}

/// The values that differ, in words. What is new or gone is not a change of a value: AWS adds attributes, and a resource
/// that others create or delete is another matter.
pub fn moved(before: &Open, after: &Open) -> Vec<String> {
    let mut all = Vec::new();
    for (arn, (subject, now)) in after {
        let Some((_, then)) = before.get(arn) else { continue };
        let both = now.iter().filter_map(|(field, new)| Some((field, then.get(field)?, new)));
        let changed = both.filter(|(_, old, new)| old != new);
        all.extend(changed.map(|(field, old, new)| format!("{subject}: {field} was {old}, is {new}")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(arn: &str, fields: &[(&str, &str)]) -> Open {
        let fields = fields.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect();
        Open::from([(arn.to_owned(), ("load balancer web".to_owned(), fields))])
    }

    #[test]
    fn only_a_changed_value_is_a_change() {
        let before = one("1", &[("a", "1"), ("gone", "1"), ("same", "1")]);
        let after = one("1", &[("a", "2"), ("new", "1"), ("same", "1")]);
        assert_eq!(moved(&before, &after), ["load balancer web: a was 1, is 2"]);
        assert!(moved(&after, &after).is_empty());
        assert!(moved(&before, &one("2", &[("a", "2")])).is_empty(), "another balancer of the same name");
    }
}
