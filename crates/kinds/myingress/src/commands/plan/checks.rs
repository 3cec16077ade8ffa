//! Checks of a spec that only AWS can make. AWS is asked if asking changes nothing; otherwise the check is listed as
//! not made.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::MyIngress;
use causeway_api::myingress::{ListenerSpec, MyIngressSpec};
use causeway_aws::acm::Certificate;
use causeway_aws::aws::AwsError;
use causeway_aws::ec2::Subnet;
use causeway_aws::elbv2::ListenerSettings;

use super::report::{Check, CheckState};
use crate::MyIngressKind;
use crate::model::{RECOMMENDED_SSL_POLICY, is_group_id};
use crate::ownership::Owner;

/// A balancer needs at least this many free addresses in each subnet.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/application-load-balancers.html>
const FREE_ADDRESSES: u32 = 8;

/// Lists what is wrong with the spec according to AWS, and what was not checked.
pub async fn checks(kind: &MyIngressKind, object: &MyIngress) -> Vec<Check> {
    let (spec, owner) = (&object.spec, Owner::of_object(kind.region.cluster(), object));
    let mut found = Vec::new();
    if !spec.subnets.is_empty() {
        match kind.region.subnets(&owner, &spec.subnets).await {
            Ok(subnets) => found.extend(subnets_wrong(&spec.subnets, &subnets)),
            Err(error) if error.is("InvalidSubnetID.NotFound") => {
                let fix = "use ids of subnets of the operator's account and region";
                found.push(wrong("spec.subnets", format!("AWS knows no such subnet ({}): {fix}", error.message)));
            }
            Err(error) => found.push(unread("spec.subnets", &error)),
        }
    }
    if spec.listeners.iter().any(|listener| listener.ssl_policy.is_some()) {
        match kind.region.elb.ssl_policies().await {
            Ok(known) => found.extend(policies_wrong(spec, &known)),
            Err(error) => found.push(unread("spec.listeners[].sslPolicy", &error)),
        }
    }
    if spec.listeners.iter().any(|listener| listener.certificate_arns.iter().any(|arn| is_acm(arn))) {
        match kind.region.certificates(&owner).await {
            Ok(known) => found.extend(certificates_wrong(spec, &known)),
            Err(error) => found.push(unread("spec.listeners[].certificateArns", &error)),
        }
    }
    let assets = kind.region.owned_by(&owner);
    let listeners = assets.balancers.values().filter_map(|it| it.listeners.as_ref()).flat_map(BTreeMap::values);
    found.extend(policies_kept(spec, &listeners.map(|it| &it.listener.settings).collect::<Vec<_>>()));
    found.extend(not_asked(spec));
    found
}

/// The check that reports that no `CausewayPolicy` could be read.
pub fn policies_unasked(why: &str) -> Check {
    let message = format!("not checked: what CausewayPolicies allow in this namespace: {why}");
    Check { field: "metadata.namespace".into(), state: CheckState::Unchecked, message }
}

fn wrong(field: impl Into<String>, message: String) -> Check {
    Check { field: field.into(), state: CheckState::Wrong, message }
}

fn unread(field: &str, error: &AwsError) -> Check {
    Check { field: field.into(), state: CheckState::Unchecked, message: format!("could not be checked: {error}") }
}

/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-subnets.html>
fn subnets_wrong(ids: &[String], known: &[Subnet]) -> Vec<Check> {
    let mut found = Vec::new();
    let (mut zones, mut vpcs) = (BTreeMap::new(), BTreeSet::new());
    for (index, id) in ids.iter().enumerate() {
        let field = format!("spec.subnets[{index}]");
        let Some(subnet) = known.iter().find(|subnet| subnet.id == *id) else {
            let fix = "use the id of a subnet of the operator's account and region";
            found.push(wrong(field, format!("AWS knows no subnet {id}: {fix}")));
            continue;
        };
        vpcs.insert(&subnet.vpc);
        if let Some(first) = zones.insert(&subnet.zone, id) {
            let zone = &subnet.zone;
            found.push(wrong(&field, format!("{id} is in {zone}, as {first} is: give one subnet in each zone")));
        }
        if subnet.free_addresses < FREE_ADDRESSES {
            let free = subnet.free_addresses;
            let fix = format!("choose another, a balancer needs {FREE_ADDRESSES}");
            found.push(wrong(field, format!("{id} has {free} free addresses: {fix}")));
        }
    }
    if vpcs.len() > 1 {
        found.push(wrong("spec.subnets", "the subnets are in several VPCs: use those of one".into()));
    } else if zones.len() == 1 && found.is_empty() {
        found.push(wrong("spec.subnets", "the subnets are in one zone: give one in each of at least two".into()));
    }
    found
}

