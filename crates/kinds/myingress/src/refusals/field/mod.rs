//! Finds the field of a spec that a refused action is about. Pure.
//!
//! AWS names values, not fields. The action has the port, the name or the attributes, and the spec shows which field
//! they come from.

use std::collections::BTreeSet;

use kube::ResourceExt;

use causeway_api::MyIngress;
use causeway_api::myingress::{BackendSpec, ListenerSpec, MyIngressSpec, Scheme, StickinessType};
use causeway_aws::aws::AwsError;
use causeway_aws::ec2::{Permission, Source};
use causeway_aws::elbv2::{ListenerSettings, Pairs, RuleSettings};

use crate::action::{Action, BalancerAction, GroupAction, ListenerAction, SecurityAction};
use crate::members::key;
use crate::model;
use crate::ownership::Owner;

/// The field that AWS refused. `None` if the object does not have it: another member of its group may have asked for
/// it.
pub fn field_of(error: &AwsError, action: &Action, owner: &Owner, object: &MyIngress) -> Option<String> {
    let spec = &object.spec;
    match action {
        Action::Balancer(BalancerAction::SetAttributes { attributes, .. }) => {
            Some(attribute_of(error, attributes, |key| attribute_field(spec, key)))
        }
        Action::Group(action) => {
            let (index, backend) = backend_of(action, owner, object)?;
            let field = format!("spec.backends[{index}]");
            Some(match action {
                GroupAction::SetAttributes { attributes, .. } => {
                    attribute_of(error, attributes, |key| format!("{field}.{}", group_attribute_field(backend, key)))
                }
                GroupAction::SetHealthCheck { .. } => format!("{field}.healthCheck"),
                _ => field,
            })
        }
        Action::Listener(action) => {
            target_group_field(error, action, spec).or_else(|| listener_field(error, action, spec))
        }
        Action::Security(SecurityAction::Authorize { permissions, .. }) => inbound_field(error, permissions, spec),
        _ => None,
    }
}

/// The field with the target group that AWS names.
fn target_group_field(error: &AwsError, action: &ListenerAction, spec: &MyIngressSpec) -> Option<String> {
    let forwarded = action.forwarded_to();
    let mut named = model::foreign_groups(spec).into_iter().filter(|group| forwarded.contains(group.arn));
    named.find(|group| is_named(group.arn, &error.message)).map(|group| group.field)
}

/// The field with the network or prefix list that AWS names, or with the only one that it was asked to let in.
fn inbound_field(error: &AwsError, permissions: &BTreeSet<Permission>, spec: &MyIngressSpec) -> Option<String> {
    let mut asked = model::inbound_of(spec);
    asked.retain(|it| permissions.iter().any(|permission| it.asks_for(permission)));
    let named = asked.iter().find(|it| is_named(it.text, &error.message) || is_named(it.canonical(), &error.message));
    let sources: BTreeSet<&Source> = permissions.iter().map(|permission| &permission.source).collect();
    let only = asked.first().filter(|_| sources.len() == 1);
    named.or(only).map(|it| it.field.clone())
}

/// Reports whether a text names this value, and not only a longer one that contains it.
pub fn is_named(value: &str, text: &str) -> bool {
    let belongs = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | '/');
    !value.is_empty()
        && text.match_indices(value).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let mut after = text[at + value.len()..].chars();
            // A full stop ends a sentence, or goes on with a name.
            let goes_on = match after.next() {
                Some('.') => after.next().is_some_and(belongs),
                next => next.is_some_and(belongs),
            };
            !before.is_some_and(|it| belongs(it) || it == '.') && !goes_on
        })
}

