//! Security groups.

use std::collections::BTreeSet;

use aws_sdk_ec2::types as aws;
use aws_sdk_ec2::types::{IpPermission, ResourceType, TagSpecification};

use super::{Ec2, Entry, Outcome, PAGE, Permission, filter, literal, next, pairs, tag_list};
use crate::external::elbv2::Pairs;
use crate::runtime::Class;

/// A filter takes so many values.
/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html#Filtering_Resources_CLI>
const MOST_VALUES: usize = 200;

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

impl SecurityGroup {
    fn from_aws(group: aws::SecurityGroup) -> Self {
        Self {
            id: group.group_id.unwrap_or_default(),
            name: group.group_name.unwrap_or_default(),
            vpc: group.vpc_id.unwrap_or_default(),
            tags: pairs(group.tags),
            ingress: Permission::from_aws(group.ip_permissions.unwrap_or_default()),
        }
    }
}

impl Ec2 {
    /// The security groups of the region that have all of these tags.
    pub async fn security_groups(&self, tags: &[(String, String)]) -> Outcome<Vec<SecurityGroup>> {
        let filters = tags.iter().map(|(key, value)| filter(format!("tag:{key}"), [value.clone()])).collect();
        Ok(self.groups(filters).await?.into_iter().map(SecurityGroup::from_aws).collect())
    }

    /// The security groups of the region with one of these ids, or with one of these names: values of the tag `Name`. Those
    /// that do not exist are left out.
    pub async fn security_groups_called(&self, ids: &[String], names: &[String]) -> Outcome<Vec<SecurityGroup>> {
        let mut found = Vec::new();
        for (by, values) in [("group-id", ids), ("tag:Name", names)] {
            if !values.is_empty() {
                found.extend(self.groups(vec![filter(by, values.iter().map(|value| literal(value)))]).await?);
            }
        }
        Ok(found.into_iter().map(SecurityGroup::from_aws).collect())
    }

    /// The rules of security groups, whosever they are, that let in what is in one of these groups.
    pub async fn entries(&self, sources: &BTreeSet<String>) -> Outcome<BTreeSet<Entry>> {
        let mut found = BTreeSet::new();
        for sources in sources.iter().cloned().collect::<Vec<_>>().chunks(MOST_VALUES) {
            let groups = self.groups(vec![filter("ip-permission.group-id", sources.to_vec())]).await?;
            let entries = groups.into_iter().flat_map(|group| {
                let (id, permissions) = (group.group_id.unwrap_or_default(), group.ip_permissions.unwrap_or_default());
                Entry::from_aws(&id, permissions).collect::<Vec<_>>()
            });
            found.extend(entries.filter(|entry| sources.contains(&entry.from)));
        }
        Ok(found)
    }

    async fn groups(&self, filters: Vec<aws::Filter>) -> Outcome<Vec<aws::SecurityGroup>> {
        let mut groups = Vec::new();
        let mut token = None;
        loop {
            let call = self.client.describe_security_groups().set_filters(Some(filters.clone()));
            let call = call.max_results(PAGE).set_next_token(token);
            let page = self.caller.call_again("DescribeSecurityGroups", || call.clone().send()).await?;
            groups.extend(page.security_groups.unwrap_or_default());
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

    /// Makes the rule. If the group has one that lets in the same, whatever it says of itself, that is a conflict.
    pub async fn let_in(&self, entry: &Entry) -> Outcome<()> {
        let call = self.client.authorize_security_group_ingress().group_id(&entry.group);
        let call = call.ip_permissions(entry.to_aws());
        self.caller.call_again("AuthorizeSecurityGroupIngress", || call.clone().send()).await.map(drop)
    }

    /// Takes the rule away. One that is gone is not found.
    pub async fn shut_out(&self, entry: &Entry) -> Outcome<()> {
        let call = self.client.revoke_security_group_ingress().group_id(&entry.group);
        let call = call.ip_permissions(entry.to_aws());
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
