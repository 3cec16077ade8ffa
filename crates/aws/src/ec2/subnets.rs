//! Calls about subnets that a balancer can stand in.

use std::collections::BTreeMap;

use ipnet::IpNet;

use causeway_api::network;

use super::parameters::literal;
use super::subnet::Subnet;
use super::{Ec2, Element, Filter, Outcome, Parameters, filter, tags_of};

impl Ec2 {
    /// The subnets of these ids. One that does not exist is an error that names it.
    pub async fn subnets(&self, ids: &[String]) -> Outcome<Vec<Subnet>> {
        // A call without ids would return all subnets.
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let answer = self.call("DescribeSubnets", Parameters::default().list("SubnetId", ids)).await?;
        Ok(answer.items("subnetSet").map(Subnet::from_aws).collect())
    }

    /// The networks of all subnets of a VPC, IPv4 and IPv6.
    pub async fn networks(&self, vpc: &str) -> Outcome<Vec<IpNet>> {
        let found = self.list_filtered(&[filter("vpc-id", [vpc.to_owned()])]).await?;
        Ok(found.iter().flat_map(networks).collect())
    }

    /// The subnets that have all of these tags, each with one of the given values, or with any value if none is given.
    pub async fn subnets_tagged(&self, tags: &BTreeMap<String, Vec<String>>) -> Outcome<Vec<Subnet>> {
        Ok(self.list_filtered(&filters(tags)).await?.iter().map(Subnet::from_aws).collect())
    }

    async fn list_filtered(&self, filters: &[Filter]) -> Outcome<Vec<Element>> {
        self.list_all("DescribeSubnets", filters, "subnetSet").await
    }
}

/// AWS has another filter for a key without values. Several filters must all match.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSubnets.html>
fn filters(tags: &BTreeMap<String, Vec<String>>) -> Vec<Filter> {
    let one = |(key, values): (&String, &Vec<String>)| match values.as_slice() {
        [] => filter("tag-key", [literal(key)]),
        values => filter(format!("tag:{key}"), values.iter().map(|value| literal(value))),
    };
    tags.iter().map(one).collect()
}

/// A subnet's networks; an IPv6 block counts while it is associated.
fn networks(subnet: &Element) -> Vec<IpNet> {
    let six = ipv6_blocks(subnet).filter_map(|block| block.value("ipv6CidrBlock"));
    subnet.value("cidrBlock").into_iter().chain(six).filter_map(|block| network::parse(&block)).collect()
}

fn ipv6_blocks(subnet: &Element) -> impl Iterator<Item = &Element> {
    subnet.items("ipv6CidrBlockAssociationSet").filter(|block| is_associated(block))
}

fn is_associated(block: &Element) -> bool {
    let state = block.child("ipv6CidrBlockState").and_then(|it| it.value("state"));
    state.is_none_or(|it| it == "associated")
}

impl Subnet {
    fn from_aws(subnet: &Element) -> Self {
        let free = subnet.value("availableIpAddressCount").and_then(|count| count.parse().ok());
        Self {
            id: subnet.value("subnetId").unwrap_or_default(),
            vpc: subnet.value("vpcId").unwrap_or_default(),
            zone: subnet.value("availabilityZone").unwrap_or_default(),
            free_addresses: free.unwrap_or_default(),
            ipv6: ipv6_blocks(subnet).next().is_some(),
            tags: tags_of(subnet),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(cidr: &str, state: &str) -> String {
        let state = format!("<ipv6CidrBlockState><state>{state}</state></ipv6CidrBlockState>");
        format!("<item><ipv6CidrBlock>{cidr}</ipv6CidrBlock>{state}</item>")
    }

    /// A subnet with these IPv6 blocks.
    fn subnet(six: &str) -> Element {
        let six = format!("<ipv6CidrBlockAssociationSet>{six}</ipv6CidrBlockAssociationSet>");
        Element::parse(&format!("<item><cidrBlock>10.0.0.0/20</cidrBlock>{six}</item>")).unwrap()
    }

    #[test]
    fn a_subnet_has_a_network_of_each_associated_family() {
        let six = block("2001:db8::/64", "associated") + &block("2001:db9::/64", "disassociated");
        let wanted = ["10.0.0.0/20", "2001:db8::/64"].map(|it| network::parse(it).unwrap());
        assert_eq!(networks(&subnet(&six)), wanted);
    }

    #[test]
    fn a_subnet_has_ipv6_while_a_block_is_associated() {
        let gone = block("2001:db9::/64", "disassociated");
        let both = gone.clone() + &block("2001:db8::/64", "associated");
        assert_eq!(
            ["", gone.as_str(), both.as_str()].map(|six| Subnet::from_aws(&subnet(six)).ipv6),
            [false, false, true]
        );
    }

    #[test]
    fn a_tag_is_looked_for_by_its_key_and_values() {
        let tags = [("a".to_owned(), vec![]), ("b".to_owned(), vec!["1".to_owned(), "x*\\".to_owned()])].into();
        let filters = filters(&tags);
        let expected = [("tag-key", vec!["a"]), ("tag:b", vec!["1", "x\\*\\\\"])];
        let expected = expected.map(|(name, values)| filter(name, values.into_iter().map(str::to_owned)));
        assert_eq!(filters, expected);
    }
}
