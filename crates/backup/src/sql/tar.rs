//! Several files as one archive that every `tar` opens. Their sizes are not known in advance, so each file is a directory of
//! numbered pieces, which `cat` joins.
//!
//! ```text
//! globals/000000000   dump/shop/000000000   dump/shop/000000001   tables/shop/000000000
//! ```
//!
//! The format is that of POSIX, <https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html>, with an extended
//! header for names that are too long for the usual one. It is written and read here: with the crate `tar`, which reads from a
//! blocking reader and takes whatever some programs read, this and the stream around it had a hundred lines more.

use std::io;

use tokio_util::bytes::Bytes;

/// Bytes after which a piece is full. A piece is held in memory until its size is known. Together with the chunk that fills it,
/// it fits into 4 MiB.
pub const PIECE: usize = 4 * 1024 * 1024 - 64 * 1024;
/// Bytes of a block.
pub const BLOCK: usize = 512;
/// Bytes of a name in the usual header.
const USUAL: usize = 100;
/// Characters of the longest part of a path.
const LONGEST_PART: usize = 240;
/// Digits of a piece's number.
const DIGITS: usize = 9;
/// Name of an extended header.
const EXTENDED: &str = "extended";
/// Bytes of the largest extended header that is read.
const LARGEST_EXTENDED: usize = 4 * 1024;

/// The end of an archive.
pub fn end() -> Bytes {
    Bytes::from_static(&[0; 2 * BLOCK])
}

/// The header before a file of known size, whose name must be plain and short.
pub fn header(name: &str, size: u64) -> Bytes {
    Bytes::copy_from_slice(&head(name, b'0', size))
}

/// The padding after it.
pub fn padding_after(size: u64) -> Bytes {
    let last = usize::try_from(size % BLOCK as u64).unwrap_or_default();
    Bytes::from_static(&[0; BLOCK]).slice(..padding(last))
}

/// Collects a file until a piece of it is full.
pub struct Pieces {
    name: String,
    number: usize,
    held: Vec<u8>,
}

impl Pieces {
    /// Begins a file of that name.
    pub fn new(name: &str) -> Self {
        Self { name: encoded(name), number: 0, held: Vec::new() }
    }

    /// Takes the next bytes, and returns the piece if they fill it.
    pub fn push(&mut self, bytes: &[u8]) -> Option<Bytes> {
        self.held.extend_from_slice(bytes);
        (self.held.len() >= PIECE).then(|| self.piece())
    }

    /// The last piece. An empty file has one, too.
    pub fn finish(mut self) -> Option<Bytes> {
        (self.number == 0 || !self.held.is_empty()).then(|| self.piece())
    }

    fn piece(&mut self) -> Bytes {
        let name = format!("{}/{:0DIGITS$}", self.name, self.number);
        self.number += 1;
        let bytes = std::mem::take(&mut self.held);
        let mut all = Vec::with_capacity(bytes.len() + 3 * BLOCK);
        if name.len() > USUAL {
            let record = record("path", &name);
            member(&mut all, EXTENDED, b'x', record.as_bytes());
        }
        member(&mut all, &name[..name.len().min(USUAL)], b'0', &bytes);
        all.into()
    }
}

/// A record of an extended header. Its length includes the digits of the length.
fn record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len();
    loop {
        let text = format!("{length}{rest}");
        if text.len() == length {
            return text;
        }
        length = text.len();
    }
}

fn member(all: &mut Vec<u8>, name: &str, kind: u8, bytes: &[u8]) {
    all.extend_from_slice(&head(name, kind, bytes.len() as u64));
    all.extend_from_slice(bytes);
    all.resize(all.len() + padding(bytes.len()), 0);
}

fn head(name: &str, kind: u8, size: u64) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000600\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum = sum_of(&header);
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// The checksum of a header: the sum of its bytes, in which the field of the checksum counts as spaces.
pub fn sum_of(header: &[u8]) -> u32 {
    let all = header.iter().enumerate();
    all.map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum()
}

fn padding(length: usize) -> usize {
    length.next_multiple_of(BLOCK) - length
}

