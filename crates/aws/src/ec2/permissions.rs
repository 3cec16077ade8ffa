//! The rules of a security group that let traffic in or out.

use std::collections::BTreeSet;

use super::{Element, Parameters};

/// One source that is let in on a range of ports, or one destination that traffic is let out to.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html>
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// `tcp`, `udp`, `icmp`, `icmpv6`, a number, or `-1` for all.
    pub protocol: String,
    /// Ports; `None` for protocols that have none.
    pub ports: Option<PortRange>,
    /// The source that is let in; for outbound traffic, the destination that it may go to.
    pub source: Source,
}

/// All protocols. A rule for them has no ports, whatever an answer gives.
const ALL: &str = "-1";

/// A range of ports. For ICMP AWS uses it for type and code, where -1 stands for any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    /// The first port of the range.
    pub from: i32,
    /// The last port, which is in the range.
    pub to: i32,
}

/// A source that is let in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A network, IPv4 or IPv6.
    Network(String),
    /// Everything in the security group of this id.
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

    /// Permits all traffic from this source, or to it.
    pub fn all_traffic(source: Source) -> Self {
        Self { protocol: ALL.into(), ports: None, source }
    }

    /// Adds this permission to the parameters, as entry `at` of the list.
    pub(super) fn to_aws(&self, at: usize, parameters: Parameters) -> Parameters {
        let source = match &self.source {
            Source::Network(cidr) if cidr.contains(':') => ("Ipv6Ranges.1.CidrIpv6", cidr),
            Source::Network(cidr) => ("IpRanges.1.CidrIp", cidr),
            Source::Group(id) => ("Groups.1.GroupId", id),
            Source::PrefixList(id) => ("PrefixListIds.1.PrefixListId", id),
        };
        let of = |name| format!("IpPermissions.{at}.{name}");
        head(&self.protocol, self.ports, at, parameters).add(of(source.0), source.1)
    }

    /// Reads elements of EC2's answers, which join the sources of the same ports.
    pub(super) fn from_aws<'a>(permissions: impl Iterator<Item = &'a Element>) -> BTreeSet<Self> {
        permissions.flat_map(permissions_of).collect()
    }
}

/// Adds protocol and ports to the parameters, for entry `at` of the list of permissions.
pub(super) fn head(protocol: &str, ports: Option<PortRange>, at: usize, parameters: Parameters) -> Parameters {
    let of = |name| format!("IpPermissions.{at}.{name}");
    parameters
        .add(of("IpProtocol"), protocol)
        .maybe(of("FromPort"), ports.map(|ports| ports.from.to_string()))
        .maybe(of("ToPort"), ports.map(|ports| ports.to.to_string()))
}

/// The protocol and the ports that an element describes.
pub(super) fn head_of(permission: &Element) -> (String, Option<PortRange>) {
    let port = |name| permission.value(name).and_then(|port| port.parse().ok());
    let ports = port("fromPort").zip(port("toPort")).map(|(from, to)| PortRange { from, to });
    let protocol = permission.value("ipProtocol").unwrap_or_default();
    let ports = ports.filter(|_| protocol != ALL);
    (protocol, ports)
}

fn permissions_of(permission: &Element) -> impl Iterator<Item = Permission> {
    let (protocol, ports) = head_of(permission);
    let values = |list: &'static str, name: &'static str| permission.items(list).filter_map(move |it| it.value(name));
    let networks = values("ipRanges", "cidrIp").chain(values("ipv6Ranges", "cidrIpv6")).map(Source::Network);
    let groups = values("groups", "groupId").map(Source::Group);
    let lists = values("prefixListIds", "prefixListId").map(Source::PrefixList);
    networks.chain(groups).chain(lists).map(move |source| Permission { protocol: protocol.clone(), ports, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_said_as_awss_page_shows_it() {
        // <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AuthorizeSecurityGroupIngress.html>
        let sources = [
            Source::Network("192.0.2.0/24".into()),
            Source::Network("2001:db8::/32".into()),
            Source::Group("sg-1a2b3c4d".into()),
            Source::PrefixList("pl-1".into()),
        ];
        let permissions = sources.into_iter().map(|source| Permission::tcp(22, source)).zip(1..);
        let parameters = permissions.fold(Parameters::default(), |all, (it, at)| it.to_aws(at, all));
        let place = |at: u8, rest: &str| format!("IpPermissions.{at}.{rest}");
        let expected = [
            (1, "IpRanges.1.CidrIp", "192.0.2.0/24"),
            (2, "Ipv6Ranges.1.CidrIpv6", "2001:db8::/32"),
            (3, "Groups.1.GroupId", "sg-1a2b3c4d"),
            (4, "PrefixListIds.1.PrefixListId", "pl-1"),
        ];
        let expected = expected.into_iter().fold(Parameters::default(), |all, (at, name, value)| {
            let all = all.add(place(at, "IpProtocol"), "tcp").add(place(at, "FromPort"), "22");
            all.add(place(at, "ToPort"), "22").add(place(at, name), value)
        });
        assert_eq!(parameters, expected);
        let all = Permission { protocol: "-1".into(), ports: None, source: Source::Group("sg-1".into()) };
        let expected = Parameters::default().add("IpPermissions.1.IpProtocol", "-1");
        assert_eq!(
            all.to_aws(1, Parameters::default()),
            expected.add("IpPermissions.1.Groups.1.GroupId", "sg-1"),
            "a protocol without ports names none"
        );
    }

    #[test]
    fn joined_sources_are_separated() {
        let text = "<ipPermissions><item><ipProtocol>tcp</ipProtocol><fromPort>443</fromPort><toPort>443</toPort>
            <groups><item><userId>1</userId><groupId>sg-1</groupId></item></groups>
            <ipRanges><item><cidrIp>10.0.0.0/8</cidrIp></item><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges>
            <ipv6Ranges><item><cidrIpv6>::/0</cidrIpv6></item></ipv6Ranges>
            <prefixListIds><item><prefixListId>pl-1</prefixListId></item></prefixListIds></item>
            <item><ipProtocol>-1</ipProtocol><groups><item><groupId>sg-2</groupId></item></groups></item></ipPermissions>";
        let described = Element::parse(text).unwrap();
        let networks = ["10.0.0.0/8", "0.0.0.0/0", "::/0"].map(|it| Source::Network(it.into()));
        let others = [Source::Group("sg-1".into()), Source::PrefixList("pl-1".into())];
        let mut expected: BTreeSet<_> =
            networks.into_iter().chain(others).map(|source| Permission::tcp(443, source)).collect();
        expected.insert(Permission { protocol: "-1".into(), ports: None, source: Source::Group("sg-2".into()) });
        assert_eq!(Permission::from_aws(described.children.iter()), expected);
    }
}
