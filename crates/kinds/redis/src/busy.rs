//! When Redis says that it runs a script or function. Until then, such a process looks like one that hangs. Pure.

use std::time::Duration;

use causeway_api::Redis;

/// The directive with the milliseconds after which Redis answers BUSY to all other commands, and its name before 7.0.
/// <https://github.com/redis/redis/blob/7.0/redis.conf>
const THRESHOLDS: [&str; 2] = ["busy-reply-threshold", "lua-time-limit"];
/// The threshold unless `spec.config` says otherwise.
const USUAL: Duration = Duration::from_secs(5);
/// The further delay until the operator hears it: it asks again when a question was open for four seconds.
const HEARD: Duration = Duration::from_secs(5);

/// The silence after which a process runs no script, or it would have said so; `None` where it never does.
pub fn excluded_after(object: &Redis) -> Option<Duration> {
    let config = &object.spec.config;
    let asked = THRESHOLDS.iter().find_map(|name| config.get(*name)?.parse::<i64>().ok());
    match asked.map(u64::try_from) {
        None => Some(USUAL + HEARD),
        Some(Ok(millis @ 1..)) => Some(Duration::from_millis(millis) + HEARD),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::redis;
    use super::*;

    #[test]
    fn scripts_are_excluded_after_the_threshold() {
        let mut object = redis(0);
        assert_eq!(excluded_after(&object), Some(Duration::from_secs(10)));
        for (name, value, expected) in [
            ("lua-time-limit", "20000", Some(25)),
            ("busy-reply-threshold", "1000", Some(6)),
            ("busy-reply-threshold", "0", None),
            ("busy-reply-threshold", "-1", None),
        ] {
            object.spec.config.insert(name.into(), value.into());
            assert_eq!(excluded_after(&object), expected.map(Duration::from_secs), "{name} {value}");
        }
    }
}
