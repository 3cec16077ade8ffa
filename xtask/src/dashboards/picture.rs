//! Draws a dashboard as one SVG with its own background, so that it is readable on light and dark pages.

use std::fmt::Write as _;

use anyhow::Result;

use super::panel::{Dashboard, Panel};
use super::plot::{self, Area};
use super::scale;
use super::series::{Line, Span};
use super::svg::{self, Anchor, Type};

/// The width of pictures on a GitHub page.
const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 14.0;
/// The distance between two panels.
const GAP: f64 = 8.0;
/// The columns of a dashboard:
/// <https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/#panel-size-and-position>
const COLUMNS: f64 = 24.0;
const ROW: f64 = 38.0;
const HEADER: f64 = 58.0;
const FOOTER: f64 = 26.0;
const PADDING: f64 = 12.0;

const GROUND: &str = "#0f1318";
const PANEL: &str = "#181d24";
const EDGE: &str = "#262d36";
const TITLE: Type = Type::plain(17.0, "#e6ebf1").bold();
const HEADLINE: Type = Type::plain(13.0, "#e0e6ec").bold();
const PROSE: Type = Type::plain(10.5, "#8b97a4");
/// The first text of a panel in the file.
const BEGIN: &str = "<g class=\"panel\"";

/// Draws a dashboard; `answers` has the lines of each panel.
pub fn draw(dashboard: &Dashboard, answers: &[Vec<Line>], span: Span) -> Result<String> {
    let rows = dashboard.panels.iter().map(|panel| panel.place.y + panel.place.h).max().unwrap_or_default();
    let height = HEADER + f64::from(rows) * ROW + FOOTER;
    let mut to = String::new();
    let _ = writeln!(
        to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" font-family=\"{}\">\n<title>{}</title>\n<desc>{}</desc>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"6\" fill=\"{GROUND}\"/>",
        svg::FONTS,
        svg::escaped(&dashboard.title),
        svg::escaped(&dashboard.description),
    );
    TITLE.set(&mut to, MARGIN, 25.0, &dashboard.title);
    PROSE.set(&mut to, MARGIN, 44.0, &plain(&dashboard.description));
    let (day, hour) = ("%Y-%m-%d %H:%M", "%H:%M UTC");
    let when = format!("{} – {}", scale::written(span.from, day)?, scale::written(span.to, hour)?);
    PROSE.at(Anchor::End).set(&mut to, WIDTH - MARGIN, 25.0, &when);
    for (panel, lines) in dashboard.panels.iter().zip(answers) {
        one(&mut to, panel, lines, span)?;
    }
    let drawn = "Drawn by cargo xtask from the answers to this dashboard's queries. Grafana draws it in its own way.";
    PROSE.set(&mut to, MARGIN, height - 10.0, drawn);
    to.push_str("</svg>\n");
    Ok(to)
}

fn one(to: &mut String, panel: &Panel, lines: &[Line], span: Span) -> Result<()> {
    let column = (WIDTH - 2.0 * MARGIN + GAP) / COLUMNS;
    let x = MARGIN + f64::from(panel.place.x) * column;
    let y = HEADER + f64::from(panel.place.y) * ROW;
    let width = f64::from(panel.place.w) * column - GAP;
    let height = f64::from(panel.place.h) * ROW - GAP;
    let _ = writeln!(
        to,
        "{BEGIN} transform=\"translate({x:.1} {y:.1})\">\n<desc>{}</desc>\n\
         <rect width=\"{width:.1}\" height=\"{height:.1}\" rx=\"4\" fill=\"{PANEL}\" stroke=\"{EDGE}\"/>",
        queries(panel)
    );
    let room = width - 2.0 * PADDING;
    HEADLINE.set(to, PADDING, 22.0, &panel.title);
    let mut top = 24.0;
    for line in PROSE.wrapped(&plain(&panel.description), room, 2) {
        top += 14.0;
        PROSE.set(to, PADDING, top, &line);
    }
    top += 14.0;
    let area = Area { x: PADDING, y: top, width: room, height: height - top - 8.0 };
    plot::draw(to, panel, lines, span, area)?;
    to.push_str("</g>\n");
    Ok(())
}

