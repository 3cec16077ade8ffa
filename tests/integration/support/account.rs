//! Everything that AWS reports about an account's load balancing. Tests compare it to see that nothing else changed,
//! that all is as it was, or that two accounts are alike.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_elasticloadbalancingv2::types::{Listener, LoadBalancer, Rule, TargetGroup, TargetHealthDescription};
use serde_json::{Value, json};

use super::ec2::{described_security_groups, json_of};
use super::journal_value::from_debug;
use super::{Scene, wait_for};

/// An account, as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Account(pub Value);

impl Account {
    /// The scene's account as it is now.
    pub async fn of(scene: &Scene) -> Self {
        // If something is deleted while the account is read, the account is read again.
        let whole = wait_for("a whole view of the account", || Self::read_once(scene), Option::is_some).await;
        whole.expect("just seen")
    }

    async fn read_once(scene: &Scene) -> Option<Self> {
        let mut balancers = BTreeMap::new();
        for balancer in scene.balancers().await {
            let name = balancer.load_balancer_name().unwrap_or_default().to_owned();
            balancers.insert(name, described_balancer(scene, &balancer).await?);
        }
        let mut groups = BTreeMap::new();
        for group in target_groups(scene).await {
            let name = group.target_group_name().unwrap_or_default().to_owned();
            groups.insert(name, described_group(scene, &group).await?);
        }
        let security: BTreeMap<String, Value> = described_security_groups(scene)
            .await
            .into_iter()
            .filter(|group| group.value("vpcId").as_deref() == Some("vpc-causeway"))
            .map(|group| (group.value("groupName").unwrap_or_default(), sorted(json_of(&group))))
            .collect();
        Some(Self(json!({ "balancers": balancers, "targetGroups": groups, "securityGroups": security })))
    }

    /// The account as text, for people and for comparisons of words.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(&self.0).expect("a text")
    }

    /// Reports whether the account has no more objects of load balancing than at the beginning.
    pub fn is_empty(&self) -> bool {
        let groups = self.0["securityGroups"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        self.0["balancers"] == json!({})
            && self.0["targetGroups"] == json!({})
            && groups.into_iter().all(|name| ["default", "sg-web", "sg-other"].contains(&name))
    }

    /// Every fact, one line each, without random parts: two scenes in which the same was done are equal. The priorities
    /// of rules are random as well; their order is not.
    pub fn facts(&self, scene: &Scene) -> Facts {
        let mut lines = BTreeMap::new();
        flatten("", &self.0, &mut lines);
        let line = |(path, value): (String, String)| {
            let text = format!("{path} = {value}").replace(&scene.namespace, "<namespace>");
            without_randomness(&text.replace(scene.emulator.account(), "<account>"))
        };
        let counts = |(path, _): &(String, String)| !path.ends_with(" rule priority");
        Facts(lines.into_iter().filter(counts).map(line).collect())
    }
}

/// The facts of an account: each line is a path into it and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts(pub BTreeSet<String>);

impl Facts {
    /// The lines in which `now` differs: `-` is no longer so, `+` is so now.
    pub fn diff(&self, now: &Self) -> String {
        let only = |sign: &str, of: &Self, not_of: &Self| {
            let lines = of.0.difference(&not_of.0);
            lines.fold(String::new(), |all, line| all + sign + " " + line + "\n")
        };
        format!("{}{}", only("-", self, now), only("+", now, self))
    }
}

/// Waits until the account is as it was.
pub async fn becomes(scene: &Scene, what: &str, expected: &Facts) {
    let look = || async { expected.diff(&Account::of(scene).await.facts(scene)) };
    wait_for(&format!("{what}: the account to be as it was"), look, String::is_empty).await;
}

fn flatten(path: &str, value: &Value, lines: &mut BTreeMap<String, String>) {
    let within = |step: &str| if path.is_empty() { step.to_owned() } else { format!("{path} {step}") };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(name, field)| flatten(&within(name), field, lines));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(index, item)| flatten(&within(&format!("[{index}]")), item, lines));
        }
        _ => {
            lines.insert(path.to_owned(), value.to_string());
        }
    }
}

