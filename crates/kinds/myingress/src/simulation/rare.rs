//! Fields that few specs have. They are added to a spec one by one, as long as it remains valid.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use causeway_api::MyIngress;
use causeway_runtime::guardrails::leaves::leaves_of;

use super::aws::OTHERS_GROUP;
use super::specs;
use crate::model::fixtures::{born, built, oidc};

/// Fields that are added to a part of a spec.
#[derive(Clone, Debug)]
pub struct Addition {
    /// The place of the part: names of fields, and `*` for one item of a list.
    place: &'static str,
    /// The fields; `null` removes one.
    fields: Value,
    /// Which of several such parts it is.
    which: usize,
}

impl Addition {
    /// Reports whether it says something about the balancer as a whole.
    pub fn is_about_balancer(&self) -> bool {
        !self.place.contains('*')
    }
}

const CERTIFICATE: &str = "arn:aws:acm:eu-west-1:000000000000:certificate/a";

/// The rare settings of each part of a spec, with the place of the part.
fn vocabulary() -> Vec<(&'static str, Value)> {
    let session = json!({
        "cookieName": "shop", "scope": "openid", "timeout": "1h", "unauthenticatedRequests": "deny", "parameters": { "ui": "a" },
    });
    let mut log_in = oidc();
    log_in["session"] = session.clone();
    log_in["clientSecretKey"] = json!("clientSecret");
    let pool = "arn:aws:cognito-idp:eu-west-1:000000000000:userpool/eu-west-1_A";
    let cognito = json!({ "userPoolArn": pool, "clientId": "shop", "domain": "shop", "session": session });
    let claim = |format: &str, values: &[&str]| json!([{ "name": "scope", "format": format, "values": values }]);
    let token = |claims: Value| json!({ "validateJwt": { "issuer": "https://i.example.com", "jwksEndpoint": "https://i.example.com/k", "claims": claims } });
    let redirect = json!({
        "host": "example.org", "path": "/a", "port": "443", "protocol": "HTTPS", "query": "a=b", "statusCode": 301,
    });
    let page = json!({ "statusCode": 200, "contentType": "text/html", "body": "<p>closed</p>" });
    let shared = json!({ "targetGroups": [{ "arn": OTHERS_GROUP, "weight": 1 }] });
    let trust = "arn:aws:elasticloadbalancing:eu-west-1:000000000000:truststore/all/0123456789abcdef";
    let verify = json!({
        "mode": "verify", "trustStoreArn": trust, "ignoreClientCertificateExpiry": true, "advertiseTrustStoreCaNames": true,
    });
    let check = json!({
        "protocol": "HTTPS", "interval": "10s", "timeout": "5s", "healthyThreshold": 2, "unhealthyThreshold": 3,
        "successCodes": "200-299", "path": "/up", "port": 9090,
    });
    let mut all = vec![
        ("", json!({ "accessLogs": { "bucket": "logs", "prefix": "shop" } })),
        ("", json!({ "deletionProtection": false })),
        ("", json!({ "dropInvalidHeaders": true })),
        ("", json!({ "http2": false })),
        ("", json!({ "ipAddressType": "dualstack" })),
        ("", json!({ "inboundCidrs": ["10.0.0.0/8"], "inboundPrefixLists": ["pl-0123456789abcdef0"] })),
        ("", json!({ "securityGroups": ["sg-1"], "inboundCidrs": [] })),
        ("subnetSelector", json!({ "vpcId": "vpc-1" })),
        ("listeners.*", json!({ "sslPolicy": "ELBSecurityPolicy-TLS13-1-2-2021-06" })),
        ("listeners.*", json!({ "mutualAuthentication": verify })),
        ("listeners.*", json!({ "mutualAuthentication": { "mode": "passthrough" } })),
        ("listeners.*", json!({ "protocol": "HTTPS", "certificateArns": [CERTIFICATE] })),
        ("listeners.*", json!({ "inboundCidrs": ["192.0.2.0/24"] })),
        ("listeners.*.rules.*", json!({ "headers": [{ "name": "x-beta", "values": ["1"] }] })),
        ("listeners.*.rules.*", json!({ "headers": [{ "name": "x-beta", "regexes": ["^1"] }] })),
        ("listeners.*.rules.*", json!({ "hosts": [], "hostRegexes": ["^h[0-9]"] })),
        ("listeners.*.rules.*", json!({ "methods": ["GET", "POST"] })),
        ("listeners.*.rules.*", json!({ "paths": [{ "type": "Exact", "value": "/shop" }, { "value": "/cart" }] })),
        ("listeners.*.rules.*", json!({ "paths": [{ "type": "Pattern", "value": "/sh*" }] })),
        ("listeners.*.rules.*", json!({ "paths": [{ "type": "Regex", "value": "^/s" }] })),
        ("listeners.*.rules.*", json!({ "query": [{ "key": "a", "value": "b" }, { "value": "c" }] })),
        ("listeners.*.rules.*", json!({ "queryAll": [{ "key": "a", "value": "b" }, { "key": "c", "value": "d" }] })),
        ("listeners.*.rules.*", json!({ "sourceCidrs": ["192.0.2.0/24"] })),
        ("listeners.*.rules.*", json!({ "rewrite": { "host": { "regex": "^h", "replace": "g" } } })),
        ("listeners.*.rules.*", json!({ "rewrite": { "url": { "regex": "^/shop", "replace": "/" } } })),
        ("backends.*", json!({ "algorithm": "least_outstanding_requests" })),
        ("backends.*", json!({ "algorithm": "weighted_random" })),
        ("backends.*", json!({ "attributes": { "load_balancing.cross_zone.enabled": "true" } })),
        ("backends.*", json!({ "healthCheck": check })),
        ("backends.*", json!({ "targetType": "instance", "nodeSelector": { "pool": "web" } })),
        ("backends.*", json!({ "protocol": "HTTPS" })),
        ("backends.*", json!({ "protocolVersion": "GRPC", "healthCheck": { "path": "/", "successCodes": "0-99" } })),
        ("backends.*", json!({ "port": "http" })),
        ("backends.*", json!({ "slowStart": "60s" })),
        ("backends.*", json!({ "targetControlPort": 3000 })),
        ("backends.*", json!({ "stickiness": { "type": "lb_cookie", "duration": "1h" } })),
        ("backends.*", json!({ "stickiness": { "type": "app_cookie", "cookieName": "cart", "duration": "1h" } })),
    ];
    for place in ["listeners.*.defaultAction", "listeners.*.rules.*.action"] {
        all.extend([
            (place, json!({ "authenticateOidc": log_in })),
            (place, json!({ "authenticateCognito": cognito })),
            (place, token(claim("single-string", &["a"]))),
            (place, token(claim("string-array", &["a", "b"]))),
            (place, json!({ "redirect": redirect, "forward": null, "fixedResponse": null })),
            (place, json!({ "fixedResponse": page, "forward": null, "redirect": null })),
            (place, json!({ "forward": shared, "redirect": null, "fixedResponse": null })),
        ]);
    }
    all.extend([
        ("listeners.*.defaultAction.forward", json!({ "stickinessDuration": "1h" })),
        ("listeners.*.rules.*.action.forward", json!({ "stickinessDuration": "1h" })),
    ]);
    all
}

