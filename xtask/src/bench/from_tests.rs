//! Figures that tests measure and write to a file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::record::Figure;
use super::report::Report;

/// The variable with the path of the file.
pub const VARIABLE: &str = "CAUSEWAY_REPORT";

#[derive(Deserialize)]
struct Taken {
    key: String,
    value: f64,
    #[serde(default)]
    at_most: Option<f64>,
    #[serde(default)]
    note: String,
    #[serde(default)]
    row: String,
    #[serde(default)]
    column: String,
}

/// All figures in the file.
pub fn read(file: &Path) -> Result<Report> {
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let taken: Vec<Taken> = serde_json::from_slice(&text)?;
    let mut report = Report::default();
    for Taken { key, value, at_most, note, row, column } in taken {
        report.add(&key, value, note);
        if let Some(figure) = report.figures.last_mut() {
            *figure = Figure { at_most, row, column, ..std::mem::take(figure) };
        }
    }
    Ok(report)
}
