//! Subnets that a balancer can stand in.

use std::collections::BTreeMap;

use aws_sdk_ec2::types as aws;

use super::{Ec2, Network, Outcome, PAGE, filter, literal, next, pairs};
use crate::external::elbv2::Pairs;

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Id.
    pub id: String,
    /// Id of its VPC.
    pub vpc: String,
    /// Name of its availability zone, or of its local zone.
    pub zone: String,
    /// IPv4 addresses that are free.
    pub free_addresses: u32,
    /// Tags.
    pub tags: Pairs,
}

impl Ec2 {
    /// The subnets of these ids. One that does not exist is an error that names it.
    pub async fn subnets(&self, ids: &[String]) -> Outcome<Vec<Subnet>> {
        // EC2 takes no ids for all of them.
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let call = self.client.describe_subnets().set_subnet_ids(Some(ids.to_vec()));
        let answer = self.caller.call_again("DescribeSubnets", || call.clone().send()).await?;
        Ok(answer.subnets.unwrap_or_default().into_iter().map(Subnet::from_aws).collect())
    }

    /// The networks of all subnets of a VPC, IPv4 and IPv6.
    pub async fn networks(&self, vpc: &str) -> Outcome<Vec<Network>> {
        let found = self.filtered(vec![filter("vpc-id", [vpc.to_owned()])]).await?;
        Ok(found.into_iter().flat_map(networks).collect())
    }

    /// The subnets that have all of these tags, each with one of its values, or with any where none is given.
    pub async fn subnets_tagged(&self, tags: &BTreeMap<String, Vec<String>>) -> Outcome<Vec<Subnet>> {
        Ok(self.filtered(filters(tags)).await?.into_iter().map(Subnet::from_aws).collect())
    }

    async fn filtered(&self, filters: Vec<aws::Filter>) -> Outcome<Vec<aws::Subnet>> {
        let mut subnets = Vec::new();
        let mut token = None;
        loop {
            let call = self.client.describe_subnets().set_filters(Some(filters.clone()));
            let call = call.max_results(PAGE).set_next_token(token);
            let page = self.caller.call_again("DescribeSubnets", || call.clone().send()).await?;
            subnets.extend(page.subnets.unwrap_or_default());
            token = next(page.next_token);
            if token.is_none() {
                return Ok(subnets);
            }
        }
    }
}

/// AWS takes a key without a value under another name; several filters must all hold.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSubnets.html>
fn filters(tags: &BTreeMap<String, Vec<String>>) -> Vec<aws::Filter> {
    let one = |(key, values): (&String, &Vec<String>)| match values.as_slice() {
        [] => filter("tag-key", [literal(key)]),
        values => filter(format!("tag:{key}"), values.iter().map(|value| literal(value))),
    };
    tags.iter().map(one).collect()
}

/// A subnet's networks; an IPv6 block counts while it is associated.
fn networks(subnet: aws::Subnet) -> impl Iterator<Item = Network> {
    let six = subnet.ipv6_cidr_block_association_set.unwrap_or_default().into_iter().filter(associated);
    let six = six.filter_map(|block| block.ipv6_cidr_block);
    subnet.cidr_block.into_iter().chain(six).filter_map(|block| Network::parse(&block))
}

fn associated(block: &aws::SubnetIpv6CidrBlockAssociation) -> bool {
    let state = block.ipv6_cidr_block_state.as_ref().and_then(|it| it.state.as_ref());
    state.is_none_or(|it| *it == aws::SubnetCidrBlockStateCode::Associated)
}

impl Subnet {
    fn from_aws(subnet: aws::Subnet) -> Self {
        Self {
            id: subnet.subnet_id.unwrap_or_default(),
            vpc: subnet.vpc_id.unwrap_or_default(),
            zone: subnet.availability_zone.unwrap_or_default(),
            free_addresses: subnet.available_ip_address_count.and_then(|it| it.try_into().ok()).unwrap_or_default(),
            tags: pairs(subnet.tags),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_has_a_network_of_each_family_while_it_is_associated() {
        let block = |cidr: &str, state| {
            let state = aws::SubnetCidrBlockState::builder().state(state).build();
            let block = aws::SubnetIpv6CidrBlockAssociation::builder().ipv6_cidr_block(cidr);
            block.ipv6_cidr_block_state(state).build()
        };
        let subnet = aws::Subnet::builder()
            .cidr_block("10.0.0.0/20")
            .ipv6_cidr_block_association_set(block("2001:db8::/64", aws::SubnetCidrBlockStateCode::Associated))
            .ipv6_cidr_block_association_set(block("2001:db9::/64", aws::SubnetCidrBlockStateCode::Disassociated));
        let wanted = ["10.0.0.0/20", "2001:db8::/64"].map(|it| Network::parse(it).unwrap());
        assert_eq!(networks(subnet.build()).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn a_tag_is_looked_for_by_its_key_its_values_and_nothing_else() {
        let tags = [("a".to_owned(), vec![]), ("b".to_owned(), vec!["1".to_owned(), "x*\\".to_owned()])].into();
        let filters = filters(&tags);
        let api_message: Vec<_> =
            filters.iter().map(|it| (it.name.as_deref().unwrap(), it.values().to_vec())).collect();
        assert_eq!(api_message, [("tag-key", vec!["a".into()]), ("tag:b", vec!["1".into(), "x\\*\\\\".to_owned()])]);
    }
}
