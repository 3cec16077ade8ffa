//! Resources in AWS as fields with values, so two states of one can be compared.

use std::collections::BTreeMap;

use serde_json::Value;

use causeway_aws::ec2::SecurityGroup;
use causeway_aws::elbv2::{Pairs, RuleAction};

use super::report::Field;
use super::text;
use crate::action::predicted::{CHOSEN_BY_AWS, MADE_UP};
use crate::region::assets::{Assets, GroupMember, ListenerMember, Member, RuleMember};

/// Values by field.
pub type Fields = BTreeMap<String, String>;

/// A resource in AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    Balancer(String),
    Group(String),
    SecurityGroup(String),
    Listener {
        balancer: String,
        arn: String,
    },
    Rule {
        balancer: String,
        listener: String,
        arn: String,
    },
    /// The order of the rules of a listener.
    Order {
        balancer: String,
        listener: String,
    },
}

impl Thing {
    /// Its fields; none if it does not exist.
    pub fn fields(&self, assets: &Assets) -> Fields {
        let mut fields = Fields::new();
        match self {
            Self::Balancer(arn) => {
                if let Some(member) = assets.balancers.get(arn) {
                    balancer(member, assets, &mut fields);
                }
            }
            Self::Group(arn) => {
                if let Some(member) = assets.groups.get(arn) {
                    group(member, &mut fields);
                }
            }
            Self::SecurityGroup(id) => {
                if let Some(group) = assets.security_groups.get(id) {
                    security_group(group, &mut fields);
                    let entries = assets.entries.iter().filter(|entry| entry.from == *id);
                    fields.extend(
                        entries.map(|it| (format!("letIn by {} on {}", it.group, text::entry(it)), "allowed".into())),
                    );
                }
            }
            Self::Listener { balancer, arn } => {
                if let Some(member) = listener_of(assets, balancer, arn) {
                    listener(member, assets, &mut fields);
                }
            }
            Self::Rule { balancer, listener, arn } => {
                if let Some(member) = listener_of(assets, balancer, listener).and_then(|it| it.rules.get(arn)) {
                    rule(member, assets, &mut fields);
                }
            }
            Self::Order { balancer, listener } => {
                for member in listener_of(assets, balancer, listener).into_iter().flat_map(|it| it.rules.values()) {
                    fields.insert(format!("priority of {}", conditions(member)), member.rule.priority.to_string());
                }
            }
        }
        fields
    }
}

/// The listener with that ARN.
pub fn listener_of<'a>(assets: &'a Assets, balancer: &str, arn: &str) -> Option<&'a ListenerMember> {
    assets.balancers.get(balancer)?.listeners.as_ref()?.get(arn)
}

/// The conditions of a rule in one line.
pub fn conditions(member: &RuleMember) -> String {
    let parts = member.rule.settings.conditions.iter().map(text::condition);
    parts.map(|(what, values)| format!("{what} {values}")).collect::<Vec<_>>().join(" and ")
}

/// The fields that differ.
pub fn difference(before: &Fields, after: &Fields) -> Vec<Field> {
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let shown = |key: &str, value: Option<&String>| value.map(|value| shown(key, value));
    let fields = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    fields
        .map(|key| Field { path: key.clone(), old: shown(key, before.get(key)), new: shown(key, after.get(key)) })
        .collect()
}

/// A JSON document as fields, without the times of conditions.
pub fn of_document(document: &Value) -> Fields {
    let mut fields = Fields::new();
    flatten(document, "", &mut fields);
    fields
}

fn flatten(value: &Value, path: &str, fields: &mut Fields) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Null => {}
        Value::Array(items) if items.is_empty() => {}
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| *key != "lastTransitionTime") {
                flatten(value, &below(key), fields);
            }
        }
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            fields.insert(path.to_owned(), items.join(", "));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let name = ["type", "backend", "port"].into_iter().find_map(|key| item.get(key));
                let name = name
                    .map_or_else(|| index.to_string(), |it| it.as_str().map_or_else(|| it.to_string(), str::to_owned));
                flatten(item, &format!("{path}[{name}]"), fields);
            }
        }
        Value::String(text) => drop(fields.insert(path.to_owned(), text.clone())),
        other => drop(fields.insert(path.to_owned(), other.to_string())),
    }
}

/// Hides fingerprints of secrets, and shows made-up ids and ARNs as chosen by AWS.
fn shown(key: &str, value: &str) -> String {
    if key.ends_with("/client-secret") {
        "(a fingerprint)".into()
    } else if value.contains(MADE_UP) {
        CHOSEN_BY_AWS.into()
    } else {
        value.into()
    }
}

fn pairs(what: &str, pairs: &Pairs, fields: &mut Fields) {
    fields.extend(pairs.iter().map(|(key, value)| (format!("{what}.{key}"), value.clone())));
}

