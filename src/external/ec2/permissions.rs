//! Whom a security group lets in.

use std::collections::BTreeSet;

use aws_sdk_ec2::types::{IpPermission, IpRange, Ipv6Range, PrefixListId, UserIdGroupPair};

/// One source that is let in, on a range of ports.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html>
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// `tcp`, `udp`, `icmp`, `icmpv6`, a number, or `-1` for all.
    pub protocol: String,
    /// Ports; `None` for protocols that have none.
    pub ports: Option<PortRange>,
    /// Who is let in.
    pub source: Source,
}

/// Ports from one to another, or as AWS has it, ICMP type and code, where -1 is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    /// The first.
    pub from: i32,
    /// The last.
    pub to: i32,
}

/// Who is let in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A network, IPv4 or IPv6.
    Network(String),
    /// What is in the security group of this id.
    Group(String),
    /// The networks of the prefix list of this id.
    PrefixList(String),
}

impl Permission {
    /// A source that is let in on one TCP port.
    pub fn tcp(port: u16, source: Source) -> Self {
        let port = i32::from(port);
        Self { protocol: "tcp".into(), ports: Some(PortRange { from: port, to: port }), source }
    }

    /// In AWS's form.
    pub(super) fn to_aws(&self) -> IpPermission {
        let permission = IpPermission::builder()
            .ip_protocol(&self.protocol)
            .set_from_port(self.ports.map(|ports| ports.from))
            .set_to_port(self.ports.map(|ports| ports.to));
        match &self.source {
            Source::Network(cidr) if cidr.contains(':') => {
                permission.ipv6_ranges(Ipv6Range::builder().cidr_ipv6(cidr).build())
            }
            Source::Network(cidr) => permission.ip_ranges(IpRange::builder().cidr_ip(cidr).build()),
            Source::Group(id) => permission.user_id_group_pairs(UserIdGroupPair::builder().group_id(id).build()),
            Source::PrefixList(id) => permission.prefix_list_ids(PrefixListId::builder().prefix_list_id(id).build()),
        }
        .build()
    }

    /// From AWS's form, which joins the sources of the same ports.
    pub(super) fn from_aws(permissions: Vec<IpPermission>) -> BTreeSet<Self> {
        permissions.into_iter().flat_map(each).collect()
    }
}

fn each(permission: IpPermission) -> impl Iterator<Item = Permission> {
    let protocol = permission.ip_protocol.unwrap_or_default();
    let ports = permission.from_port.zip(permission.to_port).map(|(from, to)| PortRange { from, to });
    let ipv4 = permission.ip_ranges.unwrap_or_default().into_iter().filter_map(|range| range.cidr_ip);
    let ipv6 = permission.ipv6_ranges.unwrap_or_default().into_iter().filter_map(|range| range.cidr_ipv6);
    let groups = permission.user_id_group_pairs.unwrap_or_default().into_iter().filter_map(|pair| pair.group_id);
    let lists = permission.prefix_list_ids.unwrap_or_default().into_iter().filter_map(|list| list.prefix_list_id);
    let networks = ipv4.chain(ipv6).map(Source::Network);
    networks.chain(groups.map(Source::Group)).chain(lists.map(Source::PrefixList)).map(move |source| Permission {
        protocol: protocol.clone(),
        ports,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::option;
    use proptest::prelude::*;

    fn any_permission() -> impl Strategy<Value = Permission> {
        let source = prop_oneof![
            "10\\.[0-9]\\.0\\.0/16|2001:db8:[0-9]::/48".prop_map(Source::Network),
            "sg-[a-f]{1,3}".prop_map(Source::Group),
            "pl-[a-f]{1,3}".prop_map(Source::PrefixList),
        ];
        let ports = option::of((-1..100i32, 0..100i32).prop_map(|(from, more)| PortRange { from, to: from + more }));
        ("tcp|udp|-1", ports, source).prop_map(|(protocol, ports, source)| Permission { protocol, ports, source })
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back_equal(permissions in btree_set(any_permission(), 0..6)) {
            let described = permissions.iter().map(Permission::to_aws).collect();
            prop_assert_eq!(Permission::from_aws(described), permissions);
        }
    }

    #[test]
    fn joined_sources_are_told_apart() {
        let joined = IpPermission::builder()
            .ip_protocol("tcp")
            .from_port(443)
            .to_port(443)
            .ip_ranges(IpRange::builder().cidr_ip("10.0.0.0/8").build())
            .ip_ranges(IpRange::builder().cidr_ip("0.0.0.0/0").build())
            .ipv6_ranges(Ipv6Range::builder().cidr_ipv6("::/0").build());
        let networks = ["10.0.0.0/8", "0.0.0.0/0", "::/0"];
        let expected = networks.map(|it| Permission::tcp(443, Source::Network(it.into())));
        assert_eq!(Permission::from_aws(vec![joined.build()]), expected.into());
    }
}
