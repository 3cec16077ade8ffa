//! Decides what to do about a balancer and all its parts. Pure.
//!
//! Each step plans what can be done with what exists now. What needs the ARN of something still to be created follows
//! when AWS is observed again, which costs no call. The order is: security group, balancer, target groups, their
//! bindings, listeners, rules. Unwanted parts are removed last.

mod aside;
mod attributes;
mod balancer;
mod entries;
mod followed;
mod frozen;
mod groups;
mod listeners;
mod named;
mod reachable;
mod removal;
mod replacement;
pub mod rules;
mod secrets;
mod security;
mod shifts;
mod status;
mod swaps;
mod tags;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use causeway_api::{MyIngress, MyIngressStatus};
use causeway_aws::elbv2::{Pairs, State};
use causeway_runtime::{Health, Plan};

use super::action::Action;
use super::error::SECRET_DENIED;
use super::members::key;
use super::model::{Complaint, Model};
use super::ownership::{ObjectKey, member_of, member_tag};
use crate::drift::rivals;
use crate::members::occupied;
use crate::observe::facts::Observed;
use crate::observe::lacking::TARGET_GROUP_NOT_FOUND;
use crate::region::assets::Member;

use aside::Aside;

pub use followed::backend_tag;
pub use groups::{bindings, bindings_without};
pub use reachable::WARNINGS;
pub use removal::{decide_removal, removal_waits_for, retains};
pub use status::{backend_trouble, remains};

/// Condition reason if a balancer cannot be adopted.
const ADOPTION_REFUSED: &str = "AdoptionRefused";
/// How soon a Secret that may not be read is tried again.
const SECRET_RETRY: Duration = Duration::from_mins(1);
/// The pause before AWS is asked again for something that the spec names and AWS did not know.
pub const ASKED_AGAIN: Duration = Duration::from_secs(30);
/// How soon the operator checks again whether another cluster still has our name. The check uses what was read already.
const RIVAL_RETRY: Duration = Duration::from_mins(1);

/// Plans how to bring AWS in line with the object, or with its group.
pub fn decide(object: &MyIngress, observed: &Observed, now: Timestamp) -> Plan<Action, MyIngressStatus> {
    let mut plan = Plan {
        actions: Vec::new(),
        write_status_first: false,
        status: status::status_before(object),
        health: Health::progressing("Creating", "the load balancer is being created"),
        parts: Vec::new(),
        requeue: None,
    };
    let current = balancer::current(object, observed);
    if let Some(rival) = &observed.rival {
        status::describe(&mut plan, object, observed, current);
        plan.health = Health::stalled(rivals::REASON, rival.message(&observed.owner.cluster));
        groups::unbind_others(observed, &mut plan.actions);
        // The change that ends this may concern another object, and thus not wake this one.
        plan.requeue = Some(RIVAL_RETRY);
        return plan;
    }
    if let Some(complaint) = observed.complaint(object) {
        // Nothing is done by halves: no change is made, and what exists stays as it is.
        status::describe(&mut plan, object, observed, current);
        plan.health = Health::stalled(complaint.reason, complaint.message.clone());
        plan.requeue = recheck(complaint.reason);
        return plan;
    }
    let Some(model) = &observed.built.model else {
        status::describe(&mut plan, object, observed, current);
        plan.health = Health::stalled(
            "GroupWithoutBalancer",
            "no valid member of the group names subnets: give one of them spec.subnets or spec.subnetSelector",
        );
        return plan;
    };
    let aside = Aside::new(&observed.refusals);
    let frozen = frozen::frozen(observed, model);
    let scene = Scene { observed, model, frozen, once_set: tags::once_set(observed), now, aside };
    match changes(object, &scene, current, &mut plan) {
        Ok(()) => {}
        Err(complaint) => {
            plan.actions.clear();
            plan.write_status_first = false;
            status::describe(&mut plan, object, observed, current);
            plan.requeue = recheck(complaint.reason);
            plan.health = Health::stalled(complaint.reason, complaint.message);
        }
    }
    let leads = leads(object, observed);
    if !leads && !plan.actions.is_empty() {
        plan.actions.clear();
        plan.write_status_first = false;
        plan.health = Health::progressing("Updating", "another member of the group is updating the load balancer");
    }
    if plan.actions.is_empty() {
        if !matches!(plan.health, Health::Stalled(_)) {
            plan.health = scene.aside.health(object, observed, leads).unwrap_or(plan.health);
        }
        plan.requeue = plan.requeue.into_iter().chain(scene.aside.next()).min();
    }
    plan
}

