//! Builds the operator for another architecture: zig compiles and links C, and qemu runs the result.

mod packages;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::packages::{Download, Package};
use crate::architecture::Architecture;
use crate::images::operator;
use crate::progress::Step;
use crate::release::contents::DebianPackage;
use crate::{cargo, host, python, tools};

/// The glibc of Debian 12, the newest that the program may need.
const GLIBC: &str = "2.36";
/// The packages that a program may be linked to.
const LIBRARIES: &[&str] = &["libc6", "libgcc-s1"];
/// zig's program in a Python environment.
const ZIG: &str = "lib/python3.11/site-packages/ziglang/zig";

/// Everything needed to compile for another architecture, and to run the result.
pub struct Cross {
    architecture: Architecture,
    /// The environment with zig and cargo-zigbuild.
    compiler: PathBuf,
    emulator: PathBuf,
    /// A folder with the other architecture's libraries, at the paths where its programs look for them.
    root: PathBuf,
    packages: Vec<Package>,
}

impl Cross {
    /// Fetches everything before the long compilation begins.
    pub fn prepare(architecture: Architecture, step: &Step) -> Result<Self> {
        let own = Architecture::native()?;
        if (own, architecture) != (Architecture::Amd64, Architecture::Arm64) {
            bail!("{own} machines make nothing for {architecture}: run the same command on an {architecture} machine");
        }
        host::require(&[host::Requirement::Linux, host::Requirement::Cargo, host::Requirement::Python])?;
        let otherwise = format!("or run the same command on an {architecture} machine");
        install_target(architecture.target(), step)?;
        let compiler = compiler(step).with_context(|| {
            format!("zig cannot be installed, which links for {architecture}: let this machine reach PyPI, {otherwise}")
        })?;
        let emulator = emulator(own, architecture, step).with_context(|| {
            format!("qemu cannot be had, which tries the program: let this machine reach deb.debian.org, {otherwise}")
        })?;
        let (root, packages) = libraries(architecture, step).with_context(|| {
            format!("glibc for {architecture} cannot be had: let this machine reach deb.debian.org, {otherwise}")
        })?;
        Ok(Self { architecture, compiler, emulator, root, packages })
    }

    /// The target architecture.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Compiles the operator in that profile, and returns the path of the program.
    pub fn build(&self, profile: &str, step: &Step) -> Result<PathBuf> {
        host::install_build_tools(step)?;
        step.note(format!("compiling the operator for {}", self.architecture));
        let (target, folder) = (self.architecture.target(), operator::target_directory()?);
        let mut build = Command::new(self.compiler.join("bin/cargo-zigbuild"));
        build.args(["zigbuild", "--profile", profile, "--locked", "--package", "causeway", "--bin", "causeway"]);
        build.arg("--target").arg(format!("{target}.{GLIBC}")).current_dir(host::repo_root()?);
        build.env("CARGO_ZIGBUILD_ZIG_PATH", self.compiler.join(ZIG));
        let log = home()?.join(format!("build-{}.log", self.architecture));
        cargo::run(&mut build, &format!("the operator for {}", self.architecture), &log, step)?;
        Ok(folder.join(target).join(profile).join("causeway"))
    }

    /// Fails unless the program starts: a linker may produce a file that no loader accepts.
    pub fn try_out(&self, binary: &Path, step: &Step) -> Result<()> {
        step.note(format!("starting the program for {} by qemu", self.architecture));
        for (option, wanted) in [("--version", "causeway "), ("--help", "Usage: ")] {
            let said = tools::output_of(self.run().arg(binary).arg(option))
                .with_context(|| format!("{} does not start on {}", binary.display(), self.architecture))?;
            if !said.contains(wanted) {
                bail!("{} {option} on {} says {:?}", binary.display(), self.architecture, said.trim());
            }
        }
        Ok(())
    }

    /// The libraries that the other architecture's loader would load for that program, in the format of ldd.
    pub fn listing(&self, binary: &Path) -> Result<String> {
        // This is what ldd does; ldd itself cannot start a program of another architecture.
        tools::output_of(self.run().args(["-E", "LD_TRACE_LOADED_OBJECTS=1"]).arg(binary))
            .with_context(|| format!("cannot list the libraries of {}", binary.display()))
    }

    /// The path on this machine of a file of the other architecture's system.
    pub fn file(&self, path: &Path) -> Result<PathBuf> {
        let file = self.root.join(path.strip_prefix("/")?);
        if !file.is_file() {
            bail!("the program is linked to {}, which is in none of {}", path.display(), LIBRARIES.join(", "));
        }
        Ok(file)
    }

    /// The packages that contain those files.
    pub fn packages_of(&self, files: &[PathBuf]) -> BTreeSet<DebianPackage> {
        let owners = self.packages.iter().filter(|package| files.iter().any(|file| package.has(file)));
        owners.map(|package| package.described.clone()).collect()
    }

    fn run(&self) -> Command {
        let mut command = Command::new(&self.emulator);
        command.arg("-L").arg(&self.root);
        command
    }
}

/// Adds Rust's standard library for that target to the toolchain of this checkout.
fn install_target(target: &str, step: &Step) -> Result<()> {
    let root = host::repo_root()?;
    let mut ask = Command::new("rustc");
    let folder = tools::output_of(ask.args(["--print", "target-libdir", "--target", target]).current_dir(&root))?;
    if Path::new(folder.trim()).is_dir() {
        return Ok(());
    }
    if !host::on_path("rustup") {
        bail!("Rust's library for {target} is missing, and so is rustup: install either (https://rustup.rs)");
    }
    step.note(format!("rustup target add {target}"));
    tools::output_of(Command::new("rustup").args(["target", "add", target]).current_dir(&root)).map(drop).with_context(
        || format!("Rust's library for {target} cannot be installed: let this machine reach static.rust-lang.org"),
    )
}

/// The environment with zig and cargo-zigbuild; created if it is not in the cache.
fn compiler(step: &Step) -> Result<PathBuf> {
    let lock = host::repo_root()?.join("xtask/cross/requirements.lock");
    python::cached("zig", &lock, "zig and cargo-zigbuild", step)
}

/// qemu's program for that architecture, from Debian's package, which does not have to be installed.
fn emulator(own: Architecture, architecture: Architecture, step: &Step) -> Result<PathBuf> {
    let name = architecture.emulator();
    let made = host::cache_dir()?.join("qemu").join(packages::SUITE);
    host::made_once(&made, "qemu", step, |new| {
        step.note("downloading qemu");
        let download = Download { architecture: own, home: &home()?.join("qemu") };
        for package in download.run(&["qemu-user-static"], step)? {
            package.unpack(new, Some(&format!("./usr/bin/{name}")))?;
        }
        Ok(())
    })?;
    Ok(made.join("usr/bin").join(name))
}

/// A folder with the current versions of the libraries that programs are linked to, and their packages.
fn libraries(architecture: Architecture, step: &Step) -> Result<(PathBuf, Vec<Package>)> {
    let home = home()?.join(architecture.name());
    let root = home.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("cannot remove {}", root.display()))?;
    }
    step.note(format!("downloading {} for {architecture}", LIBRARIES.join(" and ")));
    let packages = Download { architecture, home: &home }.run(LIBRARIES, step)?;
    packages.iter().try_for_each(|package| package.unpack(&root, None))?;
    Ok((root, packages))
}

/// The directory for other architectures, inside Cargo's target directory.
fn home() -> Result<PathBuf> {
    let home = operator::target_directory()?.join("cross");
    fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
    Ok(home)
}
