//! Unpacks the files of a backup of PostgreSQL or MySQL, which come as one stream, into a directory. The stream is an archive
//! of [`tar`](super::tar), or what earlier versions wrote:
//!
//! ```text
//! magic │ length (2), name │ length (4), bytes │ length (4), bytes │ 0 (4) │ length (2), name │ … │ 0 (2)
//! ```
//!
//! All lengths are big endian. A file ends with an empty piece, and the stream with an empty name, so a stream that was cut
//! off is detected.

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::tar::{Event, Reader};

/// What a stream of earlier versions begins with.
const MAGIC: &[u8; 8] = b"cwpack1\n";
/// Bytes of the longest name.
const LONGEST: usize = 512;
/// The file in the directory that holds the names of the others.
const INDEX: &str = "index.json";

/// What comes next in a stream of earlier versions.
enum Expects {
    NameLength,
    Name(usize),
    PieceLength,
    Piece(usize),
    Nothing,
}

/// The format of a stream.
enum Form {
    /// Not known before its first bytes are here.
    Unknown(Vec<u8>),
    /// The format of earlier versions.
    Old(Old),
    /// An archive.
    Archive(Reader),
}

/// A stream of earlier versions, as far as it was read.
struct Old {
    expects: Expects,
    /// The beginning of what is expected, unless that is a piece.
    held: Vec<u8>,
}

/// Writes the files of a stream into a directory. The stream may come in chunks of any size.
pub struct Splitter {
    form: Form,
    files: Files,
}

/// The files in the directory.
struct Files {
    directory: PathBuf,
    names: Vec<String>,
    file: Option<File>,
}

impl Files {
    /// Begins another file. The number of the file is its path, never its name, which is not trusted.
    fn begin(&mut self, name: String) -> io::Result<()> {
        self.end()?;
        self.file = Some(File::create(self.directory.join(self.names.len().to_string()))?);
        self.names.push(name);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    fn end(&mut self) -> io::Result<()> {
        self.file.take().map_or(Ok(()), |file| file.sync_all())
    }
}

impl Splitter {
    /// Unpacks into a directory, which is made.
    pub fn new(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let files = Files { directory: directory.to_owned(), names: Vec::new(), file: None };
        Ok(Self { form: Form::Unknown(Vec::new()), files })
    }

    /// Waits until all is on the disk. It is an error if the stream has not come to its end.
    pub fn finish(mut self) -> io::Result<()> {
        let is_done = match &self.form {
            Form::Unknown(_) => false,
            Form::Old(old) => matches!(old.expects, Expects::Nothing),
            Form::Archive(reader) => reader.is_done(),
        };
        if !is_done {
            return Err(damaged("it ends too early"));
        }
        self.files.end()?;
        let mut index = File::create(self.files.directory.join(INDEX))?;
        index.write_all(&serde_json::to_vec(&self.files.names)?)?;
        index.sync_all()
    }

    /// Takes what is next, and returns the bytes that are left.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        match &mut self.form {
            Form::Unknown(held) => {
                let (now, later) = bytes.split_at(bytes.len().min(MAGIC.len() - held.len()));
                held.extend_from_slice(now);
                if held.len() == MAGIC.len() {
                    let held = std::mem::take(held);
                    self.begin(&held)?;
                }
                Ok(later)
            }
            Form::Old(old) => old.take(bytes, &mut self.files),
            Form::Archive(reader) => {
                let (event, later) = reader.take(bytes)?;
                match event {
                    Event::File(name) => self.files.begin(name)?,
                    Event::Bytes(bytes) => self.files.write(bytes)?,
                    Event::Nothing => {}
                }
                Ok(later)
            }
        }
    }

    fn begin(&mut self, held: &[u8]) -> io::Result<()> {
        if held == MAGIC {
            self.form = Form::Old(Old { expects: Expects::NameLength, held: Vec::new() });
            return Ok(());
        }
        let mut reader = Reader::new();
        // A header is longer than these bytes, so nothing comes of them yet.
        reader.take(held)?;
        self.form = Form::Archive(reader);
        Ok(())
    }
}

impl Old {
    fn take<'a>(&mut self, bytes: &'a [u8], files: &mut Files) -> io::Result<&'a [u8]> {
        let needed = match &mut self.expects {
            Expects::Piece(left) => {
                let (now, later) = bytes.split_at(bytes.len().min(*left));
                files.write(now)?;
                *left -= now.len();
                if *left == 0 {
                    self.expects = Expects::PieceLength;
                }
                return Ok(later);
            }
            Expects::NameLength => 2,
            Expects::Name(length) => *length,
            Expects::PieceLength => 4,
            Expects::Nothing => return Err(damaged("there is more behind its end")),
        };
        let (now, later) = bytes.split_at(bytes.len().min(needed - self.held.len()));
        self.held.extend_from_slice(now);
        if self.held.len() == needed {
            let held = std::mem::take(&mut self.held);
            self.expects = self.follow(&held, files)?;
        }
        Ok(later)
    }

    fn follow(&mut self, held: &[u8], files: &mut Files) -> io::Result<Expects> {
        let length = held.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
        Ok(match self.expects {
            Expects::NameLength if length == 0 => Expects::Nothing,
            Expects::NameLength if length > LONGEST => return Err(damaged("a name is too long")),
            Expects::NameLength => Expects::Name(length),
            Expects::Name(_) => {
                files.begin(String::from_utf8_lossy(held).into_owned())?;
                Expects::PieceLength
            }
            Expects::PieceLength if length == 0 => {
                files.end()?;
                Expects::NameLength
            }
            Expects::PieceLength => Expects::Piece(length),
            Expects::Piece(_) | Expects::Nothing => Expects::NameLength,
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

/// The unpacked files in a directory: name and path of each, in the order in which they came. They may come from a container that
/// ran a server on files of a backup: a link in place of one would have the reader send a file of its own, such as its login, to
/// the target.
pub fn files(directory: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let plain = |path: PathBuf| -> io::Result<PathBuf> {
        let is_file = fs::symlink_metadata(&path)?.is_file();
        if is_file { Ok(path) } else { Err(damaged(&format!("{} is not a file", path.display()))) }
    };
    if !fs::symlink_metadata(directory)?.is_dir() {
        return Err(damaged("it is not a directory"));
    }
    let names: Vec<String> = serde_json::from_slice(&fs::read(plain(directory.join(INDEX))?)?)?;
    let path = |number: usize| plain(directory.join(number.to_string()));
    names.into_iter().enumerate().map(|(number, name)| Ok((name, path(number)?))).collect()
}
