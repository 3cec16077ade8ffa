//! Lengths of time, as Kubernetes and cert-manager write them: `2160h`, `1h30m`, `30s`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Whole hours, minutes and seconds, each at most once and in this order: what Go's `time.ParseDuration` and CEL's
/// `duration()` read as well. <https://pkg.go.dev/time#ParseDuration>
const PATTERN: &str = "^([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?$";

/// Bytes of the shortest and of the longest such text.
const LENGTHS: (usize, usize) = (2, 25);

/// A length of time in whole seconds. It keeps the text that the user wrote: `90m` does not become `1h30m`.
///
/// Bounds are rules of the fields that have this type. `kube::core::Duration` would write `90m` as `5400s`, and takes signs,
/// fractions and smaller units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Duration {
    text: String,
    seconds: u64,
}

/// A text that is no length of time.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a duration of hours, minutes and seconds, such as 2160h, 1h30m or 30s")]
pub struct NotADuration(String);

impl Duration {
    /// Returns a duration of that many hours.
    #[must_use]
    pub fn from_hours(hours: u32) -> Self {
        Self { text: format!("{hours}h"), seconds: u64::from(hours) * 3600 }
    }

    /// Returns a duration of that many seconds.
    #[must_use]
    pub fn from_seconds(seconds: u32) -> Self {
        Self { text: format!("{seconds}s"), seconds: seconds.into() }
    }

    /// Returns the length in seconds.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Its seconds, for interfaces that take a signed number.
    #[must_use]
    pub fn signed_seconds(&self) -> i64 {
        i64::try_from(self.seconds).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl TryFrom<String> for Duration {
    type Error = NotADuration;

    fn try_from(text: String) -> Result<Self, NotADuration> {
        match seconds(&text) {
            Some(seconds) => Ok(Self { text, seconds }),
            None => Err(NotADuration(text)),
        }
    }
}

impl From<Duration> for String {
    fn from(duration: Duration) -> Self {
        duration.text
    }
}

/// The seconds of a text that fits [`PATTERN`].
fn seconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut sum = 0;
    for (unit, length, most) in [('h', 3600, 6), ('m', 60, 7), ('s', 1, 9)] {
        let Some((digits, after)) = rest.split_once(unit) else { continue };
        if digits.is_empty() || digits.len() > most || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        sum += digits.parse::<u64>().ok()? * length;
        rest = after;
    }
    (rest.is_empty() && !text.is_empty()).then_some(sum)
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let (shortest, longest) = LENGTHS;
        json_schema!({ "type": "string", "pattern": PATTERN, "minLength": shortest, "maxLength": longest })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_hours_minutes_and_seconds() {
        for (text, expected) in [
            ("2160h", Some(2160 * 3600)),
            ("1h30m", Some(5400)),
            ("90m", Some(5400)),
            ("30s", Some(30)),
            ("0s", Some(0)),
            ("1h1m1s", Some(3661)),
            ("", None),
            ("30", None),
            ("1d", None),
            ("1s1h", None),
            ("1h1h", None),
            ("-1s", None),
            ("+1s", None),
            ("1.5h", None),
            (" 1s", None),
            ("1s ", None),
            ("h", None),
            ("1000000h", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_schema_takes_what_rust_reads(text in "[0-9]{0,10}[hms]?[0-9]{0,8}[hms]?[0-9]{0,10}[hmsd .]?") {
            let pattern = regex_lite::Regex::new(PATTERN).unwrap();
            let taken = pattern.is_match(&text) && (LENGTHS.0..=LENGTHS.1).contains(&text.len());
            prop_assert_eq!(taken, seconds(&text).is_some());
        }
    }

    #[test]
    fn the_text_stays_as_it_was_written() {
        let written: Duration = serde_json::from_str("\"90m\"").unwrap();
        assert_eq!((serde_json::to_string(&written).unwrap().as_str(), written.seconds()), ("\"90m\"", 5400));
        assert_eq!(Duration::from_hours(2160).to_string(), "2160h");
        let error = serde_json::from_str::<Duration>("\"2 days\"").unwrap_err().to_string();
        assert!(error.contains("\"2 days\" is not a duration"), "{error}");
    }
}
