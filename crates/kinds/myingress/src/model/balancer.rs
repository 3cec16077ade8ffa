//! The part of one object's spec that describes the balancer itself.

use std::collections::BTreeSet;

use causeway_api::common::PREFIX;
use causeway_api::myingress::{AccessLogs, IpAddressType as SpecIpAddressType, MyIngressSpec, Scheme, SubnetSelector};
use causeway_aws::elbv2::{IpAddressType, Pairs};

use super::field::Field;
use super::{Complaint, SecurityModel, SubnetsModel, attributes, is_group_id, text};

/// Tags of a resource; Causeway's own are among them.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html>
const MOST_TAGS: usize = 50;
/// The tags that Causeway sets: cluster and its uid, namespace, name, uid and `ManagedBy`, then the backend of a target
/// group or the secret of a rule. A resource of a group's member has one more, which names the member.
const OWN_TAGS: usize = 7;
const LEAST_CAPACITY: u32 = 100;

/// The settings of the balancer in one object. Fields that it leaves out are `None` or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerPart {
    /// True if the object shares its balancer.
    pub grouped: bool,
    /// The scheme: internet-facing or internal.
    pub scheme: Scheme,
    /// Its IP address type.
    pub ip_address_type: Option<IpAddressType>,
    pub subnets: Option<SubnetsModel>,
    /// Its security groups.
    pub security: SecurityModel,
    /// Security groups of its targets.
    pub target_security_groups: BTreeSet<String>,
    pub attributes: Pairs,
    pub tags: Pairs,
    /// ARN of its web ACL.
    pub web_acl: Option<String>,
    /// Reserved capacity units.
    pub capacity: Option<u32>,
    /// The name that the spec gives it.
    pub name: Option<String>,
    /// Name of the balancer to adopt.
    pub adopt: Option<String>,
}

/// Reads the settings of the balancer from the spec.
pub fn balancer(spec: &MyIngressSpec, field: &Field<'_>) -> Result<BalancerPart, Complaint> {
    if let Some(name) = &spec.adopt {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
        text::of_characters(name, 1, 32, &field.name("adopt"), allowed, "letters, digits and hyphens")?;
        if spec.group.is_some() {
            return field.name("adopt").complain("is for a balancer of one object: remove spec.group");
        }
    }
    if let Some(name) = &spec.name {
        own_name(name, spec, &field.name("name"))?;
    }
    if let Some(acl) = &spec.waf_acl_arn {
        web_acl(acl, &field.name("wafAclArn"))?;
    }
    if spec.minimum_capacity_units.is_some_and(|units| units < LEAST_CAPACITY) {
        return field.name("minimumCapacityUnits").complain(format_args!("must be at least {LEAST_CAPACITY}"));
    }
    // An internal balancer has no public addresses. In a group, members that say another scheme or another type than the
    // one that says where the balancer stands contradict it.
    // https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html
    if spec.scheme == Scheme::Internal && spec.ip_address_type == Some(SpecIpAddressType::DualstackWithoutPublicIpv4) {
        return field
            .name("ipAddressType")
            .complain("dualstack-without-public-ipv4 is for scheme internet-facing: use dualstack, or change scheme");
    }
    let grouped = spec.group.is_some();
    check_tags(&spec.tags, grouped, &field.name("tags"))?;
    Ok(BalancerPart {
        grouped,
        scheme: spec.scheme,
        ip_address_type: spec.ip_address_type.map(|it| match it {
            SpecIpAddressType::Ipv4 => IpAddressType::Ipv4,
            SpecIpAddressType::Dualstack => IpAddressType::Dualstack,
            SpecIpAddressType::DualstackWithoutPublicIpv4 => IpAddressType::DualstackWithoutPublicIpv4,
        }),
        subnets: subnets(spec, field)?,
        security: security(spec, field)?,
        target_security_groups: called(&spec.target_security_groups, &field.name("targetSecurityGroups"))?,
        attributes: balancer_attributes(spec, field)?,
        tags: spec.tags.clone(),
        web_acl: spec.waf_acl_arn.clone(),
        capacity: spec.minimum_capacity_units,
        name: spec.name.clone(),
        adopt: spec.adopt.clone(),
    })
}

