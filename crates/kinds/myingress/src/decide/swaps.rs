//! The steps from a security group's present rules to its wanted ones. The group never has more rules than AWS allows,
//! and no client that may come in is shut out on the way.

use std::collections::BTreeSet;

use causeway_api::network;
use causeway_aws::ec2::{Permission, Source};

use crate::action::SecurityAction;
use crate::model::{MOST_RULES, counted};

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// Let these in.
    In(BTreeSet<Permission>),
    /// Let these in no longer.
    Out(BTreeSet<Permission>),
}

impl Swap {
    /// The change of the security group with this id.
    pub fn action(self, id: String) -> SecurityAction {
        match self {
            Self::In(permissions) => SecurityAction::Authorize { id, permissions },
            Self::Out(permissions) => SecurityAction::Revoke { id, permissions },
        }
    }
}

/// The steps from `present` to `wanted`. Missing rules are added as far as there is room; then surplus rules are
/// removed to make room for the rest. The first to be removed are those that overlap with no rule that is still
/// missing.
pub fn swaps(present: &BTreeSet<Permission>, wanted: &BTreeSet<Permission>) -> Vec<Swap> {
    // The model asks for more than the usual number only if the account's quota allows it.
    let (four, six) = counted(wanted);
    let most = four.max(six).max(MOST_RULES);
    let mut now = present.clone();
    let mut steps = Vec::new();
    loop {
        let missing: BTreeSet<Permission> = wanted.difference(&now).cloned().collect();
        let surplus: BTreeSet<Permission> = now.difference(wanted).cloned().collect();
        if missing.is_empty() {
            steps.extend((!surplus.is_empty()).then_some(Swap::Out(surplus)));
            return steps;
        }
        let batch = that_fit(&now, &missing, most);
        if !batch.is_empty() {
            now.extend(batch.clone());
            steps.push(Swap::In(batch));
            continue;
        }
        let leaving = first_to_go(&surplus, &missing);
        if leaving.is_empty() {
            // There is no room, and no rule to remove. The call is made anyway, so AWS's error is reported.
            steps.push(Swap::In(missing));
            return steps;
        }
        now.retain(|it| !leaving.contains(it));
        steps.push(Swap::Out(leaving));
    }
}

/// As many of the missing rules as there is room for beside the present ones.
fn that_fit(now: &BTreeSet<Permission>, missing: &BTreeSet<Permission>, most: usize) -> BTreeSet<Permission> {
    let (mut four, mut six) = counted(now);
    let mut fits = |permission: &&Permission| {
        let (more_four, more_six) = counted([*permission]);
        let fits = (more_four == 0 || four + more_four <= most) && (more_six == 0 || six + more_six <= most);
        if fits {
            (four, six) = (four + more_four, six + more_six);
        }
        fits
    };
    missing.iter().filter(|it| fits(it)).cloned().collect()
}

/// All surplus rules that overlap with no missing one; if there are none, the one that overlaps with the fewest.
fn first_to_go(surplus: &BTreeSet<Permission>, missing: &BTreeSet<Permission>) -> BTreeSet<Permission> {
    let needed_by = |it: &Permission| missing.iter().filter(|other| overlap(it, other)).count();
    let unneeded: BTreeSet<Permission> = surplus.iter().filter(|it| needed_by(it) == 0).cloned().collect();
    if unneeded.is_empty() {
        return surplus.iter().min_by_key(|it| needed_by(it)).cloned().into_iter().collect();
    }
    unneeded
}

