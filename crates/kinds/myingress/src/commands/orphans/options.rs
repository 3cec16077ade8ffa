//! Options of `causeway orphans`.

use clap::{Args, Subcommand};

use causeway_aws::budget::{Budget, parse_share};
use causeway_runtime::options::{cluster_name, cluster_uid, names};

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
    #[arg(long, env = "AWS_RATE_SHARE", default_value_t = 1.0, value_parser = parse_share)]
    pub aws_rate_share: f64,

    /// The action to take
    #[command(subcommand)]
    pub action: OrphansAction,
}

/// An action of `causeway orphans`.
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

impl OrphansOptions {
    /// How often AWS may be called.
    #[must_use]
    pub fn budget(&self) -> Budget {
        Budget::from_share(self.aws_rate_share)
    }
    /// The namespaces to look at; empty means all. Empty entries and blanks around commas are ignored.
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        names(&self.watch_namespaces)
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
    fn orphans_are_searched_in_the_served_namespaces() {
        let namespaces = |more: &[&str]| {
            let arguments = ["causeway", "--cluster-name", "prod"].iter().chain(more).chain(&["ls"]);
            Command::try_parse_from(arguments).unwrap().options.namespaces()
        };
        assert_eq!(namespaces(&["--watch-namespaces", "a, b,"]), ["a", "b"]);
        assert_eq!(namespaces(&["--watch-namespaces", ""]), Vec::<String>::new());
    }
}
