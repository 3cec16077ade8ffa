//! What a picture takes of a dashboard's JSON: <https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/>

use serde::Deserialize;

/// A dashboard.
#[derive(Debug, Deserialize)]
pub struct Dashboard {
    /// That of its file, without the ending.
    #[serde(skip)]
    pub name: String,
    /// For people.
    pub title: String,
    /// What it tells.
    pub description: String,
    /// In the order of the file.
    pub panels: Vec<Panel>,
}

/// A panel. One of a kind that no picture shows is an error.
#[derive(Debug, Deserialize)]
pub struct Panel {
    /// How it shows what was found.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Its headline.
    pub title: String,
    /// What it tells.
    pub description: String,
    /// Where it stands.
    #[serde(rename = "gridPos")]
    pub place: Place,
    /// What it asks.
    pub targets: Vec<Target>,
    #[serde(rename = "fieldConfig")]
    fields: Fields,
}

impl Panel {
    /// That of all its values.
    pub fn unit(&self) -> Unit {
        self.fields.defaults.unit
    }
}

/// How a panel shows values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Lines over time.
    Timeseries,
    /// The last value of each series.
    Stat,
}

/// In columns, of which there are 24, and in rows.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Place {
    /// Its first column.
    pub x: u16,
    /// Its first row.
    pub y: u16,
    /// Columns.
    pub w: u16,
    /// Rows.
    pub h: u16,
}

/// A query, and how the series are called that it finds.
#[derive(Debug, Deserialize)]
pub struct Target {
    /// In Prometheus's language.
    pub expr: String,
    /// With labels in double braces.
    #[serde(rename = "legendFormat")]
    pub legend: String,
}

#[derive(Debug, Deserialize)]
struct Fields {
    defaults: Defaults,
}

#[derive(Debug, Deserialize)]
struct Defaults {
    unit: Unit,
}

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Unit {
    /// Things.
    #[serde(rename = "short")]
    Number,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Shares, of which 1 is the whole.
    #[serde(rename = "percentunit")]
    Share,
    /// Requests a second.
    #[serde(rename = "reqps")]
    Rate,
}
