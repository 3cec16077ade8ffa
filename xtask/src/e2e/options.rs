//! The options of a run: its place and its name. Pure.

use std::fmt::{self, Display};
use std::str::FromStr;

use anyhow::{Result, bail, ensure};
use clap::Args;

/// The name of everything that one run creates. It is part of the names of namespaces, balancers and roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId(String);

/// The longest id for which `causeway-backup-causeway-e2e-RUNID` and `e2e-RUNID-alb` fit into AWS's limits on names.
const LONGEST: usize = 20;

impl RunId {
    /// The key of the tag, and of the namespace's label, on everything of a run. The value is its id.
    pub const KEY: &str = "causeway-e2e";

    /// The id of a run that begins now.
    pub fn now() -> Self {
        Self(jiff::Zoned::now().strftime("%y%m%d-%H%M%S").to_string())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace of everything that the run creates.
    pub fn namespace(&self) -> String {
        format!("{}-{self}", Self::KEY)
    }

    /// The run of this namespace, if the namespace is that of a run.
    pub fn of_namespace(namespace: &str) -> Option<Self> {
        namespace.strip_prefix(Self::KEY)?.strip_prefix('-')?.parse().ok()
    }

    /// The name of its MyIngress.
    pub fn ingress(&self) -> String {
        format!("e2e-{self}")
    }
}

impl Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        ensure!(
            (1..=LONGEST).contains(&text.len())
                && text.chars().all(fits)
                && !text.starts_with('-')
                && !text.ends_with('-'),
            "a run is named by 1 to {LONGEST} of a-z, 0-9 and -, without - at its ends"
        );
        Ok(Self(text.to_owned()))
    }
}

/// Where a run takes place.
#[derive(Args, Clone, Debug)]
pub struct Where {
    /// In a real cluster and account, with your kubeconfig and your AWS credentials as they are. Without it: in the local environment
    #[arg(long, requires_all = ["context", "region", "cluster"])]
    pub real: bool,
    /// Context of your kubeconfig
    #[arg(long, requires = "real")]
    context: Option<String>,
    /// AWS region of the cluster
    #[arg(long, requires = "real")]
    region: Option<String>,
    /// The operator's `CLUSTER_NAME`, with which it tags what it makes
    #[arg(long, requires = "real")]
    cluster: Option<String>,
}

/// A cluster and an account that the user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The context of the kubeconfig.
    pub context: String,
    /// The AWS region.
    pub region: String,
    /// The operator's name for the cluster.
    pub cluster: String,
}

impl Where {
    /// The cluster and account that the user named; `None` for a local run.
    pub fn target(&self) -> Result<Option<Target>> {
        match (self.real, &self.context, &self.region, &self.cluster) {
            (false, None, None, None) => Ok(None),
            (true, Some(context), Some(region), Some(cluster)) => {
                Ok(Some(Target { context: context.clone(), region: region.clone(), cluster: cluster.clone() }))
            }
            _ => bail!("--real needs --context, --region and --cluster: none of them is guessed"),
        }
    }

    /// The command that lists what a run left, and removes it on request.
    pub fn sweep(&self, run: &RunId) -> String {
        let named = match (&self.context, &self.region, &self.cluster) {
            (Some(context), Some(region), Some(cluster)) => {
                format!(" --real --context {context} --region {region} --cluster {cluster}")
            }
            _ => String::new(),
        };
        format!("cargo xtask e2e sweep{named} --run {run} --remove")
    }
}

/// Settings of the objects that the suite makes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What is made")]
pub struct Wishes {
    /// Subnets of the balancer, in two zones at least; else those with the tag `kubernetes.io/role/elb`
    #[arg(long, value_delimiter = ',', value_name = "SUBNET")]
    pub subnets: Vec<String>,
    /// An internal balancer, for a machine inside of its VPC; the tag of its subnets is `kubernetes.io/role/internal-elb`
    #[arg(long)]
    pub internal: bool,
    /// Network whose clients may reach the balancer
    #[arg(long, value_name = "CIDR", default_value = "0.0.0.0/0")]
    pub inbound_cidr: String,
    /// Security groups of pods or nodes that let the balancer in; each needs its owner's tag (docs/myingress.md)
    #[arg(long, value_delimiter = ',', value_name = "GROUP")]
    pub let_in: Vec<String>,
    /// `StorageClass` of the databases' volumes; else the cluster's default
    #[arg(long, value_name = "NAME")]
    pub storage_class: Option<String>,
}

impl Wishes {
    /// The tag of subnets for such a balancer.
    pub fn subnet_tag(&self) -> &'static str {
        if self.internal { "kubernetes.io/role/internal-elb" } else { "kubernetes.io/role/elb" }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        place: Where,
        #[command(flatten)]
        wishes: Wishes,
    }

    fn parsed(arguments: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(["e2e"].iter().chain(arguments))
    }

    const NAMED: [&str; 7] = ["--real", "--context", "c", "--region", "eu-west-1", "--cluster", "prod"];

    #[test]
    fn a_real_run_is_named_wholly_or_not_at_all() {
        assert_eq!(parsed(&[]).unwrap().place.target().unwrap(), None);
        let target = parsed(&NAMED).unwrap().place.target().unwrap().unwrap();
        assert_eq!(
            target,
            Target { context: "c".to_owned(), region: "eu-west-1".to_owned(), cluster: "prod".to_owned() }
        );
        for missing in [1, 3, 5] {
            let mut arguments = NAMED.to_vec();
            arguments.drain(missing..missing + 2);
            assert!(parsed(&arguments).is_err(), "{arguments:?}");
        }
        assert!(parsed(&NAMED[1..]).is_err(), "named, but not --real");
    }

    #[test]
    fn lists_are_parted_by_commas() {
        let wishes = parsed(&["--subnets", "subnet-a,subnet-b", "--let-in", "sg-1", "--internal"]).unwrap().wishes;
        assert_eq!(wishes.subnets, ["subnet-a", "subnet-b"]);
        assert_eq!((wishes.let_in.len(), wishes.inbound_cidr.as_str()), (1, "0.0.0.0/0"));
        assert_eq!(wishes.subnet_tag(), "kubernetes.io/role/internal-elb");
    }

    #[test]
    fn ids_fit_into_names() {
        let run = RunId::now();
        assert_eq!(run.as_str().parse::<RunId>().unwrap(), run);
        assert_eq!(RunId::of_namespace(&run.namespace()), Some(run));
        let longest = "a".repeat(LONGEST).parse::<RunId>().unwrap();
        assert!(format!("causeway-backup-{}", longest.namespace()).len() <= 64, "a role's name");
        assert!(format!("{}-alb", longest.ingress()).len() <= 32, "a balancer's name");
        for bad in ["", "-a", "a-", "A", "a_b", &"a".repeat(LONGEST + 1)] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
        assert_eq!(RunId::of_namespace("causeway-e2e-"), None);
        assert_eq!(RunId::of_namespace("shop"), None);
    }

    #[test]
    fn the_sweep_is_of_the_same_place() {
        let run: RunId = "1".parse().unwrap();
        assert_eq!(parsed(&[]).unwrap().place.sweep(&run), "cargo xtask e2e sweep --run 1 --remove");
        assert_eq!(
            parsed(&NAMED).unwrap().place.sweep(&run),
            "cargo xtask e2e sweep --real --context c --region eu-west-1 --cluster prod --run 1 --remove"
        );
    }
}
