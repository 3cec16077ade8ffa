//! The chart's dashboards: their queries, and pictures of the answers of a Prometheus. Grafana is under the AGPL and
//! not part of this project, so docs/dashboards.md shows our own drawings of the same files.

mod panel;
mod picture;
mod plot;
mod prometheus;
mod scale;
mod series;
mod svg;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::{chart, host};

pub use panel::Dashboard;
pub use prometheus::Prometheus;

/// If set to `1`, the pictures are written.
pub const WRITE: &str = "CAUSEWAY_WRITE_DOCS";
/// The directory of the pictures.
const PICTURES: &str = "docs/dashboards";
/// Replaces Grafana's `$__rate_interval`, for scrapes each second.
const RATE_INTERVAL: &str = "15s";

/// All dashboards of the chart, by name.
pub fn all() -> Result<Vec<Dashboard>> {
    let folder = chart::directory()?.join("files/dashboards");
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut dashboard: Dashboard = serde_json::from_str(&text)
            .with_context(|| format!("{} has what no picture is made of", path.display()))?;
        dashboard.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.push(dashboard);
    }
    if found.iter().all(|it| it.panels.is_empty()) {
        bail!("{} has no dashboard with a panel", folder.display());
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The queries of all panels, in the form for Prometheus.
pub fn queries() -> Result<Vec<String>> {
    let dashboards = all()?;
    let panels = dashboards.iter().flat_map(|it| &it.panels);
    Ok(panels.flat_map(|it| &it.targets).map(|it| asked(&it.expr)).collect())
}

/// A panel's query in the form for Prometheus.
fn asked(query: &str) -> String {
    query.replace("$__rate_interval", RATE_INTERVAL)
}

/// Draws what the dashboards show from the first scrape until now. Returns the written files.
pub fn draw(prometheus: &Prometheus<'_>) -> Result<Vec<PathBuf>> {
    let span = prometheus.span_until_now();
    let folder = host::repo_root()?.join(PICTURES);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut written = Vec::new();
    for dashboard in all()? {
        let mut answers = Vec::new();
        for panel in &dashboard.panels {
            let mut lines = Vec::new();
            for target in &panel.targets {
                let found = prometheus.series(&asked(&target.expr), span)?;
                lines.extend(found.into_iter().map(|it| it.named_by(&target.legend)));
            }
            answers.push(lines);
        }
        let path = folder.join(format!("{}.svg", dashboard.name));
        fs::write(&path, picture::draw(&dashboard, &answers, span)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        written.push(path);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_query_is_one_that_prometheus_takes() -> Result<()> {
        let queries = queries()?;
        // "$1" is label_replace's own.
        let has_variable = |query: &String| query.replace("\"$1\"", "").contains('$');
        assert!(queries.len() > 20 && !queries.iter().any(has_variable), "{queries:#?}");
        Ok(())
    }

    /// Prometheus renames labels that its targets have, too, unless it honours those of a metric:
    /// <https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config>
    #[test]
    fn a_query_by_a_label_that_targets_have_too_finds_it_where_prometheus_renamed_it() -> Result<()> {
        let mut asked = 0;
        for query in queries()? {
            let labels = query.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
            let labels: BTreeSet<&str> = labels.flat_map(|list| list.split(", ")).collect();
            for label in ["namespace", "service", "pod", "container", "endpoint", "instance", "job"] {
                if labels.contains(label) {
                    asked += 1;
                    assert!(query.contains(&format!("\"{label}\", \"$1\", \"exported_{label}\", \"(.+)\"")), "{query}");
                }
            }
        }
        assert!(asked > 1, "no query is by such a label");
        Ok(())
    }

    #[test]
    fn the_documentation_shows_every_dashboard_as_it_is() -> Result<()> {
        let folder = host::repo_root()?.join(PICTURES);
        let page = fs::read_to_string(folder.with_extension("md"))?;
        let mut expected = BTreeSet::new();
        for dashboard in all()? {
            let file = format!("{}.svg", dashboard.name);
            let text =
                fs::read_to_string(folder.join(&file)).with_context(|| format!("there is no {PICTURES}/{file}"))?;
            picture::shows(&dashboard, &text).with_context(|| {
                format!("{PICTURES}/{file} is old; {WRITE}=1 cargo xtask test installed draws it again")
            })?;
            assert!(page.contains(&format!("](dashboards/{file})")), "docs/dashboards.md does not show {file}");
            expected.insert(file);
        }
        let there: BTreeSet<String> = fs::read_dir(&folder)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<_>>()?;
        assert_eq!(there, expected, "pictures of no dashboard");
        Ok(())
    }
}
