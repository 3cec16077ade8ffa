//! Checks that each link of the built site leads to one of its pages and anchors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Pages that mdBook generates from all others, or for unknown addresses.
const MADE: &[&str] = &["print.html", "404.html", "toc.html"];

/// Fails with all broken links. Returns the number of links.
pub fn check(site: &Path) -> Result<usize> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(site).with_context(|| format!("cannot read {}", site.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "html") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            pages.insert(name, fs::read_to_string(&path)?);
        }
    }
    let ids: BTreeMap<&String, BTreeSet<&str>> =
        pages.iter().map(|(name, text)| (name, values(text, " id=\"").collect())).collect();
    let mut broken = Vec::new();
    let mut count = 0;
    for (page, text) in pages.iter().filter(|(name, _)| !MADE.contains(&name.as_str())) {
        for link in values(text, " href=\"").chain(values(text, " src=\"")) {
            if link.contains(':') || link.is_empty() {
                continue;
            }
            count += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { path.to_owned() };
            let has = |ids: &BTreeSet<&str>| anchor.is_empty() || ids.contains(anchor);
            if !ids.get(&target).map_or_else(|| site.join(&target).exists(), has) {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    if !broken.is_empty() {
        bail!("these links of the site lead nowhere:\n{}", broken.join("\n"));
    }
    Ok(count)
}

/// The texts between that mark and the next quote.
fn values<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(mark).skip(1).filter_map(|rest| rest.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;

    #[test]
    fn a_link_that_leads_nowhere_is_named() {
        let site = host::repo_root().unwrap().join(format!("target/tmp/site-{}", std::process::id()));
        fs::create_dir_all(&site).unwrap();
        let page = |links: &str| fs::write(site.join("a.html"), format!("<h1 id=\"top\">A</h1>{links}")).unwrap();
        page("<a href=\"#top\">1</a><a href=\"a.html#top\">2</a><a href=\"https://e.com/#x\">3</a>");
        assert_eq!(check(&site).unwrap(), 2);
        page("<a href=\"a.html#gone\">1</a><img src=\"none.svg\">");
        let error = check(&site).unwrap_err().to_string();
        fs::remove_dir_all(&site).unwrap();
        assert!(error.ends_with("a.html: a.html#gone\na.html: none.svg"), "{error}");
    }
}
