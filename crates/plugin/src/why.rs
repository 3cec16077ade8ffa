//! Explains why an object is not ready: what Causeway reports about it, the newest warnings, and where to look next.
//! Pure.

use std::fmt::Write;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use causeway_runtime::guardrails::DENIED;
use causeway_runtime::terminal::{health, plain, strong};

use super::seen::{Condition, Seen, age, seconds_between};

/// The number of newest warnings that are shown.
const NEWEST: usize = 5;

/// Describes what is wrong with the object.
pub fn explain(seen: &Seen, events: &[Event], now: Timestamp) -> String {
    let seen = &seen.printable();
    let mut out = format!("{}\n", strong(&format!("{} -n {}", seen.kubectl_name(), seen.namespace)));
    let _ = writeln!(out, "  Ready is {}, {}: {}", seen.ready, health(false, &seen.reason), seen.message);
    let others = |it: &&Condition| it.is_trouble() && it.type_ != "Ready" && it.message != seen.message;
    for condition in seen.conditions.iter().filter(others) {
        let _ =
            writeln!(out, "  {} is {}, {}: {}", condition.type_, condition.status, condition.reason, condition.message);
    }
    for (at, event) in newest(events) {
        let ago = at.map_or_else(String::new, |at| format!("{} ago ", age(seconds_between(at, now))));
        let text = |text: Option<&str>| plain(text.unwrap_or_default()).into_owned();
        let _ = writeln!(out, "  warning {ago}{}: {}", text(event.reason.as_deref()), text(event.message.as_deref()));
    }
    if let Some(policy) = policy(seen) {
        let _ = writeln!(out, "  Policy: kubectl get causewaypolicy {policy} -o yaml");
    }
    let _ = writeln!(out, "  More: kubectl causeway status {} -n {}\n", seen.kubectl_name(), seen.namespace);
    out
}

/// Returns the policy that forbids the object, as its message names it.
fn policy(seen: &Seen) -> Option<&str> {
    // The last one: a value of the spec comes before it, and may say the same. Names have no other characters.
    let (_, rest) = seen.message.rsplit_once("CausewayPolicy ").filter(|_| seen.reason == DENIED)?;
    let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c)));
    rest.get(..end.unwrap_or(rest.len())).filter(|name| !name.is_empty())
}

/// Says how many objects are healthy.
pub fn summary(all: usize, well: usize) -> String {
    match (all, all - well) {
        (0, _) => "No objects of Causeway found: use -A for all namespaces.\n".into(),
        (_, 0) => format!("All {all} objects are well.\n"),
        (_, trouble) => format!("{trouble} of {all} objects are in trouble.\n"),
    }
}

