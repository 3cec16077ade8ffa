//! Images of other people's software, made from Debian packages: the names that manifests use, and nothing pulled from outside.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::Image;
use crate::cluster::Cluster;
use crate::host;
use crate::progress::Step;

const SUITE: &str = "bookworm";

/// How mmdebstrap goes about it: files only, no scripts of the packages, nothing that a container has no use for.
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

/// How an image is made. Another one is another entry of [`RECIPES`].
#[derive(Debug)]
pub struct Recipe {
    /// Name and tag as users write them.
    name: &'static str,
    /// Debian packages; what they depend on comes along.
    packages: &'static [&'static str],
    /// Files beside those of the packages: path, content.
    files: &'static [(&'static str, &'static str)],
    entrypoint: &'static [&'static str],
    command: &'static [&'static str],
    /// Empty: root.
    user: &'static str,
    stop_signal: &'static str,
}

/// Every image that the demo and the tests use.
pub const RECIPES: &[Recipe] = &[Recipe {
    name: "nginx:latest",
    packages: &["nginx", "base-files", "coreutils", "dash"],
    files: &[
        ("etc/nginx/nginx.conf", include_str!("nginx.conf")),
        (
            "etc/passwd",
            "root:x:0:0:root:/root:/bin/sh\nnginx:x:101:101::/nonexistent:/bin/false\n\
             nobody:x:65534:65534::/nonexistent:/bin/false\n",
        ),
        ("etc/group", "root:x:0:\nnginx:x:101:\nnogroup:x:65534:\n"),
    ],
    entrypoint: &[],
    command: &["nginx", "-g", "daemon off;"],
    user: "",
    stop_signal: "SIGQUIT",
}];

/// Pushes every image into the cluster's registry.
pub fn push_all(cluster: &Cluster, step: &Step) -> Result<()> {
    RECIPES.iter().try_for_each(|recipe| prepare(recipe, step)?.push(cluster, step).map(drop))
}

/// Makes the layers of `recipe`, or finds them in the cache, where they lie under the recipe's hash.
pub fn prepare(recipe: &Recipe, step: &Step) -> Result<Image> {
    let cache = host::cache_dir()?.join("rootfs");
    let made = cache.join(recipe.hash());
    if !made.exists() {
        step.note(format!("making {} from Debian packages", recipe.name));
        // Every process works in its own place: another one may be making the same image.
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
        step.run(
            Command::new("mmdebstrap")
                .args(METHOD)
                .arg(format!("--include={}", self.packages.join(",")))
                .arg(SUITE)
                .arg(directory.join(PACKAGES)),
            &directory.join("mmdebstrap.log"),
        )
    }

    /// Changes with everything that the image is made from.
    fn hash(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{SUITE} {METHOD:?} {self:?}"));
        hash.finalize().iter().take(8).fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