/// Returns the requeue of an object with a mistake whose correction wakes it by no event.
fn recheck(reason: &str) -> Option<Duration> {
    match reason {
        SECRET_DENIED => Some(SECRET_RETRY),
        TARGET_GROUP_NOT_FOUND | ADOPTION_REFUSED => Some(ASKED_AGAIN),
        _ => None,
    }
}

/// Reports whether requests of some member wait for targets, so that AWS will be changed once these are healthy.
pub fn waits(object: &MyIngress, observed: &Observed, now: Timestamp) -> bool {
    let Some((model, current)) = observed.built.model.as_ref().zip(balancer::current(object, observed)) else {
        return false;
    };
    let (aside, frozen) = (Aside::new(&observed.refusals), frozen::frozen(observed, model));
    let scene = Scene { observed, model, frozen, once_set: tags::once_set(observed), now, aside };
    !status::awaited(None, &scene, current).is_empty()
}

/// Reports whether the object acts for its group. One member does: the first valid one.
pub fn leads(object: &MyIngress, observed: &Observed) -> bool {
    let acting = observed.members.active().into_iter().map(key).find(|it| !observed.built.complaints.contains_key(it));
    acting == Some(key(object))
}

fn changes(
    object: &MyIngress,
    scene: &Scene,
    current: Option<&Member>,
    plan: &mut Plan<Action, MyIngressStatus>,
) -> Result<(), Complaint> {
    let (observed, model) = (scene.observed, scene.model);
    if let Some(verify) = balancer::verify(current) {
        // The balancer appears in the status at once. It is changed only after its tags have shown that it is ours.
        status::describe(plan, object, observed, current);
        plan.write_status_first = true;
        plan.actions.push(verify);
        scene.aside.leave_out(&mut plan.actions);
        return Ok(());
    }
    // Only an object alone can want such a group: of a group of objects, the member that wants it was left out.
    if let Some((name, group)) = model.groups.iter().find(|(name, _)| observed.taken_groups.contains_key(*name)) {
        return Err(occupied::lost_group(name, &group.backend_name, &observed.owner));
    }
    // This check comes before anything is created: a balancer without its listeners would be half of what is asked for.
    listeners::certified(scene)?;
    let security = security::plan(scene, current, &mut plan.actions)?;
    balancer::plan(object, scene, current, &security, plan)?;
    let Some(current) = current else {
        scene.aside.leave_out(&mut plan.actions);
        return Ok(());
    };

    let misplaced = groups::misplaced(scene, current);
    if !misplaced.is_empty() {
        plan.actions.extend(misplaced);
        scene.aside.leave_out(&mut plan.actions);
        status::describe(plan, object, observed, Some(current));
        plan.health = Health::progressing("Updating", "recreating target groups in the load balancer's VPC");
        return Ok(());
    }
    groups::plan(scene, current, &mut plan.actions);
    groups::bind(scene, current, &mut plan.actions);
    listeners::plan(scene, current, &mut plan.actions)?;
    groups::stick_last(scene, current, &mut plan.actions);
    scene.aside.leave_out(&mut plan.actions);

    status::describe(plan, object, observed, Some(current));
    let mut drained = None;
    if plan.actions.is_empty() {
        drained = groups::clear(scene, current, &mut plan.actions);
        security::clear(scene, &mut plan.actions);
        scene.aside.leave_out(&mut plan.actions);
    }
    // A balancer that lacks something does not take over from one that has it, unless only guests lack it.
    if plan.actions.is_empty() && !scene.aside.holds_for(|member| !scene.is_guest(member)) {
        replacement::switch(object, scene, current, plan);
        scene.aside.leave_out(&mut plan.actions);
    }
    plan.requeue = plan.requeue.into_iter().chain(drained).min();
    plan.health = if plan.actions.is_empty() {
        if scene.aside.is_empty() && !scene.is_held() {
            // The keys that the spec no longer has were removed from AWS, so forget them.
            let recorded = plan.status.managed.as_ref().is_some_and(|managed| managed.listeners);
            let listeners = listeners::exist(observed, recorded);
            plan.status.managed = tags::remember(scene, current, status::managed(model, None, listeners));
        }
        let member = key(object);
        let tells = serves(current) && !scene.is_guest(&member);
        let warning = tells.then(|| reachable::warning(scene, current, &member)).flatten();
        plan.status.warning = warning.as_ref().map(|(word, _)| (*word).to_owned());
        status::health(object, scene, current, warning.map(|(_, sentence)| sentence))
    } else {
        Health::progressing("Updating", "the load balancer is being updated")
    };
    Ok(())
}

