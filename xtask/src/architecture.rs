//! The architectures for which programs and images are built.

use std::fmt::{self, Display};

use anyhow::{Result, bail};

/// One of them, by the name that images, Debian and krew have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl Display for Architecture {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_one() -> Result<()> {
        assert!(Architecture::native()?.target().starts_with(std::env::consts::ARCH));
        Ok(())
    }
}
