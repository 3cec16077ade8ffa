//! The answers of a node about itself: `INFO` and `ROLE`. <https://redis.io/docs/latest/commands/info/>

use std::collections::BTreeMap;

use redis::Value;

/// The role of a node in replication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It takes writes from clients.
    Master,
    /// It follows another node, or would if it could.
    Replica(Link),
    /// Something else, such as a sentinel.
    #[default]
    Other,
}

/// A replica's connection to its master.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Address of the master.
    pub host: String,
    /// The port of the master.
    pub port: u16,
    /// True if it has all of the data, and follows.
    pub up: bool,
    /// True while it fetches all of the data.
    pub syncing: bool,
}

/// The answer of a node to `INFO`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a node")]
pub struct Info {
    /// The id of the process, another one after each start.
    pub run_id: String,
    /// The version, such as `7.0.15`.
    pub version: String,
    /// Seconds since it was started.
    pub uptime_seconds: u64,
    /// The role in replication.
    pub role: Role,
    /// True while it reads its data, and answers no client yet.
    pub loading: bool,
    /// Connections of clients, including the operator's own and, on a replica, the one to its master.
    pub clients: u64,
    /// The most connections that it takes (`maxclients`), if it says so.
    pub most_clients: Option<u64>,
    /// Keys in all databases.
    pub keys: u64,
    /// Bytes that count against `maxmemory`, where it was asked for its memory.
    pub used_memory: Option<u64>,
    /// The history that its data belong to: the replication id `master_replid`.
    pub history: String,
    /// The history before that (`master_replid2`), which it shares up to some offset; empty if there is none.
    pub earlier_history: String,
    /// Its replication offset in that history, in bytes.
    pub offset: u64,
    /// Seconds since it last received anything from its master, be it a part of all data that it copies.
    pub quiet_seconds: Option<u64>,
    /// Seconds since it lost its master.
    pub lost_seconds: Option<u64>,
    /// The replicas that are attached to it.
    pub attached: Vec<Attached>,
    /// True while it hands over to a replica: writes wait, or it has stepped down already.
    pub handing_over: bool,
    /// True if the last write to its append-only file failed: as a master it refuses writes, as a replica it ends
    /// itself. <https://github.com/redis/redis/blob/7.0/src/server.c> (`writeCommandsDeniedByDiskError`,
    /// `processCommand`)
    pub log_fails: bool,
    /// True if its append-only file has writes since that file was begun, or since it was rewritten last.
    /// <https://github.com/redis/redis/blob/7.0/src/aof.c> (`loadAppendOnlyFiles`)
    pub log_has_writes: bool,
    /// The number of rewrites of its append-only file that its process has begun; Redis reports it since 7.0.
    pub log_rewrites: Option<u64>,
    /// True while it rewrites that file, or is about to.
    pub rewrites_log: bool,
    /// True if its last snapshot failed: a master that is to make snapshots refuses writes for that.
    pub snapshot_fails: bool,
}

/// A replica as its master knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// Address of the replica.
    pub host: String,
    /// True if it receives every write.
    pub online: bool,
    /// The offset that it last acknowledged.
    pub offset: u64,
    /// Seconds since that acknowledgement.
    pub lag_seconds: u64,
}

