//! The user as which exporters log in.

use super::names::EXPORTER_USER;

/// The rights of exporters: they read metrics. They see no keys, and no settings, because the operator's password is
/// among those. Only the slow log shows them commands.
pub const MAY: [&str; 11] = [
    "resetkeys",
    "resetchannels",
    "-@all",
    "+info",
    "+ping",
    "+client|setname",
    "+command|info",
    "+latency|latest",
    "+latency|histogram",
    "+slowlog|len",
    "+slowlog|get",
];

/// The line of a configuration file for the exporters' user, with these rules about its password.
pub fn line(keys: &str) -> String {
    format!("user {EXPORTER_USER} on {keys} {}\n", MAY.join(" "))
}
