//! Unpacks the files of a backup of PostgreSQL or MySQL, which come as one archive of [`tar`](super::tar), into a directory.

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::tar::{Event, Reader};

/// The file in the directory that holds the names of the others.
const INDEX: &str = "index.json";

/// Writes the files of a stream into a directory. The stream may come in chunks of any size.
pub struct Splitter {
    reader: Reader,
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
        Ok(Self { reader: Reader::new(), files })
    }

    /// Waits until all is on the disk. It is an error if the stream has not come to its end.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.reader.is_done() {
            return Err(damaged("it ends too early"));
        }
        self.files.end()?;
        let mut index = File::create(self.files.directory.join(INDEX))?;
        index.write_all(&serde_json::to_vec(&self.files.names)?)?;
        index.sync_all()
    }

    /// Takes what is next, and returns the bytes that are left.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        let (event, later) = self.reader.take(bytes)?;
        match event {
            Event::File(name) => self.files.begin(name)?,
            Event::Bytes(bytes) => self.files.write(bytes)?,
            Event::Nothing => {}
        }
        Ok(later)
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
