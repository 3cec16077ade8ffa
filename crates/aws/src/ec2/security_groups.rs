//! Calls about security groups.

use std::collections::BTreeSet;

use causeway_runtime::Class;

use super::parameters::literal;
use super::security_group::SecurityGroup;
use super::{Ec2, Element, Entry, Filter, Outcome, Parameters, Permission, filter, tags_of};
use crate::elbv2::Pairs;

/// A filter takes at most this many values.
/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html#Filtering_Resources_CLI>
const MOST_VALUES: usize = 200;

impl SecurityGroup {
    /// Reads an element of EC2's answers.
    pub fn from_aws(group: &Element) -> Self {
        Self {
            id: group.value("groupId").unwrap_or_default(),
            name: group.value("groupName").unwrap_or_default(),
            vpc: group.value("vpcId").unwrap_or_default(),
            tags: tags_of(group),
            ingress: Permission::from_aws(group.items("ipPermissions")),
            egress: Permission::from_aws(group.items("ipPermissionsEgress")),
        }
    }
}

impl Ec2 {
    /// The security groups of the region that have all of these tags.
    pub async fn security_groups(&self, tags: &[(String, String)]) -> Outcome<Vec<SecurityGroup>> {
        let filters: Vec<_> = tags.iter().map(|(key, value)| filter(format!("tag:{key}"), [value.clone()])).collect();
        Ok(self.groups(&filters).await?.iter().map(SecurityGroup::from_aws).collect())
    }

    /// Lists the security groups of the region with one of these ids, or with one of these names: values of the tag
    /// `Name`. Those that do not exist are left out.
    pub async fn security_groups_called(&self, ids: &[String], names: &[String]) -> Outcome<Vec<SecurityGroup>> {
        let mut found = Vec::new();
        for (by, values) in [("group-id", ids), ("tag:Name", names)] {
            if !values.is_empty() {
                found.extend(self.groups(&[filter(by, values.iter().map(|value| literal(value)))]).await?);
            }
        }
        Ok(found.iter().map(SecurityGroup::from_aws).collect())
    }

    /// Returns the security group that has that name in the VPC, whatever its owner.
    pub async fn security_group_named(&self, name: &str, vpc: &str) -> Outcome<Option<SecurityGroup>> {
        let filters = [filter("group-name", [literal(name)]), filter("vpc-id", [vpc.to_owned()])];
        Ok(self.groups(&filters).await?.first().map(SecurityGroup::from_aws))
    }

    /// Lists the rules of security groups of any owner that let in what is in one of these groups.
    pub async fn entries(&self, sources: &BTreeSet<String>) -> Outcome<BTreeSet<Entry>> {
        let mut found = BTreeSet::new();
        for sources in sources.iter().cloned().collect::<Vec<_>>().chunks(MOST_VALUES) {
            let groups = self.groups(&[filter("ip-permission.group-id", sources.to_vec())]).await?;
            let entries = groups.iter().flat_map(|group| {
                Entry::from_aws(&group.value("groupId").unwrap_or_default(), group.items("ipPermissions"))
            });
            found.extend(entries.filter(|entry| sources.contains(&entry.from)));
        }
        Ok(found)
    }

    async fn groups(&self, filters: &[Filter]) -> Outcome<Vec<Element>> {
        self.list_all("DescribeSecurityGroups", filters, "securityGroupInfo").await
    }

    /// Creates a security group without inbound rules, and with all outbound traffic, and returns its id. A name that
    /// is taken in the VPC is a conflict.
    pub async fn create_security_group(
        &self,
        name: &str,
        description: &str,
        vpc: &str,
        tags: &Pairs,
    ) -> Outcome<String> {
        let parameters = Parameters::default()
            .add("GroupName", name)
            .add("GroupDescription", description)
            .add("VpcId", vpc)
            .add("TagSpecification.1.ResourceType", "security-group")
            .tags("TagSpecification.1.Tag", tags);
        let answer = self.call("CreateSecurityGroup", parameters).await?;
        answer.value("groupId").ok_or_else(|| self.caller.empty_answer("CreateSecurityGroup"))
    }

    /// Adds these rules. If one of them exists already, the call fails with a conflict and adds none.
    pub async fn authorize_ingress(&self, id: &str, permissions: &BTreeSet<Permission>) -> Outcome<()> {
        self.call("AuthorizeSecurityGroupIngress", list(id, permissions)).await.map(drop)
    }

    /// Removes these inbound rules.
    pub async fn revoke_ingress(&self, id: &str, permissions: &BTreeSet<Permission>) -> Outcome<()> {
        self.call("RevokeSecurityGroupIngress", list(id, permissions)).await.map(drop)
    }

    /// Adds these rules for outbound traffic. If one of them exists already, the call fails with a conflict and adds none.
    /// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AuthorizeSecurityGroupEgress.html>
    pub async fn authorize_egress(&self, id: &str, permissions: &BTreeSet<Permission>) -> Outcome<()> {
        self.call("AuthorizeSecurityGroupEgress", list(id, permissions)).await.map(drop)
    }

    /// Removes these rules for outbound traffic.
    pub async fn revoke_egress(&self, id: &str, permissions: &BTreeSet<Permission>) -> Outcome<()> {
        self.call("RevokeSecurityGroupEgress", list(id, permissions)).await.map(drop)
    }

    /// Adds the rule. If the group has the same rule with any description, that is a conflict.
    pub async fn let_in(&self, entry: &Entry) -> Outcome<()> {
        self.call("AuthorizeSecurityGroupIngress", entry.to_aws()).await.map(drop)
    }

    /// Removes the rule. If it is gone, the error is "not found".
    pub async fn shut_out(&self, entry: &Entry) -> Outcome<()> {
        self.call("RevokeSecurityGroupIngress", entry.to_aws()).await.map(drop)
    }

    /// Deletes a security group. Deleting one that is gone succeeds; one that is in use is a conflict.
    pub async fn delete_security_group(&self, id: &str) -> Outcome<()> {
        match self.call("DeleteSecurityGroup", Parameters::default().add("GroupId", id)).await {
            // A policy that asks for tags denies the deletion of a group that is gone, since that has no tags.
            Err(error) if error.class == Class::Denied && self.exists(id).await? => Err(error),
            Err(error) if !matches!(error.class, Class::Denied | Class::NotFound) => Err(error),
            _ => Ok(()),
        }
    }

    async fn exists(&self, id: &str) -> Outcome<bool> {
        Ok(!self.groups(&[filter("group-id", [id.to_owned()])]).await?.is_empty())
    }
}

fn list(id: &str, permissions: &BTreeSet<Permission>) -> Parameters {
    let parameters = Parameters::default().add("GroupId", id);
    permissions.iter().zip(1..).fold(parameters, |all, (permission, at)| permission.to_aws(at, all))
}
