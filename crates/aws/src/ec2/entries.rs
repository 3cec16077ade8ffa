//! Rules by which one security group lets in what is in another one.

use super::permissions::{head, head_of};
use super::{Element, Parameters, PortRange};

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
    /// The description of the rule.
    pub description: String,
}

impl Entry {
    /// Returns true if AWS takes both for the same rule: the description does not count.
    pub fn is_same_rule(&self, other: &Self) -> bool {
        let rule = |it: &Self| (it.group.clone(), it.from.clone(), it.protocol.clone(), it.ports);
        rule(self) == rule(other)
    }

    /// The parameters of a call that adds or removes the rule.
    pub(super) fn to_aws(&self) -> Parameters {
        let description = Some(&self.description).filter(|it| !it.is_empty());
        head(&self.protocol, self.ports, 1, Parameters::default().add("GroupId", &self.group))
            .add("IpPermissions.1.Groups.1.GroupId", &self.from)
            .maybe("IpPermissions.1.Groups.1.Description", description)
    }

    /// The rules of a group that let in other groups. EC2's answers join the sources of the same ports.
    pub(super) fn from_aws<'a>(group: &str, permissions: impl Iterator<Item = &'a Element>) -> Vec<Self> {
        let rules = permissions.flat_map(|permission| {
            let (protocol, ports) = head_of(permission);
            permission.items("groups").map(move |pair| Self {
                group: group.to_owned(),
                from: pair.value("groupId").unwrap_or_default(),
                protocol: protocol.clone(),
                ports,
                description: pair.value("description").unwrap_or_default(),
            })
        });
        rules.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(from: &str, description: &str) -> Entry {
        Entry {
            group: "sg-nodes".into(),
            from: from.into(),
            protocol: "tcp".into(),
            ports: Some(PortRange { from: 0, to: 65535 }),
            description: description.into(),
        }
    }

    #[test]
    fn networks_are_left_out_and_joined_sources_are_separated() {
        let text = "<ipPermissions><item><ipProtocol>tcp</ipProtocol><fromPort>0</fromPort><toPort>65535</toPort>
            <ipRanges><item><cidrIp>10.0.0.0/8</cidrIp></item></ipRanges>
            <groups><item><groupId>sg-1</groupId><description>a b</description></item>
            <item><groupId>sg-2</groupId></item></groups></item></ipPermissions>";
        let described = Element::parse(text).unwrap();
        let found = Entry::from_aws("sg-nodes", described.children.iter());
        assert_eq!(found, [entry("sg-1", "a b"), entry("sg-2", "")]);
    }

    #[test]
    fn a_rule_is_said_as_awss_page_shows_it() {
        // <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_UserIdGroupPair.html>
        let expected = Parameters::default()
            .add("GroupId", "sg-nodes")
            .add("IpPermissions.1.IpProtocol", "tcp")
            .add("IpPermissions.1.FromPort", "0")
            .add("IpPermissions.1.ToPort", "65535")
            .add("IpPermissions.1.Groups.1.GroupId", "sg-1");
        assert_eq!(entry("sg-1", "").to_aws(), expected);
        assert_eq!(entry("sg-1", "a b").to_aws(), expected.add("IpPermissions.1.Groups.1.Description", "a b"));
    }
}
