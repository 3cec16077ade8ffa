//! Metrics over TLS, for those who may read them. All of it runs on a thread of its own: however many connect, no renewal of a
//! lease waits for them.
//!
//! The certificate is made again by every process, and signed by itself: a token is not read on the way, but a client cannot
//! know whose certificate it is shown, as with the metrics of controller-runtime.
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

/// Connections that are being made at the same time.
const HANDSHAKES: usize = 16;
/// Who does not finish that in time is let go.
const DEADLINE: Duration = Duration::from_secs(5);
/// After a connection that could not be accepted: there may be too many open files.
const PAUSE: Duration = Duration::from_secs(1);

/// Why metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No certificate could be made.
    #[error("cannot make a certificate for metrics: {0}")]
    Certificate(#[from] rcgen::Error),
    /// It cannot be used.
    #[error("cannot use the certificate for metrics: {0}")]
    Tls(#[from] rustls::Error),
    /// The thread or the socket is not to be had.
    #[error("cannot serve metrics: {0}")]
    Io(#[from] io::Error),
}

/// What metrics are served with.
#[derive(Clone)]
struct Served {
    metrics: Metrics,
    access: Arc<Access>,
}

/// Serves metrics on `listener` until `stop`. The apiserver of `config` is asked who may read them.
pub fn serve(
    listener: StdListener,
    config: kube::Config,
    metrics: Metrics,
    stop: CancellationToken,
) -> Result<(), Error> {
    let acceptor = TlsAcceptor::from(Arc::new(certified()?));
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let work = async move {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(problem) => return error!(%problem, "metrics are not served"),
        };
        // A client's connections are of the runtime that it was made in.
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
    match served.access.of(header).await.refusal() {
        Some(refusal) => refusal.into_response(),
        None => scrape(&served.metrics).into_response(),
    }
}

/// A certificate that signs itself.
fn certified() -> Result<ServerConfig, Error> {
    let made = rcgen::generate_simple_self_signed(vec!["causeway-metrics".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    Ok(config.with_single_cert(vec![made.cert.der().clone()], key)?)
}

/// Connections whose handshake is done: whoever takes his time with that holds nobody up.
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
                    // Who hangs up or speaks no TLS is let go.
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