/// The input of the planning steps.
struct Scene<'a> {
    observed: &'a Observed,
    model: &'a Model,
    /// Members whose rules and target groups stay as they are.
    frozen: BTreeSet<ObjectKey>,
    /// Tag keys that a spec once set.
    once_set: BTreeSet<String>,
    now: Timestamp,
    /// The actions that AWS refused.
    aside: Aside<'a>,
}

impl Scene<'_> {
    fn is_frozen(&self, tags: &Pairs) -> bool {
        member_of(tags).is_some_and(|member| self.frozen.contains(&member))
    }

    /// Reports whether the tags name a frozen member that is no guest. Its parts keep their positions, and so do the
    /// shared parts it needs.
    fn is_frozen_at_home(&self, tags: &Pairs) -> bool {
        member_of(tags).is_some_and(|member| self.frozen.contains(&member) && !self.is_guest(&member))
    }

    /// The frozen members of the group's own namespace.
    fn frozen_at_home(&self) -> impl Iterator<Item = &MyIngress> {
        let present = self.observed.members.present.iter().map(AsRef::as_ref);
        present.filter(move |object| self.frozen.contains(&key(object)) && !self.is_guest(&key(object)))
    }

    /// Reports whether the balancer itself stays as it is: the member that decides about it cannot take part now.
    fn is_held(&self) -> bool {
        self.observed.built.held_by.is_some()
    }

    fn is_guest(&self, member: &ObjectKey) -> bool {
        self.observed.members.is_guest(member)
    }

    /// The tags of a resource of the owner, or of one member of its group.
    fn tags(&self, member: Option<&ObjectKey>) -> Pairs {
        let mut tags = self.model.balancer.tags.clone();
        tags.extend(self.observed.owner.tags());
        if self.observed.members.grouped {
            tags.extend(member.map(member_tag));
        }
        tags
    }

    /// ARNs of the target groups that are there, by name.
    fn group_arns(&self) -> BTreeMap<&str, &str> {
        let groups = self.observed.assets.groups.iter();
        groups.map(|(arn, member)| (member.group.name.as_str(), arn.as_str())).collect()
    }
}

fn member_tag_key() -> String {
    member_tag(&(String::new(), String::new())).0
}

/// The part of `wanted` that differs from `present`.
fn differing(wanted: &Pairs, present: &Pairs) -> Pairs {
    let differing = wanted.iter().filter(|(key, value)| present.get(*key) != Some(*value));
    differing.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn serves(member: &Member) -> bool {
    matches!(member.balancer.state, State::Active | State::ActiveImpaired)
}
