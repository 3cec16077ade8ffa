//! Where a cluster keeps what, and what its room says about itself.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::host;

/// The files of one cluster; whether it runs or not.
pub struct State {
    name: String,
    path: PathBuf,
}

/// What the room wrote last.
#[derive(Deserialize)]
pub struct Status {
    pub phase: Phase,
    /// What is waited for while starting, the reason when failed.
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
    /// The files of this checkout's cluster of that name.
    pub fn of(name: &str) -> Result<Self> {
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

    /// The name of the cluster's control groups. They are the machine's, not the checkout's or the cache's: the whole
    /// path counts.
    pub fn cgroup(&self) -> String {
        format!("causeway-{}-{}", self.name, host::hash_of_path(&self.path))
    }

    /// What the room says, if it ever said anything.
    pub fn status(&self) -> Option<Status> {
        serde_json::from_slice(&fs::read(self.path.join("status.json")).ok()?).ok()
    }

    /// How long the cluster has been in its phase.
    pub fn age(&self) -> Option<Duration> {
        let written = self.path.join("status.json").metadata().ok()?.modified().ok()?;
        SystemTime::now().duration_since(written).ok()
    }

    /// Keeps other tasks from starting or ending the cluster until the lock is dropped; `busy` is called if one
    /// of them has to be waited for.
    pub fn lock(&self, busy: impl FnOnce()) -> Result<Lock> {
        // Beside the directory, which comes and goes.
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
            // Who held it may have removed the file meanwhile: then the lock is on nothing that others see.
            if path.metadata().is_ok_and(|there| file.metadata().is_ok_and(|ours| there.ino() == ours.ino())) {
                return Ok(Lock { file, path });
            }
        }
    }
}

/// The right to start or end a cluster.
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Gives the lock back and leaves no file behind.
    pub fn remove(self) -> Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))?;
        drop(self.file);
        Ok(())
    }
}
