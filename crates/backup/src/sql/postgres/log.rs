//! The position of a PostgreSQL in its write-ahead log, and whether the user may copy that.

use super::super::Account;
use super::super::child::Failure;
use super::session::Session;
use crate::Error;

/// Bytes of log that share the middle part of a segment's name: 4 GiB.
/// <https://www.postgresql.org/docs/current/wal-internals.html>
const FILE: u64 = 1 << 32;
/// The most branches that a manifest has room for: a fact has at most 128 characters. The newest count, because backups are
/// only compared with the one before.
const BRANCHES: usize = 5;

/// A server's log at one moment.
#[derive(Clone, Debug)]
pub struct Log {
    /// The system identifier, which `initdb` makes. It stays when the server's name changes.
    pub system: String,
    /// The timeline, in the form in which names of segments begin with it.
    pub timeline: String,
    /// Bytes of a segment.
    pub size: u64,
    /// How far it is written, in bytes.
    pub position: u64,
    /// The current time by the server's clock.
    pub now: String,
}

impl Log {
    /// Asks the server. It is an error if the user may not copy the log, or if the server is a standby.
    pub async fn look(session: &mut Session, account: &Account) -> Result<Self, Error> {
        let (follows, may): (bool, bool) = session
            .one(
                "SELECT pg_catalog.pg_is_in_recovery(), rolsuper OR rolreplication FROM \
                 pg_catalog.pg_roles WHERE rolname = current_user",
            )
            .await?;
        if follows {
            let field = account.side.field(account.kind, "host");
            return Err(Error::SourceUnreachable(format!("{field}: {} is a standby: name its primary", account.host)));
        }
        if !may {
            let (field, user) = (account.side.field(account.kind, "authSecretName"), account.user());
            return Err(Error::RightsMissing(format!(
                "{field}: user {user} may not copy the server's files and log (ALTER ROLE \"{user}\" REPLICATION)"
            )));
        }
        let (system, timeline, size, position, now) = session
            .one(
                "SELECT c.system_identifier::text, pg_catalog.substr(pg_catalog.pg_walfile_name(l), \
                 1, 8), s.setting::bigint, (l - '0/0'::pg_catalog.pg_lsn)::bigint, \
                 pg_catalog.to_char(pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM \
                 pg_catalog.pg_control_system() c, pg_catalog.pg_current_wal_flush_lsn() l, pg_catalog.pg_settings s WHERE \
                 s.name = 'wal_segment_size'",
            )
            .await?;
        let log = Self { system, timeline, size, position, now };
        let is_timeline = log.timeline.len() == 8 && log.timeline.bytes().all(|it| it.is_ascii_hexdigit());
        if !is_timeline || !log.size.is_power_of_two() || log.size < 1 << 20 {
            return Err(Error::SourceFailed(format!("the server reports an unexpected WAL position: {log:?}")));
        }
        Ok(log)
    }

    /// The name of the segment that has this byte.
    pub fn segment(&self, position: u64) -> String {
        self.segment_of(&self.timeline, position)
    }

    fn segment_of(&self, timeline: &str, position: u64) -> String {
        let (number, each) = (position / self.size, FILE / self.size);
        format!("{timeline}{:08X}{:08X}", number / each, number % each)
    }

    /// The segments in which earlier timelines ended, as the fact [`BRANCHES`](crate::chain::BRANCHES) has them. A line
    /// of a timeline's history has the number of an earlier timeline, and the position where the next one began.
    /// <https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-TIMELINES>
    pub fn branches(&self, history: &str) -> String {
        let branch = |line: &str| {
            let mut words = line.split_whitespace();
            let timeline: u32 = words.next()?.parse().ok()?;
            let (file, offset) = words.next()?.split_once('/')?;
            let number = |text| u32::from_str_radix(text, 16).ok().map(u64::from);
            Some(self.segment_of(&format!("{timeline:08X}"), number(file)? * FILE + number(offset)?))
        };
        let all: Vec<String> = history.lines().filter_map(branch).collect();
        all[all.len().saturating_sub(BRANCHES)..].join(" ")
    }
}

/// A position as the server writes it.
pub fn lsn(position: u64) -> String {
    format!("{:X}/{:X}", position / FILE, position % FILE)
}

/// Explains why a program could not copy: replication connections need lines of their own in `pg_hba.conf`.
/// <https://www.postgresql.org/docs/current/auth-pg-hba-conf.html>
pub fn refused(failure: &Failure, account: &Account) -> Error {
    if !failure.api_message().contains("no pg_hba.conf entry for replication") {
        return account.side.failed(failure);
    }
    let (field, user) = (account.side.field(account.kind, "authSecretName"), account.user());
    Error::RightsMissing(format!(
        "{field}: pg_hba.conf lets user {user} connect, but not for replication (add the line: host replication \"{user}\" \
         samenet scram-sha-256, with the network of the Jobs' pods; then SELECT pg_reload_conf())"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_called_as_the_server_calls_them() {
        let log =
            |size: u64| Log { system: "7".into(), timeline: "00000002".into(), size, position: 0, now: String::new() };
        let usual = log(16 << 20);
        assert_eq!(usual.segment(0x150_0718), "000000020000000000000001");
        assert_eq!(usual.segment(0x1_FF00_0000), "0000000200000001000000FF");
        assert_eq!(usual.segment(0x2_0000_0000), "000000020000000200000000");
        assert_eq!(log(1 << 30).segment(0x2_C000_0000), "000000020000000200000003");
        assert_eq!(lsn(0x2_0000_0718), "2/718");
    }

    #[test]
    fn a_history_says_in_which_segments_earlier_timelines_ended() {
        let (system, timeline, now) = ("7".into(), "0000000B".into(), String::new());
        let log = Log { system, timeline, size: 16 << 20, position: 0, now };
        let history = "# made by hand\n\n1\t0/50000028\tno recovery target specified\n\
                       10\t2/61000000\tbefore 2026-11-22 00:20:00+00\nstrange\n";
        assert_eq!(log.branches(history), "000000010000000000000050 0000000A0000000200000061");
        assert_eq!(log.branches(""), "");
        let many: Vec<String> = (1..9).map(|number| format!("{number}\t0/{number}000000\twhy\n")).collect();
        let kept = log.branches(&many.concat());
        assert!(kept.starts_with("000000040000000000000004 ") && kept.ends_with(" 000000080000000000000008"), "{kept}");
        assert!(kept.len() <= 128, "{kept}");
    }
}
