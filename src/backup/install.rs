//! `causeway install`: this program, made to run in any image.
//!
//! Dumps are made by the database's own programs, which are in the database's own image, and there our program has to run
//! beside them. It is copied into a volume that both containers see. Where it is linked dynamically, its loader and its
//! libraries go with it, and the copy is told to begin with that loader: the other image may have another C library, an
//! older one, or none.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Where it is installed in pods.
pub const DIRECTORY: &str = "/causeway";
/// The program in that directory.
pub const PROGRAM: &str = "causeway";
/// Its libraries.
pub const LIBRARIES: &str = "lib";
/// The certificates of public authorities that it trusts: the other image may have none.
pub const CERTIFICATES: &str = "certificates.pem";
/// A list of users with the one that the pod runs as: some programs of databases do not work for one without a name.
pub const USERS: &str = "passwd";

/// The loader.
const LOADER: &str = "ld.so";
/// Where Debian and most others keep the certificates.
const USUAL_CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Bytes of the header of an ELF file of 64 bits.
/// <https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html>
const HEADER: usize = 64;
/// Type of the program header that names the loader.
const INTERPRETER: u32 = 3;

/// Why it could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A file.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The program is of a form that cannot be changed.
    #[error("the program cannot be made to run elsewhere: {0}")]
    Form(&'static str),
}

/// Installs the program that runs.
pub fn install(directory: &Path) -> Result<(), InstallError> {
    let running = Path::new("/proc/self/exe");
    let program = directory.join(PROGRAM);
    copy(running, &program)?;
    let loader = directory.join(LOADER);
    if let Some(theirs) = begin_with(&program, &loader)? {
        copy(&theirs, &loader)?;
        let libraries = directory.join(LIBRARIES);
        fs::create_dir_all(&libraries).map_err(|source| InstallError::File { path: libraries.clone(), source })?;
        let maps = Path::new("/proc/self/maps");
        let text = fs::read_to_string(maps).map_err(|source| InstallError::File { path: maps.into(), source })?;
        for library in libraries_in(&text) {
            place(&library, &libraries)?;
        }
    }
    let user_provided = std::env::var_os("SSL_CERT_FILE").map_or_else(|| USUAL_CERTIFICATES.into(), PathBuf::from);
    let certificates = directory.join(CERTIFICATES);
    if user_provided.exists() {
        copy(&user_provided, &certificates)?;
    } else {
        write(&certificates, "")?;
    }
    write(&directory.join(USERS), "root:x:0:0:root:/root:/sbin/nologin\ncauseway:x:65532:65532::/tmp:/sbin/nologin\n")
}

/// Shared libraries of a process, by the list of what is mapped into its memory.
fn libraries_in(maps: &str) -> BTreeSet<PathBuf> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let is_library = |path: &&str| path.rsplit('/').next().is_some_and(|name| name.contains(".so"));
    paths.filter(is_library).map(PathBuf::from).collect()
}

/// Copies a library under all names that it has where it is: programs ask for one of them, and not always for its file's.
fn place(library: &Path, directory: &Path) -> Result<(), InstallError> {
    let failed = |source| InstallError::File { path: library.to_owned(), source };
    let file = library.canonicalize().map_err(failed)?;
    let home = file.parent().unwrap_or(Path::new("/"));
    for entry in fs::read_dir(home).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_it = path.canonicalize().is_ok_and(|canonical| canonical == file);
        if let Some(name) = path.file_name().filter(|_| is_it) {
            copy(&file, &directory.join(name))?;
        }
    }
    Ok(())
}