/// Some additions to a spec.
pub fn additions() -> impl Strategy<Value = Vec<Addition>> {
    let one = (select(vocabulary()), 0..4_usize);
    let one = one.prop_map(|((place, fields), which)| Addition { place, fields, which });
    vec(one, 0..6)
}

/// The spec with those of the additions that have a place in it, and with which it is valid.
pub fn with(spec: Value, additions: &[Addition]) -> Value {
    additions.iter().fold(spec, |spec, addition| {
        let mut changed = spec.clone();
        let Some(Value::Object(part)) = part(&mut changed, addition.place, addition.which) else { return spec };
        let fields = addition.fields.as_object().into_iter().flatten();
        for (key, value) in fields {
            match value {
                Value::Null => part.remove(key),
                value => part.insert(key.clone(), value.clone()),
            };
        }
        if is_valid(&changed) { changed } else { spec }
    })
}

fn part<'a>(spec: &'a mut Value, place: &str, which: usize) -> Option<&'a mut Value> {
    place.split('.').filter(|step| !step.is_empty()).try_fold(spec, |part, step| match (step, part) {
        ("*", Value::Array(items)) => {
            let at = which.checked_rem(items.len())?;
            items.get_mut(at)
        }
        (step, Value::Object(fields)) => fields.get_mut(step),
        _ => None,
    })
}

fn is_valid(spec: &Value) -> bool {
    serde_json::from_value::<causeway_api::MyIngressSpec>(spec.clone()).is_ok_and(|_| {
        let built = built(&[&born("web", 0, spec.clone())]);
        built.complaints.is_empty() && built.model.is_some()
    })
}

/// The paths of the fields that a spec has: `listeners[].port`.
fn present(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| present(value, &format!("{path}.{key}"), into)),
        Value::Array(items) => items.iter().for_each(|item| present(item, &format!("{path}[]"), into)),
        _ => {}
    }
    into.insert(path.trim_start_matches('.').to_owned());
}

/// Fields that these specs do not have, and what has them instead.
const ELSEWHERE: [(&str, &str); 8] = [
    ("adopt", "the balancer must be there: simulation::scenes"),
    ("name", "AWS cannot rename a balancer: simulation::single and scenes"),
    ("deletionPolicy", "it changes nothing before a deletion: simulation::kept"),
    ("group.namespace", "guests: simulation::guests"),
    ("group.allowedNamespaces[]", "guests: simulation::guests"),
    ("group.name", "members: specs::standing and specs::joining"),
    ("group.order", "members: specs::standing and specs::joining"),
    ("suspend", "it changes nothing: simulation::held"),
];

#[test]
fn every_field_of_the_schema_is_in_some_spec() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut missing = leaves_of::<MyIngress>();
    for (field, _) in ELSEWHERE {
        assert!(missing.remove(field), "{field} is in the schema");
    }
    let (mut runner, specs) = (TestRunner::deterministic(), specs::whole());
    for _ in 0..20_000 {
        let mut found = BTreeSet::new();
        present(&specs.new_tree(&mut runner).unwrap().current(), "", &mut found);
        missing.retain(|field| !found.contains(field));
        if missing.is_empty() {
            return;
        }
    }
    panic!("no spec has {missing:#?}");
}
