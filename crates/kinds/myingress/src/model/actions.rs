//! The actions on requests.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-action-types.html>

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::myingress::{ActionSpec, FixedResponseSpec, ForwardSpec, RedirectSpec, RewriteSpec};
use causeway_aws::elbv2::{FixedResponse, Protocol, ProtocolVersion, Redirect, RuleAction, Transform, TransformedPart};

use super::field::Field;
use super::listening::{Listening, WEEK};
use super::regexes::regex;
use super::{Complaint, authentication, text};

const MOST_GROUPS: usize = 5;
const LONGEST_BODY: usize = 1024;
const LONGEST_PART: usize = 128;
const LONGEST_REWRITE: usize = 1024;
const CONTENT_TYPES: [&str; 5] = ["text/plain", "text/css", "text/html", "application/javascript", "application/json"];

/// The actions of a rule or of a listener: authentication first, then the action that answers.
pub fn actions(spec: &ActionSpec, listening: &Listening<'_>, field: &Field<'_>) -> Result<Vec<RuleAction>, Complaint> {
    let mut found: Vec<RuleAction> = authentication::action(spec, listening, field)?.into_iter().collect();
    found.push(match (&spec.forward, &spec.redirect, &spec.fixed_response) {
        (Some(forward), None, None) => forward_to(forward, listening, &field.name("forward"))?,
        (None, Some(redirect), None) => redirect_to(redirect, listening, &field.name("redirect"))?,
        (None, None, Some(response)) => fixed_response(response, &field.name("fixedResponse"))?,
        _ => return field.complain("must have exactly one of forward, redirect and fixedResponse"),
    });
    Ok(found)
}

/// The answer to requests that no rule matches if no member gives a default action: 404.
pub fn nothing_here() -> Vec<RuleAction> {
    vec![RuleAction::FixedResponse(FixedResponse { status: 404, content_type: Some("text/plain".into()), body: None })]
}

/// The names of the target groups that actions forward to.
pub fn groups_of<'a>(actions: impl IntoIterator<Item = &'a RuleAction>) -> BTreeSet<&'a String> {
    let groups = |action: &'a RuleAction| match action {
        RuleAction::Forward { groups, .. } => Some(groups.keys()),
        _ => None,
    };
    actions.into_iter().filter_map(groups).flatten().collect()
}

fn forward_to(spec: &ForwardSpec, listening: &Listening<'_>, field: &Field<'_>) -> Result<RuleAction, Complaint> {
    let list = field.name("backends");
    let number = spec.backends.len() + spec.target_groups.len();
    if !(1..=MOST_GROUPS).contains(&number) {
        return list.complain(format_args!("has {number} entries (with targetGroups): name 1 to {MOST_GROUPS}"));
    }
    let mut groups = BTreeMap::new();
    let mut sticky = None;
    for (index, share) in spec.backends.iter().enumerate() {
        let item = list.item(index);
        let name = item.name("name").with_reason("BackendMissing");
        let Some(backend) = listening.backends.get(&share.name) else {
            return name.complain(format_args!(
                "is {:?}, and spec.backends has no such name: correct it, or add the backend",
                share.name
            ));
        };
        if backend.model.version != ProtocolVersion::Http1 && listening.protocol == Protocol::Http {
            return item.name("name").complain(format_args!(
                "is {:?}, whose protocolVersion needs an HTTPS listener: forward to it on an HTTPS listener, or use HTTP1",
                share.name
            ));
        }
        if backend.model.attributes.get("stickiness.enabled").is_some_and(|it| it == "true") {
            sticky.get_or_insert(&share.name);
        }
        let weight = share.weight.unwrap_or(1);
        if weight > 999 {
            return item.name("weight").complain("must be 0 to 999");
        }
        if groups.insert(backend.group.clone(), weight).is_some() {
            return item.name("name").complain("is in the list twice: add the weights");
        }
    }
    let list = field.name("targetGroups");
    for (index, share) in spec.target_groups.iter().enumerate() {
        let item = list.item(index);
        let arn = item.name("arn");
        text::arn(&share.arn, &["elasticloadbalancing"], &arn)?;
        if !share.arn.contains(":targetgroup/") {
            return arn.complain(
                "must be the ARN of a target group, arn:aws:elasticloadbalancing:REGION:ACCOUNT:targetgroup/NAME/ID",
            );
        }
        let weight = share.weight.unwrap_or(1);
        if weight > 999 {
            return item.name("weight").complain("must be 0 to 999");
        }
        if groups.insert(share.arn.clone(), weight).is_some() {
            return arn.complain("is in the list twice: add the weights");
        }
    }
    let stickiness = spec.stickiness_duration.as_ref().map(|it| u32::try_from(it.seconds()).unwrap_or(u32::MAX));
    if stickiness.is_some_and(|seconds| !(1..=WEEK).contains(&seconds)) {
        return field.name("stickinessDuration").complain("must be 1s to 168h");
    }
    if let Some(name) = sticky.filter(|_| groups.len() > 1 && stickiness.is_none()) {
        // AWS: "You must enable group stickiness before enabling target stickiness".
        return field.name("stickinessDuration").complain(format_args!(
            "is needed: backend {name:?} has stickiness, and AWS wants clients to stay with their backend first"
        ));
    }
    Ok(RuleAction::Forward { groups, stickiness })
}

