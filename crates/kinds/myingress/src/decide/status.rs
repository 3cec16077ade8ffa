//! Builds the status that users see.

use std::collections::BTreeSet;

use causeway_api::myingress::{AlbStatus, ListenerStatus, ManagedKeys, TargetGroupStatus};
use causeway_api::{MyIngress, MyIngressStatus};
use causeway_aws::elbv2::{Condition, Match, Pairs, Protocol, State, TargetType};
use causeway_runtime::{ConditionStatus, ExtraCondition, Health, Plan};

use super::Scene;
use super::replacement::{self, replaces};
use crate::action::Action;
use crate::members::key;
use crate::model::certificates;
use crate::model::{CertificatesModel, GroupModel, Model, SecurityModel};
use crate::observe::facts::Observed;
use crate::ownership::ObjectKey;
use crate::region::assets::Member;
use crate::targets::{Backend, CheckPort, Endpoints, Refused, Wanted};

/// Condition type: whether every backend has healthy targets.
pub const TARGETS_HEALTHY: &str = "TargetsHealthy";

/// The status as it was.
pub fn status_before(object: &MyIngress) -> MyIngressStatus {
    MyIngressStatus { conditions: Vec::new(), observed_generation: None, ..object.status.clone().unwrap_or_default() }
}

/// Describes what exists in the status.
pub fn describe(
    plan: &mut Plan<Action, MyIngressStatus>,
    object: &MyIngress,
    observed: &Observed,
    current: Option<&Member>,
) {
    let Some(current) = current else {
        // Others of the group have deleted the balancer, and this member does not get another one.
        if observed.assets.balancers.is_empty() && observed.disowned.is_none() && observed.complaint(object).is_some() {
            (plan.status, plan.parts) = remains(object, observed);
        }
        return;
    };
    if let Some(targets) = fill(&mut plan.status, object, observed, current) {
        plan.parts = vec![targets];
    }
}

/// The status of a deleted object: what of it is still in AWS.
pub fn remains(object: &MyIngress, observed: &Observed) -> (MyIngressStatus, Vec<ExtraCondition>) {
    let mut status = status_before(object);
    let balancers = &observed.assets.balancers;
    let known = status.alb.as_ref().and_then(|alb| balancers.get(&alb.arn));
    if let Some(current) = known.or_else(|| balancers.values().next()) {
        let targets = fill(&mut status, object, observed, current);
        return (status, targets.into_iter().collect());
    }
    // Without its ARN, nothing would tell that a balancer was this object's.
    let alb = status.alb.filter(|_| observed.disowned.is_some());
    let security_group = observed.assets.security_groups.keys().next().cloned();
    let status = MyIngressStatus { alb, security_group, ..MyIngressStatus::default() };
    (status, vec![part(ConditionStatus::Absent, "", String::new())])
}

/// Describes what exists; returns the condition of the targets if they are known.
fn fill(
    status: &mut MyIngressStatus,
    object: &MyIngress,
    observed: &Observed,
    current: &Member,
) -> Option<ExtraCondition> {
    let before = object.status.as_ref().and_then(|status| status.alb.as_ref());
    let mut others = observed.assets.balancers.values().filter(|member| member.balancer.arn != current.balancer.arn);
    let old = others.find(|member| before.is_some_and(|alb| alb.arn == member.balancer.arn));
    let shown = old.filter(|_| !replaces(observed, current)).unwrap_or(current);
    status.alb = Some(alb(shown));
    let assets = &observed.assets;
    let here = assets.security_group_in(&shown.balancer.vpc).or_else(|| assets.security_groups.values().next());
    status.security_group = here.map(|group| group.id.clone());
    status.listeners = listeners(object, observed, shown);
    let model = observed.built.model.as_ref()?;
    status.target_groups = target_groups(object, observed, model);
    let groups = &status.target_groups;
    let (healthy, total) = groups.iter().fold((0, 0), |(h, t), group| (h + group.healthy, t + group.total));
    status.targets = (!groups.is_empty()).then(|| format!("{healthy}/{total}"));
    Some(targets_healthy(groups, observed, model))
}

