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
    let target = until.map(|it| it.strftime("%Y-%m-%d %H:%M:%S%.f+00").to_string()).unwrap_or_default();
    // It is there without an instant, too: the server's other files may have one of an earlier recovery. The other targets must
    // not be emptied after it, because servers take that for a second target.
    format!(
        "restore_command = 'cp causeway_wal/%f \"%p\"'\nrecovery_target_action = 'promote'\n\
         recovery_target_time = '{target}'\n"
    )
}

/// The script that makes a data directory out of the files.
pub fn script(until: Option<Timestamp>) -> String {
    let settings = settings(until);
    format!("{SCRIPT}cat >> \"$data/postgresql.auto.conf\" <<'END'\n{settings}END\n: > \"$data/recovery.signal\"\n")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_script_has_the_instant_or_takes_all_log() {
        let until = "2026-11-22T00:20:00.25Z".parse().ok();
        assert!(script(until).contains("\nrecovery_target_time = '2026-11-22 00:20:00.25+00'\n"));
        let full = "2026-11-22T00:20:00Z".parse().ok();
        assert!(script(full).contains("\nrecovery_target_time = '2026-11-22 00:20:00+00'\n"));
        assert!(script(None).contains("\nrecovery_target_time = ''\n") && script(None).contains("recovery.signal"));
    }

    #[test]
    fn the_target_of_an_earlier_recovery_is_gone() {
        let here = std::env::temp_dir().join(format!("causeway-recover-{}", std::process::id()));
        let (base, data) = (here.join("base"), here.join("data"));
        fs::create_dir_all(&base).unwrap();
        let old = "work_mem = '8MB'\nrecovery_target = 'immediate'\nrecovery_target_inclusive = 'off'\n";
        fs::write(base.join("postgresql.auto.conf"), old).unwrap();
        let pack = Command::new("tar").arg("-cf").arg(here.join(BASE_FILE)).arg("-C").arg(&base).arg(".").status();
        assert!(pack.unwrap().success());
        fs::write(here.join(SCRIPT_FILE), script(None)).unwrap();
        assert!(Command::new("sh").arg(here.join(SCRIPT_FILE)).arg(&data).status().unwrap().success());
        let text = fs::read_to_string(data.join("postgresql.auto.conf")).unwrap();
        assert_eq!(text, format!("work_mem = '8MB'\n{}", settings(None)));
        assert!(data.join("recovery.signal").exists());
        fs::remove_dir_all(&here).unwrap();
    }
}
