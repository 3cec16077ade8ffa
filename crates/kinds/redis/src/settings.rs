//! The settings of Redis: those that nodes get, and which of them a user may set. Pure.
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/config-file/>

use std::collections::BTreeMap;

use causeway_api::Redis;
use causeway_api::redis::ClientCertificates;
use causeway_databases::tls::write::by_content;

use super::{exporter_user, memory};

/// Where the volume is.
pub const VOLUME_PATH: &str = "/data";
/// Where the settings are.
pub const SETTINGS_PATH: &str = "/etc/redis";
/// The address that a process follows while it has no master: no master is there.
pub const NO_MASTER: &str = "127.0.0.1";
/// Where the users are, when clients must log in.
pub const USERS_PATH: &str = "/etc/redis-users";
/// The file of the users.
pub const USERS_FILE: &str = "users.conf";
/// Where an exporter's password is, when clients must log in.
pub const EXPORTER_PATH: &str = "/etc/redis-exporter";
/// The file of the exporter's passwords, by URLs that it sends them to.
pub const EXPORTER_FILE: &str = "exporter.json";
/// Where the password of the sentinel container is, when clients must log in.
pub const SENTINEL_PATH: &str = "/etc/redis-sentinel";
/// The file of that password.
pub const SENTINEL_FILE: &str = "sentinel";
/// Where the certificates are.
pub const TLS_PATH: &str = "/etc/redis-tls";
/// The file of the settings.
pub const FILE: &str = "redis.conf";
/// With this many replicas or more, one must follow closely, or the master refuses writes.
const REPLICAS_FOR_A_MINIMUM: i32 = 3;

/// The directive with the number of databases.
pub const DATABASES: &str = "databases";
/// The number of databases unless `spec.config` says otherwise. <https://github.com/redis/redis/blob/7.0/redis.conf>
const USUAL_DATABASES: u32 = 16;
/// The highest value of `databases`: nodes are asked for their state every second, and each database with keys is a
/// line of the answer.
const MOST_DATABASES: u32 = 1024;

/// Directives that no process can change while it runs: a change of one replaces the pods. Among them is every
/// directive with `IMMUTABLE_CONFIG` in Redis 7.0 to 7.4 and in Valkey 8.0 that the operator does not set itself. Redis
/// 7.0 and 7.2 spell lists of processors with underscores; later versions know both spellings.
/// <https://github.com/redis/redis/blob/7.0.15/src/config.c>,
/// <https://github.com/valkey-io/valkey/blob/8.0.1/src/config.c>
const LASTING: &[&str] = &[
    "always-show-logo",
    "aof-rewrite-cpulist",
    "aof_rewrite_cpulist",
    "bgsave-cpulist",
    "bgsave_cpulist",
    "bio-cpulist",
    "bio_cpulist",
    "databases",
    "debug-assert-enabled",
    "disable-thp",
    "enable-debug-assert",
    "enable-debug-command",
    "enable-module-command",
    "enable-protected-configs",
    "io-threads",
    "io-threads-do-reads",
    "rdbchecksum",
    "server-cpulist",
    "server_cpulist",
    "set-proc-title",
    "socket-mark-id",
    "syslog-enabled",
    "syslog-facility",
    "syslog-ident",
    "tcp-backlog",
    "unixsocketgroup",
];

/// Directives whose value is several words.
const SEVERAL_WORDS: &[&str] = &["save", "replicaof", "client-output-buffer-limit", "oom-score-adj-values"];

/// Directives that the operator sets.
const OWNED: &[&str] = &[
    "aclfile",
    "acl-pubsub-default",
    "appenddirname",
    "appendfilename",
    "appendonly",
    "bind",
    "bind-source-addr",
    "daemonize",
    "dbfilename",
    "dir",
    "include",
    "logfile",
    "masterauth",
    "masteruser",
    "min-replicas-max-lag",
    "min-replicas-to-write",
    "pidfile",
    "port",
    "protected-mode",
    "rename-command",
    "repl-diskless-load",
    "repl-ping-replica-period",
    "repl-ping-slave-period",
    "replica-announce-ip",
    "replica-announce-port",
    "replica-announced",
    "replica-ignore-maxmemory",
    "replica-priority",
    "replica-read-only",
    "replica-serve-stale-data",
    "replicaof",
    "requirepass",
    "supervised",
    "unixsocket",
    "unixsocketperm",
    "user",
];

/// Directives that every process has by default, and the operator and replicas rely on: where it listens, and where it says that it
/// does. It is in no file, and is set again where it was changed by hand.
/// <https://github.com/redis/redis/blob/7.0/src/config.h> (`CONFIG_DEFAULT_BINDADDR`)
const BY_ITSELF: [(&str, &str); 3] = [("bind", "* -::*"), ("replica-announce-ip", ""), ("replica-announce-port", "0")];

