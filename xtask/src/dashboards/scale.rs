//! Axes: the positions of their ticks, and their labels.

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::panel::Unit;
use super::series::Span;

/// Possible seconds between the ticks of a time axis.
const PACES: [i64; 13] = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];

/// An axis from its low to its high end.
#[derive(Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    /// Values, and the label of each.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis from zero, or from the smallest value if that is negative, to a little above the largest, with about
    /// `ticks` ticks.
    pub fn of_values(unit: Unit, smallest: f64, largest: f64, ticks: u8) -> Self {
        let (low, largest) = (smallest.min(0.0), if largest > 0.0 { largest } else { 1.0 });
        let measure = unit.measure(largest);
        let mut step = round_step((largest - low) / measure.of / f64::from(ticks.max(1)));
        // Counted things have no fractions.
        if unit == Unit::Number && largest >= 1.0 {
            step = step.max(1.0 / measure.of);
        }
        let decimals = decimals_of(step);
        let first = (low / measure.of / step).ceil();
        // The last tick may be above all values, so that no value touches the edge.
        let last = (largest / measure.of / step - 1e-9).ceil();
        let at = |tick: f64| {
            let value = tick * step;
            (value * measure.of, format!("{value:.decimals$}{}", measure.name))
        };
        let count = (last - first).round();
        let ticks: Vec<_> = (0_u8..=32).map(f64::from).take_while(|it| *it <= count).map(|it| at(first + it)).collect();
        let top = ticks.last().map_or(largest, |(value, _)| *value);
        Self { low, high: top.max(largest * 1.04), ticks }
    }

    /// A time axis with at most `ticks` ticks.
    pub fn of_time(span: Span, ticks: i64) -> Result<Self> {
        let length = span.to - span.from;
        let pace = PACES.into_iter().find(|pace| length / pace <= ticks).unwrap_or(86_400);
        let format = if pace < 60 { "%H:%M:%S" } else { "%H:%M" };
        let first = span.from + (pace - span.from.rem_euclid(pace)) % pace;
        let mut marked = Vec::new();
        let mut at = first;
        while at <= span.to {
            marked.push((seconds(at), written(at, format)?));
            at += pace;
        }
        Ok(Self { low: seconds(span.from), high: seconds(span.to), ticks: marked })
    }

    /// The position of a value along the axis, from 0 to 1.
    pub fn share(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// Formats a time in UTC.
pub fn written(second: i64, format: &str) -> Result<String> {
    let moment = Timestamp::from_second(second).context("a time that there is")?;
    Ok(moment.strftime(format).to_string())
}

/// A time as a float, for drawing.
#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^52")]
pub fn seconds(at: i64) -> f64 {
    at as f64
}

/// The unit in which values are shown.
struct Measure {
    /// The size of one unit.
    of: f64,
    /// The text after the number.
    name: &'static str,
}

impl Unit {
    /// The unit in which values up to `largest` are shown.
    fn measure(self, largest: f64) -> Measure {
        let largest = largest.abs();
        let (of, name) = match self {
            Self::Number if largest >= 10_000_000.0 => (1e6, " M"),
            Self::Number if largest >= 10_000.0 => (1e3, " k"),
            Self::Number => (1.0, ""),
            Self::Rate => (1.0, "/s"),
            Self::Share => (0.01, "%"),
            Self::Seconds if largest < 1e-3 => (1e-6, " µs"),
            Self::Seconds if largest < 0.8 => (1e-3, " ms"),
            Self::Seconds if largest < 180.0 => (1.0, " s"),
            Self::Seconds if largest < 10_800.0 => (60.0, " min"),
            Self::Seconds if largest < 259_200.0 => (3600.0, " h"),
            Self::Seconds => (86_400.0, " d"),
        };
        Measure { of, name }
    }

    /// Formats a value with its unit.
    pub fn tell(self, value: f64) -> String {
        let measure = self.measure(value);
        let number = format!("{:.2}", value / measure.of);
        let number = number.trim_end_matches('0').trim_end_matches('.');
        format!("{number}{}", measure.name)
    }
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least * 0.999).unwrap_or(10.0);
    factor * power
}

/// How many decimals multiples of a step need.
fn decimals_of(step: f64) -> usize {
    (0..9)
        .find(|decimals| {
            let scaled = step * 10_f64.powi(*decimals);
            (scaled - scaled.round()).abs() < 1e-6 && scaled.round() >= 1.0
        })
        .and_then(|decimals| usize::try_from(decimals).ok())
        .unwrap_or(9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    fn of(unit: Unit, largest: f64) -> Axis {
        Axis::of_values(unit, 0.0, largest, 4)
    }

    #[test]
    fn ticks_are_round_and_have_units() {
        assert_eq!(labels(&of(Unit::Number, 0.0)), ["0", "1"]);
        assert_eq!(labels(&of(Unit::Number, 2.0)), ["0", "1", "2"]);
        assert_eq!(labels(&of(Unit::Number, 3.1)), ["0", "1", "2", "3", "4"]);
        assert_eq!(labels(&of(Unit::Number, 20_000.0)), ["0 k", "5 k", "10 k", "15 k", "20 k"]);
        assert_eq!(labels(&of(Unit::Rate, 0.31)), ["0.0/s", "0.1/s", "0.2/s", "0.3/s", "0.4/s"]);
        assert_eq!(labels(&of(Unit::Seconds, 0.012)), ["0 ms", "5 ms", "10 ms", "15 ms"]);
        assert_eq!(labels(&of(Unit::Seconds, 300.0)), ["0 min", "2 min", "4 min", "6 min"]);
        assert_eq!(labels(&of(Unit::Share, 0.04)), ["0%", "1%", "2%", "3%", "4%"]);
    }

    #[test]
    fn values_stay_between_the_ends() {
        let axis = of(Unit::Number, 4.0);
        assert_eq!((axis.share(0.0), axis.share(-1.0)), (0.0, 0.0));
        assert!(axis.share(4.0) < 1.0 && axis.share(4.0) > 0.9, "{axis:?}");
        assert!(Axis::of_values(Unit::Number, -2.0, 2.0, 4).share(0.0) > 0.4);
    }

    #[test]
    fn ticks_of_time_are_at_round_minutes() -> Result<()> {
        let axis = Axis::of_time(Span { from: 1_700_000_030, to: 1_700_000_330, step: 2 }, 6)?;
        assert_eq!(labels(&axis), ["22:14", "22:15", "22:16", "22:17", "22:18"]);
        let axis = Axis::of_time(Span { from: 1_700_000_000, to: 1_700_000_030, step: 1 }, 6)?;
        assert_eq!(labels(&axis)[..2], ["22:13:20", "22:13:25"]);
        Ok(())
    }

    #[test]
    fn single_values_are_short() {
        assert_eq!(Unit::Number.tell(1.0), "1");
        assert_eq!(Unit::Number.tell(0.0), "0");
        assert_eq!(Unit::Seconds.tell(0.25), "250 ms");
        assert_eq!(Unit::Share.tell(0.125), "12.5%");
    }
}
