//! How a base backup and its log become the data directory of a new PostgreSQL: people run the script, and so do Jobs. Pure.

use jiff::Timestamp;

/// Name of the file with the base backup, as the script expects it.
pub const BASE_FILE: &str = "base.tar";
/// The script itself, beside it.
pub const SCRIPT_FILE: &str = "recover.sh";

/// The script up to the settings: it unpacks the files.
const SCRIPT: &str = include_str!("recover.sh");

/// Name of the file with a backup of the log: its number is its place in the log.
pub fn log_file(number: usize) -> String {
    format!("wal-{number:06}.tar")
}

/// Settings with which a server replays the log up to the instant (all of it without one), and is promoted then.
/// <https://www.postgresql.org/docs/current/runtime-config-wal.html#RUNTIME-CONFIG-WAL-RECOVERY-TARGET>
pub fn settings(until: Option<Timestamp>) -> String {
    // The server reads this setting before it knows names of time zones, such as Z.
    let target = until.map(|it| format!("recovery_target_time = '{}'\n", it.strftime("%Y-%m-%d %H:%M:%S%.f+00")));
    format!(
        "restore_command = 'cp causeway_wal/%f \"%p\"'\nrecovery_target_action = 'promote'\n{}",
        target.unwrap_or_default()
    )
}

/// The script that makes a data directory out of the files.
pub fn script(until: Option<Timestamp>) -> String {
    let settings = settings(until);
    format!("{SCRIPT}cat >> \"$data/postgresql.auto.conf\" <<'END'\n{settings}END\n: > \"$data/recovery.signal\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instant_is_in_the_script_and_without_one_all_of_the_log_is_taken() {
        let until = "2026-11-22T00:20:00.25Z".parse().ok();
        assert!(script(until).contains("\nrecovery_target_time = '2026-11-22 00:20:00.25+00'\n"));
        let full = "2026-11-22T00:20:00Z".parse().ok();
        assert!(script(full).contains("\nrecovery_target_time = '2026-11-22 00:20:00+00'\n"));
        assert!(!script(None).contains("recovery_target_time") && script(None).contains("recovery.signal"));
    }
}
