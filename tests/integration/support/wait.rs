//! Waiting for conditions: never a fixed pause, and a failure says what was waited for and what was seen last.

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; a healthy one needs a fraction.
pub const WAIT_TIMEOUT: Duration = Duration::from_mins(6);
/// Polling is a large part of the API server's load while tests run, so the pause grows with the time waited.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);
/// The next pause is the time waited so far, divided by this.
const SHARE: u32 = 20;

/// Looks again and again until `good` holds for what `look` sees; returns that. Panics after [`WAIT_TIMEOUT`].
pub async fn wait_for<T, F>(what: &str, look: impl FnMut() -> F, good: impl Fn(&T) -> bool) -> T
where
    T: Debug,
    F: Future<Output = T>,
{
    wait_within(WAIT_TIMEOUT, what, look, good).await
}

/// The same with another timeout.
pub async fn wait_within<T, F>(
    timeout: Duration,
    what: &str,
    mut look: impl FnMut() -> F,
    good: impl Fn(&T) -> bool,
) -> T
where
    T: Debug,
    F: Future<Output = T>,
{
    let begun = Instant::now();
    loop {
        let seen = look().await;
        if good(&seen) {
            return seen;
        }
        assert!(begun.elapsed() < timeout, "waited {timeout:?} for {what}; last seen: {}", in_brief(&seen));
        tokio::time::sleep((begun.elapsed() / SHARE).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
    }
}

/// Formats a value in one line, without absent fields and `managedFields`: the report of a failed test shows few lines.
fn in_brief(seen: &impl Debug) -> String {
    let text = format!("{seen:#?}");
    let mut message = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let indent = &line[..line.len() - line.trim_start().len()];
        if line.trim_start() == "managed_fields: Some(" {
            let end = format!("{indent}),");
            lines.by_ref().find(|line| *line == end);
        } else if !line.ends_with(": None,") {
            message.push_str(line.trim_start());
            message.push(' ');
        }
    }
    message
}

#[test]
fn what_is_absent_or_managed_is_not_told() {
    #[derive(Debug)]
    #[expect(dead_code, reason = "they are read through Debug")]
    struct Seen {
        managed_fields: Option<Vec<&'static str>>,
        absent: Option<u8>,
        name: Option<u8>,
    }
    let seen = Seen { managed_fields: Some(vec!["a", "b"]), absent: None, name: Some(1) };
    assert_eq!(in_brief(&seen), "Seen { name: Some( 1, ), } ");
}
