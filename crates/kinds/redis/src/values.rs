//! Values of directives, compared as Redis understands them: `CONFIG GET` returns many in another form than they were set
//! in. Pure. <https://github.com/redis/redis/blob/7.0.15/src/config.c>

use std::collections::{BTreeMap, BTreeSet};

/// Directives that are flags in one word, with the letters that `A` stands for.
const KEYSPACE_EVENTS: (&str, &str) = ("notify-keyspace-events", "g$lshzxetd");
/// Directives whose words are names in any order.
const SETS_OF_NAMES: [&str; 2] = ["shutdown-on-sigint", "shutdown-on-sigterm"];
/// Directives whose words are numbers.
const NUMBERS: [&str; 3] = ["latency-tracking-info-percentiles", "oom-score-adj-values", "save"];
/// Directives that are text, in which capitals matter.
const TEXTS: [&str; 12] = [
    "proc-title-template",
    "ignore-warnings",
    "locale-collate",
    "syslog-ident",
    "server-cpulist",
    "server_cpulist",
    "bio-cpulist",
    "bio_cpulist",
    "bgsave-cpulist",
    "bgsave_cpulist",
    "aof-rewrite-cpulist",
    "aof_rewrite_cpulist",
];
/// Two words of a directive that mean the same: Redis returns the first one.
const SYNONYMS: [(&str, &str, &str); 1] = [("oom-score-adj", "yes", "relative")];
/// The directive with a limit for each class of clients.
const BUFFERS: &str = "client-output-buffer-limit";

/// Reports whether an answer of Redis is the wanted value.
pub fn is_same(name: &str, wanted: &str, answer: &str) -> bool {
    if wanted == answer {
        return true;
    }
    if TEXTS.contains(&name) {
        return false;
    }
    if name == KEYSPACE_EVENTS.0 {
        return flags(wanted) == flags(answer);
    }
    if name == BUFFERS {
        return buffers(wanted).is_some_and(|wanted| {
            let has = buffers(answer).unwrap_or_default();
            wanted.iter().all(|(class, limit)| has.get(class) == Some(limit))
        });
    }
    let words = |text: &str| text.split_whitespace().map(str::to_ascii_lowercase).collect::<Vec<String>>();
    let (wanted, answer) = (words(wanted), words(answer));
    if SETS_OF_NAMES.contains(&name) {
        return wanted.iter().collect::<BTreeSet<_>>() == answer.iter().collect::<BTreeSet<_>>();
    }
    let is_word = |(one, other): (&String, &String)| {
        one == other
            || (NUMBERS.contains(&name) && numbers_agree(one, other))
            || amount(one).is_some_and(|one| amount(other) == Some(one))
            || SYNONYMS.iter().any(|(of, first, second)| *of == name && one == second && other == first)
    };
    wanted.len() == answer.len() && wanted.iter().zip(&answer).all(is_word)
}

/// Redis prints a fraction with more digits than it was given.
fn numbers_agree(one: &str, other: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    number(one).zip(number(other)).is_some_and(|(one, other)| (one - other).abs() <= one.abs() * 1e-9)
}

fn flags(text: &str) -> BTreeSet<char> {
    text.replace('A', KEYSPACE_EVENTS.1).chars().collect()
}

/// The limits of each class of clients: hard and soft in bytes, and seconds.
fn buffers(text: &str) -> Option<BTreeMap<String, (u64, u64, u64)>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let of = |four: &[&str]| {
        let [class, hard, soft, seconds] = four else { return None };
        let class = class.to_ascii_lowercase().replace("slave", "replica");
        Some((class, (amount(hard)?, amount(soft)?, seconds.parse().ok()?)))
    };
    words.chunks(4).map(of).collect()
}

/// The number of bytes that a memory value such as `1gb` means; `None` if it is no such value.
/// <https://redis.io/docs/latest/operate/oss_and_stack/management/config-file/>
pub fn amount(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let factor = match &text[end..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    text[..end].parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "normal 0 0 0 slave 4194304 4194304 0 pubsub 33554432 8388608 60";

    #[test]
    fn the_same_value_in_other_words_is_no_drift() {
        for (name, wanted, answer) in [
            ("client-output-buffer-limit", "replica 4mb 4mb 0", ANSWER),
            ("client-output-buffer-limit", "Slave 4194304 4096kb 0", ANSWER),
            ("client-output-buffer-limit", "pubsub 32mb 8mb 60 normal 0 0 0", ANSWER),
            ("save", "3600  1 300 100", "3600 1 300 100"),
            ("latency-tracking-info-percentiles", "50 99.9", "50 99.900000000000006"),
            ("latency-tracking-info-percentiles", "50.0 99", "50 99"),
            ("oom-score-adj", "relative", "yes"),
            ("oom-score-adj-values", "0  200 800", "0 200 800"),
            ("shutdown-on-sigterm", "now nosave", "nosave now"),
            ("notify-keyspace-events", "KEA", "AKE"),
            ("notify-keyspace-events", "g$lshzxetdKE", "AKE"),
            ("maxmemory", "1GB", "1073741824"),
            ("maxmemory-clients", "5%", "5%"),
            ("maxmemory-clients", "100mb", "104857600"),
            ("proto-max-bulk-len", "512mb", "536870912"),
            ("maxmemory-policy", "AllKeys-LRU", "allkeys-lru"),
            ("activedefrag", "YES", "yes"),
            ("list-max-listpack-size", "-2", "-2"),
            ("loglevel", "Notice", "notice"),
        ] {
            assert!(is_same(name, wanted, answer), "{name}: {wanted} is {answer}");
        }
    }

    #[test]
    fn another_value_is_drift() {
        for (name, wanted, answer) in [
            ("client-output-buffer-limit", "replica 4mb 4mb 1", ANSWER),
            ("client-output-buffer-limit", "replica 5mb 4mb 0", ANSWER),
            ("client-output-buffer-limit", "replica", ANSWER),
            ("save", "3600 1", "3600 1 300 100"),
            ("save", "", "3600 1"),
            ("latency-tracking-info-percentiles", "50 99", "50 99.9"),
            ("oom-score-adj", "absolute", "yes"),
            ("notify-keyspace-events", "KE", "AKE"),
            ("shutdown-on-sigterm", "now", "default"),
            ("maxmemory", "1gb", "1000000000"),
            ("proc-title-template", "{title} X", "{title} x"),
            ("server-cpulist", "0-7:2", "0-7"),
        ] {
            assert!(!is_same(name, wanted, answer), "{name}: {wanted} is not {answer}");
        }
    }
}