fn part(status: ConditionStatus, reason: &'static str, message: String) -> ExtraCondition {
    ExtraCondition { type_: TARGETS_HEALTHY, status, reason, message }
}

fn alb(member: &Member) -> AlbStatus {
    let balancer = &member.balancer;
    AlbStatus {
        dns: balancer.dns.clone(),
        arn: balancer.arn.clone(),
        name: balancer.name.clone(),
        state: balancer.state.as_str().into(),
        zone_id: balancer.zone_id.clone(),
    }
}

fn listeners(object: &MyIngress, observed: &Observed, shown: &Member) -> Vec<ListenerStatus> {
    let ports: BTreeSet<u16> = object.spec.listeners.iter().map(|listener| listener.port).collect();
    let (tag, value) = super::member_tag(&key(object));
    let all = shown.listeners.iter().flat_map(|listeners| listeners.values());
    let ours = all.filter(|member| observed.owner.owns(&member.tags) && ports.contains(&member.listener.settings.port));
    let mut listeners: Vec<ListenerStatus> = ours
        .map(|member| {
            let rules = member.rules.values().filter(|rule| observed.owner.owns(&rule.tags));
            let rules = rules.filter(|rule| !observed.members.grouped || rule.tags.get(&tag) == Some(&value)).count();
            ListenerStatus {
                port: member.listener.settings.port,
                protocol: match member.listener.settings.protocol {
                    Protocol::Http => "HTTP".into(),
                    Protocol::Https => "HTTPS".into(),
                },
                arn: member.listener.arn.clone(),
                rules: u16::try_from(rules).unwrap_or(u16::MAX),
            }
        })
        .collect();
    listeners.sort_by_key(|listener| listener.port);
    listeners
}

fn target_groups(object: &MyIngress, observed: &Observed, model: &Model) -> Vec<TargetGroupStatus> {
    let own = model.groups.iter().filter(|(_, group)| group.member == key(object));
    let mut groups: Vec<TargetGroupStatus> = own
        .filter_map(|(name, group)| {
            let member = observed.assets.group_named(name)?;
            let summary = observed.summaries.get(&member.group.arn);
            let count = |count: Option<usize>| u32::try_from(count.unwrap_or(0)).unwrap_or(u32::MAX);
            Some(TargetGroupStatus {
                backend: group.backend_name.clone(),
                name: name.clone(),
                arn: member.group.arn.clone(),
                healthy: count(summary.map(|summary| summary.own)),
                total: count(summary.map(|summary| summary.total)),
                message: summary.and_then(|summary| summary.trouble.clone()),
            })
        })
        .collect();
    groups.sort_by(|a, b| a.backend.cmp(&b.backend));
    groups
}

fn targets_healthy(groups: &[TargetGroupStatus], observed: &Observed, model: &Model) -> ExtraCondition {
    let sick = groups.iter().find(|group| group.healthy < group.total || group.total == 0);
    match sick {
        None if groups.is_empty() => part(ConditionStatus::Absent, "", String::new()),
        None => part(ConditionStatus::True, "AllHealthy", "every target of every backend is healthy".into()),
        Some(group) if group.total == 0 => {
            let endpoints = observed.endpoints.get(&group.name);
            let why = model.groups.get(&group.name).and_then(|model| without_targets(&model.backend, endpoints));
            let why = why.unwrap_or_else(|| "AWS has none of its targets".to_owned());
            part(ConditionStatus::False, "NoTargets", format!("backend {}: {why}", group.backend))
        }
        Some(group) => {
            let cause = group.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
            let (healthy, total) = (group.healthy, group.total);
            let message = format!("backend {}: {healthy} of {total} targets are healthy{cause}", group.backend);
            part(ConditionStatus::False, "TargetsUnhealthy", message)
        }
    }
}

