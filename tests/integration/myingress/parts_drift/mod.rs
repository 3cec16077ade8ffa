//! Every part of a balancer that others change or remove is put back within a sweep, or reported. The changes
//! are those that AWS's API offers; docs/myingress.md has the same table.

mod balancer;
mod groups;
mod listeners;
mod network;
mod open;
mod rules;

use std::pin::Pin;
use std::time::Instant;

use aws_sdk_elasticloadbalancingv2::types::{
    Action, ActionTypeEnum, FixedResponseActionConfig, ForwardActionConfig, Rule, RulePriorityPair, Tag,
};
use causeway_api::MyIngress;
use causeway_aws::ec2::Parameters;
use serde_json::json;

use super::drift_events::counted;
use super::full_policy::web_acl;
use super::{let_in, two_sweeps};
use crate::support::account::{becomes, listeners as listeners_of, rules as rules_of, target_groups};
use crate::support::certificates::{EXAMPLE_COM, EXAMPLE_ORG, import};
use crate::support::{Account, Operator, Scene, full, wait_for};

/// A change by hand to the balancer with that ARN.
type Deed = for<'a> fn(&'a Scene, &'a str) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A change by hand that Causeway puts back.
struct Change {
    /// The changed part, as docs/myingress.md names it.
    what: &'static str,
    /// The operations that do it.
    calls: &'static str,
    /// The kind of part that is counted; `None` if it is not reported.
    part: Option<&'static str>,
    deed: Deed,
}

const fn change(what: &'static str, calls: &'static str, part: &'static str, deed: Deed) -> Change {
    Change { what, calls, part: Some(part), deed }
}

const fn silent(what: &'static str, calls: &'static str, deed: Deed) -> Change {
    Change { what, calls, part: None, deed }
}

/// A scene with an object that sets all that the example sets and more, its operator, and the ARN of its balancer.
async fn everything() -> (Scene, Operator, String) {
    let scene = Scene::new("drift").await;
    scene.emulator.settings(json!({ "draining_scale": 0 })).await;
    import(&scene, EXAMPLE_COM).await;
    import(&scene, EXAMPLE_ORG).await;
    let nodes = let_in::group(&scene, "nodes").await;
    let consent = Parameters::default().add("ResourceId.1", nodes).add("Tag.1.Key", "causeway.example.com/let-in");
    scene.ec2("CreateTags", consent.add("Tag.1.Value", &scene.namespace)).await;
    let operator = Operator::start(&scene).await;
    full::stage(&scene).await;
    let mut spec = full::spec(&scene);
    spec["ipAddressType"] = json!("ipv4");
    spec["wafAclArn"] = json!(web_acl(&scene, "shop").await);
    spec["minimumCapacityUnits"] = json!(500);
    spec["targetSecurityGroups"] = json!(["nodes"]);
    scene.create::<MyIngress>(full::NAME, spec).await;
    let arn = full::complete(&scene).await;
    (scene, operator, arn)
}

/// Makes each change, and waits until all is as it was and the repair is counted.
async fn each_is_undone(changes: &[Change]) {
    let (scene, operator, arn) = everything().await;
    let good = Account::of(&scene).await.facts(&scene);
    for Change { what, part, deed, .. } in changes {
        let count = |part: &str| counted(&operator).get(part).copied().unwrap_or_default();
        let before = part.map(count);
        deed(&scene, &arn).await;
        let begun = Instant::now();
        becomes(&scene, what, &good).await;
        if let Some(part) = part {
            let look = || async { count(part) };
            wait_for(&format!("{what}: drift of a {part} to be counted"), look, |now| Some(*now) > before).await;
        }
        println!("» drift repaired, sweep of 2 s: {what}, {} ms", begun.elapsed().as_millis());
    }
    two_sweeps(&scene).await;
    assert_eq!(good.diff(&Account::of(&scene).await.facts(&scene)), "", "and so it stays");
}

pub async fn https(scene: &Scene, balancer: &str) -> String {
    listeners_of(scene, balancer).await[&443].listener_arn.clone().expect("an ARN")
}

pub async fn rule(scene: &Scene, balancer: &str, index: usize) -> String {
    rules_of(scene, &https(scene, balancer).await).await[index].rule_arn.clone().expect("an ARN")
}

