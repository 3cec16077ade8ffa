//! Finds out what would be registered and deregistered, without doing it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use causeway_aws::elbv2::{Target, TargetHealth, TargetState};
use causeway_runtime::Environment;

use super::planner::Step;
use super::{Backend, Targets, watches};

impl Targets {
    /// Watches the cluster without changing any group.
    pub async fn watch(&self, environment: &Environment) {
        watches::run(&self.shared, environment).await;
    }

    /// Waits until the cluster has been read as far as this backend needs it.
    pub async fn ready_for(&self, backend: &Backend) {
        self.note_nodes(backend);
        let mut listed = self.shared.listed.subscribe();
        while !self.shared.cluster().complete(backend.target_type, &backend.namespace) {
            // Cannot fail: the sender lives in `self`.
            if listed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Reports whether a bound group must be read before a dry run can use it.
    pub fn unread(&self, group_arn: &str) -> bool {
        let group = self.shared.registry.group(group_arn);
        group.is_some_and(|group| group.state().planner.cache.unknown())
    }

    /// Takes `answer`, if given, as AWS's answer about a bound group's targets, and returns the changes that would
    /// follow.
    pub fn predict_steps(&self, group_arn: &str, answer: Option<BTreeMap<Target, TargetHealth>>) -> Vec<Step> {
        let Some(group) = self.shared.registry.group(group_arn) else { return Vec::new() };
        let now = Instant::now();
        if let Some(answer) = answer {
            group.state().planner.cache.read(answer, now);
        }
        let Some((wanted, _)) = self.shared.aim(&group) else { return Vec::new() };
        let mut state = group.state();
        state.planner.begin(now, false);
        let mut steps = Vec::new();
        loop {
            let step = state.planner.next(&wanted, &BTreeSet::new());
            match &step {
                Step::Register(targets) => state.planner.registered(targets, now),
                Step::Deregister(targets) => state.planner.deregistered(targets, now),
                Step::Read | Step::Rest => return steps,
            }
            steps.push(step);
        }
    }

    /// Marks the registered targets of a bound group that wait for their first check as healthy, because AWS checks
    /// targets of groups that are used. Returns whether there was one.
    pub fn predict_healthy(&self, group_arn: &str) -> bool {
        let Some(group) = self.shared.registry.group(group_arn) else { return false };
        let mut state = group.state();
        let answer = |(target, health): (&Target, &TargetHealth)| match health.state {
            TargetState::Draining => None,
            TargetState::Initial | TargetState::Unused => {
                Some((target.clone(), TargetHealth { state: TargetState::Healthy, description: None }))
            }
            _ => Some((target.clone(), health.clone())),
        };
        let after: BTreeMap<Target, TargetHealth> = state.planner.cache.targets().filter_map(answer).collect();
        let healthy = |health: &TargetHealth| health.state == TargetState::Healthy;
        let before = state.planner.cache.targets().filter(|(_, health)| healthy(health)).count();
        let changed = after.values().filter(|health| healthy(health)).count() > before;
        state.planner.cache.read(after, Instant::now());
        changed
    }
}
