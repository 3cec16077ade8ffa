//! The files of a cluster, and the state that its room reports.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::host;

/// The files of one cluster, whether it runs or not.
pub struct State {
    name: String,
    path: PathBuf,
}

/// The latest status that the room wrote.
#[derive(Deserialize)]
pub struct Status {
    pub phase: Phase,
    /// The step that start-up waits for, or the reason of a failure.
    pub detail: String,
    pub server: String,
    pub node: String,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Starting,
    Ready,
    Failed,
}

impl State {
    /// The files of the cluster of that name in this checkout.
    pub fn for_cluster(name: &str) -> Result<Self> {
        let fits = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-';
        if name.is_empty() || name.len() > 20 || !name.chars().all(fits) {
            bail!("`{name}` cannot name a cluster: use up to 20 of a-z, 0-9 and -");
        }
        let directory = host::cache_dir()?.join("clusters");
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let directory = directory.canonicalize()?;
        let path = directory.join(format!("{name}-{}", host::hash_of_path(&host::repo_root()?)));
        Ok(Self { name: name.to_owned(), path })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// The name of the cluster's control groups. Control groups belong to the machine, not to a checkout or cache, so
    /// the name depends on the whole path.
    pub fn cgroup(&self) -> String {
        format!("causeway-{}-{}", self.name, host::hash_of_path(&self.path))
    }

    /// The room's status, if it has written one.
    pub fn status(&self) -> Option<Status> {
        serde_json::from_slice(&fs::read(self.path.join("status.json")).ok()?).ok()
    }

    /// How long the cluster has been in its phase.
    pub fn age(&self) -> Option<Duration> {
        let written = self.path.join("status.json").metadata().ok()?.modified().ok()?;
        SystemTime::now().duration_since(written).ok()
    }

    /// Keeps other tasks from starting or ending the cluster until the lock is dropped. Calls `busy` if it has to wait
    /// for one of them.
    pub fn lock(&self, busy: impl FnOnce()) -> Result<Lock> {
        // Beside the directory, because that is created and removed.
        let path = self.path.with_extension("lock");
        let mut busy = Some(busy);
        loop {
            let file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
            if file.try_lock().is_err() {
                if let Some(busy) = busy.take() {
                    busy();
                }
                file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
            }
            // The former holder may have removed the file meanwhile. Then the lock is on a file that no other process sees.
            if path.metadata().is_ok_and(|there| file.metadata().is_ok_and(|ours| there.ino() == ours.ino())) {
                return Ok(Lock { file, path });
            }
        }
    }
}

/// The exclusive right to start or end a cluster.
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Releases the lock and removes its file.
    pub fn remove(self) -> Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))?;
        drop(self.file);
        Ok(())
    }
}
