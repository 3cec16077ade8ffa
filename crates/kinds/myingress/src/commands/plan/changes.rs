//! The calls that actions consist of, and what each call changes.

use causeway_aws::elbv2::{Pairs, RuleAction};

use super::fields::{Fields, Thing, conditions, difference, listener_of};
use super::report::{Change, Field, System};
use crate::action::{Action, BalancerAction, GroupAction, ListenerAction, SecurityAction};
use crate::region::assets::Assets;

/// The calls of an action that leads from `before` to `after`. `adopted` are the tags of a balancer that is to be
/// adopted.
pub fn changes(action: &Action, before: &Assets, after: &Assets, adopted: Option<&Pairs>) -> Vec<Change> {
    match action {
        Action::Security(action) => security(action, before, after),
        Action::Balancer(action) => balancer(action, before, after, adopted),
        Action::Group(action) => group(action, before, after),
        Action::Listener(action) => listener(action, before, after),
        Action::Bind(_) => Vec::new(),
    }
}

/// An AWS call.
pub fn call(call: &'static str, subject: String, fields: Vec<Field>) -> Change {
    Change { system: System::Aws, call, subject, fields }
}

/// The fields of a resource that change. Attributes and outbound rules that AWS gives to a new resource are left out.
fn changed(thing: &Thing, before: &Assets, after: &Assets) -> Vec<Field> {
    let (old, mut new): (Fields, Fields) = (thing.fields(before), thing.fields(after));
    if old.is_empty() {
        new.retain(|key, _| !key.starts_with("attributes.") && !key.starts_with("egress "));
    }
    difference(&old, &new)
}

fn created_arn<'a, T>(
    before: &'a std::collections::BTreeMap<String, T>,
    after: &'a std::collections::BTreeMap<String, T>,
) -> String {
    after.keys().find(|key| !before.contains_key(*key)).cloned().unwrap_or_default()
}

fn security(action: &SecurityAction, before: &Assets, after: &Assets) -> Vec<Change> {
    let name = |id: &String| before.security_groups.get(id).map_or(id, |group| &group.name).clone();
    let (operation, id, name) = match action {
        SecurityAction::Create { name, .. } => {
            ("CreateSecurityGroup", created_arn(&before.security_groups, &after.security_groups), name.clone())
        }
        SecurityAction::Authorize { id, .. } => ("AuthorizeSecurityGroupIngress", id.clone(), name(id)),
        SecurityAction::Revoke { id, .. } => ("RevokeSecurityGroupIngress", id.clone(), name(id)),
        SecurityAction::LetOut { id, .. } => ("AuthorizeSecurityGroupEgress", id.clone(), name(id)),
        SecurityAction::KeepIn { id, .. } => ("RevokeSecurityGroupEgress", id.clone(), name(id)),
        SecurityAction::LetIn(entry) | SecurityAction::ShutOut(entry) => {
            let operation = match action {
                SecurityAction::LetIn(_) => "AuthorizeSecurityGroupIngress",
                _ => "RevokeSecurityGroupIngress",
            };
            let fields = changed(&Thing::SecurityGroup(entry.from.clone()), before, after);
            return vec![call(operation, format!("security group {} of the targets", entry.group), fields)];
        }
        SecurityAction::AddTags { id, .. } => ("CreateTags", id.clone(), name(id)),
        SecurityAction::RemoveTags { id, .. } => ("DeleteTags", id.clone(), name(id)),
        SecurityAction::Delete { name, .. } => {
            return vec![call("DeleteSecurityGroup", format!("security group {name}"), Vec::new())];
        }
    };
    vec![call(operation, format!("security group {name}"), changed(&Thing::SecurityGroup(id), before, after))]
}

