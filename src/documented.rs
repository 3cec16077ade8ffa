//! docs/operations.md names every metric and every option that there is, and no other.

use std::collections::BTreeSet;

use clap::{Args, Command};

use crate::config::RunOptions;
use crate::metrics;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md"));

/// What stands in backticks in the first cells of the rows of a section's table.
fn named(section: &str) -> BTreeSet<String> {
    let text = PAGE.split("\n## ").find(|text| text.starts_with(section)).expect("the section is there");
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split(", "));
    names.map(|name| name.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_page_names_every_metric() {
    let text = metrics::tests::told().encode().expect("metrics are encoded");
    // Samples of counters have `_total` behind their name, and such that only inform have `_info`.
    let named_so = |line: &str| {
        let (name, kind) = line.split_once(' ')?;
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        Some(format!("{name}{suffix}"))
    };
    let there: BTreeSet<String> = text.lines().filter_map(|line| named_so(line.strip_prefix("# TYPE ")?)).collect();
    assert_eq!(named("Metrics and health"), there, "on the page, and in the program");
}

#[test]
fn the_page_names_every_option() {
    // The SDK's own variables end the table.
    let sdk = ["AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ROLE_ARN", "\u{2026}"].map(str::to_owned);
    let page: BTreeSet<String> = named("Options").into_iter().filter(|name| !sdk.contains(name)).collect();
    let command = RunOptions::augment_args(Command::new("causeway"));
    let there: BTreeSet<String> = command
        .get_arguments()
        .filter_map(|argument| Some(argument.get_env()?.to_string_lossy().into_owned()))
        .collect();
    assert_eq!(page, there, "on the page, and in the program");
}