impl Info {
    /// Parses the output of `INFO`.
    pub fn parse(text: &str) -> Self {
        let fields: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        let field = |name: &str| fields.get(name).copied().unwrap_or_default();
        let number = |name: &str| field(name).parse::<u64>().ok();
        let role = match field("role") {
            "master" => Role::Master,
            "slave" => Role::Replica(Link {
                host: field("master_host").to_owned(),
                port: field("master_port").parse().unwrap_or_default(),
                up: field("master_link_status") == "up",
                syncing: field("master_sync_in_progress") == "1",
            }),
            _ => Role::Other,
        };
        let databases = fields.iter().filter(|(name, _)| {
            name.strip_prefix("db").is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
        });
        let count = |text: &str| pairs(text).get("keys").and_then(|keys| keys.parse::<u64>().ok()).unwrap_or(0);
        let attached = fields.iter().filter(|(name, text)| is_replica(name) && text.contains("ip="));
        let own = if role == Role::Master { "master_repl_offset" } else { "slave_repl_offset" };
        Self {
            run_id: field("run_id").to_owned(),
            version: Some(field("valkey_version"))
                .filter(|it| !it.is_empty())
                .unwrap_or(field("redis_version"))
                .to_owned(),
            uptime_seconds: number("uptime_in_seconds").unwrap_or(0),
            loading: field("loading") == "1" || field("async_loading") == "1",
            clients: number("connected_clients").unwrap_or(0),
            most_clients: number("maxclients"),
            used_memory: number("used_memory")
                .map(|used| used.saturating_sub(number("mem_not_counted_for_evict").unwrap_or(0))),
            keys: databases.map(|(_, text)| count(text)).sum(),
            history: field("master_replid").to_owned(),
            earlier_history: Some(field("master_replid2"))
                .filter(|id| id.bytes().any(|it| it != b'0'))
                .unwrap_or_default()
                .to_owned(),
            offset: number(own).or_else(|| number("master_repl_offset")).unwrap_or(0),
            quiet_seconds: number("master_last_io_seconds_ago").or_else(|| number("master_sync_last_io_seconds_ago")),
            lost_seconds: number("master_link_down_since_seconds"),
            attached: attached.map(|(_, text)| attached_of(text)).collect(),
            handing_over: !matches!(field("master_failover_state"), "" | "no-failover"),
            log_fails: field("aof_last_write_status") == "err",
            log_has_writes: number("aof_current_size")
                .zip(number("aof_base_size"))
                .is_some_and(|(all, base)| all > base),
            log_rewrites: number("aof_rewrites"),
            rewrites_log: field("aof_rewrite_in_progress") == "1" || field("aof_rewrite_scheduled") == "1",
            snapshot_fails: field("rdb_last_bgsave_status") == "err",
            role,
        }
    }

    /// Counts the other connections: without the operator, replicas, and the master, which Redis counts on a replica.
    /// <https://github.com/redis/redis/blob/7.0/src/server.c> (`connected_clients` in `genRedisInfoString`)
    pub fn other_clients(&self) -> usize {
        let known = 1 + u64::from(self.link().is_some_and(|link| link.up));
        usize::try_from(self.clients.saturating_sub(known)).unwrap_or(usize::MAX)
    }

    /// Returns true if its data continue that history.
    pub fn continues(&self, history: &str) -> bool {
        !history.is_empty() && (self.history == history || self.earlier_history == history)
    }

    /// Returns true if it is a master and takes writes.
    pub fn is_master(&self) -> bool {
        self.role == Role::Master
    }

    /// Returns the connection to its master, if it is a replica.
    pub fn link(&self) -> Option<&Link> {
        match &self.role {
            Role::Replica(link) => Some(link),
            _ => None,
        }
    }
}

fn is_replica(name: &str) -> bool {
    name.strip_prefix("slave").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|digit| digit.is_ascii_digit()))
}

fn pairs(text: &str) -> BTreeMap<&str, &str> {
    text.split(',').filter_map(|pair| pair.split_once('=')).collect()
}

fn attached_of(text: &str) -> Attached {
    let pairs = pairs(text);
    let number = |name: &str| pairs.get(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    Attached {
        host: pairs.get("ip").copied().unwrap_or_default().to_owned(),
        online: pairs.get("state") == Some(&"online"),
        offset: number("offset"),
        lag_seconds: number("lag"),
    }
}

/// The answer to `ROLE`: a node's role and its replication offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The role in replication.
    pub role: Role,
    /// A master's replication offset, in bytes; 0 for a replica.
    pub offset: u64,
    /// The offsets that the online replicas of a master acknowledged last, by their addresses.
    pub acknowledged: BTreeMap<String, u64>,
}

/// Parses the answer to `ROLE`. <https://redis.io/docs/latest/commands/role/>
pub fn position_of(value: &Value) -> Option<Position> {
    let role = role_of(value)?;
    let Value::Array(parts) = value else { return None };
    let (Role::Master, Some(offset), Some(Value::Array(replicas))) =
        (&role, parts.get(1).and_then(number), parts.get(2))
    else {
        return Some(Position { role, ..Position::default() });
    };
    let acknowledged = replicas.iter().filter_map(|replica| {
        let Value::Array(words) = replica else { return None };
        Some((text(words.first()?)?, number(words.get(2)?)?))
    });
    Some(Position { offset, acknowledged: acknowledged.collect(), role })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

/// Returns a number, which ROLE gives as one or, for replicas, as text.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        value => text(value)?.parse().ok(),
    }
}