fn balancer(action: &BalancerAction, before: &Assets, after: &Assets, adopted: Option<&Pairs>) -> Vec<Change> {
    let operation = match action {
        BalancerAction::Create(_) => "CreateLoadBalancer",
        // This call changes nothing.
        BalancerAction::Verify { .. } => return Vec::new(),
        BalancerAction::SetSubnets { .. } => "SetSubnets",
        BalancerAction::SetSecurityGroups { .. } => "SetSecurityGroups",
        BalancerAction::SetIpAddressType { .. } => "SetIpAddressType",
        BalancerAction::SetAttributes { .. } => "ModifyLoadBalancerAttributes",
        BalancerAction::SetWebAcl { acl: Some(_), .. } => "AssociateWebACL",
        BalancerAction::SetWebAcl { acl: None, .. } => "DisassociateWebACL",
        BalancerAction::SetCapacity { .. } => "ModifyCapacityReservation",
        BalancerAction::AddTags { .. } | BalancerAction::Adopt { .. } => "AddTags",
        BalancerAction::RemoveTags { .. } => "RemoveTags",
        BalancerAction::Delete { name, .. } => {
            return vec![call("DeleteLoadBalancer", format!("load balancer {name}"), Vec::new())];
        }
    };
    if let BalancerAction::Adopt { name, tags, .. } = action {
        let named = |tags: &Pairs| tags.iter().map(|(key, value)| (format!("tags.{key}"), value.clone())).collect();
        let old: Fields = named(adopted.unwrap_or(&Pairs::new()));
        let mut new = old.clone();
        new.extend::<Fields>(named(tags));
        return vec![call(operation, format!("load balancer {name}, which is adopted"), difference(&old, &new))];
    }
    let arn = action.arn().map_or_else(|| created_arn(&before.balancers, &after.balancers), str::to_owned);
    let subject = format!("load balancer {}", name_of(after, &arn));
    vec![call(operation, subject, changed(&Thing::Balancer(arn), before, after))]
}

fn name_of(assets: &Assets, balancer: &str) -> String {
    assets.balancers.get(balancer).map_or(balancer, |member| member.balancer.name.as_str()).into()
}

fn group(action: &GroupAction, before: &Assets, after: &Assets) -> Vec<Change> {
    let (operation, arn, name) = match action {
        GroupAction::Create(new) => ("CreateTargetGroup", created_arn(&before.groups, &after.groups), &new.name),
        GroupAction::SetHealthCheck { arn, name, .. } => ("ModifyTargetGroup", arn.clone(), name),
        GroupAction::SetAttributes { arn, name, .. } => ("ModifyTargetGroupAttributes", arn.clone(), name),
        GroupAction::AddTags { arn, name, .. } => ("AddTags", arn.clone(), name),
        GroupAction::RemoveTags { arn, name, .. } => ("RemoveTags", arn.clone(), name),
        GroupAction::Delete { name, .. } => {
            return vec![call("DeleteTargetGroup", format!("target group {name}"), Vec::new())];
        }
    };
    vec![call(operation, format!("target group {name}"), changed(&Thing::Group(arn), before, after))]
}