/// The health of the object when nothing is left to do. `warning` is what keeps clients from connecting.
pub fn health(object: &MyIngress, scene: &Scene, current: &Member, warning: Option<String>) -> Health {
    let names_targets = !object.spec.target_security_groups.is_empty();
    let unreached = || super::entries::trouble(scene, current).filter(|_| names_targets);
    let awaited = awaited(Some(&key(object)), scene, current);
    if let Some((reason, message)) = missing_backend(object, scene).or_else(unreached) {
        let meanwhile = if awaited.is_empty() { "" } else { "; until then, requests go where they went" };
        return Health::stalled(reason, format!("{message}{meanwhile}"));
    }
    if let Some(message) = uncertified(object, scene) {
        return Health::stalled("CertificateNotFound", message);
    }
    if let Some(message) = super::listeners::priority_conflict(&key(object), scene, current) {
        return Health::stalled("PriorityTaken", message);
    }
    if let Some(message) = waiting(scene, &awaited) {
        return Health::progressing("WaitingForTargets", message);
    }
    match current.balancer.state {
        State::Active => {
            if let Some(why) = held_by(object, scene) {
                return Health::ready("BalancerHeldUp", format!("the load balancer is active. {why}"));
            }
            let warning = warning.map(|warning| format!(". {warning}")).unwrap_or_default();
            Health::ready("Active", format!("the load balancer is active{warning}"))
        }
        State::ActiveImpaired => {
            Health::ready("ActiveImpaired", "the load balancer is active, but AWS lacks the resources to scale it")
        }
        State::Provisioning => Health::progressing("Provisioning", "AWS is setting the load balancer up"),
        State::Failed => Health::stalled(
            "ProvisioningFailed",
            "AWS could not set the load balancer up: see its state reason in AWS, then delete this object and create it again",
        ),
    }
}

/// The target groups for whose targets requests of a member, or of any member, wait.
pub fn awaited(object: Option<&ObjectKey>, scene: &Scene, current: &Member) -> BTreeSet<String> {
    let mut awaited = super::listeners::awaited(object, scene, current);
    // Some follow a former backend until then.
    let own = scene.model.groups.iter().filter(|(_, group)| object.is_none_or(|object| group.member == *object));
    let own = own.filter_map(|(name, group)| Some((group, scene.observed.assets.group_named(name)?)));
    let moving = own.filter(|(group, member)| super::groups::former(scene, current, group, member).is_some());
    awaited.extend(moving.map(|(_, member)| member.group.arn.clone()));
    // All members share the balancer, and the status shows the former one until the new one takes over.
    if replacement::old(scene).next().is_some() {
        awaited.extend(replacement::awaited(scene.observed));
    }
    awaited
}

/// Describes why requests do not go to these target groups yet.
fn waiting(scene: &Scene, awaited: &BTreeSet<String>) -> Option<String> {
    let groups = awaited.iter().filter_map(|arn| {
        let name = &scene.observed.assets.groups.get(arn)?.group.name;
        let group = scene.model.groups.get(name)?;
        Some((&group.backend_name, name, group, scene.observed.summaries.get(arn)))
    });
    let (backend, name, group, summary) = groups.min_by_key(|(backend, name, ..)| (*backend, *name))?;
    let (service, port) = (&group.backend.service, &group.backend.port);
    let others = match awaited.len() {
        1 => String::new(),
        all => format!(" ({} more backends wait, too)", all - 1),
    };
    let endpoints = scene.observed.endpoints.get(name);
    let why = without_targets(&group.backend, endpoints).unwrap_or_else(|| {
        let cause = summary.and_then(|it| it.trouble.as_ref()).map(|it| format!(": {it}")).unwrap_or_default();
        let all = match endpoints {
            Some(Endpoints::Known(wanted)) => wanted.targets.len(),
            _ => 0,
        };
        format!("none of the {all} targets of Service {service}, port {port}, is healthy{cause}")
    });
    Some(format!(
        "requests go to backend {backend} as soon as one of its targets is healthy; until then, they go where they went: \
         {why}{others}"
    ))
}

