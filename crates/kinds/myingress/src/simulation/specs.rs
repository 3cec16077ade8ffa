//! Specs that are each valid by themselves, and resources of others in the account.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::{of, weighted};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

use causeway_api::myingress::Scheme;
use causeway_aws::ec2::{Entry, SecurityGroup};
use causeway_aws::elbv2::{Balancer, IpAddressType, Pairs, State, TargetGroup};

use super::rare::{self, Addition};
use crate::model::fixtures::oidc;
use crate::ownership::names::{candidates, security_group_name};
use crate::ownership::{Owner, entry_mark};
use crate::region::assets::{Assets, GroupMember, Member};

/// The names of all backends.
pub const BACKENDS: [&str; 3] = ["app", "api", "old"];

/// The spec of an object that stands alone.
pub fn alone() -> impl Strategy<Value = Value> {
    (balancer(), content(vec![80, 443, 8080])).prop_map(|(balancer, content)| merged(balancer, content))
}

/// The spec of an object that stands alone, with any field of the schema.
pub fn whole() -> impl Strategy<Value = Value> {
    (alone(), rare::additions()).prop_map(|(spec, additions)| rare::with(spec, &additions))
}

/// The spec of a member of the group `all` that says where the balancer stands.
pub fn standing() -> impl Strategy<Value = Value> {
    (whole(), of(0..3_u8)).prop_map(|(spec, order)| merged(spec, json!({ "group": { "name": "all", "order": order } })))
}

/// The spec of another member. One in six cannot take part: it is suspended, or has a mistake.
pub fn joining(port: u16) -> impl Strategy<Value = Value> {
    let trouble = prop_oneof![
        4 => Just(json!({})),
        1 => Just(json!({ "suspend": true })),
        1 => Just(json!({ "listeners": [{ "port": 80, "rules": [{ "action": forward(&["nowhere"]) }] }] })),
    ];
    let additions = rare::additions().prop_map(|all| all.into_iter().filter(|it| !it.is_about_balancer()).collect());
    (content(vec![80, port]), trouble, of(0..3_u8), additions).prop_map(|(content, trouble, order, additions)| {
        let additions: Vec<Addition> = additions;
        // The balancer is another member's.
        let content = drop_fields(
            &rare::with(merged(content, json!({ "subnets": ["subnet-0", "subnet-1"] })), &additions),
            &["subnets"],
        );
        let member = merged(content, json!({ "group": { "name": "all", "order": order } }));
        merged(member, trouble)
    })
}

fn merged(mut into: Value, more: Value) -> Value {
    if let (Value::Object(into), Value::Object(more)) = (&mut into, more) {
        into.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
    }
    into
}

fn balancer() -> impl Strategy<Value = Value> {
    let place = prop_oneof![
        3 => subsequence(vec!["subnet-0", "subnet-1", "subnet-2", "subnet-3"], 2..=3).prop_map(|it| json!({ "subnets": it })),
        1 => Just(json!({ "subnetSelector": { "tags": { "tier": ["public"] } } })),
    ];
    let security = prop_oneof![
        Just(json!({})),
        subsequence(vec!["sg-1", "edge", "sg-3"], 1..=2).prop_map(|it| json!({ "securityGroups": it })),
        subsequence(vec!["10.0.0.0/8", "192.0.2.0/24", "::/0"], 1..=2).prop_map(|it| json!({ "inboundCidrs": it })),
        subsequence(vec!["sg-nodes", "pods"], 1..=2)
            .prop_map(|it| json!({ "inboundCidrs": ["10.0.0.0/8"], "targetSecurityGroups": it })),
    ];
    let scheme = select(vec!["internet-facing", "internal"]);
    let attributes = btree_map(
        select(vec!["waf.fail_open.enabled", "routing.http.preserve_host_header.enabled"]),
        select(vec!["true", "false"]),
        0..2,
    );
    let tags = btree_map(select(vec!["team", "cost"]), select(vec!["a", "b"]), 0..2);
    let acl = weighted(0.3, Just("arn:aws:wafv2:eu-west-1:000000000000:regional/webacl/guard/1"));
    let timeout = weighted(0.3, 61..63_u16);
    let capacity = weighted(0.3, 100..102_u32);
    (place, security, scheme, attributes, tags, acl, (timeout, capacity)).prop_map(
        |(place, security, scheme, attributes, tags, acl, (timeout, capacity))| {
            let rest = json!({
                "scheme": scheme,
                "attributes": attributes,
                "tags": tags,
                "wafAclArn": acl,
                "idleTimeout": timeout.map(|seconds| format!("{seconds}s")),
                "minimumCapacityUnits": capacity,
            });
            merged(merged(json!({}), merged(place, security)), rest)
        },
    )
}

