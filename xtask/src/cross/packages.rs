//! Debian packages of any architecture. They are downloaded and unpacked with a separate state of apt, not with this
//! machine's.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::architecture::Architecture;
use crate::progress::Step;
use crate::release::contents::DebianPackage;
use crate::{host, tools};

/// The Debian release of the packages. The program is linked to its glibc.
pub const SUITE: &str = "bookworm";

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A download of packages for one architecture. `home` keeps the package lists.
pub struct Download<'a> {
    pub architecture: Architecture,
    pub home: &'a Path,
}

/// A downloaded package.
pub struct Package {
    /// Name and version.
    pub described: DebianPackage,
    archive: PathBuf,
    /// The output of `dpkg-deb --contents`.
    contents: String,
}

impl Download<'_> {
    /// Downloads the newest versions, without their dependencies.
    pub fn run(&self, names: &[&str], step: &Step) -> Result<Vec<Package>> {
        if !host::on_path("apt-get") || !host::on_path("dpkg-deb") {
            bail!("apt-get and dpkg-deb are missing: this needs a Debian-like machine");
        }
        if !Path::new(KEYRING).is_file() {
            host::install_packages(step, &["debian-archive-keyring"])?;
        }
        let folder = self.home.join("packages");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        for folder in [folder.clone(), self.home.join("lists/partial"), self.home.join("cache/archives/partial")] {
            fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        fs::write(self.home.join("status"), "").context("cannot write apt's state")?;
        fs::write(self.home.join("sources.list"), sources()).context("cannot write apt's sources")?;
        let log = self.home.join("apt-get.log");
        step.run(self.apt_get().arg("update"), &log)?;
        step.run(self.apt_get().arg("download").args(names).current_dir(&folder), &log)?;
        let mut archives = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            archives.push(entry?.path());
        }
        archives.sort();
        archives.into_iter().map(Package::read).collect()
    }

    /// apt-get, with a separate architecture, and separate sources and packages.
    fn apt_get(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.arg("--quiet");
        let mut set = |name: &str, value: OsString| {
            let mut setting = OsString::from(format!("{name}="));
            setting.push(value);
            command.arg("-o").arg(setting);
        };
        for name in ["APT::Architecture", "APT::Architectures"] {
            set(name, self.architecture.name().into());
        }
        set("Dir::State::lists", self.home.join("lists").into());
        set("Dir::State::status", self.home.join("status").into());
        set("Dir::Cache", self.home.join("cache").into());
        set("Dir::Etc::sourcelist", self.home.join("sources.list").into());
        set("Dir::Etc::sourceparts", "-".into());
        // apt's own user may not be able to read the folders that a checkout lies in.
        set("APT::Sandbox::User", "root".into());
        // A list that cannot be fetched is an error, because an old list may name packages that have been replaced.
        set("APT::Update::Error-Mode", "any".into());
        set("Acquire::Languages", "none".into());
        set("Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", "false".into());
        command
    }
}

impl Package {
    fn read(archive: PathBuf) -> Result<Self> {
        let mut show = Command::new("dpkg-deb");
        let shown = tools::output_of(show.args(["--show", "--showformat=${Package} ${Version}"]).arg(&archive))?;
        let (name, version) = shown.split_once(' ').with_context(|| format!("dpkg-deb says {shown:?}"))?;
        let described = DebianPackage { name: name.to_owned(), version: version.to_owned() };
        let contents = tools::output_of(Command::new("dpkg-deb").arg("--contents").arg(&archive))?;
        Ok(Self { described, archive, contents })
    }

    /// Unpacks it into a folder, or only one of its files.
    pub fn unpack(&self, into: &Path, only: Option<&str>) -> Result<()> {
        fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
        let mut read =
            Command::new("dpkg-deb").arg("--fsys-tarfile").arg(&self.archive).stdout(Stdio::piped()).spawn()?;
        let files = read.stdout.take().context("dpkg-deb has no output")?;
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--no-same-owner", "--directory"]).arg(into).args(only).stdin(files);
        let unpacked = tools::output_of(&mut tar);
        let ended = read.wait()?;
        unpacked.with_context(|| format!("cannot unpack {}", self.archive.display()))?;
        if !ended.success() {
            bail!("dpkg-deb {} ended with {ended}", self.archive.display());
        }
        Ok(())
    }

    /// Whether it has a file or link of that path.
    pub fn has(&self, path: &Path) -> bool {
        lists(&self.contents, path)
    }
}

/// Whether the output of `dpkg-deb --contents` has that path.
fn lists(contents: &str, path: &Path) -> bool {
    let path = format!(" .{}", path.display());
    contents.lines().any(|line| line.split(" -> ").next().is_some_and(|file| file.ends_with(&path)))
}

/// The sources of apt: the release and its updates.
fn sources() -> String {
    let source =
        |folder: &str, suite: &str| format!("deb [signed-by={KEYRING}] http://deb.debian.org/{folder} {suite} main\n");
    source("debian", SUITE) + &source("debian-security", &format!("{SUITE}-security"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_owns_its_files_and_links() {
        let contents = "-rwxr-xr-x root/root 1 2025-01-01 00:00 ./lib/aarch64-linux-gnu/libc.so.6\n\
                        lrwxrwxrwx root/root 0 2025-01-01 00:00 ./lib/ld-linux-aarch64.so.1 -> aarch64-linux-gnu/ld.so\n";
        assert!(lists(contents, Path::new("/lib/aarch64-linux-gnu/libc.so.6")));
        assert!(lists(contents, Path::new("/lib/ld-linux-aarch64.so.1")));
        assert!(!lists(contents, Path::new("/libc.so.6")));
        assert!(!lists(contents, Path::new("/lib/aarch64-linux-gnu/libgcc_s.so.1")));
    }
}
