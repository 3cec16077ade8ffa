//! Options of the operator; every flag has an environment variable.

use std::net::SocketAddr;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, ValueEnum};

use causeway_api::Served;
use causeway_api::access::NetworkPolicyMode;
use causeway_aws::budget::{Budget, parse_share};
use causeway_backup::jobs::{Egress, Identity, Settings};
use causeway_databases::Rules;
use causeway_databases::tls::CLIENTS_DELAY;
use causeway_runtime::options::{cluster_name, cluster_uid, names};
use causeway_runtime::telemetry::LogFormat;

/// Options of `causeway run`.
#[derive(Args, Clone, Debug)]
pub struct RunOptions {
    /// Name of this Kubernetes cluster; it marks what Causeway owns in AWS, so no two clusters of an account share it
    #[arg(long, env = "CLUSTER_NAME", value_parser = cluster_name)]
    pub cluster_name: String,

    /// Uid of this cluster in ownership tags; unless given, that of its namespace kube-system
    #[arg(long, env = "CLUSTER_UID", value_parser = cluster_uid)]
    pub cluster_uid: Option<String>,

    /// Namespaces to serve, separated by commas; none for all
    #[arg(long, visible_alias = "watch-namespace", env = "WATCH_NAMESPACE", value_delimiter = ',')]
    pub watch_namespaces: Vec<String>,

    /// Kinds to serve, separated by commas, such as MyIngress,Redis; the definitions of others need not be installed
    #[arg(long, env = "KINDS", value_enum, ignore_case = true, value_delimiter = ',', default_values_t = Served::value_variants().to_vec())]
    pub kinds: Vec<Served>,

    /// Address of /healthz and /readyz, and of /metrics without `METRICS_AUTH`
    #[arg(long, env = "METRICS_ADDRESS", default_value = "0.0.0.0:8080")]
    pub metrics_address: SocketAddr,

    /// Let only accounts that may `get` the path /metrics read metrics, with TLS and a Kubernetes token
    #[arg(long, env = "METRICS_AUTH", action = ArgAction::Set, default_value_t = true)]
    pub metrics_auth: bool,

    /// Address of /metrics with `METRICS_AUTH`
    #[arg(long, env = "METRICS_TLS_ADDRESS", default_value = "0.0.0.0:8443")]
    pub metrics_tls_address: SocketAddr,

    /// Interval at which everything is compared with AWS even if no event occurs (for example 5m or 300s)
    #[arg(long, env = "SWEEP_INTERVAL", default_value = "5m", value_parser = duration)]
    pub sweep_interval: Duration,

    /// Time that a replaced load balancer continues to serve clients that still use its address, and how long a target
    /// group stays for requests in flight when nothing sends to it any more
    #[arg(long, env = "REPLACEMENT_GRACE", default_value = "2m", value_parser = duration)]
    pub replacement_grace: Duration,

    /// Rules that a security group may have for IPv4, and as many for IPv6: more if AWS raised the account's quota
    #[arg(long, env = "SECURITY_GROUP_RULES", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub security_group_rules: u16,

    /// Objects of one kind that are worked on at the same time
    #[arg(long, env = "CONCURRENCY", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,

    /// Share of AWS's default limits on the rate of calls that the operator uses: 0.5 where others call from the same
    /// account, 2 where AWS raised the limits, 0 for no limit
    #[arg(long, env = "AWS_RATE_SHARE", default_value_t = 1.0, value_parser = parse_share)]
    pub aws_rate_share: f64,

    /// Options about backups
    #[command(flatten)]
    pub backups: BackupOptions,

    /// Let objects use only what each `CausewayPolicy` that selects their namespace allows
    #[arg(long, env = "GUARDRAILS", action = ArgAction::Set, default_value_t = true)]
    pub guardrails: bool,

    /// Options about databases
    #[command(flatten)]
    pub databases: DatabaseOptions,

    /// Name of the leader election lease; the lease for databases has the suffix -databases
    #[arg(long, env = "LEASE_NAME", default_value = "causeway")]
    pub lease_name: String,

    /// Time that a replica that died keeps the lease for databases, from 5s to 1m: longer if the Kubernetes API often
    /// takes seconds to answer
    #[arg(long, env = "DATABASE_LEASE_DURATION", default_value = "5s", value_parser = lease_duration)]
    pub database_lease_duration: Duration,

    /// Namespace of the lease: the operator's own
    #[arg(long, env = "POD_NAMESPACE", default_value = "causeway-system")]
    pub namespace: String,

