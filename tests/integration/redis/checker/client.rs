//! A client as users have it: it finds the master by one address, and keeps or closes its connection.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, FromRedisValue, IntoConnectionInfo};
use redis::{RedisConnectionInfo, RedisError};
use tokio::time::timeout;

use super::entrance::Entrance;

/// A call without an answer has failed, and so has its connection.
const DEADLINE: Duration = Duration::from_millis(500);
/// A replica must confirm a write within this time, or the write does not count.
const WAIT_MS: usize = 400;

/// A client that connects when it has to.
pub struct Caller {
    entrance: Entrance,
    connection: Option<MultiplexedConnection>,
}

/// The reason why a call failed: the same words for the same reason.
pub type Why = String;

impl Caller {
    pub fn new(entrance: Entrance) -> Self {
        Self { entrance, connection: None }
    }

    /// Closes the connection, if there is one.
    pub fn hang_up(&mut self) {
        self.connection = None;
    }

    pub async fn set(&mut self, key: &str, value: u64) -> Result<(), Why> {
        self.call(redis::cmd("SET").arg(key).arg(value)).await
    }

    /// Writes a key, and waits until a replica has it, too.
    pub async fn set_and_wait(&mut self, key: &str, value: u64) -> Result<(), Why> {
        self.set(key, value).await?;
        self.confirmed().await
    }

    /// Waits until a replica has everything that was written on this connection.
    pub async fn confirmed(&mut self) -> Result<(), Why> {
        let replicas: usize = self.call_again(redis::cmd("WAIT").arg(1).arg(WAIT_MS)).await?;
        if replicas > 0 { Ok(()) } else { Err("no replica has it".into()) }
    }

    /// Connects, if there is no connection.
    pub async fn connected(&mut self) -> Result<(), Why> {
        if self.connection.is_none() {
            let connection = timeout(DEADLINE, connect(&self.entrance)).await.map_err(|_| "no connection")?;
            self.connection = Some(connection.map_err(|(why, _)| why)?);
        }
        Ok(())
    }

    /// Makes a call on the existing connection, and on no other.
    pub async fn call_again<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Why> {
        if self.connection.is_none() {
            return Err("the connection is closed".into());
        }
        self.call(command).await
    }

    /// Makes a call. A connection on which anything else than an answer arrives is closed; one that answers with an
    /// error is kept, as clients do.
    pub async fn call<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Why> {
        let whole = async {
            let connection = match &mut self.connection {
                Some(connection) => connection,
                None => self.connection.insert(connect(&self.entrance).await?),
            };
            command.query_async(connection).await.map_err(|error| (in_words(&error), is_answer(&error)))
        };
        let (why, keep) = match timeout(DEADLINE, whole).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(failed)) => failed,
            Err(_) => (format!("no answer in {} ms", DEADLINE.as_millis()), false),
        };
        if !keep {
            self.connection = None;
        }
        Err(why)
    }
}

async fn connect(entrance: &Entrance) -> Result<MultiplexedConnection, (Why, bool)> {
    let address = entrance.address().await.map_err(|why| (why, false))?;
    entrance.open(&address).await.map_err(|error| (in_words(&error), false))
}

/// Connects to a server.
pub async fn open(address: &str, password: Option<&str>) -> Result<MultiplexedConnection, RedisError> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "6379"));
    let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    if let Some(password) = password {
        settings = settings.set_password(password);
    }
    let address = ConnectionAddr::Tcp(host.to_owned(), port.parse().unwrap_or(6379));
    let client = Client::open(address.into_connection_info()?.set_redis_settings(settings))?;
    // Deadlines are the caller's.
    let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// Reports whether a server refused the call so that it never has an effect.
pub fn refuses(why: &str) -> bool {
    ["READONLY", "NOREPLICAS", "MISCONF", "LOADING", "MASTERDOWN", "OOM"].contains(&why)
}

/// Reports whether the error is the server's answer, and not one of the connection.
fn is_answer(error: &RedisError) -> bool {
    error.code().is_some() && !error.is_io_error()
}

/// The error without what differs from call to call.
fn in_words(error: &RedisError) -> Why {
    error.code().map_or_else(|| error.to_string(), str::to_owned)
}
