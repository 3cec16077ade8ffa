//! Estimates the cost of a run on a real account. Pure.

use std::fmt::Write as _;

/// The region and year of the prices below. Other regions charge up to twice as much. Each price names its source.
/// AWS's price pages fill in their tables by scripts, so only the examples on them can be quoted.
pub const PRICES_OF: &str = "list prices of us-east-1 in 2026";

/// Hours of a month, as AWS bills them.
const MONTH: f64 = 730.0;

/// One item that costs money.
struct Price {
    what: &'static str,
    /// The unit that is counted.
    unit: &'static str,
    /// US dollars per unit.
    each: f64,
}

/// Billed by whole hours. The source is the examples of <https://aws.amazon.com/elasticloadbalancing/pricing/>, of
/// which this is a copy of 2026-09-20:
/// <https://github.com/api-evangelist/amazon-elastic-load-balancing/blob/main/plans/amazon-elastic-load-balancing-plans-pricing.yml>
const BALANCER: Price = Price { what: "Application Load Balancer", unit: "hour", each: 0.0225 };
/// A run sends a few requests, a small part of one unit. A whole unit is counted. The source is that of [`BALANCER`].
const CAPACITY: Price = Price { what: "its capacity unit (LCU)", unit: "hour", each: 0.008 };
/// In use or idle, in all regions. The source is AWS's text of 2026-08-20:
/// <https://github.com/aws/agent-toolkit-for-aws/blob/d6ad2e44d5e3077b85b63f322e007c84f94f3a6c/skills/core-skills/aws-billing-and-cost-management/references/cost-audit.md>
const ADDRESS: Price = Price { what: "public IPv4 addresses of the balancer", unit: "hour", each: 0.005 };
/// With the operations and throughput that come with a volume. The source is AWS's text of 2026-08-20:
/// <https://github.com/aws/agent-toolkit-for-aws/blob/d6ad2e44d5e3077b85b63f322e007c84f94f3a6c/skills/core-skills/aws-billing-and-cost-management/references/ebs-optimization.md>
const VOLUME: Price = Price { what: "GiB of EBS gp3 volumes", unit: "month", each: 0.08 };
/// Requests that write or list; reads cost a tenth. The source is AWS's price list of 2026-09-28 for this region, as
/// quoted by others:
/// <https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonS3/20260928230416/us-east-1/index.json>
const REQUESTS: Price = Price { what: "thousand requests to S3", unit: "run", each: 0.005 };
/// In the storage class Standard. The source is that of [`REQUESTS`].
const STORED: Price = Price { what: "GiB in S3 (less is written)", unit: "month", each: 0.023 };

/// The quantities of a run that cost money.
#[derive(Clone, Copy)]
pub struct Quantities {
    /// Public addresses: one for each subnet of the balancer.
    pub addresses: u32,
    /// The size of all volumes in GiB.
    pub gibibytes: u32,
}
pub struct Estimate {
    lines: Vec<(String, f64)>,
    once: f64,
}

/// The cost of these quantities.
pub fn estimate(quantities: Quantities) -> Estimate {
    let line = |number: u32, price: &Price| {
        let hours = if price.unit == "month" { MONTH } else { 1.0 };
        let cost = f64::from(number) * price.each / hours;
        (format!("{number} {} at {} USD per {}", price.what, price.each, price.unit), cost)
    };
    let mut lines = vec![line(1, &BALANCER), line(1, &CAPACITY)];
    if quantities.addresses > 0 {
        lines.push(line(quantities.addresses, &ADDRESS));
    }
    lines.extend([line(quantities.gibibytes, &VOLUME), line(1, &STORED)]);
    let (requests, once) = line(1, &REQUESTS);
    lines.push((requests, 0.0));
    Estimate { lines, once }
}

impl Estimate {
    /// US dollars per hour.
    pub fn hourly(&self) -> f64 {
        self.lines.iter().map(|(_, cost)| cost).sum()
    }

    /// The estimate as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (what, cost) in &self.lines {
            let hourly = if *cost > 0.0 { format!("{cost:.5} USD/h") } else { "once".to_owned() };
            let _ = writeln!(text, "  {hourly:<14} {what}");
        }
        let _ = write!(
            text,
            "  about {:.2} USD for each hour begun, and {} USD once. This is an estimate by {PRICES_OF}; your region, taxes,\n  \
             discounts and traffic between zones change it. The cluster and its nodes are not counted: they are there already.",
            self.hourly(),
            self.once
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_balancer_and_some_volumes_cost_cents() {
        let estimate = estimate(Quantities { addresses: 3, gibibytes: 6 });
        let expected = 0.0225 + 0.008 + 3.0 * 0.005 + (6.0 * 0.08 + 0.023) / 730.0;
        assert!((estimate.hourly() - expected).abs() < 1e-9, "{}", estimate.hourly());
        assert!(
            estimate.text().contains("about 0.05 USD for each hour begun, and 0.005 USD once"),
            "{}",
            estimate.text()
        );
        assert!(estimate.text().contains("estimate"));
    }

    #[test]
    fn an_internal_balancer_has_no_public_address() {
        let text = estimate(Quantities { addresses: 0, gibibytes: 1 }).text();
        assert!(!text.contains("IPv4"), "{text}");
    }
}
