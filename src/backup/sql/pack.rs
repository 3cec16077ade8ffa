//! Several files as one stream of bytes, whose sizes nobody knows before: what a backup of PostgreSQL or MySQL is.
//!
//! ```text
//! magic │ length (2), name │ length (4), bytes │ length (4), bytes │ 0 (4) │ length (2), name │ … │ 0 (2)
//! ```
//!
//! All lengths are big endian. A file ends with an empty piece, and the stream with an empty name: so one that was cut is
//! found out.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tokio_util::bytes::Bytes;

/// What such a stream begins with.
const MAGIC: &[u8; 8] = b"cwpack1\n";
/// Bytes of a name.
const LONGEST: usize = 512;
/// Names of the files, in a directory of them.
const INDEX: &str = "index.json";

/// The beginning of a stream.
pub fn begin() -> Bytes {
    Bytes::from_static(MAGIC)
}

/// The beginning of a file.
pub fn file(name: &str) -> Bytes {
    let name = name.as_bytes();
    let name = &name[..name.len().min(LONGEST)];
    // It was cut above.
    let length = u16::try_from(name.len()).unwrap_or_default();
    [&length.to_be_bytes(), name].concat().into()
}

/// A piece of a file.
pub fn piece(bytes: &[u8]) -> Bytes {
    let mut whole = Vec::with_capacity(bytes.len() + 4);
    for part in bytes.chunks(1 << 20) {
        let length = u32::try_from(part.len()).unwrap_or_default();
        whole.extend_from_slice(&length.to_be_bytes());
        whole.extend_from_slice(part);
    }
    whole.into()
}

/// The end of a file.
pub fn file_end() -> Bytes {
    Bytes::from_static(&[0; 4])
}

/// The end of a stream.
pub fn end() -> Bytes {
    Bytes::from_static(&[0; 2])
}

/// What comes next in a stream.
enum Expects {
    Magic,
    NameLength,
    Name(usize),
    PieceLength,
    Piece(usize),
    Nothing,
}

/// Writes the files of a stream into a directory, however its bytes come.
pub struct Splitter {
    directory: PathBuf,
    expects: Expects,
    /// The beginning of what is expected, where that is no piece.
    held: Vec<u8>,
    names: Vec<String>,
    file: Option<File>,
}

impl Splitter {
    /// Into a directory, which is made.
    pub fn new(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let directory = directory.to_owned();
        Ok(Self { directory, expects: Expects::Magic, held: Vec::new(), names: Vec::new(), file: None })
    }

    /// Waits for the disk. The stream must have come to its end.
    pub fn finish(self) -> io::Result<()> {
        if !matches!(self.expects, Expects::Nothing) {
            return Err(damaged("it ends too early"));
        }
        let mut index = File::create(self.directory.join(INDEX))?;
        index.write_all(&serde_json::to_vec(&self.names)?)?;
        index.sync_all()
    }

    /// Takes what is next; gives what is left.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        if let Expects::Piece(left) = &mut self.expects {
            let (now, later) = bytes.split_at(bytes.len().min(*left));
            if let Some(file) = &mut self.file {
                file.write_all(now)?;
            }
            *left -= now.len();
            if *left == 0 {
                self.expects = Expects::PieceLength;
            }
            return Ok(later);
        }
        let needed = match self.expects {
            Expects::Magic => MAGIC.len(),
            Expects::NameLength => 2,
            Expects::Name(length) => length,
            Expects::PieceLength => 4,
            Expects::Piece(_) | Expects::Nothing => return Err(damaged("there is more behind its end")),
        };
        let (now, later) = bytes.split_at(bytes.len().min(needed - self.held.len()));
        self.held.extend_from_slice(now);
        if self.held.len() == needed {
            let held = std::mem::take(&mut self.held);
            self.expects = self.follow(&held)?;
        }
        Ok(later)
    }

    fn follow(&mut self, held: &[u8]) -> io::Result<Expects> {
        let length = held.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
        Ok(match self.expects {
            Expects::Magic if held != MAGIC => return Err(damaged("it does not begin as it should")),
            Expects::NameLength if length == 0 => Expects::Nothing,
            Expects::NameLength if length > LONGEST => return Err(damaged("a name is too long")),
            Expects::NameLength => Expects::Name(length),
            Expects::Name(_) => {
                // A name is no path: the number is.
                self.file = Some(File::create(self.directory.join(self.names.len().to_string()))?);
                self.names.push(String::from_utf8_lossy(held).into_owned());
                Expects::PieceLength
            }
            Expects::PieceLength if length == 0 => {
                if let Some(file) = self.file.take() {
                    file.sync_all()?;
                }
                Expects::NameLength
            }
            Expects::PieceLength => Expects::Piece(length),
            Expects::Magic | Expects::Piece(_) | Expects::Nothing => Expects::NameLength,
        })
    }
}

