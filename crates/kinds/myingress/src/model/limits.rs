//! AWS's limits for one balancer. An account may have higher quotas than the defaults; they count if they could be
//! read.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html>, read on 2026-11-23.

use std::collections::BTreeMap;

use super::Complaint;
use super::inbound::MOST_RULES;

/// Quotas of an account and region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Listeners of a balancer.
    pub listeners: usize,
    /// Rules of a balancer besides the default ones.
    pub rules: usize,
    /// Certificates of a balancer besides the default ones.
    pub certificates: usize,
    /// Target groups of a balancer.
    pub groups: usize,
    /// Condition values of a rule.
    pub values: usize,
    /// Wildcards in the conditions of a rule.
    pub wildcards: usize,
    /// Application Load Balancers of the region, all owners together.
    pub balancers: usize,
    /// Target groups of the region, all owners together.
    pub groups_of_region: usize,
    /// Rules of a security group for each address family. `DescribeAccountLimits` does not report this quota; an option
    /// of the operator sets it. <https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html>, read on
    /// 2026-11-23.
    pub security_group_rules: usize,
}

impl Default for Limits {
    /// The quotas of an account that never asked for more.
    fn default() -> Self {
        Self {
            listeners: 50,
            rules: 100,
            certificates: 25,
            groups: 100,
            values: 5,
            wildcards: 5,
            balancers: 50,
            groups_of_region: 3000,
            security_group_rules: MOST_RULES,
        }
    }
}

impl Limits {
    /// The quotas in an answer of `DescribeAccountLimits`, and the defaults for those that it leaves out.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeAccountLimits.html>
    pub fn of_answer(answer: &BTreeMap<String, usize>) -> Self {
        let default = Self::default();
        let of = |name: &str, default: usize| answer.get(name).copied().unwrap_or(default);
        Self {
            listeners: of("listeners-per-application-load-balancer", default.listeners),
            rules: of("rules-per-application-load-balancer", default.rules),
            certificates: of("certificates-per-application-load-balancer", default.certificates),
            groups: of("target-groups-per-application-load-balancer", default.groups),
            values: of("condition-values-per-alb-rule", default.values),
            wildcards: of("condition-wildcards-per-alb-rule", default.wildcards),
            balancers: of("application-load-balancers", default.balancers),
            groups_of_region: of("target-groups", default.groups_of_region),
            security_group_rules: default.security_group_rules,
        }
    }
}

/// From this percentage on the use of a region's quota is logged: AWS takes hours to days to raise one.
const NEARLY_ALL: usize = 90;

/// Reports whether so much of a quota is used that an administrator should ask for more.
pub fn is_nearly_used(used: usize, limit: usize) -> bool {
    used.saturating_mul(100) >= limit.saturating_mul(NEARLY_ALL)
}

/// The counts of a listener that AWS limits.
pub struct Size {
    /// Rules besides the default one.
    pub rules: usize,
    /// Certificates besides the default one.
    pub further_certificates: usize,
}

/// Checks that AWS lets a balancer have these listeners and this many target groups.
pub fn check(listeners: &[Size], groups: usize, limits: &Limits) -> Result<(), Complaint> {
    let rules = listeners.iter().map(|it| it.rules).sum();
    let certificates = listeners.iter().map(|it| it.further_certificates).sum();
    for (field, what, number, most) in [
        ("spec.listeners", "listeners", listeners.len(), limits.listeners),
        ("spec.listeners", "rules", rules, limits.rules),
        ("spec.listeners", "certificates beside the default ones", certificates, limits.certificates),
        ("spec.backends", "target groups", groups, limits.groups),
    ] {
        if number > most {
            let message = format!(
                "{field} brings the balancer to {number} {what}, and AWS takes {most} in this account: remove some, make \
                 another balancer, or ask for a higher quota in Service Quotas"
            );
            return Err(Complaint { reason: "LimitReached", message });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listeners(number: usize, rules: usize, further_certificates: usize) -> Vec<Size> {
        (0..number).map(|_| Size { rules, further_certificates }).collect()
    }

    #[test]
    fn each_limit_is_the_last_number_that_is_taken() {
        let limits = Limits::default();
        check(&listeners(50, 2, 0), 100, &limits).unwrap();
        check(&listeners(1, 100, 25), 0, &limits).unwrap();
        for (listeners, groups, words) in [
            (listeners(51, 0, 0), 0, "to 51 listeners, and AWS takes 50"),
            (listeners(2, 51, 0), 0, "to 102 rules, and AWS takes 100"),
            (listeners(2, 0, 13), 0, "to 26 certificates beside the default ones, and AWS takes 25"),
            (listeners(0, 0, 0), 101, "to 101 target groups, and AWS takes 100"),
        ] {
            let complaint = check(&listeners, groups, &limits).unwrap_err();
            assert!(complaint.message.contains(words), "{}", complaint.message);
        }
    }

    #[test]
    fn a_quota_is_nearly_used_from_nine_tenths_on() {
        assert!(!is_nearly_used(44, 50));
        assert!(is_nearly_used(45, 50));
        assert!(is_nearly_used(60, 50));
    }

    #[test]
    fn a_raised_quota_is_used_and_others_have_the_default() {
        let answer = [("rules-per-application-load-balancer", 200), ("network-load-balancers", 7)];
        let limits = Limits::of_answer(&answer.map(|(name, most)| (name.to_owned(), most)).into());
        assert_eq!(limits, Limits { rules: 200, ..Limits::default() });
        check(&listeners(2, 100, 0), 0, &limits).unwrap();
        let complaint = check(&listeners(3, 67, 0), 0, &limits).unwrap_err();
        assert!(complaint.message.contains("to 201 rules, and AWS takes 200"), "{}", complaint.message);
    }
}
