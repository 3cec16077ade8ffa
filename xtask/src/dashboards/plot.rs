//! Draws the content of a panel: lines over time with their legend, or single values.

use std::fmt::Write as _;

use anyhow::Result;

use super::panel::{Kind, Panel};
use super::scale::Axis;
use super::series::{Line, Span};
use super::svg::{self, Anchor, Type};

/// The text of a panel without values.
pub const NO_DATA: &str = "no data: nothing was counted";

/// The colours of lines. On a dark ground they can be distinguished even with a colour vision deficiency. Further lines
/// are dashed.
const COLOURS: [&str; 12] = [
    "#7ccf7c", "#f2cc59", "#5fb3f0", "#ff9f4a", "#f2667a", "#c08df0", "#4fd6c9", "#f78fc4", "#b4c2d4", "#c9b45c",
    "#7d95f5", "#d98f6c",
];
const GRID: &str = "#2a313b";
const VALUE: &str = "#7ccf7c";
const LABEL: Type = Type::plain(10.5, "#97a3b0");
const NAME: Type = Type::plain(10.5, "#c3ccd6");
const FAINT: Type = Type::plain(13.0, "#6f7b88").at(Anchor::Middle);
/// The height of a row in the legend.
const ROW: f64 = 15.0;
/// The most rows of a legend.
const ROWS: usize = 3;
/// The distance from a mark to its name, and from a name to the next mark.
const MARK: f64 = 16.0;
const BETWEEN: f64 = 12.0;

/// A part of a panel.
#[derive(Clone, Copy)]
pub struct Area {
    /// Its left edge.
    pub x: f64,
    /// Its upper edge.
    pub y: f64,
    /// How wide it is.
    pub width: f64,
    /// How high it is.
    pub height: f64,
}

/// Draws the lines of a panel in an area.
pub fn draw(to: &mut String, panel: &Panel, lines: &[Line], span: Span, area: Area) -> Result<()> {
    let lines: Vec<&Line> = lines.iter().filter(|line| !line.points.is_empty()).collect();
    if lines.is_empty() {
        FAINT.set(to, area.x + area.width / 2.0, area.y + area.height / 2.0, NO_DATA);
        return Ok(());
    }
    match panel.kind {
        Kind::Stat => stat(to, panel, &lines, area),
        Kind::Timeseries => return over_time(to, panel, &lines, span, area),
    }
    Ok(())
}

/// The last value of each series, side by side.
fn stat(to: &mut String, panel: &Panel, lines: &[&Line], area: Area) {
    let number = Type::plain(46.0, VALUE).bold().at(Anchor::Middle);
    let name = Type { size: 12.5, ..NAME }.at(Anchor::Middle);
    let room = area.width / f64::from(u16::try_from(lines.len()).unwrap_or(u16::MAX));
    for (column, line) in (0_u16..).zip(lines) {
        let x = area.x + room * (f64::from(column) + 0.5);
        let value = line.last().map(|value| panel.unit().tell(value)).unwrap_or_default();
        number.set(to, x, area.y + area.height * 0.55, &value);
        name.set(to, x, area.y + area.height * 0.55 + 26.0, &name.fitted(&line.name, room - 8.0));
    }
}

fn over_time(to: &mut String, panel: &Panel, lines: &[&Line], span: Span, area: Area) -> Result<()> {
    let mut lines = lines.to_vec();
    let mut legend = Legend::of(&lines, area.width);
    if legend.rest.is_some() {
        // If the legend lacks room, it names the lines with the largest values.
        lines.sort_by(|one, other| other.largest().total_cmp(&one.largest()));
        legend = Legend::of(&lines, area.width);
    }
    let below = legend.height() + 20.0;
    let height = area.height - below;
    let smallest = lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
    let largest = lines.iter().map(|line| line.largest()).fold(f64::NEG_INFINITY, f64::max);
    let values = Axis::of_values(panel.unit(), smallest, largest, 4);
    let gutter = values.ticks.iter().map(|(_, label)| LABEL.width(label)).fold(0.0, f64::max) + 8.0;
    let plot = Area { x: area.x + gutter, y: area.y, width: area.width - gutter - 10.0, height };
    let times = Axis::of_time(span, 8)?;

    let across = |value: f64| plot.x + plot.width * times.share(value);
    let up = |value: f64| plot.y + plot.height * (1.0 - values.share(value));
    let right = plot.x + plot.width;
    let bottom = plot.y + plot.height;
    for (value, label) in &values.ticks {
        let y = up(*value);
        let _ = writeln!(to, "<path d=\"M{:.1} {y:.1}H{right:.1}\" stroke=\"{GRID}\"/>", plot.x);
        LABEL.at(Anchor::End).set(to, plot.x - 6.0, y + 3.5, label);
    }
    for (second, label) in &times.ticks {
        let x = across(*second);
        let _ = writeln!(to, "<path d=\"M{x:.1} {:.1}V{bottom:.1}\" stroke=\"{GRID}\"/>", plot.y);
        // A label that would extend beyond the panel is left out.
        if x + LABEL.width(label) / 2.0 <= area.x + area.width {
            LABEL.at(Anchor::Middle).set(to, x, bottom + 15.0, label);
        }
    }
    let apart = plot.width * 1.5 * super::scale::seconds(span.step) / super::scale::seconds(span.to - span.from);
    // The first line is the most important one, so it is drawn last, above the others.
    for (index, line) in lines.iter().enumerate().rev() {
        let points: Vec<_> = line.points.iter().map(|(second, value)| (across(*second), up(*value))).collect();
        let _ = writeln!(
            to,
            "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" stroke-linejoin=\"round\"{}/>",
            svg::path(&points, apart),
            COLOURS[index % COLOURS.len()],
            ending(index)
        );
    }
    legend.draw(to, area.x, bottom + 20.0);
    Ok(())
}

