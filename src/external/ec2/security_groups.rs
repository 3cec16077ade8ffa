//! Security groups.

use std::collections::BTreeSet;

use aws_sdk_ec2::types::{IpPermission, ResourceType, TagSpecification};

use super::{Ec2, Outcome, PAGE, Permission, filter, next, pairs, tag_list};
use crate::external::elbv2::Pairs;
use crate::runtime::Class;

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityGroup {
    /// Id.
    pub id: String,
    /// Name, unique in its VPC.
    pub name: String,
    /// Id of its VPC.
    pub vpc: String,
    /// Tags.
    pub tags: Pairs,
    /// Whom it lets in.
    pub ingress: BTreeSet<Permission>,
}

impl Ec2 {
    /// The security groups of the region that have all of these tags.
    pub async fn security_groups(&self, tags: &[(String, String)]) -> Outcome<Vec<SecurityGroup>> {
        let mut groups = Vec::new();
        let mut token = None;
        let filters: Vec<_> = tags.iter().map(|(key, value)| filter(format!("tag:{key}"), [value.clone()])).collect();
        loop {
            let call = self.client.describe_security_groups().set_filters(Some(filters.clone()));
            let call = call.max_results(PAGE).set_next_token(token);
            let page = self.caller.call_again("DescribeSecurityGroups", || call.clone().send()).await?;
            groups.extend(page.security_groups.unwrap_or_default().into_iter().map(|group| SecurityGroup {
                id: group.group_id.unwrap_or_default(),
                name: group.group_name.unwrap_or_default(),
                vpc: group.vpc_id.unwrap_or_default(),
                tags: pairs(group.tags),
                ingress: Permission::from_aws(group.ip_permissions.unwrap_or_default()),
            }));
            token = next(page.next_token);
            if token.is_none() {
                return Ok(groups);
            }
        }
    }

    /// Creates a security group that lets nobody in, and tells its id. A name that is taken in the VPC is a conflict.
    pub async fn create_security_group(
        &self,
        name: &str,
        description: &str,
        vpc: &str,
        tags: &Pairs,
    ) -> Outcome<String> {
        let tags =
            TagSpecification::builder().resource_type(ResourceType::SecurityGroup).set_tags(Some(tag_list(tags)));
        let call = self
            .client
            .create_security_group()
            .group_name(name)
            .description(description)
            .vpc_id(vpc)
            .tag_specifications(tags.build());
        let answer = self.caller.call_again("CreateSecurityGroup", || call.clone().send()).await?;
        answer.group_id.ok_or_else(|| self.caller.empty_answer("CreateSecurityGroup"))
    }

    /// Lets these in. If one of them is let in already, that is a conflict, and none is.
    pub async fn authorize_ingress(&self, id: &str, permissions: &BTreeSet<Permission>) -> Outcome<()> {
        let call = self.client.authorize_security_group_ingress().group_id(id);
        let call = call.set_ip_permissions(Some(list(permissions)));
        self.caller.call_again("AuthorizeSecurityGroupIngress", || call.clone().send()).await.map(drop)
    }

    /// Lets these in no longer.
    pub async fn revoke_ingress(&self, id: &str, permissions: &BTreeSet<Permission>) -> Outcome<()> {
        let call = self.client.revoke_security_group_ingress().group_id(id);
        let call = call.set_ip_permissions(Some(list(permissions)));
        self.caller.call_again("RevokeSecurityGroupIngress", || call.clone().send()).await.map(drop)
    }

    /// Deletes a security group; deleting one that is gone succeeds. One that is in use is a conflict.
    pub async fn delete_security_group(&self, id: &str) -> Outcome<()> {
        let call = self.client.delete_security_group().group_id(id);
        match self.caller.call_again("DeleteSecurityGroup", || call.clone().send()).await {
            // A policy that asks for tags denies to delete what is gone, since that has none.
            Err(error) if error.class == Class::Denied && self.exists(id).await? => Err(error),
            Err(error) if !matches!(error.class, Class::Denied | Class::NotFound) => Err(error),
            _ => Ok(()),
        }
    }

    async fn exists(&self, id: &str) -> Outcome<bool> {
        let call = self.client.describe_security_groups().filters(filter("group-id", [id.to_owned()]));
        let answer = self.caller.call_again("DescribeSecurityGroups", || call.clone().send()).await?;
        Ok(answer.security_groups.is_some_and(|groups| !groups.is_empty()))
    }
}

fn list(permissions: &BTreeSet<Permission>) -> Vec<IpPermission> {
    permissions.iter().map(Permission::to_aws).collect()
}
