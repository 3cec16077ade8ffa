//! Settings in readable words. Everything that can differ is in them, except for secrets.

use std::collections::BTreeSet;

use causeway_aws::ec2::{Entry, Permission, Source};
use causeway_aws::elbv2::{
    Condition, Match, MutualAuthentication, Protocol, ProtocolVersion, RuleAction, Session, TargetType, Transform,
    TransformedPart, Unauthenticated,
};

/// The part of a request that is compared, and the values that match.
pub fn condition(condition: &Condition) -> (String, String) {
    let matched = |what: &str, values: &Match| match values {
        Match::Wildcards(values) => (what.to_owned(), listed(values)),
        Match::Regex(values) => (format!("{what} (regex)"), listed(values)),
    };
    match condition {
        Condition::Host(values) => matched("host", values),
        Condition::Path(values) => matched("path", values),
        Condition::Header { name, values } => matched(&format!("header {name}"), values),
        Condition::Query(pairs) => {
            let pair = |(key, value): &(Option<String>, String)| match key {
                Some(key) => format!("{key}={value}"),
                None => value.clone(),
            };
            ("query".into(), pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        Condition::Method(methods) => ("method".into(), listed(methods)),
        Condition::SourceIp(networks) => ("sourceIp".into(), listed(networks)),
        Condition::Unknown(what) => (what.clone(), "(unknown to Causeway)".into()),
    }
}

/// Describes an action on requests. `group` names a target group by its ARN.
pub fn action(action: &RuleAction, group: impl Fn(&str) -> String) -> String {
    match action {
        RuleAction::Forward { groups, stickiness } => {
            let weights = groups.iter().map(|(arn, weight)| format!("{} (weight {weight})", group(arn)));
            let sticky = stickiness.map(|seconds| format!("; sticky for {seconds} s")).unwrap_or_default();
            format!("forward to {}{sticky}", weights.collect::<Vec<_>>().join(", "))
        }
        RuleAction::Redirect(to) => {
            let status = if to.permanent { 301 } else { 302 };
            format!("redirect {status} to {}://{}:{}{}?{}", to.protocol, to.host, to.port, to.path, to.query)
        }
        RuleAction::FixedResponse(response) => {
            let kind = response.content_type.as_deref().unwrap_or("text/plain");
            let body = response.body.as_ref().map(|body| format!(" {body:?}")).unwrap_or_default();
            format!("respond {} {kind}{body}", response.status)
        }
        RuleAction::AuthenticateOidc(oidc) => format!(
            "log in at {} (authorization {}, token {}, user info {}, client {}, secret hidden; {})",
            oidc.issuer,
            oidc.authorization_endpoint,
            oidc.token_endpoint,
            oidc.user_info_endpoint,
            oidc.client_id,
            session(&oidc.session)
        ),
        RuleAction::AuthenticateCognito(cognito) => format!(
            "log in with Cognito {} (client {}, domain {}; {})",
            cognito.user_pool,
            cognito.client_id,
            cognito.domain,
            session(&cognito.session)
        ),
        RuleAction::ValidateJwt(jwt) => {
            let claim =
                |it: &causeway_aws::elbv2::JwtClaim| format!("{} ({}) {}", it.name, it.format, it.values.join("|"));
            let claims: Vec<String> = jwt.claims.iter().map(claim).collect();
            format!("require a token of {} (keys {}) with [{}]", jwt.issuer, jwt.jwks_endpoint, claims.join(", "))
        }
        RuleAction::Unknown(what) => format!("{what} (unknown to Causeway)"),
    }
}

fn session(session: &Session) -> String {
    let otherwise = match session.unauthenticated {
        Unauthenticated::Authenticate => "authenticate",
        Unauthenticated::Allow => "allow",
        Unauthenticated::Deny => "deny",
    };
    let further: Vec<String> = session.parameters.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!(
        "cookie {}, scope {}, {} s, unauthenticated: {otherwise}, parameters [{}]",
        session.cookie,
        session.scope,
        session.timeout_seconds,
        further.join(", ")
    )
}

/// A rewrite.
pub fn transform(transform: &Transform) -> String {
    let part = match transform.part {
        TransformedPart::Url => "url",
        TransformedPart::Host => "host",
        TransformedPart::Unknown => "(unknown to Causeway)",
    };
    format!("rewrite {part} {} to {}", transform.regex, transform.replacement)
}

/// How client certificates are checked.
pub fn mutual_authentication(how: Option<&MutualAuthentication>) -> String {
    match how {
        None => "off".into(),
        Some(MutualAuthentication::Passthrough) => "passthrough".into(),
        Some(MutualAuthentication::Verify { trust_store, ignore_expiry, advertise_authorities }) => {
            let expired = if *ignore_expiry { ", expired ones pass" } else { "" };
            let advertised = if *advertise_authorities { ", authorities advertised" } else { "" };
            format!("verify by {trust_store}{expired}{advertised}")
        }
    }
}

/// The source and the port that are let in.
pub fn permission(permission: &Permission) -> String {
    traffic(permission, "from")
}

/// Which traffic may go where.
pub fn outbound(permission: &Permission) -> String {
    traffic(permission, "to")
}

fn traffic(permission: &Permission, direction: &str) -> String {
    let (Source::Network(peer) | Source::Group(peer) | Source::PrefixList(peer)) = &permission.source;
    match permission.ports {
        Some(ports) if ports.from == ports.to => format!("{} {} {direction} {peer}", permission.protocol, ports.from),
        Some(ports) => format!("{} {}-{} {direction} {peer}", permission.protocol, ports.from, ports.to),
        None => format!("{} {direction} {peer}", permission.protocol),
    }
}

/// The ports on which another group is let in.
pub fn entry(entry: &Entry) -> String {
    match entry.ports {
        Some(ports) => format!("{} {}-{}", entry.protocol, ports.from, ports.to),
        None => entry.protocol.clone(),
    }
}

/// AWS's name of the protocol.
pub fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http => "HTTP",
        Protocol::Https => "HTTPS",
    }
}

/// AWS's name of the version.
pub fn version(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::Http1 => "HTTP1",
        ProtocolVersion::Http2 => "HTTP2",
        ProtocolVersion::Grpc => "GRPC",
    }
}

/// AWS's name of the target type.
pub fn target_type(target_type: TargetType) -> &'static str {
    match target_type {
        TargetType::Ip => "ip",
        TargetType::Instance => "instance",
    }
}

/// The values, separated by commas.
pub fn listed(values: &BTreeSet<String>) -> String {
    values.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
