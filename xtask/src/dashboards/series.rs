//! Prometheus' answers about a span of time.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

/// A span of time in seconds since 1970, and the distance of its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first point.
    pub from: i64,
    /// The end.
    pub to: i64,
    /// The distance between two points.
    pub step: i64,
}

impl Span {
    /// A span with at most `points` points.
    pub fn of_points(from: i64, to: i64, points: i64) -> Self {
        let step = ((to - from) / points + 1).max(1);
        Self { from, to: to.max(from + step), step }
    }
}

/// Values over time, with the labels of their series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    labels: BTreeMap<String, String>,
    /// Seconds since 1970, and the value. Values that are not numbers are left out.
    points: Vec<(f64, f64)>,
}

/// A series with its name in the panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The name in the legend.
    pub name: String,
    /// Seconds since 1970, and the value.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Names the series by a panel's `legendFormat`. A missing label is empty, as in Grafana.
    pub fn named_by(self, format: &str) -> Line {
        let mut name = String::new();
        let mut rest = format;
        while let Some((before, (label, after))) =
            rest.split_once("{{").and_then(|(before, inside)| Some((before, inside.split_once("}}")?)))
        {
            name.push_str(before);
            name.push_str(self.labels.get(label.trim()).map_or("", String::as_str));
            rest = after;
        }
        name.push_str(rest);
        Line { name, points: self.points }
    }
}

impl Line {
    /// Its largest value.
    pub fn largest(&self) -> f64 {
        self.points.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Its last value.
    pub fn last(&self) -> Option<f64> {
        self.points.last().map(|(_, value)| *value)
    }
}

/// Parses the results of a range query: <https://prometheus.io/docs/prometheus/2.42/querying/api/#range-vectors>
pub fn series_in(results: &[Value]) -> Result<Vec<Series>> {
    results
        .iter()
        .map(|result| {
            let labels = serde_json::from_value(result["metric"].clone()).context("a series has labels")?;
            let values = result["values"].as_array().context("a series has values")?;
            // A quantile without observations is NaN.
            let point = |pair: &Value| {
                let value: f64 = pair[1].as_str()?.parse().ok()?;
                value.is_finite().then_some((pair[0].as_f64()?, value))
            };
            Ok(Series { labels, points: values.iter().filter_map(point).collect() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn series_have_labels_and_numbers() -> Result<()> {
        let results = [json!({
            "metric": { "kind": "Redis", "outcome": "ok" },
            "values": [[1_700_000_000, "1.5"], [1_700_000_001, "NaN"], [1_700_000_002.5, "+Inf"], [1_700_000_003, "0"]],
        })];
        let line = series_in(&results)?.remove(0).named_by("{{kind}} {{ outcome }}{{zone}}!");
        assert_eq!(line.name, "Redis ok!");
        assert_eq!(line.points, [(1_700_000_000.0, 1.5), (1_700_000_003.0, 0.0)]);
        assert_eq!((line.largest(), line.last()), (1.5, Some(0.0)));
        Ok(())
    }

    #[test]
    fn a_name_without_labels_stays_as_it_is() {
        let series = Series { labels: BTreeMap::new(), points: Vec::new() };
        assert_eq!(series.named_by("p99 {{").name, "p99 {{");
    }

    #[test]
    fn a_span_has_no_more_points_than_wanted() {
        assert_eq!(Span::of_points(0, 599, 150), Span { from: 0, to: 599, step: 4 });
        assert_eq!(Span::of_points(7, 7, 150), Span { from: 7, to: 8, step: 1 });
    }
}