fn content(ports: Vec<u16>) -> impl Strategy<Value = Value> {
    let most = ports.len();
    let listeners =
        subsequence(ports, 0..=most).prop_flat_map(|ports| ports.into_iter().map(listener).collect::<Vec<_>>());
    let backends: Vec<_> = BACKENDS.into_iter().map(backend).collect();
    (listeners, backends).prop_map(|(listeners, backends)| json!({ "listeners": listeners, "backends": backends }))
}

fn backend(name: &'static str) -> impl Strategy<Value = Value> {
    let version = prop_oneof![4 => Just("HTTP1"), 1 => Just("HTTP2")];
    let path = select(vec!["/", "/healthz"]);
    let check = of(select(vec![json!(9090), json!("metrics"), json!("traffic-port")]));
    let service = weighted(0.2, select(BACKENDS.to_vec()));
    (select(vec!["ip", "instance"]), version, path, of(30..32_u16), check, service).prop_map(
        move |(kind, version, path, delay, check, service)| {
            // HTTP/2 needs HTTPS listeners, which not all of these have.
            let version = if name == "old" { version } else { "HTTP1" };
            let mut backend = json!({
                "name": name,
                "port": 80,
                "targetType": kind,
                "protocolVersion": version,
                "healthCheck": { "path": path },
            });
            if let Some(service) = service {
                backend["service"] = json!(service);
            }
            if let Some(check) = check {
                backend["healthCheck"]["port"] = check;
            }
            if let Some(delay) = delay {
                backend["deregistrationDelay"] = json!(format!("{delay}s"));
            }
            backend
        },
    )
}

fn listener(port: u16) -> BoxedStrategy<Value> {
    let https = port == 443;
    let rules = (subsequence(vec![0_u16, 1, 2, 3, 4], 0..=4).prop_shuffle(), btree_set(1..60_u16, 5)).prop_flat_map(
        move |(hosts, priorities)| {
            let priorities: Vec<u16> = priorities.into_iter().collect();
            hosts.into_iter().enumerate().map(|(index, host)| rule(host, priorities[index], https)).collect::<Vec<_>>()
        },
    );
    let certificates = subsequence(vec!["a", "b", "c"], 0..=3).prop_shuffle();
    let attributes = weighted(0.3, select(vec!["DENY", "SAMEORIGIN"]));
    (rules, weighted(0.4, action(https)), certificates, attributes)
        .prop_map(move |(rules, default, certificates, frames)| {
            let mut listener = json!({ "port": port, "rules": rules });
            if let Some(default) = default {
                listener["defaultAction"] = default;
            }
            if https {
                let arns = certificates.iter().map(|it| format!("arn:aws:acm:eu-west-1:000000000000:certificate/{it}"));
                let arns: Vec<String> = arns.collect();
                listener["certificateArns"] =
                    if arns.is_empty() && listener["rules"] == json!([]) { json!([CERTIFICATE]) } else { json!(arns) };
            }
            if let Some(frames) = frames {
                listener["attributes"] = json!({ "routing.http.response.x_frame_options.header_value": frames });
            }
            listener
        })
        .boxed()
}

const CERTIFICATE: &str = "arn:aws:acm:eu-west-1:000000000000:certificate/a";

fn rule(host: u16, priority: u16, https: bool) -> impl Strategy<Value = Value> {
    (action(https), weighted(0.2, Just(priority)), any::<bool>()).prop_map(move |(action, priority, path)| {
        // The last one is for all hosts.
        let host = if host == 4 { "*.example.com".to_owned() } else { format!("h{host}.example.com") };
        let mut rule = json!({ "hosts": [host], "action": action });
        if let Some(priority) = priority {
            rule["priority"] = json!(priority);
        }
        if path {
            rule["paths"] = json!([{ "value": "/shop" }]);
        }
        rule
    })
}

fn forward(backends: &[&str]) -> Value {
    let backends: Vec<Value> = backends.iter().map(|name| json!({ "name": name })).collect();
    json!({ "forward": { "backends": backends } })
}

