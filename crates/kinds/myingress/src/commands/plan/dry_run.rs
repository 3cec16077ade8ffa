//! Rehearses everything that the operator would do for an object. It uses the operator's own reads and decisions, but
//! only records the changes instead of making them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde_json::json;

use causeway_api::{Conditioned, MyIngress, MyIngressStatus};
use causeway_aws::elbv2::Target;
use causeway_runtime::{ExtraCondition, Failure, Health, Kind, merge_conditions};

use super::changes::{call, changes};
use super::fields::{difference, of_document};
use super::report::{Change, Field, ObjectReport, Origin, Outcome, System};
use crate::MyIngressKind;
use crate::action::predicted::{MADE_UP, PredictedAws};
use crate::action::{Action, BalancerAction};
use crate::decide::{decide, decide_removal};
use crate::error::Error;
use crate::observe::facts::{Observed, key_of};
use crate::observe::observe;
use crate::ownership::Owner;
use crate::targets::{Binding, Endpoints, Step};

/// More rounds than any plan takes.
const ROUNDS: usize = 100;

/// Predicts the steps of all objects, one after the other.
pub struct DryRun<'a> {
    pub kind: &'a MyIngressKind,
    pub predicted: PredictedAws,
}

/// An object during its dry run.
pub struct DryRunResult {
    /// The object, as the changes so far would leave it.
    pub object: MyIngress,
    /// The report of the plan about it.
    pub report: ObjectReport,
}

impl DryRunResult {
    /// An object before its dry run.
    pub fn new(object: MyIngress, origin: Origin) -> Self {
        let result = Outcome { stalled: false, reason: String::new(), message: String::new() };
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        Self {
            object,
            report: ObjectReport { namespace, name, origin, changes: Vec::new(), checks: Vec::new(), result },
        }
    }

    fn end(&mut self, health: &Health) {
        let (stalled, reason, message) = match health {
            Health::Ready(cause) | Health::Progressing(cause) | Health::Retrying(cause) | Health::Unknown(cause) => {
                (false, cause.reason, cause.message.clone())
            }
            Health::Stalled(cause) => (true, cause.reason, cause.message.clone()),
            Health::Unchanged(otherwise) => return self.end(otherwise),
        };
        self.report.result = Outcome { stalled, reason: reason.into(), message };
    }

    /// Writes a status as the runtime does: only if it differs.
    fn write_status(&mut self, mut status: MyIngressStatus, health: &Health, parts: &[ExtraCondition]) {
        let before = self.object.status.clone().unwrap_or_default();
        let generation = self.object.meta().generation;
        *status.conditions_mut() = merge_conditions(before.conditions(), health, parts, generation, Timestamp::now());
        *status.observed_generation_mut() = generation;
        let fields = difference(&of_document(&json!(before)), &of_document(&json!(status)));
        self.object.status = Some(status);
        if !fields.is_empty() {
            self.kubernetes("patch status", fields);
        }
    }

    fn write_finalizers(&mut self, after: Vec<String>) {
        let before = json!({ "metadata": { "finalizers": self.object.finalizers() } });
        self.object.metadata.finalizers = Some(after);
        let after = json!({ "metadata": { "finalizers": self.object.finalizers() } });
        self.kubernetes("patch", difference(&of_document(&before), &of_document(&after)));
    }

    fn kubernetes(&mut self, call: &'static str, fields: Vec<Field>) {
        let subject = format!("myingress {}/{}", self.report.namespace, self.report.name);
        self.report.changes.push(Change { system: System::Kubernetes, call, subject, fields });
    }
}

