//! Summarizes a target group for a status. Pure.

use causeway_aws::elbv2::{Target, TargetHealth, TargetState};

use super::cache::TargetCache;
use super::wanted::Wanted;
use super::{Endpoints, Summary};

/// The summary of a group. `error` is why it does not follow its endpoints.
pub fn summary(cache: &TargetCache, endpoints: &Endpoints, error: Option<&str>) -> Summary {
    let count = |state: TargetState| cache.targets().filter(|(_, health)| health.state == state).count();
    let registered = cache.targets().filter(|(_, health)| health.state != TargetState::Draining).count();
    let wanted = match endpoints {
        Endpoints::Known(Wanted { targets, .. }) => Some(targets),
        _ => None,
    };
    let checked = [TargetState::Initial, TargetState::Unavailable].into_iter().any(|state| count(state) > 0);
    let same = wanted.is_none_or(|wanted| cache.difference(wanted).is_empty());
    Summary {
        healthy: count(TargetState::Healthy),
        own: wanted.map_or(count(TargetState::Healthy), |wanted| {
            cache.targets().filter(|(it, health)| health.state == TargetState::Healthy && wanted.contains(*it)).count()
        }),
        registered,
        total: wanted.map_or(registered, std::collections::BTreeSet::len),
        draining: count(TargetState::Draining),
        served_lately: false,
        known: !cache.unknown(),
        settled: !cache.unknown() && same && !checked,
        trouble: error.map(str::to_owned).or_else(|| unhealthy(cache)),
    }
}

fn unhealthy(cache: &TargetCache) -> Option<String> {
    let mut failing = cache.targets().filter(|(_, health)| health.state == TargetState::Unhealthy);
    let first = failing.next().map(describe)?;
    Some(match failing.count() {
        0 => first,
        others => format!("{first} (and {others} more)"),
    })
}

fn describe((target, health): (&Target, &TargetHealth)) -> String {
    let answer = health.description.as_deref().map(|answer| format!(": {answer}")).unwrap_or_default();
    format!("{}:{} unhealthy{answer}", target.id, target.port)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Instant;

    use super::*;
    use TargetState::{Draining, Healthy, Initial, Unhealthy};

    fn cache(states: &[TargetState]) -> TargetCache {
        let mut cache = TargetCache::default();
        let health = |state| TargetHealth { state, description: Some("Health checks failed".into()) };
        let answer: BTreeMap<_, _> =
            states.iter().enumerate().map(|(at, state)| (target(at), health(*state))).collect();
        cache.read(answer, Instant::now());
        cache
    }

    fn target(at: usize) -> Target {
        Target { id: format!("10.0.0.{at}"), port: 80 }
    }

    fn known_endpoints(targets: usize) -> Endpoints {
        Endpoints::Known(Wanted { targets: (0..targets).map(target).collect(), ..Wanted::default() })
    }

    #[test]
    fn counts_what_is_wanted() {
        let two = summary(&cache(&[Healthy, Unhealthy, Draining]), &known_endpoints(2), None);
        let trouble = Some("10.0.0.1:80 unhealthy: Health checks failed".to_owned());
        assert_eq!(
            two,
            Summary {
                healthy: 1,
                own: 1,
                registered: 2,
                total: 2,
                draining: 1,
                served_lately: false,
                known: true,
                settled: true,
                trouble
            }
        );
        assert!(!summary(&cache(&[Healthy, Initial]), &known_endpoints(2), None).settled);
        assert!(!summary(&cache(&[Healthy]), &known_endpoints(2), None).settled);
        assert!(!summary(&TargetCache::default(), &known_endpoints(0), None).settled);
        assert_eq!(summary(&cache(&[Healthy]), &Endpoints::NoSlices, None).total, 1);
    }

    #[test]
    fn an_error_is_reported_before_a_failing_target() {
        let failing = cache(&[Unhealthy, Unhealthy, Unhealthy]);
        let trouble = |error| summary(&failing, &known_endpoints(3), error).trouble.unwrap();
        assert_eq!(trouble(None), "10.0.0.0:80 unhealthy: Health checks failed (and 2 more)");
        assert_eq!(trouble(Some("throttled")), "throttled");
    }
}
