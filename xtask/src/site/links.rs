//! Resolves links of pages, first within the repository and then within the site.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::markdown::{anchors, links};
use super::pages;

/// The target of a link.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// Outside of the repository.
    Elsewhere,
    /// A file or folder of the repository, and an anchor in it.
    File(String, Option<String>),
}

/// The target of a link on a page.
pub fn target(page: &str, link: &str) -> Target {
    if link.contains("://") || link.starts_with("mailto:") {
        return Target::Elsewhere;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor.to_owned())));
    if path.is_empty() {
        return Target::File(page.to_owned(), anchor);
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Target::File(parts.join("/"), anchor)
}

/// A page's text with links for the site: to other pages, to pictures beside them, and for all other files to the
/// repository.
pub fn for_site(page: &str, text: &str, repository: &str) -> String {
    let mut rewritten = text.to_owned();
    for range in links(text).into_iter().rev() {
        if let Target::File(file, anchor) = target(page, &text[range.clone()]) {
            let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
            let link = match (pages::name_of(&file), picture(&file)) {
                (Some(name), _) => format!("{name}{anchor}"),
                (None, Some(picture)) => picture.to_owned(),
                (None, None) => format!("{repository}/blob/main/{file}{anchor}"),
            };
            rewritten.replace_range(range, &link);
        }
    }
    rewritten
}

/// Links on pages to missing files or headings.
pub fn broken(root: &Path) -> Result<Vec<String>> {
    let read = |file: &str| fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"));
    let mut broken = Vec::new();
    for (_, page) in pages::all() {
        let text = read(page)?;
        for range in links(&text) {
            let link = &text[range];
            let Target::File(file, anchor) = target(page, link) else { continue };
            let leads = match anchor {
                Some(anchor) if is_a(&file, "md") => anchors(&read(&file)?).contains(&anchor),
                _ => root.join(&file).exists(),
            };
            if !leads {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    Ok(broken)
}

fn is_a(file: &str, kind: &str) -> bool {
    Path::new(file).extension().is_some_and(|it| it == kind)
}

/// The name of a picture in the site.
pub fn picture(file: &str) -> Option<&str> {
    file.strip_prefix("docs/").filter(|name| is_a(name, "svg"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;

    #[test]
    fn links_within_the_repository_are_followed_from_their_page() {
        let file = |path: &str, anchor: Option<&str>| Target::File(path.into(), anchor.map(str::to_owned));
        assert_eq!(target("docs/redis.md", "clients.md#java"), file("docs/clients.md", Some("java")));
        assert_eq!(target("docs/redis.md", "#fields"), file("docs/redis.md", Some("fields")));
        assert_eq!(target("docs/redis.md", "../iam/"), file("iam", None));
        assert_eq!(target("README.md", "docs/plan.md"), file("docs/plan.md", None));
        assert_eq!(target("README.md", "https://example.com/a"), Target::Elsewhere);
    }

    #[test]
    fn links_lead_to_pages_of_the_site_and_else_to_the_repository() {
        let text =
            "[a](clients.md#java) [b](../iam/) [c](dashboards/fleet.svg) [d](https://e.com) [e](#f) [g](../README.md)";
        let expected = "[a](clients.md#java) [b](https://r/blob/main/iam) [c](dashboards/fleet.svg) [d](https://e.com) \
                        [e](redis.md#f) [g](introduction.md)";
        assert_eq!(for_site("docs/redis.md", text, "https://r"), expected);
    }

    #[test]
    fn every_link_of_every_page_leads_somewhere() {
        assert_eq!(broken(&host::repo_root().unwrap()).unwrap(), [""; 0]);
    }
}
