//! Libraries that are linked into the program but are no crates: C code in crates, and Rust's standard library.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::contents::Crate;
use crate::{host, tools};

/// A library that is part of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: String,
    /// An SPDX expression.
    pub license: String,
    /// A package URL without the version.
    pub home: &'static str,
    /// The prefix of the version in the name of its git tag.
    pub tag: &'static str,
    /// Name and version of the crate that compiles it; `None` if the compiler brings it.
    pub part_of: Option<(String, String)>,
}

impl Library {
    /// <https://github.com/package-url/purl-spec/blob/main/types-doc/github-definition.md>
    pub fn purl(&self) -> String {
        format!("{}@{}{}", self.home, self.tag, self.version)
    }
}

/// The C library in a crate, and the header that contains its version.
struct Source {
    package: &'static str,
    name: &'static str,
    home: &'static str,
    header: &'static str,
    version: fn(&str) -> Option<String>,
}

const SOURCES: [Source; 3] = [
    Source {
        package: "aws-lc-sys",
        name: "aws-lc",
        home: "pkg:github/aws/aws-lc",
        header: "aws-lc/include/openssl/base.h",
        version: |text| Some(defined(text, "AWSLC_VERSION_NUMBER_STRING")?.trim_matches('"').to_owned()),
    },
    Source {
        package: "libmimalloc-sys",
        name: "mimalloc",
        home: "pkg:github/microsoft/mimalloc",
        // The crate also has version 2, and compiles it only with a feature that we do not use.
        header: "c_src/mimalloc/v3/include/mimalloc.h",
        version: |text| {
            let number: u32 = defined(text, "MI_MALLOC_VERSION")?.parse().ok()?;
            Some(format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100))
        },
    },
    Source {
        package: "zstd-sys",
        name: "zstd",
        home: "pkg:github/facebook/zstd",
        header: "zstd/lib/zstd.h",
        version: |text| {
            let [major, minor, release] =
                ["ZSTD_VERSION_MAJOR", "ZSTD_VERSION_MINOR", "ZSTD_VERSION_RELEASE"].map(|name| defined(text, name));
            Some(format!("{}.{}.{}", major?, minor?, release?))
        },
    },
];
/// Crates with names like those of crates with C code, but without C code.
const WITHOUT: [&str; 1] = ["linux-raw-sys"];

/// The C libraries in these crates. A crate with unknown C code is an error.
pub fn in_crates(crates: &[Crate]) -> Result<Vec<Library>> {
    let mut found = Vec::new();
    for it in crates.iter().filter(|it| it.name.ends_with("-sys") && !WITHOUT.contains(&it.name.as_str())) {
        let Some(source) = SOURCES.iter().find(|source| source.package == it.name) else {
            bail!("which C is in the crate {}? xtask/src/release/native.rs should tell", it.name);
        };
        let path = it.folder.join(source.header);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        found.push(Library {
            name: source.name,
            version: (source.version)(&text).with_context(|| format!("{} names no version", path.display()))?,
            license: it.license.clone(),
            home: source.home,
            tag: "v",
            part_of: Some((it.name.clone(), it.version.clone())),
        });
    }
    Ok(found)
}

/// Rust's standard library, of the compiler for this checkout.
pub fn of_rust() -> Result<Library> {
    let said = tools::output_of(Command::new("rustc").arg("--version").current_dir(host::repo_root()?))?;
    let version = said.split_whitespace().nth(1).with_context(|| format!("rustc says {said:?}"))?;
    Ok(Library {
        name: "std",
        version: version.to_owned(),
        license: "MIT OR Apache-2.0".to_owned(),
        home: "pkg:github/rust-lang/rust",
        tag: "",
        part_of: None,
    })
}

/// The value that C's preprocessor has for a name.
fn defined<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("#define")?.trim_start().strip_prefix(name));
    lines.filter(|rest| rest.starts_with(char::is_whitespace)).find_map(|rest| rest.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::Architecture;
    use crate::release::contents;

    #[test]
    fn the_c_in_our_crates_is_known_with_its_version() -> Result<()> {
        let crates = contents::crates(Architecture::native()?)?;
        let found = in_crates(&crates)?;
        assert_eq!(found.iter().map(|it| it.name).collect::<Vec<_>>(), ["aws-lc", "mimalloc", "zstd"]);
        for library in &found {
            let parts: Vec<_> = library.version.split('.').collect();
            assert!(parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok()), "{library:?}");
            assert!(library.purl().contains("@v"), "{}", library.purl());
        }
        // This crate has the version of zstd in its own version.
        let zstd = found.last().unwrap();
        assert!(zstd.part_of.as_ref().unwrap().1.ends_with(&format!("+zstd.{}", zstd.version)), "{zstd:?}");
        Ok(())
    }

    #[test]
    fn a_crate_with_c_that_nobody_looked_at_is_an_error() {
        let unknown = Crate {
            name: "libz-sys".to_owned(),
            version: "1.1.0".to_owned(),
            license: "MIT".to_owned(),
            folder: "/".into(),
            checksum: String::new(),
            depends_on: std::collections::BTreeSet::new(),
        };
        assert!(in_crates(&[unknown]).unwrap_err().to_string().contains("libz-sys"));
    }

    #[test]
    fn versions_are_read_as_headers_have_them() {
        let text = "#define MI_MALLOC_VERSION_OLD 1\n#define MI_MALLOC_VERSION 30302   // 3.3.2\n";
        assert_eq!((SOURCES[1].version)(text).as_deref(), Some("3.3.2"));
        assert_eq!((SOURCES[0].version)("#define AWSLC_VERSION_NUMBER_STRING \"5.12.0\"\n").as_deref(), Some("5.12.0"));
        assert_eq!((SOURCES[2].version)("#define ZSTD_VERSION_MAJOR 1\n"), None);
    }

    #[test]
    fn rust_tells_its_version() -> Result<()> {
        assert!(of_rust()?.version.starts_with("1."));
        Ok(())
    }
}
