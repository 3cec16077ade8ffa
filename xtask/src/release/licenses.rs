//! The licence texts of everything that is compiled into the program. Most licences require that their text comes with
//! it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use super::contents::Crate;

/// How the names of licence files begin, in capitals.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// One file with each text once, after the names of its crates. A crate without a text is listed with its licence.
pub fn of(crates: &[Crate]) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut without = Vec::new();
    for it in crates {
        let name = format!("{} {} ({})", it.name, it.version, it.license);
        let found = texts_of(it).with_context(|| format!("cannot read the licences of {name}"))?;
        if found.is_empty() {
            without.push(name.clone());
        }
        for text in found {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut all = String::from("Causeway is made of the following works.\n");
    if !without.is_empty() {
        write!(all, "\nThese come without a text of their licence:\n  {}\n", without.join("\n  "))?;
    }
    let mut texts: Vec<_> = texts.into_iter().map(|(text, names)| (names, text)).collect();
    texts.sort();
    for (names, text) in texts {
        write!(all, "\n{}\n{}\n\n{}\n", "=".repeat(80), names.join("\n"), text.trim_end())?;
    }
    Ok(all)
}

fn texts_of(it: &Crate) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(&it.folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if !NAMES.iter().any(|begin| name.starts_with(begin)) {
            continue;
        }
        if path.is_dir() {
            for inner in fs::read_dir(&path)? {
                files.push(inner?.path());
            }
        } else {
            files.push(path);
        }
    }
    files.sort();
    let read = |path| -> Result<String> { Ok(String::from_utf8_lossy(&fs::read(path)?).replace("\r\n", "\n")) };
    files.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_text_that_several_have_is_there_once() -> Result<()> {
        let root = std::env::temp_dir().join(format!("causeway-licences-{}", std::process::id()));
        let mut crates = Vec::new();
        for (name, file) in [("a", Some("LICENSE-MIT")), ("b", Some("license.txt")), ("c", None)] {
            let folder = root.join(name);
            fs::create_dir_all(&folder)?;
            if let Some(file) = file {
                fs::write(folder.join(file), "Do as you like.\n")?;
            }
            let (version, license, checksum) = ("1.0.0".to_owned(), "MIT".to_owned(), String::new());
            let depends_on = BTreeSet::new();
            crates.push(Crate { name: name.to_owned(), version, license, folder, checksum, depends_on });
        }
        let all = of(&crates)?;
        fs::remove_dir_all(&root)?;
        assert_eq!(all.matches("Do as you like.").count(), 1, "{all}");
        assert!(all.contains("a 1.0.0 (MIT)\nb 1.0.0 (MIT)\n\nDo as you like."), "{all}");
        assert!(all.contains("without a text of their licence:\n  c 1.0.0 (MIT)\n"), "{all}");
        Ok(())
    }
}
