//! Builds the listeners of one object.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-listeners.html>

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::myingress::{
    ListenerProtocol, ListenerSpec, MutualAuthenticationMode, MutualAuthenticationSpec, RuleSpec,
};
use causeway_aws::elbv2::{MutualAuthentication, Pairs, Protocol, RuleAction, RuleSettings};

use super::actions;
use super::backends::Named;
use super::conditions::conditions;
use super::field::Field;
use super::listening::Listening;
use super::{Complaint, Inputs, Limits, RuleModel, attributes, text};
use crate::ownership::ObjectKey;

const HIGHEST_PRIORITY: u16 = 50_000;

/// The security policy of a new HTTPS listener whose spec names none: the one that AWS recommends, with TLS 1.2 and 1.3 and
/// post-quantum key exchange. AWS's API would choose one with TLS 1.0. Read on 2026-11-28:
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/describe-ssl-policies.html>
pub const RECOMMENDED_SSL_POLICY: &str = "ELBSecurityPolicy-TLS13-1-2-Res-PQ-2025-09";

/// The settings of a listener in one object.
#[derive(Clone, Debug)]
pub struct ListenerPart {
    /// Where it is in the spec: `spec.listeners[0]`.
    pub field: String,
    /// The protocol that clients speak.
    pub protocol: Protocol,
    /// Certificates, the default one first; `None` if they are found by host.
    pub certificates: Option<Vec<String>>,
    /// Hosts of the rules.
    pub hosts: BTreeSet<String>,
    /// Security policy.
    pub ssl_policy: Option<String>,
    /// How client certificates are checked.
    pub mutual_authentication: Option<MutualAuthentication>,
    /// Networks that are let in; empty for those of the balancer.
    pub inbound: BTreeSet<String>,
    pub attributes: Pairs,
    /// The actions on requests that no rule matches.
    pub default_actions: Option<Vec<RuleAction>>,
    /// Rules in the order of the spec.
    pub rules: Vec<RuleModel>,
}

/// The listeners of an object by port.
pub fn listeners(
    specs: &[ListenerSpec],
    member: &ObjectKey,
    backends: &BTreeMap<String, Named>,
    context: &Inputs<'_>,
    field: &Field<'_>,
) -> Result<BTreeMap<u16, ListenerPart>, Complaint> {
    let mut found = BTreeMap::new();
    for (index, spec) in specs.iter().enumerate() {
        let item = field.item(index).with_reason("ListenerInvalid");
        if spec.port == 0 {
            return item.name("port").complain("must be 1 to 65535");
        }
        let protocol = protocol(spec);
        let listening = Listening { protocol, port: spec.port, namespace: &member.0, backends, context };
        if found.insert(spec.port, listener(spec, member, &listening, &item)?).is_some() {
            return item.name("port").complain(format_args!("is {} a second time: merge the listeners", spec.port));
        }
    }
    Ok(found)
}

fn protocol(spec: &ListenerSpec) -> Protocol {
    match spec.protocol {
        Some(ListenerProtocol::Https) => Protocol::Https,
        None if spec.port == 443 => Protocol::Https,
        Some(ListenerProtocol::Http) | None => Protocol::Http,
    }
}

fn listener(
    spec: &ListenerSpec,
    member: &ObjectKey,
    listening: &Listening<'_>,
    field: &Field<'_>,
) -> Result<ListenerPart, Complaint> {
    let protocol = listening.protocol;
    let (hosts, rules) = rules(&spec.rules, member, listening, &field.name("rules"))?;
    if protocol == Protocol::Http {
        only_for_https(spec, field)?;
    }
    if let Some(policy) = &spec.ssl_policy {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        text::of_characters(policy, 1, 256, &field.name("sslPolicy"), allowed, "the name of a policy, as AWS has it")?;
    }
    attributes::check_listener(&spec.attributes, protocol, &field.name("attributes"))?;
    let default = field.name("defaultAction").with_reason("RuleInvalid");
    let default_actions = spec.default_action.as_ref().map(|it| actions::actions(it, listening, &default));
    let mutual = field.name("mutualAuthentication");
    let inbound = field.name("inboundCidrs").with_reason("InboundInvalid");
    let network = |(index, it): (usize, &String)| text::network(it, &inbound.item(index));
    Ok(ListenerPart {
        field: field.to_string(),
        protocol,
        certificates: certificates(&spec.certificate_arns, listening.context.limits, &field.name("certificateArns"))?,
        hosts,
        ssl_policy: spec.ssl_policy.clone(),
        mutual_authentication: spec
            .mutual_authentication
            .as_ref()
            .map(|it| mutual_authentication(it, &mutual))
            .transpose()?,
        inbound: spec.inbound_cidrs.iter().enumerate().map(network).collect::<Result<_, _>>()?,
        attributes: spec.attributes.clone(),
        default_actions: default_actions.transpose()?,
        rules,
    })
}

