//! Connections to etcd. Each is to one member only, so that its answers are consistent with each other.

use std::path::Path;
use std::time::Duration;

use etcd_client::{Certificate, Channel, Client, ConnectOptions, Error as EtcdError, Identity, TlsOptions};
use tokio::time::timeout;
use tonic::transport::Endpoint;

use causeway_runtime::causes;

use crate::{Error, secrets};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How often a keep-alive is sent, and how long its answer may take.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Bytes that a member may send before we have read them. They take memory if compression is slower than the network. Enough
/// for 256 MiB/s at a round trip of 2 ms. <https://httpwg.org/specs/rfc9113.html#FlowControl>
const AHEAD: u32 = 512 * 1024;
/// etcd's error for a login while authentication is off.
const AUTH_OFF: &str = "authentication is not enabled";

/// Connects to one endpoint and logs in. If authentication is off, a login that is given is ignored.
pub async fn connect_etcd(url: &str, tls: Option<&Path>, login: Option<&Path>) -> Result<Client, Error> {
    let endpoint = endpoint(url, tls)?;
    let Some(directory) = login else { return connect(url, &endpoint, ConnectOptions::new()).await };
    let login = secrets::login(directory)?;
    let username = login.username.unwrap_or_else(|| "root".into());
    let as_user = ConnectOptions::new().with_user(username, login.password).with_auto_token_refresh(true);
    match connect(url, &endpoint, as_user).await {
        Err(Error::SourceUnreachable(problem)) if problem.contains(AUTH_OFF) => {
            connect(url, &endpoint, ConnectOptions::new()).await
        }
        outcome => outcome,
    }
}

fn endpoint(url: &str, tls: Option<&Path>) -> Result<Endpoint, Error> {
    let failed = |error: tonic::transport::Error| Error::SourceUnreachable(format!("{url}: {}", describe(&error)));
    let endpoint = Endpoint::from_shared(url.to_owned())
        .map_err(failed)?
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .initial_stream_window_size(AHEAD)
        .initial_connection_window_size(AHEAD);
    if !url.starts_with("https://") {
        return Ok(endpoint);
    }
    let mut options = TlsOptions::new();
    if let Some(directory) = tls {
        let certificates = secrets::certificates(directory)?;
        options = options.ca_certificate(Certificate::from_pem(&certificates.trusted));
        if let Some((certificate, key)) = &certificates.identity {
            options = options.identity(Identity::from_pem(certificate, key));
        }
    }
    endpoint.tls_config(options).map_err(failed)
}

async fn connect(url: &str, endpoint: &Endpoint, options: ConnectOptions) -> Result<Client, Error> {
    let refused = |problem: String| Error::SourceUnreachable(format!("{url}: {problem}"));
    let connected = async {
        let channel = endpoint.connect().await.map_err(|error| refused(describe(&error)))?;
        let client = Client::from_channel(Channel::Tonic(channel), Some(options)).await;
        client.map_err(|error| refused(etcd_problem(&error)))
    };
    let late = |_| refused(format!("no answer within {} s", CONNECT.as_secs() * 2));
    timeout(CONNECT * 2, connected).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

/// The innermost reason: the outer ones say only that there is no connection.
fn describe(error: &tonic::transport::Error) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// Returns what went wrong, in etcd's words only.
#[must_use]
pub fn etcd_problem(error: &EtcdError) -> String {
    match error {
        EtcdError::GRpcStatus(status) => status.message().to_owned(),
        other => other.to_string(),
    }
}
