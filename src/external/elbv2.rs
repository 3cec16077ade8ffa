//! Elastic Load Balancing v2 as far as balancers go: plain data in, plain data out.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/Welcome.html>

use std::collections::{BTreeMap, BTreeSet};

use aws_config::SdkConfig;
use aws_sdk_elasticloadbalancingv2::Client;
use aws_sdk_elasticloadbalancingv2::config::Builder;
use aws_sdk_elasticloadbalancingv2::types::{
    LoadBalancer, LoadBalancerAttribute, LoadBalancerSchemeEnum, LoadBalancerStateEnum, Tag,
};

use super::aws::{AwsError, Caller, FenceGuard};
use crate::api::myingress::Scheme;
use crate::leader::Fence;
use crate::metrics::Metrics;
use crate::runtime::Class;

/// A page of `DescribeLoadBalancers` has at most so many balancers.
const PAGE: i32 = 400;
/// `DescribeTags` and `DescribeLoadBalancers` take at most so many ARNs.
const BATCH: usize = 20;

/// Tags or attributes by key.
pub type Pairs = BTreeMap<String, String>;

/// A balancer as AWS describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// Amazon resource name; never reused.
    pub arn: String,
    /// Name, unique in region and account.
    pub name: String,
    /// DNS name.
    pub dns: String,
    /// Route 53 hosted zone of the DNS name.
    pub zone_id: Option<String>,
    /// Where it is reached from; `None` for one that this program does not know.
    pub scheme: Option<Scheme>,
    /// State.
    pub state: State,
    /// Subnet ids.
    pub subnets: BTreeSet<String>,
    /// Security group ids.
    pub security_groups: BTreeSet<String>,
}

/// State of a balancer.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerState.html>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Being set up.
    Provisioning,
    /// Serving.
    Active,
    /// Serving without the resources to scale.
    ActiveImpaired,
    /// Could not be set up.
    Failed,
}

impl State {
    /// AWS's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provisioning => "provisioning",
            Self::Active => "active",
            Self::ActiveImpaired => "active_impaired",
            Self::Failed => "failed",
        }
    }
}

/// What a new balancer is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBalancer {
    /// Name, at most 32 characters.
    pub name: String,
    /// Where it is reached from.
    pub scheme: Scheme,
    /// Subnet ids.
    pub subnets: BTreeSet<String>,
    /// Security group ids; empty for the VPC's default.
    pub security_groups: BTreeSet<String>,
    /// Tags, set in the same call.
    pub tags: Pairs,
}

/// The API of one region and account.
#[derive(Clone, Debug)]
pub struct Elbv2 {
    client: Client,
    caller: Caller,
}

type Outcome<T> = Result<T, AwsError>;

impl Elbv2 {
    /// A client that counts into `metrics` and changes things only while `fence` is open.
    pub fn new(config: &SdkConfig, metrics: Metrics, fence: Fence) -> Self {
        Self {
            client: Client::from_conf(Builder::from(config).interceptor(FenceGuard(fence)).build()),
            caller: Caller { service: SERVICE, metrics, class_of },
        }
    }

    /// Every balancer of the region, whatever its type: all share one space of names.
    pub async fn all(&self) -> Outcome<Vec<Balancer>> {
        let mut balancers = Vec::new();
        let mut marker = None;
        loop {
            let call = self.client.describe_load_balancers().page_size(PAGE).set_marker(marker);
            let page = self.caller.call("DescribeLoadBalancers", call.send()).await?;
            balancers.extend(page.load_balancers.unwrap_or_default().into_iter().map(balancer));
            marker = page.next_marker.filter(|marker| !marker.is_empty());
            if marker.is_none() {
                return Ok(balancers);
            }
        }
    }

