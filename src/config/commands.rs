//! Options of commands that users run.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use jiff::Timestamp;

use super::{budget, cluster_name, cluster_uid, named, share};
use crate::external::budget::Budget;

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

    /// Whether `CausewayPolicies` are enforced, as the operator has it
    #[arg(long, env = "GUARDRAILS", action = ArgAction::Set, default_value_t = true)]
    pub guardrails: bool,

    /// Share of AWS's default limits on the rate of calls that the plan uses; 0 for no limit
    #[arg(long, env = "AWS_RATE_SHARE", default_value_t = 1.0, value_parser = share)]
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
        budget(self.aws_rate_share)
    }
}

/// Options of `causeway orphans`.
#[derive(Args, Clone, Debug)]
pub struct OrphansOptions {
    /// Name of this Kubernetes cluster, as the operator has it
    #[arg(long, env = "CLUSTER_NAME", value_parser = cluster_name)]
    pub cluster_name: String,

    /// Uid of this cluster in ownership tags; as the operator has it; unless given, that of the namespace kube-system
    #[arg(long, env = "CLUSTER_UID", value_parser = cluster_uid)]
    pub cluster_uid: Option<String>,

    /// Namespaces to look at, separated by commas, as the operator has them; none for all
    #[arg(long, visible_alias = "watch-namespace", env = "WATCH_NAMESPACE", value_delimiter = ',')]
    pub watch_namespaces: Vec<String>,

    /// Share of AWS's default limits on the rate of calls that is used; 0 for no limit
    #[arg(long, env = "AWS_RATE_SHARE", default_value_t = 1.0, value_parser = share)]
    pub aws_rate_share: f64,

    /// What to do
    #[command(subcommand)]
    pub action: OrphansAction,
}

/// What to do about orphans.
#[derive(Subcommand, Clone, Debug)]
pub enum OrphansAction {
    /// List resources in AWS of objects that are not in the cluster
    Ls,
    /// Delete all resources in AWS of these objects
    Rm {
        /// Uids of the objects, as `ls` shows them
        #[arg(required = true, value_name = "UID")]
        uids: Vec<String>,
    },
}

/// What to do with backups in a bucket.
#[derive(Subcommand, Clone, Debug)]
pub enum BackupsAction {
    /// List the backups in a bucket, whichever Causeway took them
    Ls(BackupsOptions),
    /// Fetch a base backup of a PostgreSQL and its log, from which a new server recovers to an instant
    Recover(RecoverOptions),
}

/// Options of `causeway backups ls`: a bucket, and whom to trust.
#[derive(Args, Clone, Debug)]
pub struct BackupsOptions {
    /// The bucket
    #[arg(long)]
    pub bucket: String,

    /// Prefix of the keys, such as shop or shop/nightly; all unless given
    #[arg(long)]
    pub prefix: Option<String>,

    /// Region of the bucket; unless given, that of the environment
    #[arg(long)]
    pub region: Option<String>,

    /// S3 endpoint other than AWS's, as a URL
    #[arg(long)]
    pub endpoint: Option<String>,

    /// Account that must own the bucket; unless given, that of your credentials
    #[arg(long)]
    pub owner: Option<String>,

    /// Public key that signed the backups, such as "ssh-ed25519 AAAA…": every manifest is read and checked; may be given
    /// several times
    #[arg(long = "trusted-key", value_name = "KEY")]
    pub trusted_keys: Vec<String>,
}

/// Options of `causeway backups recover`.
#[derive(Args, Clone, Debug)]
pub struct RecoverOptions {
    /// Where from.
    #[command(flatten)]
    pub from: BackupsOptions,

    /// Accept unverified backups, without --trusted-key: anybody who could write to the bucket may have chosen the data
    #[arg(long)]
    pub unverified: bool,

    /// The instant to recover to, such as 2026-11-22T12:00:00Z; unless given, the end of the log
    #[arg(long)]
    pub until: Option<Timestamp>,

    /// The server, where the prefix has several: the source of its manifests, such as "PostgreSQL shop-db:5432"
    #[arg(long)]
    pub source: Option<String>,

    /// Directory with the file identity, of secret keys of age, where backups are encrypted
    #[arg(long)]
    pub identity: Option<PathBuf>,

    /// Empty directory for base.tar, the log and recover.sh; it is created if it is missing
    #[arg(long)]
    pub into: PathBuf,
}

impl OrphansOptions {
    /// How often AWS may be called.
    #[must_use]
    pub fn budget(&self) -> Budget {
        budget(self.aws_rate_share)
    }
    /// The namespaces to look at; empty means all. Empty entries and blanks around commas are ignored.
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        named(&self.watch_namespaces)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: OrphansOptions,
    }

    #[test]
    fn orphans_are_looked_for_in_the_namespaces_that_the_operator_serves() {
        let namespaces = |more: &[&str]| {
            let arguments = ["causeway", "--cluster-name", "prod"].iter().chain(more).chain(&["ls"]);
            Command::try_parse_from(arguments).unwrap().options.namespaces()
        };
        assert_eq!(namespaces(&["--watch-namespaces", "a, b,"]), ["a", "b"]);
        assert_eq!(namespaces(&["--watch-namespaces", ""]), Vec::<String>::new());
    }
}