fn redirect_to(spec: &RedirectSpec, listening: &Listening<'_>, field: &Field<'_>) -> Result<RuleAction, Complaint> {
    let own = match listening.protocol {
        Protocol::Http => "HTTP",
        Protocol::Https => "HTTPS",
    };
    let protocol = spec.protocol.as_deref().unwrap_or("#{protocol}");
    let port = match (&spec.port, protocol) {
        (Some(port), _) => port,
        // The port of the other protocol would be of no use.
        (None, "HTTPS") if own == "HTTP" => "443",
        (None, "HTTP") if own == "HTTPS" => "80",
        (None, _) => "#{port}",
    };
    let redirect = Redirect {
        protocol: protocol.into(),
        host: spec.host.clone().unwrap_or_else(|| "#{host}".into()),
        port: port.into(),
        path: spec.path.clone().unwrap_or_else(|| "/#{path}".into()),
        query: spec.query.clone().unwrap_or_else(|| "#{query}".into()),
        permanent: spec.status_code == 301,
    };
    if !matches!(spec.status_code, 301 | 302) {
        return field.name("statusCode").complain("must be 301 or 302");
    }
    check_parts(&redirect, field)?;
    if own == "HTTPS" && protocol == "HTTP" {
        return field.name("protocol").complain("must not be HTTP on an HTTPS listener: AWS does not take it");
    }
    let stays = (protocol == "#{protocol}" || protocol == own)
        && (port == "#{port}" || port == listening.port.to_string())
        && redirect.host == "#{host}"
        && redirect.path == "/#{path}";
    if stays {
        return field.complain("leads back to itself: change protocol, host, port or path");
    }
    Ok(RuleAction::Redirect(redirect))
}

/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RedirectActionConfig.html>
fn check_parts(redirect: &Redirect, field: &Field<'_>) -> Result<(), Complaint> {
    let protocol = redirect.protocol.as_str();
    if !matches!(protocol, "HTTP" | "HTTPS" | "#{protocol}") {
        return field.name("protocol").complain("must be HTTP, HTTPS or #{protocol}");
    }
    let port = redirect.port.as_str();
    if port != "#{port}" && !port.parse().is_ok_and(|number: u16| number > 0 && number.to_string() == port) {
        return field.name("port").complain("must be 1 to 65535, or #{port}");
    }
    let all = ["protocol", "host", "port", "path", "query"];
    part(&redirect.host, 1, &["host"], &field.name("host"))?;
    part(&redirect.path, 1, &["host", "path", "port"], &field.name("path"))?;
    part(&redirect.query, 0, &all, &field.name("query"))?;
    if !redirect.path.starts_with('/') {
        return field.name("path").complain("must begin with /");
    }
    Ok(())
}

