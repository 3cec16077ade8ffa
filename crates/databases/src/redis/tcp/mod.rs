//! Calls nodes by their protocol, over one connection each.

mod ending;
mod outgoing;
mod unconnected;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::bounded::{Allowance, Bounded, LONGEST};
use super::commands::{PROBE, cmd, commands};
use super::error::{RedisError, Trouble};
use super::knock::come_in;
use super::reply::{error_of, info_of, refused_write, reply};
use super::{Endpoint, Reply, Request, Transport};
use ending::end_busy;
use outgoing::{Outgoing, Watched};
use unconnected::Unconnected;

/// The time that a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(1);
/// The same for [`Request::Probe`], whose whole deadline is [`CONNECT`].
const PROBE_CONNECT: Duration = Duration::from_millis(500);
/// The time that a TLS handshake may take: on a busy machine it takes longer than the connection.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// The time that [`Request::StepDown`] waits for a caller that is just connecting.
const LINE: Duration = Duration::from_millis(50);
/// The most times that a question is asked, over another connection each time, when connections break.
const TRIES: usize = 3;
/// The time that [`Request::StepDown`] is kept for a socket that takes no more bytes now.
const WORD_KEPT: Duration = Duration::from_secs(10);

/// The connections, by node.
#[derive(Default)]
pub struct Tcp {
    lines: Mutex<HashMap<Endpoint, Arc<Line>>>,
    /// Connections over which no call waits for an answer any more: their processes may hang, and wake up later.
    aside: Mutex<HashMap<Endpoint, Held>>,
    /// Connections for [`Request::Probe`] that are idle now.
    probing: Mutex<HashMap<Endpoint, Held>>,
}

/// Holds the connection to one node. The first caller that finds none makes one, and the others wait for that.
#[derive(Default)]
struct Line {
    held: tokio::sync::Mutex<Option<Held>>,
}

#[derive(Clone)]
struct Held {
    connection: MultiplexedConnection,
    /// Cancelled when the connection is no more; cancelling it closes the connection.
    end: CancellationToken,
    /// Set if this process closed it, which says nothing about the node.
    hung_up: Arc<AtomicBool>,
    /// The number of bytes that it may still send until an answer is whole.
    allowance: Allowance,
    /// Set once the node's process has answered over it, so it has accepted it. A hung process has yet to accept
    /// connections that the kernel made for it.
    answered: Arc<AtomicBool>,
    outgoing: Outgoing,
}

impl Transport for Tcp {
    fn call<'a>(&'a self, to: &'a Endpoint, request: &'a Request) -> BoxFuture<'a, Result<Reply, RedisError>> {
        async move {
            if *request == Request::Probe {
                return self.probe(to, request).await;
            }
            if *request == Request::Knock {
                return knock(to).await;
            }
            let mut tries = 1;
            loop {
                match self.call_once(to, request).await {
                    // Clients can close connections (`CLIENT KILL`): a process is gone only if it accepts no other one.
                    Err(error) if error.trouble == Trouble::Broken && !request.is_change() && tries < TRIES => {
                        tries += 1;
                    }
                    answer => return answer,
                }
            }
        }
        .boxed()
    }

    fn until_broken<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, ()> {
        async move {
            let held = self.line(to).held.lock().await.clone();
            if let Some(held) = held {
                held.end.cancelled().await;
            }
        }
        .boxed()
    }

    fn put_aside(&self, to: &Endpoint) {
        let Some(held) = self.take(to) else { return };
        let mut aside = self.aside.lock();
        let is_better = |earlier: &Held| earlier.is_taken() && !held.is_taken();
        let surplus = if aside.get(to).is_some_and(is_better) { Some(held) } else { aside.insert(to.clone(), held) };
        if let Some(surplus) = surplus {
            surplus.end.cancel();
        }
    }

    fn hang_up(&self, to: &Endpoint) {
        self.close_aside(to);
        self.keep_probing(to, None);
        if let Some(held) = self.take(to) {
            held.hung_up.store(true, Ordering::SeqCst);
            held.end.cancel();
        }
    }
}

impl Tcp {
    async fn call_once(&self, to: &Endpoint, request: &Request) -> Result<Reply, RedisError> {
        if let Request::StepDown { .. } = request {
            return self.leave_word(to, request).await;
        }
        let mut held = self.line(to).hold(to).await.map_err(|error| error.describe(request))?;
        let answer = converse(&mut held.connection, request).await;
        // A refusal is a whole answer, too.
        let is_whole =
            |error: &RedisError| matches!(error.trouble, Trouble::Refused | Trouble::Loading | Trouble::Busy);
        if answer.as_ref().err().is_none_or(is_whole) && !held.allowance.is_overrun() {
            held.allowance.renew();
            held.answered.store(true, Ordering::SeqCst);
        }
        if let Ok(reply) = &answer {
            self.close_aside(to);
            if matches!(reply, Reply::Info(info) if !info.is_master()) {
                self.keep_probing(to, None);
            }
        }
        answer.map_err(|error| match error.trouble {
            _ if held.allowance.is_overrun() => {
                held.end.cancel();
                too_long(request)
            }
            Trouble::Broken if held.hung_up.load(Ordering::SeqCst) => {
                RedisError::new(request.name(), Trouble::Unanswered, "another call gave up waiting")
            }
            Trouble::Broken => {
                held.end.cancel();
                error
            }
            _ => error,
        })
    }