/// Removes marks of Markdown, which only Grafana interprets.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

/// The queries of a panel, as its tooltip shows them.
fn queries(panel: &Panel) -> String {
    panel.targets.iter().map(|target| svg::escaped(&target.expr)).collect::<Vec<_>>().join("\n")
}

/// Fails unless the picture has exactly the panels of the dashboard, with their titles and queries.
#[cfg(test)]
pub fn shows(dashboard: &Dashboard, picture: &str) -> Result<()> {
    let panels: Vec<&str> = picture.split(BEGIN).skip(1).collect();
    if panels.len() != dashboard.panels.len() {
        anyhow::bail!("it has {} panels, and the dashboard {}", panels.len(), dashboard.panels.len());
    }
    for (panel, drawn) in dashboard.panels.iter().zip(panels) {
        let parts = [format!(">{}</text>", svg::escaped(&panel.title)), format!("<desc>{}</desc>", queries(panel))];
        for part in parts {
            if !drawn.contains(&part) {
                anyhow::bail!("its panel {} has no {part}", panel.title);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SPAN: Span = Span { from: 1_700_000_000, to: 1_700_000_300, step: 2 };

    fn dashboard(titles: &[&str], query: &str) -> Dashboard {
        let panel = |title: &&str| {
            json!({
                "type": "timeseries", "title": title, "description": "`all`",
                "gridPos": { "x": 12, "y": 7, "w": 12, "h": 7 }, "fieldConfig": { "defaults": { "unit": "short" } },
                "targets": [{ "expr": query, "legendFormat": "{{kind}}" }],
            })
        };
        let panels: Vec<_> = titles.iter().map(panel).collect();
        serde_json::from_value(json!({ "title": "A & B", "description": "Both.", "panels": panels })).unwrap()
    }

    fn picture(of: &Dashboard) -> String {
        let line = Line { name: "MyApp".to_owned(), points: vec![(1_700_000_000.0, 1.0), (1_700_000_002.0, 3.0)] };
        let answers: Vec<_> = of.panels.iter().map(|_| vec![line.clone()]).collect();
        draw(of, &answers, SPAN).unwrap()
    }

    #[test]
    fn a_picture_is_one_document_with_a_ground_of_its_own() {
        let text = picture(&dashboard(&["Calls < 1", "Queue"], "up{job=\"a\"} < 1"));
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{text}");
        assert!(text.contains("<title>A &amp; B</title>") && text.contains(GROUND));
        assert!(text.contains("2023-11-14 22:13 – 22:18 UTC") && text.contains("Drawn by cargo xtask"), "{text}");
        for tag in ["g", "text", "desc"] {
            let (opened, closed) = (format!("<{tag}"), format!("</{tag}>"));
            let begun = text.matches(&format!("{opened} ")).count() + text.matches(&format!("{opened}>")).count();
            assert_eq!(begun, text.matches(&closed).count(), "{tag}");
        }
    }

    #[test]
    fn a_picture_of_what_was_is_noticed() {
        let was = dashboard(&["Calls", "Queue"], "sum(calls)");
        let text = picture(&was);
        let why = |it: &Dashboard| shows(it, &text).map_err(|error| error.to_string());
        assert_eq!(why(&was), Ok(()));
        assert!(why(&dashboard(&["Calls"], "sum(calls)")).unwrap_err().contains("2 panels"));
        assert!(why(&dashboard(&["Calls", "Depth"], "sum(calls)")).unwrap_err().contains("Depth"));
        assert!(why(&dashboard(&["Calls", "Queue"], "max(calls)")).unwrap_err().contains("max(calls)"));
    }

    #[test]
    fn a_panel_that_cannot_be_drawn_is_an_error() {
        let panel = json!({
            "type": "heatmap", "title": "t", "description": "", "gridPos": { "x": 0, "y": 0, "w": 1, "h": 1 },
            "fieldConfig": { "defaults": { "unit": "short" } }, "targets": [],
        });
        let error = serde_json::from_value::<Panel>(panel).unwrap_err().to_string();
        assert!(error.contains("heatmap"), "{error}");
    }
}