/// A name of ours as a path that cannot lead to another place. What is before its first slash is a directory. All the rest is
/// one more directory, whatever the database's name is, or several if it is longer than a file system allows.
fn encoded(name: &str) -> String {
    let part = |text: &str| -> String {
        let is_plain =
            |at: usize, byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || (at > 0 && b".-".contains(&byte));
        let each = text.bytes().enumerate();
        each.map(|(at, byte)| if is_plain(at, byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
            .collect()
    };
    match name.split_once('/') {
        Some((kind, "")) => part(kind),
        Some((kind, rest)) => {
            let rest: Vec<char> = part(rest).chars().collect();
            let parts = rest.chunks(LONGEST_PART).map(|part| part.iter().collect::<String>());
            [part(kind)].into_iter().chain(parts).collect::<Vec<_>>().join("/")
        }
        None => part(name),
    }
}

/// The part that comes next in an archive.
#[derive(Debug)]
enum Expects {
    Header,
    Extended(usize),
    Bytes(usize),
    Padding(usize),
    LastBlock,
    Nothing,
}

/// A part that was read of an archive.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A file begins: its path, as it is in the archive.
    File(String),
    /// Bytes of the file.
    Bytes(&'a [u8]),
    /// Nothing to do.
    Nothing,
}

/// Reads an archive of ours, in chunks of any size.
pub struct Reader {
    expects: Expects,
    held: Vec<u8>,
    /// The path that an extended header gave.
    path: Option<String>,
    /// The file of the last piece, and the number of that piece.
    last: Option<(String, usize)>,
    /// Size of the member that is being read, which decides its padding.
    size: usize,
}

impl Reader {
    /// A reader at the beginning of an archive.
    pub fn new() -> Self {
        Self { expects: Expects::Header, held: Vec::new(), path: None, last: None, size: 0 }
    }

    /// Reports whether all of it was read.
    pub fn is_done(&self) -> bool {
        matches!(self.expects, Expects::Nothing)
    }

    /// Reads the next thing. Returns what it was, and the bytes that are left.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> io::Result<(Event<'a>, &'a [u8])> {
        let needed = match &mut self.expects {
            Expects::Bytes(left) => {
                let (now, later) = bytes.split_at(bytes.len().min(*left));
                *left -= now.len();
                if *left == 0 {
                    self.after_bytes();
                }
                return Ok((Event::Bytes(now), later));
            }
            Expects::Header | Expects::LastBlock => BLOCK,
            Expects::Extended(size) | Expects::Padding(size) => *size,
            Expects::Nothing => return Err(damaged("there is more behind its end")),
        };
        let (now, later) = bytes.split_at(bytes.len().min(needed - self.held.len()));
        self.held.extend_from_slice(now);
        if self.held.len() < needed {
            return Ok((Event::Nothing, later));
        }
        let held = std::mem::take(&mut self.held);
        Ok((self.follow(&held)?, later))
    }

    fn after_bytes(&mut self) {
        let padding = padding(self.size);
        self.expects = if padding > 0 { Expects::Padding(padding) } else { Expects::Header };
    }

    fn follow(&mut self, held: &[u8]) -> io::Result<Event<'static>> {
        match self.expects {
            Expects::Header if held.iter().all(|byte| *byte == 0) => self.expects = Expects::LastBlock,
            Expects::Header => return self.header(held),
            Expects::Extended(_) => {
                self.path = Some(path_of(held).ok_or_else(|| damaged("an extended header says nothing of ours"))?);
                self.after_bytes();
            }
            Expects::Padding(_) => self.expects = Expects::Header,
            Expects::LastBlock if held.iter().all(|byte| *byte == 0) => self.expects = Expects::Nothing,
            Expects::LastBlock | Expects::Bytes(_) | Expects::Nothing => return Err(damaged("it ends wrongly")),
        }
        Ok(Event::Nothing)
    }

    fn header(&mut self, held: &[u8]) -> io::Result<Event<'static>> {
        let octal = |range: std::ops::Range<usize>| {
            let text = std::str::from_utf8(&held[range]).ok()?;
            u64::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
        };
        let is_ours = held[257..262] == *b"ustar" && octal(148..156) == Some(u64::from(sum_of(held)));
        let size = octal(124..136).and_then(|size| usize::try_from(size).ok()).filter(|_| is_ours);
        let Some(size) = size else { return Err(damaged("a header is none")) };
        self.size = size;
        match held[156] {
            b'x' if (1..=LARGEST_EXTENDED).contains(&size) && self.path.is_none() => {
                self.expects = Expects::Extended(size);
                Ok(Event::Nothing)
            }
            b'0' => {
                let usual = held[..USUAL].split(|byte| *byte == 0).next().unwrap_or_default();
                let path = self.path.take().unwrap_or_else(|| String::from_utf8_lossy(usual).into_owned());
                self.expects = Expects::Bytes(size);
                if size == 0 {
                    self.after_bytes();
                }
                self.piece(&path)
            }
            _ => Err(damaged("it has something else than files")),
        }
    }

    /// Checks that a piece follows the one before it, or is the first of another file.
    fn piece(&mut self, path: &str) -> io::Result<Event<'static>> {
        let strange = || damaged("its pieces are not in their order");
        let (file, number) = path.rsplit_once('/').ok_or_else(strange)?;
        let number: usize = number.parse().map_err(|_| strange())?;
        let is_next = self.last.as_ref().is_some_and(|(last, at)| last == file && at + 1 == number);
        if !is_next && number != 0 {
            return Err(strange());
        }
        self.last = Some((file.to_owned(), number));
        Ok(if is_next { Event::Nothing } else { Event::File(decoded(file).ok_or_else(strange)?) })
    }
}

/// The path that an extended header gives.
fn path_of(held: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(held).ok()?;
    let (length, rest) = text.split_once(' ')?;
    let path = rest.strip_prefix("path=")?.strip_suffix('\n')?;
    (length.parse() == Ok(text.len())).then(|| path.to_owned())
}

/// The name of the file with this path.
fn decoded(path: &str) -> Option<String> {
    let path = match path.split_once('/') {
        Some((kind, rest)) => format!("{kind}/{}", rest.replace('/', "")),
        None => path.to_owned(),
    };
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, later)) = rest.split_first() {
        if *first == b'%' {
            let (digits, later) = later.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = later;
        } else {
            bytes.push(*first);
            rest = later;
        }
    }
    let name = String::from_utf8(bytes).ok()?;
    // A dump that names its databases itself has an empty name after its slash.
    Some(if name == "dump" || name == "tables" { format!("{name}/") } else { name })
}

fn damaged(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