fn action(https: bool) -> impl Strategy<Value = Value> {
    let backends = if https { BACKENDS.to_vec() } else { BACKENDS[..2].to_vec() };
    let weights = (1..3_u8, 0..3_u8);
    let forwards = (subsequence(backends, 1..=2).prop_shuffle(), weights).prop_map(|(backends, (first, second))| {
        let weighed = backends.iter().zip([first, second]);
        let backends: Vec<Value> = weighed.map(|(name, weight)| json!({ "name": name, "weight": weight })).collect();
        json!({ "forward": { "backends": backends } })
    });
    let response = (500..503_u16).prop_map(|status| json!({ "fixedResponse": { "statusCode": status } }));
    let redirect = Just(json!({ "redirect": { "host": "example.org" } }));
    (prop_oneof![4 => forwards, 1 => response, 1 => redirect], any::<bool>()).prop_map(move |(mut action, login)| {
        if https && login {
            action["authenticateOidc"] = oidc();
        }
        action
    })
}

/// Resources of others: they have names that we would like, and some have a part of our tags.
pub fn foreign(owner: Owner) -> impl Strategy<Value = Assets> {
    let owner_of_tags = owner.clone();
    let tags = (0..4_u8).prop_map(move |which| tags(&owner_of_tags, which));
    let schemes = select(vec![Scheme::InternetFacing, Scheme::Internal]);
    (tags, schemes, 0..5_usize, any::<[bool; 3]>()).prop_map(move |(tags, scheme, which, there)| {
        let mut names = candidates(&owner, scheme, None);
        names.push("of-another".into());
        let mut assets = Assets::default();
        if there[0] {
            let balancer = balancer_called(names[which.min(names.len() - 1)].clone(), scheme);
            assets.balancers.insert(balancer.arn.clone(), Member::new(balancer, tags.clone()));
        }
        if there[1] {
            let group = TargetGroup {
                arn: "foreign-group".into(),
                name: "of-another".into(),
                kind: None,
                health_check: None,
                balancers: BTreeSet::new(),
            };
            let member = GroupMember { group, tags: tags.clone(), attributes: None, fresh: false };
            assets.groups.insert("foreign-group".into(), member);
        }
        if there[2] {
            assets.entries.insert(Entry {
                group: "sg-nodes".into(),
                from: "sg-foreign".into(),
                protocol: "tcp".into(),
                ports: None,
                description: entry_mark(&owner),
            });
            let group = SecurityGroup {
                id: "sg-foreign".into(),
                name: format!("{}-of-another", security_group_name(&owner)),
                vpc: "vpc-1".into(),
                tags,
                ingress: BTreeSet::new(),
                egress: BTreeSet::new(),
            };
            assets.security_groups.insert(group.id.clone(), group);
        }
        assets
    })
}

fn tags(owner: &Owner, which: u8) -> Pairs {
    let mut tags = owner.tags();
    match which {
        0 => return BTreeMap::new(),
        1 => tags.insert("causeway.example.com/uid".into(), "another".into()),
        2 => tags.insert("causeway.example.com/cluster".into(), "another".into()),
        _ => tags.remove("causeway.example.com/uid"),
    };
    tags
}

/// A balancer of this name.
pub fn balancer_called(name: String, scheme: Scheme) -> Balancer {
    Balancer {
        arn: format!("foreign-{name}"),
        name,
        dns: String::new(),
        zone_id: None,
        scheme: Some(scheme),
        state: State::Active,
        vpc: "vpc-1".into(),
        ip_address_type: Some(IpAddressType::Ipv4),
        subnets: BTreeSet::new(),
        security_groups: BTreeSet::new(),
    }
}

/// The spec without some of its fields.
pub fn drop_fields(spec: &Value, fields: &[&str]) -> Value {
    let spec = spec.as_object().cloned().unwrap_or_default();
    let kept: Map<String, Value> = spec.into_iter().filter(|(key, _)| !fields.contains(&key.as_str())).collect();
    Value::Object(kept)
}

/// Several changes of everything at once, each with the number of actions until a crash.
pub fn changes<S: Strategy<Value = Value>>(one: S) -> impl Strategy<Value = Vec<(Value, usize)>> {
    vec((one, 0..30_usize), 1..4)
}