fn role_of(value: &Value) -> Option<Role> {
    let Value::Array(parts) = value else { return None };
    let text = |at: usize| text(parts.get(at)?);
    match text(0)?.as_str() {
        "master" => Some(Role::Master),
        "slave" => {
            let port = match parts.get(2)? {
                Value::Int(port) => u16::try_from(*port).ok()?,
                _ => return None,
            };
            let state = text(3)?;
            Some(Role::Replica(Link { host: text(1)?, port, up: state == "connected", syncing: state == "sync" }))
        }
        _ => Some(Role::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASTER: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n# Persistence\r\nloading:0\r\nasync_loading:0\r\n\
        # Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
        slave0:ip=10.0.0.8,port=6379,state=online,offset=42,lag=0\r\n\
        slave1:ip=10.0.0.9,port=6379,state=wait_bgsave,offset=0,lag=7\r\nmaster_failover_state:no-failover\r\n\
        master_replid:aaaa\r\nmaster_replid2:0000\r\nmaster_repl_offset:56\r\nsecond_repl_offset:-1\r\n\
        # Keyspace\r\ndb0:keys=3,expires=1,avg_ttl=0\r\ndb12:keys=4,expires=0,avg_ttl=0\r\n";

    #[test]
    fn a_master_reports_its_replicas() {
        let info = Info::parse(MASTER);
        assert!(info.is_master() && !info.loading && !info.handing_over);
        assert_eq!((info.keys, info.offset, info.version.as_str()), (7, 56, "7.0.15"));
        assert_eq!(info.attached.len(), 2);
        assert_eq!(info.attached[0], Attached { host: "10.0.0.8".into(), online: true, offset: 42, lag_seconds: 0 });
        assert!(info.continues("aaaa") && !info.continues("0000") && !info.continues(""));
    }

    #[test]
    fn a_replica_reports_its_link() {
        let text = "role:slave\r\nmaster_host:10.0.0.7\r\nmaster_port:6379\r\nmaster_link_status:down\r\n\
            master_last_io_seconds_ago:-1\r\nmaster_sync_in_progress:1\r\nslave_read_repl_offset:9\r\n\
            master_sync_last_io_seconds_ago:1\r\nslave_repl_offset:8\r\nmaster_repl_offset:8\r\nmaster_replid:bb\r\nmaster_replid2:aa\r\nslave_priority:100\r\n";
        let info = Info::parse(text);
        let link = Link { host: "10.0.0.7".into(), port: 6379, up: false, syncing: true };
        assert_eq!(info.role, Role::Replica(link));
        assert_eq!((info.offset, info.quiet_seconds), (8, Some(1)));
        assert!(info.continues("aa") && info.attached.is_empty());
    }

    #[test]
    fn roles_are_read() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let replica =
            Value::Array(vec![text("slave"), text("10.0.0.7"), Value::Int(6379), text("connected"), Value::Int(8)]);
        let link = Link { host: "10.0.0.7".into(), port: 6379, up: true, syncing: false };
        assert_eq!(role_of(&replica), Some(Role::Replica(link)));
        let master = Value::Array(vec![text("master"), Value::Int(3), Value::Array(Vec::new())]);
        assert_eq!(role_of(&master), Some(Role::Master));
        assert_eq!(role_of(&Value::Nil), None);
    }

    #[test]
    fn a_master_reports_its_offset_and_those_of_replicas() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let replica = Value::Array(vec![text("10.0.0.8"), text("6379"), text("42")]);
        let master = Value::Array(vec![text("master"), Value::Int(56), Value::Array(vec![replica, Value::Nil])]);
        let position = position_of(&master).unwrap();
        assert_eq!((position.role, position.offset), (Role::Master, 56));
        assert_eq!(position.acknowledged, BTreeMap::from([("10.0.0.8".to_owned(), 42)]));
        let replica =
            Value::Array(vec![text("slave"), text("10.0.0.7"), Value::Int(6379), text("connected"), Value::Int(8)]);
        assert_eq!(position_of(&replica).unwrap().offset, 0, "only a master's counts");
        assert_eq!(position_of(&Value::Array(vec![text("sentinel")])).unwrap().role, Role::Other);
        assert_eq!(position_of(&Value::Nil), None);
    }
}
