//! Images of other people's software, made from Debian packages. They have the names that manifests use, and nothing is
//! pulled from a registry.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::{Image, redis, sql};
use crate::host;
use crate::progress::Step;

/// Options of mmdebstrap: only files, no scripts of packages, and nothing that a container does not need.
const METHOD: &[&str] = &[
    "--mode=root",
    "--variant=extract",
    "--skip=output/dev",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
];

/// The two layers of an image: packages, and the recipe's own files above them.
const PACKAGES: &str = "packages.tar.gz";
const FILES: &str = "files";

/// How an image is made. A new image needs a new entry in [`RECIPES`].
#[derive(Debug)]
pub struct Recipe {
    /// Name and tag as in manifests.
    pub name: &'static str,
    /// The Debian release of the packages.
    pub suite: &'static str,
    /// Debian packages; their dependencies are included.
    pub packages: &'static [&'static str],
    /// Files of the packages to leave out, as in dpkg's `path-exclude`.
    pub without: &'static [&'static str],
    /// Files beside those of the packages: path and content.
    pub files: &'static [(&'static str, &'static str)],
    /// Symbolic links beside those of the packages: path and target.
    pub links: &'static [(&'static str, &'static str)],
    pub entrypoint: &'static [&'static str],
    pub command: &'static [&'static str],
    /// Empty means root.
    pub user: &'static str,
    /// Empty means SIGTERM.
    pub stop_signal: &'static str,
    /// Created if the packages do not contain it, with write access for all users. Empty means `/`.
    pub working_directory: &'static str,
}

/// Every image that the demo and the tests use.
pub const RECIPES: &[Recipe] =
    &[NGINX, redis::REDIS_7, redis::REDIS_8, redis::VALKEY_8, redis::OLD_EXPORTER, sql::POSTGRES_15, sql::MARIADB_10];

/// Images for thorough tests only.
pub const THOROUGH: &[Recipe] = &[sql::MYSQL_9];

/// The Debian release under development. A mirror may lag behind by more than the lists' validity allows.
const UNSTABLE: &str = "sid";

const NGINX: Recipe = Recipe {
    name: "nginx:latest",
    suite: "bookworm",
    packages: &["nginx", "base-files", "coreutils", "dash"],
    without: &[],
    files: &[
        ("etc/nginx/nginx.conf", include_str!("nginx.conf")),
        (
            "etc/passwd",
            "root:x:0:0:root:/root:/bin/sh\nnginx:x:101:101::/nonexistent:/bin/false\n\
             nobody:x:65534:65534::/nonexistent:/bin/false\n",
        ),
        ("etc/group", "root:x:0:\nnginx:x:101:\nnogroup:x:65534:\n"),
    ],
    links: &[],
    entrypoint: &[],
    command: &["nginx", "-g", "daemon off;"],
    user: "",
    stop_signal: "SIGQUIT",
    working_directory: "",
};

/// Makes the layers of `recipe`, or finds them in the cache under the recipe's hash.
pub fn prepare(recipe: &Recipe, step: &Step) -> Result<Image> {
    let cache = host::cache_dir()?.join("rootfs");
    let made = cache.join(recipe.hash());
    if !made.exists() {
        step.note(format!("making {} from Debian packages", recipe.name));
        // Every process uses a directory of its own, because another one may be making the same image.
        let staging = cache.join(format!("{}.{}", recipe.hash(), std::process::id()));
        let result = recipe.make(&staging, step);
        if result.is_ok() && fs::rename(&staging, &made).is_err() && !made.exists() {
            bail!("cannot move {} to {}", staging.display(), made.display());
        }
        if staging.exists() {
            fs::remove_dir_all(&staging)?;
        }
        result?;
    }
    Ok(Image {
        name: recipe.name.to_owned(),
        layers: [PACKAGES, FILES].iter().map(|layer| made.join(layer).display().to_string()).collect(),
        entrypoint: owned(recipe.entrypoint),
        command: owned(recipe.command),
        user: recipe.user.to_owned(),
        stop_signal: recipe.stop_signal.to_owned(),
        working_directory: recipe.working_directory.to_owned(),
    })
}

impl Recipe {
    /// Makes the layers in `directory`.
    fn make(&self, directory: &Path, step: &Step) -> Result<()> {
        let files = directory.join(FILES);
        fs::create_dir_all(&files)?;
        for (path, content) in self.files {
            let path = files.join(path);
            let parent = path.parent().context("a recipe's file needs a directory")?;
            fs::create_dir_all(parent)?;
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
        for (path, target) in self.links {
            let path = files.join(path);
            fs::create_dir_all(path.parent().context("a recipe's link needs a directory")?)?;
            symlink(target, &path)?;
        }
        if !self.working_directory.is_empty() {
            let path = files.join(self.working_directory.trim_start_matches('/'));
            fs::create_dir_all(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
        }
        step.run(
            Command::new("mmdebstrap")
                .args(METHOD)
                .args((self.suite == UNSTABLE).then_some("--aptopt=Acquire::Check-Valid-Until \"false\""))
                .args(self.without.iter().map(|path| format!("--dpkgopt=path-exclude={path}")))
                .arg(format!("--include={}", self.packages.join(",")))
                .arg(self.suite)
                .arg(directory.join(PACKAGES)),
            &directory.join("mmdebstrap.log"),
        )
    }

    /// Changes with everything that the image is made from.
    fn hash(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{METHOD:?} {self:?}"));
        hex::encode(&hash.finalize()[..8])
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
