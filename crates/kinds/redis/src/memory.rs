//! How much memory a node may take, and how much of that its data. Pure.
//!
//! The kernel kills a process that exceeds the container's limit, and all that it holds is lost. A process that reaches
//! `maxmemory` only refuses writes, with an error, or evicts keys. So the data stay below the limit. As with
//! `ElastiCache`, a quarter of it is left for what is no data, such as buffers of replicas and pages that are copied
//! while a child rewrites the append-only file.
//! <https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/redis-memory-management.html>

use k8s_openapi::api::core::v1::ResourceRequirements;

use causeway_api::Redis;
use causeway_databases::memory_risk;
use causeway_runtime::quantity::amount;
use causeway_runtime::requirements;

use super::values;

/// CPU and memory that a node requests.
const USUAL: (&str, &str) = ("50m", "64Mi");
/// MiB of the largest backlog.
const BACKLOG: u64 = 32;
/// The memory limit in bytes of a node for which the spec has none.
const MOST: u64 = 2 << 30;

/// CPU and memory of a node.
///
/// The default limit has room for the data that `maxmemory` allows. With `maxmemory 0`, which sets no bound, there is
/// no default limit either: a process that never refuses a write would be killed at it.
pub fn of_node(object: &Redis) -> ResourceRequirements {
    let asked = asked_maxmemory(object);
    let most = MOST.max(asked.unwrap_or(0).saturating_add(asked.unwrap_or(0) / 3)) >> 20;
    let mut wanted = requirements(object.spec.resources.as_ref(), USUAL, &format!("{most}Mi"));
    if object.spec.resources.is_none() && asked == Some(0) {
        wanted.limits = None;
    }
    wanted
}

/// Bytes that the data may take if `maxmemory` is not given; 0 means no bound.
pub fn most_data(object: &Redis) -> u64 {
    let limit = match &object.spec.resources {
        Some(given) => given.limits.as_ref().and_then(|limits| limits.get("memory")).and_then(|it| amount(&it.0)),
        None => Some(i128::from(MOST) * 1000),
    };
    limit.and_then(|thousandths| u64::try_from(thousandths / 1000).ok()).map_or(0, share)
}

/// The `repl-backlog-size`: what replicas may miss without copying everything. It takes an eighth of the data's memory at most,
/// because it counts as data.
pub fn backlog(object: &Redis) -> String {
    let data = most_data(object);
    let mib = if data == 0 { BACKLOG } else { (data >> 23).clamp(1, BACKLOG) };
    format!("{mib}mb")
}

/// The same for a node whose container has that limit, be it from a `LimitRange`; `None` where the spec decides.
pub fn most_data_under(object: &Redis, limit: Option<u64>) -> Option<u64> {
    match asked_maxmemory(object) {
        None if !object.spec.config.contains_key("maxmemory") => limit.map(share),
        // No bound at all cannot be had under a limit that others gave.
        Some(0) => given_by_others(object, limit).map(share),
        _ => None,
    }
}

/// The memory limit of a node that does not come from the spec: a `LimitRange` or a webhook gave it.
pub fn given_by_others(object: &Redis, limit: Option<u64>) -> Option<u64> {
    let own = of_node(object).limits.is_some_and(|limits| limits.contains_key("memory"));
    limit.filter(|_| !own)
}

/// The danger that the data outgrow the memory limit which a pod has, because `spec.config.maxmemory` lets them.
pub fn risk(object: &Redis, pod: &str, limit: Option<u64>) -> Option<String> {
    let (limit, asked) = (limit?, asked_maxmemory(object)?);
    let is_bounded = most_data_under(object, Some(limit)).is_some();
    if is_bounded || (asked > 0 && asked < limit) {
        return None;
    }
    let most = if asked == 0 { "any amount".to_owned() } else { format!("{} MiB", asked >> 20) };
    Some(format!(
        "spec.config.maxmemory lets the data of {pod} take {most} of memory, but its memory limit is {} MiB, from {}: the kernel kills \
         the process when it reaches that. Set spec.config.maxmemory to {}mb or less, or spec.resources.limits.memory higher",
        limit >> 20,
        memory_risk::origin(given_by_others(object, Some(limit)).is_none()),
        share(limit) >> 20
    ))
}

/// The memory limit in bytes that the spec gives a node, if it gives one.
pub fn limit_of_spec(object: &Redis) -> Option<u64> {
    let limits = of_node(object).limits?;
    u64::try_from(amount(&limits.get("memory")?.0)? / 1000).ok()
}

/// Bytes of data for which a node that is made from the spec has room; `None` unless it would have less memory than that limit.
pub fn room_after(object: &Redis, limit: Option<u64>) -> Option<u64> {
    let next = limit_of_spec(object).filter(|next| limit.is_none_or(|limit| limit > *next))?;
    Some(share(next).max(asked_maxmemory(object).filter(|most| *most < next).unwrap_or(0)))
}

/// Returns the share of a limit that the data may take, in bytes.
fn share(limit: u64) -> u64 {
    limit / 4 * 3
}

