//! Checks the `tar` archives of base backups and of their log before a program unpacks them. Their content is chosen by
//! everyone who can write to the bucket, or owns the server that was backed up.
//!
//! `pg_basebackup` writes files and directories alone where the server has no further tablespaces, and nothing else is taken:
//! links lead what is unpacked later, and what the recovery script writes, to other places. What two programs could read in
//! different ways is refused as well, because the archive is unpacked by whichever `tar` the image has. So headers are read
//! here: the crate `tar` also takes what only some programs read.
//! <https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html#tag_20_94_13_06>

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::Error;
use super::sql::tar::{BLOCK, sum_of};

/// The file that names tablespaces. PostgreSQL makes a link for each when it starts, so it must be empty.
/// <https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-BASE-BACKUP>
const TABLESPACE_MAP: &str = "tablespace_map";
/// Characters of an entry's name that a message has.
const SHOWN: usize = 120;

/// Checks an archive of a base backup.
pub fn check_base(path: &Path) -> Result<(), Error> {
    check(path, |_| None)
}

/// Checks an archive of the log: plain files beside each other.
pub fn check_log(path: &Path) -> Result<(), Error> {
    check(path, |entry| (entry.is_directory || entry.name.contains('/')).then_some("is not a file of the log"))
}

fn check(path: &Path, further: impl Fn(&Entry) -> Option<&'static str>) -> Result<(), Error> {
    let work = |source| Error::Work { path: path.to_owned(), source };
    let file = File::open(path).map_err(work)?;
    let length = file.metadata().map_err(work)?.len();
    let archive = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let refused = |Mistake { entry, why }| Error::ArchiveRefused { archive: archive.clone(), entry, why };
    entries(BufReader::new(file), length, further).map_err(work)?.map_err(refused)
}

/// A reason to refuse an entry.
#[derive(Debug, PartialEq, Eq)]
struct Mistake {
    entry: String,
    why: &'static str,
}

/// A file or directory.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// The path, without `.` in it.
    name: String,
    is_directory: bool,
    /// Bytes of its content.
    size: u64,
}

/// Reads every header of an archive of `length` bytes. The outer error is the disk's.
fn entries<R: Read + Seek>(
    mut archive: R,
    length: u64,
    further: impl Fn(&Entry) -> Option<&'static str>,
) -> io::Result<Result<(), Mistake>> {
    let (mut at, mut seen, mut header) = (0_u64, HashSet::new(), [0; BLOCK]);
    while at + BLOCK as u64 <= length {
        archive.read_exact(&mut header)?;
        at += BLOCK as u64;
        if header == [0; BLOCK] {
            return rest_is_empty(archive);
        }
        let entry = match Entry::read(&header) {
            Ok(entry) => entry,
            Err(why) => return Ok(Err(Mistake { entry: shown(&header[..100]), why })),
        };
        let wrong = |why| Ok(Err(Mistake { entry: shown(entry.name.as_bytes()), why }));
        let blocks = entry.size.checked_next_multiple_of(BLOCK as u64).and_then(|size| at.checked_add(size));
        let Some(next) = blocks.filter(|next| *next <= length) else { return wrong("is longer than the archive") };
        if entry.name == TABLESPACE_MAP && entry.size > 0 {
            return wrong("names tablespaces, which no base backup of Causeway has");
        }
        if let Some(why) = further(&entry) {
            return wrong(why);
        }
        // A hash is enough: a wrong match refuses an archive, and lets none in.
        let mut hasher = DefaultHasher::new();
        entry.name.hash(&mut hasher);
        if !seen.insert(hasher.finish()) && !entry.is_directory {
            return wrong("is there twice");
        }
        at = archive.seek(SeekFrom::Start(next))?;
    }
    Ok(Err(Mistake { entry: String::new(), why: "it ends too early" }))
}

/// Some programs go on after one block of zeros or after two, others do not.
fn rest_is_empty(mut archive: impl Read) -> io::Result<Result<(), Mistake>> {
    let mut bytes = [0; 16 * BLOCK];
    loop {
        match archive.read(&mut bytes)? {
            0 => return Ok(Ok(())),
            read if bytes[..read].iter().all(|byte| *byte == 0) => {}
            _ => return Ok(Err(Mistake { entry: String::new(), why: "there is more behind its end" })),
        }
    }
}

