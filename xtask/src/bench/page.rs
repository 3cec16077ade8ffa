//! Writes the tables of docs/benchmarks.md. The figures of each benchmark in docs/bench go between two marks on the
//! page.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::aws::described;
use super::record::{Figure, Record};
use crate::host;

const BEGIN: &str = "<!-- bench ";
const END: &str = "<!-- end of bench -->";

/// Writes all tables.
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
    let mut text = format!("{build}, commit {commit}; {machine}\n");
    let (alone, in_rows): (Vec<&Figure>, Vec<&Figure>) = figures.iter().partition(|figure| figure.row.is_empty());
    if !alone.is_empty() {
        text += "\n| figure | value | at most | |\n|---|---:|---:|---|\n";
    }
    for figure in alone {
        let at_most = figure.at_most.map(number).unwrap_or_default();
        let note = [described(&figure.calls), figure.note.clone()].into_iter().filter(|part| !part.is_empty());
        let note = note.collect::<Vec<_>>().join("; ").replace('|', "\\|");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{}` | {} | {at_most} | {note} |", figure.name, number(figure.value));
    }
    if in_rows.is_empty() { text } else { text + &rows(&in_rows) }
}

/// A table of figures with a row and a column each, in the order in which they first occur. Below it, the figures that
/// exceed their goals.
fn rows(figures: &[&Figure]) -> String {
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for figure in figures {
        for (all, name) in [(&mut rows, &figure.row), (&mut columns, &figure.column)] {
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    let line = |first: &str, cells: Vec<String>| format!("| {first} | {} |\n", cells.join(" | "));
    let mut text = "\n".to_owned() + &line("", columns.iter().map(ToString::to_string).collect());
    text += &line("---", vec!["---:".to_owned(); columns.len()]);
    for row in rows {
        let of = |column: &&String| figures.iter().find(|figure| figure.row == *row && figure.column == **column);
        text += &line(row, columns.iter().map(|column| of(column).map_or_else(String::new, |it| cell(it))).collect());
    }
    let is_over = |figure: &&&Figure| figure.at_most.is_some_and(|most| figure.value > most);
    let over: Vec<String> =
        figures.iter().filter(is_over).map(|it| format!("{} ({} {})", it.row, it.column, number(it.value))).collect();
    if figures.iter().any(|figure| figure.at_most.is_some()) {
        let over = if over.is_empty() { "nothing".to_owned() } else { over.join("; ") };
        let _ = writeln!(text, "\nOver its goal: {over}.");
    }
    text
}

fn cell(figure: &Figure) -> String {
    let (value, note) = (number(figure.value), &figure.note);
    let value = if figure.at_most.is_some_and(|most| figure.value > most) { format!("**{value}**") } else { value };
    if note.is_empty() { value } else { format!("{value} {note}") }
}

/// A number with commas between thousands.
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
    fn rows_show_all_figures_and_mark_those_over_their_goal() -> Result<()> {
        let record = serde_json::json!({
            "machine": "2 cores", "build": "Debug build", "commit": "abc",
            "figures": [
                { "name": "calls", "value": 12 },
                { "name": "a", "row": "killed", "column": "p50, s", "value": 2.5, "at_most": 3 },
                { "name": "b", "row": "killed", "column": "lost", "value": 0, "note": "of 100" },
                { "name": "c", "row": "hangs", "column": "p50, s", "value": 3.5, "at_most": 3 },
            ],
        });
        let table = table(&serde_json::from_value(record)?);
        let rows: Vec<_> = table.lines().skip(4).collect();
        assert_eq!(
            rows,
            [
                "| `calls` | 12 |  |  |",
                "",
                "|  | p50, s | lost |",
                "| --- | ---: | ---: |",
                "| killed | 2.5 | 0 of 100 |",
                "| hangs | **3.5** |  |",
                "",
                "Over its goal: hangs (p50, s 3.5).",
            ]
        );
        Ok(())
    }

    #[test]
    fn a_figure_is_a_row_with_goal_and_calls() -> Result<()> {
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