/// Describes why a backend has no targets; `None` if it has some.
fn without_targets(backend: &Backend, endpoints: Option<&Endpoints>) -> Option<String> {
    let Backend { service, port, namespace, .. } = backend;
    Some(match endpoints {
        Some(Endpoints::Known(wanted)) if !wanted.targets.is_empty() => return None,
        Some(Endpoints::Known(_)) if backend.target_type == TargetType::Instance => format!(
            "no ready node can be a target of Service {service}, port {port}: load balancers leave out nodes of the control \
             plane, nodes with the label node.kubernetes.io/exclude-from-external-load-balancers, and, with \
             externalTrafficPolicy: Local, nodes without a ready endpoint"
        ),
        Some(Endpoints::Known(_)) => format!("Service {service} has no ready endpoints on port {port}"),
        Some(Endpoints::NoSlices) => format!("Service {service} has no EndpointSlice with endpoints on port {port}"),
        Some(Endpoints::ServiceMissing) => format!("there is no Service {service} in namespace {namespace}"),
        Some(Endpoints::PortMissing { .. }) => format!("Service {service} has no port {port}"),
        Some(Endpoints::Unsuitable(why) | Endpoints::PoliciesUnknown(why)) => why.clone(),
        Some(Endpoints::NotReadyYet) | None => {
            format!("the endpoints of Service {service}, port {port}, are not known")
        }
    })
}

/// Explains why the balancer itself stays as it is; `None` if it does not. Guests decide nothing about it.
fn held_by(object: &MyIngress, scene: &Scene) -> Option<String> {
    let holder = scene.observed.built.held_by.as_ref().filter(|_| !scene.is_guest(&key(object)))?;
    let all = &scene.observed.members;
    let (namespace, name) = holder;
    let complaint = all.refused.get(holder).or_else(|| scene.observed.built.complaints.get(holder));
    let why = complaint.map_or("spec.suspend is true", |complaint| complaint.message.as_str());
    Some(format!(
        "Its scheme, subnets, security groups, attributes, web ACL and capacity stay as they are, for {namespace}/{name} \
         decides about them and is left out: {why}. Correct it (kubectl -n {namespace} edit myingress {name}), or delete it"
    ))
}

/// A host of the object's rules for which an HTTPS listener has no certificate, as far as that is known. Certificates are found
/// for the hosts of members at home that give none, but where others give some, a host without one is left to them. Guests
/// add none.
fn uncertified(object: &MyIngress, scene: &Scene) -> Option<String> {
    let (key, known) = (key(object), &scene.observed.certificates);
    let is_guest = scene.is_guest(&key);
    scene.model.listeners.iter().find_map(|(port, listener)| {
        let CertificatesModel::Chosen { given, hosts } = &listener.certificates else { return None };
        let gives = object.spec.listeners.iter().any(|it| it.port == *port && !it.certificate_arns.is_empty());
        let unknown = given.iter().any(|arn| !known.iter().any(|certificate| certificate.arn == *arn));
        if unknown || gives {
            return None;
        }
        let chosen = certificates::chosen(given, hosts, known, *port).ok()?;
        let rules = listener.rules.iter().filter(|rule| rule.member == key);
        let named = rules.flat_map(|rule| rule.settings.conditions.iter()).filter_map(|condition| match condition {
            Condition::Host(Match::Wildcards(hosts)) => Some(hosts),
            _ => None,
        });
        let bare = named.flatten().find(|host| !certificates::is_covered(host, &chosen, known))?;
        let way = if is_guest {
            let home = &scene.observed.owner.namespace;
            format!(
                "ask the members of namespace {home} to name one in certificateArns, for only they add certificates"
            )
        } else {
            "request one in AWS Certificate Manager, or name one in certificateArns".to_owned()
        };
        Some(format!("spec.listeners: the listener on port {port} has no certificate for {bare}: {way}"))
    })
}

/// A backend of the object that cannot be followed, reported with field and fix.
fn missing_backend(object: &MyIngress, scene: &Scene) -> Option<(&'static str, String)> {
    let own = scene.model.groups.iter().filter(|(_, group)| group.member == key(object));
    let troubles = own.filter_map(|(name, group)| backend_trouble(object, group, scene.observed.endpoints.get(name)?));
    troubles.min_by_key(|(_, message)| message.clone())
}