/// Prefixes of directives that the operator sets, or that make no sense here.
const OWNED_PREFIXES: &[&str] = &["cluster-", "sentinel", "tls-", "slave", "min-slaves"];

/// Every setting, in the order in which a file has them.
pub fn settings(object: &Redis) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> = BTreeMap::from(
        [
            ("appendfsync", "everysec"),
            // The append-only file holds everything; snapshots in addition are made only if the user sets this.
            ("save", ""),
            ("repl-diskless-sync-delay", "0"),
            // Redis's own default. It is written down so that the operator restores it if a user changes it in a
            // running process.
            ("maxmemory-policy", "noeviction"),
            // Otherwise a replica that fetches all data again would answer no client while it empties itself, and count
            // as hung.
            ("replica-lazy-flush", "yes"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    settings.insert("repl-backlog-size".to_owned(), memory::backlog(object));
    settings.insert("maxmemory".to_owned(), memory::most_data(object).to_string());
    settings.extend(object.spec.config.clone());
    let minimum = minimum(object);
    settings.extend(transport(object).map(|(name, value)| (name.to_owned(), value)));
    settings.extend(
        [
            ("dir", VOLUME_PATH.to_owned()),
            ("appendonly", "yes".to_owned()),
            ("protected-mode", "no".to_owned()),
            // Every process starts as a replica without a master: one that comes back empty must not be taken for a
            // master, by clients or by its replicas. The operator makes one the master afterwards.
            ("replicaof", format!("{NO_MASTER} 1")),
            ("replica-read-only", "yes".to_owned()),
            ("replica-serve-stale-data", "yes".to_owned()),
            // A replica notices within seconds that its master is silent.
            ("repl-ping-replica-period", "1".to_owned()),
            ("repl-diskless-load", "disabled".to_owned()),
            ("min-replicas-to-write", minimum.to_string()),
            ("min-replicas-max-lag", object.spec.failover.max_lag.seconds().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    settings
}

/// Returns the number of databases that the spec asks for.
pub fn databases(object: &Redis) -> u32 {
    object.spec.config.get(DATABASES).and_then(|text| text.parse().ok()).unwrap_or(USUAL_DATABASES)
}

/// Returns the number of databases of a process with that file.
pub fn databases_in(file: &str) -> u32 {
    let value = |line: &str| line.strip_prefix(DATABASES)?.strip_prefix(' ')?.trim().parse().ok();
    file.lines().find_map(value).unwrap_or(USUAL_DATABASES)
}

/// Where a node listens, and whether it speaks TLS there.
/// <https://redis.io/docs/latest/operate/oss_and_stack/management/security/encryption/>
fn transport(object: &Redis) -> impl Iterator<Item = (&'static str, String)> {
    let port = super::names::PORT.to_string();
    let Some(tls) = &object.spec.tls else { return vec![("port", port)].into_iter() };
    let asked = match tls.client_certificates {
        ClientCertificates::Off => "no",
        ClientCertificates::Optional => "optional",
        ClientCertificates::Required => "yes",
    };
    let mut settings = vec![
        ("port", "0".to_owned()),
        ("tls-port", port),
        ("tls-replication", "yes".to_owned()),
        ("tls-auth-clients", asked.to_owned()),
    ];
    settings.extend(FILES.map(|(name, file)| (name, format!("{TLS_PATH}/{file}"))));
    settings.into_iter()
}

/// The files of certificates, by the settings that name them.
const FILES: [(&str, &str); 3] =
    [("tls-cert-file", "tls.crt"), ("tls-key-file", "tls.key"), ("tls-ca-cert-file", "ca.crt")];

/// The settings by which a running process loads the certificates with exactly that content, or fails if their files
/// are not there yet.
pub fn certificates(content: &str) -> Vec<(String, String)> {
    FILES.map(|(name, file)| (name.to_owned(), format!("{TLS_PATH}/{}", by_content(content, file)))).into()
}

/// The settings that can be changed in a running process.
pub fn live(object: &Redis) -> Vec<(String, String)> {
    let by_itself = BY_ITSELF.map(|(name, value)| (name.to_owned(), value.to_owned()));
    settings(object).into_iter().filter(|(name, _)| is_live(name)).chain(by_itself).collect()
}

/// Reports whether a running process can change that directive of the file.
pub fn is_live(name: &str) -> bool {
    let fixed = ["dir", "replicaof", "tls-replication", "include", "loadmodule", "user"];
    let is_file = FILES.iter().any(|(file, _)| *file == name);
    !fixed.contains(&name) && !is_file && !LASTING.contains(&name)
}

/// The same for a process whose container has that memory limit, wherever that comes from: what the process has counts.
pub fn live_of(object: &Redis, limit: Option<u64>) -> Vec<(String, String)> {
    let bound = memory::most_data_under(object, limit).map(|most| most.to_string());
    let mut settings = live(object);
    if let (Some(bound), Some((_, value))) = (bound, settings.iter_mut().find(|(name, _)| name == "maxmemory")) {
        *value = bound;
    }
    settings
}

/// The settings that take effect only when a process starts: when they change, the pods are replaced one by one.
pub fn lasting(object: &Redis) -> BTreeMap<String, String> {
    settings(object).into_iter().filter(|(name, _)| LASTING.contains(&name.as_str())).collect()
}

/// The file as Redis reads it.
pub fn file(object: &Redis) -> String {
    let directive = |(name, value): (String, String)| {
        let value = match name.as_str() {
            "save" if value.is_empty() => "\"\"".to_owned(),
            _ if SEVERAL_WORDS.contains(&name.as_str()) => value,
            _ => quoted(&value),
        };
        format!("{name} {value}\n")
    };
    let users = if object.spec.auth.enabled {
        Some(format!("include {USERS_PATH}/{USERS_FILE}\n"))
    } else {
        object.spec.exporter.is_some().then(|| exporter_user::line("nopass"))
    };
    settings(object).into_iter().map(directive).chain(modules(object)).chain(users).collect()
}

/// Modules are loaded in the order of the file, and more than one line has that name.
/// <https://github.com/redis/redis/blob/7.0/redis.conf>
fn modules(object: &Redis) -> impl Iterator<Item = String> {
    object.spec.modules.iter().map(|module| {
        let args = module.args.iter().map(|word| quoted(word));
        let words: Vec<String> = std::iter::once(module.path.clone()).chain(args).collect();
        format!("loadmodule {}\n", words.join(" "))
    })
}

/// A value as one word of the file, quoted if necessary. <https://github.com/redis/redis/blob/7.0/redis.conf>
fn quoted(value: &str) -> String {
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/%+@".contains(&byte)) {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// How many replicas must follow closely, or the master refuses writes.
pub fn minimum(object: &Redis) -> i32 {
    let replicas = object.spec.replicas;
    let default = i32::from(replicas >= REPLICAS_FOR_A_MINIMUM);
    object.spec.failover.min_replicas_to_write.unwrap_or(default).min(replicas)
}

/// Explains what is wrong with `spec.config`, with the field and the fix; `None` if nothing is.
pub fn trouble(object: &Redis) -> Option<String> {
    object.spec.config.iter().find_map(|(name, value)| {
        if name == "loadmodule" {
            return Some("spec.config.loadmodule cannot be set: name the library in spec.modules".to_owned());
        }
        let owned = OWNED.contains(&name.as_str()) || OWNED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if owned {
            return Some(format!("spec.config.{name} is set by Causeway, which runs the nodes by it: remove it"));
        }
        if name == DATABASES && !value.parse::<u32>().is_ok_and(|count| (1..=MOST_DATABASES).contains(&count)) {
            return Some(format!("spec.config.databases must be a number from 1 to {MOST_DATABASES}"));
        }
        value.contains(|it: char| it.is_control()).then(|| format!("spec.config.{name} must be text in one line"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::redis;
    use super::*;
    use causeway_api::redis::Module;

    fn with(name: &str, value: &str) -> Redis {
        let mut object = redis(3);
        object.spec.config.insert(name.into(), value.into());
        object
    }

    #[test]
    fn directives_by_which_nodes_are_run_are_refused() {
        for (name, value, words) in [
            ("maxmemory", "1gb", ""),
            ("replicaof", "10.0.0.1 6379", "set by Causeway"),
            ("slaveof", "no one", "set by Causeway"),
            ("tls-port", "6380", "set by Causeway"),
            ("requirepass", "x", "set by Causeway"),
            ("loadmodule", "/lib/x.so", "spec.modules"),
            ("maxmemory", "1gb\nreplicaof no one", "in one line"),
            ("databases", "1024", ""),
            ("replica-ignore-maxmemory", "no", "set by Causeway"),
            ("databases", "400000", "from 1 to 1024"),
            ("databases", "0x10", "from 1 to 1024"),
        ] {
            let api_message = trouble(&with(name, value)).unwrap_or_default();
            assert_eq!(api_message.is_empty(), words.is_empty(), "{name}: {api_message}");
            assert!(api_message.contains(words), "{name}: {api_message}");
        }
    }

    #[test]
    fn immutable_directives_need_other_pods() {
        let immutable = [
            "always-show-logo",
            "aof-rewrite-cpulist",
            "aof_rewrite_cpulist",
            "bgsave-cpulist",
            "bgsave_cpulist",
            "bio-cpulist",
            "bio_cpulist",
            "databases",
            "debug-assert-enabled",
            "disable-thp",
            "enable-debug-assert",
            "enable-debug-command",
            "enable-module-command",
            "enable-protected-configs",
            "io-threads",
            "io-threads-do-reads",
            "rdbchecksum",
            "server-cpulist",
            "server_cpulist",
            "set-proc-title",
            "socket-mark-id",
            "syslog-enabled",
            "syslog-facility",
            "syslog-ident",
            "tcp-backlog",
            "unixsocketgroup",
        ];
        for name in immutable {
            let object = with(name, "1");
            assert_eq!(trouble(&object), None, "{name} can be set");
            assert!(live(&object).iter().all(|(it, _)| it != name), "{name}");
            assert!(lasting(&object).contains_key(name), "{name}");
        }
        let owned = [
            "aclfile",
            "appenddirname",
            "appendfilename",
            "cluster-config-file",
            "cluster-enabled",
            "cluster-port",
            "daemonize",
            "logfile",
            "pidfile",
            "replicaof",
            "supervised",
            "unixsocket",
            "unixsocketperm",
        ];
        assert!(owned.iter().all(|name| trouble(&with(name, "1")).is_some()), "the operator sets these");
    }

    /// By the server's own word: `tests/integration/redis/directives.rs` asks it.
    #[test]
    fn what_a_process_changes_while_it_runs_replaces_no_pod() {
        for name in ["maxclients", "activedefrag", "jemalloc-bg-thread", "lazyfree-lazy-user-del", "oom-score-adj"] {
            let object = with(name, "1");
            assert!(live(&object).iter().any(|(it, _)| it == name), "{name}");
            assert!(!lasting(&object).contains_key(name), "{name}");
        }
        for (name, value) in
            [("protected-mode", "no"), ("port", "6379"), ("bind", "* -::*"), ("replica-announce-ip", "")]
        {
            assert!(live(&redis(1)).contains(&(name.into(), value.into())), "{name} is put back");
        }
    }

    #[test]
    fn no_value_becomes_a_second_directive() {
        let text = file(&with("proc-title-template", r#"{title} "x" \ y"#));
        assert!(text.contains(r#"proc-title-template "{title} \"x\" \\ y""#), "{text}");
        assert!(file(&redis(3)).contains("save \"\"\n"));
        assert!(file(&with("save", "3600 1 300 100")).contains("save 3600 1 300 100\n"));
    }

    #[test]
    fn modules_are_loaded_in_order_with_their_arguments() {
        let mut object = redis(1);
        let module = |path: &str, args: &[&str]| Module {
            path: path.into(),
            args: args.iter().map(|it| (*it).into()).collect(),
        };
        object.spec.modules = vec![module("/lib/z.so", &[]), module("/lib/a.so", &["TIMEOUT", "5 \"s\""])];
        let text = file(&object);
        assert!(text.contains("loadmodule /lib/z.so\nloadmodule /lib/a.so TIMEOUT \"5 \\\"s\\\"\"\n"), "{text}");
        assert!(live(&object).iter().all(|(name, _)| name != "loadmodule"), "no running process can load one");
    }

    #[test]
    fn every_process_begins_as_a_replica_without_master() {
        assert!(file(&redis(0)).contains("replicaof 127.0.0.1 1\n"));
        assert!(live(&redis(3)).iter().all(|(name, _)| name != "replicaof"));
    }

    #[test]
    fn with_tls_only_the_tls_port_is_open() {
        let mut object = redis(1);
        assert!(file(&object).contains("port 6379\n") && !file(&object).contains("tls-"));
        object.spec.tls = Some(causeway_api::redis::Tls::default());
        let text = file(&object);
        for line in ["port 0\n", "tls-port 6379\n", "tls-replication yes\n", "tls-ca-cert-file /etc/redis-tls/ca.crt\n"]
        {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        let changeable: Vec<(String, String)> =
            live(&object).into_iter().filter(|(name, _)| name.contains("tls") || name.contains("port")).collect();
        let values = [("port", "0"), ("tls-auth-clients", "no"), ("tls-port", "6379"), ("replica-announce-port", "0")];
        assert_eq!(changeable, values.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_replica_must_follow_from_three_on() {
        assert_eq!([0, 1, 2, 3, 5].map(|count| minimum(&redis(count))), [0, 0, 0, 1, 1]);
        let mut asked = redis(1);
        asked.spec.failover.min_replicas_to_write = Some(5);
        assert_eq!(minimum(&asked), 1);
    }
}
