//! The command `SENTINEL`, and its answers about the master. Pure.
//! <https://github.com/redis/redis/blob/7.0/src/sentinel.c> (`sentinelCommand`, `addReplySentinelRedisInstance`)

use super::reply::Reply;
use super::session::{Settings, error, printable_word};
use super::view::{Master, View};

/// The version of Redis Sentinel whose commands are answered.
pub const VERSION: &str = "7.0.15";

pub fn answer(subcommand: &[u8], words: &[Vec<u8>], settings: &Settings, view: &View) -> Reply {
    let subcommand = printable_word(subcommand).to_lowercase();
    let known = || view.master.as_ref().ok_or_else(|| error("No such master with that name"));
    let reply = match (subcommand.as_str(), words) {
        ("myid", []) => return Reply::text(settings.id.clone()),
        ("masters", []) => return Reply::List(view.master.iter().map(|it| master(settings, it)).collect()),
        ("get-master-addr-by-name", [name]) => {
            let master = view.master.as_ref().filter(|_| name == settings.name.as_bytes());
            let address = |it: &Master| [it.address.clone(), settings.port.to_string()].map(Reply::text).into();
            return master.map_or(Reply::NoList, |master| Reply::List(address(master)));
        }
        ("master" | "replicas" | "slaves" | "sentinels" | "ckquorum", [name]) if name != settings.name.as_bytes() => {
            return error("No such master with that name");
        }
        ("master", [_]) => known().map(|it| master(settings, it)),
        ("replicas" | "slaves", [_]) => known().map(|it| Reply::List(replicas(settings, it))),
        // Clients find all sentinels by the name of one Service. So they keep no address of a pod that is gone.
        ("sentinels", [_]) => Ok(Reply::List(Vec::new())),
        ("ckquorum", [_]) => match view.master {
            Some(_) => Ok(Reply::Word("OK 1 usable Sentinels. Causeway fails over, and needs no quorum")),
            None => Ok(Reply::Error("NOQUORUM the node beside this sentinel knows no master".into())),
        },
        _ => return error(format!("unknown subcommand or wrong number of arguments for '{subcommand}'")),
    };
    reply.unwrap_or_else(|error| error)
}

fn fields<const COUNT: usize>(fields: [(&'static str, &str); COUNT]) -> Reply {
    Reply::Map(fields.map(|(name, value)| (name, Reply::text(value))).into())
}

/// Answers with the fields that clients look at: redis-py at `flags` and `num-other-sentinels`, Lettuce at `ip`, `port`
/// and `flags`. <https://github.com/redis/redis-py/blob/v5.0.0/redis/sentinel.py> (`check_master_state`)
fn master(settings: &Settings, master: &Master) -> Reply {
    fields([
        ("name", &settings.name),
        ("ip", &master.address),
        ("port", &settings.port.to_string()),
        ("runid", ""),
        ("flags", "master"),
        ("role-reported", "master"),
        ("config-epoch", "0"),
        ("num-slaves", if master.followed { "1" } else { "0" }),
        ("num-other-sentinels", "0"),
        ("quorum", "1"),
    ])
}

/// Answers with one entry for all replicas that have all data: the Service that leads to them.
fn replicas(settings: &Settings, master: &Master) -> Vec<Reply> {
    let (host, port) = (settings.replicas.as_str(), settings.port.to_string());
    let replica = || {
        fields([
            ("name", &format!("{host}:{port}")),
            ("ip", host),
            ("port", &port),
            ("runid", ""),
            ("flags", "slave"),
            ("role-reported", "slave"),
            ("master-link-status", "ok"),
            ("master-host", &master.address),
            ("master-port", &port),
            ("slave-priority", "100"),
        ])
    };
    master.followed.then(replica).into_iter().collect()
}

/// Answers to `INFO`.
pub fn info(settings: &Settings, view: &View) -> String {
    let (count, line) = match &view.master {
        None => (0, String::new()),
        Some(Master { address, followed }) => {
            let (name, port, replicas) = (&settings.name, settings.port, u8::from(*followed));
            (1, format!("master0:name={name},status=ok,address={address}:{port},slaves={replicas},sentinels=1\r\n"))
        }
    };
    format!(
        "# Server\r\nredis_version:{VERSION}\r\nredis_mode:sentinel\r\nrun_id:{}\r\n\r\n# Sentinel\r\n\
         sentinel_masters:{count}\r\n{line}",
        settings.id
    )
}
