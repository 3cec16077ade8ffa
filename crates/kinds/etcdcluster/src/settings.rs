//! etcd's settings, as environment variables: those by which Causeway runs the members, and those that the user adds.
//! Pure. <https://etcd.io/docs/v3.5/op-guide/configuration/>

use std::collections::BTreeMap;

use kube::ResourceExt;

use causeway_api::EtcdCluster;

use super::names::{self, CLIENT_PORT, METRICS_PORT, PEER_PORT, PEER_TLS_PORT};
use super::tls::{Mode, Side, Transport, member_name};

/// Where the volume is.
pub const VOLUME_PATH: &str = "/var/lib/etcd";
/// The list of members that a member without data starts with.
pub const INITIAL_CLUSTER: &str = "ETCD_INITIAL_CLUSTER";
/// The name of a cluster that begins. A member with data does not read it, nor does one that joins.
/// <https://github.com/etcd-io/etcd/blob/v3.5.21/server/etcdserver/bootstrap.go>
const TOKEN: &str = "ETCD_INITIAL_CLUSTER_TOKEN";
/// The variable that says whether a member without data begins a cluster or joins one.
pub const INITIAL_STATE: &str = "ETCD_INITIAL_CLUSTER_STATE";
/// Scheme of the peer URL that a member without data advertises. The URL must be the one in the list of members.
pub const ADVERTISED_SCHEME: &str = "PEER_SCHEME";
/// Port of that URL.
pub const ADVERTISED_PORT: &str = "PEER_PORT";
/// The settings that only members without data read.
pub const AT_FIRST_START: [&str; 4] = [INITIAL_CLUSTER, INITIAL_STATE, ADVERTISED_SCHEME, ADVERTISED_PORT];

/// The oldest 3.5 release from which members may go up to 3.6, and to which they may go back: minor and patch version.
/// <https://etcd.io/blog/2025/zombie_members_upgrade/>
pub const OLDEST_SAFE: (u8, u16) = (5, 26);

/// How a member without data may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// It may begin a cluster rather than join one.
    pub begins: bool,
    /// Name and peer URL of each member. A member without data that does not find its own name here refuses to start.
    pub members: Vec<(String, String)>,
}

impl Start {
    /// The list of members as etcd reads it.
    fn list(&self) -> String {
        self.members.iter().map(|(name, url)| format!("{name}={url}")).collect::<Vec<_>>().join(",")
    }

    /// Reads the start from the settings of a `ConfigMap`.
    pub fn from_settings(settings: &BTreeMap<String, String>) -> Option<Self> {
        let pair = |entry: &str| entry.split_once('=').map(|(name, url)| (name.to_owned(), url.to_owned()));
        let members = settings.get(INITIAL_CLUSTER)?.split(',').filter_map(pair).collect();
        Some(Self { begins: settings.get(INITIAL_STATE)? == "new", members })
    }

    /// Reports whether members that have never started are reached by TLS.
    fn by_tls(&self, object: &EtcdCluster) -> bool {
        let new = self.members.iter().find(|(name, _)| names::ordinal_of(object, name).is_some());
        new.or(self.members.first()).is_some_and(|(_, url)| names::is_https(url))
    }
}

/// All settings that the members share. Their names and addresses, which differ, are in the pods.
pub fn settings(object: &EtcdCluster, start: &Start, transport: &Transport) -> BTreeMap<String, String> {
    let mut settings = lasting(object);
    settings.extend(listening(object, transport));
    settings.insert(INITIAL_CLUSTER.into(), start.list());
    settings.insert(INITIAL_STATE.into(), if start.begins { "new" } else { "existing" }.into());
    let (scheme, port) = if start.by_tls(object) { ("https", PEER_TLS_PORT) } else { ("http", PEER_PORT) };
    settings.insert(ADVERTISED_SCHEME.into(), scheme.into());
    settings.insert(ADVERTISED_PORT.into(), port.to_string());
    settings
}

