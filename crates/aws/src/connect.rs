//! Connections to AWS: one configuration of all clients, without retries (see [`causeway_runtime::clients`]).

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, ConfigLoader, SdkConfig};
use kube::Client;

use causeway_runtime::clients;
use causeway_runtime::https::Https;
use causeway_runtime::metrics::Metrics;

/// A change that was sent while this process led must be over before another process can lead. The lease lasts 5 s
/// longer than a leader that cannot renew it relies on it (see [`causeway_runtime::leader::Timing`]).
const AWS_DEADLINE: Duration = Duration::from_secs(5);
const AWS_CONNECT_DEADLINE: Duration = Duration::from_secs(3);

/// A reason for which a command that users run cannot reach the cluster or AWS.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no client of the cluster.
    #[error(transparent)]
    Cluster(#[from] clients::Error),
    /// Neither the environment nor the machine names an AWS region.
    #[error("no AWS region to work in: set AWS_REGION, for example to us-east-1")]
    Region,
}

/// The clients of a command that users run: the cluster and AWS, as configured in the user's environment.
pub async fn user_clients(metrics: &Metrics) -> Result<(Client, SdkConfig), Error> {
    let config = kube::Config::infer().await.map_err(clients::Error::Kubeconfig)?;
    let client = clients::kubernetes(config, metrics).map_err(clients::Error::Client)?;
    let aws = aws().load().await;
    if aws.region().is_none() {
        return Err(Error::Region);
    }
    Ok((client, aws))
}

/// The configuration of AWS clients, from the environment: region, endpoint, and the web identity of the pod.
pub fn aws() -> ConfigLoader {
    let timeouts = TimeoutConfig::builder().operation_timeout(AWS_DEADLINE).connect_timeout(AWS_CONNECT_DEADLINE);
    aws_config::defaults(BehaviorVersion::latest())
        .http_client(Https::default())
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts.build())
}
