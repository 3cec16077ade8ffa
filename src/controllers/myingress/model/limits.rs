//! How much AWS lets one balancer have.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html>

use super::Complaint;

/// What a listener counts for.
pub struct Size {
    /// Rules beside the default one.
    pub rules: usize,
    /// Certificates beside the default one.
    pub further_certificates: usize,
}

/// Whether AWS lets a balancer have these listeners and so many target groups.
pub fn check(listeners: &[Size], groups: usize) -> Result<(), Complaint> {
    let rules = listeners.iter().map(|it| it.rules).sum();
    let certificates = listeners.iter().map(|it| it.further_certificates).sum();
    for (field, what, number, most) in [
        ("spec.listeners", "listeners", listeners.len(), 50),
        ("spec.listeners", "rules", rules, 100),
        ("spec.listeners", "certificates beside the default ones", certificates, 25),
        ("spec.backends", "target groups", groups, 100),
    ] {
        if number > most {
            let message = format!(
                "{field} brings the balancer to {number} {what}, and AWS takes {most}: remove some, or make another \
                 balancer"
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
        check(&listeners(50, 2, 0), 100).unwrap();
        check(&listeners(1, 100, 25), 0).unwrap();
        for (listeners, groups, words) in [
            (listeners(51, 0, 0), 0, "to 51 listeners, and AWS takes 50"),
            (listeners(2, 51, 0), 0, "to 102 rules, and AWS takes 100"),
            (listeners(2, 0, 13), 0, "to 26 certificates beside the default ones, and AWS takes 25"),
            (listeners(0, 0, 0), 101, "to 101 target groups, and AWS takes 100"),
        ] {
            let complaint = check(&listeners, groups).unwrap_err();
            assert!(complaint.message.contains(words), "{}", complaint.message);
        }
    }
}