/// The `maxmemory` in `spec.config`, in bytes.
pub fn asked_maxmemory(object: &Redis) -> Option<u64> {
    object.spec.config.get("maxmemory").and_then(|text| values::amount(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixtures::redis;
    use super::super::settings::settings;
    use super::*;

    /// The limit of a container and `maxmemory`, of a node with these fields.
    fn limit_and_bound(resources: serde_json::Value, maxmemory: Option<&str>) -> (Option<String>, String) {
        let mut object = redis(1);
        object.spec.resources = serde_json::from_value(resources).unwrap();
        object.spec.config.extend(maxmemory.map(|text| ("maxmemory".to_owned(), text.to_owned())));
        let limit = of_node(&object).limits.and_then(|limits| limits.get("memory").map(|it| it.0.clone()));
        (limit, settings(&object)["maxmemory"].clone())
    }

    #[test]
    fn a_limit_that_a_limit_range_gave_bounds_the_data() {
        let bound = |resources: serde_json::Value, maxmemory: Option<&str>, limit: Option<u64>| {
            let mut object = redis(1);
            object.spec.resources = serde_json::from_value(resources).unwrap();
            object.spec.config.extend(maxmemory.map(|text| ("maxmemory".to_owned(), text.to_owned())));
            (most_data_under(&object, limit), given_by_others(&object, limit).is_some())
        };
        let requests = || json!({ "requests": { "memory": "64Mi" } });
        let limits = || json!({ "limits": { "memory": "256Mi" } });
        let real = Some(256 << 20);
        assert_eq!(bound(requests(), None, real), (Some(192 << 20), true), "it was 0, and the kernel killed it");
        assert_eq!(bound(requests(), Some("0"), real), (Some(192 << 20), true));
        assert_eq!(bound(requests(), Some("100mb"), real), (None, true));
        assert_eq!(bound(requests(), None, None), (None, false));
        assert_eq!(bound(limits(), None, real), (Some(192 << 20), false));
        assert_eq!(bound(limits(), Some("0"), real), (None, false), "the spec asks for both");
    }

    #[test]
    fn only_less_memory_can_be_too_little() {
        let room = |limit: &str, maxmemory: Option<&str>, has: Option<u64>| {
            let mut object = redis(1);
            object.spec.resources = serde_json::from_value(json!({ "limits": { "memory": limit } })).unwrap();
            object.spec.config.extend(maxmemory.map(|text| ("maxmemory".to_owned(), text.to_owned())));
            room_after(&object, has.map(|mib| mib << 20)).map(|bytes| bytes >> 20)
        };
        assert_eq!(room("256Mi", None, Some(512)), Some(192));
        assert_eq!(room("256Mi", None, None), Some(192), "it had no limit");
        assert_eq!((room("256Mi", None, Some(256)), room("1Gi", None, Some(512))), (None, None));
        assert_eq!(room("256Mi", Some("100mb"), Some(512)), Some(192));
        assert_eq!(room("256Mi", Some("200mb"), Some(512)), Some(200));
        assert_eq!(room("256Mi", Some("1gb"), Some(2048)), Some(192), "it would be killed before");
        let mut object = redis(1);
        object.spec.resources = serde_json::from_value(json!({ "requests": { "memory": "64Mi" } })).unwrap();
        assert_eq!(room_after(&object, Some(256 << 20)), None, "a LimitRange decides");
    }

    #[test]
    fn a_small_node_keeps_a_small_backlog() {
        for (limit, expected) in [("2Gi", "32mb"), ("400Mi", "32mb"), ("64Mi", "6mb"), ("40Mi", "3mb"), ("4Mi", "1mb")]
        {
            let mut object = redis(1);
            object.spec.resources = serde_json::from_value(json!({ "limits": { "memory": limit } })).unwrap();
            assert_eq!(settings(&object)["repl-backlog-size"], expected, "{limit}");
            object.spec.config.insert("repl-backlog-size".into(), "8mb".into());
            assert_eq!(settings(&object)["repl-backlog-size"], "8mb");
        }
    }

    #[test]
    fn a_bound_above_the_limit_is_reported() {
        let told = |resources: serde_json::Value, maxmemory: Option<&str>, limit: Option<u64>| {
            let mut object = redis(1);
            object.spec.resources = serde_json::from_value(resources).unwrap();
            object.spec.config.extend(maxmemory.map(|text| ("maxmemory".to_owned(), text.to_owned())));
            risk(&object, "cache-0", limit)
        };
        let requests = || json!({ "requests": { "memory": "64Mi" } });
        let limits = || json!({ "limits": { "memory": "256Mi" } });
        let real = Some(256 << 20);
        let others = told(requests(), Some("1gb"), real).unwrap();
        for words in ["cache-0", "1024 MiB", "256 MiB", "LimitRange", "maxmemory to 192mb"] {
            assert!(others.contains(words), "{others}");
        }
        assert!(told(limits(), Some("256mb"), real).unwrap().contains("from spec.resources"));
        assert!(told(limits(), Some("0"), real).unwrap().contains("any amount"));
        for (resources, maxmemory, limit) in [
            (requests(), Some("0"), real),
            (requests(), Some("200mb"), real),
            (requests(), None, real),
            (limits(), Some("1gb"), None),
        ] {
            assert_eq!(told(resources, maxmemory, limit), None);
        }
    }

    #[test]
    fn a_write_is_refused_before_a_node_is_killed() {
        let none = || json!(null);
        let limited = |limit: &str| json!({ "limits": { "memory": limit } });
        for (resources, maxmemory, expected) in [
            (none(), None, (Some("2048Mi"), "1610612736")),
            (none(), Some("1gb"), (Some("2048Mi"), "1gb")),
            (none(), Some("6gb"), (Some("8192Mi"), "6gb")),
            (none(), Some("0"), (None, "0")),
            (limited("4Gi"), None, (Some("4Gi"), "3221225472")),
            (limited("1G"), None, (Some("1G"), "750000000")),
            (limited("4Gi"), Some("3900mb"), (Some("4Gi"), "3900mb")),
            (json!({ "requests": { "memory": "1Gi" } }), None, (None, "0")),
        ] {
            let (limit, most) = limit_and_bound(resources.clone(), maxmemory);
            assert_eq!((limit.as_deref(), most.as_str()), expected, "{resources} {maxmemory:?}");
        }
    }
}
