//! Security groups that a spec names by id or by the tag `Name`.
//!
//! The tag works as in `alb.ingress.kubernetes.io/security-groups`:
//! <https://github.com/kubernetes-sigs/aws-load-balancer-controller/blob/main/docs/guide/ingress/annotations.md#security-groups>
//! (read on 2026-11-23). That controller takes both if two groups have the same name. Here it is an error, because only
//! one of them can be meant.

use causeway_aws::ec2::SecurityGroup;

use crate::model::{Complaint, is_group_id};

const NAME: &str = "Name";

/// The group in the balancer's VPC that the field names.
pub fn group<'a>(
    called: &str,
    field: &str,
    found: &'a [SecurityGroup],
    vpc: &str,
) -> Result<&'a SecurityGroup, Complaint> {
    let by_id = is_group_id(called);
    let is_it = |group: &&SecurityGroup| {
        if by_id { group.id == called } else { group.tags.get(NAME).is_some_and(|name| name == called) }
    };
    let all: Vec<&SecurityGroup> = found.iter().filter(is_it).collect();
    let here: Vec<&SecurityGroup> = all.iter().copied().filter(|group| group.vpc == vpc).collect();
    let complaint = |reason, message: String| Err(Complaint { reason, message: format!("{field}: {message}") });
    match here[..] {
        [group] => Ok(group),
        [] if all.is_empty() && by_id => complaint(
            "SecurityGroupNotFound",
            format!("AWS knows no security group {called}: use the id of one of the operator's account and region"),
        ),
        [] if all.is_empty() => complaint(
            "SecurityGroupNotFound",
            format!(
                "AWS knows no security group with the tag {NAME}={called}: correct the name, or give the group's id"
            ),
        ),
        [] => complaint(
            "SecurityGroupNotFound",
            format!("the load balancer is in {vpc}, and {called} is {}: use a group of {vpc}", describe(&all)),
        ),
        _ => complaint(
            "SecurityGroupAmbiguous",
            format!("the tag {NAME}={called} is that of {}: give the id of the one that is meant", describe(&here)),
        ),
    }
}

fn describe(groups: &[&SecurityGroup]) -> String {
    let mut text: Vec<String> = groups.iter().map(|group| format!("{} in {}", group.id, group.vpc)).collect();
    text.sort();
    text.join(" and ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn security_group(id: &str, name: &str, vpc: &str) -> SecurityGroup {
        let (id, vpc, tags) = (id.into(), vpc.into(), [(NAME.to_owned(), name.to_owned())].into());
        SecurityGroup { id, name: "created-as".into(), vpc, tags, ingress: BTreeSet::new(), egress: BTreeSet::new() }
    }

    fn all() -> Vec<SecurityGroup> {
        vec![
            security_group("sg-1", "edge", "vpc-1"),
            security_group("sg-2", "edge", "vpc-2"),
            security_group("sg-3", "twin", "vpc-1"),
            security_group("sg-4", "twin", "vpc-1"),
            security_group("sg-5", "far", "vpc-2"),
        ]
    }

    #[test]
    fn a_group_is_found_by_id_or_unique_name() {
        for (called, id) in [("edge", "sg-1"), ("sg-4", "sg-4")] {
            assert_eq!(group(called, "spec.securityGroups", &all(), "vpc-1").unwrap().id, id);
        }
    }

    #[test]
    fn a_missing_or_ambiguous_group_is_reported_with_candidates() {
        for (called, reason, words) in [
            ("created-as", "SecurityGroupNotFound", "no security group with the tag Name=created-as: correct the name"),
            ("sg-9", "SecurityGroupNotFound", "AWS knows no security group sg-9"),
            ("far", "SecurityGroupNotFound", "the load balancer is in vpc-1, and far is sg-5 in vpc-2"),
            ("sg-5", "SecurityGroupNotFound", "the load balancer is in vpc-1, and sg-5 is sg-5 in vpc-2"),
            ("twin", "SecurityGroupAmbiguous", "is that of sg-3 in vpc-1 and sg-4 in vpc-1: give the id"),
        ] {
            let text = group(called, "spec.securityGroups", &all(), "vpc-1").unwrap_err();
            assert!(text.message.starts_with("spec.securityGroups: ") && text.message.contains(words), "{text:?}");
            assert_eq!(text.reason, reason);
        }
    }
}
