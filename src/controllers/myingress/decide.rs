//! Decides what to do about a balancer. Pure.

use std::collections::BTreeSet;

use super::apply::Action;
use super::fleet::Member;
use super::names::candidates;
use super::observe::Observed;
use crate::api::myingress::{AlbStatus, ManagedKeys, MyIngressSpec};
use crate::api::{DeletionPolicy, MyIngress, MyIngressStatus};
use crate::external::elbv2::{NewBalancer, Pairs, State};
use crate::runtime::{ActionEvent, Health, Plan, Removal};

const DELETION_PROTECTION: &str = "deletion_protection.enabled";

/// What a removed key of `spec.attributes` goes back to. A key that is not here stays as it is.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerAttribute.html>
const ATTRIBUTE_DEFAULTS: &[(&str, &str)] = &[
    ("access_logs.s3.enabled", "false"),
    ("client_keep_alive.seconds", "3600"),
    ("connection_logs.s3.enabled", "false"),
    (DELETION_PROTECTION, "false"),
    ("idle_timeout.timeout_seconds", "60"),
    ("load_balancing.cross_zone.enabled", "true"),
    ("routing.http.desync_mitigation_mode", "defensive"),
    ("routing.http.drop_invalid_header_fields.enabled", "false"),
    ("routing.http.preserve_host_header.enabled", "false"),
    ("routing.http.x_amzn_tls_version_and_cipher_suite.enabled", "false"),
    ("routing.http.xff_client_port.enabled", "false"),
    ("routing.http.xff_header_processing.mode", "append"),
    ("routing.http2.enabled", "true"),
    ("waf.fail_open.enabled", "false"),
    ("zonal_shift.config.enabled", "false"),
];

/// What to do so that AWS has what the object says.
pub fn decide(object: &MyIngress, observed: &Observed) -> Plan<Action, MyIngressStatus> {
    let before = object.status.clone().unwrap_or_default();
    let managed = managed_keys(&object.spec, before.managed.as_ref());
    let mut plan = Plan {
        actions: Vec::new(),
        record_first: before.managed.as_ref() != managed.as_ref() && managed.is_some(),
        status: MyIngressStatus { alb: before.alb.clone(), managed, ..MyIngressStatus::default() },
        health: Health::progressing("Creating", "the load balancer is being created"),
        requeue: None,
    };
    let Some(current) = current(object, observed) else {
        return without_balancer(object, observed, plan);
    };
    let shown = shown(current, observed, before.alb.as_ref());
    plan.status.alb = Some(describe(shown));
    plan.actions = repairs(&object.spec, current, observed, before.managed.as_ref());
    let serves = matches!(current.balancer.state, State::Active | State::ActiveImpaired);
    if serves {
        let surplus = observed.owned.iter().filter(|member| member.balancer.arn != current.balancer.arn);
        plan.actions.extend(surplus.map(|member| delete(observed, member)));
        // The new DNS name must be known before the old one stops to answer.
        plan.record_first |= observed.owned.len() > 1;
    }
    plan.health = match current.balancer.state {
        State::Active => Health::ready("Active", "the load balancer is active"),
        State::ActiveImpaired => {
            Health::ready("ActiveImpaired", "the load balancer is active, but AWS lacks the resources to scale it")
        }
        State::Provisioning => Health::progressing("Provisioning", "AWS is setting the load balancer up"),
        State::Failed => Health::stalled(
            "ProvisioningFailed",
            "AWS could not set the load balancer up: see its state reason in AWS, then delete this object and create it again",
        ),
    };
    if !plan.actions.is_empty() {
        plan.health = Health::progressing("Updating", "the load balancer is being updated");
    }
    if plan.actions.is_empty() {
        // Keys that the spec no longer has were removed: forget them.
        plan.status.managed = managed_keys(&object.spec, None);
    }
    plan
}

fn without_balancer(
    object: &MyIngress,
    observed: &Observed,
    mut plan: Plan<Action, MyIngressStatus>,
) -> Plan<Action, MyIngressStatus> {
    if let Some(lost) = observed.disowned.as_ref().filter(|_| observed.owned.is_empty()) {
        plan.record_first = false;
        plan.health = Health::stalled(
            "OwnershipLost",
            format!(
                "the tags causeway.example.com/cluster and /uid of load balancer {} no longer name this object, so it is \
                 left alone: put them back ({} and {}), or delete the balancer to have a new one",
                lost.name, observed.owner.cluster, observed.owner.uid
            ),
        );
        return plan;
    }
    let names = candidates(&observed.owner, object.spec.scheme);
    let Some(name) = names.into_iter().find(|name| !observed.taken.contains(name)) else {
        plan.health =
            Health::stalled("NameTaken", "every name for the load balancer is taken: choose another metadata.name");
        return plan;
    };
    let mut tags = object.spec.tags.clone();
    tags.extend(observed.owner.tags());
    if observed.owned.is_empty() {
        // What the status names is gone.
        plan.status.alb = None;
    } else {
        plan.health = Health::progressing("Replacing", "a new load balancer replaces the one of the other scheme");
    }
    plan.actions.push(Action::Create(NewBalancer {
        name,
        scheme: object.spec.scheme,
        subnets: object.spec.subnets.iter().cloned().collect(),
        security_groups: object.spec.security_groups.iter().cloned().collect(),
        tags,
    }));
    plan
}

