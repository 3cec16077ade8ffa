//! Sums a target group up for a status. Pure.

use super::belief::Belief;
use super::wanted::Wanted;
use super::{Endpoints, Summary};
use crate::external::elbv2::{Target, TargetHealth, TargetState};

/// How the group stands; `error` is why it does not follow its endpoints.
pub fn summary(belief: &Belief, endpoints: &Endpoints, error: Option<&str>) -> Summary {
    let count = |state: TargetState| belief.targets().filter(|(_, health)| health.state == state).count();
    let registered = belief.targets().filter(|(_, health)| health.state != TargetState::Draining).count();
    let wanted = match endpoints {
        Endpoints::Known(Wanted { targets, .. }) => Some(targets),
        _ => None,
    };
    let checked = [TargetState::Initial, TargetState::Unavailable].into_iter().any(|state| count(state) > 0);
    let same = wanted.is_none_or(|wanted| belief.difference(wanted).is_empty());
    Summary {
        healthy: count(TargetState::Healthy),
        registered,
        total: wanted.map_or(registered, std::collections::BTreeSet::len),
        draining: count(TargetState::Draining),
        known: !belief.unknown(),
        settled: !belief.unknown() && same && !checked,
        trouble: error.map(str::to_owned).or_else(|| unhealthy(belief)),
    }
}

fn unhealthy(belief: &Belief) -> Option<String> {
    let mut failing = belief.targets().filter(|(_, health)| health.state == TargetState::Unhealthy);
    let first = failing.next().map(told)?;
    Some(match failing.count() {
        0 => first,
        others => format!("{first} (and {others} more)"),
    })
}

fn told((target, health): (&Target, &TargetHealth)) -> String {
    let said = health.description.as_deref().map(|said| format!(": {said}")).unwrap_or_default();
    format!("{}:{} unhealthy{said}", target.id, target.port)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Instant;

    use super::*;
    use TargetState::{Draining, Healthy, Initial, Unhealthy};

    fn belief(states: &[TargetState]) -> Belief {
        let mut belief = Belief::default();
        let health = |state| TargetHealth { state, description: Some("Health checks failed".into()) };
        let said: BTreeMap<_, _> = states.iter().enumerate().map(|(at, state)| (target(at), health(*state))).collect();
        belief.read(said, Instant::now());
        belief
    }

    fn target(at: usize) -> Target {
        Target { id: format!("10.0.0.{at}"), port: 80 }
    }

    fn known(targets: usize) -> Endpoints {
        Endpoints::Known(Wanted { targets: (0..targets).map(target).collect(), ..Wanted::default() })
    }

    #[test]
    fn counts_what_is_wanted() {
        let two = summary(&belief(&[Healthy, Unhealthy, Draining]), &known(2), None);
        let trouble = Some("10.0.0.1:80 unhealthy: Health checks failed".to_owned());
        assert_eq!(
            two,
            Summary { healthy: 1, registered: 2, total: 2, draining: 1, known: true, settled: true, trouble }
        );
        assert!(!summary(&belief(&[Healthy, Initial]), &known(2), None).settled);
        assert!(!summary(&belief(&[Healthy]), &known(2), None).settled);
        assert!(!summary(&Belief::default(), &known(0), None).settled);
        assert_eq!(summary(&belief(&[Healthy]), &Endpoints::NoSlices, None).total, 1);
    }

    #[test]
    fn an_error_is_told_before_a_failing_target() {
        let failing = belief(&[Unhealthy, Unhealthy, Unhealthy]);
        let trouble = |error| summary(&failing, &known(3), error).trouble.unwrap();
        assert_eq!(trouble(None), "10.0.0.0:80 unhealthy: Health checks failed (and 2 more)");
        assert_eq!(trouble(Some("throttled")), "throttled");
    }
}
