//! The data directories of a member. New data replace its own as a whole, or not at all.
//!
//! ```text
//! data/       the data that the member runs with
//! data-new/   the new data; complete once they have a note with the name of the recovery
//! data-old/   the former data, until the new data are in their place
//! ```

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::Error;

/// The path of the note, in a directory where etcd ignores files that it did not create.
const NOTE: &str = "member/begun-anew";
/// The directory of etcd's log.
const LOG: &str = "member/wal";

/// The data directories, and the recovery's name.
pub struct Place {
    data: PathBuf,
    new: PathBuf,
    old: PathBuf,
    recovery: String,
}

impl Place {
    /// Names the directories of a member, for a recovery.
    pub fn new(data: &Path, recovery: &str) -> Self {
        let beside = |end: &str| {
            let mut name = data.file_name().unwrap_or_default().to_owned();
            name.push(end);
            data.with_file_name(name)
        };
        Self { data: data.to_owned(), new: beside("-new"), old: beside("-old"), recovery: recovery.to_owned() }
    }

    /// Returns the path at which to create the new data.
    pub fn new_data(&self) -> PathBuf {
        self.new.clone()
    }

    /// Returns true if the member's data come from this recovery.
    pub fn is_done(&self) -> Result<bool, Error> {
        Ok(note_in(&self.data)?.as_ref() == Some(&self.recovery))
    }

    /// Returns true if a member has run on the data. Without a log, etcd begins an empty cluster, also with
    /// `--force-new-cluster`. A database says nothing: etcd makes one before it finds out that it may not start.
    /// <https://github.com/etcd-io/etcd/blob/v3.6.0/server/etcdserver/bootstrap.go> (`bootstrapCluster`)
    pub fn has_log(&self) -> Result<bool, Error> {
        let path = self.data.join(LOG);
        let files = match fs::read_dir(&path) {
            Ok(files) => files,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(Error::File { path, source }),
        };
        for file in files {
            let file = file.map_err(|source| Error::File { path: path.clone(), source })?;
            if file.path().extension().is_some_and(|extension| extension == "wal") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Marks the new data as complete.
    pub fn complete(&self) -> Result<(), Error> {
        let path = self.new.join(NOTE);
        let write = || {
            let mut file = File::create(&path)?;
            file.write_all(self.recovery.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|source| Error::File { path: path.clone(), source })?;
        keep(&self.new.join("member"))?;
        keep(&self.new)
    }

    /// Replaces the member's data by complete new data. If the member's data are missing, new data of any recovery are
    /// used: a process was killed between two steps.
    pub fn finish(&self) -> Result<(), Error> {
        if let Some(recovery) = note_in(&self.new)? {
            if exists(&self.data)? {
                if recovery != self.recovery {
                    return Ok(());
                }
                remove(&self.old)?;
                rename(&self.data, &self.old)?;
            }
            rename(&self.new, &self.data)?;
        }
        if self.is_done()? {
            remove(&self.old)?;
        }
        Ok(())
    }

    /// Removes everything beside the member's data.
    pub fn clear(&self) -> Result<(), Error> {
        remove(&self.new)?;
        remove(&self.old)
    }
}

/// Returns the recovery that the data come from, if they are complete.
fn note_in(directory: &Path) -> Result<Option<String>, Error> {
    let path = directory.join(NOTE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { path, source }),
    }
}

fn exists(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(|source| Error::File { path: path.to_owned(), source })
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::File { path: path.to_owned(), source: error }),
        _ => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(|source| Error::File { path: from.to_owned(), source })?;
    to.parent().map_or(Ok(()), keep)
}

/// Syncs a directory, so that its entries survive a power cut.
fn keep(directory: &Path) -> Result<(), Error> {
    let kept = File::open(directory).and_then(|directory| directory.sync_all());
    kept.map_err(|source| Error::File { path: directory.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with the data of a member, which is a file with a text. It is removed when this is dropped.
    struct Volume(PathBuf);

    impl Volume {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("causeway-place-{name}-{}", std::process::id()));
            remove(&path).unwrap();
            let volume = Self(path);
            volume.put("data", "old");
            volume
        }

        fn put(&self, directory: &str, text: &str) {
            let member = self.0.join(directory).join("member");
            fs::create_dir_all(&member).unwrap();
            fs::write(member.join("db"), text).unwrap();
        }

        fn place(&self, recovery: &str) -> Place {
            Place::new(&self.0.join("data"), recovery)
        }

        fn data(&self) -> String {
            fs::read_to_string(self.0.join("data/member/db")).unwrap()
        }

        /// Lists the names of everything beside the data.
        fn names_beside(&self) -> Vec<String> {
            let names = fs::read_dir(&self.0).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name != "data").collect()
        }
    }

    impl Drop for Volume {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn data_that_are_whole_take_the_place_once() {
        let volume = Volume::new("once");
        let place = volume.place("one");
        place.finish().unwrap();
        assert!(!place.is_done().unwrap());
        volume.put("data-new", "new");
        place.complete().unwrap();
        for _ in 0..2 {
            place.finish().unwrap();
            assert!(place.is_done().unwrap() && !volume.place("another").is_done().unwrap());
            assert_eq!((volume.data().as_str(), volume.names_beside()), ("new", Vec::new()));
        }
    }

    #[test]
    fn half_of_the_data_never_take_the_place() {
        let volume = Volume::new("half");
        volume.put("data-new", "half");
        let place = volume.place("one");
        place.finish().unwrap();
        assert!(!place.is_done().unwrap());
        place.clear().unwrap();
        assert_eq!((volume.data().as_str(), volume.names_beside()), ("old", Vec::new()));
    }

    #[test]
    fn a_crash_between_steps_leaves_old_data_or_new() {
        let volume = Volume::new("died");
        let place = volume.place("one");
        volume.put("data-new", "new");
        place.complete().unwrap();
        // Complete data of another recovery do not replace data that exist.
        volume.place("another").finish().unwrap();
        assert_eq!(volume.data(), "old");
        fs::rename(volume.0.join("data"), volume.0.join("data-old")).unwrap();
        // Now they are the only data.
        volume.place("another").finish().unwrap();
        assert_eq!(volume.data(), "new");
        assert!(place.is_done().unwrap());
        place.finish().unwrap();
        assert_eq!(volume.names_beside(), Vec::<String>::new());
    }
}