fn balancer(member: &Member, assets: &Assets, fields: &mut Fields) {
    let balancer = &member.balancer;
    let mut set = |key: &str, value: String| drop(fields.insert(key.into(), value));
    set("name", balancer.name.clone());
    set("scheme", balancer.scheme.map_or("(unknown to Causeway)", |it| it.as_str()).into());
    set("ipAddressType", balancer.ip_address_type.map_or("(unknown to Causeway)", |it| it.as_str()).into());
    set("subnets", text::listed(&balancer.subnets));
    let named = |id: &String| match assets.security_groups.get(id) {
        Some(group) => group.name.clone(),
        None => id.clone(),
    };
    set("securityGroups", text::listed(&balancer.security_groups.iter().map(named).collect()));
    if let Some(Some(acl)) = &member.web_acl {
        set("webAcl", acl.clone());
    }
    if let Some(Some(units)) = member.capacity {
        set("capacityUnits", units.to_string());
    }
    pairs("tags", &member.tags, fields);
    pairs("attributes", member.attributes.as_ref().unwrap_or(&Pairs::new()), fields);
}

fn group(member: &GroupMember, fields: &mut Fields) {
    let mut set = |key: &str, value: String| drop(fields.insert(key.into(), value));
    set("name", member.group.name.clone());
    if let Some(kind) = &member.group.kind {
        set("vpc", kind.vpc.clone());
        set("targetType", text::target_type(kind.target_type).into());
        set("protocol", text::protocol(kind.protocol).into());
        set("protocolVersion", text::version(kind.version).into());
        set("port", kind.port.to_string());
        if let Some(port) = kind.control_port {
            set("targetControlPort", port.to_string());
        }
        set("ipAddressType", if kind.ipv6 { "ipv6" } else { "ipv4" }.into());
    }
    if let Some(check) = &member.group.health_check {
        set("healthCheck.protocol", text::protocol(check.protocol).into());
        set("healthCheck.port", check.port.map_or("traffic-port".into(), |port| port.to_string()));
        set("healthCheck.path", check.path.clone());
        set("healthCheck.interval", check.interval.to_string());
        set("healthCheck.timeout", check.timeout.to_string());
        set("healthCheck.healthyThreshold", check.healthy.to_string());
        set("healthCheck.unhealthyThreshold", check.unhealthy.to_string());
        set("healthCheck.successCodes", check.codes.clone());
    }
    pairs("tags", &member.tags, fields);
    pairs("attributes", member.attributes.as_ref().unwrap_or(&Pairs::new()), fields);
}

fn security_group(group: &SecurityGroup, fields: &mut Fields) {
    fields.insert("name".into(), group.name.clone());
    fields.insert("vpc".into(), group.vpc.clone());
    fields.extend(group.ingress.iter().map(|it| (format!("ingress {}", text::permission(it)), "allowed".into())));
    fields.extend(group.egress.iter().map(|it| (format!("egress {}", text::outbound(it)), "allowed".into())));
    pairs("tags", &group.tags, fields);
}

fn listener(member: &ListenerMember, assets: &Assets, fields: &mut Fields) {
    let settings = &member.listener.settings;
    let mut set = |key: &str, value: String| drop(fields.insert(key.into(), value));
    set("port", settings.port.to_string());
    set("protocol", text::protocol(settings.protocol).into());
    set("mutualAuthentication", text::mutual_authentication(settings.mutual_authentication.as_ref()));
    if let Some(arn) = &settings.certificate {
        set("certificate", arn.clone());
    }
    if let Some(policy) = &settings.ssl_policy {
        set("sslPolicy", policy.clone());
    }
    for arn in &member.certificates {
        set(&format!("furtherCertificates.{arn}"), "used".into());
    }
    actions("defaultActions", &settings.default_actions, assets, fields);
    pairs("tags", &member.tags, fields);
    pairs("attributes", member.attributes.as_ref().unwrap_or(&Pairs::new()), fields);
}

fn rule(member: &RuleMember, assets: &Assets, fields: &mut Fields) {
    let settings = &member.rule.settings;
    fields.insert("priority".into(), member.rule.priority.to_string());
    for (what, values) in settings.conditions.iter().map(text::condition) {
        let path = format!("conditions.{what}");
        let values = fields.get(&path).map(|before| format!("{before} and {values}")).unwrap_or(values);
        fields.insert(path, values);
    }
    for (index, transform) in settings.transforms.iter().enumerate() {
        fields.insert(format!("transforms[{index}]"), text::transform(transform));
    }
    actions("actions", &settings.actions, assets, fields);
    pairs("tags", &member.tags, fields);
}

fn actions(what: &str, actions: &[RuleAction], assets: &Assets, fields: &mut Fields) {
    let named = |arn: &str| assets.groups.get(arn).map_or_else(|| arn.to_owned(), |member| member.group.name.clone());
    for (index, action) in actions.iter().enumerate() {
        fields.insert(format!("{what}[{index}]"), text::action(action, named));
    }
}