    /// The operator's service account in that namespace: messages name it in commands that grant it permissions
    #[arg(long, env = "SERVICE_ACCOUNT", default_value = "causeway")]
    pub service_account: String,

    /// Name of this process in the lease and in events
    #[arg(long, env = "POD_NAME", default_value = "causeway")]
    pub pod_name: String,

    /// Uid of the operator's pod: with it, a restarted container takes over sooner from its predecessor
    #[arg(long, env = "POD_UID", value_parser = pod_uid)]
    pub pod_uid: Option<String>,

    /// Format of the log
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,

    /// Level of the log: error, warn, info, debug or trace; `RUST_LOG` overrides it
    #[arg(long, env = "LOG_LEVEL", default_value = "info")]
    pub log_level: String,
}

/// Options of `causeway run` about databases.
#[derive(Args, Clone, Debug, Default)]
pub struct DatabaseOptions {
    /// `Enabled` if a Redis or `EtcdCluster` without spec.networkPolicy has a `NetworkPolicy`, or `Disabled`
    #[arg(long, env = "NETWORK_POLICY", value_enum, ignore_case = true, default_value = "Enabled")]
    pub network_policy: NetworkPolicyMode,

    /// Namespaces whose pods may read metrics of databases, separated by commas; none for all
    #[arg(long, env = "SCRAPE_NAMESPACES", value_delimiter = ',')]
    pub scrape_namespaces: Vec<String>,

    /// Refuse a Redis or `EtcdCluster` without spec.auth; existing ones continue to run
    #[arg(long, env = "REQUIRE_AUTH", value_parser = FalseyValueParser::new())]
    pub require_auth: bool,

    /// Refuse a Redis or `EtcdCluster` without TLS for all its clients; existing ones continue to run
    #[arg(long, env = "REQUIRE_TLS", value_parser = FalseyValueParser::new())]
    pub require_tls: bool,
}

impl DatabaseOptions {
    /// Returns the rules that these options set for the controllers of an operator in `namespace`. An empty value
    /// counts as not set.
    #[must_use]
    pub fn rules(&self, namespace: &str) -> Rules {
        Rules {
            namespace: namespace.to_owned(),
            network_policy: self.network_policy,
            scrape_namespaces: names(&self.scrape_namespaces),
            require_auth: self.require_auth,
            require_tls: self.require_tls,
            clients_delay: CLIENTS_DELAY,
        }
    }
}

/// Options of `causeway run` about backups.
#[derive(Args, Clone, Debug, Default)]
pub struct BackupOptions {
    /// Bucket for backups that name none; unless given, causeway-<cluster>-<account>-<region>, which Causeway creates
    #[arg(long, env = "BACKUP_BUCKET", value_parser = bucket_name)]
    pub backup_bucket: Option<String>,

    /// ARN of the IAM role that the Jobs of backups assume, by the service account causeway-backup of their namespace, whose
    /// name stands for `{namespace}`, as in `arn:aws:iam::111122223333:role/causeway-backup-{namespace}`
    #[arg(long, env = "BACKUP_ROLE_ARN")]
    pub backup_role_arn: Option<String>,

    /// The Jobs of backups have a role by EKS Pod Identity, not by `BACKUP_ROLE_ARN`
    #[arg(long, env = "BACKUP_POD_IDENTITY", value_parser = FalseyValueParser::new())]
    pub backup_pod_identity: bool,

    /// S3 endpoints other than AWS's that backups may use, as URLs separated by commas
    #[arg(long, env = "BACKUP_ENDPOINTS", value_delimiter = ',')]
    pub backup_endpoints: Vec<String>,

    /// AWS regions that this version does not know and that backup buckets may be in, separated by commas
    #[arg(long, env = "BACKUP_REGIONS", value_delimiter = ',')]
    pub backup_regions: Vec<String>,

    /// Image of the Jobs of backups, and of `sentinel` of a Redis; unless given, that of the operator's own pod
    #[arg(long, env = "JOB_IMAGE")]
    pub job_image: Option<String>,
}

impl BackupOptions {
    /// Returns the settings that these options give to the controllers, with the cluster's name and the operator's AWS
    /// region and endpoint. An empty value counts as not set.
    #[must_use]
    pub fn settings(&self, cluster: &str, region: Option<String>, aws_endpoint: Option<String>) -> Settings {
        let user_provided = |option: &Option<String>| option.clone().filter(|text| !text.is_empty());
        Settings {
            cluster: cluster.to_owned(),
            bucket: user_provided(&self.backup_bucket),
            identity: match user_provided(&self.backup_role_arn) {
                _ if self.backup_pod_identity => Some(Identity::PodIdentity),
                role => role.map(Identity::WebIdentity),
            },
            image: user_provided(&self.job_image),
            region: region.unwrap_or_default(),
            aws_endpoint,
            egress: Egress::default(),
            endpoints: names(&self.backup_endpoints),
            regions: names(&self.backup_regions),
            namespace: String::new(),
        }
    }
}

