//! Connections to etcd: one member each, so that what it says belongs together.

use std::path::Path;
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Error as EtcdError, Identity, TlsOptions};
use tokio::time::timeout;

use crate::backup::{Error, secrets};

/// A connection that is not made by then is not made.
const CONNECT: Duration = Duration::from_secs(5);
/// A connection over which nothing comes back for so long is dead.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// What etcd says to whoever logs in where nobody has to.
const AUTH_OFF: &str = "authentication is not enabled";

/// Connects to one endpoint and logs in. Where nobody has to, a login that is given is of no use, and of no harm.
pub async fn connect_etcd(url: &str, tls: Option<&Path>, login: Option<&Path>) -> Result<Client, Error> {
    let mut options = ConnectOptions::new().with_connect_timeout(CONNECT).with_keep_alive(KEEP_ALIVE, KEEP_ALIVE);
    if let Some(directory) = tls.filter(|_| url.starts_with("https://")) {
        let certificates = secrets::certificates(directory)?;
        let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(&certificates.trusted));
        if let Some((certificate, key)) = &certificates.identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        options = options.with_tls(tls);
    }
    let Some(directory) = login else { return connect(url, options).await };
    let login = secrets::login(directory)?;
    let username = login.username.unwrap_or_else(|| "root".into());
    let as_user = options.clone().with_user(username, login.password).with_auto_token_refresh(true);
    match connect(url, as_user).await {
        Err(Error::SourceUnreachable(problem)) if problem.contains(AUTH_OFF) => connect(url, options).await,
        outcome => outcome,
    }
}

async fn connect(url: &str, options: ConnectOptions) -> Result<Client, Error> {
    let connected = timeout(CONNECT * 2, Client::connect([url], Some(options))).await;
    match connected {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(Error::SourceUnreachable(format!("{url}: {}", etcd_problem(&error)))),
        Err(_) => Err(Error::SourceUnreachable(format!("{url}: no answer within {} s", CONNECT.as_secs() * 2))),
    }
}

/// What went wrong, in etcd's words and no more.
#[must_use]
pub fn etcd_problem(error: &EtcdError) -> String {
    match error {
        EtcdError::GRpcStatus(status) => status.message().to_owned(),
        other => other.to_string(),
    }
}