/// Checks a part of a redirect's URL, in which `#{…}` stands for a part of the request's URL.
fn part(text: &str, least: usize, keywords: &[&str], field: &Field<'_>) -> Result<(), Complaint> {
    text::unbroken(text, least, LONGEST_PART, field)?;
    let named = text.split("#{").skip(1).map(|rest| rest.split_once('}').map(|(keyword, _)| keyword));
    for keyword in named {
        if !keyword.is_some_and(|keyword| keywords.contains(&keyword)) {
            let known: Vec<String> = keywords.iter().map(|keyword| format!("#{{{keyword}}}")).collect();
            return field.complain(format_args!("has a keyword that AWS does not know here: use {}", known.join(", ")));
        }
    }
    Ok(())
}

fn fixed_response(spec: &FixedResponseSpec, field: &Field<'_>) -> Result<RuleAction, Complaint> {
    if !matches!(spec.status_code, 200..=299 | 400..=599) {
        return field.name("statusCode").complain("must be 200 to 299 or 400 to 599: for 3XX use redirect");
    }
    let content_type = spec.content_type.clone().unwrap_or_else(|| "text/plain".into());
    if !CONTENT_TYPES.contains(&content_type.as_str()) {
        return field.name("contentType").complain(format_args!("must be one of {}", CONTENT_TYPES.join(", ")));
    }
    let body = spec.body.clone().filter(|body| !body.is_empty());
    if let Some(text) = &body {
        let body = field.name("body");
        if text.chars().any(char::is_control) {
            return body.complain("has a line break or another control character: write it in one line (YAML: >-)");
        }
        if text.len() > LONGEST_BODY {
            return body.complain(format_args!("has {} bytes: use at most {LONGEST_BODY}", text.len()));
        }
    }
    Ok(RuleAction::FixedResponse(FixedResponse { status: spec.status_code, content_type: Some(content_type), body }))
}