/// The text with `<id>` in place of each UUID and each longer hexadecimal word: random parts of ARNs, and hashes in names.
pub fn without_randomness(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        if rest.get(..36).is_some_and(is_uuid) {
            result.push_str("<id>");
            rest = &rest[36..];
            continue;
        }
        let begins = result.ends_with(['-', '/', '"', ' ']);
        let random =
            begins && word.len() >= 8 && word.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c));
        result.push_str(if random { "<id>" } else { word });
        rest = &rest[end..];
        if let Some(separator) = rest.chars().next() {
            result.push(separator);
            rest = &rest[separator.len_utf8()..];
        }
    }
    result
}

fn is_uuid(text: &str) -> bool {
    text.bytes()
        .enumerate()
        .all(|(at, c)| if [8, 13, 18, 23].contains(&at) { c == b'-' } else { c.is_ascii_hexdigit() })
}

/// Every target group of the account.
pub async fn target_groups(scene: &Scene) -> Vec<TargetGroup> {
    scene.elb.describe_target_groups().send().await.expect("target groups").target_groups.unwrap_or_default()
}

/// The listeners of a balancer, by port.
pub async fn listeners(scene: &Scene, balancer: &str) -> BTreeMap<i32, Listener> {
    let answer = scene.elb.describe_listeners().load_balancer_arn(balancer).send().await.expect("listeners");
    let listeners = answer.listeners.unwrap_or_default().into_iter();
    listeners.map(|listener| (listener.port.unwrap_or_default(), listener)).collect()
}

/// The rules of a listener in their order, the default one last.
pub async fn rules(scene: &Scene, listener: &str) -> Vec<Rule> {
    let answer = scene.elb.describe_rules().listener_arn(listener).send().await.expect("rules");
    in_order(answer.rules.unwrap_or_default())
}

fn in_order(mut rules: Vec<Rule>) -> Vec<Rule> {
    rules.sort_by_key(|rule| rule.priority().and_then(|priority| priority.parse::<u32>().ok()).unwrap_or(u32::MAX));
    rules
}

/// The targets of a group as `address:port`, each with its state.
pub async fn targets(scene: &Scene, group: &str) -> BTreeMap<String, String> {
    targets_if_there(scene, group).await.expect("targets")
}

/// The same; `None` where the group is gone.
pub async fn targets_if_there(scene: &Scene, group: &str) -> Option<BTreeMap<String, String>> {
    let answer = scene.elb.describe_target_health().target_group_arn(group).send().await.ok()?;
    let targets = answer.target_health_descriptions.unwrap_or_default().into_iter();
    let described = |target: TargetHealthDescription| {
        let place =
            target.target().map(|it| format!("{}:{}", it.id().unwrap_or_default(), it.port().unwrap_or_default()));
        let state = target.target_health().and_then(|health| health.state()).map(|state| state.as_str().to_owned());
        (place.unwrap_or_default(), state.unwrap_or_default())
    };
    Some(targets.map(described).collect())
}

async fn tags(scene: &Scene, arn: &str) -> Option<BTreeMap<String, String>> {
    let answer = scene.elb.describe_tags().resource_arns(arn).send().await.ok()?;
    let tags = answer.tag_descriptions.unwrap_or_default().into_iter().flat_map(|it| it.tags.unwrap_or_default());
    Some(tags.map(|tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default())).collect())
}

