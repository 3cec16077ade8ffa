//! Calls that list, make and change balancers.

use std::collections::BTreeSet;

use aws_sdk_elasticloadbalancingv2::types as aws;
use aws_sdk_elasticloadbalancingv2::types::{
    LoadBalancer, LoadBalancerAttribute, LoadBalancerSchemeEnum, LoadBalancerStateEnum, MinimumLoadBalancerCapacity,
};

use causeway_api::myingress::Scheme;

use super::balancer::{Balancer, IpAddressType, NewBalancer, State};
use super::pages::{BATCH, PAGE, next_marker};
use super::{Elbv2, Outcome, Pairs, tags};

impl Elbv2 {
    /// Every balancer of the region, whatever its type, because all types share their names.
    pub async fn balancers(&self) -> Outcome<Vec<Balancer>> {
        let mut balancers = Vec::new();
        let mut marker = None;
        loop {
            let call = self.client.describe_load_balancers().page_size(PAGE).set_marker(marker);
            let page = self.caller.call_again("DescribeLoadBalancers", || call.clone().send()).await?;
            balancers.extend(page.load_balancers.unwrap_or_default().into_iter().map(balancer));
            marker = next_marker(page.next_marker);
            if marker.is_none() {
                return Ok(balancers);
            }
        }
    }

