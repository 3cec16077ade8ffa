//! Serves metrics over TLS to those who may read them. All of it runs on a thread of its own, so that many connections
//! never delay a renewal of a lease.
//!
//! Every process makes a new self-signed certificate. It protects the token in transit, but does not prove the server's
//! identity to the client, as with the metrics of controller-runtime.
//! <https://book.kubebuilder.io/reference/metrics#protecting-the-metrics>

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::Metrics;
use super::access::Access;
use crate::clients;
use crate::health::scrape;

/// The number of TLS handshakes that run at the same time.
const HANDSHAKES: usize = 16;
/// A client that does not finish its handshake in this time is disconnected.
const DEADLINE: Duration = Duration::from_secs(5);
/// The pause after a connection that could not be accepted, for example because too many files are open.
const PAUSE: Duration = Duration::from_secs(1);

/// A reason for which metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate could not be made.
    #[error("cannot make a certificate for metrics: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificate cannot be used.
    #[error("cannot use the certificate for metrics: {0}")]
    Tls(#[from] rustls::Error),
    /// The thread or the socket could not be created.
    #[error("cannot serve metrics: {0}")]
    Io(#[from] io::Error),
}

/// The state of a request handler.
#[derive(Clone)]
struct Served {
    metrics: Metrics,
    access: Arc<Access>,
}

/// Serves metrics on `listener` until `stop`. Asks the apiserver of `config` who may read them.
pub fn serve(
    listener: StdListener,
    config: kube::Config,
    metrics: Metrics,
    stop: CancellationToken,
) -> Result<(), Error> {
    let acceptor = TlsAcceptor::from(Arc::new(self_signed()?));
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let work = async move {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(problem) => return error!(%problem, "metrics are not served"),
        };
        // A client's connections belong to the runtime in which it was made.
        let client = match clients::kubernetes(config, &metrics) {
            Ok(client) => client,
            Err(problem) => return error!(%problem, "metrics are not served: there is no Kubernetes client"),
        };
        let served = Served { metrics, access: Arc::new(Access::new(client)) };
        let routes = Router::new().route("/metrics", get(answer)).with_state(served);
        tokio::select! {
            _ = axum::serve(Encrypted::begin(listener, acceptor), routes) => {}
            () = stop.cancelled() => {}
        }
    };
    std::thread::Builder::new().name("metrics".into()).spawn(move || runtime.block_on(work))?;
    Ok(())
}

async fn answer(State(served): State<Served>, headers: HeaderMap) -> Response {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match served.access.verdict_on(header).await.refusal() {
        Some(refusal) => refusal.into_response(),
        None => scrape(&served.metrics).into_response(),
    }
}

fn self_signed() -> Result<ServerConfig, Error> {
    let made = rcgen::generate_simple_self_signed(vec!["causeway-metrics".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    Ok(config.with_single_cert(vec![made.cert.der().clone()], key)?)
}

/// Accepts connections and runs their TLS handshakes in tasks of their own, so that a slow client delays no other.
struct Encrypted {
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: io::Result<SocketAddr>,
}

impl Encrypted {
    fn begin(listener: TcpListener, acceptor: TlsAcceptor) -> Self {
        let address = listener.local_addr();
        let (done, ready) = mpsc::channel(HANDSHAKES);
        let slots = Arc::new(Semaphore::new(HANDSHAKES));
        tokio::spawn(async move {
            while let Ok(slot) = slots.clone().acquire_owned().await {
                let (stream, peer) = match listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(problem) => {
                        warn!(%problem, "cannot accept a connection for metrics, trying again");
                        sleep(PAUSE).await;
                        continue;
                    }
                };
                let (acceptor, done) = (acceptor.clone(), done.clone());
                tokio::spawn(async move {
                    // A client that hangs up, is too slow or does not speak TLS is disconnected.
                    if let Ok(Ok(stream)) = timeout(DEADLINE, acceptor.accept(stream)).await {
                        drop(done.send((stream, peer)).await);
                    }
                    drop(slot);
                });
            }
        });
        Self { ready, address }
    }
}

impl Listener for Encrypted {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The task that accepts ends only with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.address {
            Ok(address) => Ok(*address),
            Err(problem) => Err(problem.kind().into()),
        }
    }
}
