//! Decides about our readiness gate: a pod is not ready before the balancers that send to it know that it is healthy.
//! Pure.
//!
//! Once open, a gate stays open while its pod can serve, whatever AWS says about the target later. Otherwise a failing
//! health check would make the pods unready in Kubernetes as well, and one balancer in trouble would take the Service
//! from all its other clients. The gate closes when the pod stops being a target. Then its containers are not ready
//! anyway, and when it comes back it waits like a new pod.
//!
//! <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-readiness-gate>

use causeway_aws::elbv2::{Target, TargetHealth, TargetState};

use super::facts::{Gate, GatedPod};

/// The state of a pod in one target group of a Service that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// ARN of the target group.
    pub group: String,
    /// The pod's target.
    pub target: Target,
    /// True if it is to be registered.
    pub wanted: bool,
    /// Its health in a read since the pod became able to serve; `None` before the first one.
    pub health: Option<TargetHealth>,
    /// The reason why the group does not follow its endpoints.
    pub trouble: Option<String>,
}

/// The new value of our condition of the pod; `None` to leave it as it is.
pub fn verdict(pod: &GatedPod, standings: &[Standing]) -> Option<Gate> {
    if pod.leaving || standings.is_empty() {
        return None;
    }
    let open = pod.gate.as_ref().is_some_and(|gate| gate.open);
    let verdict = match (open, pod.able) {
        (true, true) | (false, false) => return None,
        (true, false) => {
            closed_gate("NotServing", "its containers are not ready, so load balancers send it nothing".into())
        }
        (false, true) => {
            let wanted: Vec<&Standing> = standings.iter().filter(|standing| standing.wanted).collect();
            if wanted.is_empty() {
                return None;
            }
            match wanted.iter().find(|standing| !healthy(standing)) {
                Some(waiting) => explained(waiting)?,
                None => Gate {
                    open: true,
                    reason: "TargetHealthy".into(),
                    message: match wanted.len() {
                        1 => "healthy in its target group".into(),
                        several => format!("healthy in {several} target groups"),
                    },
                },
            }
        }
    };
    (pod.gate.as_ref() != Some(&verdict)).then_some(verdict)
}

fn healthy(standing: &Standing) -> bool {
    standing.health.as_ref().is_some_and(|health| health.state == TargetState::Healthy)
}

/// Explains why a pod waits; `None` if the wait is over in a moment and not worth a write for each of many pods.
fn explained(standing: &Standing) -> Option<Gate> {
    let group = standing.group.split('/').nth(1).unwrap_or(&standing.group);
    let target = format!("{}:{} of target group {group}", standing.target.id, standing.target.port);
    let Some(health) = &standing.health else {
        let trouble = standing.trouble.as_ref()?;
        return Some(closed_gate("TargetNotRegistered", format!("{target} is not registered yet: {trouble}")));
    };
    let answer = health.description.as_ref().map(|answer| format!(": {answer}")).unwrap_or_default();
    Some(match health.state {
        TargetState::Unhealthy => closed_gate("TargetUnhealthy", format!("{target} fails its health checks{answer}")),
        TargetState::Unused => {
            let why = "no listener of an active load balancer sends to the group yet";
            closed_gate("TargetUnused", format!("{target} is not checked: {why}"))
        }
        TargetState::Unavailable => {
            closed_gate("TargetUnavailable", format!("the health of {target} is not known{answer}"))
        }
        TargetState::Draining => {
            closed_gate("TargetNotRegistered", format!("{target} is draining and is registered again"))
        }
        TargetState::Initial | TargetState::Healthy => {
            closed_gate("TargetInitial", format!("{target} is registered; its first health checks are under way"))
        }
    })
}

fn closed_gate(reason: &str, message: String) -> Gate {
    Gate { open: false, reason: reason.into(), message }
}

#[cfg(test)]
mod tests {
    use super::super::facts::CONDITION;
    use super::*;
    use causeway_api::common::PREFIX;
    use proptest::prelude::*;

