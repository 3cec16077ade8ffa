//! Calls about targets of target groups, and their health.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_elasticloadbalancingv2::types as aws;
use aws_sdk_elasticloadbalancingv2::types::builders::TargetDescriptionBuilder;
use aws_sdk_elasticloadbalancingv2::types::{TargetDescription, TargetHealthStateEnum};

use super::target::{Target, TargetHealth, TargetState};
use super::{Elbv2, Outcome};

/// Targets per call. AWS documents no limit, but sometimes refuses large batches.
const BATCH: usize = 200;

impl Elbv2 {
    /// Registers targets, 200 per call. Registering one that is registered has no effect. Those in `outside` are
    /// addresses in no subnet of the group's VPC.
    pub async fn register_targets(&self, arn: &str, targets: &[Target], outside: &BTreeSet<String>) -> Outcome<()> {
        for batch in targets.chunks(BATCH) {
            let batch = batch.iter().map(|target| with_zone(target, outside)).collect();
            let call = self.client.register_targets().target_group_arn(arn).set_targets(Some(batch));
            self.caller.call_again("RegisterTargets", || call.clone().send()).await?;
        }
        Ok(())
    }

    /// Deregisters targets, 200 per call. One that is not registered does not matter.
    pub async fn deregister_targets(&self, arn: &str, targets: &[Target]) -> Outcome<()> {
        for batch in targets.chunks(BATCH) {
            let call = self.client.deregister_targets().target_group_arn(arn).set_targets(Some(descriptions(batch)));
            self.caller.call_again("DeregisterTargets", || call.clone().send()).await?;
        }
        Ok(())
    }

    /// The targets of a group, including those that are draining.
    pub async fn target_health(&self, arn: &str) -> Outcome<BTreeMap<Target, TargetHealth>> {
        let call = self.client.describe_target_health().target_group_arn(arn);
        let answer = self.caller.call_again("DescribeTargetHealth", || call.clone().send()).await?;
        Ok(answer.target_health_descriptions.unwrap_or_default().into_iter().filter_map(health).collect())
    }
}

fn descriptions(targets: &[Target]) -> Vec<TargetDescription> {
    targets.iter().map(|target| description(target).build()).collect()
}

fn description(target: &Target) -> TargetDescriptionBuilder {
    TargetDescription::builder().id(&target.id).port(target.port.into())
}

/// An Application Load Balancer requires the zone `all` for an address outside its VPC's subnets ("The Availability
/// Zone for IP address 'X' must be 'all' for Application Load Balancer target groups, when not within the VPC"). It
/// refuses that zone for an address inside ("is within the VPC, and cannot have its Availability Zone overridden to
/// 'all'").
/// <https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/783>, `/561` and `/3714`, read on
/// 2026-11-23.
fn with_zone(target: &Target, outside: &BTreeSet<String>) -> TargetDescription {
    let zone = outside.contains(&target.id).then(|| "all".to_owned());
    description(target).set_availability_zone(zone).build()
}

fn health(described: aws::TargetHealthDescription) -> Option<(Target, TargetHealth)> {
    let target = described.target?;
    let health = described.target_health?;
    let state = match health.state {
        Some(TargetHealthStateEnum::Initial) => TargetState::Initial,
        Some(TargetHealthStateEnum::Healthy) => TargetState::Healthy,
        Some(TargetHealthStateEnum::Unhealthy) => TargetState::Unhealthy,
        Some(TargetHealthStateEnum::Unused) => TargetState::Unused,
        Some(TargetHealthStateEnum::Draining | TargetHealthStateEnum::UnhealthyDraining) => TargetState::Draining,
        _ => TargetState::Unavailable,
    };
    let target = Target { id: target.id?, port: target.port?.try_into().ok()? };
    Some((target, TargetHealth { state, description: health.description.filter(|text| !text.is_empty()) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(state: &str) -> aws::TargetHealthDescription {
        let target = Target { id: "10.0.0.1".into(), port: 8080 };
        aws::TargetHealthDescription::builder()
            .target(descriptions(&[target]).remove(0))
            .target_health(aws::TargetHealth::builder().state(state.into()).description("why").build())
            .build()
    }

    #[test]
    fn the_zone_is_all_only_outside_the_vpc() {
        let outside = BTreeSet::from(["172.16.0.1".to_owned()]);
        let zone = |id: &str| with_zone(&Target { id: id.into(), port: 80 }, &outside).availability_zone;
        assert_eq!(zone("172.16.0.1").as_deref(), Some("all"));
        assert_eq!(zone("10.0.0.1"), None);
    }

    #[test]
    fn every_state_of_a_target_is_known() {
        for (word, state) in [
            ("initial", TargetState::Initial),
            ("healthy", TargetState::Healthy),
            ("unhealthy", TargetState::Unhealthy),
            ("unused", TargetState::Unused),
            ("draining", TargetState::Draining),
            ("unhealthy.draining", TargetState::Draining),
            ("unavailable", TargetState::Unavailable),
            ("a state of the future", TargetState::Unavailable),
        ] {
            let (target, health) = health(describe(word)).unwrap();
            assert_eq!(target, Target { id: "10.0.0.1".into(), port: 8080 });
            assert_eq!(health, TargetHealth { state, description: Some("why".into()) }, "{word}");
        }
    }
}