/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html>
fn own_name(name: &str, spec: &MyIngressSpec, field: &Field<'_>) -> Result<(), Complaint> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text::of_characters(name, 1, 32, field, allowed, "letters, digits and hyphens")?;
    if name.starts_with('-') || name.ends_with('-') || name.starts_with("internal-") {
        return field.complain("must neither begin nor end with a hyphen, nor begin with internal-");
    }
    if spec.group.is_some() {
        return field.complain("is for a balancer of one object: a group's balancer is called after spec.group.name");
    }
    if spec.adopt.is_some() {
        return field.complain("is for a new balancer: leave it out, for the adopted one keeps its name");
    }
    Ok(())
}

fn subnets(spec: &MyIngressSpec, field: &Field<'_>) -> Result<Option<SubnetsModel>, Complaint> {
    let list = field.name("subnets").with_reason("SubnetsInvalid");
    match &spec.subnet_selector {
        Some(_) if !spec.subnets.is_empty() => list.complain("must be left out where subnetSelector is given"),
        Some(selector) => Ok(Some(tagged(selector, &field.name("subnetSelector").with_reason("SubnetsInvalid"))?)),
        None if spec.subnets.is_empty() && spec.group.is_none() => {
            list.complain("is missing: give at least two subnets, or a subnetSelector")
        }
        None if spec.subnets.is_empty() => Ok(None),
        None => {
            let ids = ids(&spec.subnets, "subnet-", &list)?;
            if ids.len() < 2 {
                return list.complain("needs at least two subnets, each in another availability zone");
            }
            Ok(Some(SubnetsModel::Ids(ids)))
        }
    }
}

fn tagged(selector: &SubnetSelector, field: &Field<'_>) -> Result<SubnetsModel, Complaint> {
    let tags = field.name("tags");
    if selector.tags.is_empty() {
        return tags.complain("needs at least one tag");
    }
    for (key, values) in &selector.tags {
        text::of_characters(key, 1, 128, &tags.key(key), in_tags, "letters, digits, spaces and _ . : / = + - @")?;
        for value in values {
            text::of_characters(value, 0, 256, &tags.key(key), in_tags, "letters, digits, spaces and _ . : / = + - @")?;
        }
    }
    if let Some(vpc) = &selector.vpc_id {
        text::id(vpc, "vpc-", &field.name("vpcId"))?;
    }
    Ok(SubnetsModel::Tagged { tags: selector.tags.clone(), vpc: selector.vpc_id.clone() })
}

fn security(spec: &MyIngressSpec, field: &Field<'_>) -> Result<SecurityModel, Complaint> {
    let (groups, cidrs) = (field.name("securityGroups"), field.name("inboundCidrs"));
    let lists = field.name("inboundPrefixLists");
    let user_provided = called(&spec.security_groups, &groups)?;
    let prefix_lists = ids(&spec.inbound_prefix_lists, "pl-", &lists)?;
    let networks = spec.inbound_cidrs.iter().enumerate().map(|(index, it)| text::network(it, &cidrs.item(index)));
    let networks: BTreeSet<String> = networks.collect::<Result<_, _>>()?;
    match (user_provided.is_empty(), networks.is_empty() && prefix_lists.is_empty()) {
        (true, true) => Ok(SecurityModel::Default),
        (false, true) => Ok(SecurityModel::Given(user_provided)),
        (true, false) => Ok(SecurityModel::Managed { cidrs: networks, prefix_lists, targets: BTreeSet::new() }),
        (false, false) => {
            let own = if networks.is_empty() { lists } else { cidrs };
            own.complain("makes a security group of its own: remove it, or spec.securityGroups")
        }
    }
}

/// Security groups by id, or by name: the value of their tag `Name`.
fn called(groups: &[String], field: &Field<'_>) -> Result<BTreeSet<String>, Complaint> {
    distinct(groups, field, |group, field| {
        if is_group_id(group) {
            text::id(group, "sg-", field)
        } else {
            text::of_characters(group, 1, 256, field, |c| !c.is_control(), "characters that can be printed")
        }
    })
}