fn listener_field(error: &AwsError, action: &ListenerAction, spec: &MyIngressSpec) -> Option<String> {
    let port = match action {
        ListenerAction::Create { settings, .. } | ListenerAction::Modify { settings, .. } => settings.port,
        ListenerAction::SetAttributes { port, .. }
        | ListenerAction::AddCertificates { port, .. }
        | ListenerAction::RemoveCertificates { port, .. }
        | ListenerAction::CreateRule { port, .. }
        | ListenerAction::ModifyRule { port, .. } => *port,
        _ => return None,
    };
    let (index, listener) = spec.listeners.iter().enumerate().find(|(_, listener)| listener.port == port)?;
    let field = format!("spec.listeners[{index}]");
    Some(match action {
        ListenerAction::Create { settings, .. } | ListenerAction::Modify { settings, .. } => {
            let named = setting_of(error, settings, listener);
            named.map_or_else(|| field.clone(), |named| format!("{field}.{named}"))
        }
        ListenerAction::SetAttributes { attributes, .. } => {
            attribute_of(error, attributes, |key| format!("{field}.attributes[{key}]"))
        }
        ListenerAction::AddCertificates { certificates, .. } => {
            let added: Vec<&String> = certificates.iter().collect();
            certificate_of(error, &added, listener).map_or_else(|| field.clone(), |named| format!("{field}.{named}"))
        }
        ListenerAction::CreateRule { settings, .. } | ListenerAction::ModifyRule { settings, .. } => {
            rule_of(settings, listener)
                .map_or_else(|| format!("{field}.rules"), |rule| format!("{field}.rules[{rule}]"))
        }
        _ => field,
    })
}

/// The setting of a listener that AWS's code or message is about.
fn setting_of(error: &AwsError, settings: &ListenerSettings, listener: &ListenerSpec) -> Option<String> {
    let code = error.code.as_deref().unwrap_or_default();
    let api_message = error.message.to_lowercase();
    if code.starts_with("SSLPolicy") || api_message.contains("ssl policy") || api_message.contains("security policy") {
        return listener.ssl_policy.is_some().then(|| "sslPolicy".into());
    }
    if code.starts_with("TrustStore") || api_message.contains("trust store") {
        let user_provided = listener.mutual_authentication.as_ref().is_some_and(|it| it.trust_store_arn.is_some());
        return user_provided.then(|| "mutualAuthentication.trustStoreArn".into());
    }
    if code.contains("Certificate") || api_message.contains("certificate") {
        return certificate_of(error, &settings.certificate.iter().collect::<Vec<_>>(), listener);
    }
    let by_default = code.starts_with("TargetGroup") || code.contains("Action") || code == "IncompatibleProtocols";
    (by_default && listener.default_action.is_some()).then(|| "defaultAction".into())
}

/// The certificate that AWS names, or the only one that it was asked to take.
fn certificate_of(error: &AwsError, asked: &[&String], listener: &ListenerSpec) -> Option<String> {
    let place = |arn: &String| listener.certificate_arns.iter().position(|it| it == arn);
    let named = asked.iter().copied().find(|arn| error.message.contains(arn.as_str()));
    let only = if let [arn] = asked { Some(*arn) } else { None };
    match named.or(only) {
        Some(arn) => place(arn).map(|place| format!("certificateArns[{place}]")),
        None => (!listener.certificate_arns.is_empty()).then(|| "certificateArns".into()),
    }
}

/// The rule with these conditions. Its actions cannot be compared, because they refer to target groups in another way
/// than the spec.
fn rule_of(settings: &RuleSettings, listener: &ListenerSpec) -> Option<usize> {
    listener.rules.iter().position(|rule| model::conditions_of(rule).is_some_and(|it| it == settings.conditions))
}

/// The attribute that AWS's message names, or all that it was asked to set.
fn attribute_of(error: &AwsError, asked: &Pairs, field: impl Fn(&str) -> String) -> String {
    let api_message = error.message.to_lowercase();
    let by_topic = |key: &&String| match key.rsplit('.').next() {
        Some(topic @ ("bucket" | "prefix")) => api_message.contains(topic),
        _ => false,
    };
    let named = asked.keys().find(|key| api_message.contains(key.as_str())).or_else(|| asked.keys().find(by_topic));
    match named {
        Some(key) => field(key),
        None => asked.keys().map(|key| field(key)).collect::<Vec<_>>().join(", "),
    }
}

