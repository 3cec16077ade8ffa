//! Options of `causeway plan`.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use causeway_aws::budget::{Budget, parse_share};
use causeway_runtime::options::{cluster_name, cluster_uid};

/// Options of `causeway plan`.
#[derive(Args, Clone, Debug)]
pub struct PlanOptions {
    /// Name of this Kubernetes cluster, as the operator has it
    #[arg(long, env = "CLUSTER_NAME", value_parser = cluster_name)]
    pub cluster_name: String,

    /// Uid of this cluster in ownership tags; as the operator has it; unless given, that of the namespace kube-system
    #[arg(long, env = "CLUSTER_UID", value_parser = cluster_uid)]
    pub cluster_uid: Option<String>,

    /// File with objects to plan for; - is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Plan for every object in the cluster, as it is: what others changed in AWS
    #[arg(long)]
    pub all: bool,

    /// Namespace to look at, and of objects in files that name none; all namespaces unless given
    #[arg(short = 'n', long)]
    pub namespace: Option<String>,

    /// Form of the plan
    #[arg(short = 'o', long, value_enum, default_value = "table")]
    pub output: PlanFormat,

    /// Rules that a security group may have for IPv4, and as many for IPv6, as the operator has it
    #[arg(long, env = "SECURITY_GROUP_RULES", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub security_group_rules: u16,

    /// Enforce `CausewayPolicies`, as the operator does
    #[arg(long, env = "GUARDRAILS", action = ArgAction::Set, default_value_t = true)]
    pub guardrails: bool,

    /// Share of AWS's default limits on the rate of calls that the plan uses; 0 for no limit
    #[arg(long, env = "AWS_RATE_SHARE", default_value_t = 1.0, value_parser = parse_share)]
    pub aws_rate_share: f64,
}

/// Form of a plan.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanFormat {
    /// For people
    Table,
    /// For programs
    Json,
}

impl PlanOptions {
    /// How often AWS may be called.
    #[must_use]
    pub fn budget(&self) -> Budget {
        Budget::from_share(self.aws_rate_share)
    }
}
