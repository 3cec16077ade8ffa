//! Figures with their goals, as they are taken.

use std::fmt::Write as _;

use super::aws::{Call, counts, described};
use super::record::Figure;

/// The figures of a run, in the order in which they were taken.
#[derive(Default)]
pub struct Report {
    pub figures: Vec<Figure>,
}

impl Report {
    /// Adds a figure. The key must contain the unit.
    pub fn add(&mut self, key: &str, value: f64, note: impl Into<String>) {
        let figure = Figure { name: key.to_owned(), value: rounded(value), note: note.into(), ..Figure::default() };
        self.figures.push(figure);
    }

    /// Adds a figure that should be at most `goal`.
    pub fn add_with_goal(&mut self, key: &str, value: f64, goal: f64, note: impl Into<String>) {
        self.add(key, value, note);
        if let Some(figure) = self.figures.last_mut() {
            figure.at_most = Some(rounded(goal));
        }
    }

    /// Adds a number of AWS calls, which should be at most `goal`.
    pub fn add_calls(&mut self, key: &str, calls: &[Call], goal: Option<f64>) {
        self.add(key, amount(calls.len()), "");
        if let Some(figure) = self.figures.last_mut() {
            (figure.at_most, figure.calls) = (goal, counts(calls));
        }
    }

    /// The figures as a table.
    pub fn table(&self) -> String {
        let width = self.figures.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
        let mut text = format!("{:width$}  {:>10}  {:>8}        note\n", "figure", "value", "at most");
        for figure in &self.figures {
            let goal = figure.at_most.map(|goal| goal.to_string()).unwrap_or_default();
            let mark = match figure.at_most {
                Some(goal) if figure.value <= goal => "ok",
                Some(_) => "OVER",
                None => "",
            };
            let Figure { name, value, calls, note, .. } = figure;
            let note = format!("{}{note}", described(calls));
            let line = format!("{name:width$}  {value:>10}  {goal:>8}  {mark:4}  {note}");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

/// A count as the value of a figure.
#[expect(clippy::cast_precision_loss, reason = "nothing counted here comes near 2⁵²")]
pub fn amount(count: usize) -> f64 {
    count as f64
}

/// Rounded to two decimals, because no clock used here is more precise.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_what_is_over_its_goal() {
        let mut report = Report::default();
        report.add_with_goal("aws_calls_create", 2.0, 3.0, "CreateLoadBalancer 1, DescribeTags 1");
        report.add_with_goal("aws_calls_noop", 1.0, 0.0, "");
        let table = report.table();
        let row = |key| table.lines().find(|line| line.starts_with(key)).unwrap();
        assert!(row("aws_calls_create").contains("3  ok"), "{table}");
        assert!(row("aws_calls_noop").ends_with("OVER"), "{table}");
    }
}
