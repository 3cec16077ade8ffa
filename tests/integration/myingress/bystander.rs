//! The changes that others make in AWS, beside Causeway.

use std::collections::BTreeMap;

use aws_sdk_elasticloadbalancingv2::types::{LoadBalancer, LoadBalancerAttribute, LoadBalancerSchemeEnum, Tag};

use crate::support::Scene;

/// A balancer with everything that can be seen of it.
#[derive(Debug, PartialEq)]
pub struct Seen {
    pub balancer: LoadBalancer,
    pub tags: BTreeMap<String, String>,
    pub attributes: BTreeMap<String, String>,
}

/// All that AWS says about a balancer.
pub async fn read_balancer(scene: &Scene, arn: &str) -> Seen {
    let all = scene.balancers().await;
    let balancer = all.into_iter().find(|it| it.load_balancer_arn() == Some(arn)).expect("the balancer");
    Seen { balancer, tags: scene.tags(arn).await, attributes: attributes(scene, arn).await }
}

pub async fn attributes(scene: &Scene, arn: &str) -> BTreeMap<String, String> {
    let answer = scene.elb.describe_load_balancer_attributes().load_balancer_arn(arn).send().await.expect("attributes");
    let pairs = answer.attributes.unwrap_or_default().into_iter();
    pairs.map(|pair| (pair.key.unwrap_or_default(), pair.value.unwrap_or_default())).collect()
}

/// Creates a balancer as another client would; returns its ARN.
pub async fn create(scene: &Scene, name: &str, subnets: &[&str], tags: &[(&str, &str)]) -> String {
    let tags = tags.iter().map(|(key, value)| tag(key, value)).collect();
    let call = scene.elb.create_load_balancer().name(name).scheme(LoadBalancerSchemeEnum::InternetFacing);
    let call = call.set_subnets(Some(subnets.iter().map(ToString::to_string).collect())).set_tags(Some(tags));
    let answer = call.send().await.expect("a foreign balancer");
    answer.load_balancers.unwrap_or_default().remove(0).load_balancer_arn.expect("an ARN")
}

pub async fn delete(scene: &Scene, arn: &str) {
    scene.elb.delete_load_balancer().load_balancer_arn(arn).send().await.expect("the deletion");
}

pub async fn add_tag(scene: &Scene, arn: &str, key: &str, value: &str) {
    scene.elb.add_tags().resource_arns(arn).tags(tag(key, value)).send().await.expect("the tag");
}

pub async fn remove_tag(scene: &Scene, arn: &str, key: &str) {
    scene.elb.remove_tags().resource_arns(arn).tag_keys(key).send().await.expect("the removal");
}

pub async fn set_attribute(scene: &Scene, arn: &str, key: &str, value: &str) {
    let attribute = LoadBalancerAttribute::builder().key(key).value(value).build();
    let call = scene.elb.modify_load_balancer_attributes().load_balancer_arn(arn).attributes(attribute);
    call.send().await.expect("the attribute");
}

pub async fn set_subnets(scene: &Scene, arn: &str, subnets: &[&str]) {
    let subnets = subnets.iter().map(ToString::to_string).collect();
    scene.elb.set_subnets().load_balancer_arn(arn).set_subnets(Some(subnets)).send().await.expect("the subnets");
}

pub async fn set_security_groups(scene: &Scene, arn: &str, groups: &[&str]) {
    let groups = groups.iter().map(ToString::to_string).collect();
    let call = scene.elb.set_security_groups().load_balancer_arn(arn).set_security_groups(Some(groups));
    call.send().await.expect("the groups");
}

fn tag(key: &str, value: &str) -> Tag {
    Tag::builder().key(key).value(value).build()
}

/// The subnets a balancer stands in, in order.
pub fn subnets(balancer: &LoadBalancer) -> Vec<&str> {
    let mut subnets: Vec<&str> = balancer.availability_zones().iter().filter_map(|zone| zone.subnet_id()).collect();
    subnets.sort_unstable();
    subnets
}