    /// Makes a write over a connection of its own, so that nothing else waits behind it. If the caller stops waiting,
    /// that connection is closed.
    async fn probe(&self, to: &Endpoint, request: &Request) -> Result<Reply, RedisError> {
        let held = self.probing.lock().remove(to);
        let mut held = match held.filter(|held| !held.end.is_cancelled()) {
            Some(held) => held,
            // Without a connection, nothing is known of writes.
            None => connect_within(PROBE_CONNECT, to).await.map_err(|error| match error.describe(request) {
                error if error.trouble == Trouble::Unanswered => RedisError { trouble: Trouble::Broken, ..error },
                error => error,
            })?,
        };
        let closing = held.end.clone().drop_guard();
        let answer = converse(&mut held.connection, request).await;
        if held.allowance.is_overrun() {
            return Err(too_long(request));
        }
        held.allowance.renew();
        if answer.as_ref().err().is_none_or(|error| error.trouble == Trouble::Refused) {
            closing.disarm();
            self.keep_probing(to, Some(held));
        }
        answer
    }

    fn keep_probing(&self, to: &Endpoint, held: Option<Held>) {
        let mut all = self.probing.lock();
        let earlier = match held {
            Some(held) => all.insert(to.clone(), held),
            None => all.remove(to),
        };
        if let Some(earlier) = earlier {
            earlier.end.cancel();
        }
    }

    /// Returns the connection that the process has accepted, else one that the kernel made for it. No connection is
    /// made for this: a process that wakes up reads from one that it has yet to accept only after it has answered what
    /// waited.
    async fn existing_connection(&self, to: &Endpoint) -> Option<Held> {
        // A caller that is just connecting holds the lock for as long as that takes.
        let line = self.line(to);
        let held = timeout(LINE, line.held.lock()).await.ok().and_then(|held| held.clone());
        let aside = self.aside.lock().get(to).cloned();
        let open: Vec<Held> = held.into_iter().chain(aside).filter(|held| !held.end.is_cancelled()).collect();
        open.iter().find(|held| held.is_taken()).or(open.first()).cloned()
    }

    /// Sends [`Request::StepDown`] to a hung process. Fails if the process may answer waiting writes before it reads
    /// that.
    async fn leave_word(&self, to: &Endpoint, request: &Request) -> Result<Reply, RedisError> {
        let failed = |message: &str| RedisError::new(request.name(), Trouble::Broken, message.to_owned());
        let held = self.existing_connection(to).await.ok_or_else(|| failed("there is no connection"))?;
        let is_taken = held.is_taken();
        let left = write_word(held, request).await?;
        if is_taken { Ok(left) } else { Err(failed("the process has not taken the connection: it finds it late")) }
    }

    /// Takes the connection out, so that no more calls are made over it. A caller that is just connecting keeps the
    /// `Line` for itself, and closes the connection by dropping that.
    fn take(&self, to: &Endpoint) -> Option<Held> {
        let line = self.lines.lock().remove(to)?;
        line.held.try_lock().ok().and_then(|mut held| held.take())
    }

    /// Closes the connection that was put aside. It is needed no more: the node is awake, or gone.
    fn close_aside(&self, node: &Endpoint) {
        let aside = self.aside.lock().remove(node);
        if let Some(held) = aside {
            held.end.cancel();
        }
    }

    fn line(&self, to: &Endpoint) -> Arc<Line> {
        self.lines.lock().entry(to.clone()).or_default().clone()
    }
}

impl Held {
    fn is_taken(&self) -> bool {
        self.answered.load(Ordering::SeqCst) && !self.end.is_cancelled()
    }
}

impl Line {
    /// Returns the connection, made if there is none.
    async fn hold(&self, to: &Endpoint) -> Result<Held, Unconnected> {
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_ref().filter(|held| !held.end.is_cancelled()) {
            return Ok(held.clone());
        }
        let made = connect(to).await?;
        *held = Some(made.clone());
        Ok(made)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(held) = self.held.get_mut() {
            held.end.cancel();
        }
    }
}

async fn connect(to: &Endpoint) -> Result<Held, Unconnected> {
    connect_within(CONNECT, to).await
}

async fn connect_within(deadline: Duration, to: &Endpoint) -> Result<Held, Unconnected> {
    let stream = timeout(deadline, TcpStream::connect(&to.address)).await.map_err(std::io::Error::from)??;
    stream.set_nodelay(true)?;
    match &to.tls {
        None => Ok(log_in(stream, to).await?),
        Some(credentials) => {
            let shaken = timeout(HANDSHAKE, credentials.shake_hands(stream)).await.map_err(std::io::Error::from)??;
            Ok(log_in(shaken, to).await?)
        }
    }
}

