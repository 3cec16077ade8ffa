//! Groups of kinds with a common leader. Databases have a lease of their own, because their clients wait while there is
//! no leader.

use std::time::Duration;

use causeway_runtime::leader::Timing;

use crate::config::RunOptions;
use crate::controllers::Served;

/// The time that calls in progress may take after SIGTERM. The pod's grace period is longer.
const DRAIN: Duration = Duration::from_secs(20);
/// Short, because the next leader resumes whatever was cut off, and a failover must not wait for a node that hangs.
const DATABASE_DRAIN: Duration = Duration::from_secs(2);

/// Kinds that one lease guards.
#[derive(Clone, Debug)]
pub struct Group {
    /// The name of the lease.
    pub lease: String,
    /// The timing of its election.
    pub timing: Timing,
    /// The time that calls in progress may take after SIGTERM.
    pub drain: Duration,
    /// True if a standby starts its controllers as soon as the leader may be gone.
    pub warms_up: bool,
    /// The kinds, in the order of the options; never empty.
    pub kinds: Vec<Served>,
}

impl Group {
    /// Returns the groups of the kinds to serve.
    pub fn of_options(options: &RunOptions) -> Vec<Self> {
        let (databases, others): (Vec<_>, Vec<_>) = options.kinds.iter().copied().partition(|kind| kind.is_database());
        let common = options.lease_name.clone();
        let databases = Self {
            lease: format!("{common}-databases"),
            timing: Timing::of_duration(options.database_lease_duration),
            drain: DATABASE_DRAIN,
            warms_up: true,
            kinds: databases,
        };
        let others = Self { lease: common, timing: Timing::DEFAULT, drain: DRAIN, warms_up: false, kinds: others };
        [databases, others].into_iter().filter(|group| !group.kinds.is_empty()).collect()
    }

    /// Returns the names of the kinds.
    pub fn names(&self) -> Vec<&'static str> {
        self.kinds.iter().map(|kind| kind.name()).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::{Parser, ValueEnum};

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: RunOptions,
    }

    fn groups(arguments: &[&str]) -> Vec<(String, Vec<Served>)> {
        let named = ["causeway", "--cluster-name", "prod"].iter().chain(arguments);
        let options = Command::try_parse_from(named).expect("options").options;
        Group::of_options(&options).into_iter().map(|group| (group.lease, group.kinds)).collect()
    }

    #[test]
    fn each_kind_is_guarded_by_one_lease() {
        let all = groups(&[]);
        let leases: Vec<_> = all.iter().map(|(lease, _)| lease.as_str()).collect();
        assert_eq!(leases, ["causeway-databases", "causeway"]);
        assert_eq!(all[0].1, [Served::EtcdCluster, Served::Redis]);
        let mut kinds: Vec<_> = all.into_iter().flat_map(|(_, kinds)| kinds).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, Served::value_variants());
    }

    #[test]
    fn a_group_without_kinds_has_no_election() {
        assert_eq!(groups(&["--kinds", "Redis"]), [("causeway-databases".to_owned(), vec![Served::Redis])]);
        let named = groups(&["--kinds", "MyApp,MyIngress", "--lease-name", "left"]);
        assert_eq!(named, [("left".to_owned(), vec![Served::MyApp, Served::MyIngress])]);
    }

    #[test]
    fn calls_of_a_database_leader_end_before_the_next_begins() {
        for seconds in [5, 60] {
            let Timing { lease_duration, renew_deadline, retry_period } =
                Timing::of_duration(Duration::from_secs(seconds));
            assert!(retry_period * 2 < renew_deadline);
            // A command to a Redis node times out after one second.
            assert!(renew_deadline + Duration::from_secs(2) <= lease_duration);
        }
    }
}