/// The rewrites of a rule, the URL's first.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-transforms.html>
pub fn transforms(
    spec: Option<&RewriteSpec>,
    actions: &[RuleAction],
    field: &Field<'_>,
) -> Result<Vec<Transform>, Complaint> {
    let Some(spec) = spec else { return Ok(Vec::new()) };
    if !matches!(actions.last(), Some(RuleAction::Forward { .. })) {
        return field.complain("is for requests that are forwarded: use action.forward, or remove the rewrite");
    }
    let parts = [(TransformedPart::Url, "url", &spec.url), (TransformedPart::Host, "host", &spec.host)];
    let mut found = Vec::new();
    for (part, name, substitution) in parts {
        let Some(substitution) = substitution else { continue };
        let field = field.name(name);
        regex(&substitution.regex, LONGEST_REWRITE, &field.name("regex"))?;
        text::printable(&substitution.replace, 0, LONGEST_REWRITE, &field.name("replace"))?;
        let (regex, replacement) = (substitution.regex.clone(), substitution.replace.clone());
        found.push(Transform { part, regex, replacement });
    }
    if found.is_empty() { field.complain("needs url or host") } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures::{complaint, model};
    use serde_json::{Value, json};

    fn with(listener: &Value, action: Value) -> Value {
        let mut listener = listener.clone();
        listener["defaultAction"] = action;
        json!({
            "listeners": [listener],
            "backends": [{ "name": "a", "port": 80 }, { "name": "b", "port": 80 }, { "name": "rpc", "port": 80, "protocolVersion": "GRPC" }],
        })
    }

    fn http() -> Value {
        json!({ "port": 80 })
    }

    fn https() -> Value {
        json!({ "port": 443, "certificateArns": ["arn:aws:acm:eu-west-1:000000000000:certificate/a"] })
    }

    fn action(listener: &Value, action: Value) -> RuleAction {
        let listeners = model(with(listener, action)).listeners;
        listeners.into_values().next().unwrap().default_actions.remove(0)
    }

    fn redirect(listener: &Value, spec: &Value) -> Redirect {
        match action(listener, json!({ "redirect": spec })) {
            RuleAction::Redirect(redirect) => redirect,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_redirect_leaves_out_stays_as_it_was() {
        let there = redirect(&http(), &json!({ "host": "example.org", "statusCode": 302 }));
        let parts = [there.protocol, there.host, there.port, there.path, there.query];
        assert_eq!(parts, ["#{protocol}", "example.org", "#{port}", "/#{path}", "#{query}"]);
        assert!(!there.permanent);
    }

    #[test]
    fn a_new_protocol_brings_its_port() {
        assert_eq!(redirect(&http(), &json!({ "protocol": "HTTPS" })).port, "443");
        assert_eq!(redirect(&http(), &json!({ "protocol": "HTTPS", "port": "8443" })).port, "8443");
        assert_eq!(redirect(&https(), &json!({ "protocol": "HTTPS", "host": "example.org" })).port, "#{port}");
    }

    #[test]
    fn weights_are_one_unless_given() {
        let backends = json!([{ "name": "a" }, { "name": "b", "weight": 0 }]);
        let forward = action(&http(), json!({ "forward": { "backends": backends, "stickinessDuration": "60s" } }));
        let RuleAction::Forward { groups, stickiness } = forward else { panic!("{forward:?}") };
        let named: Vec<(&str, u16)> = groups.iter().map(|(name, weight)| (&name[..5], *weight)).collect();
        assert_eq!((named, stickiness), (vec![("web-a", 1), ("web-b", 0)], Some(60)));
    }

    #[test]
    fn sticky_backends_share_requests_only_with_sticky_forwarding() {
        let sharing = |names: &[&str], duration: Option<&str>| {
            let backends: Value = names.iter().map(|name| json!({ "name": name })).collect();
            let forward = json!({ "backends": backends, "stickinessDuration": duration });
            let mut spec = with(&http(), json!({ "forward": forward }));
            spec["backends"][1]["stickiness"] = json!({ "duration": "60s" });
            spec
        };
        let (_, message) = complaint(sharing(&["a", "b"], None));
        assert!(message.contains("forward.stickinessDuration is needed: backend \"b\" has stickiness"), "{message}");
        for (names, duration) in [(&["a", "b"][..], Some("60s")), (&["b"], None), (&["a"], None)] {
            assert_eq!(model(sharing(names, duration)).listeners.len(), 1);
        }
    }

    #[test]
    fn a_listener_without_default_action_answers_404() {
        let listeners = model(json!({ "listeners": [{ "port": 80 }] })).listeners;
        assert_eq!(listeners[&80].default_actions, nothing_here());
    }

    #[test]
    fn what_aws_would_refuse_is_named_with_field_and_fix() {
        let forward = |backends: Value| json!({ "forward": { "backends": backends } });
        let redirect = |spec: Value| json!({ "redirect": spec });
        let fixed = |spec: Value| json!({ "fixedResponse": spec });
        for (listener, spec, words) in [
            (http(), json!({}), "defaultAction must have exactly one of forward, redirect and fixedResponse"),
            (http(), forward(json!([])), "forward.backends has 0 entries (with targetGroups): name 1 to 5"),
            (
                http(),
                forward(json!([{ "name": "c" }])),
                "backends[0].name is \"c\", and spec.backends has no such name",
            ),
            (http(), forward(json!([{ "name": "a" }, { "name": "a" }])), "backends[1].name is in the list twice"),
            (http(), forward(json!([{ "name": "a", "weight": 1000 }])), "backends[0].weight must be 0 to 999"),
            (http(), forward(json!([{ "name": "rpc" }])), "whose protocolVersion needs an HTTPS listener"),
            (http(), redirect(json!({})), "redirect leads back to itself: change protocol, host, port or path"),
            (http(), redirect(json!({ "protocol": "HTTP", "port": "80" })), "redirect leads back to itself"),
            (http(), redirect(json!({ "query": "a=b" })), "redirect leads back to itself"),
            (
                https(),
                redirect(json!({ "protocol": "HTTP" })),
                "redirect.protocol must not be HTTP on an HTTPS listener",
            ),
            (http(), redirect(json!({ "protocol": "FTP" })), "redirect.protocol must be HTTP, HTTPS or #{protocol}"),
            (http(), redirect(json!({ "port": "65536" })), "redirect.port must be 1 to 65535, or #{port}"),
            (http(), redirect(json!({ "path": "a" })), "redirect.path must begin with /"),
            (
                http(),
                redirect(json!({ "path": "/#{query}" })),
                "redirect.path has a keyword that AWS does not know here",
            ),
            (http(), redirect(json!({ "host": "#{host" })), "redirect.host has a keyword"),
            (http(), redirect(json!({ "host": "a b" })), "redirect.host has ' '"),
            (http(), redirect(json!({ "host": "a.b", "statusCode": 307 })), "redirect.statusCode must be 301 or 302"),
            (http(), fixed(json!({ "statusCode": 301 })), "fixedResponse.statusCode must be 200 to 299 or 400 to 599"),
            (
                http(),
                fixed(json!({ "statusCode": 200, "contentType": "a/b" })),
                "fixedResponse.contentType must be one of",
            ),
            (http(), fixed(json!({ "statusCode": 200, "body": "a\nb" })), "fixedResponse.body has a line break"),
            (
                http(),
                fixed(json!({ "statusCode": 200, "body": "é".repeat(513) })),
                "fixedResponse.body has 1026 bytes: use at most 1024",
            ),
        ] {
            let (_, message) = complaint(with(&listener, spec));
            assert!(message.contains(words), "{message}\nshould say: {words}");
        }
        let reason = complaint(with(&http(), forward(json!([{ "name": "c" }])))).0;
        assert_eq!(reason, "BackendMissing");
    }

    #[test]
    fn a_rewrite_goes_with_a_forward() {
        let rule = |action: Value, rewrite: Value| {
            let rule = json!({ "paths": [{ "value": "/a" }], "action": action, "rewrite": rewrite });
            json!({ "listeners": [{ "port": 80, "rules": [rule] }], "backends": [{ "name": "a", "port": 80 }] })
        };
        let forward = || json!({ "forward": { "backends": [{ "name": "a" }] } });
        let both = json!({ "host": { "regex": "a", "replace": "b" }, "url": { "regex": "^/a", "replace": "/" } });
        let transforms = &model(rule(forward(), both.clone())).listeners[&80].rules[0].settings.transforms;
        assert_eq!(
            transforms.iter().map(|it| it.part).collect::<Vec<_>>(),
            [TransformedPart::Url, TransformedPart::Host]
        );
        for (spec, words) in [
            (
                rule(json!({ "fixedResponse": { "statusCode": 200 } }), both),
                "rewrite is for requests that are forwarded",
            ),
            (rule(forward(), json!({})), "rewrite needs url or host"),
            (
                rule(forward(), json!({ "url": { "regex": "(", "replace": "" } })),
                "rewrite.url.regex is no regular expression",
            ),
            (rule(forward(), json!({ "url": { "regex": "a", "replace": "\n" } })), "rewrite.url.replace has '\\n'"),
        ] {
            let (_, message) = complaint(spec);
            assert!(message.contains(words), "{message}\nshould say: {words}");
        }
    }
}
