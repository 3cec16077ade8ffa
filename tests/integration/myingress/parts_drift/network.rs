//! Changes of the balancer's own security group, and of the rules that let it in to its targets.

use causeway_aws::aws::FenceGuard;
use causeway_aws::ec2::{Api, Element, Parameters, SecurityGroup};
use causeway_runtime::leader::Fence;

use super::{Change, change, ingress, let_in, security_group};
use crate::myingress::bystander;
use crate::support::Scene;
use crate::support::ec2::security_groups;
use crate::support::wait_for;

/// All outbound traffic of the balancer's own group.
async fn all_outbound(scene: &Scene, balancer: &str) -> Parameters {
    Parameters::default()
        .add("GroupId", security_group(scene, balancer).await)
        .add("IpPermissions.1.IpProtocol", "-1")
        .add("IpPermissions.1.IpRanges.1.CidrIp", "0.0.0.0/0")
}

/// The rule in the group of the targets that lets in the balancer's own group, as parameters; `None` if it is gone.
async fn letting_in(scene: &Scene) -> Option<Parameters> {
    let named = |group: &SecurityGroup| group.tags.get("Name").is_some_and(|name| name == "nodes");
    let nodes = security_groups(scene).await.into_iter().find(named).expect("the group of the targets").id;
    let rules = let_in::rules(scene, &nodes).await;
    rules.first().map(|rule| {
        let value = |name| rule.value(name).unwrap_or_default();
        let pair: Element = rule.items("groups").next().cloned().expect("it lets in a group");
        Parameters::default()
            .add("GroupId", &nodes)
            .add("IpPermissions.1.IpProtocol", value("ipProtocol"))
            .add("IpPermissions.1.FromPort", value("fromPort"))
            .add("IpPermissions.1.ToPort", value("toPort"))
            .add("IpPermissions.1.Groups.1.GroupId", pair.value("groupId").unwrap_or_default())
            .add("IpPermissions.1.Groups.1.Description", pair.value("description").unwrap_or_default())
    })
}

/// Deletes the balancer's own group. It cannot be deleted while anything refers to it, so that goes first; again if the
/// operator has put it back in between.
async fn delete_group(scene: &Scene, balancer: &str) {
    let id = security_group(scene, balancer).await;
    let api = Api::new(&scene.bystander, FenceGuard(Fence::always_open()));
    let look = || async {
        if let Some(rule) = letting_in(scene).await {
            scene.ec2("RevokeSecurityGroupIngress", rule).await;
        }
        bystander::set_security_groups(scene, balancer, &["sg-other"]).await;
        let deleted = api.call("DeleteSecurityGroup", Parameters::default().add("GroupId", &id)).await;
        deleted.map(drop).map_err(|error| format!("{error:?}"))
    };
    wait_for("the security group to be deleted", look, Result::is_ok).await.expect("just seen");
}

pub const CHANGES: &[Change] = &[
    change("inbound rule, added", "AuthorizeSecurityGroupIngress", "security_group_rule", |scene, balancer| {
        Box::pin(async move { ingress(scene, balancer, "192.0.2.0/24", 22, true).await })
    }),
    change("inbound rule, removed", "RevokeSecurityGroupIngress", "security_group_rule", |scene, balancer| {
        Box::pin(async move { ingress(scene, balancer, "0.0.0.0/0", 443, false).await })
    }),
    change("outbound rule, removed", "RevokeSecurityGroupEgress", "security_group_rule", |scene, balancer| {
        Box::pin(async move {
            scene.ec2("RevokeSecurityGroupEgress", all_outbound(scene, balancer).await).await;
        })
    }),
    change("outbound rule, added", "AuthorizeSecurityGroupEgress", "security_group_rule", |scene, balancer| {
        Box::pin(async move {
            let rule = Parameters::default()
                .add("GroupId", security_group(scene, balancer).await)
                .add("IpPermissions.1.IpProtocol", "tcp")
                .add("IpPermissions.1.FromPort", "25")
                .add("IpPermissions.1.ToPort", "25")
                .add("IpPermissions.1.IpRanges.1.CidrIp", "192.0.2.0/24");
            scene.ec2("AuthorizeSecurityGroupEgress", rule).await;
        })
    }),
    change("tag of the security group", "CreateTags", "tag", |scene, balancer| {
        Box::pin(async move {
            let tagged = Parameters::default().add("ResourceId.1", security_group(scene, balancer).await);
            scene.ec2("CreateTags", tagged.add("Tag.1.Key", "team").add("Tag.1.Value", "pirates")).await;
        })
    }),
    change(
        "rule that lets the balancer in to its targets, removed",
        "RevokeSecurityGroupIngress",
        "security_group_rule",
        |scene, _| {
            Box::pin(async move {
                let rule = letting_in(scene).await.expect("the rule");
                scene.ec2("RevokeSecurityGroupIngress", rule).await;
            })
        },
    ),
    change("security group, deleted", "DeleteSecurityGroup", "security_group", |scene, balancer| {
        Box::pin(async move { delete_group(scene, balancer).await })
    }),
];