fn only_for_https(spec: &ListenerSpec, field: &Field<'_>) -> Result<(), Complaint> {
    for (name, user_provided) in [
        ("certificateArns", !spec.certificate_arns.is_empty()),
        ("sslPolicy", spec.ssl_policy.is_some()),
        ("mutualAuthentication", spec.mutual_authentication.is_some()),
    ] {
        if user_provided {
            return field.name(name).complain("is for HTTPS listeners: set protocol to HTTPS, or remove it");
        }
    }
    Ok(())
}

/// The default certificate, then the others in sorted order.
fn certificates(arns: &[String], limits: &Limits, field: &Field<'_>) -> Result<Option<Vec<String>>, Complaint> {
    for (index, arn) in arns.iter().enumerate() {
        text::arn(arn, &["acm", "iam"], &field.item(index))?;
    }
    let Some((default, others)) = arns.split_first() else { return Ok(None) };
    let others: BTreeSet<&String> = others.iter().filter(|arn| *arn != default).collect();
    if others.len() > limits.certificates {
        return field.complain(format_args!("must have at most {} entries: remove some", limits.certificates + 1));
    }
    Ok(Some(std::iter::once(default).chain(others).cloned().collect()))
}

/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/mutual-authentication.html>
fn mutual_authentication(
    spec: &MutualAuthenticationSpec,
    field: &Field<'_>,
) -> Result<MutualAuthentication, Complaint> {
    match (spec.mode, &spec.trust_store_arn) {
        (MutualAuthenticationMode::Verify, Some(arn)) => {
            text::arn(arn, &["elasticloadbalancing"], &field.name("trustStoreArn"))?;
            Ok(MutualAuthentication::Verify {
                trust_store: arn.clone(),
                ignore_expiry: spec.ignore_client_certificate_expiry,
                advertise_authorities: spec.advertise_trust_store_ca_names,
            })
        }
        (MutualAuthenticationMode::Verify, None) => field.name("trustStoreArn").complain("is needed with mode verify"),
        (MutualAuthenticationMode::Passthrough, None)
            if !spec.ignore_client_certificate_expiry && !spec.advertise_trust_store_ca_names =>
        {
            Ok(MutualAuthentication::Passthrough)
        }
        (MutualAuthenticationMode::Passthrough, _) => {
            field.complain("has settings of mode verify: set mode to verify, or remove them")
        }
    }
}