impl Write for Splitter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut left = bytes;
        while !left.is_empty() {
            left = self.take(left)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn damaged(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// The files of a stream in their directory: name and path of each, in the order in which they came.
pub fn files(directory: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let names: Vec<String> = serde_json::from_slice(&fs::read(directory.join(INDEX))?)?;
    let path = |number: usize| directory.join(number.to_string());
    Ok(names.into_iter().enumerate().map(|(number, name)| (name, path(number))).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use proptest::prelude::*;

    use super::*;

    fn stream(all: &[(String, Vec<Vec<u8>>)]) -> Vec<u8> {
        let mut stream = begin().to_vec();
        for (name, pieces) in all {
            stream.extend(file(name));
            for bytes in pieces {
                stream.extend(piece(bytes));
            }
            stream.extend(file_end());
        }
        stream.extend(end());
        stream
    }

    fn split(stream: &[u8], cut: usize) -> io::Result<Vec<(String, Vec<u8>)>> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("causeway-pack-{}-{number}", std::process::id()));
        let found = (|| {
            let mut splitter = Splitter::new(&directory)?;
            for chunk in stream.chunks(cut) {
                splitter.write_all(chunk)?;
            }
            splitter.finish()?;
            files(&directory)?.into_iter().map(|(name, path)| Ok((name, fs::read(path)?))).collect()
        })();
        fs::remove_dir_all(&directory)?;
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn files_come_out_as_they_went_in_however_the_bytes_come(
            all in prop::collection::vec(("[a-z/]{1,20}", prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..4)), 0..4),
            cut in 1..40_usize,
        ) {
            let all: Vec<(String, Vec<Vec<u8>>)> = all.into_iter().map(|(name, pieces)| {
                (name, pieces.into_iter().filter(|piece| !piece.is_empty()).collect())
            }).collect();
            let expected: Vec<(String, Vec<u8>)> = all.iter().map(|(name, pieces)| (name.clone(), pieces.concat())).collect();
            prop_assert_eq!(split(&stream(&all), cut).unwrap(), expected);
        }

        #[test]
        fn what_lacks_its_end_or_has_more_is_not_taken(
            bytes in prop::collection::vec(any::<u8>(), 1..60), cut in 1..40_usize, end in any::<prop::sample::Index>(),
        ) {
            let whole = stream(&[("dump".into(), vec![bytes])]);
            prop_assert!(split(&whole[..end.index(whole.len())], cut).is_err());
            prop_assert!(split(&[whole.as_slice(), b"x"].concat(), cut).is_err());
        }
    }

    #[test]
    fn an_empty_piece_is_no_end() {
        assert!(piece(b"").is_empty());
    }

    #[test]
    fn a_name_is_never_a_path() {
        let found = split(&stream(&[("../../etc/passwd".into(), vec![b"x".to_vec()])]), 7).unwrap();
        assert_eq!(found, [("../../etc/passwd".to_owned(), b"x".to_vec())]);
    }
}
