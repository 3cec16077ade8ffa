//! Judges a node's data by the end of its process's log. Pure.
//! <https://github.com/redis/redis/blob/7.0.15/src/aof.c>, <https://github.com/redis/redis/blob/7.0.15/src/rdb.c>

use super::facts::Pod;

/// Phrases that Redis and Valkey log about files that they cannot read. A file of a later version, or of modules, is not
/// damaged.
const DAMAGE: [&str; 11] = [
    "Bad file format reading the append only file",
    "Unexpected end of file reading the append only file",
    "Unrecoverable error reading the append only file",
    "Unable to obtain the AOF file",
    "The AOF manifest file contains",
    "Found an empty AOF manifest",
    "Invalid AOF manifest file format",
    "Internal error in RDB reading",
    "Short read or OOM loading DB",
    "Wrong signature trying to load DB from file",
    "RDB CRC error",
];
/// Messages about a file that is whole, but that a process of a lower version or without the right modules cannot
/// read.
const FOREIGN: [&str; 2] = ["handle RDB format version", "module data I can't load"];

/// Judges the data of a pod, in a trait because the type of pods belongs to another crate.
pub trait DamagedPod {
    /// The message with which its process said that it cannot read its data, if it did.
    fn damage(&self) -> Option<&'static str>;
}

impl DamagedPod for Pod {
    fn damage(&self) -> Option<&'static str> {
        let words = self.last_words.as_deref()?;
        DAMAGE
            .into_iter()
            .find(|part| words.contains(part))
            .filter(|_| !FOREIGN.iter().any(|part| words.contains(part)))
    }
}

/// The last message of a process that gave up, without what differs at every try: process id, role and time come before
/// the message, as in `1:M 23 Nov 2026 17:28:23.570 # Fatal error`.
pub fn log_message(words: &str) -> Option<String> {
    let warning = words.lines().rev().find_map(|line| Some(line.split_once(" # ")?.1));
    let output = warning.or_else(|| words.lines().rfind(|line| !line.trim().is_empty()))?.trim();
    Some(output.chars().take(LONGEST).collect())
}

/// How many characters of such a message are reported.
const LONGEST: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_is_reported_without_changing_parts() {
        let words = "1:C 23 Nov 2026 17:28:23.570 * Redis is starting\n1:M 23 Nov 2026 17:28:23.570 # Failed listening on \
                     port 6379\n1:M 23 Nov 2026 17:28:23.571 * bye\n";
        assert_eq!(log_message(words).as_deref(), Some("Failed listening on port 6379"));
        assert_eq!(log_message("sh: redis-server: not found\n").as_deref(), Some("sh: redis-server: not found"));
        assert_eq!(log_message(""), None);
    }

    #[test]
    fn damaged_files_are_distinguished_from_wrong_settings_and_later_versions() {
        let damage = |words: &str| Pod { last_words: Some(words.into()), ..Pod::default() }.damage();
        let broken = "1:M 23 Nov 2026 17:28:23.570 * DB loaded from base file\n1:M 23 Nov 2026 17:28:23.570 # Bad file format \
                      reading the append only file appendonly.aof.2.incr.aof: make a backup of your AOF file, then use \
                      ./redis-check-aof --fix <filename.manifest>\n";
        assert_eq!(damage(broken), Some("Bad file format reading the append only file"));
        assert!(damage("# Internal error in RDB reading offset 0, function at rdb.c:236 -> Unknown length").is_some());
        assert!(
            damage("# Unable to obtain the AOF file appendonly.aof.2.base.rdb length. stat: No such file").is_some()
        );
        assert_eq!(damage("# Can't handle RDB format version 12\n# Wrong signature trying to load DB from file"), None);
        let without = "# The RDB file contains module data I can't load: no matching module type 'ft_index0'\n\
                       # Internal error in RDB reading offset 0, function at rdb.c:3226 -> Unknown length";
        assert_eq!(damage(without), None, "its file is whole");
        assert_eq!(damage(">>> 'maxmemory x'\nargument must be a memory value"), None);
    }
}
