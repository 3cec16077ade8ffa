//! `cargo xtask site`: writes the documentation as a static site with mdBook, including the fields of all kinds from
//! their definitions. <https://rust-lang.github.io/mdBook/>

mod built;
mod links;
pub mod markdown;
mod pages;
mod reference;

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
        step.run(Command::new(program).arg("build").arg(&site), &site.join("mdbook.log"))?;
        let count = built::check(&site.join("book"))?;
        step.note(format!("{count} links lead somewhere"));
        Ok(())
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
    let broken = links::broken(&root)?;
    ensure!(broken.is_empty(), "these links lead nowhere:\n{}", broken.join("\n"));
    let put = |name: &str, text: &str| {
        let path: PathBuf = source.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&source))
            .with_context(|| format!("cannot make {}", source.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let read = |file: &str| fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"));
    for (_, page) in pages::all() {
        let text = read(page)?;
        put(&pages::name_of(page).unwrap_or_default(), &links::for_site(page, &text, REPOSITORY))?;
        for range in markdown::links(&text) {
            let links::Target::File(file, _) = links::target(page, &text[range]) else { continue };
            if let Some(picture) = links::picture(&file) {
                put(picture, &read(&file)?)?;
            }
        }
    }
    let mut generated = Vec::new();
    for definition in crds::parsed()? {
        let (kind, name, text) = reference::page(&definition);
        put(&name, &text)?;
        generated.push((format!("Fields of {kind}"), name));
    }
    put("SUMMARY.md", &pages::summary(&generated))?;
    step.note(format!("{} pages", pages::all().count() + generated.len()));
    let settings = format!(
        "[book]\ntitle = \"Causeway\"\nlanguage = \"en\"\n\n[build]\ncreate-missing = false\n\n\
         [output.html]\ngit-repository-url = \"{REPOSITORY}\"\nno-section-label = true\n"
    );
    fs::write(site.join("book.toml"), settings).context("cannot write book.toml")
}