/// Returns the reason why a backend of the object cannot be followed.
pub fn backend_trouble(
    object: &MyIngress,
    group: &GroupModel,
    endpoints: &Endpoints,
) -> Option<(&'static str, String)> {
    let index = object.spec.backends.iter().position(|backend| backend.name == group.backend_name)?;
    let (service, namespace) = (&group.backend.service, &group.backend.namespace);
    Some(match endpoints {
        Endpoints::NotReadyYet | Endpoints::NoSlices => return None,
        Endpoints::PoliciesUnknown(why) => ("PoliciesUnknown", format!("spec.backends[{index}].service: {why}")),
        Endpoints::Known(Wanted { refused: Some(refused), .. }) => {
            let why = no_pod(refused, namespace);
            ("TargetRefused", format!("spec.backends[{index}].service: {why}"))
        }
        Endpoints::Known(wanted) => {
            let name = group.backend.check.as_deref().unwrap_or_default();
            let (reason, why) = unfit_check_port(&wanted.check, service, name)?;
            (reason, format!("spec.backends[{index}].healthCheck.port: {why}"))
        }
        Endpoints::ServiceMissing => (
            "ServiceNotFound",
            format!(
                "spec.backends[{index}].service: there is no Service {service} in namespace {namespace}: create it, or \
                 correct the name"
            ),
        ),
        Endpoints::PortMissing { ports } => (
            "PortNotFound",
            format!("spec.backends[{index}].port: Service {service} has no such port: use one of {}", ports.join(", ")),
        ),
        Endpoints::Unsuitable(why) => ("ServiceUnsuitable", format!("spec.backends[{index}].service: {why}")),
    })
}

/// Explains why an address is not a target, and how to fix that.
fn no_pod(Refused { address, slice, others }: &Refused, namespace: &str) -> String {
    let others = if *others == 0 { String::new() } else { format!(" (and {others} more)") };
    format!(
        "{address}{others} in EndpointSlice {slice} is not registered: it is not the address of a pod of namespace \
         {namespace} that the slice names (kubectl -n {namespace} get endpointslice {slice} -o yaml): let a selector of the \
         Service find pods, or ask for a CausewayPolicy that lists the address in spec.targetAddresses"
    )
}

/// Returns reason and message if the named port of checks cannot be used.
fn unfit_check_port(port: &CheckPort, service: &str, name: &str) -> Option<(&'static str, String)> {
    match port {
        CheckPort::Unknown | CheckPort::Is(_) => None,
        CheckPort::Missing { ports } => Some((
            "PortNotFound",
            format!(
                "Service {service} has no port called {name}: use a number, or the name of one of {}",
                ports.join(", ")
            ),
        )),
        CheckPort::Differs(numbers) => {
            let numbers: Vec<String> = numbers.iter().map(u16::to_string).collect();
            Some((
                "PortAmbiguous",
                format!(
                    "port {name} of Service {service} is {} on different pods, and all targets are checked on one: give \
                     it one number on all pods, or give a number here",
                    numbers.join(" and ")
                ),
            ))
        }
        CheckPort::Unsuitable(why) => Some(("ServiceUnsuitable", why.clone())),
    }
}

/// The keys that the model sets, and those that were set before. `listeners` says whether there are listeners of ours.
pub fn managed(model: &Model, before: Option<&ManagedKeys>, listeners: bool) -> Option<ManagedKeys> {
    let before = before.cloned().unwrap_or_default();
    let union = |now: &Pairs, before: Vec<String>| -> Vec<String> {
        let all: BTreeSet<String> = now.keys().cloned().chain(before).collect();
        all.into_iter().collect()
    };
    let balancer = &model.balancer;
    let keys = ManagedKeys {
        tags: union(&balancer.tags, before.tags),
        attributes: union(&balancer.attributes, before.attributes),
        listeners: listeners || before.listeners || !model.listeners.is_empty(),
        listener_attributes: before.listener_attributes || model.listeners.values().any(|it| !it.attributes.is_empty()),
        web_acl: before.web_acl || balancer.web_acl.is_some(),
        security_group: before.security_group || matches!(balancer.security, SecurityModel::Managed { .. }),
        capacity: before.capacity || balancer.capacity.is_some(),
    };
    (keys != ManagedKeys::default()).then_some(keys)
}
