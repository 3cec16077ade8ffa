//! Restores a part of a backup of several databases, or a backup of one under another name.
//!
//! The dump is read twice. The first time finds where each database is, so every problem is found before the target is touched.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Stdio;

use super::super::child::Program;
use super::super::choice::FIELD;
use super::super::tables::Tables;
use super::super::{Account, DATABASES, Fetched, WHOLE_JOB};
use super::sections::{Piece, Reader, Renaming, Sections};
use crate::Error;

/// Bytes that are read at once.
const READ: usize = 256 * 1024;

/// Finds where each database is in a dump. It is an error if what it finds differs from the lists in the backup.
pub async fn read(fetched: &Fetched, dump: &Path, tables: &Tables) -> Result<Sections, Error> {
    let reader = Reader::new(fetched.version.contains("MariaDB"));
    let sections = through(dump, reader, Reader::push).await?.finish();
    let names = fetched.text(DATABASES)?;
    let is_as_listed = |sections: &Sections| {
        let databases = sections.databases();
        let its: BTreeSet<String> = databases.iter().flat_map(|name| sections.tables(name).into_values()).collect();
        // The whole texts are compared, because a name may contain line breaks.
        databases.join("\n") == names.trim_end_matches('\n') && its.iter().eq(tables.0.keys())
    };
    sections.filter(is_as_listed).ok_or_else(|| {
        Error::Unsupported(format!("{FIELD}: the dump cannot be taken apart by its databases: restore all of it"))
    })
}

/// The pieces of a dump of one database that restore it under another name. Around a program that was made under another
/// collation, a dump changes the database by its name, and that may be a database that is there and in use.
pub async fn renamed(fetched: &Fetched, dump: &Path, into: &str) -> Result<Vec<Piece>, Error> {
    let reader = Renaming::new(fetched.version.contains("MariaDB"));
    through(dump, reader, Renaming::push).await?.finish(into).ok_or_else(|| {
        Error::Unsupported(format!(
            "the dump cannot be restored as {into}, as its statements cannot be told apart: restore it under its own name"
        ))
    })
}

/// Lets a reader take all of a dump.
async fn through<R: Send + 'static>(dump: &Path, mut reader: R, push: fn(&mut R, &[u8])) -> Result<R, Error> {
    let failed = |source| Error::Work { path: dump.to_owned(), source };
    let mut file = File::open(dump).map_err(failed)?;
    let reading = tokio::task::spawn_blocking(move || {
        let mut chunk = vec![0; READ];
        loop {
            match file.read(&mut chunk) {
                Ok(0) => return Ok(reader),
                Ok(length) => push(&mut reader, &chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    });
    reading.await.map_err(io::Error::other).and_then(|read| read).map_err(failed)
}

/// These pieces of a dump, as a text.
pub fn text(dump: &Path, pieces: &[Piece]) -> Result<String, Error> {
    let mut text = Vec::new();
    copy(dump, pieces, &mut text).map_err(|source| Error::Work { path: dump.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Runs a program with these pieces of a dump as its input.
pub async fn carry_out(program: Program, account: &Account, dump: &Path, pieces: &[Piece]) -> Result<(), Error> {
    let mut child = program.start(Stdio::piped())?;
    // The input is closed when all is copied, which ends the program.
    let copying = child.input().map(|mut input| {
        let (dump, pieces) = (dump.to_owned(), pieces.to_vec());
        tokio::task::spawn_blocking(move || copy(&dump, &pieces, &mut input))
    });
    let end = child.all(WHOLE_JOB).await;
    // If the program fails, its own error is returned, not that of writing to it.
    end.map_err(|failure| account.side.failed(&failure))?;
    let Some(copying) = copying else { return Ok(()) };
    let copied = copying.await.map_err(io::Error::other).and_then(|copied| copied);
    copied.map_err(|source| Error::Work { path: dump.to_owned(), source })
}

fn copy(dump: &Path, pieces: &[Piece], into: &mut impl Write) -> io::Result<()> {
    let mut file = File::open(dump)?;
    for piece in pieces {
        match piece {
            Piece::Text(text) => into.write_all(text.as_bytes())?,
            Piece::Bytes(range) => {
                file.seek(SeekFrom::Start(range.start))?;
                let length = range.end - range.start;
                if io::copy(&mut (&mut file).take(length), into)? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::Side;
    use super::*;

    #[tokio::test]
    async fn a_dump_is_renamed_unless_its_end_is_missing() {
        let dump = std::env::temp_dir().join(format!("causeway-renamed-{}", std::process::id()));
        let fetched = Fetched { version: "10.11.6-MariaDB".into(), files: vec![] };
        let into_other = |content: &str| {
            std::fs::write(&dump, content).unwrap();
            renamed(&fetched, &dump, "other")
        };
        let pieces = into_other("A;\nALTER DATABASE `shop` CHARACTER SET latin1 ;\nB;\n").await.unwrap();
        let expected = "A;\nALTER DATABASE `other` CHARACTER SET latin1 ;\nB;\n";
        assert_eq!(text(&dump, &pieces).unwrap(), expected);
        let message = into_other("A;\nALTER DATABASE `shop` ").await.unwrap_err().to_string();
        assert!(message.contains("as other") && message.contains("under its own name"), "{message}");
        std::fs::remove_file(&dump).unwrap();
    }

    #[tokio::test]
    async fn a_program_is_given_the_pieces_of_a_dump() {
        let dump = std::env::temp_dir().join(format!("causeway-part-{}", std::process::id()));
        std::fs::write(&dump, "exit 7; true; exit 8").unwrap();
        let pieces = |middle: &str| [Piece::Bytes(8..12), Piece::Text(middle.into()), Piece::Bytes(12..14)];
        assert_eq!(text(&dump, &pieces("-")).unwrap(), "true-; ");
        let account = Account::of_tests(Side::Target, "mysql", "u");
        let run = |pieces: Vec<Piece>| {
            let (dump, account) = (&dump, &account);
            async move { carry_out(Program::new("sh"), account, dump, &pieces).await.map_err(|error| error.to_string()) }
        };
        assert_eq!(run(pieces("").to_vec()).await, Ok(()));
        let many = vec![Piece::Text("echo no >&2; exit 1\n".into()), Piece::Text("x".repeat(1 << 20))];
        assert!(run(many).await.unwrap_err().contains("sh: no"), "who ends early says why");
        assert!(run(vec![Piece::Bytes(15..99)]).await.is_err(), "a dump that is too short");
        std::fs::remove_file(&dump).unwrap();
    }
}
