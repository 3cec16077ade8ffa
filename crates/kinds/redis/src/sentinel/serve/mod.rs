//! Connections of clients: their number is bounded, each has deadlines, and no request is read without end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::node::Node;
use super::reply::Reply;
use super::request::{self, parse};
use super::session::{Next, Session, Settings, error};
use super::tls::Server;
use super::view::View;

/// The most clients at the same time.
pub const CLIENTS: usize = 500;
/// The pause after a connection that could not be accepted: there may be too many open files.
const PAUSE: Duration = Duration::from_secs(1);
/// A client that has not finished the TLS handshake, logged in or read its answer within this time is disconnected.
const DEADLINE: Duration = Duration::from_secs(10);
/// A client that asks for nothing for this long is disconnected.
const IDLE: Duration = Duration::from_mins(10);
/// The same for a client that subscribed: its connection cannot be distinguished from one whose other end is gone
/// without a word.
const LISTENING: Duration = Duration::from_hours(1);

/// The state that all connections share.
pub struct Shared {
    /// The settings of the program.
    pub settings: Settings,
    /// The node beside this sentinel.
    pub node: Arc<Node>,
    /// TLS, if clients speak it.
    pub tls: Option<Server>,
    /// The latest view of the set.
    pub views: watch::Receiver<View>,
    /// A permit for each client that may still come.
    pub places: Arc<Semaphore>,
}

/// Serves clients for ever.
pub async fn serve(listener: &TcpListener, shared: Arc<Shared>) {
    let numbers = AtomicI64::new(0);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection, trying again");
                sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(place) = shared.places.clone().try_acquire_owned() else {
            tracing::warn!(%peer, "there are too many clients for another one");
            continue;
        };
        let (shared, number) = (shared.clone(), numbers.fetch_add(1, Ordering::Relaxed) + 1);
        tokio::spawn(async move {
            if let Err(error) = welcome(stream, number, &shared).await {
                tracing::debug!(%peer, %error, "a client is gone");
            }
            drop(place);
        });
    }
}

async fn welcome(stream: TcpStream, number: i64, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match &shared.tls {
        None => converse(stream, number, shared).await,
        Some(tls) => converse(timeout(DEADLINE, tls.accept(stream)).await??, number, shared).await,
    }
}

/// Answers a client until it is gone, or is disconnected.
pub async fn converse<S>(mut stream: S, number: i64, shared: &Shared) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut session = Session { number, ..Session::default() };
    let mut views = shared.views.clone();
    let mut received: Vec<u8> = Vec::new();
    let mut asked = Instant::now();
    loop {
        loop {
            let (request, taken) = match parse(&received) {
                Ok(Some(read)) => read,
                Ok(None) => break,
                Err(malformed) => return write(&mut stream, &session, &[error(malformed.to_string())]).await,
            };
            received.drain(..taken);
            let view = views.borrow().clone();
            let replies = match session.answer(&request, &shared.settings, &view) {
                Next::Reply(replies) => replies,
                Next::End(reply) => return write(&mut stream, &session, &[reply]).await,
                Next::Check(check) => {
                    let verdict = shared.node.check(&check.password).await;
                    vec![session.let_in(&check, verdict, &shared.settings)]
                }
            };
            write(&mut stream, &session, &replies).await?;
            if session.known || !shared.settings.auth {
                asked = Instant::now();
            }
        }
        let listens = !session.subscriptions.is_empty();
        let limit = match () {
            () if shared.settings.auth && !session.known => DEADLINE,
            () if listens => LISTENING,
            () => IDLE,
        };
        let mut bounded = (&mut stream).take((request::LONGEST - received.len()) as u64);
        tokio::select! {
            read = bounded.read_buf(&mut received) => if read? == 0 {
                return Ok(());
            },
            changed = views.changed(), if listens => {
                changed.map_err(io::Error::other)?;
                let view = views.borrow_and_update().clone();
                let messages = session.subscriptions.tell(&shared.settings, &view);
                write(&mut stream, &session, &messages).await?;
            }
            () = sleep_until(asked + limit) => return Ok(()),
        }
    }
}

async fn write<S: AsyncWrite + Unpin>(stream: &mut S, session: &Session, replies: &[Reply]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for reply in replies {
        reply.write(session.protocol, &mut bytes);
    }
    timeout(DEADLINE, async {
        stream.write_all(&bytes).await?;
        stream.flush().await
    })
    .await?
}

#[cfg(test)]
mod tests;
