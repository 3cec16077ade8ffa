//! Changes of the balancer itself.

use aws_sdk_elasticloadbalancingv2::types::{IpAddressType, MinimumLoadBalancerCapacity};

use super::{Change, change, retag, web_acl};
use crate::myingress::bystander;

pub const CHANGES: &[Change] = &[
    change("IP address type", "SetIpAddressType", "ip_address_type", |scene, balancer| {
        Box::pin(async move {
            let call = scene.elb.set_ip_address_type().load_balancer_arn(balancer);
            call.ip_address_type(IpAddressType::Dualstack).send().await.expect("the type");
        })
    }),
    change("subnets", "SetSubnets", "subnets", |scene, balancer| {
        Box::pin(async move { bystander::set_subnets(scene, balancer, &["subnet-def", "subnet-ghi"]).await })
    }),
    change("security groups of the balancer", "SetSecurityGroups", "security_groups", |scene, balancer| {
        Box::pin(async move { bystander::set_security_groups(scene, balancer, &["sg-other"]).await })
    }),
    change(
        "attribute of the balancer",
        "ModifyLoadBalancerAttributes",
        "load_balancer_attribute",
        |scene, balancer| {
            Box::pin(async move {
                bystander::set_attribute(scene, balancer, "idle_timeout.timeout_seconds", "30").await;
            })
        },
    ),
    change("tag of the balancer", "AddTags", "tag", |scene, balancer| {
        Box::pin(async move { retag(scene, balancer).await })
    }),
    change("tag of the balancer, removed", "RemoveTags", "tag", |scene, balancer| {
        Box::pin(async move { bystander::remove_tag(scene, balancer, "team").await })
    }),
    change("web ACL", "AssociateWebACL", "web_acl", |scene, balancer| {
        Box::pin(async move {
            let other = web_acl(scene, "other").await;
            let call = scene.waf().associate_web_acl().web_acl_arn(other).resource_arn(balancer);
            call.send().await.expect("the other web ACL");
        })
    }),
    change("web ACL, removed", "DisassociateWebACL", "web_acl", |scene, balancer| {
        Box::pin(async move {
            scene.waf().disassociate_web_acl().resource_arn(balancer).send().await.expect("no web ACL");
        })
    }),
    change("reserved capacity", "ModifyCapacityReservation", "capacity", |scene, balancer| {
        Box::pin(async move {
            let more = MinimumLoadBalancerCapacity::builder().capacity_units(600).build();
            let call = scene.elb.modify_capacity_reservation().load_balancer_arn(balancer);
            call.minimum_load_balancer_capacity(more).send().await.expect("the capacity");
        })
    }),
    change("balancer, deleted", "DeleteLoadBalancer", "load_balancer", |scene, balancer| {
        Box::pin(async move { bystander::delete(scene, balancer).await })
    }),
];