/// Comes as a new client, over a connection that is closed afterwards.
async fn knock(to: &Endpoint) -> Result<Reply, RedisError> {
    let request = &Request::Knock;
    let failed = |error: std::io::Error| Unconnected::from(error).describe(request);
    let stream = timeout(CONNECT, TcpStream::connect(&to.address)).await.map_err(|error| failed(error.into()))?;
    let stream = stream.map_err(failed)?;
    match &to.tls {
        None => come_in(stream, to).await,
        Some(credentials) => come_in(credentials.shake_hands(stream).await.map_err(failed)?, to).await,
    }
}

async fn log_in<S>(stream: S, to: &Endpoint) -> Result<Held, redis::RedisError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let info = RedisConnectionInfo::default().set_skip_set_lib_name();
    // The caller sets the deadlines.
    let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    let (outgoing, allowance) = (Outgoing::default(), Allowance::default());
    let stream = Bounded::new(Watched::new(stream, outgoing.clone()), allowance.clone());
    let (mut connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await?;
    let end = CancellationToken::new();
    let ended = end.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = driver => ended.cancel(),
            () = ended.cancelled() => {}
        }
    });
    if let Some(login) = &to.login {
        let closing = end.clone().drop_guard();
        // Not by the library: it keeps no words of a refusal.
        let login = cmd(&["AUTH", &login.user, &login.password]);
        if let Value::ServerError(error) = connection.send_packed_command(&login).await? {
            return Err(error.into());
        }
        closing.disarm();
    }
    Ok(Held { connection, end, hung_up: Arc::default(), allowance, answered: Arc::default(), outgoing })
}

/// Describes an answer that is longer than that of any Redis with the operator's settings.
fn too_long(request: &Request) -> RedisError {
    let message = format!("the answer is longer than {} KiB, and was not read to its end", LONGEST / 1024);
    RedisError::new(request.name(), Trouble::Refused, message)
}

/// Writes [`Request::StepDown`] for a hung process. It waits only until the kernel has all bytes, not for an answer.
async fn write_word(held: Held, request: &Request) -> Result<Reply, RedisError> {
    let mut all = redis::pipe();
    for command in commands(request) {
        all.add_command(command);
    }
    let written = held.outgoing.when_written(all.get_packed_pipeline());
    let mut connection = held.connection.clone();
    let name = request.name();
    tokio::spawn(async move {
        // A request whose answer no task awaits is not even sent, so a task waits for it.
        match timeout(WORD_KEPT, connection.send_packed_commands(&all, 0, all.len())).await {
            Ok(Ok(answers)) => {
                let refused = answers.into_iter().any(|answer| matches!(answer, Value::ServerError(_)));
                if refused {
                    tracing::warn!("a master that was told to step down refused that");
                }
            }
            answer => tracing::debug!(?answer, "a master that was told to step down did not answer"),
        }
    });
    tokio::select! {
        written = written => match written {
            Ok(()) => Ok(Reply::Done),
            Err(_) => Err(RedisError::new(name, Trouble::Broken, "the connection ended, or another word was left")),
        },
        () = held.end.cancelled() => Err(RedisError::new(name, Trouble::Broken, "the connection ended")),
    }
}

/// Makes a call over this connection, never over another that was made meanwhile.
async fn converse(connection: &mut MultiplexedConnection, request: &Request) -> Result<Reply, RedisError> {
    let failed = |error: redis::RedisError| error_of(request.name(), &error);
    if let Request::Promote { run_id } = request {
        // Both commands go over one connection, so the same process answers them.
        let text = connection.send_packed_command(&cmd(&["INFO", "server"])).await.map_err(failed)?;
        if info_of(&text).is_none_or(|info| info.run_id != *run_id) {
            let message = "the process was restarted meanwhile";
            return Err(RedisError::new(request.name(), Trouble::Gone, message));
        }
    }
    if *request == Request::Acknowledge {
        // Redis does not answer `REPLCONF GETACK`: the one answer is to the ping.
        let mut both = redis::pipe();
        both.cmd("REPLCONF").arg("GETACK").arg("*").cmd("PING");
        connection.send_packed_commands(&both, 0, 1).await.map_err(failed)?;
    }
    if *request == Request::Probe {
        return match connection.send_packed_command(&cmd(&PROBE)).await {
            Ok(Value::ServerError(error)) => refused_write(&error.into()),
            Ok(_) => Ok(Reply::Done),
            Err(error) => refused_write(&error),
        };
    }
    if *request == Request::EndBusy {
        return end_busy(connection, request).await;
    }
    if let Request::Follow { drop_clients: true, .. } = request {
        let mut together = redis::pipe();
        together.atomic();
        for command in commands(request) {
            together.add_command(command);
        }
        let () = together.query_async(connection).await.map_err(failed)?;
        return Ok(Reply::Done);
    }
    let mut last = Value::Nil;
    for command in commands(request) {
        last = connection.send_packed_command(&command).await.map_err(failed)?;
    }
    reply(request, last)
}

#[cfg(test)]
mod tests;