fn listener(action: &ListenerAction, before: &Assets, after: &Assets) -> Vec<Change> {
    let balancer = action.balancer().to_owned();
    let name = name_of(after, &balancer);
    let place = |port: &u16| format!("listener on port {port} of {name}");
    let listeners =
        |assets: &Assets| assets.balancers.get(&balancer).and_then(|it| it.listeners.clone()).unwrap_or_default();
    let one = |operation, subject: String, thing: Thing, secret: bool| {
        let mut fields = changed(&thing, before, after);
        if fields.is_empty() && secret {
            // No other field shows what this call is for.
            let hidden = || Some("(hidden)".to_owned());
            fields.push(Field { path: "clientSecretName".into(), old: hidden(), new: hidden() });
        }
        vec![call(operation, subject, fields)]
    };
    let this = |arn: &String| Thing::Listener { balancer: balancer.clone(), arn: arn.clone() };
    match action {
        ListenerAction::Create { settings, .. } => {
            let arn = created_arn(&listeners(before), &listeners(after));
            one("CreateListener", place(&settings.port), this(&arn), false)
        }
        ListenerAction::Modify { arn, settings, .. } => {
            one("ModifyListener", place(&settings.port), this(arn), has_secret(&settings.default_actions))
        }
        ListenerAction::SetAttributes { arn, port, .. } => {
            one("ModifyListenerAttributes", place(port), this(arn), false)
        }
        // AWS takes one certificate per call.
        ListenerAction::AddCertificates { port, certificates, .. } => {
            let fields =
                |arn: &String| vec![Field { path: "furtherCertificates".into(), old: None, new: Some(arn.clone()) }];
            certificates.iter().map(|arn| call("AddListenerCertificates", place(port), fields(arn))).collect()
        }
        ListenerAction::RemoveCertificates { port, certificates, .. } => {
            let fields =
                |arn: &String| vec![Field { path: "furtherCertificates".into(), old: Some(arn.clone()), new: None }];
            certificates.iter().map(|arn| call("RemoveListenerCertificates", place(port), fields(arn))).collect()
        }
        ListenerAction::AddTags { arn, port, .. } => match listener_with_rule(after, &balancer, arn) {
            Some((listener, message)) => {
                let thing = Thing::Rule { balancer: balancer.clone(), listener, arn: arn.clone() };
                one("AddTags", format!("rule {message} on port {port} of {name}"), thing, false)
            }
            None => one("AddTags", place(port), this(arn), false),
        },
        ListenerAction::RemoveTags { arns, .. } => {
            let things = arns.iter().map(|arn| match listener_with_rule(after, &balancer, arn) {
                Some((listener, _)) => Thing::Rule { balancer: balancer.clone(), listener, arn: arn.clone() },
                None => this(arn),
            });
            // All of them lose the same keys, mostly with the same values, so each field is listed once.
            let mut fields: Vec<Field> = things.flat_map(|thing| changed(&thing, before, after)).collect();
            fields.sort_by(|a, b| (&a.path, &a.old).cmp(&(&b.path, &b.old)));
            fields.dedup();
            let subject = match arns.len() {
                1 => format!("a listener or rule of {name}"),
                count => format!("{count} listeners and rules of {name}"),
            };
            vec![call("RemoveTags", subject, fields)]
        }
        ListenerAction::Delete { port, .. } => vec![call("DeleteListener", place(port), Vec::new())],
        ListenerAction::CreateRule { listener, port, priority, .. } => {
            let rules =
                |assets| listener_of(assets, &balancer, listener).map(|it| it.rules.clone()).unwrap_or_default();
            let (listener, arn) = (listener.clone(), created_arn(&rules(before), &rules(after)));
            let thing = Thing::Rule { balancer: balancer.clone(), listener, arn };
            one("CreateRule", format!("rule {priority} on port {port} of {name}"), thing, false)
        }
        ListenerAction::ModifyRule { listener, port, arn, settings, .. } => {
            let priority =
                listener_of(before, &balancer, listener).and_then(|it| it.rules.get(arn)).map(|it| it.rule.priority);
            let thing = Thing::Rule { balancer: balancer.clone(), listener: listener.clone(), arn: arn.clone() };
            let subject = format!("rule {} on port {port} of {name}", priority.unwrap_or_default());
            one("ModifyRule", subject, thing, has_secret(&settings.actions))
        }
        ListenerAction::SetPriorities { listener, port, .. } => {
            let thing = Thing::Order { balancer: balancer.clone(), listener: listener.clone() };
            one("SetRulePriorities", format!("rules on port {port} of {name}"), thing, false)
        }
        ListenerAction::DeleteRule { port, priority, .. } => {
            vec![call("DeleteRule", format!("rule {priority} on port {port} of {name}"), Vec::new())]
        }
    }
}

/// The listener of a rule, and a name of the rule for people.
fn listener_with_rule(assets: &Assets, balancer: &str, rule: &str) -> Option<(String, String)> {
    let listeners = assets.balancers.get(balancer)?.listeners.as_ref()?;
    let (arn, listener) = listeners.iter().find(|(_, listener)| listener.rules.contains_key(rule))?;
    let member = listener.rules.get(rule)?;
    Some((arn.clone(), format!("{} ({})", member.rule.priority, conditions(member))))
}

fn has_secret(actions: &[RuleAction]) -> bool {
    actions.iter().any(|action| matches!(action, RuleAction::AuthenticateOidc(oidc) if oidc.client_secret.is_some()))
}
