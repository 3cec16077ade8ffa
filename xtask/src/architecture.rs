//! The architectures for which programs and images are built.

use std::fmt::{self, Display};

use anyhow::{Result, bail};
use clap::ValueEnum;

/// One of them, by the name that images, Debian and krew have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Architecture {
    /// x86-64
    Amd64,
    /// 64-bit Arm
    Arm64,
}

impl Architecture {
    /// The architecture of this machine.
    pub fn native() -> Result<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::Amd64),
            "aarch64" => Ok(Self::Arm64),
            other => bail!("there are no images for {other}"),
        }
    }

    /// The requested architectures without duplicates, or this machine's if none was requested.
    pub fn wanted(asked: &[Self]) -> Result<Vec<Self>> {
        if asked.is_empty() {
            return Ok(vec![Self::native()?]);
        }
        let mut wanted = Vec::new();
        for &architecture in asked {
            if !wanted.contains(&architecture) {
                wanted.push(architecture);
            }
        }
        Ok(wanted)
    }

    /// Its name for images, Debian and krew.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Its name for Rust, with the C library that the operator is linked to.
    pub fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The qemu program that runs its programs on another machine.
    pub fn emulator(self) -> &'static str {
        match self {
            Self::Amd64 => "qemu-x86_64-static",
            Self::Arm64 => "qemu-aarch64-static",
        }
    }
}

impl Display for Architecture {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[arg(long, value_enum, value_delimiter = ',')]
        arch: Vec<Architecture>,
    }

    fn parsed(words: &[&str]) -> Result<Vec<Architecture>> {
        Architecture::wanted(&Cli::try_parse_from([&["xtask"], words].concat())?.arch)
    }

    #[test]
    fn architectures_are_named_in_a_list_or_one_by_one() -> Result<()> {
        let both = [Architecture::Amd64, Architecture::Arm64];
        assert_eq!(parsed(&["--arch", "amd64,arm64"])?, both);
        assert_eq!(parsed(&["--arch", "amd64", "--arch", "arm64", "--arch", "amd64"])?, both);
        assert!(parsed(&["--arch", "riscv64"]).is_err());
        Ok(())
    }

    #[test]
    fn unless_named_it_is_that_of_this_machine() -> Result<()> {
        assert_eq!(parsed(&[])?, [Architecture::native()?]);
        assert!(Architecture::native()?.target().starts_with(std::env::consts::ARCH));
        Ok(())
    }
}