/// The field in which the spec sets an attribute of the balancer: a field of its own, or the map.
fn attribute_field(spec: &MyIngressSpec, key: &str) -> String {
    let own = match key {
        "idle_timeout.timeout_seconds" => spec.idle_timeout.as_ref().map(|_| "idleTimeout"),
        "deletion_protection.enabled" => spec.deletion_protection.map(|_| "deletionProtection"),
        "routing.http2.enabled" => spec.http2.map(|_| "http2"),
        "routing.http.drop_invalid_header_fields.enabled" => spec.drop_invalid_headers.map(|_| "dropInvalidHeaders"),
        "access_logs.s3.enabled" => spec.access_logs.as_ref().map(|_| "accessLogs"),
        "access_logs.s3.bucket" => spec.access_logs.as_ref().map(|_| "accessLogs.bucket"),
        "access_logs.s3.prefix" => spec.access_logs.as_ref().map(|_| "accessLogs.prefix"),
        _ => None,
    };
    own.map_or_else(|| format!("spec.attributes[{key}]"), |field| format!("spec.{field}"))
}

/// The field in which a backend sets an attribute of its target group.
fn group_attribute_field(backend: &BackendSpec, key: &str) -> String {
    let stickiness = backend.stickiness.as_ref();
    let kind = |kind: StickinessType| stickiness.is_some_and(|it| it.kind == kind);
    let own = match key {
        "load_balancing.algorithm.type" => backend.algorithm.map(|_| "algorithm"),
        "slow_start.duration_seconds" => backend.slow_start.as_ref().map(|_| "slowStart"),
        "deregistration_delay.timeout_seconds" => backend.deregistration_delay.as_ref().map(|_| "deregistrationDelay"),
        "stickiness.enabled" => stickiness.map(|_| "stickiness"),
        "stickiness.type" => stickiness.map(|_| "stickiness.type"),
        "stickiness.lb_cookie.duration_seconds" => kind(StickinessType::LbCookie).then_some("stickiness.duration"),
        "stickiness.app_cookie.duration_seconds" => kind(StickinessType::AppCookie).then_some("stickiness.duration"),
        "stickiness.app_cookie.cookie_name" => kind(StickinessType::AppCookie).then_some("stickiness.cookieName"),
        _ => None,
    };
    own.map_or_else(|| format!("attributes[{key}]"), str::to_owned)
}

/// The backend whose target group the action is about.
fn backend_of<'a>(action: &GroupAction, owner: &Owner, object: &'a MyIngress) -> Option<(usize, &'a BackendSpec)> {
    let name = match action {
        GroupAction::Create(new) => &new.name,
        GroupAction::SetHealthCheck { name, .. }
        | GroupAction::SetAttributes { name, .. }
        | GroupAction::AddTags { name, .. }
        | GroupAction::RemoveTags { name, .. }
        | GroupAction::Delete { name, .. } => name,
    };
    let of = |scheme: Scheme| model::backend_called(name, &object.spec.backends, &key(object), owner, scheme);
    let backend = of(object.spec.scheme).or_else(|| of(Scheme::Internal)).or_else(|| of(Scheme::InternetFacing))?;
    object.spec.backends.iter().enumerate().find(|(_, it)| it.name == backend)
}

/// How to turn deletion protection off in this spec so that the API server accepts it.
pub fn unprotecting(object: &MyIngress) -> String {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let patch = if object.spec.attributes.contains_key("deletion_protection.enabled") {
        r#"{"spec":{"attributes":{"deletion_protection.enabled":"false"}}}"#
    } else {
        r#"{"spec":{"deletionProtection":false}}"#
    };
    format!(
        "turn it off: kubectl -n {namespace} patch myingress {name} --type merge -p '{patch}'; or keep the load balancer: set \
         spec.deletionPolicy to Retain"
    )
}

#[cfg(test)]
mod tests;