fn ids(ids: &[String], prefix: &str, field: &Field<'_>) -> Result<BTreeSet<String>, Complaint> {
    distinct(ids, field, |id, field| text::id(id, prefix, field))
}

/// Checks that nothing is in the list twice.
fn distinct(
    list: &[String],
    field: &Field<'_>,
    check: impl Fn(&str, &Field<'_>) -> Result<(), Complaint>,
) -> Result<BTreeSet<String>, Complaint> {
    let mut found = BTreeSet::new();
    for (index, item) in list.iter().enumerate() {
        let field = field.item(index);
        check(item, &field)?;
        if !found.insert(item.clone()) {
            return field.complain("is in the list twice: remove it");
        }
    }
    Ok(found)
}

fn balancer_attributes(spec: &MyIngressSpec, field: &Field<'_>) -> Result<Pairs, Complaint> {
    let mut fields = Vec::new();
    let mut say = |name, key, value: Option<String>| fields.extend(value.map(|value| (name, key, value)));
    let timeout = spec.idle_timeout.as_ref().map(|it| it.seconds().to_string());
    say("spec.idleTimeout", "idle_timeout.timeout_seconds", timeout);
    let protection = spec.deletion_protection.map(|it| it.to_string());
    say("spec.deletionProtection", "deletion_protection.enabled", protection);
    say("spec.http2", "routing.http2.enabled", spec.http2.map(|it| it.to_string()));
    let drop = spec.drop_invalid_headers.map(|it| it.to_string());
    say("spec.dropInvalidHeaders", "routing.http.drop_invalid_header_fields.enabled", drop);
    if let Some(logs) = &spec.access_logs {
        check_access_logs(logs, &field.name("accessLogs"))?;
        say("spec.accessLogs", "access_logs.s3.enabled", Some("true".into()));
        say("spec.accessLogs", "access_logs.s3.bucket", Some(logs.bucket.clone()));
        // If the spec has no prefix, the former one is removed.
        say("spec.accessLogs", "access_logs.s3.prefix", Some(logs.prefix.clone().unwrap_or_default()));
    }
    let map = field.name("attributes").with_reason("AttributesInvalid");
    let all = attributes::with_fields(&spec.attributes, fields, &map)?;
    attributes::check_balancer(&all, &map)?;
    Ok(all)
}

/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/enable-access-logging.html>
fn check_access_logs(logs: &AccessLogs, field: &Field<'_>) -> Result<(), Complaint> {
    let in_bucket = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
    let bucket = field.name("bucket");
    text::of_characters(&logs.bucket, 3, 63, &bucket, in_bucket, "lower case letters, digits, dots and hyphens")?;
    let Some(text) = &logs.prefix else { return Ok(()) };
    let prefix = field.name("prefix");
    let allowed = |c: char| c.is_ascii_alphanumeric() || "/_.=-".contains(c);
    text::of_characters(text, 0, 512, &prefix, allowed, "letters, digits and / _ . = -")?;
    if text.starts_with('/') || text.ends_with('/') || text.contains("AWSLogs") {
        return prefix.complain("must not begin or end with a slash nor contain AWSLogs");
    }
    Ok(())
}

fn web_acl(arn: &str, field: &Field<'_>) -> Result<(), Complaint> {
    text::arn(arn, &["wafv2"], field)?;
    let resource = arn.splitn(6, ':').last().unwrap_or_default();
    match resource.split('/').collect::<Vec<_>>()[..] {
        ["regional", "webacl", name, id] if !name.is_empty() && !id.is_empty() => Ok(()),
        _ => field
            .complain("must be the ARN of a regional web ACL, arn:aws:wafv2:REGION:ACCOUNT:regional/webacl/NAME/ID"),
    }
}

/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_Tag.html>
fn check_tags(tags: &Pairs, grouped: bool, field: &Field<'_>) -> Result<(), Complaint> {
    let field = field.with_reason("TagsInvalid");
    within_tag_limit(tags, grouped, &field)?;
    for (key, value) in tags {
        let entry = field.key(key);
        text::of_characters(key, 1, 128, &entry, in_tags, "letters, digits, spaces and _ . : / = + - @")?;
        text::of_characters(value, 0, 256, &entry, in_tags, "letters, digits, spaces and _ . : / = + - @")?;
        // AWS distinguishes tag keys by letter case, but policies that name them may not. Our keys with other letter
        // case would thus mislead, and are reserved too.
        // https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html#id_tags_rules_case-insensitive
        let begins = |start: &str| key.get(..start.len()).is_some_and(|its| its.eq_ignore_ascii_case(start));
        let reserved = begins("aws:") || begins(&format!("{PREFIX}/")) || key.eq_ignore_ascii_case("ManagedBy");
        if reserved {
            return entry
                .complain(format_args!("must not be ManagedBy nor begin with aws: or {PREFIX}/: choose another key"));
        }
    }
    Ok(())
}

/// Checks that there is room for Causeway's own tags besides these.
pub fn within_tag_limit(tags: &Pairs, grouped: bool, field: &Field<'_>) -> Result<(), Complaint> {
    let most = MOST_TAGS - OWN_TAGS - usize::from(grouped);
    if tags.len() > most {
        return field.complain(format_args!("comes to {} tags beside Causeway's own: keep at most {most}", tags.len()));
    }
    Ok(())
}

/// Characters that AWS takes in tags. Line breaks and tabs are control characters, not spaces.
fn in_tags(c: char) -> bool {
    c.is_alphanumeric() || (c.is_whitespace() && !c.is_control()) || "_.:/=+-@".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures::{born, built, complaint, describe, model};
    use serde_json::{Value, json};

    #[test]
    fn fields_and_map_become_attributes() {
        let balancer = model(json!({
            "idleTimeout": "90s", "deletionProtection": false, "http2": true, "dropInvalidHeaders": true,
            "accessLogs": { "bucket": "logs" }, "attributes": { "client_keep_alive.seconds": "60" },
        }))
        .balancer;
        let wanted = [
            ("access_logs.s3.bucket", "logs"),
            ("access_logs.s3.enabled", "true"),
            ("access_logs.s3.prefix", ""),
            ("client_keep_alive.seconds", "60"),
            ("deletion_protection.enabled", "false"),
            ("idle_timeout.timeout_seconds", "90"),
            ("routing.http.drop_invalid_header_fields.enabled", "true"),
            ("routing.http2.enabled", "true"),
        ];
        assert_eq!(
            balancer.attributes.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>(),
            wanted
        );
    }

    #[test]
    fn networks_of_the_security_group_are_in_their_one_form() {
        let security = model(json!({ "inboundCidrs": ["10.9.8.7/8", "10.0.0.0/8", "::/0"] })).balancer.security;
        let cidrs = BTreeSet::from(["10.0.0.0/8".to_owned(), "::/0".to_owned()]);
        assert_eq!(security, SecurityModel::Managed { cidrs, prefix_lists: BTreeSet::new(), targets: BTreeSet::new() });
        assert_eq!(model(json!({})).balancer.security, SecurityModel::Default);
    }

    #[test]
    fn subnets_may_be_found_by_tags() {
        let spec =
            json!({ "subnetSelector": { "tags": { "kubernetes.io/role/elb": ["1"], "any": [] }, "vpcId": "vpc-1" } });
        let subnets = built(&[&born("web", 0, spec)]).model.unwrap().balancer.subnets;
        let tags = [("kubernetes.io/role/elb".to_owned(), vec!["1".to_owned()]), ("any".to_owned(), vec![])].into();
        assert_eq!(subnets, SubnetsModel::Tagged { tags, vpc: Some("vpc-1".into()) });
    }

    #[test]
    fn tags_of_any_script_are_counted_with_our_own() {
        assert_eq!(model(json!({ "tags": { "équipe": "магазин 7" } })).balancer.tags["équipe"], "магазин 7");
        let tags = |number: usize| -> Value {
            (0..number).map(|it| (format!("t{it}"), json!(""))).collect::<serde_json::Map<_, _>>().into()
        };
        assert_eq!(model(json!({ "tags": tags(43) })).balancer.tags.len(), 43);
        for (spec, words) in [
            (json!({ "tags": tags(44) }), "comes to 44 tags beside Causeway's own: keep at most 43"),
            (
                json!({ "tags": tags(43), "group": { "name": "all" } }),
                "comes to 43 tags beside Causeway's own: keep at most 42",
            ),
        ] {
            assert!(complaint(spec).1.contains(words), "{words}");
        }
    }

    #[test]
    fn what_aws_would_refuse_is_named_with_field_and_fix() {
        for (spec, words) in [
            (json!({ "subnets": ["subnet-a"] }), "spec.subnets needs at least two subnets"),
            (json!({ "subnets": ["subnet-a", "subnet-a"] }), "spec.subnets[1] is in the list twice"),
            (json!({ "subnets": ["subnet-a", "a\n"] }), "spec.subnets[1] must be an id such as subnet-0a1b2c3d"),
            (
                json!({ "subnetSelector": { "tags": { "a": [] } } }),
                "spec.subnets must be left out where subnetSelector is given",
            ),
            (json!({ "securityGroups": ["sg-X"] }), "spec.securityGroups[0] must be an id such as sg-0a1b2c3d"),
            (json!({ "securityGroups": ["web\n"] }), "spec.securityGroups[0] has '\\n'"),
            (
                json!({ "targetSecurityGroups": ["nodes"] }),
                "spec.targetSecurityGroups needs a security group that is made",
            ),
            (
                json!({ "securityGroups": ["sg-1"], "inboundCidrs": ["::/0"] }),
                "spec.inboundCidrs makes a security group of its own",
            ),
            (json!({ "inboundCidrs": ["10.0.0.0"] }), "spec.inboundCidrs[0] must be a network"),
            (
                json!({ "idleTimeout": "4001s" }),
                "spec.attributes[idle_timeout.timeout_seconds] must be a number from 1 to 4000",
            ),
            (json!({ "attributes": { "routing.http2.enabled": "yes" } }), "must be one of true, false"),
            (
                json!({ "http2": true, "attributes": { "routing.http2.enabled": "true" } }),
                "says again what spec.http2 says",
            ),
            (json!({ "accessLogs": { "bucket": "B" } }), "spec.accessLogs.bucket has 'B'"),
            (
                json!({ "accessLogs": { "bucket": "bbb", "prefix": "/a" } }),
                "spec.accessLogs.prefix must not begin or end",
            ),
            (
                json!({ "wafAclArn": "arn:aws:wafv2:r:1:global/webacl/a/b" }),
                "spec.wafAclArn must be the ARN of a regional web ACL",
            ),
            (json!({ "minimumCapacityUnits": 99 }), "spec.minimumCapacityUnits must be at least 100"),
            (
                json!({ "scheme": "internal", "ipAddressType": "dualstack-without-public-ipv4" }),
                "spec.ipAddressType dualstack-without-public-ipv4 is for scheme internet-facing",
            ),
            (json!({ "name": "a_b" }), "spec.name has '_'"),
            (json!({ "name": "internal-a" }), "spec.name must neither begin nor end"),
            (json!({ "name": "a", "group": { "name": "g" } }), "spec.name is for a balancer of one object"),
            (json!({ "name": "a", "adopt": "b" }), "spec.name is for a new balancer"),
            (json!({ "adopt": "a_b" }), "spec.adopt has '_'"),
            (json!({ "adopt": "a", "group": { "name": "g" } }), "spec.adopt is for a balancer of one object"),
            (json!({ "tags": { "a": "b\n" } }), r"spec.tags[a] has '\n'"),
            (json!({ "tags": { "AWS:a": "b" } }), "spec.tags[AWS:a] must not be ManagedBy nor begin with aws:"),
            (json!({ "tags": { "causeway.example.com/x": "b" } }), "choose another key"),
            (json!({ "tags": { "Causeway.example.com/let-in": "b" } }), "choose another key"),
            (json!({ "tags": { "managedby": "b" } }), "choose another key"),
            (json!({ "tags": { "Aws:a": "b" } }), "choose another key"),
        ] {
            let (_, message) = complaint(spec);
            assert!(message.contains(words), "{message}\nshould say: {words}");
        }
        let nowhere = built(&[&born("web", 0, json!({}))]);
        assert!(describe(&nowhere, "web").starts_with("spec.subnets is missing: give at least two subnets"));
    }
}