/// The settings that running members depend on: when they change, the pods are replaced one by one.
pub fn lasting(object: &EtcdCluster) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> = BTreeMap::from(
        [
            // Old revisions would fill the quota; users who need them for longer set that in spec.config.
            ("ETCD_AUTO_COMPACTION_MODE", "periodic".to_owned()),
            ("ETCD_AUTO_COMPACTION_RETENTION", "1h".to_owned()),
            // Finds members whose data differ, at little cost.
            ("ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK", "true".to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    settings.extend(object.spec.config.iter().map(|(flag, value)| (variable(flag), value.clone())));
    let ours = [
        ("ETCD_DATA_DIR", format!("{VOLUME_PATH}/data")),
        ("ETCD_LISTEN_METRICS_URLS", format!("http://0.0.0.0:{METRICS_PORT}")),
        // Another object of the same name makes another cluster: members of the two refuse each other.
        (TOKEN, object.uid().unwrap_or_default()),
        ("ETCD_STRICT_RECONFIG_CHECK", "true".to_owned()),
    ];
    settings.extend(ours.map(|(key, value)| (key.to_owned(), value)));
    settings
}

/// The same settings with each duration in one form: another way to write the same duration replaces no pod. The object's
/// uid is left out: an object that is created again replaces no pods that its predecessor left.
pub fn lasting_by_value(object: &EtcdCluster) -> BTreeMap<String, String> {
    let mut settings = lasting(object);
    settings.remove(TOKEN);
    let is_time = |kind: &Value| matches!(kind, Value::Time | Value::WholeOrTime);
    for (flag, ..) in FLAGS.iter().filter(|(_, kind, ..)| is_time(kind)) {
        if let Some(value) = settings.get_mut(&variable(flag))
            && let Some(nanos) = nanoseconds(value)
        {
            *value = in_words(nanos);
        }
    }
    settings
}

/// A duration in the largest unit of which it is a whole number.
fn in_words(nanos: u128) -> String {
    let unit = UNITS.iter().rev().find(|(_, unit)| nanos != 0 && nanos.is_multiple_of(*unit));
    unit.map_or_else(|| "0".to_owned(), |(name, unit)| format!("{}{name}", nanos / unit))
}

/// Where members listen, and with which certificates. The pods have these values in themselves: their transport changes
/// when they are replaced, and not when a container restarts.
/// <https://etcd.io/docs/v3.5/op-guide/security/>
pub fn listening(object: &EtcdCluster, transport: &Transport) -> BTreeMap<String, String> {
    let urls = |mode: Mode, plain: u16, tls: u16| {
        let both = [("http", plain), ("https", tls)].into_iter().filter(|(scheme, _)| mode.serves(scheme));
        both.map(|(scheme, port)| format!("{scheme}://0.0.0.0:{port}")).collect::<Vec<_>>().join(",")
    };
    let (peer, client) = (transport.peer.mode, transport.client.mode);
    let mut settings = vec![
        ("ETCD_LISTEN_PEER_URLS", urls(peer, PEER_PORT, PEER_TLS_PORT)),
        ("ETCD_LISTEN_CLIENT_URLS", urls(client, CLIENT_PORT, CLIENT_PORT)),
    ];
    let file = |side: Side, name: &str| format!("{}/{name}", side.files());
    if peer.has_files() {
        settings.extend([
            ("ETCD_PEER_CERT_FILE", file(Side::Peer, "tls.crt")),
            ("ETCD_PEER_KEY_FILE", file(Side::Peer, "tls.key")),
            ("ETCD_PEER_TRUSTED_CA_FILE", file(Side::Peer, "ca.crt")),
            ("ETCD_PEER_CLIENT_CERT_AUTH", "true".into()),
            // A certificate of another cluster may come from the same authority.
            ("ETCD_PEER_CERT_ALLOWED_HOSTNAME", member_name(object)),
            // Looking up a peer's address would make every connection depend on DNS.
            ("ETCD_EXPERIMENTAL_PEER_SKIP_CLIENT_SAN_VERIFICATION", "true".into()),
        ]);
    }
    if client.has_files() {
        settings.extend([
            ("ETCD_CERT_FILE", file(Side::Client, "tls.crt")),
            ("ETCD_KEY_FILE", file(Side::Client, "tls.key")),
        ]);
        // This file alone already makes etcd ask clients for certificates.
        let asked = object.spec.tls.as_ref().and_then(|tls| tls.client.as_ref());
        if asked.is_some_and(|client| client.verify_clients) {
            settings.extend([
                ("ETCD_TRUSTED_CA_FILE", file(Side::Client, "ca.crt")),
                ("ETCD_CLIENT_CERT_AUTH", "true".into()),
            ]);
        }
    }
    settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The variable of a flag.
fn variable(flag: &str) -> String {
    format!("ETCD_{}", flag.to_uppercase().replace('-', "_"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Whole,
    /// A whole number of at most this: etcd reads the flag into a narrower type, and does not start with more.
    /// <https://github.com/etcd-io/etcd/blob/v3.5.21/server/embed/config.go>
    WholeUpTo(u64),
    Switch,
    Time,
    WholeOrTime,
    Text,
    OneOf(&'static [&'static str]),
}

impl Value {
    fn admits(self, text: &str) -> bool {
        match self {
            Self::Whole => text.parse::<u64>().is_ok(),
            Self::WholeUpTo(most) => text.parse::<u64>().is_ok_and(|number| number <= most),
            Self::Switch => matches!(text, "true" | "false"),
            Self::Time => is_duration(text),
            Self::WholeOrTime => text.parse::<u64>().is_ok() || is_duration(text),
            Self::Text => !text.chars().any(char::is_control),
            Self::OneOf(words) => words.contains(&text),
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Whole => "a whole number".into(),
            Self::WholeUpTo(most) => format!("a whole number of at most {most}"),
            Self::Switch => "true or false".into(),
            Self::Time => "a duration such as 500ms, 30s or 1h".into(),
            Self::WholeOrTime => "a whole number, or a duration such as 30s or 1h".into(),
            Self::Text => "text in one line".into(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
        }
    }
}

/// A whole number that etcd reads as `int64`, or as `int`.
const INT64: Value = Value::WholeUpTo(i64::MAX as u64);

/// Flags that a user may set, with the first minor version that knows them, and the first one after the last.
const FLAGS: &[(&str, Value, u8, u8)] = &[
    ("auth-token-ttl", Value::Whole, 5, 7),
    ("auto-compaction-mode", Value::OneOf(&["periodic", "revision"]), 5, 7),
    ("auto-compaction-retention", Value::WholeOrTime, 5, 7),
    ("backend-batch-interval", Value::Time, 5, 7),
    ("backend-batch-limit", INT64, 5, 7),
    ("backend-bbolt-freelist-type", Value::OneOf(&["array", "map"]), 5, 7),
    ("bcrypt-cost", Value::Whole, 5, 7),
    ("compact-hash-check-enabled", Value::Switch, 6, 7),
    ("compact-hash-check-time", Value::Time, 6, 7),
    ("compaction-batch-limit", INT64, 6, 7),
    ("compaction-sleep-interval", Value::Time, 6, 7),
    ("corrupt-check-time", Value::Time, 6, 7),
    ("cors", Value::Text, 5, 7),
    ("downgrade-check-time", Value::Time, 6, 7),
    ("election-timeout", Value::Whole, 5, 7),
    ("enable-pprof", Value::Switch, 5, 7),
    ("experimental-compact-hash-check-enabled", Value::Switch, 5, 7),
    ("experimental-compact-hash-check-time", Value::Time, 5, 7),
    ("experimental-compaction-batch-limit", INT64, 5, 7),
    ("experimental-corrupt-check-time", Value::Time, 5, 7),
    ("experimental-initial-corrupt-check", Value::Switch, 5, 7),
    ("experimental-txn-mode-write-with-shared-buffer", Value::Switch, 5, 7),
    ("experimental-warning-apply-duration", Value::Time, 5, 7),
    ("experimental-watch-progress-notify-interval", Value::Time, 5, 7),
    ("grpc-keepalive-interval", Value::Time, 5, 7),
    ("grpc-keepalive-min-time", Value::Time, 5, 7),
    ("grpc-keepalive-timeout", Value::Time, 5, 7),
    ("heartbeat-interval", Value::Whole, 5, 7),
    ("host-whitelist", Value::Text, 5, 7),
    ("log-level", Value::OneOf(&["debug", "info", "warn", "error", "panic", "fatal"]), 5, 7),
    ("max-concurrent-streams", Value::WholeUpTo(u32::MAX as u64), 5, 7),
    ("max-request-bytes", Value::Whole, 5, 7),
    ("max-snapshots", Value::Whole, 5, 7),
    ("max-txn-ops", Value::Whole, 5, 7),
    ("max-wals", Value::Whole, 5, 7),
    ("metrics", Value::OneOf(&["basic", "extensive"]), 5, 7),
    ("pre-vote", Value::Switch, 5, 7),
    ("quota-backend-bytes", INT64, 5, 7),
    ("snapshot-count", Value::Whole, 5, 7),
    ("socket-reuse-address", Value::Switch, 5, 7),
    ("socket-reuse-port", Value::Switch, 5, 7),
    ("unsafe-no-fsync", Value::OneOf(&["false"]), 5, 7),
    ("warning-apply-duration", Value::Time, 6, 7),
    ("warning-unary-request-duration", Value::Time, 6, 7),
    ("watch-progress-notify-interval", Value::Time, 6, 7),
];

/// Flags that Causeway sets itself.
const OWNED: &[&str] = &[
    "advertise-client-urls",
    "auto-tls",
    "cert-file",
    "client-cert-auth",
    "config-file",
    "data-dir",
    "force-new-cluster",
    "key-file",
    "listen-client-http-urls",
    "listen-client-urls",
    "listen-metrics-urls",
    "listen-peer-urls",
    "name",
    "strict-reconfig-check",
    "trusted-ca-file",
    "v2-deprecation",
    "wal-dir",
];

/// Describes the mistake in `spec.config`, with the field and the fix; `None` if there is none.
pub fn trouble(object: &EtcdCluster) -> Option<String> {
    let minor = minor_of(&object.spec.version)?;
    object
        .spec
        .config
        .iter()
        .find_map(|(flag, value)| flag_trouble(flag, value, minor))
        .or_else(|| timing_trouble(object))
        .or_else(|| compaction_trouble(object))
}

fn flag_trouble(flag: &str, value: &str, minor: u8) -> Option<String> {
    let owned =
        OWNED.contains(&flag) || ["initial-", "peer-", "discovery"].iter().any(|prefix| flag.starts_with(prefix));
    if owned {
        return Some(format!("spec.config.{flag} is set by Causeway, which runs the members by it: remove it"));
    }
    let Some((_, kind, first, end)) = FLAGS.iter().find(|(name, ..)| *name == flag) else {
        return Some(format!(
            "spec.config.{flag} is no flag of etcd that can be set: check its spelling, or remove it"
        ));
    };
    if minor < *first || minor >= *end {
        return Some(format!("spec.config.{flag} is not known to etcd 3.{minor}: remove it"));
    }
    let message = || format!("spec.config.{flag} must be {}", kind.describe());
    (!kind.admits(value)).then(message)
}

/// etcd refuses to start unless the election timeout is five times the heartbeat interval, and at most 50 s.
fn timing_trouble(object: &EtcdCluster) -> Option<String> {
    let of = |flag: &str, default: u64| object.spec.config.get(flag).map_or(Some(default), |text| text.parse().ok());
    let (heartbeat, election) = (of("heartbeat-interval", 100)?, of("election-timeout", 1000)?);
    (heartbeat == 0 || election < heartbeat.saturating_mul(5) || election > 50_000).then(|| {
        "spec.config.election-timeout must be at least five times spec.config.heartbeat-interval (1000 and 100 unless \
         given, in milliseconds) and at most 50000"
            .into()
    })
}

/// With mode `revision`, the retention is a number of revisions. etcd reads a duration there as its number of nanoseconds,
/// and so never compacts: <https://github.com/etcd-io/etcd/blob/v3.5.9/server/embed/etcd.go> (`parseCompactionRetention`).
/// Causeway's own retention is a duration, for the default mode.
fn compaction_trouble(object: &EtcdCluster) -> Option<String> {
    let config = &object.spec.config;
    let by_revision = config.get("auto-compaction-mode").is_some_and(|mode| mode == "revision");
    let is_number = config.get("auto-compaction-retention").is_some_and(|text| Value::Whole.admits(text));
    (by_revision && !is_number).then(|| {
        "spec.config.auto-compaction-retention must be a number of revisions, such as 10000, with auto-compaction-mode: \
         revision"
            .into()
    })
}

/// The minor version: 5 of 3.5.9.
pub fn minor_of(version: &str) -> Option<u8> {
    version.split('.').nth(1)?.parse().ok()
}

/// Minor version and release of a version of etcd 3.
pub fn parse(version: &str) -> Option<(u8, u16)> {
    let (minor, patch) = version.strip_prefix("3.")?.split_once('.')?;
    Some((minor.parse().ok()?, patch.parse().ok()?))
}

/// Units of durations, in nanoseconds. <https://pkg.go.dev/time#ParseDuration>
const UNITS: [(&str, u128); 6] =
    [("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000), ("h", 3_600_000_000_000)];

/// Reports whether Go reads the text as a duration: numbers with units, one after the other.
fn is_duration(text: &str) -> bool {
    nanoseconds(text).is_some()
}

/// The length of a duration as Go reads it; `None` for other text.
fn nanoseconds(text: &str) -> Option<u128> {
    if text == "0" {
        return Some(0);
    }
    let (mut rest, mut all) = (text, None);
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        // `ms` before `m` and `s`.
        let (name, unit) = UNITS.iter().find(|(name, _)| behind.starts_with(name))?;
        all = Some(all.unwrap_or(0_u128).checked_add(times(number, *unit)?)?);
        rest = &behind[name.len()..];
    }
    all
}

/// A decimal number times a unit, rounded down.
fn times(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let fraction: String = fraction.chars().take(18).collect();
    let part = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u128>().ok() };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    part(whole)?.checked_mul(unit)?.checked_add(part(&fraction)?.checked_mul(unit)? / scale)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::cluster;
    use super::*;

    fn trouble_with(flag: &str, value: &str) -> String {
        let mut object = cluster(3);
        object.spec.config.insert(flag.into(), value.into());
        trouble(&object).unwrap_or_default()
    }

    #[test]
    fn flags_are_checked_by_name_and_value() {
        for (flag, value, words) in [
            ("quota-backend-bytes", "8589934592", ""),
            ("quota-backend-bytes", "8Gi", "must be a whole number"),
            ("quota-backend-bytes", "-1", "must be a whole number"),
            ("quota-backend-bytes", "9223372036854775807", ""),
            ("quota-backend-bytes", "9223372036854775808", "at most 9223372036854775807"),
            ("backend-batch-limit", "9223372036854775808", "at most 9223372036854775807"),
            ("max-concurrent-streams", "4294967295", ""),
            ("max-concurrent-streams", "4294967296", "at most 4294967295"),
            ("log-level", "loud", "one of debug, info"),
            ("grpc-keepalive-interval", "1h30m", ""),
            ("grpc-keepalive-interval", "2 hours", "a duration such as"),
            ("pre-vote", "yes", "true or false"),
            ("host-whitelist", "a\nETCD_NAME=b", "text in one line"),
            ("initial-cluster", "a=b", "set by Causeway"),
            ("peer-auto-tls", "true", "set by Causeway"),
            ("quota-backend-byte", "1", "check its spelling"),
            ("compaction-batch-limit", "10", "not known to etcd 3.5"),
            ("election-timeout", "200", "at least five times"),
            ("election-timeout", "60000", "at most 50000"),
        ] {
            let api_message = trouble_with(flag, value);
            assert_eq!(api_message.is_empty(), words.is_empty(), "{flag}={value}: {api_message}");
            assert!(
                api_message.contains(words) && (words.is_empty() || api_message.contains("spec.config.")),
                "{flag}={value}: {api_message}"
            );
        }
    }

    #[test]
    fn durations_are_compared_by_their_length() {
        let kept = |text: &str| {
            let mut object = cluster(3);
            object.spec.config.insert("auto-compaction-retention".into(), text.into());
            lasting_by_value(&object)["ETCD_AUTO_COMPACTION_RETENTION"].clone()
        };
        for (given, expected) in [
            ("1h", "1h"),
            ("60m", "1h"),
            ("3600s", "1h"),
            ("90m", "90m"),
            ("1h30m", "90m"),
            ("1.5h", "90m"),
            ("500ms", "500ms"),
        ] {
            assert_eq!(kept(given), expected, "{given}");
        }
        assert_eq!(kept("1000"), "1000", "a number of hours or revisions stays as it is");
    }

    #[test]
    fn compaction_by_revision_needs_a_number() {
        let trouble_with = |mode: Option<&str>, retention: Option<&str>| {
            let mut object = cluster(3);
            let given = [("auto-compaction-mode", mode), ("auto-compaction-retention", retention)];
            object.spec.config =
                given.iter().filter_map(|(flag, text)| Some(((*flag).into(), (*text)?.into()))).collect();
            trouble(&object)
        };
        for retention in [None, Some("30m"), Some("1h")] {
            let message = trouble_with(Some("revision"), retention).unwrap_or_default();
            let words = ["spec.config.auto-compaction-retention must be a number of revisions", "such as 10000"];
            assert!(words.iter().all(|word| message.contains(word)), "{retention:?}: {message}");
        }
        assert_eq!(trouble_with(Some("revision"), Some("1000")), None);
        for mode in [None, Some("periodic")] {
            assert_eq!((trouble_with(mode, Some("5m")), trouble_with(mode, None)), (None, None), "{mode:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let object = cluster(3);
        let start = Start {
            begins: true,
            members: vec![("a".into(), "http://a:2380".into()), ("b".into(), "http://b:2380".into())],
        };
        assert_eq!(Start::from_settings(&settings(&object, &start, &Transport::default())), Some(start));
    }

    #[test]
    fn members_listen_as_their_transport_says() {
        let object = cluster(3);
        let channel = |mode| crate::tls::Channel { mode, trust: None };
        for (mode, peer, client) in [
            (Mode::Plain, "http://0.0.0.0:2380", "http://0.0.0.0:2379"),
            (Mode::Both, "http://0.0.0.0:2380,https://0.0.0.0:2382", "http://0.0.0.0:2379,https://0.0.0.0:2379"),
            (Mode::Secure, "https://0.0.0.0:2382", "https://0.0.0.0:2379"),
        ] {
            let settings = listening(&object, &Transport { peer: channel(mode), client: channel(mode) });
            assert_eq!([&settings["ETCD_LISTEN_PEER_URLS"], &settings["ETCD_LISTEN_CLIENT_URLS"]], [peer, client]);
            assert_eq!(settings.contains_key("ETCD_PEER_CERT_FILE"), mode != Mode::Plain);
            assert!(!settings.contains_key("ETCD_TRUSTED_CA_FILE"), "clients are not asked for certificates");
        }
    }

    #[test]
    fn no_flag_of_a_user_changes_ours() {
        let mut object = cluster(3);
        object.spec.config.insert("data-dir".into(), "/tmp".into());
        assert_eq!(lasting(&object)["ETCD_DATA_DIR"], "/var/lib/etcd/data");
    }
}