fn policies_wrong(spec: &MyIngressSpec, known: &BTreeSet<String>) -> Vec<Check> {
    let policies = spec.listeners.iter().enumerate();
    let policies = policies.filter_map(|(index, it)| Some((index, it.ssl_policy.as_ref()?)));
    let unknown = policies.filter(|(_, policy)| !known.contains(*policy)).map(|(index, policy)| {
        let fix = "use one that `aws elbv2 describe-ssl-policies` lists";
        wrong(format!("spec.listeners[{index}].sslPolicy"), format!("AWS has no security policy {policy}: {fix}"))
    });
    unknown.collect()
}

/// Lists HTTPS listeners that keep a security policy other than the recommended one, because their spec names none.
fn policies_kept(spec: &MyIngressSpec, listeners: &[&ListenerSettings]) -> Vec<Check> {
    let kept = |(index, spec): (usize, &ListenerSpec)| {
        let live = listeners.iter().find(|it| it.port == spec.port)?;
        let policy = live.ssl_policy.as_ref().filter(|policy| *policy != RECOMMENDED_SSL_POLICY)?;
        let message =
            format!("the listener keeps {policy}: AWS recommends {RECOMMENDED_SSL_POLICY}, give it to change that");
        let field = format!("spec.listeners[{index}].sslPolicy");
        spec.ssl_policy.is_none().then_some(Check { field, state: CheckState::Kept, message })
    };
    spec.listeners.iter().enumerate().filter_map(kept).collect()
}

fn certificates_wrong(spec: &MyIngressSpec, known: &[Certificate]) -> Vec<Check> {
    let unknown = arns(spec).filter(|(_, arn)| is_acm(arn) && !known.iter().any(|it| it.arn == **arn));
    let complain = |(field, arn): (String, &String)| {
        let fix = "request it, wait until it is issued, or name another of the operator's account and region";
        wrong(field, format!("AWS Certificate Manager has no issued certificate {arn}: {fix}"))
    };
    unknown.map(complain).collect()
}

fn arns(spec: &MyIngressSpec) -> impl Iterator<Item = (String, &String)> {
    spec.listeners.iter().enumerate().flat_map(|(index, listener)| {
        let arns = listener.certificate_arns.iter().enumerate();
        arns.map(move |(place, arn)| (format!("spec.listeners[{index}].certificateArns[{place}]"), arn))
    })
}

fn is_acm(arn: &str) -> bool {
    arn.split(':').nth(2) == Some("acm")
}

