//! Reads the answers of nodes.

use std::borrow::Cow;

use redis::{ErrorKind, ServerErrorKind, Value};

use super::error::{RedisError, Trouble};
use super::info::{Info, position_of};
use super::{Reply, Request, clients};

/// Classifies an error that answers [`Request::Probe`]: a refused write, whatever its code, is no trouble of the
/// connection.
pub fn refused_write(error: &redis::RedisError) -> Result<Reply, RedisError> {
    match error.code() {
        // A user has a key of that name, of another type. Redis checks the type last, so nothing else refuses the
        // write.
        Some("WRONGTYPE") => Ok(Reply::Done),
        Some(code @ ("MISCONF" | "NOREPLICAS" | "OOM" | "READONLY" | "BUSY" | "NOPERM")) => {
            let words = format!("{code} {}", error.detail().unwrap_or_default());
            Err(RedisError::new(Request::Probe.name(), Trouble::Refused, words.trim_end().to_owned()))
        }
        _ => Err(error_of(Request::Probe.name(), error)),
    }
}

pub fn reply(request: &Request, value: Value) -> Result<Reply, RedisError> {
    match (request, value) {
        (_, Value::ServerError(error)) => Err(error_of(request.name(), &error.into())),
        (Request::Role, value) => {
            let position = position_of(&value).ok_or_else(|| RedisError::unexpected_answer(request.name()))?;
            Ok(Reply::Role(position))
        }
        (Request::Info | Request::Keys | Request::Memory, value) => {
            let info = info_of(&value).ok_or_else(|| RedisError::unexpected_answer(request.name()))?;
            Ok(Reply::Info(Box::new(info)))
        }
        (Request::Clients, value) => {
            let list = text_of(&value).ok_or_else(|| RedisError::unexpected_answer(request.name()))?;
            Ok(Reply::Clients(clients::count(&list)))
        }
        (Request::Settings(_), value) => {
            let pairs = value.into_map_iter().map_err(|_| RedisError::unexpected_answer(request.name()))?;
            let text = |value: &Value| redis::from_redis_value_ref::<String>(value).ok();
            let settings = pairs.filter_map(|(name, value)| Some((text(&name)?, text(&value)?)));
            Ok(Reply::Settings(settings.collect()))
        }
        _ => Ok(Reply::Done),
    }
}

pub fn info_of(value: &Value) -> Option<Info> {
    text_of(value).map(|text| Info::parse(&text))
}

fn text_of(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::BulkString(text) => Some(String::from_utf8_lossy(text)),
        Value::VerbatimString { text, .. } => Some(text.into()),
        _ => None,
    }
}

pub fn error_of(operation: &'static str, error: &redis::RedisError) -> RedisError {
    let trouble = match error.kind() {
        ErrorKind::Server(ServerErrorKind::BusyLoading) => Trouble::Loading,
        _ if error.code() == Some("BUSY") => Trouble::Busy,
        ErrorKind::AuthenticationFailed => Trouble::Unauthenticated,
        _ if matches!(error.code(), Some("WRONGPASS" | "NOAUTH")) => Trouble::Unauthenticated,
        _ if error.is_timeout() => Trouble::Unanswered,
        _ if error.is_connection_refusal() => Trouble::Gone,
        _ if error.is_connection_dropped() || error.is_unrecoverable_error() => Trouble::Broken,
        // The host cannot be reached now, which says nothing about the process.
        ErrorKind::Io => Trouble::Unanswered,
        _ => Trouble::Refused,
    };
    RedisError::new(operation, trouble, error.to_string())
}