pub async fn group(scene: &Scene, backend: &str) -> String {
    let groups = target_groups(scene).await.into_iter();
    let mut named =
        groups.filter(|it| it.target_group_name().is_some_and(|name| name.starts_with(&format!("shop-{backend}"))));
    named.next().and_then(|group| group.target_group_arn).expect("the group")
}

fn forwards_to(rule: &Rule, group: &str) -> bool {
    let configurations = rule.actions().iter().filter_map(Action::forward_config);
    configurations.flat_map(ForwardActionConfig::target_groups).any(|it| it.target_group_arn() == Some(group))
}

pub fn gone_action() -> Action {
    let response = FixedResponseActionConfig::builder().status_code("418").build();
    Action::builder().r#type(ActionTypeEnum::FixedResponse).fixed_response_config(response).build()
}

pub async fn retag(scene: &Scene, arn: &str) {
    let tag = Tag::builder().key("team").value("pirates").build();
    scene.elb.add_tags().resource_arns(arn).tags(tag).send().await.expect("the tag");
}

/// The tags of that resource: whatever has them counts as Causeway's.
async fn tags_of(scene: &Scene, arn: &str) -> Vec<Tag> {
    let tags = scene.tags(arn).await.into_iter();
    tags.map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}

async fn security_group(scene: &Scene, balancer: &str) -> String {
    super::bystander::read_balancer(scene, balancer).await.balancer.security_groups()[0].clone()
}

pub async fn ingress(scene: &Scene, balancer: &str, cidr: &str, port: i32, let_in: bool) {
    let permission = Parameters::default()
        .add("GroupId", security_group(scene, balancer).await)
        .add("IpPermissions.1.IpProtocol", "tcp")
        .add("IpPermissions.1.FromPort", port.to_string())
        .add("IpPermissions.1.ToPort", port.to_string())
        .add("IpPermissions.1.IpRanges.1.CidrIp", cidr);
    let action = if let_in { "AuthorizeSecurityGroupIngress" } else { "RevokeSecurityGroupIngress" };
    scene.ec2(action, permission).await;
}

#[tokio::test]
async fn settings_of_the_balancer_are_put_back() {
    each_is_undone(balancer::CHANGES).await;
}

#[tokio::test]
async fn listeners_are_put_back() {
    each_is_undone(listeners::CHANGES).await;
}

#[tokio::test]
async fn rules_are_put_back() {
    each_is_undone(rules::CHANGES).await;
}

#[tokio::test]
async fn target_groups_are_put_back() {
    each_is_undone(groups::CHANGES).await;
}

#[tokio::test]
async fn the_security_group_and_the_balancer_are_put_back() {
    each_is_undone(network::CHANGES).await;
}

#[tokio::test]
async fn a_changed_order_of_rules_is_put_back() {
    let scene = Scene::new("drift").await;
    let _operator = Operator::start(&scene).await;
    let arn = full::created(&scene).await;
    let listener = https(&scene, &arn).await;
    let order =
        || async { rules_of(&scene, &listener).await.into_iter().map(|rule| rule.rule_arn).collect::<Vec<_>>() };
    let before = order().await;
    let reversed = (1..).zip(before.iter().take(6).rev());
    let pairs: Vec<RulePriorityPair> = reversed
        .map(|(priority, arn)| RulePriorityPair::builder().priority(priority).set_rule_arn(arn.clone()).build())
        .collect();
    scene.elb.set_rule_priorities().set_rule_priorities(Some(pairs)).send().await.expect("the order");
    wait_for("the order to be as it was", order, |now| *now == before).await;
}

#[test]
fn the_page_says_what_becomes_of_each_change() {
    let put_back = |it: &Change| match it.part {
        Some(part) => format!("| {} | {} | puts it back: `{part}` |", it.what, it.calls),
        None => format!("| {} | {} | puts it back, without an event |", it.what, it.calls),
    };
    let parts = [balancer::CHANGES, network::CHANGES, listeners::CHANGES, rules::CHANGES, groups::CHANGES];
    let stays = |(what, calls, told): &(&str, &str, &str)| format!("| {what} | {calls} | {told} |");
    let expected: Vec<String> =
        parts.iter().copied().flatten().map(put_back).chain(open::LEFT.iter().map(stays)).collect();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/myingress.md")).expect("the page");
    let table = page.lines().skip_while(|line| !line.starts_with("| changed in AWS | by |")).skip(2);
    let shown: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
    assert_eq!(shown, expected, "the table should be:\n{}", expected.join("\n"));
}