/// The end of a line's strokes: round, unless the line is dashed.
fn ending(index: usize) -> &'static str {
    match index / COLOURS.len() {
        0 => " stroke-linecap=\"round\"",
        1 => " stroke-dasharray=\"6 3\"",
        _ => " stroke-dasharray=\"2 3\"",
    }
}

/// The names of lines, in rows.
struct Legend {
    /// The line's number, the position of its mark, and its name.
    rows: Vec<Vec<(usize, f64, String)>>,
    /// The position and text of the remark about lines that did not fit.
    rest: Option<(f64, String)>,
}

impl Legend {
    fn of(lines: &[&Line], room: f64) -> Self {
        let mut legend = Self { rows: vec![Vec::new()], rest: None };
        let mut x = 0.0;
        for (index, line) in lines.iter().enumerate() {
            let name = NAME.fitted(&line.name, room - MARK);
            let width = MARK + NAME.width(&name) + BETWEEN;
            let left = lines.len() - index;
            let rest = format!("and {left} more");
            // The last row needs room for the remark about the rest, unless there is no rest.
            let last = legend.rows.len() == ROWS;
            let kept = if last && left > 1 { NAME.width(&rest) } else { 0.0 };
            if x + width - BETWEEN + kept > room {
                if last {
                    legend.rest = Some((x, rest));
                    return legend;
                }
                legend.rows.push(Vec::new());
                x = 0.0;
            }
            if let Some(row) = legend.rows.last_mut() {
                row.push((index, x, name));
            }
            x += width;
        }
        legend
    }

    fn height(&self) -> f64 {
        self.rows.iter().map(|_| ROW).sum::<f64>() + 4.0
    }

    fn draw(&self, to: &mut String, left: f64, top: f64) {
        let mut baseline = top + ROW - 2.0;
        for row in &self.rows {
            for (index, x, name) in row {
                let (from, y) = (left + x, baseline - 3.5);
                let _ = writeln!(
                    to,
                    "<path d=\"M{from:.1} {y:.1}h11\" stroke=\"{}\" stroke-width=\"3\"{}/>",
                    COLOURS[index % COLOURS.len()],
                    ending(*index)
                );
                NAME.set(to, from + MARK, baseline, name);
            }
            baseline += ROW;
        }
        if let Some((x, rest)) = &self.rest {
            LABEL.set(to, left + x, baseline - ROW, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SPAN: Span = Span { from: 1_700_000_000, to: 1_700_000_300, step: 2 };
    const AREA: Area = Area { x: 0.0, y: 0.0, width: 460.0, height: 200.0 };

    fn line(name: &str, values: &[f64]) -> Line {
        let mut second = 1_700_000_000.0;
        let mut points = Vec::new();
        for value in values {
            points.push((second, *value));
            second += 2.0;
        }
        Line { name: name.to_owned(), points }
    }

    fn drawn(kind: &str, lines: &[Line]) -> String {
        let panel = json!({
            "type": kind, "title": "Calls", "description": "", "gridPos": { "x": 0, "y": 0, "w": 12, "h": 7 },
            "fieldConfig": { "defaults": { "unit": "reqps" } }, "targets": [],
        });
        let panel: Panel = serde_json::from_value(panel).unwrap();
        let mut to = String::new();
        draw(&mut to, &panel, lines, SPAN, AREA).unwrap();
        to
    }

    #[test]
    fn a_panel_without_values_says_so() {
        assert!(drawn("timeseries", &[]).contains(NO_DATA));
        assert!(drawn("stat", &[line("empty", &[])]).contains(NO_DATA));
    }

    #[test]
    fn lines_have_axes_and_a_legend() {
        let text = drawn("timeseries", &[line("get ok", &[0.0, 1.0, 2.0]), line("list ok", &[1.0, 1.0, 1.0])]);
        for wanted in [">get ok<", ">list ok<", ">2.0/s<", ">22:14<", COLOURS[0], COLOURS[1]] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
    }

    #[test]
    fn single_values_are_the_last_ones() {
        let text = drawn("stat", &[line("causeway", &[0.0, 1.0])]);
        assert!(text.contains(">1/s<") && text.contains(">causeway<"), "{text}");
    }

    #[test]
    fn a_legend_says_how_many_names_it_leaves_out() {
        let names: Vec<Line> = (0..40).map(|it| line(&format!("DescribeSomething{it}"), &[1.0])).collect();
        let legend = Legend::of(&names.iter().collect::<Vec<_>>(), AREA.width);
        let shown: usize = legend.rows.iter().map(Vec::len).sum();
        assert_eq!(legend.rows.len(), ROWS);
        assert_eq!(legend.rest.as_ref().map(|it| it.1.clone()), Some(format!("and {} more", 40 - shown)));
        for (_, x, name) in legend.rows.iter().flatten() {
            assert!(x + MARK + NAME.width(name) <= AREA.width, "{name}");
        }
    }
}
