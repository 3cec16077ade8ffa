//! The tables of docs/benchmarks.md: between two marks stands what docs/bench has of that benchmark.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::aws::described;
use super::record::Record;
use crate::host;

const BEGIN: &str = "<!-- bench ";
const END: &str = "<!-- end of bench -->";

/// Writes all tables anew.
pub fn write() -> Result<()> {
    let path = path()?;
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    fs::write(&path, with_tables(&text)?).with_context(|| format!("cannot write {}", path.display()))
}

fn path() -> Result<PathBuf> {
    Ok(host::repo_root()?.join("docs/benchmarks.md"))
}

fn with_tables(page: &str) -> Result<String> {
    let mut written = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (benchmark, after) = after.split_once(" -->").context("a mark without an end")?;
        let (_, after) = after.split_once(END).with_context(|| format!("the table of {benchmark} has no end"))?;
        // Writing to a String cannot fail.
        let _ = write!(written, "{before}{BEGIN}{benchmark} -->\n{}{END}", table(&Record::read(benchmark)?));
        rest = after;
    }
    Ok(written + rest)
}

fn table(record: &Record) -> String {
    let Record { machine, build, commit, figures } = record;
    let mut text =
        format!("{build}, commit {commit}; {machine}\n\n| figure | value | at most | |\n|---|---:|---:|---|\n");
    for figure in figures {
        let at_most = figure.at_most.map(number).unwrap_or_default();
        let note = [described(&figure.calls), figure.note.clone()].into_iter().filter(|part| !part.is_empty());
        let note = note.collect::<Vec<_>>().join("; ").replace('|', "\\|");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{}` | {} | {at_most} | {note} |", figure.name, number(figure.value));
    }
    text
}

/// With commas between thousands.
fn number(value: f64) -> String {
    let text = value.to_string();
    let (whole, decimals) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let mut written = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    if decimals.is_empty() { written } else { format!("{written}.{decimals}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_what_the_files_have() -> Result<()> {
        let page = fs::read_to_string(path()?)?;
        assert!(page.contains(BEGIN));
        assert!(with_tables(&page)? == page, "docs/bench says something else: run `cargo xtask bench page`");
        Ok(())
    }

    #[test]
    fn a_figure_is_a_row_with_its_goal_and_its_calls() -> Result<()> {
        let record = serde_json::json!({
            "machine": "2 cores", "build": "Release build", "commit": "abc",
            "figures": [
                { "name": "binary_bytes", "value": 23_726_928, "at_most": 40_000_000 },
                { "name": "aws_calls_create", "value": 2, "calls": { "CreateRule": 1, "DescribeTags": 1 }, "note": "a | b" },
                { "name": "seconds", "value": 0.33 },
            ],
        });
        let table = table(&serde_json::from_value(record)?);
        let rows: Vec<_> = table.lines().skip(4).collect();
        assert_eq!(
            rows,
            [
                "| `binary_bytes` | 23,726,928 | 40,000,000 |  |",
                "| `aws_calls_create` | 2 |  | CreateRule 1, DescribeTags 1; a \\| b |",
                "| `seconds` | 0.33 |  |  |",
            ]
        );
        Ok(())
    }
}
