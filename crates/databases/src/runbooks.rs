//! Checks of docs/runbooks.md against the program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "support of tests")]

use std::fs;
use std::path::Path;

/// Panics unless the runbook of the alert for databases explains these reasons, with which a database may be down. The
/// step "Alerts" checks that the alert asks for what its runbook explains.
pub fn explain_trouble(reasons: &[&str]) {
    let page = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("docs/runbooks.md");
    let text = fs::read_to_string(page).expect("the page");
    let section = text.split("\n## ").find(|section| section.starts_with("CausewayDatabaseNotReady\n"));
    let section = section.expect("the alert's runbook");
    // It has an alert of its own.
    let missing = reasons.iter().filter(|it| **it != "QuorumLost" && !section.contains(&format!("`{it}`")));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&&str>::new(), "no alert fires while a database is down for these");
}
