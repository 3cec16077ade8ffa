//! Options of the process; every flag has an environment variable.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::telemetry::LogFormat;

/// Options of `causeway run`.
#[derive(Args, Clone, Debug)]
pub struct RunOptions {
    /// Name of this Kubernetes cluster; it marks what Causeway owns in AWS, so no two clusters of an account share it
    #[arg(long, env = "CLUSTER_NAME", value_parser = cluster_name)]
    pub cluster_name: String,

    /// Namespaces to serve, separated by commas; none for all
    #[arg(long, visible_alias = "watch-namespace", env = "WATCH_NAMESPACE", value_delimiter = ',')]
    pub watch_namespaces: Vec<String>,

    /// Address of /healthz, /readyz and /metrics
    #[arg(long, env = "METRICS_ADDRESS", default_value = "0.0.0.0:8080")]
    pub metrics_address: SocketAddr,

    /// How often everything is compared with AWS even if nothing happens (for example 5m or 300s)
    #[arg(long, env = "SWEEP_INTERVAL", default_value = "5m", value_parser = duration)]
    pub sweep_interval: Duration,

    /// Objects of one kind that are worked on at the same time
    #[arg(long, env = "CONCURRENCY", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,

    /// Name of the lease by which one of several replicas leads
    #[arg(long, env = "LEASE_NAME", default_value = "causeway")]
    pub lease_name: String,

    /// Namespace of the lease: the operator's own
    #[arg(long, env = "POD_NAMESPACE", default_value = "causeway-system")]
    pub namespace: String,

    /// Name of this process in the lease and in events
    #[arg(long, env = "POD_NAME", default_value = "causeway")]
    pub pod_name: String,

    /// Format of the log
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,

    /// Level of the log: error, warn, info, debug or trace; `RUST_LOG` overrides it
    #[arg(long, env = "LOG_LEVEL", default_value = "info")]
    pub log_level: String,
}

impl RunOptions {
    /// The namespaces to serve; empty for all. An empty variable and blanks around commas are what people write.
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        let named = self.watch_namespaces.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
        named.map(str::to_owned).collect()
    }
}

/// A tag value: <https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html>
fn cluster_name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    if (1..=100).contains(&text.len()) && text.chars().all(allowed) {
        Ok(text.into())
    } else {
        Err("give 1 to 100 letters, digits or any of - _ . / : @".into())
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let duration = Duration::try_from(span).map_err(|_| "give a positive duration".to_owned())?;
    if duration < Duration::from_secs(1) { Err("give at least 1s".into()) } else { Ok(duration) }
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
    fn a_cluster_name_must_fit_into_a_tag() {
        assert_eq!(cluster_name("prod-eu"), Ok("prod-eu".into()));
        assert!(cluster_name("").is_err());
        assert!(cluster_name("a\nb").is_err());
    }
}
