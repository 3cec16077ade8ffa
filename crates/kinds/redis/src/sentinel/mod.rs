//! `causeway sentinel`: answers clients of a `Redis` as Redis Sentinel would, beside each node of the set.
//!
//! ```text
//! node ──INFO──▶ view ──▶ session ──▶ clients: who is the master, and +switch-master
//!  ▲                        │
//!  └──is a password right?──┘
//! ```
//!
//! It detects no failures and fails nothing over: the operator does, and makes each node follow the master. So it asks
//! the node beside it, and no other. While that node knows no master, it names none. Redis' own sentinel would decide
//! by itself, and Redis' libraries are for clients: none bounds what a client may send before it has logged in.

mod command;
mod node;
mod reply;
mod request;
mod serve;
mod session;
mod subscriptions;
mod tls;
mod view;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};

use causeway_api::redis::ClientCertificates;
use causeway_databases::redis::Login;
use causeway_runtime::telemetry::{self, LogFormat};
use node::Node;
use serve::Shared;
use session::Settings;
use view::View;

/// The port at which it listens, as every sentinel does.
pub const PORT: u16 = 26379;
/// The user as which it asks the node.
pub const USER: &str = "causeway-sentinel";

/// Options of `causeway sentinel`.
#[derive(Args, Clone, Debug)]
pub struct SentinelOptions {
    /// Name by which clients call the master: that of the Redis object
    #[arg(long, env = "SENTINEL_MASTER")]
    pub master: String,

    /// Address of the pod, which clients get if its node is the master
    #[arg(long, env = "POD_IP")]
    pub pod_ip: IpAddr,

    /// Host at which clients reach the replicas that have all data
    #[arg(long, env = "SENTINEL_REPLICAS")]
    pub replicas: String,

    /// The node beside it; the port is that of every node
    #[arg(long, env = "SENTINEL_NODE", default_value = "127.0.0.1:6379")]
    pub node: SocketAddr,

    /// Address to listen at; port 26379 of all addresses unless given
    #[arg(long, env = "SENTINEL_LISTEN")]
    pub listen: Option<SocketAddr>,

    /// File with the password by which the node knows it; clients must then give theirs
    #[arg(long, env = "SENTINEL_PASSWORD_FILE")]
    pub password_file: Option<PathBuf>,

    /// Directory with tls.crt, tls.key and ca.crt; TLS is spoken with clients and the node where it is given
    #[arg(long, env = "SENTINEL_TLS_DIRECTORY", requires = "tls_name")]
    pub tls_directory: Option<PathBuf>,

    /// Name that the node's certificate is valid for
    #[arg(long, env = "SENTINEL_TLS_NAME")]
    pub tls_name: Option<String>,

    /// Certificates that clients must show: Off, Optional or Required
    #[arg(long, env = "SENTINEL_CLIENT_CERTIFICATES", value_enum, ignore_case = true, default_value = "Off")]
    pub client_certificates: ClientCertificates,

    /// Format of the log
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,

    /// Level of the log: error, warn, info, debug or trace; `RUST_LOG` overrides it
    #[arg(long, env = "LOG_LEVEL", default_value = "info")]
    pub log_level: String,
}

/// A reason for which clients cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Logging could not be set up.
    #[error(transparent)]
    Telemetry(#[from] telemetry::Error),
    /// Signals cannot be listened to.
    #[error("signals: {0}")]
    Signals(io::Error),
    /// The file with our password cannot be read.
    #[error("SENTINEL_PASSWORD_FILE {path}: {source}")]
    Password {
        /// The path of the file.
        path: PathBuf,
        /// The error of the read.
        source: io::Error,
    },
    /// The address is taken.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address to listen at.
        address: SocketAddr,
        /// The error of the socket.
        source: io::Error,
    },
}

/// Answers clients until SIGTERM.
pub async fn run(options: SentinelOptions) -> Result<(), Error> {
    telemetry::init(options.log_format, &options.log_level, std::env::var("RUST_LOG").ok().as_deref())?;
    let mut stopped = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let address = options.listen.unwrap_or_else(|| everywhere(options.pod_ip));
    let listener = TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
    tracing::info!(master = options.master, %address, "answering clients as Redis Sentinel does");
    tokio::select! {
        () = answer(&options, listener)? => {}
        _ = stopped.recv() => {}
    }
    Ok(())
}

/// Returns the address that stands for all addresses of the same family.
fn everywhere(address: IpAddr) -> SocketAddr {
    match address {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, PORT).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, PORT).into(),
    }
}

/// Answers clients of `listener`, for ever.
fn answer(options: &SentinelOptions, listener: TcpListener) -> Result<impl Future<Output = ()> + use<>, Error> {
    let read = |path: &PathBuf| {
        let password =
            std::fs::read_to_string(path).map_err(|source| Error::Password { path: path.clone(), source })?;
        Ok::<_, Error>(Login { user: USER.into(), password })
    };
    let login = options.password_file.as_ref().map(read).transpose()?;
    let settings = Settings {
        name: options.master.clone(),
        port: options.node.port(),
        replicas: options.replicas.clone(),
        id: hex::encode(Sha256::digest(options.pod_ip.to_string()))[..40].to_owned(),
        auth: login.is_some(),
    };
    let directory = options.tls_directory.clone();
    let clients = options.client_certificates;
    let asks = clients != ClientCertificates::Off;
    let name = options.tls_name.clone().unwrap_or_default();
    let tls = directory.clone().map(|directory| node::Tls { directory, name, asks });
    let node = Arc::new(Node::new(options.node.to_string(), login, tls));
    let own = view::Node { address: options.pod_ip.to_string(), port: options.node.port() };
    let (sender, views) = watch::channel(View::default());
    let tls = directory.map(|directory| tls::Server { directory, clients });
    let places = Arc::new(Semaphore::new(serve::CLIENTS));
    let shared = Arc::new(Shared { settings, node: node.clone(), tls, views, places });
    Ok(async move {
        tokio::join!(node.watch(&own, &sender), serve::serve(&listener, shared));
    })
}
