//! The user as whom exporters log in.

use super::names::EXPORTER_USER;

/// What exporters may do: ask for figures. They see no keys and no settings, among which is our password; the slow log
/// alone shows commands.
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

/// The exporters' user as a file has it, with these rules about its password.
pub fn line(keys: &str) -> String {
    format!("user {EXPORTER_USER} on {keys} {}\n", MAY.join(" "))
}
