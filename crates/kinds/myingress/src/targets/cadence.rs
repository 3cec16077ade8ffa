//! Decides when AWS is asked again for the health of a group's targets. Pure.

use std::time::Duration;

use causeway_aws::elbv2::{HealthCheck, TargetState};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause while pods wait at their readiness gate.
const LONGEST_FOR_A_POD: Duration = Duration::from_secs(10);
/// The longest pause while only the status waits.
const LONGEST: Duration = Duration::from_mins(1);
/// How long AWS takes until its checks follow a change.
const BEGINS: Duration = Duration::from_mins(1);
/// The first pause for targets that fail or drain, because they do so for a while.
const FIRST_SLOW_PAUSE: Duration = Duration::from_secs(30);

/// How long AWS takes at most to judge all targets by a check, with what it needs to begin with it.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health-checks.html>
pub fn judged_within(check: &HealthCheck) -> Duration {
    let checks = u32::from(check.healthy.max(check.unhealthy));
    Duration::from_secs(u64::from(check.interval) + u64::from(check.timeout)) * checks + BEGINS
}

/// How long until AWS is asked again; `None` if nothing is expected to change. `looks` counts the reads since the last
/// change; `disturbed` says whether a change that was made lately may make any target healthy or unhealthy.
pub fn next_look(
    states: impl Iterator<Item = TargetState>,
    pods_wait: bool,
    disturbed: bool,
    looks: u32,
) -> Option<Duration> {
    let doubled = |from: Duration, longest: Duration| (from * 2_u32.saturating_pow(looks.min(8))).min(longest);
    if pods_wait {
        return Some(doubled(FIRST_PAUSE, LONGEST_FOR_A_POD));
    }
    let (mut checked, mut slow) = (disturbed, false);
    for state in states {
        match state {
            TargetState::Healthy => {}
            TargetState::Initial | TargetState::Unused | TargetState::Unavailable => checked = true,
            TargetState::Unhealthy | TargetState::Draining => slow = true,
        }
    }
    if checked { Some(doubled(FIRST_PAUSE, LONGEST)) } else { slow.then(|| doubled(FIRST_SLOW_PAUSE, LONGEST)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TargetState::{Draining, Healthy, Initial, Unhealthy, Unused};
    use causeway_aws::elbv2::Protocol;

    fn pauses(states: &[TargetState], pods_wait: bool) -> Vec<Option<u64>> {
        pauses_after(states, pods_wait, false)
    }

    fn pauses_after(states: &[TargetState], pods_wait: bool, disturbed: bool) -> Vec<Option<u64>> {
        let pause = |looks| next_look(states.iter().copied(), pods_wait, disturbed, looks).map(|pause| pause.as_secs());
        [0, 1, 3, 40].map(pause).to_vec()
    }

    #[test]
    fn asks_after_a_changed_check_as_for_new_targets() {
        for states in [&[Healthy][..], &[Unhealthy], &[Healthy, Draining], &[]] {
            assert_eq!(pauses_after(states, false, true), [Some(1), Some(2), Some(8), Some(60)], "{states:?}");
        }
    }

    #[test]
    fn the_larger_threshold_tells_when_a_target_is_judged() {
        let check = |interval, timeout, healthy, unhealthy| HealthCheck {
            protocol: Protocol::Http,
            port: None,
            path: "/".into(),
            interval,
            timeout,
            healthy,
            unhealthy,
            codes: "200".into(),
        };
        assert_eq!(judged_within(&check(30, 5, 5, 2)), Duration::from_secs(35 * 5 + 60));
        assert_eq!(judged_within(&check(5, 2, 2, 10)), Duration::from_secs(70 + 60));
    }

    #[test]
    fn asks_often_while_a_pod_waits_and_never_when_settled() {
        assert_eq!(pauses(&[Healthy], false), [None; 4]);
        assert_eq!(pauses(&[], false), [None; 4]);
        assert_eq!(pauses(&[Healthy], true), [Some(1), Some(2), Some(8), Some(10)]);
        assert_eq!(pauses(&[Healthy, Initial, Unhealthy], false), [Some(1), Some(2), Some(8), Some(60)]);
        assert_eq!(pauses(&[Unused], false), [Some(1), Some(2), Some(8), Some(60)]);
        assert_eq!(pauses(&[Healthy, Unhealthy], false), [Some(30), Some(60), Some(60), Some(60)]);
        assert_eq!(pauses(&[Draining], false), [Some(30), Some(60), Some(60), Some(60)]);
    }
}
