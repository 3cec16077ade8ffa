//! Which features of a Redis come back.

use causeway_api::databaserestore::RestorePhase;
use serde_json::json;

use super::{FAILED, documented, together};
use crate::backup::disaster::restored;
use crate::backup::stage::{NAME, Stage, redis_connection};
use crate::support::Operator;

/// Something that a Redis may hold: the commands that make it, and one whose answer differs when it exists.
struct Feature {
    name: &'static str,
    make: &'static [&'static [&'static str]],
    question: &'static [&'static str],
}

const fn feature(
    name: &'static str,
    make: &'static [&'static [&'static str]],
    question: &'static [&'static str],
) -> Feature {
    Feature { name, make, question }
}

const FEATURES: &[Feature] = &[
    feature("strings, also binary ones", &[&["SETRANGE", "string", "300", "\u{0}\u{1}é"]], &["GET", "string"]),
    feature("lists", &[&["RPUSH", "list", "a", "b", "", "a"]], &["LRANGE", "list", "0", "-1"]),
    feature("sets", &[&["SADD", "set", "1", "2", "three"]], &["SORT", "set", "ALPHA"]),
    feature("hashes", &[&["HSET", "hash", "one", "1", "two", ""]], &["HMGET", "hash", "one", "two", "three"]),
    feature(
        "sorted sets",
        &[&["ZADD", "sorted", "0.1", "a", "-inf", "b", "3e100", "c"]],
        &["ZRANGE", "sorted", "0", "-1", "WITHSCORES"],
    ),
    feature("bitmaps", &[&["SETBIT", "bits", "7001", "1"]], &["BITPOS", "bits", "1"]),
    feature(
        "HyperLogLogs",
        &[&["EVAL", "for i = 1, 5000 do redis.call('PFADD', 'log', i) end", "0"]],
        &["PFCOUNT", "log"],
    ),
    feature(
        "places (`GEOADD`)",
        &[&["GEOADD", "places", "7.44", "46.95", "Bern", "8.54", "47.37", "Zürich"]],
        &["GEODIST", "places", "Bern", "Zürich"],
    ),
    feature(
        "streams with the IDs that they gave last",
        &[
            &["XADD", "stream", "1-1", "field", "value"],
            &["XADD", "stream", "2-1", "field", "other"],
            &["XADD", "stream", "3-1", "field", "deleted"],
            &["XDEL", "stream", "3-1"],
        ],
        &[
            "EVAL",
            "local all = redis.call('XINFO', 'STREAM', 'stream', 'FULL') \
             return {redis.call('XRANGE', 'stream', '-', '+'), all[8], all[10], all[12]}",
            "0",
        ],
    ),
    feature(
        "consumer groups of streams with what they have to acknowledge",
        &[
            &["XGROUP", "CREATE", "stream", "group", "0"],
            &["XREADGROUP", "GROUP", "group", "someone", "COUNT", "1", "STREAMS", "stream", ">"],
        ],
        &["EVAL", "return {redis.call('XINFO', 'GROUPS', 'stream'), redis.call('XPENDING', 'stream', 'group')}", "0"],
    ),
    feature(
        "expiry of keys, to the millisecond",
        &[&["SET", "ends", "value", "PXAT", "4102444800123"]],
        &["PEXPIRETIME", "ends"],
    ),
    feature(
        "all numbered databases",
        &[&["EVAL", "redis.call('SELECT', 7) redis.call('SET', 'elsewhere', 'value')", "0"]],
        &["EVAL", "redis.call('SELECT', 7) return redis.call('GET', 'elsewhere')", "0"],
    ),
    feature(
        "functions",
        &[&["FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('hello', function() return 1 end)"]],
        &["FUNCTION", "LIST", "WITHCODE"],
    ),
    feature("scripts (`SCRIPT LOAD`)", &[&["SCRIPT", "LOAD", "return 7"]], &["SCRIPT", "EXISTS", RETURN_SEVEN]),
    feature(
        "users (`ACL SETUSER`)",
        &[&["ACL", "SETUSER", "app", "on", ">of the app", "~*", "+get"]],
        &["ACL", "LIST"],
    ),
    feature(
        "settings (`CONFIG SET`)",
        &[&["CONFIG", "SET", "slowlog-max-len", "77"]],
        &["CONFIG", "GET", "slowlog-max-len"],
    ),
];

/// The name of the script `return 7`.
const RETURN_SEVEN: &str = "59b6ab2fbe0ee4b25733de0f62e6cda4899ef8e9";

async fn answer(address: &str, words: &[&str]) -> String {
    let mut connection = redis_connection(address).await;
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    match command.query_async::<redis::Value>(&mut connection).await {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{FAILED} {error}"),
    }
}

async fn look(address: &str) -> Vec<String> {
    let mut answers = Vec::new();
    for feature in FEATURES {
        answers.push(answer(address, feature.question).await);
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_features_of_redis_match_the_documentation() {
    let stage = Stage::new("fidelity-redis").await;
    let _operator = Operator::start(&stage).await;
    let (from, to) = futures::join!(stage.redis("cache"), stage.redis("other"));
    let bare = look(&from).await;
    for feature in FEATURES {
        for words in feature.make {
            let answer = answer(&from, words).await;
            assert!(!answer.starts_with(FAILED), "{words:?}: {answer}");
        }
    }
    let made = look(&from).await;
    stage.backed_up(json!({ "redis": { "name": "cache" } })).await;

    let target = json!({ "redis": { "name": "other" } });
    let (phase, reason, message) = restored(&stage, "back", json!({ "backup": NAME }), target).await;
    assert_eq!(phase, RestorePhase::Succeeded, "{reason}: {message}");
    let back = look(&to).await;
    documented("Redis", &together(FEATURES.iter().map(|it| it.name), [bare, made, back]));
}