/// Has the program begin with the loader at that path. Gives the one that it began with; none where it needs none.
fn begin_with(program: &Path, loader: &Path) -> Result<Option<PathBuf>, InstallError> {
    let failed = |source| InstallError::File { path: program.to_owned(), source };
    let mut file = OpenOptions::new().read(true).write(true).open(program).map_err(failed)?;
    let mut header = [0; HEADER];
    file.read_exact(&mut header).map_err(failed)?;
    let (at, size, count) = headers_in(&header)?;
    let mut table = vec![0; size * count];
    file.seek(SeekFrom::Start(at)).map_err(failed)?;
    file.read_exact(&mut table).map_err(failed)?;
    let Some((at, size)) = interpreter_in(&table, size) else { return Ok(None) };
    let mut path = vec![0; size];
    file.seek(SeekFrom::Start(at)).map_err(failed)?;
    file.read_exact(&mut path).map_err(failed)?;
    let before = String::from_utf8_lossy(&path).trim_end_matches('\0').to_owned();
    let mut after = loader.to_string_lossy().into_owned().into_bytes();
    if after.len() >= size {
        return Err(InstallError::Form("the directory's path is longer than that of its loader: name a shorter one"));
    }
    after.resize(size, 0);
    file.seek(SeekFrom::Start(at)).map_err(failed)?;
    file.write_all(&after).map_err(failed)?;
    Ok(Some(PathBuf::from(before)))
}

/// Where the program headers are, the size of one, and how many there are.
fn headers_in(header: &[u8; HEADER]) -> Result<(u64, usize, usize), InstallError> {
    // Magic number, 64 bits, little endian.
    if header[..6] != *b"\x7fELF\x02\x01" {
        return Err(InstallError::Form("it is no ELF file of 64 bits, little endian"));
    }
    let at = number(&header[32..40]);
    let [size, count] = [54, 56].map(|at| usize::from(u16::from_le_bytes([header[at], header[at + 1]])));
    if size < 56 { Err(InstallError::Form("its headers are too short")) } else { Ok((at, size, count)) }
}

/// Where the loader's path is, and how long it is.
fn interpreter_in(table: &[u8], size: usize) -> Option<(u64, usize)> {
    let mut headers = table.chunks_exact(size);
    let header = headers.find(|header| header[..4] == INTERPRETER.to_le_bytes())?;
    // No path is longer.
    let length = usize::try_from(number(&header[32..40])).ok().filter(|length| (1..=4096).contains(length))?;
    Some((number(&header[8..16]), length))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn copy(from: &Path, to: &Path) -> Result<(), InstallError> {
    // An earlier try of the same pod may have left one that cannot be written to.
    let _ = fs::remove_file(to);
    fs::copy(from, to).map(drop).map_err(|source| InstallError::File { path: to.to_owned(), source })
}

fn write(path: &Path, text: &str) -> Result<(), InstallError> {
    let written = File::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| InstallError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn libraries_are_what_is_mapped_and_nothing_else() {
        let maps = "5581 r-xp 0000 fe:00 1 /usr/local/bin/causeway\n\
                    7f01 r--p 0000 fe:00 2 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f02 r-xp 0000 fe:00 2 /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f03 rw-p 0000 00:00 0 [heap]\n";
        let found: Vec<PathBuf> = libraries_in(maps).into_iter().collect();
        assert_eq!(found, [PathBuf::from("/usr/lib/x86_64-linux-gnu/libc.so.6")]);
    }

    #[test]
    fn a_copy_runs_with_a_loader_and_libraries_of_its_own() {
        // Short, for it has to fit where the loader's path was.
        let directory = PathBuf::from(format!("/tmp/cw{}", std::process::id() % 100_000));
        fs::create_dir_all(&directory).unwrap();
        install(&directory).unwrap();
        let program = directory.join(PROGRAM);
        let dynamic = directory.join(LOADER).exists();
        let message = Command::new(&program)
            .args(["--list", "--exact", "nothing"])
            .env_clear()
            .env("LD_LIBRARY_PATH", directory.join(LIBRARIES))
            .output();
        let message = message.unwrap();
        assert!(message.status.success(), "{message:?}");
        if dynamic {
            assert!(directory.join(LIBRARIES).join("libc.so.6").exists());
            fs::remove_file(directory.join(LOADER)).unwrap();
            assert!(Command::new(&program).arg("--list").output().is_err(), "it begins with the copied loader");
        }
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert!(headers_in(&[0; HEADER]).is_err());
        assert_eq!(interpreter_in(&[0; 112], 56), None);
    }
}
