//! Requests as commands of Redis.

use redis::Cmd;

use super::Request;

/// A write that changes nothing, whether the key is there or not, and is refused like all others.
///
/// Redis checks before it looks at the key: `SETRANGE` has the flags `write` and `denyoom`, so it is refused with
/// `MISCONF`, `NOREPLICAS`, `OOM` and `READONLY` as well. With an empty text it returns before it changes anything, so
/// nothing reaches the append-only file, replicas or listeners of keyspace events.
/// <https://github.com/redis/redis/blob/7.0/src/server.c> (`processCommand`) and
/// <https://github.com/redis/redis/blob/7.0/src/t_string.c> (`setrangeCommand`)
pub const PROBE: [&str; 4] = ["SETRANGE", "causeway:probe", "0", ""];

pub fn cmd(parts: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    for part in parts {
        command.arg(*part);
    }
    command
}

/// The commands that make up a request.
pub fn commands(request: &Request) -> Vec<Cmd> {
    match request {
        Request::Role => vec![cmd(&["ROLE"])],
        Request::Info => vec![cmd(&["INFO", "server", "clients", "persistence", "replication", "keyspace"])],
        Request::Keys => vec![cmd(&["INFO", "keyspace"])],
        Request::Memory => vec![cmd(&["INFO", "memory"])],
        Request::Clients => vec![cmd(&["CLIENT", "LIST"])],
        Request::Follow { host, port, drop_clients } => {
            let follow = cmd(&["REPLICAOF", host, &port.to_string()]);
            let drop = drop_clients.then(|| commands(&Request::DropClients));
            [follow].into_iter().chain(drop.into_iter().flatten()).collect()
        }
        Request::Promote { .. } => vec![cmd(&["REPLICAOF", "NO", "ONE"])],
        Request::HandOver { host, port, timeout_ms } => {
            vec![cmd(&["FAILOVER", "TO", host, &port.to_string(), "TIMEOUT", &timeout_ms.to_string()])]
        }
        Request::Probe => vec![cmd(&PROBE)],
        Request::Knock => vec![cmd(&["EXISTS", PROBE[1]]), cmd(&PROBE)],
        Request::Rights(user) => vec![cmd(&["ACL", "GETUSER", user])],
        Request::EndBusy => vec![cmd(&["SHUTDOWN", "NOSAVE", "NOW"])],
        Request::Settings(names) => {
            vec![cmd(&["CONFIG", "GET"].into_iter().chain(names.iter().map(String::as_str)).collect::<Vec<_>>())]
        }
        Request::Acknowledge => Vec::new(),
        Request::RewriteLog => vec![cmd(&["BGREWRITEAOF"])],
        Request::KeepMastership => vec![cmd(&["FAILOVER", "ABORT"])],
        Request::DropClients => {
            ["normal", "pubsub"].map(|clients| cmd(&["CLIENT", "KILL", "TYPE", clients, "SKIPME", "yes"])).into()
        }
        Request::StepDown { host, port } => {
            commands(&Request::Follow { host: host.clone(), port: *port, drop_clients: true })
        }
        Request::Configure(settings) => {
            let parts = settings.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
            vec![cmd(&["CONFIG", "SET"].into_iter().chain(parts).collect::<Vec<_>>())]
        }
        Request::SetUsers { users, follow_as } => {
            let (user, password) = follow_as.as_ref().map_or(("", ""), |login| (&login.user, &login.password));
            let users = users.iter().map(|rules| rules.iter().map(String::as_str));
            let mut commands: Vec<Cmd> =
                users.map(|rules| cmd(&["ACL", "SETUSER"].into_iter().chain(rules).collect::<Vec<_>>())).collect();
            commands.push(cmd(&["CONFIG", "SET", "masteruser", user, "masterauth", password]));
            commands
        }
    }
}