async fn described_balancer(scene: &Scene, balancer: &LoadBalancer) -> Option<Value> {
    let arn = balancer.load_balancer_arn().unwrap_or_default();
    let attributes = scene.elb.describe_load_balancer_attributes().load_balancer_arn(arn).send().await.ok()?;
    let capacity = scene.elb.describe_capacity_reservation().load_balancer_arn(arn).send().await.ok()?;
    let acl = scene.waf().get_web_acl_for_resource().resource_arn(arn).send().await.ok()?.web_acl;
    let standing = scene.elb.describe_listeners().load_balancer_arn(arn).send().await.ok()?;
    let mut described_listeners = BTreeMap::new();
    for listener in standing.listeners() {
        let port = listener.port().unwrap_or_default().to_string();
        described_listeners.insert(port, described_listener(scene, listener).await?);
    }
    let mut subnets: Vec<_> = balancer.availability_zones().iter().filter_map(|zone| zone.subnet_id()).collect();
    subnets.sort_unstable();
    let mut security_groups = balancer.security_groups().to_vec();
    security_groups.sort_unstable();
    Some(json!({
        "arn": arn,
        "scheme": balancer.scheme().map(aws_sdk_elasticloadbalancingv2::types::LoadBalancerSchemeEnum::as_str),
        "addresses": balancer.ip_address_type().map(aws_sdk_elasticloadbalancingv2::types::IpAddressType::as_str),
        "subnets": subnets,
        "securityGroups": security_groups,
        "tags": tags(scene, arn).await?,
        "attributes": pairs(attributes.attributes(), |it| (it.key(), it.value())),
        "capacity": capacity.minimum_load_balancer_capacity.and_then(|it| it.capacity_units),
        "webAcl": acl.map(|acl| acl.arn),
        "listeners": described_listeners,
    }))
}

async fn described_listener(scene: &Scene, listener: &Listener) -> Option<Value> {
    let arn = listener.listener_arn().unwrap_or_default();
    let attributes = scene.elb.describe_listener_attributes().listener_arn(arn).send().await.ok()?;
    let certificates = scene.elb.describe_listener_certificates().listener_arn(arn).send().await.ok()?;
    let further = certificates.certificates().iter().filter(|it| it.is_default() != Some(true));
    let mut further: Vec<String> = further.filter_map(|it| it.certificate_arn.clone()).collect();
    further.sort_unstable();
    let rules = scene.elb.describe_rules().listener_arn(arn).send().await.ok()?;
    let mut described_rules = Vec::new();
    for rule in in_order(rules.rules.unwrap_or_default()) {
        let tags = tags(scene, rule.rule_arn().unwrap_or_default()).await?;
        described_rules.push(json!({ "rule": from_debug(&rule), "tags": tags }));
    }
    Some(json!({
        "listener": from_debug(listener),
        "tags": tags(scene, arn).await?,
        "attributes": pairs(attributes.attributes(), |it| (it.key(), it.value())),
        "furtherCertificates": further,
        "rules": described_rules,
    }))
}

async fn described_group(scene: &Scene, group: &TargetGroup) -> Option<Value> {
    let arn = group.target_group_arn().unwrap_or_default();
    let attributes = scene.elb.describe_target_group_attributes().target_group_arn(arn).send().await.ok()?;
    Some(json!({
        "group": from_debug(group),
        "tags": tags(scene, arn).await?,
        "attributes": pairs(attributes.attributes(), |it| (it.key(), it.value())),
        "targets": targets_if_there(scene, arn).await?,
    }))
}

/// EC2 returns lists in no particular order.
fn sorted(mut value: Value) -> Value {
    match &mut value {
        Value::Array(items) => {
            for item in items.iter_mut() {
                *item = sorted(item.take());
            }
            items.sort_by_key(ToString::to_string);
        }
        Value::Object(fields) => {
            for field in fields.values_mut() {
                *field = sorted(field.take());
            }
        }
        _ => {}
    }
    value
}

fn pairs<T>(all: &[T], pair: impl Fn(&T) -> (Option<&str>, Option<&str>)) -> BTreeMap<String, String> {
    let pairs = all.iter().map(pair);
    pairs.map(|(key, value)| (key.unwrap_or_default().to_owned(), value.unwrap_or_default().to_owned())).collect()
}