impl Entry {
    /// Reads a header, or returns why it is refused.
    fn read(header: &[u8; BLOCK]) -> Result<Self, &'static str> {
        if header[257..265] != *b"ustar\x0000" || octal(&header[148..156]) != Some(u64::from(sum_of(header))) {
            return Err("has a header of another format than pg_basebackup writes");
        }
        let is_directory = match header[156] {
            b'0' => false,
            b'5' => true,
            b'1' => return Err("is a hard link"),
            b'2' => return Err("is a symbolic link"),
            b'3' | b'4' | b'6' => return Err("is a device or a pipe"),
            _ => return Err("is neither a file nor a directory"),
        };
        if header[345..500].iter().any(|byte| *byte != 0) {
            return Err("has a header of another format than pg_basebackup writes");
        }
        let size = size(&header[124..136]).ok_or("has a size that is none")?;
        let name = header[..100].split(|byte| *byte == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name).map_err(|_| "has a name that is not UTF-8")?;
        if name.chars().any(char::is_control) {
            return Err("has control characters in its name");
        }
        let path = if is_directory { name.strip_suffix('/').unwrap_or(name) } else { name };
        if path.starts_with('/') || path.is_empty() {
            return Err("has no path within the data directory");
        }
        let parts: Vec<&str> = path.split('/').collect();
        if parts.iter().any(|part| part.is_empty() || *part == "..") {
            return Err("has a path that leaves the data directory");
        }
        let name = parts.into_iter().filter(|part| *part != ".").collect::<Vec<_>>().join("/");
        if name.is_empty() && !is_directory {
            return Err("has no path within the data directory");
        }
        if is_directory && size > 0 {
            return Err("is a directory with content");
        }
        Ok(Self { name, is_directory, size })
    }
}

/// A number of octal digits, with spaces or NULs behind them and none before.
fn octal(field: &[u8]) -> Option<u64> {
    let digits = field.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = field.split_at(digits);
    let ends = !rest.is_empty() && rest.iter().all(|byte| matches!(byte, 0 | b' '));
    u64::from_str_radix(std::str::from_utf8(number).ok()?, 8).ok().filter(|_| ends)
}

/// The size in a header: octal digits, or from 8 GiB on a binary number behind a byte with the highest bit.
fn size(field: &[u8]) -> Option<u64> {
    match field {
        [0x80, 0, 0, 0, rest @ ..] => Some(u64::from_be_bytes(rest.try_into().ok()?)),
        _ => octal(field),
    }
}

