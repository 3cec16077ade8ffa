//! Rules by which one security group lets in what is in another one.

use aws_sdk_ec2::types::{IpPermission, UserIdGroupPair};

use super::PortRange;

/// A rule of a security group that lets in what is in another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Id of the group that has the rule.
    pub group: String,
    /// Id of the group that is let in.
    pub from: String,
    /// `tcp`, `udp`, `icmp`, `icmpv6`, a number, or `-1` for all.
    pub protocol: String,
    /// Ports; `None` for protocols that have none.
    pub ports: Option<PortRange>,
    /// What the rule says of itself.
    pub description: String,
}

impl Entry {
    /// Whether AWS takes both for the same rule: a group has it once, whatever it says of itself.
    pub fn is_same_rule(&self, other: &Self) -> bool {
        let rule = |it: &Self| (it.group.clone(), it.from.clone(), it.protocol.clone(), it.ports);
        rule(self) == rule(other)
    }

    /// In AWS's form.
    pub(super) fn to_aws(&self) -> IpPermission {
        let api_message = Some(self.description.clone()).filter(|it| !it.is_empty());
        IpPermission::builder()
            .ip_protocol(&self.protocol)
            .set_from_port(self.ports.map(|ports| ports.from))
            .set_to_port(self.ports.map(|ports| ports.to))
            .user_id_group_pairs(UserIdGroupPair::builder().group_id(&self.from).set_description(api_message).build())
            .build()
    }

    /// Those among the rules of a group, in AWS's form, which joins the sources of the same ports.
    pub(super) fn from_aws(group: &str, permissions: Vec<IpPermission>) -> impl Iterator<Item = Self> {
        permissions.into_iter().flat_map(move |permission| {
            let protocol = permission.ip_protocol.unwrap_or_default();
            let ports = permission.from_port.zip(permission.to_port).map(|(from, to)| PortRange { from, to });
            let pairs = permission.user_id_group_pairs.unwrap_or_default().into_iter();
            pairs.map(move |pair| Self {
                group: group.to_owned(),
                from: pair.group_id.unwrap_or_default(),
                protocol: protocol.clone(),
                ports,
                description: pair.description.unwrap_or_default(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_ec2::types::IpRange;
    use proptest::option;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_reads_back_equal(
            from in "sg-[a-f]{1,3}", protocol in "tcp|udp|-1", description in "[a-z/= ]{0,5}",
            ports in option::of((0..100i32, 0..100i32)),
        ) {
            let ports = ports.map(|(from, more)| PortRange { from, to: from + more });
            let entry = Entry { group: "sg-nodes".into(), from, protocol, ports, description };
            let described = vec![entry.to_aws()];
            prop_assert_eq!(Entry::from_aws("sg-nodes", described).collect::<Vec<_>>(), [entry]);
        }
    }

    #[test]
    fn networks_are_none_and_joined_sources_are_told_apart() {
        let pair = |id: &str| UserIdGroupPair::builder().group_id(id).build();
        let joined = IpPermission::builder()
            .ip_protocol("tcp")
            .from_port(0)
            .to_port(65535)
            .ip_ranges(IpRange::builder().cidr_ip("10.0.0.0/8").build())
            .user_id_group_pairs(pair("sg-1"))
            .user_id_group_pairs(pair("sg-2"));
        let found: Vec<String> = Entry::from_aws("sg-nodes", vec![joined.build()]).map(|entry| entry.from).collect();
        assert_eq!(found, ["sg-1", "sg-2"]);
    }
}
