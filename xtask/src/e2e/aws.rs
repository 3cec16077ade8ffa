//! AWS as the user of an account reaches it: through the AWS CLI with the user's own credentials. Locally its endpoint
//! is `LocalStack`.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::sweep::{Kind, Resource};
use crate::tools;

/// The tag with which volume drivers record the namespace of the claim.
pub const CLAIM_NAMESPACE: &str = "kubernetes.io/created-for/pvc/namespace";

/// The most ARNs in a call of `DescribeTags`.
const ARNS: usize = 20;

/// The AWS CLI for one account and region.
pub struct Aws<'a> {
    command: Box<dyn Fn() -> Command + 'a>,
}
pub struct Caller {
    /// The account's twelve digits.
    pub account: String,
    /// The ARN of the user or role.
    pub arn: String,
}
pub struct Subnet {
    /// `subnet-…`
    pub id: String,
    pub zone: String,
    pub vpc: String,
}

impl<'a> Aws<'a> {
    /// Uses the AWS CLI that `command` starts.
    pub fn new(command: impl Fn() -> Command + 'a) -> Self {
        Self { command: Box::new(command) }
    }

    /// The answer to a call.
    pub fn call(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = (self.command)();
        command.args(arguments).args(["--output", "json"]).env("AWS_PAGER", "");
        let said = tools::output_of(&mut command).with_context(|| format!("aws {}", arguments.join(" ")))?;
        if said.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&said).with_context(|| format!("aws {}: not JSON", arguments.join(" ")))
    }

    /// The identity of the credentials.
    pub fn caller(&self) -> Result<Caller> {
        let answer = self.call(&["sts", "get-caller-identity"])?;
        Ok(Caller { account: text(&answer["Account"]), arn: text(&answer["Arn"]) })
    }

    /// The subnets with these ids, or all subnets with that tag.
    pub fn subnets(&self, ids: &[String], tag: &str) -> Result<Vec<Subnet>> {
        let mut arguments = vec!["ec2", "describe-subnets"];
        let filter = format!("Name=tag-key,Values={tag}");
        if ids.is_empty() {
            arguments.extend(["--filters", &filter]);
        } else {
            arguments.push("--subnet-ids");
            arguments.extend(ids.iter().map(String::as_str));
        }
        let answer = self.call(&arguments)?;
        let subnet = |it: &Value| Subnet {
            id: text(&it["SubnetId"]),
            zone: text(&it["AvailabilityZone"]),
            vpc: text(&it["VpcId"]),
        };
        Ok(list(&answer["Subnets"]).iter().map(subnet).collect())
    }

    /// The ARN of the balancer with that DNS name.
    pub fn balancer(&self, dns: &str) -> Result<String> {
        let answer = self.call(&["elbv2", "describe-load-balancers"])?;
        let found = list(&answer["LoadBalancers"]).iter().find(|it| it["DNSName"].as_str() == Some(dns));
        found.map(|it| text(&it["LoadBalancerArn"])).with_context(|| format!("AWS has no balancer {dns}"))
    }

    /// The ARN of the balancer's listener on port 80, if it exists.
    pub fn listener(&self, balancer: &str) -> Result<Option<String>> {
        let answer = self.call(&["elbv2", "describe-listeners", "--load-balancer-arn", balancer])?;
        Ok(list(&answer["Listeners"]).iter().find(|it| it["Port"] == 80).map(|it| text(&it["ListenerArn"])))
    }

    /// An attribute of a balancer.
    pub fn attribute(&self, balancer: &str, key: &str) -> Result<String> {
        let answer = self.call(&["elbv2", "describe-load-balancer-attributes", "--load-balancer-arn", balancer])?;
        let found = list(&answer["Attributes"]).iter().find(|it| it["Key"] == key);
        found.map(|it| text(&it["Value"])).with_context(|| format!("the balancer has no attribute {key}"))
    }

    /// All resources that runs of the suite may have created, with their tags. The caller decides which are theirs.
    pub fn inventory(&self, bucket: &str) -> Result<Vec<Resource>> {
        let mut found = Vec::new();
        let arns = |answer: &Value, all: &str, arn: &str| -> Vec<String> {
            list(&answer[all]).iter().map(|it| text(&it[arn])).collect()
        };
        let balancers = self.call(&["elbv2", "describe-load-balancers"])?;
        found.extend(self.tagged(Kind::LoadBalancer, &arns(&balancers, "LoadBalancers", "LoadBalancerArn"))?);
        let groups = self.call(&["elbv2", "describe-target-groups"])?;
        found.extend(self.tagged(Kind::TargetGroup, &arns(&groups, "TargetGroups", "TargetGroupArn"))?);

        let filter = format!("Name=tag-key,Values={}", super::RunId::KEY);
        let groups = self.call(&["ec2", "describe-security-groups", "--filters", &filter])?;
        let with_tags = |kind, id: &str, it: &Value| Resource { kind, id: text(&it[id]), tags: tags(&it["Tags"]) };
        found.extend(list(&groups["SecurityGroups"]).iter().map(|it| with_tags(Kind::SecurityGroup, "GroupId", it)));
        let filter = format!("Name=tag:{CLAIM_NAMESPACE},Values={}-*", super::RunId::KEY);
        let volumes = self.call(&["ec2", "describe-volumes", "--filters", &filter])?;
        found.extend(list(&volumes["Volumes"]).iter().map(|it| with_tags(Kind::Volume, "VolumeId", it)));
        found.extend(self.backups(bucket)?);
        Ok(found)
    }

    fn tagged(&self, kind: Kind, arns: &[String]) -> Result<Vec<Resource>> {
        let mut found = Vec::new();
        for some in arns.chunks(ARNS) {
            let mut arguments = vec!["elbv2", "describe-tags", "--resource-arns"];
            arguments.extend(some.iter().map(String::as_str));
            let answer = self.call(&arguments)?;
            found.extend(list(&answer["TagDescriptions"]).iter().map(|it| Resource {
                kind,
                id: text(&it["ResourceArn"]),
                tags: tags(&it["Tags"]),
            }));
        }
        Ok(found)
    }

    /// The folders of runs in the bucket of backups. The operator creates that bucket with the first backup.
    fn backups(&self, bucket: &str) -> Result<Vec<Resource>> {
        let buckets = self.call(&["s3api", "list-buckets"])?;
        if !list(&buckets["Buckets"]).iter().any(|it| it["Name"].as_str() == Some(bucket)) {
            return Ok(Vec::new());
        }
        let prefix = format!("{}-", super::RunId::KEY);
        let list_call = ["s3api", "list-objects-v2", "--bucket", bucket, "--prefix", &prefix, "--delimiter", "/"];
        let answer = self.call(&list_call)?;
        Ok(list(&answer["CommonPrefixes"])
            .iter()
            .map(|it| Resource {
                kind: Kind::Backups,
                id: format!("s3://{bucket}/{}", text(&it["Prefix"])),
                tags: BTreeMap::new(),
            })
            .collect())
    }

    /// Removes one resource.
    pub fn remove(&self, resource: &Resource) -> Result<()> {
        let mut command = (self.command)();
        command.args(resource.removal()).env("AWS_PAGER", "");
        tools::output_of(&mut command).map(drop)
    }

    /// Fails unless this is the AWS CLI. Returns its version.
    pub fn version(&self) -> Result<String> {
        let said = tools::output_of((self.command)().arg("--version")).context(
            "the AWS CLI is needed: https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
        )?;
        ensure!(said.starts_with("aws-cli/"), "`aws` is no AWS CLI: {}", said.trim());
        Ok(said.split_whitespace().next().unwrap_or_default().to_owned())
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The value of a JSON string; empty for other values.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn tags(value: &Value) -> BTreeMap<String, String> {
    list(value).iter().map(|it| (text(&it["Key"]), text(&it["Value"]))).collect()
}