impl DryRun<'_> {
    /// Rehearses everything that would follow for an object now. Returns whether there was something.
    pub async fn go_on(&mut self, result: &mut DryRunResult) -> bool {
        let before = result.report.changes.len();
        if let Err(error) = self.reconcile(result).await {
            result.report.result = Outcome { stalled: true, reason: error.reason().into(), message: error.to_string() };
        }
        result.report.changes.len() > before
    }

    async fn reconcile(&mut self, result: &mut DryRunResult) -> Result<(), Error> {
        let finalizer = MyIngressKind::FINALIZER.unwrap_or_default();
        let held = result.object.finalizers().iter().any(|it| it == finalizer);
        if result.object.meta().deletion_timestamp.is_some() {
            return if held { self.remove(result, finalizer).await } else { Ok(()) };
        }
        if result.object.spec.suspend {
            let status = result.object.status.clone().unwrap_or_default();
            let suspended = Health::suspended(MyIngressKind::SUSPENDED);
            result.write_status(status, &suspended, &[]);
            result.end(&suspended);
            return Ok(());
        }
        if !held {
            let held = result.object.finalizers().iter().cloned().chain([finalizer.to_owned()]).collect();
            result.write_finalizers(held);
        }
        for _ in 0..ROUNDS {
            let observed = self.observe(&result.object).await?;
            let plan = decide(&result.object, &observed, Timestamp::now());
            if plan.write_status_first || plan.actions.is_empty() {
                result.write_status(plan.status, &plan.health, &plan.parts);
            }
            result.end(&plan.health);
            if plan.actions.is_empty() && !self.time_passes(&observed) {
                return Ok(());
            }
            self.carry_out(result, &observed, &plan.actions).await?;
        }
        Ok(())
    }

    async fn remove(&mut self, result: &mut DryRunResult, finalizer: &str) -> Result<(), Error> {
        for _ in 0..ROUNDS {
            let observed = self.observe(&result.object).await?;
            let removal = decide_removal(&result.object, &observed);
            if removal.actions.is_empty() {
                break;
            }
            self.carry_out(result, &observed, &removal.actions).await?;
        }
        let rest = result.object.finalizers().iter().filter(|it| *it != finalizer).cloned().collect();
        result.write_finalizers(rest);
        result.report.result =
            Outcome { stalled: false, reason: "Deleted".into(), message: "the object is being deleted".into() };
        Ok(())
    }

    async fn observe(&self, object: &MyIngress) -> Result<Observed, Error> {
        let observed = observe(self.kind, object).await?;
        let unread = observed.endpoints.iter().filter(|(_, it)| **it == Endpoints::NotReadyYet).map(|(name, _)| name);
        let groups = observed.built.model.iter().flat_map(|model| &model.groups);
        let unread: Vec<_> = unread.collect();
        let mut waited = false;
        for (_, group) in groups.filter(|(name, _)| unread.contains(name)) {
            self.kind.targets.ready_for(&group.backend).await;
            waited = true;
        }
        if waited { observe(self.kind, object).await } else { Ok(observed) }
    }

    async fn carry_out(
        &mut self,
        result: &mut DryRunResult,
        observed: &Observed,
        actions: &[Action],
    ) -> Result<(), Error> {
        let region = &self.kind.region;
        for action in actions {
            if let Action::Bind(bindings) = action {
                self.kind.bind(bindings, &key_of(&observed.owner));
                result.report.changes.extend(self.follow(&observed.owner, bindings).await?);
                continue;
            }
            let adopted = match action {
                Action::Balancer(BalancerAction::Adopt { name, .. }) => region.foreign_balancer(&observed.owner, name),
                _ => None,
            };
            let before = region.owned_by(&observed.owner);
            region.predict(&mut self.predicted, &observed.subnets, action);
            let after = region.owned_by(&observed.owner);
            let adopted = adopted.map(|(_, tags)| tags);
            result.report.changes.extend(changes(action, &before, &after, adopted.as_ref()));
        }
        Ok(())
    }

    /// The calls that make targets follow their backends.
    async fn follow(&self, owner: &Owner, bindings: &[Binding]) -> Result<Vec<Change>, Error> {
        let assets = self.kind.region.owned_by(owner);
        let mut calls = Vec::new();
        for arn in bindings.iter().filter_map(|binding| binding.group_arn.as_ref()) {
            let health = if arn.contains(MADE_UP) {
                self.kind.targets.unread(arn).then(BTreeMap::new)
            } else if self.kind.targets.unread(arn) {
                Some(self.kind.region.elb.target_health(arn).await.map_err(Error::from_aws)?)
            } else {
                None
            };
            let name = assets.groups.get(arn).map_or(arn, |member| &member.group.name);
            calls.extend(
                self.kind.targets.predict_steps(arn, health).into_iter().filter_map(|step| registration(name, step)),
            );
        }
        Ok(calls)
    }

    /// Lets balancers become active, and targets that AWS checks become healthy. Returns whether something changed.
    fn time_passes(&self, observed: &Observed) -> bool {
        let mut changed = self.kind.region.predict_active(&observed.owner);
        let assets = self.kind.region.owned_by(&observed.owner);
        for (arn, _) in assets.groups.iter().filter(|(_, member)| !member.group.balancers.is_empty()) {
            changed |= self.kind.targets.predict_healthy(arn);
        }
        changed
    }
}

fn registration(group: &str, step: Step) -> Option<Change> {
    let subject = format!("target group {group}");
    let text = |target: &Target| format!("targets.{}:{}", target.id, target.port);
    let present = || Some("registered".to_owned());
    match step {
        Step::Register(targets) => {
            let fields = targets.iter().map(|it| Field { path: text(it), old: None, new: present() });
            Some(call("RegisterTargets", subject, fields.collect()))
        }
        Step::Deregister(targets) => {
            let fields = targets.iter().map(|it| Field { path: text(it), old: present(), new: None });
            Some(call("DeregisterTargets", subject, fields.collect()))
        }
        Step::Read | Step::Rest => None,
    }
}