    fn pod(able: bool, open: Option<bool>) -> GatedPod {
        let gate = open.map(|open| Gate { open, reason: "R".into(), message: "M".into() });
        GatedPod { uid: "1".into(), able, able_since: None, leaving: false, gate, version: 1 }
    }

    fn standing(wanted: bool, state: Option<TargetState>) -> Standing {
        let health = state.map(|state| TargetHealth { state, description: Some("Connection refused".into()) });
        let group = "arn:aws:elasticloadbalancing:eu-west-1:000000000000:targetgroup/web-app/0123456789abcdef".into();
        Standing { group, target: Target { id: "10.0.0.1".into(), port: 80 }, wanted, health, trouble: None }
    }

    const STATES: [TargetState; 6] = [
        TargetState::Initial,
        TargetState::Healthy,
        TargetState::Unhealthy,
        TargetState::Unused,
        TargetState::Draining,
        TargetState::Unavailable,
    ];

    #[test]
    fn the_condition_has_our_prefix() {
        assert!(CONDITION.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with('/')));
    }

    #[test]
    fn opens_when_every_group_says_healthy() {
        let healthy = standing(true, Some(TargetState::Healthy));
        let other = standing(true, Some(TargetState::Initial));
        let waits = pod(true, None);
        assert!(verdict(&waits, &[healthy.clone(), healthy.clone()]).unwrap().open);
        assert_eq!(verdict(&waits, &[healthy.clone(), other]).unwrap().reason, "TargetInitial");
        assert_eq!(verdict(&waits, &[healthy.clone(), standing(true, None)]), None, "about to be read");
        let failing = Standing { trouble: Some("throttled".into()), ..standing(true, None) };
        assert_eq!(verdict(&waits, &[healthy, failing]).unwrap().reason, "TargetNotRegistered");
    }

    #[test]
    fn says_why_it_is_closed() {
        let gate = verdict(&pod(true, None), &[standing(true, Some(TargetState::Unhealthy))]).unwrap();
        assert_eq!(gate.message, "10.0.0.1:80 of target group web-app fails its health checks: Connection refused");
    }

    #[test]
    fn a_pod_without_a_bound_service_is_left_alone() {
        assert_eq!(verdict(&pod(true, None), &[]), None);
        assert_eq!(verdict(&pod(true, None), &[standing(false, None)]), None);
    }

    #[test]
    fn closes_for_a_pod_that_stops_serving_but_not_leaving() {
        assert_eq!(verdict(&pod(false, Some(true)), &[standing(false, None)]).unwrap().reason, "NotServing");
        let leaving = GatedPod { leaving: true, ..pod(false, Some(true)) };
        assert_eq!(verdict(&leaving, &[standing(false, None)]), None);
    }

    fn any_standing() -> impl Strategy<Value = Standing> {
        (any::<bool>(), proptest::option::of(proptest::sample::select(&STATES[..])))
            .prop_map(|(wanted, state)| standing(wanted, state))
    }

    proptest! {
        #[test]
        fn opens_only_for_healthy_pods_and_never_closes_while_serving(
            able: bool, open in proptest::option::of(any::<bool>()),
            standings in proptest::collection::vec(any_standing(), 0..4),
        ) {
            let pod = pod(able, open);
            let decided = verdict(&pod, &standings);
            if let Some(gate) = &decided && gate.open {
                prop_assert!(able && standings.iter().any(|it| it.wanted));
                prop_assert!(standings.iter().filter(|it| it.wanted).all(healthy));
            }
            if able && open == Some(true) {
                prop_assert_eq!(&decided, &None);
            }
            // A decision that was written is not made again.
            if let Some(gate) = decided {
                let written = GatedPod { gate: Some(gate), ..pod };
                prop_assert_eq!(verdict(&written, &standings), None);
            }
        }
    }
}
