//! Statements that a server refuses because they are too long: it does so whatever the client's own limit is.
//! <https://dev.mysql.com/doc/refman/8.4/en/packet-too-large.html>
//!
//! A row is never split. Its bytes are written as two digits each, so that a row may be stored, and yet be too long to restore.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::ops::Range;
use std::path::Path;

use super::super::{Fetched, Side};
use super::restore::Work;
use super::sections::Piece;
use super::statements::{Statement, Statements};
use crate::Error;

/// Bytes that are read at once.
const READ: usize = 256 * 1024;
/// Bytes that the client sends with a statement, at most.
const AROUND: u64 = 64;
/// A recommended setting is a multiple of this: the server rounds it down to a multiple of 1024.
const STEP: u64 = 1 << 20;
/// The largest `max_allowed_packet`, in bytes.
const MOST: u64 = 1 << 30;

/// The longest statement of a dump, as the dump passes.
struct Longest {
    statements: Statements,
    found: Found,
}

/// The findings so far.
struct Found {
    /// The parts of the dump that count; none if all of it does.
    chosen: Option<Vec<Range<u64>>>,
    length: u64,
}

impl Longest {
    /// The length; none if the dump cannot be split into statements.
    fn finish(self) -> Option<u64> {
        let Self { statements, mut found } = self;
        statements.finish(&mut |statement| found.add(statement))?;
        Some(found.length)
    }
}

impl Write for Longest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.statements.push(bytes, &mut |statement| self.found.add(statement));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Found {
    fn add(&mut self, statement: &Statement<'_>) {
        let Range { start, end } = statement.range;
        if self.chosen.as_ref().is_none_or(|parts| parts.iter().any(|part| part.contains(&start))) {
            self.length = self.length.max(end - start);
        }
    }
}

/// Checks that the target takes each statement. Otherwise it would refuse one after it had dropped the table of that name.
pub async fn check(work: &Work<'_>, fetched: &Fetched) -> Result<(), Error> {
    // The throw-away server takes as much as a server can.
    if work.tools.account.side == Side::Scratch {
        return Ok(());
    }
    let answer = work.tools.ask("SELECT @@GLOBAL.max_allowed_packet").await?;
    let Some(most) = answer.first().and_then(|it| it.parse::<u64>().ok()) else { return Ok(()) };
    let failed = |source| Error::Work { path: work.dump.to_owned(), source };
    // Most dumps of small databases need not be read.
    let size = std::fs::metadata(work.dump).map_err(failed)?.len();
    if too_long(size, most).is_none() {
        return Ok(());
    }
    let maria = fetched.version.contains("MariaDB");
    let longest = longest(maria, work.dump, work.pieces.as_deref()).await.map_err(failed)?;
    longest.and_then(|longest| too_long(longest, most)).map_or(Ok(()), Err)
}

/// The length of the longest statement of these pieces of a dump (of all of it without any); none if it is not known.
async fn longest(maria: bool, dump: &Path, pieces: Option<&[Piece]>) -> io::Result<Option<u64>> {
    let bytes = |piece: &Piece| match piece {
        Piece::Bytes(range) => Some(range.clone()),
        Piece::Text(_) => None,
    };
    let chosen = pieces.map(|pieces| pieces.iter().filter_map(bytes).collect());
    let mut longest = Longest { statements: Statements::new(maria), found: Found { chosen, length: 0 } };
    let mut file = BufReader::with_capacity(READ, File::open(dump)?);
    let reading = tokio::task::spawn_blocking(move || io::copy(&mut file, &mut longest).map(|_| longest.finish()));
    reading.await.map_err(io::Error::other)?
}

/// The error if a statement of this length is too long for a server that takes `most` bytes, with the setting that is enough.
fn too_long(longest: u64, most: u64) -> Option<Error> {
    let needed = longest + AROUND;
    (needed >= most).then(|| {
        let setting = (needed + 1).next_multiple_of(STEP);
        let advice = if setting > MOST {
            format!("no server takes more than {MOST}")
        } else {
            format!("SET GLOBAL max_allowed_packet = {setting}, then restore again")
        };
        Error::PacketTooSmall(format!(
            "the backup has a row that takes a statement of {longest} bytes, and max_allowed_packet of the target is {most}: \
             {advice}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_packets_are_refused_with_the_setting() {
        assert!(too_long(9 << 20, 16 << 20).is_none());
        let error = too_long(18 << 20, 16 << 20).expect("too long");
        assert_eq!((error.reason(), error.is_final(), error.is_refusal()), ("PacketTooSmall", true, true));
        assert_eq!(
            error.to_string(),
            "the backup has a row that takes a statement of 18874368 bytes, and max_allowed_packet of the target is \
             16777216: SET GLOBAL max_allowed_packet = 19922944, then restore again"
        );
        assert!(too_long(18 << 20, 19_922_944).is_none(), "the advice is good");
        assert!(
            too_long(MOST, 16 << 20).expect("too long").to_string().ends_with("no server takes more than 1073741824")
        );
    }

    #[tokio::test]
    async fn the_longest_statement_is_that_of_the_restored_part() {
        let dump = std::env::temp_dir().join(format!("causeway-packet-{}", std::process::id()));
        std::fs::write(
            &dump,
            "A 'x';\nINSERT INTO `t` VALUES (0x00112233);\n-- it's a long line that is no statement\n",
        )
        .unwrap();
        assert_eq!(longest(true, &dump, None).await.unwrap(), Some(36));
        let pieces = [Piece::Text("USE `other`;".into()), Piece::Bytes(0..7)];
        assert_eq!(longest(true, &dump, Some(&pieces)).await.unwrap(), Some(6));
        std::fs::write(&dump, "A 'x").unwrap();
        assert_eq!(longest(true, &dump, None).await.unwrap(), None, "a text without an end");
        std::fs::remove_file(&dump).unwrap();
    }
}
