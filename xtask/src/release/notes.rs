//! Release notes: the section of CHANGELOG.md about a version.

use anyhow::{Result, bail};

/// The section of that version, or the unreleased one if there is none yet.
pub fn of(changelog: &str, version: &str) -> Result<String> {
    let section = |title: &str| {
        let mut lines = changelog.lines().skip_while(|line| !is_title(line, title));
        lines.next()?;
        Some(lines.take_while(|line| !line.starts_with("## ")).collect::<Vec<_>>().join("\n"))
    };
    let Some(text) = section(version).or_else(|| section("Unreleased")) else {
        bail!("CHANGELOG.md has neither a section {version} nor one that is called Unreleased");
    };
    let text = text.trim();
    if text.is_empty() {
        bail!("CHANGELOG.md says nothing about {version}");
    }
    Ok(format!("# Causeway {version}\n\n{text}\n"))
}

/// Whether the line is a title such as `## 0.1.0`, possibly followed by a date.
fn is_title(line: &str, title: &str) -> bool {
    line.strip_prefix("## ").is_some_and(|rest| rest.split_whitespace().next() == Some(title))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGES: &str = "# Changelog\n\n## Unreleased\n\n- New.\n\n## 0.1.0 (2026-12-01)\n\n- First.\n";

    #[test]
    fn a_version_has_its_own_section_or_what_is_unreleased() {
        assert_eq!(of(CHANGES, "0.1.0").unwrap(), "# Causeway 0.1.0\n\n- First.\n");
        assert_eq!(of(CHANGES, "0.2.0").unwrap(), "# Causeway 0.2.0\n\n- New.\n");
        assert!(of("# Changelog\n", "0.1.0").is_err());
        assert!(of("## 0.1.0\n\n## 0.0.9\n- x\n", "0.1.0").is_err());
    }
}