/// The balancer that is to stay: of the right scheme, and of several the one that the status names.
fn current<'a>(object: &MyIngress, observed: &'a Observed) -> Option<&'a Member> {
    let recorded = object.status.as_ref().and_then(|status| status.alb.as_ref()).map(|alb| alb.arn.as_str());
    let fitting = || observed.owned.iter().filter(|member| member.balancer.scheme == Some(object.spec.scheme));
    fitting().find(|member| Some(member.balancer.arn.as_str()) == recorded).or_else(|| fitting().next())
}

/// The balancer that users are told of: while its replacement is being set up, the old one.
fn shown<'a>(current: &'a Member, observed: &'a Observed, before: Option<&AlbStatus>) -> &'a Member {
    let old = observed.owned.iter().find(|member| before.is_some_and(|alb| alb.arn == member.balancer.arn));
    match old {
        Some(old) if current.balancer.state == State::Provisioning => old,
        _ => current,
    }
}

fn describe(member: &Member) -> AlbStatus {
    let balancer = &member.balancer;
    AlbStatus {
        dns: balancer.dns.clone(),
        arn: balancer.arn.clone(),
        name: balancer.name.clone(),
        state: balancer.state.as_str().into(),
        zone_id: balancer.zone_id.clone(),
    }
}

fn repairs(spec: &MyIngressSpec, member: &Member, observed: &Observed, before: Option<&ManagedKeys>) -> Vec<Action> {
    let arn = || member.balancer.arn.clone();
    let mut actions = Vec::new();
    let groups: BTreeSet<String> = spec.security_groups.iter().cloned().collect();
    if !groups.is_empty() && groups != member.balancer.security_groups {
        actions.push(Action::SetSecurityGroups { arn: arn(), groups });
    }
    let subnets: BTreeSet<String> = spec.subnets.iter().cloned().collect();
    if subnets != member.balancer.subnets {
        actions.push(Action::SetSubnets { arn: arn(), subnets });
    }
    let mut wanted = spec.tags.clone();
    wanted.extend(observed.owner.tags());
    let stale: BTreeSet<String> = before
        .iter()
        .flat_map(|managed| &managed.tags)
        .filter(|key| !wanted.contains_key(*key) && member.tags.contains_key(*key))
        .cloned()
        .collect();
    if !stale.is_empty() {
        actions.push(Action::RemoveTags { arn: arn(), keys: stale });
    }
    let tags = differing(&wanted, &member.tags);
    if !tags.is_empty() {
        actions.push(Action::AddTags { arn: arn(), tags });
    }
    if let Some(present) = &member.attributes {
        let attributes = differing(&wanted_attributes(spec, before), present);
        if !attributes.is_empty() {
            actions.push(Action::SetAttributes { arn: arn(), attributes });
        }
    }
    actions
}

/// The attributes of the spec, and AWS's defaults for those that it had before.
fn wanted_attributes(spec: &MyIngressSpec, before: Option<&ManagedKeys>) -> Pairs {
    let dropped = before.iter().flat_map(|managed| &managed.attributes);
    let defaults = dropped.filter_map(|key| ATTRIBUTE_DEFAULTS.iter().find(|(known, _)| known == key));
    let mut wanted: Pairs = defaults.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    wanted.extend(spec.attributes.clone());
    wanted
}

fn differing(wanted: &Pairs, present: &Pairs) -> Pairs {
    let differing = wanted.iter().filter(|(key, value)| present.get(*key) != Some(*value));
    differing.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The keys of the spec and those that it had before.
fn managed_keys(spec: &MyIngressSpec, before: Option<&ManagedKeys>) -> Option<ManagedKeys> {
    let union = |now: &Pairs, before: Option<&Vec<String>>| -> Vec<String> {
        let all: BTreeSet<&String> = now.keys().chain(before.into_iter().flatten()).collect();
        all.into_iter().cloned().collect()
    };
    let keys = ManagedKeys {
        tags: union(&spec.tags, before.map(|managed| &managed.tags)),
        attributes: union(&spec.attributes, before.map(|managed| &managed.attributes)),
    };
    (keys != ManagedKeys::default()).then_some(keys)
}

fn delete(observed: &Observed, member: &Member) -> Action {
    Action::Delete {
        owner: observed.owner.clone(),
        arn: member.balancer.arn.clone(),
        name: member.balancer.name.clone(),
    }
}

/// How to clean up after a deleted object.
pub fn decide_removal(object: &MyIngress, observed: &Observed) -> Removal<Action> {
    let mut removal = Removal { actions: Vec::new(), farewell: None };
    if let Some(lost) = &observed.disowned {
        removal.farewell = Some(ActionEvent {
            reason: "LeftAlone",
            note: format!("Left load balancer {} in AWS: its tags no longer name this object", lost.name),
        });
    }
    if object.spec.deletion_policy == DeletionPolicy::Retain {
        let names: Vec<&str> = observed.owned.iter().map(|member| member.balancer.name.as_str()).collect();
        removal.farewell = (!names.is_empty()).then(|| ActionEvent {
            reason: "Retained",
            note: format!("Left load balancer {} in AWS, as spec.deletionPolicy says", names.join(", ")),
        });
        return removal;
    }
    let unprotect = object.spec.attributes.get(DELETION_PROTECTION).map(String::as_str) == Some("false");
    for member in &observed.owned {
        let protected = member.attributes.as_ref().and_then(|attributes| attributes.get(DELETION_PROTECTION));
        if unprotect && protected.map(String::as_str) == Some("true") {
            removal.actions.push(Action::SetAttributes {
                arn: member.balancer.arn.clone(),
                attributes: Pairs::from([(DELETION_PROTECTION.into(), "false".into())]),
            });
        }
        removal.actions.push(delete(observed, member));
    }
    removal
}
