//! Ends a process that answers nothing else.

use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::redis::commands::{cmd, commands};
use crate::redis::error::{RedisError, Trouble};
use crate::redis::reply::error_of;
use crate::redis::{Reply, Request};

/// Ends a process that a script keeps busy. A process that answers anything else has come back: it is left alone.
pub async fn end_busy(connection: &mut MultiplexedConnection, request: &Request) -> Result<Reply, RedisError> {
    let failed = |error: redis::RedisError| error_of(request.name(), &error);
    let answer = connection.send_packed_command(&cmd(&["ROLE"])).await.map_err(failed);
    let is_busy = match answer {
        Ok(Value::ServerError(error)) => error_of(request.name(), &error.into()).trouble == Trouble::Busy,
        Ok(_) => false,
        Err(error) => error.trouble == Trouble::Busy,
    };
    if !is_busy {
        return Err(RedisError::new(request.name(), Trouble::Gone, "its script has ended"));
    }
    for command in commands(request) {
        match connection.send_packed_command(&command).await {
            // The process answers nothing: it ends.
            Err(error) if error.is_connection_dropped() || error.is_unrecoverable_error() => {}
            Err(error) => return Err(failed(error)),
            Ok(Value::ServerError(error)) => return Err(error_of(request.name(), &error.into())),
            Ok(_) => {}
        }
    }
    Ok(Reply::Done)
}