impl RunOptions {
    /// Returns the rates at which AWS may be called.
    #[must_use]
    pub fn budget(&self) -> Budget {
        Budget::from_share(self.aws_rate_share)
    }

    /// Returns the namespaces to serve; empty means all. Empty entries and blanks around commas are ignored.
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        names(&self.watch_namespaces)
    }
}

/// Follows <https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>, but refuses dots: the
/// wildcard certificate of S3 does not cover a bucket name with dots.
fn bucket_name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = text.starts_with('-') || text.ends_with('-');
    if text.is_empty() || ((3..=63).contains(&text.len()) && text.chars().all(allowed) && !ends) {
        Ok(text.into())
    } else {
        Err("give 3 to 63 lower case letters, digits and hyphens, with a letter or digit at both ends".into())
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let duration = Duration::try_from(span).map_err(|_| "give a positive duration".to_owned())?;
    if duration < Duration::from_secs(1) { Err("give at least 1s".into()) } else { Ok(duration) }
}

fn lease_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        duration if (5..=60).contains(&duration.as_secs()) && duration <= Duration::from_mins(1) => Ok(duration),
        _ => Err("give a duration from 5s to 1m".into()),
    }
}

/// Follows <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#uids>; an empty value counts as
/// not set.
fn pod_uid(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if text.chars().all(allowed) { Ok(text.into()) } else { Err("give the uid of a pod".into()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: RunOptions,
    }

    fn options(arguments: &[&str]) -> Result<RunOptions, clap::Error> {
        let named = ["causeway", "--cluster-name", "prod"].iter().chain(arguments);
        Command::try_parse_from(named).map(|command| command.options)
    }

    #[test]
    fn no_namespace_or_an_empty_one_means_all() {
        assert_eq!(options(&[]).unwrap().namespaces(), Vec::<String>::new());
        assert_eq!(options(&["--watch-namespaces", ""]).unwrap().namespaces(), Vec::<String>::new());
        assert_eq!(options(&["--watch-namespaces", "a, b,"]).unwrap().namespaces(), ["a", "b"]);
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        let sweep = |text| options(&["--sweep-interval", text]).map(|options| options.sweep_interval);
        assert_eq!(sweep("5m").unwrap(), Duration::from_mins(5));
        assert_eq!(sweep("90s").unwrap(), Duration::from_secs(90));
        assert!(sweep("100ms").unwrap_err().to_string().contains("at least 1s"));
        assert!(sweep("-5m").is_err());
        assert!(sweep("soon").is_err());
    }

    #[test]
    fn a_lease_lasts_neither_too_short_nor_too_long() {
        let lease = |text| options(&["--database-lease-duration", text]).map(|it| it.database_lease_duration);
        assert_eq!(options(&[]).unwrap().database_lease_duration, Duration::from_secs(5));
        assert_eq!([lease("5s").unwrap(), lease("1m").unwrap()], [Duration::from_secs(5), Duration::from_mins(1)]);
        for text in ["4s", "4900ms", "61s", "60.5s", "long"] {
            assert!(lease(text).is_err(), "{text}");
        }
    }

    #[test]
    fn jobs_have_a_role_by_token_or_pod_identity() {
        let identity = |more: &[&str]| options(more).unwrap().backups.settings("prod", None, None).identity;
        let role = "arn:aws:iam::111122223333:role/causeway-backup-{namespace}";
        assert_eq!(identity(&["--backup-role-arn", role]), Some(Identity::WebIdentity(role.into())));
        assert_eq!(identity(&["--backup-role-arn", role, "--backup-pod-identity"]), Some(Identity::PodIdentity));
        assert!(options(&["--backup-pod-identity=perhaps"]).is_err());
    }

    #[test]
    fn an_empty_variable_about_backups_is_none() {
        let user_provided =
            ["--backup-bucket", "", "--backup-role-arn", "", "--backup-endpoints", "", "--job-image", ""];
        let settings = options(&user_provided).unwrap().backups.settings("prod", None, None);
        assert_eq!(settings, Settings { cluster: "prod".into(), ..Settings::default() });
        assert!(options(&["--backup-bucket", "My_Bucket"]).is_err());
    }
}