/// Lists what a plan assumes to be right without asking AWS.
fn not_asked(spec: &MyIngressSpec) -> Vec<Check> {
    let mut found = Vec::new();
    let mut note = |field: String, what: &str| {
        let message = format!("not checked: {what}");
        found.push(Check { field, state: CheckState::Unchecked, message });
    };
    if spec.security_groups.iter().any(|called| is_group_id(called)) {
        note("spec.securityGroups".into(), "whether the groups of these ids exist in the balancer's VPC");
    }
    if !spec.inbound_prefix_lists.is_empty() {
        note("spec.inboundPrefixLists".into(), "whether the lists exist, and how many entries they may have");
    }
    if spec.access_logs.is_some() {
        note("spec.accessLogs".into(), "whether the bucket is in this region and its policy lets AWS write");
    }
    if spec.waf_acl_arn.is_some() {
        note("spec.wafAclArn".into(), "whether the web ACL exists in this account");
    }
    if !spec.attributes.is_empty() {
        note("spec.attributes".into(), "whether AWS takes attributes that Causeway does not know");
    }
    for (field, arn) in arns(spec).filter(|(_, arn)| !is_acm(arn)) {
        note(field, &format!("whether IAM has the certificate {arn}"));
    }
    for (index, listener) in spec.listeners.iter().enumerate() {
        if listener.mutual_authentication.as_ref().is_some_and(|it| it.trust_store_arn.is_some()) {
            let field = format!("spec.listeners[{index}].mutualAuthentication.trustStoreArn");
            note(field, "whether the trust store exists and is active");
        }
        let rules = listener.rules.iter().map(|rule| &rule.action);
        let forwards = rules.chain(&listener.default_action).filter_map(|action| action.forward.as_ref());
        if forwards.into_iter().any(|forward| !forward.target_groups.is_empty()) {
            let what = "whether the target groups of forward.targetGroups exist, and no other balancer uses them";
            note(format!("spec.listeners[{index}]"), what);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(more: Value) -> MyIngressSpec {
        serde_json::from_value(more).unwrap()
    }

    fn subnet(id: &str, zone: &str, vpc: &str, free_addresses: u32) -> Subnet {
        let (id, zone, vpc) = (id.into(), zone.into(), vpc.into());
        Subnet { id, vpc, zone, free_addresses, ipv6: false, tags: BTreeMap::new() }
    }

    fn fields(checks: &[Check]) -> Vec<&str> {
        checks.iter().map(|check| check.field.as_str()).collect()
    }

    #[test]
    fn subnets_are_in_two_zones_of_one_vpc_with_room() {
        let known = [
            subnet("a", "z1", "v", 8),
            subnet("b", "z2", "v", 8),
            subnet("c", "z1", "v", 7),
            subnet("d", "z3", "w", 9),
        ];
        let wrong = |ids: &[&str]| {
            let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            subnets_wrong(&ids, &known)
        };
        assert_eq!(wrong(&["a", "b"]), []);
        assert_eq!(fields(&wrong(&["a", "x"])), ["spec.subnets[1]"]);
        assert_eq!(fields(&wrong(&["a", "c"])), ["spec.subnets[1]", "spec.subnets[1]"], "zone and addresses");
        assert_eq!(fields(&wrong(&["a", "d"])), ["spec.subnets"]);
        assert_eq!(fields(&wrong(&["a"])), ["spec.subnets"]);
    }

    #[test]
    fn policies_and_certificates_are_named_by_their_place() {
        let arn = |name: &str| format!("arn:aws:acm:eu-west-1:000000000000:certificate/{name}");
        let spec = spec(json!({ "listeners": [
            { "port": 443, "sslPolicy": "good", "certificateArns": [arn("a")] },
            { "port": 8443, "protocol": "HTTPS", "sslPolicy": "bad", "certificateArns": [arn("a"), arn("b")] },
        ] }));
        let known = BTreeSet::from(["good".to_owned()]);
        assert_eq!(fields(&policies_wrong(&spec, &known)), ["spec.listeners[1].sslPolicy"]);
        let known = [Certificate { arn: arn("a"), names: BTreeSet::new(), expires: None }];
        assert_eq!(fields(&certificates_wrong(&spec, &known)), ["spec.listeners[1].certificateArns[1]"]);
    }

    #[test]
    fn a_kept_security_policy_is_reported_without_one_in_spec() {
        use crate::region::fixtures::listener_on;
        use causeway_aws::elbv2::Protocol;

        let listener =
            |policy: &str| ListenerSettings { ssl_policy: Some(policy.into()), ..listener_on(443, Protocol::Https) };
        let (old, recommended) = (listener("ELBSecurityPolicy-2016-08"), listener(RECOMMENDED_SSL_POLICY));
        let left_out = spec(json!({ "listeners": [{ "port": 80 }, { "port": 443 }] }));
        let found = policies_kept(&left_out, &[&old]);
        assert_eq!(fields(&found), ["spec.listeners[1].sslPolicy"]);
        assert!(found[0].message.contains("keeps ELBSecurityPolicy-2016-08"), "{}", found[0].message);
        assert_eq!(policies_kept(&left_out, &[&recommended]), []);
        let given = spec(json!({ "listeners": [{ "port": 443, "sslPolicy": "ELBSecurityPolicy-2016-08" }] }));
        assert_eq!(policies_kept(&given, &[&old]), []);
    }

    #[test]
    fn what_was_not_asked_is_named() {
        let arn = "arn:aws:iam::000000000000:server-certificate/a";
        let forward = json!({ "forward": { "targetGroups": [{ "arn": "t" }] } });
        let spec = spec(json!({
            "securityGroups": ["sg-1"], "accessLogs": { "bucket": "logs" },
            "listeners": [{ "port": 443, "certificateArns": [arn], "defaultAction": forward }],
        }));
        let wanted =
            ["spec.securityGroups", "spec.accessLogs", "spec.listeners[0].certificateArns[0]", "spec.listeners[0]"];
        assert_eq!(fields(&not_asked(&spec)), wanted);
        assert_eq!(not_asked(&self::spec(json!({ "listeners": [{ "port": 80 }] }))), []);
    }
}