/// Reports whether the same client may come in by both rules. The members of a prefix list or a security group are
/// unknown, so any client may be one.
fn overlap(one: &Permission, other: &Permission) -> bool {
    let protocols = one.protocol == other.protocol || [&one.protocol, &other.protocol].iter().any(|it| *it == "-1");
    let ports = match (one.ports, other.ports) {
        (Some(one), Some(other)) => one.from <= other.to && other.from <= one.to,
        _ => true,
    };
    let networks = match (&one.source, &other.source) {
        (Source::Network(one), Source::Network(other)) => {
            network::parse(one).zip(network::parse(other)).is_none_or(|(one, other)| network::overlap(&one, &other))
        }
        _ => true,
    };
    protocols && ports && networks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    fn network(cidr: &str) -> Permission {
        Permission::tcp(443, Source::Network(cidr.into()))
    }

    fn networks(from: usize, number: usize) -> BTreeSet<Permission> {
        (from..from + number).map(|it| network(&format!("10.{it}.0.0/16"))).collect()
    }

    #[test]
    fn nothing_is_done_where_nothing_differs() {
        assert_eq!(swaps(&networks(0, 40), &networks(0, 40)), []);
    }

    #[test]
    fn where_there_is_room_permissions_are_added_before_any_goes() {
        let (present, wanted) = (networks(0, 2), networks(1, 2));
        let steps = [Swap::In(networks(2, 1)), Swap::Out(networks(0, 1))];
        assert_eq!(swaps(&present, &wanted), steps);
    }

    #[test]
    fn forty_networks_for_forty_others_take_three_steps() {
        let steps = swaps(&networks(0, 40), &networks(100, 40));
        let sizes: Vec<isize> = steps
            .iter()
            .map(|step| match step {
                Swap::In(batch) => isize::try_from(batch.len()).unwrap(),
                Swap::Out(batch) => -isize::try_from(batch.len()).unwrap(),
            })
            .collect();
        assert_eq!(sizes, [20, -40, 20]);
    }

    #[test]
    fn a_network_goes_after_its_parts_have_come() {
        let mut present = networks(0, 59);
        present.insert(network("172.16.0.0/12"));
        let halves = BTreeSet::from([network("172.16.0.0/13"), network("172.24.0.0/13")]);
        let steps = swaps(&present, &halves);
        let whole = BTreeSet::from([network("172.16.0.0/12")]);
        assert_eq!(steps, [Swap::Out(networks(0, 59)), Swap::In(halves), Swap::Out(whole)]);
    }

    fn any_rules() -> impl Strategy<Value = BTreeSet<Permission>> {
        let cidr = prop_oneof![
            (0..30u8, 10..13u8).prop_map(|(it, length)| format!("{}.0.0.0/{length}", it * 8)),
            (0..60u8).prop_map(|it| format!("10.{it}.0.0/16")),
            (0..70u8).prop_map(|it| format!("2001:db8:{it}::/48")),
        ];
        let rule = (prop_oneof![Just(80u16), Just(443)], cidr)
            .prop_map(|(port, cidr)| Permission::tcp(port, Source::Network(cidr)));
        btree_set(rule, 0..120).prop_map(|rules| {
            let (mut four, mut six) = (0, 0);
            let mut fits = |it: &Permission| {
                let (more_four, more_six) = counted([it]);
                (four, six) = (four + more_four, six + more_six);
                (more_four == 0 || four <= MOST_RULES) && (more_six == 0 || six <= MOST_RULES)
            };
            rules.into_iter().filter(|it| fits(it)).collect()
        })
    }

    proptest! {
        #[test]
        fn no_step_exceeds_the_limit_or_removes_kept_networks(present in any_rules(), wanted in any_rules()) {
            let stays: BTreeSet<Permission> = present.intersection(&wanted).cloned().collect();
            let mut now = present;
            for step in swaps(&now, &wanted) {
                match step {
                    Swap::In(batch) => {
                        prop_assert!(batch.is_disjoint(&now) && !batch.is_empty());
                        now.extend(batch);
                    }
                    Swap::Out(batch) => {
                        prop_assert!(batch.is_subset(&now) && !batch.is_empty());
                        now.retain(|it| !batch.contains(it));
                    }
                }
                let (four, six) = counted(&now);
                prop_assert!(four <= MOST_RULES && six <= MOST_RULES);
                prop_assert!(stays.is_subset(&now));
            }
            prop_assert_eq!(now, wanted);
        }
    }
}
