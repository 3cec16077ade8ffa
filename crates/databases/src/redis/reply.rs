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
        (Request::Rights(_), Value::Nil) => Ok(Reply::Rights(vec!["off".into()])),
        (Request::Rights(_), value) => {
            let pairs = value.into_map_iter().map_err(|_| RedisError::unexpected_answer(request.name()))?;
            let rights = pairs.filter_map(|(name, value)| match &*text_of(&name)? {
                "commands" | "keys" | "channels" => Some(patterns_of(&value)),
                "flags" => patterns_of(&value).split(' ').find(|flag| *flag == "off").map(str::to_owned),
                _ => None,
            });
            Ok(Reply::Rights(rights.collect()))
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

/// Rules or patterns as one text: Redis 7 gives a text, Redis 6 a list of patterns.
fn patterns_of(value: &Value) -> String {
    match value {
        Value::Array(patterns) => patterns.iter().filter_map(text_of).collect::<Vec<_>>().join(" "),
        value => text_of(value).unwrap_or_default().into_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn rights_are_read_as_redis_six_and_seven_report_them() {
        let of = || Request::Rights("default".into());
        let rights = |keys: Value, channels: Value| {
            let all = [("flags", Value::Array(vec![text("on")])), ("commands", text("+@all -set"))];
            let all = all.into_iter().chain([("keys", keys), ("channels", channels)]);
            let answer = Value::Array(all.flat_map(|(name, value)| [text(name), value]).collect());
            reply(&of(), answer).unwrap()
        };
        let wanted = |rights: [&str; 3]| Reply::Rights(rights.map(str::to_owned).into());
        assert_eq!(rights(text("~*"), text("&*")), wanted(["+@all -set", "~*", "&*"]));
        let patterns = |all: &[&str]| Value::Array(all.iter().map(|it| text(it)).collect());
        let off = Value::Array(vec![text("flags"), patterns(&["off", "nopass"])]);
        assert_eq!(reply(&of(), off).unwrap(), Reply::Rights(vec!["off".into()]));
        assert_eq!(reply(&of(), Value::Nil).unwrap(), Reply::Rights(vec!["off".into()]), "there is no such user");
        assert_eq!(rights(patterns(&["a:*", "b"]), patterns(&["*"])), wanted(["+@all -set", "a:* b", "*"]));
    }
}
