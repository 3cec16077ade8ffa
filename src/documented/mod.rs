//! Checks that docs/operations.md names every metric and every option, and no others.

mod reasons;

use std::collections::BTreeSet;

use clap::{Args, Command};

use crate::config::RunOptions;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md"));

const ALERTS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/helm/causeway/files/alerts.yaml"));
const DASHBOARDS: [&str; 3] = [
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/helm/causeway/files/dashboards/databases.json")),
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/helm/causeway/files/dashboards/load-balancers.json")),
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/helm/causeway/files/dashboards/operator.json")),
];

/// The names in backticks in the first column of the section's table.
fn names_in(section: &str) -> BTreeSet<String> {
    let text = PAGE.split("\n## ").find(|text| text.starts_with(section)).expect("the section is there");
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split(", "));
    names.map(|name| name.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_page_names_every_metric() {
    let text = causeway_runtime::metrics::filled::filled_metrics().encode().expect("metrics are encoded");
    // Samples of counters end with `_total`, and those of info metrics with `_info`.
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
    assert_eq!(names_in("Metrics and health"), there, "on the page, and in the program");
}

/// Every word of a dashboard or alert file that starts like the name of a metric.
fn asked_by_name(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("causeway_")).map(str::to_owned).collect()
}

#[test]
fn dashboards_and_alerts_ask_for_metrics_that_there_are() {
    let there = names_in("Metrics and health");
    for name in DASHBOARDS.iter().chain([&ALERTS]).flat_map(|text| asked_by_name(text)) {
        assert!(there.contains(name.strip_suffix("_bucket").unwrap_or(&name)), "{name} is no metric of the program");
    }
}

#[test]
fn dashboards_link_by_uid_and_offer_the_data_source() {
    let dashboards = DASHBOARDS.map(|text| serde_json::from_str::<serde_json::Value>(text).expect("JSON"));
    let uids: BTreeSet<&str> = dashboards.iter().filter_map(|it| it["uid"].as_str()).collect();
    assert_eq!(uids.len(), DASHBOARDS.len(), "{uids:?}");
    for panel in dashboards.iter().flat_map(|it| it["panels"].as_array().expect("panels")) {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{}", panel["title"]);
        assert!(panel["targets"].as_array().is_some_and(|targets| !targets.is_empty()), "{}", panel["title"]);
    }
}

#[test]
fn the_page_names_every_option() {
    // The variables of the AWS SDK at the end of the table are no options of the operator.
    let sdk = ["AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ROLE_ARN", "\u{2026}"].map(str::to_owned);
    let page: BTreeSet<String> = names_in("Options").into_iter().filter(|name| !sdk.contains(name)).collect();
    let command = RunOptions::augment_args(Command::new("causeway"));
    let there: BTreeSet<String> = command
        .get_arguments()
        .filter_map(|argument| Some(argument.get_env()?.to_string_lossy().into_owned()))
        .collect();
    assert_eq!(page, there, "on the page, and in the program");
}