/// Returns the newest warnings, each message once.
fn newest(events: &[Event]) -> Vec<(Option<Timestamp>, &Event)> {
    let at = |event: &Event| {
        let series = event.series.as_ref().and_then(|series| Some(series.last_observed_time.as_ref()?.0));
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        series.or(last).or_else(|| event.event_time.as_ref().map(|time| time.0))
    };
    let mut warnings: Vec<_> =
        events.iter().filter(|it| it.type_.as_deref() == Some("Warning")).map(|it| (at(it), it)).collect();
    warnings.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let mut shown: Vec<(Option<Timestamp>, &Event)> = Vec::new();
    for warning in warnings {
        if shown.len() < NEWEST && !shown.iter().any(|(_, before)| before.message == warning.1.message) {
            shown.push(warning);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use causeway_runtime::guardrails::{Ask, Policies, Topic};
    use causeway_runtime::terminal::uncoloured;

    #[test]
    fn text_of_others_neither_controls_the_terminal_nor_forges_lines() {
        for hostile in
            ["x", "x\n  Ready is True, Active: all is well", "x\r\u{1b}[2K", "\u{9b}1A\u{202e}x", "x\u{2028}y"]
        {
            let texts = [hostile; 4].map(str::to_owned);
            let [type_, status, reason, message] = texts.clone();
            let conditions =
                vec![Condition { type_, status: status + "x", reason, message: message + ".", since: hostile.into() }];
            let [ready, reason, message, name] = texts;
            let (kind, namespace) = ("Redis".into(), hostile.into());
            let seen = Seen { kind, namespace, name, ready, reason, message, age_seconds: 1, conditions };
            let event = json!({ "metadata": {}, "involvedObject": {}, "reason": hostile, "message": hostile, "type": "Warning" });
            let events = [serde_json::from_value(event).expect("an event")];
            let shown = uncoloured(&explain(&seen, &events, Timestamp::UNIX_EPOCH));
            assert_eq!(shown.lines().count(), 5, "{shown}");
            assert!(shown.lines().all(|line| *line == *plain(line)), "{shown:?}");
        }
    }

    #[test]
    fn a_command_names_the_policy_without_shell_syntax() {
        let mut seen = Seen {
            kind: "MyIngress".into(),
            namespace: "shop".into(),
            name: "web".into(),
            ready: "False".into(),
            reason: DENIED.into(),
            message: "spec.securityGroups[0] CausewayPolicy $(id) is not allowed here: CausewayPolicy tenants (spec.x)"
                .into(),
            age_seconds: 1,
            conditions: Vec::new(),
        };
        assert_eq!(policy(&seen), Some("tenants"));
        seen.message = "CausewayPolicy $(id)".into();
        assert_eq!(policy(&seen), None);
    }

    #[test]
    fn trouble_is_shown_with_its_reasons_and_the_newest_warnings() {
        let condition = |type_: &str, status: &str, message: &str| Condition {
            type_: type_.into(),
            status: status.into(),
            reason: "SecretMissing".into(),
            message: message.into(),
            since: String::new(),
        };
        let seen = Seen {
            kind: "DatabaseBackup".into(),
            namespace: "shop".into(),
            name: "nightly".into(),
            ready: "False".into(),
            reason: "SecretMissing".into(),
            message: "there is no Secret login".into(),
            age_seconds: 1,
            conditions: vec![
                condition("Stalled", "True", "there is no Secret login"),
                condition("BackupOverdue", "True", "no backup since Monday"),
            ],
        };
        let event = |reason: &str, message: &str, at: &str, type_: &str| -> Event {
            let value = json!({ "metadata": {}, "involvedObject": {}, "reason": reason, "message": message, "type": type_,
                "lastTimestamp": at });
            serde_json::from_value(value).expect("an event")
        };
        let events = [
            event("BackupFailed", "S3 said no", "2026-11-25T07:00:00Z", "Warning"),
            event("BackupFailed", "S3 said no", "2026-11-25T06:00:00Z", "Warning"),
            event("Created", "a CronJob", "2026-11-25T07:00:00Z", "Normal"),
        ];
        let now = "2026-11-25T07:01:30Z".parse().expect("a time");
        insta::assert_snapshot!(uncoloured(&explain(&seen, &events, now)), @r"
        databasebackup/nightly -n shop
          Ready is False, SecretMissing: there is no Secret login
          BackupOverdue is True, SecretMissing: no backup since Monday
          warning 1m30s ago BackupFailed: S3 said no
          More: kubectl causeway status databasebackup/nightly -n shop
        ");
    }

    #[test]
    fn the_policy_that_refuses_an_object_is_named() {
        let spec = json!({ "namespaceSelector": {}, "schemes": ["internal"] });
        let mut policies = Policies::default();
        policies.put("tenants".into(), &spec);
        let ask = Ask { topic: Topic::Scheme, field: "spec.scheme".into(), value: Some("internet-facing".into()) };
        let denial = policies.denial(&BTreeMap::new(), &[ask], || Err(String::new()));
        let (reason, message) = denial.expect("a denial");
        let (kind, namespace, name) = ("MyIngress".into(), "shop".into(), "web".into());
        let (reason, ready, conditions) = (reason.into(), "False".into(), Vec::new());
        let seen = Seen { kind, namespace, name, ready, reason, message, age_seconds: 1, conditions };
        assert!(seen.message.contains("(spec.schemes) allows internal"), "{}", seen.message);
        assert_eq!(policy(&seen), Some("tenants"));
        assert_eq!(policy(&Seen { reason: "Other".into(), ..seen }), None);
    }

    #[test]
    fn the_last_line_counts() {
        assert_eq!(summary(3, 3), "All 3 objects are well.\n");
        assert_eq!(summary(3, 2), "1 of 3 objects are in trouble.\n");
        assert!(summary(0, 0).contains("-A"));
    }
}