/// The beginning of a name, as a message may have it.
fn shown(name: &[u8]) -> String {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).escape_debug().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A header with that type, link and size.
    fn header(name: &str, kind: u8, link: &str, size: u64) -> Vec<u8> {
        let mut header = vec![0; BLOCK];
        let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
        put(0, name.as_bytes());
        put(100, b"0000600 0000000 0000000 ");
        put(124, format!("{size:011o} ").as_bytes());
        put(136, b"00000000000         ");
        put(156, &[kind]);
        put(157, link.as_bytes());
        put(257, b"ustar\x0000");
        summed(header)
    }

    fn summed(mut header: Vec<u8>) -> Vec<u8> {
        header[148..156].copy_from_slice(b"        ");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o} \0").as_bytes());
        header
    }

    fn file(name: &str, content: &[u8]) -> Vec<u8> {
        let mut all = header(name, b'0', "", content.len() as u64);
        all.extend(content);
        all.resize(all.len().next_multiple_of(BLOCK), 0);
        all
    }

    fn checked(parts: &[Vec<u8>]) -> Result<(), Mistake> {
        let mut all = parts.concat();
        all.extend([0; 2 * BLOCK]);
        let length = all.len() as u64;
        entries(Cursor::new(all), length, |_| None).expect("no disk takes part")
    }

    fn directory(name: &str) -> Vec<u8> {
        header(name, b'5', "", 0)
    }

    #[test]
    fn what_pg_basebackup_writes_is_taken() {
        let large = {
            let mut header = header("base/5/16384", b'0', "", 0);
            header[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
            [summed(header), b"abc".to_vec(), vec![0; BLOCK - 3]].concat()
        };
        let all = [
            file("backup_label", b"START WAL LOCATION: 0/2000028"),
            file(TABLESPACE_MAP, b""),
            directory("pg_wal/"),
            directory("./pg_wal/archive_status/"),
            directory("pg_tblspc/"),
            file("base/1/112", &[7; 1000]),
            large,
            file("global/pg_control", b"x"),
            file("postgresql.auto.conf.new", b"a plain file is overwritten"),
        ];
        assert_eq!(checked(&all), Ok(()));
    }

    #[test]
    fn paths_out_of_the_data_directory_are_refused() {
        let link = |name: &str| header(name, b'2', "/etc/passwd", 0);
        for (entry, words) in [
            (link("postgresql.auto.conf.new"), "symbolic link"),
            (link("postgresql.auto.conf"), "symbolic link"),
            (link("recovery.signal"), "symbolic link"),
            (link("causeway_wal"), "symbolic link"),
            (link("pg_wal"), "symbolic link"),
            (link("pg_tblspc/16400"), "symbolic link"),
            (header("base/1/1", b'1', "/etc/passwd", 0), "hard link"),
            (header("null", b'3', "", 0), "device"),
            (header("disk", b'4', "", 0), "device"),
            (header("pipe", b'6', "", 0), "pipe"),
            (header("sparse", b'S', "", 0), "neither"),
            (header("long", b'L', "", 0), "neither"),
            (header("extended", b'x', "", 0), "neither"),
            (header("old", 0, "", 0), "neither"),
            (file("/etc/passwd", b"x"), "no path within"),
            (file("../../etc/passwd", b"x"), "leaves"),
            (file("base/../../x", b"x"), "leaves"),
            (file("base/..", b"x"), "leaves"),
            (file("base//x", b"x"), "leaves"),
            (file("base/", b""), "leaves"),
            (directory("../"), "leaves"),
            (directory("/"), "no path within"),
            (file(".", b"x"), "no path within"),
            (file("", b"x"), "no path within"),
            (file("a\nb", b"x"), "control"),
            (file(TABLESPACE_MAP, b"16400 /etc\n"), "tablespaces"),
            (file("./tablespace_map", b"16400 /etc\n"), "tablespaces"),
            (header("pg_wal", b'5', "", 512), "directory with content"),
            (header("huge", b'0', "", 1 << 32), "longer than the archive"),
        ] {
            let name = shown(&entry[..100]);
            let mistake = checked(&[file("base/1/112", b"x"), entry]).expect_err(&name);
            assert!(mistake.why.contains(words), "{name}: {}", mistake.why);
            assert!(name.contains(&mistake.entry), "{name}: {mistake:?}");
        }
    }

    #[test]
    fn what_programs_read_in_different_ways_is_refused() {
        let twice = checked(&[file("a", b"x"), file("./a", b"y")]).expect_err("a name that is there twice");
        assert_eq!(twice, Mistake { entry: "a".into(), why: "is there twice" });
        let link = header("a", b'2', "/etc/passwd", 0);
        let behind = checked(&[vec![0; BLOCK], link.clone()]).expect_err("behind one block of zeros");
        assert_eq!(behind.why, "there is more behind its end");
        assert_eq!(checked(&[vec![0; 40 * BLOCK], link]).expect_err("far behind").why, "there is more behind its end");
        let cut = file("a", &[1; 600]);
        let length = cut.len() as u64;
        let cut = entries(Cursor::new(cut), length, |_| None).expect("no disk takes part");
        assert_eq!(cut.expect_err("it is cut").why, "it ends too early");
        let changed = |at: std::ops::Range<usize>, bytes: &[u8]| {
            let mut header = header("a", b'0', "", 0);
            header[at].copy_from_slice(bytes);
            summed(header)
        };
        let odd = [
            changed(257..265, b"ustar  \0"),
            changed(345..348, b"etc"),
            changed(124..136, b"+0000000000A"),
            changed(124..136, b" 0000000000 "),
            changed(124..136, &[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            changed(124..136, &[0xff; 12]),
        ];
        for header in odd {
            checked(&[header]).expect_err("another format");
        }
        let mut header = header("a", b'0', "", 0);
        header[0] = b'b';
        checked(&[header]).expect_err("another sum");
    }

    #[test]
    fn an_archive_of_the_log_has_files_alone() {
        let here = std::env::temp_dir().join(format!("causeway-archive-{}", std::process::id()));
        let check = |parts: &[Vec<u8>]| {
            std::fs::write(&here, [parts.concat(), vec![0; 2 * BLOCK]].concat()).unwrap();
            check_log(&here).map_err(|error| (error.reason().to_owned(), error.is_final(), error.to_string()))
        };
        assert_eq!(check(&[file("000000010000000000000001", b"x")]), Ok(()));
        for entry in [directory("x"), file("x/000000010000000000000001", b"x")] {
            let (reason, is_final, message) = check(&[entry]).unwrap_err();
            assert_eq!((reason.as_str(), is_final), ("ArchiveRefused", true));
            assert!(message.contains("entry \"x") && message.contains("causeway-archive-"), "{message}");
        }
        std::fs::remove_file(here).unwrap();
    }
}
