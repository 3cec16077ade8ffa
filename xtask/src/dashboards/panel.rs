//! The parts of a dashboard's JSON that a picture uses:
//! <https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/>

use serde::Deserialize;

/// A dashboard.
#[derive(Debug, Deserialize)]
pub struct Dashboard {
    /// The name of its file, without the extension.
    #[serde(skip)]
    pub name: String,
    /// The title.
    pub title: String,
    /// What it shows.
    pub description: String,
    /// The panels, in the order of the file.
    pub panels: Vec<Panel>,
}

/// A panel. A panel of another type is an error.
#[derive(Debug, Deserialize)]
pub struct Panel {
    /// The type of the panel.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The title.
    pub title: String,
    /// What it shows.
    pub description: String,
    /// Its position and size.
    #[serde(rename = "gridPos")]
    pub place: Place,
    /// Its queries.
    pub targets: Vec<Target>,
    #[serde(rename = "fieldConfig")]
    fields: Fields,
}

impl Panel {
    /// The unit of all its values.
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

/// A position and size in columns, of which there are 24, and rows.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Place {
    /// Its first column.
    pub x: u16,
    /// Its first row.
    pub y: u16,
    /// The number of columns.
    pub w: u16,
    /// The number of rows.
    pub h: u16,
}

/// A query, and the names of its series.
#[derive(Debug, Deserialize)]
pub struct Target {
    /// The query in Prometheus' query language.
    pub expr: String,
    /// The format of names, with labels in double braces.
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

/// The unit of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Unit {
    /// Counted things.
    #[serde(rename = "short")]
    Number,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Shares, where 1 is the whole.
    #[serde(rename = "percentunit")]
    Share,
    /// Requests a second.
    #[serde(rename = "reqps")]
    Rate,
}
