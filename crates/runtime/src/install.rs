//! `causeway install`: copies this program so that it runs in any image.
//!
//! Dumps are made by the database's own programs, which are in the database's own image, and there our program has to run
//! beside them. It is copied into a volume that both containers see. Where it is linked dynamically, its loader and its
//! libraries go with it, and that loader starts the copy: the other image may have another C library, an older one, or none.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Where it is installed in pods.
pub const DIRECTORY: &str = "/causeway";
/// The program in that directory.
const PROGRAM: &str = "causeway";
/// The directory of its libraries.
const LIBRARIES: &str = "lib";
/// The certificates of public authorities that it trusts: the other image may have none.
pub const CERTIFICATES: &str = "certificates.pem";
/// A list of users that names the one of the pod: some programs of databases do not work for a user without a name.
pub const USERS: &str = "passwd";

/// The copied loader in that directory.
const LOADER: &str = "ld.so";
/// True if this program needs no loader.
const IS_STATIC: bool = cfg!(target_feature = "crt-static");
/// Where Debian and most others keep the certificates.
const USUAL_CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// So many bytes are copied before they are written to the disk. Pages that are yet to be written count as the container's
/// memory, and with cgroup v1 no write waits for them: a container with a small limit would be killed by its copy.
/// <https://docs.kernel.org/admin-guide/cgroup-v1/memory.html>
const PIECE: u64 = 8 << 20;

/// The reasons why it could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
    /// The program is linked dynamically, and what loaded it is not among the files that are mapped.
    #[error("/proc/self/maps does not name the loader that this program was started with")]
    NoLoader,
}

/// The command that starts the installed program: through its loader, unless it is linked statically. The operator asks its
/// own build for that, because the image that Jobs install from is built in the same way.
#[must_use]
pub fn command() -> Vec<String> {
    let program = format!("{DIRECTORY}/{PROGRAM}");
    if IS_STATIC {
        return vec![program];
    }
    vec![format!("{DIRECTORY}/{LOADER}"), "--library-path".into(), format!("{DIRECTORY}/{LIBRARIES}"), program]
}

/// Installs the running program into a directory.
pub fn install(directory: &Path) -> Result<(), InstallError> {
    copy(Path::new("/proc/self/exe"), &directory.join(PROGRAM))?;
    if !IS_STATIC {
        let libraries = directory.join(LIBRARIES);
        fs::create_dir_all(&libraries).map_err(|source| InstallError::File { path: libraries.clone(), source })?;
        let maps = Path::new("/proc/self/maps");
        let text = fs::read_to_string(maps).map_err(|source| InstallError::File { path: maps.into(), source })?;
        let found = libraries_in(&text);
        copy(found.iter().find(|path| is_loader(path)).ok_or(InstallError::NoLoader)?, &directory.join(LOADER))?;
        for library in found {
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

/// Reports whether a library is glibc's loader, such as `ld-linux-x86-64.so.2` or, of old versions, `ld-2.31.so`.
fn is_loader(library: &Path) -> bool {
    library.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("ld-"))
}

/// Copies a library under all names that it has in its own directory: a program may ask for a symbolic link to the file.
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

fn copy(from: &Path, to: &Path) -> Result<(), InstallError> {
    // An earlier try of the same pod may have left a file that cannot be written to.
    let _ = fs::remove_file(to);
    copy_in_pieces(from, to).map_err(|source| InstallError::File { path: to.to_owned(), source })
}

fn copy_in_pieces(from: &Path, to: &Path) -> io::Result<()> {
    let original = File::open(from)?;
    let mut copy = File::create(to)?;
    while io::copy(&mut (&original).take(PIECE), &mut copy)? > 0 {
        copy.sync_data()?;
    }
    copy.set_permissions(original.metadata()?.permissions())
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
    fn a_copy_runs_with_its_own_loader_and_libraries() {
        let directory = std::env::temp_dir().join(format!("causeway-install-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        install(&directory).unwrap();
        let placed = |it: &String| it.strip_prefix(DIRECTORY).map(|rest| format!("{}{rest}", directory.display()));
        let here: Vec<String> = command().iter().map(|it| placed(it).unwrap_or_else(|| it.clone())).collect();
        let run =
            || Command::new(&here[0]).args(&here[1..]).args(["--list", "--exact", "nothing"]).env_clear().output();
        let message = run().unwrap();
        assert!(message.status.success(), "{message:?}");
        if !IS_STATIC {
            assert!(directory.join(LIBRARIES).join("libc.so.6").exists());
            fs::remove_file(directory.join(LOADER)).unwrap();
            assert!(run().is_err(), "it begins with the copied loader");
        }
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_loader_is_told_from_other_libraries() {
        let is = |path: &str| is_loader(Path::new(path));
        assert!(is("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2") && is("/lib/ld-2.31.so"));
        assert!(!is("/usr/lib/x86_64-linux-gnu/libc.so.6") && !is("/usr/lib/libld-x.so"));
    }
}