    /// The balancer of that name.
    pub async fn named(&self, name: &str) -> Outcome<Option<Balancer>> {
        let call = self.client.describe_load_balancers().names(name);
        match self.caller.call("DescribeLoadBalancers", call.send()).await {
            Ok(page) => Ok(page.load_balancers.unwrap_or_default().into_iter().next().map(balancer)),
            Err(error) if error.is("LoadBalancerNotFound") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The balancers of these ARNs that exist, 20 a call.
    pub async fn described(&self, arns: &[String]) -> Outcome<Vec<Balancer>> {
        let mut balancers = Vec::new();
        for batch in arns.chunks(BATCH) {
            let call = self.client.describe_load_balancers().set_load_balancer_arns(Some(batch.to_vec()));
            match self.caller.call("DescribeLoadBalancers", call.send()).await {
                Ok(page) => balancers.extend(page.load_balancers.unwrap_or_default().into_iter().map(balancer)),
                // One that is gone spoils the batch.
                Err(error) if error.is("LoadBalancerNotFound") && batch.len() == 1 => {}
                Err(error) if error.is("LoadBalancerNotFound") => {
                    for arn in batch {
                        balancers.extend(Box::pin(self.described(std::slice::from_ref(arn))).await?);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(balancers)
    }

    /// The tags of these ARNs, 20 a call; one that is gone is left out.
    pub async fn tags(&self, arns: &[String]) -> Outcome<BTreeMap<String, Pairs>> {
        let mut tags = BTreeMap::new();
        for batch in arns.chunks(BATCH) {
            let call = self.client.describe_tags().set_resource_arns(Some(batch.to_vec()));
            match self.caller.call("DescribeTags", call.send()).await {
                Ok(page) => {
                    for described in page.tag_descriptions.unwrap_or_default() {
                        let pairs = described.tags.unwrap_or_default().into_iter();
                        let pairs = pairs.map(|tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default()));
                        tags.insert(described.resource_arn.unwrap_or_default(), pairs.collect());
                    }
                }
                Err(error) if error.is("LoadBalancerNotFound") && batch.len() == 1 => {}
                Err(error) if error.is("LoadBalancerNotFound") => {
                    for arn in batch {
                        tags.append(&mut Box::pin(self.tags(std::slice::from_ref(arn))).await?);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(tags)
    }

    /// The attributes of a balancer.
    pub async fn attributes(&self, arn: &str) -> Outcome<Pairs> {
        let call = self.client.describe_load_balancer_attributes().load_balancer_arn(arn);
        let answer = self.caller.call("DescribeLoadBalancerAttributes", call.send()).await?;
        let attributes = answer.attributes.unwrap_or_default().into_iter();
        Ok(attributes.filter_map(|one| Some((one.key?, one.value.unwrap_or_default()))).collect())
    }

    /// Creates a balancer. AWS answers with an existing one of the same name and settings: check whose it is.
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
            .set_tags(Some(tag_list(&new.tags)));
        let answer = self.caller.call("CreateLoadBalancer", call.send()).await?;
        answer.load_balancers.unwrap_or_default().into_iter().next().map(balancer).ok_or_else(|| AwsError {
            operation: "CreateLoadBalancer",
            service: SERVICE,
            code: None,
            message: "the answer names no balancer".into(),
            class: Class::Transient,
            ambiguous: true,
        })
    }

    /// Deletes a balancer; deleting one that is gone succeeds.
    pub async fn delete(&self, arn: &str) -> Outcome<()> {
        let call = self.client.delete_load_balancer().load_balancer_arn(arn);
        self.caller.call("DeleteLoadBalancer", call.send()).await.map(drop)
    }

    /// Moves a balancer into exactly these subnets.
    pub async fn set_subnets(&self, arn: &str, subnets: &BTreeSet<String>) -> Outcome<()> {
        let call = self.client.set_subnets().load_balancer_arn(arn).set_subnets(some_of(subnets));
        self.caller.call("SetSubnets", call.send()).await.map(drop)
    }

    /// Gives a balancer exactly these security groups.
    pub async fn set_security_groups(&self, arn: &str, groups: &BTreeSet<String>) -> Outcome<()> {
        let call = self.client.set_security_groups().load_balancer_arn(arn).set_security_groups(some_of(groups));
        self.caller.call("SetSecurityGroups", call.send()).await.map(drop)
    }

    /// Sets attributes; others stay.
    pub async fn set_attributes(&self, arn: &str, attributes: &Pairs) -> Outcome<()> {
        let list = attributes.iter().map(|(k, v)| LoadBalancerAttribute::builder().key(k).value(v).build()).collect();
        let call = self.client.modify_load_balancer_attributes().load_balancer_arn(arn).set_attributes(Some(list));
        self.caller.call("ModifyLoadBalancerAttributes", call.send()).await.map(drop)
    }

    /// Adds or changes tags; others stay.
    pub async fn add_tags(&self, arn: &str, tags: &Pairs) -> Outcome<()> {
        let call = self.client.add_tags().resource_arns(arn).set_tags(Some(tag_list(tags)));
        self.caller.call("AddTags", call.send()).await.map(drop)
    }

    /// Removes tags.
    pub async fn remove_tags(&self, arn: &str, keys: &BTreeSet<String>) -> Outcome<()> {
        let call = self.client.remove_tags().resource_arns(arn).set_tag_keys(some_of(keys));
        self.caller.call("RemoveTags", call.send()).await.map(drop)
    }
}

const SERVICE: &str = "elasticloadbalancing";

/// Classes of the service's own codes.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html#API_CreateLoadBalancer_Errors>
fn class_of(code: &str) -> Option<Class> {
    Some(match code {
        "LoadBalancerNotFound" => Class::NotFound,
        "DuplicateLoadBalancerName" => Class::Conflict,
        "TooManyLoadBalancers" | "TooManyTags" => Class::Denied,
        "SubnetNotFound"
        | "InvalidSubnet"
        | "AvailabilityZoneNotSupported"
        | "InvalidSecurityGroup"
        | "InvalidConfigurationRequest"
        | "InvalidScheme"
        | "OperationNotPermitted"
        | "ValidationError"
        | "DuplicateTagKeys"
        | "UnsupportedFeature" => Class::Invalid,
        _ => return None,
    })
}

fn some_of(values: &BTreeSet<String>) -> Option<Vec<String>> {
    (!values.is_empty()).then(|| values.iter().cloned().collect())
}

fn tag_list(tags: &Pairs) -> Vec<Tag> {
    tags.iter().filter_map(|(key, value)| Tag::builder().key(key).value(value).build().into()).collect()
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
        subnets: described
            .availability_zones
            .unwrap_or_default()
            .into_iter()
            .filter_map(|zone| zone.subnet_id)
            .collect(),
        security_groups: described.security_groups.unwrap_or_default().into_iter().collect(),
    }
}
