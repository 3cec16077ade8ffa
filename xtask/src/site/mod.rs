//! `cargo xtask site`: writes the documentation as a static site with mdBook, including the fields of all kinds from
//! their definitions. <https://rust-lang.github.io/mdBook/>

pub mod markdown;
mod reference;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::images::operator::target_directory;
use crate::progress::{Progress, Step};
use crate::{crds, host, tools};

/// The version of mdBook.
const MDBOOK: &str = "0.5.4";
/// Links to files that are not pages of the site go to this repository.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
/// The table of contents. Pages of the site are the files that it links to.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Writes `target/site/book`.
pub fn run() -> Result<()> {
    let site = target_directory()?.join("site");
    let mut steps = Progress::new(3);
    let program = steps.step("mdBook", |step| {
        host::install_build_tools(step)?;
        tools::of_crate(
            "mdbook",
            MDBOOK,
            &["--no-default-features", "--features", "search"],
            &site.with_extension("log"),
            step,
        )
    })?;
    steps.step("Pages", |step| write(&site, step))?;
    steps.step("Build the site", |step| {
        step.run(Command::new(program).arg("build").arg(&site), &site.join("mdbook.log"))
    })?;
    println!("{}", site.join("book/index.html").display());
    Ok(())
}

/// Writes the input of mdBook.
fn write(site: &Path, step: &Step) -> Result<()> {
    if site.exists() {
        fs::remove_dir_all(site).with_context(|| format!("cannot remove {}", site.display()))?;
    }
    let (root, source) = (host::repo_root()?, site.join("src"));
    let pages = pages(&root)?;
    let broken = broken(&root, &pages)?;
    ensure!(broken.is_empty(), "these links lead nowhere:\n{}", broken.join("\n"));
    fs::create_dir_all(&source).with_context(|| format!("cannot make {}", source.display()))?;
    let put = |name: &str, text: &str| {
        let path: PathBuf = source.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    for page in &pages {
        put(&name_of(page), &for_site(page, &read(&root, page)?, &pages))?;
    }
    let mut summary = for_site(SUMMARY, &read(&root, SUMMARY)?, &pages) + "\n# Reference\n\n";
    for definition in crds::parsed()? {
        let (kind, name, text) = reference::page(&definition);
        put(&name, &text)?;
        writeln!(summary, "- [Fields of {kind}]({name})")?;
    }
    put("SUMMARY.md", &summary)?;
    step.note(format!("{} pages", pages.len()));
    fs::copy(root.join("docs/book.toml"), site.join("book.toml")).map(drop).context("cannot write book.toml")
}

fn read(root: &Path, file: &str) -> Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))
}

/// The files of all pages, in the order of the table of contents.
fn pages(root: &Path) -> Result<Vec<String>> {
    let links = markdown::links(&read(root, SUMMARY)?);
    Ok(links.iter().filter_map(|(_, link)| target(SUMMARY, link)).map(|(file, _)| file).collect())
}

/// The name of a page in the site.
fn name_of(page: &str) -> String {
    match page {
        "README.md" => "introduction.md".to_owned(),
        "docs/README.md" => "documentation.md".to_owned(),
        _ => page.rsplit('/').next().unwrap_or(page).to_lowercase(),
    }
}

/// The file of the repository that a link on a page leads to, and the anchor in it; `None` for a link to elsewhere.
fn target(page: &str, link: &str) -> Option<(String, Option<String>)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor.to_owned())));
    if path.is_empty() {
        return Some((page.to_owned(), anchor));
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
    Some((parts.join("/"), anchor))
}

/// A page's text with links for the site: to other pages, and for all other files to the repository.
fn for_site(page: &str, text: &str, pages: &[String]) -> String {
    let mut rewritten = text.to_owned();
    for (range, link) in markdown::links(text).into_iter().rev() {
        let (Some(range), Some((file, anchor))) = (range, target(page, &link)) else { continue };
        let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
        let to = if pages.contains(&file) { name_of(&file) } else { format!("{REPOSITORY}/blob/main/{file}") };
        rewritten.replace_range(range, &(to + &anchor));
    }
    rewritten
}

/// Links on pages to missing files or headings.
fn broken(root: &Path, pages: &[String]) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for page in pages {
        for (_, link) in markdown::links(&read(root, page)?) {
            let Some((file, anchor)) = target(page, &link) else { continue };
            let leads = match anchor {
                Some(anchor) if Path::new(&file).extension().is_some_and(|it| it == "md") => {
                    root.join(&file).exists() && markdown::anchors(&read(root, &file)?).contains(&anchor)
                }
                _ => root.join(&file).exists(),
            };
            if !leads {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn links_lead_to_pages_of_the_site_or_the_repository() {
        let pages = ["README.md", "docs/redis.md", "docs/clients.md"].map(str::to_owned);
        let text = "[a](clients.md#java) [b](../iam/) [d](https://e.com) [e](#f) [g](../README.md)";
        let expected = format!(
            "[a](clients.md#java) [b]({REPOSITORY}/blob/main/iam) [d](https://e.com) [e](redis.md#f) [g](introduction.md)"
        );
        assert_eq!(for_site("docs/redis.md", text, &pages), expected);
        assert_eq!(target("README.md", "docs/redis.md"), Some(("docs/redis.md".to_owned(), None)));
        assert_eq!(["README.md", "docs/README.md"].map(name_of), ["introduction.md", "documentation.md"]);
    }

    #[test]
    fn every_page_is_in_the_site_once_without_broken_links() -> Result<()> {
        let root = host::repo_root()?;
        let pages = pages(&root)?;
        let mut there = BTreeSet::new();
        for entry in fs::read_dir(root.join("docs"))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if Path::new(&name).extension().is_some_and(|it| it == "md") && name != "SUMMARY.md" {
                there.insert(format!("docs/{name}"));
            }
        }
        let listed: Vec<_> = pages.iter().filter(|page| page.starts_with("docs/")).cloned().collect();
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), there);
        let names: BTreeSet<_> = pages.iter().map(|page| name_of(page)).collect();
        assert_eq!(names.len(), pages.len(), "{pages:?}");
        assert_eq!(broken(&root, &pages)?, [""; 0]);
        Ok(())
    }
}