/// The rules of a listener, and the hosts that they name.
fn rules(
    specs: &[RuleSpec],
    member: &ObjectKey,
    listening: &Listening<'_>,
    field: &Field<'_>,
) -> Result<(BTreeSet<String>, Vec<RuleModel>), Complaint> {
    let (mut hosts, mut taken, mut found) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (index, spec) in specs.iter().enumerate() {
        let item = field.item(index).with_reason("RuleInvalid");
        if let Some(priority) = spec.priority {
            let field = item.name("priority");
            if !(1..=HIGHEST_PRIORITY).contains(&priority) {
                return field.complain(format_args!("must be 1 to {HIGHEST_PRIORITY}"));
            }
            if !taken.insert(priority) {
                return field.complain(format_args!("is {priority}, as that of another rule: choose another number"));
            }
        }
        let conditions = conditions(spec, listening.context.limits, &item)?;
        let actions = actions::actions(&spec.action, listening, &item.name("action"))?;
        let transforms = actions::transforms(spec.rewrite.as_ref(), &actions, &item.name("rewrite"))?;
        hosts.extend(spec.hosts.iter().map(|host| host.to_ascii_lowercase()));
        found.push(RuleModel {
            member: member.clone(),
            field: item.to_string(),
            priority: spec.priority,
            settings: RuleSettings { conditions, transforms, actions },
        });
    }
    Ok((hosts, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CertificatesModel;
    use crate::model::fixtures::{complaint, model};
    use serde_json::{Value, json};

    const CERTIFICATE: &str = "arn:aws:acm:eu-west-1:000000000000:certificate/a";

    fn rule(host: &str, priority: Option<u16>) -> Value {
        json!({ "hosts": [host], "priority": priority, "action": { "fixedResponse": { "statusCode": 200 } } })
    }

    fn one(listener: &Value) -> Value {
        json!({ "listeners": [listener] })
    }

    #[test]
    fn port_443_is_https_and_others_are_not() {
        let listeners = model(json!({ "listeners": [
            { "port": 443, "certificateArns": [CERTIFICATE] },
            { "port": 8443, "protocol": "HTTPS", "certificateArns": [CERTIFICATE] },
            { "port": 8080 },
        ] }))
        .listeners;
        let protocols: Vec<_> = listeners.iter().map(|(port, listener)| (*port, listener.protocol)).collect();
        assert_eq!(protocols, [(443, Protocol::Https), (8080, Protocol::Http), (8443, Protocol::Https)]);
    }

    #[test]
    fn certificates_are_found_by_the_hosts_of_the_rules() {
        let listener = json!({ "port": 443, "rules": [rule("A.example.com", None), rule("*.example.org", None)] });
        let hosts = BTreeSet::from(["*.example.org".to_owned(), "a.example.com".to_owned()]);
        assert_eq!(
            model(one(&listener)).listeners[&443].certificates,
            CertificatesModel::Chosen { given: Vec::new(), hosts }
        );
    }

    #[test]
    fn the_first_certificate_is_the_default_and_none_is_twice() {
        let arn = |name: &str| format!("arn:aws:acm:eu-west-1:000000000000:certificate/{name}");
        let arns = ["b", "c", "a", "b", "c"].map(arn);
        let user_provided =
            CertificatesModel::Chosen { given: ["b", "a", "c"].map(arn).to_vec(), hosts: BTreeSet::new() };
        assert_eq!(
            model(one(&json!({ "port": 443, "certificateArns": arns }))).listeners[&443].certificates,
            user_provided
        );
    }

    #[test]
    fn client_certificates_are_checked_as_asked() {
        let store = "arn:aws:elasticloadbalancing:eu-west-1:000000000000:truststore/a/b";
        let with = |mutual: Value| {
            let listener = json!({ "port": 443, "certificateArns": [CERTIFICATE], "mutualAuthentication": mutual });
            model(one(&listener)).listeners[&443].mutual_authentication.clone()
        };
        assert_eq!(with(json!({ "mode": "passthrough" })), Some(MutualAuthentication::Passthrough));
        let verify = with(json!({ "mode": "verify", "trustStoreArn": store, "ignoreClientCertificateExpiry": true }));
        let (trust_store, ignore_expiry, advertise_authorities) = (store.to_owned(), true, false);
        assert_eq!(verify, Some(MutualAuthentication::Verify { trust_store, ignore_expiry, advertise_authorities }));
    }

    #[test]
    fn what_aws_would_refuse_is_named_with_field_and_fix() {
        let arns: Vec<String> = (0..27).map(|it| format!("{CERTIFICATE}{it}")).collect();
        let mutual =
            |mutual: Value| json!({ "port": 443, "certificateArns": [CERTIFICATE], "mutualAuthentication": mutual });
        for (listener, words) in [
            (json!({ "port": 0 }), "port must be 1 to 65535"),
            (json!({ "port": 80, "certificateArns": [CERTIFICATE] }), "certificateArns is for HTTPS listeners"),
            (json!({ "port": 80, "sslPolicy": "a" }), "sslPolicy is for HTTPS listeners"),
            (
                json!({ "port": 80, "mutualAuthentication": { "mode": "passthrough" } }),
                "mutualAuthentication is for HTTPS",
            ),
            (json!({ "port": 443 }), "is HTTPS and needs a certificate: give certificateArns, or hosts in its rules"),
            (json!({ "port": 443, "certificateArns": ["x"] }), "certificateArns[0] must be an ARN of acm or iam"),
            (json!({ "port": 443, "certificateArns": arns }), "certificateArns must have at most 26 entries"),
            (json!({ "port": 443, "certificateArns": [CERTIFICATE], "sslPolicy": "a b" }), "sslPolicy has ' '"),
            (mutual(json!({ "mode": "verify" })), "mutualAuthentication.trustStoreArn is needed with mode verify"),
            (
                mutual(json!({ "mode": "verify", "trustStoreArn": "a" })),
                "trustStoreArn must be an ARN of elasticloadbalancing",
            ),
            (
                mutual(json!({ "mode": "passthrough", "trustStoreArn": "a" })),
                "mutualAuthentication has settings of mode verify",
            ),
            (json!({ "port": 80, "attributes": { "a b": "c" } }), "attributes[a b] has ' '"),
            (json!({ "port": 80, "rules": [rule("a.b", Some(0))] }), "rules[0].priority must be 1 to 50000"),
            (
                json!({ "port": 80, "rules": [rule("a.b", Some(7)), rule("c.d", Some(7))] }),
                "rules[1].priority is 7, as that of another",
            ),
        ] {
            let (_, message) = complaint(one(&listener));
            assert!(
                message.starts_with("spec.listeners[0]") && message.contains(words),
                "{message}\nshould say: {words}"
            );
        }
        let (_, message) = complaint(json!({ "listeners": [{ "port": 80 }, { "port": 80 }] }));
        assert_eq!(message, "spec.listeners[1].port is 80 a second time: merge the listeners");
    }
}