    /// The balancer of that name.
    pub async fn balancer_named(&self, name: &str) -> Outcome<Option<Balancer>> {
        let call = self.client.describe_load_balancers().names(name);
        match self.caller.call_again("DescribeLoadBalancers", || call.clone().send()).await {
            Ok(page) => Ok(page.load_balancers.unwrap_or_default().into_iter().next().map(balancer)),
            Err(error) if error.is("LoadBalancerNotFound") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The balancers with these ARNs that exist, read 20 per call.
    pub async fn describe_balancers(&self, arns: &[String]) -> Outcome<Vec<Balancer>> {
        let mut balancers = Vec::new();
        for batch in arns.chunks(BATCH) {
            let call = self.client.describe_load_balancers().set_load_balancer_arns(Some(batch.to_vec()));
            match self.caller.call_again("DescribeLoadBalancers", || call.clone().send()).await {
                Ok(page) => balancers.extend(page.load_balancers.unwrap_or_default().into_iter().map(balancer)),
                // If one of them is gone, the whole batch fails.
                Err(error) if error.is("LoadBalancerNotFound") && batch.len() == 1 => {}
                Err(error) if error.is("LoadBalancerNotFound") => {
                    for arn in batch {
                        balancers.extend(Box::pin(self.describe_balancers(std::slice::from_ref(arn))).await?);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(balancers)
    }

    /// The attributes of a balancer.
    pub async fn attributes(&self, arn: &str) -> Outcome<Pairs> {
        let call = self.client.describe_load_balancer_attributes().load_balancer_arn(arn);
        let answer = self.caller.call_again("DescribeLoadBalancerAttributes", || call.clone().send()).await?;
        let attributes = answer.attributes.unwrap_or_default().into_iter();
        Ok(attributes.filter_map(|one| Some((one.key?, one.value.unwrap_or_default()))).collect())
    }

    /// Creates a balancer. AWS answers with an existing one of the same name and settings, so check whose it is.
    pub async fn create(&self, new: &NewBalancer) -> Outcome<Balancer> {
        let call = self
            .client
            .create_load_balancer()
            .name(&new.name)
            .scheme(match new.scheme {
                Scheme::InternetFacing => LoadBalancerSchemeEnum::InternetFacing,
                Scheme::Internal => LoadBalancerSchemeEnum::Internal,
            })
            .set_subnets(Some(new.subnets.iter().cloned().collect()))
            .set_security_groups(some_of(&new.security_groups))
            .ip_address_type(new.ip_address_type.as_str().into())
            .set_tags(Some(tags::list(&new.tags)));
        let answer = self.caller.call_again("CreateLoadBalancer", || call.clone().send()).await?;
        self.first_result("CreateLoadBalancer", answer.load_balancers, |described| Some(balancer(described)))
    }

    /// Deletes a balancer; deleting one that is gone succeeds.
    pub async fn delete(&self, arn: &str) -> Outcome<()> {
        let call = self.client.delete_load_balancer().load_balancer_arn(arn);
        self.accept_gone(arn, self.caller.call_again("DeleteLoadBalancer", || call.clone().send()).await).await
    }

    /// Moves a balancer into exactly these subnets.
    pub async fn set_subnets(&self, arn: &str, subnets: &BTreeSet<String>) -> Outcome<()> {
        let call = self.client.set_subnets().load_balancer_arn(arn).set_subnets(some_of(subnets));
        self.caller.call_again("SetSubnets", || call.clone().send()).await.map(drop)
    }

    /// Gives a balancer exactly these security groups.
    pub async fn set_security_groups(&self, arn: &str, groups: &BTreeSet<String>) -> Outcome<()> {
        let call = self.client.set_security_groups().load_balancer_arn(arn).set_security_groups(some_of(groups));
        self.caller.call_again("SetSecurityGroups", || call.clone().send()).await.map(drop)
    }

    /// Sets attributes; others stay.
    pub async fn set_attributes(&self, arn: &str, attributes: &Pairs) -> Outcome<()> {
        let list = attributes.iter().map(|(k, v)| LoadBalancerAttribute::builder().key(k).value(v).build()).collect();
        let call = self.client.modify_load_balancer_attributes().load_balancer_arn(arn).set_attributes(Some(list));
        self.caller.call_again("ModifyLoadBalancerAttributes", || call.clone().send()).await.map(drop)
    }

    /// Changes the IP address type of a balancer.
    pub async fn set_ip_address_type(&self, arn: &str, to: IpAddressType) -> Outcome<()> {
        let call = self.client.set_ip_address_type().load_balancer_arn(arn).ip_address_type(to.as_str().into());
        self.caller.call_again("SetIpAddressType", || call.clone().send()).await.map(drop)
    }

    /// The capacity units reserved for a balancer.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeCapacityReservation.html>
    pub async fn capacity(&self, arn: &str) -> Outcome<Option<u32>> {
        let call = self.client.describe_capacity_reservation().load_balancer_arn(arn);
        let answer = self.caller.call_again("DescribeCapacityReservation", || call.clone().send()).await?;
        let units = answer.minimum_load_balancer_capacity.and_then(|capacity| capacity.capacity_units);
        Ok(units.and_then(|units| units.try_into().ok()).filter(|&units| units > 0))
    }

    /// Reserves capacity units for a balancer, or gives up a reservation.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ModifyCapacityReservation.html>
    pub async fn set_capacity(&self, arn: &str, units: Option<u32>) -> Outcome<()> {
        let call = self.client.modify_capacity_reservation().load_balancer_arn(arn);
        let call = match units {
            None => call.reset_capacity_reservation(true),
            Some(units) => {
                let units = i32::try_from(units).unwrap_or(i32::MAX);
                call.minimum_load_balancer_capacity(
                    MinimumLoadBalancerCapacity::builder().capacity_units(units).build(),
                )
            }
        };
        self.caller.call_again("ModifyCapacityReservation", || call.clone().send()).await.map(drop)
    }
}

fn some_of(values: &BTreeSet<String>) -> Option<Vec<String>> {
    (!values.is_empty()).then(|| values.iter().cloned().collect())
}

fn balancer(described: LoadBalancer) -> Balancer {
    let state = described.state.and_then(|state| state.code);
    Balancer {
        arn: described.load_balancer_arn.unwrap_or_default(),
        name: described.load_balancer_name.unwrap_or_default(),
        dns: described.dns_name.unwrap_or_default(),
        zone_id: described.canonical_hosted_zone_id,
        scheme: match described.scheme {
            Some(LoadBalancerSchemeEnum::InternetFacing) => Some(Scheme::InternetFacing),
            Some(LoadBalancerSchemeEnum::Internal) => Some(Scheme::Internal),
            _ => None,
        },
        state: match state.as_ref().map(LoadBalancerStateEnum::as_str) {
            Some("active") => State::Active,
            Some("active_impaired") => State::ActiveImpaired,
            Some("failed") => State::Failed,
            _ => State::Provisioning,
        },
        vpc: described.vpc_id.unwrap_or_default(),
        ip_address_type: match described.ip_address_type {
            Some(aws::IpAddressType::Ipv4) => Some(IpAddressType::Ipv4),
            Some(aws::IpAddressType::Dualstack) => Some(IpAddressType::Dualstack),
            Some(aws::IpAddressType::DualstackWithoutPublicIpv4) => Some(IpAddressType::DualstackWithoutPublicIpv4),
            _ => None,
        },
        subnets: described
            .availability_zones
            .unwrap_or_default()
            .into_iter()
            .filter_map(|zone| zone.subnet_id)
            .collect(),
        security_groups: described.security_groups.unwrap_or_default().into_iter().collect(),
    }
}
