//! Where the Services lead: `EndpointSlice`s that only the operator writes, whatever Kubernetes thinks of the pods'
//! readiness.
//!
//! A node that clients must not find is taken out before anything else is done, in one call. A node is put in when it
//! answers in the role for which clients look there. While no operator is the leader, the slices stay as they are.

use kube::ResourceExt;

use causeway_databases::redis::Info;

use super::super::action::{Action, SliceWrite, Target};
use super::super::facts::{Child, NodePod, NodeState, Pod};
use super::super::names;
use super::super::resources::{Route, family_of, is_of_kubernetes, routes_of, service_of, slice};
use super::{View, failover, target};

/// Families of addresses; each has a slice of its own.
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

/// Takes nodes out of both Services that must not be found there, and deletes what Kubernetes wrote while the Services
/// had selectors.
pub fn take_out(view: &View<'_>) -> Vec<Action> {
    let mut actions = keep(view, &view.object.name_any(), |pod| is_entitled(view, pod));
    actions.extend(keep(view, &names::replicas(view.object), |pod| pod.own.state != NodeState::Gone));
    actions.extend(sweep_slices(view));
    actions
}

/// Takes all nodes out of the master's Service but the target of the failover, and that too unless it is a master
/// already.
pub fn close(view: &View<'_>, heir: &Pod) -> Vec<Action> {
    let is_heir = |pod: &Pod| pod.uid == heir.uid && pod.info().is_some_and(Info::is_master);
    keep(view, &view.object.name_any(), is_heir)
}

/// The slice that keeps new clients away from a master while it hands over: it takes no more writes.
pub fn handing_over(view: &View<'_>, master: &Pod) -> Option<Box<SliceWrite>> {
    let actions = keep(view, &view.object.name_any(), |pod| pod.uid != master.uid);
    actions
        .into_iter()
        .find_map(|action| if let Action::WriteSlice(slice_write) = action { Some(slice_write) } else { None })
}

/// Leads clients to that master alone.
pub fn to_master(view: &View<'_>, ordinal: i32) -> Vec<Action> {
    let found = view.pod(ordinal).and_then(|pod| Some((pod, Route::to_pod(pod)?, pod.info()?)));
    let Some((pod, route, info)) = found else { return Vec::new() };
    lead(view, &view.object.name_any(), &[route], Some(&(target(pod), info.run_id.clone())))
}

/// Leads readers to those replicas.
pub fn to_replicas(view: &View<'_>, is_one: impl Fn(i32, &Pod) -> bool) -> Vec<Action> {
    let found = view.observed.set.pods.iter().filter(|(ordinal, pod)| is_one(**ordinal, pod));
    let routes: Vec<Route> = found.filter_map(|(_, pod)| Route::to_pod(pod)).collect();
    lead(view, &names::replicas(view.object), &routes, None)
}

/// Takes the node that becomes the master out of the Service of the replicas.
pub fn not_as_replica(view: &View<'_>, ordinal: i32) -> Vec<Action> {
    keep(view, &names::replicas(view.object), |pod| view.pod(ordinal).is_none_or(|heir| heir.uid != pod.uid))
}

/// Removes selectors that others gave the Services: by them, Kubernetes writes slices of its own.
pub fn remove_selectors(view: &View<'_>) -> Vec<Action> {
    let unselect = |service: String| {
        let live = view.observed.set.child("Service", &service).filter(|live| live.ours && selects(live))?;
        Some(Action::Unselect { uid: live.uid.clone(), service })
    };
    [view.object.name_any(), names::replicas(view.object)].into_iter().filter_map(unselect).collect()
}

/// Reports whether clients are led to the recorded master, and to no other node.
pub fn lead_to_master(view: &View<'_>) -> bool {
    let service = view.object.name_any();
    let Some((_, pod, _)) = view.serving_master() else { return false };
    let routes = routes(view, &service);
    let is_there = view.observed.set.child("Service", &service).is_some_and(|live| !selects(live));
    is_there && !routes.is_empty() && routes.iter().all(|(_, route)| route.leads_to(pod))
}

/// A foreign slice that leads clients elsewhere.
pub fn strange(view: &View<'_>) -> Option<String> {
    let service = view.object.name_any();
    let (_, pod, _) = view.serving_master()?;
    let (name, route) = routes(view, &service).into_iter().find(|(_, route)| !route.leads_to(pod))?;
    Some(format!(
        "EndpointSlice {name} leads clients of Service {service} to {}, which is not the master {}: delete it (kubectl delete \
         endpointslice {name})",
        route.address, pod.name
    ))
}

/// The slices that have names of ours.
pub fn slices_by_name<'a>(view: &View<'a>) -> impl Iterator<Item = (String, &'a Child)> {
    let all = [view.object.name_any(), names::replicas(view.object)];
    let names = all.map(|service| FAMILIES.map(|family| names::slice(&service, family)));
    let slices = &view.observed.slices;
    names.into_iter().flatten().filter_map(|name| slices.get(&name).map(|slice| (name, slice)))
}

/// Reports whether that node may be behind the master's Service. A master that does not answer stays there: it may be the
/// operator that is cut off. So does one that refuses connections while its replicas hear it. A master whose process is gone is
/// taken out before it comes back, which it does as a replica.
fn is_entitled(view: &View<'_>, pod: &Pod) -> bool {
    let may_lead = match &pod.own.state {
        NodeState::Answers(info) => info.is_master(),
        NodeState::Silent(_) | NodeState::Refuses(_) => true,
        NodeState::Gone => failover::is_heard(view, pod),
    };
    let hands_over = pod.info().is_some_and(|info| info.handing_over);
    match &view.before.failover {
        None => view.before.master.as_ref() == Some(&pod.name) && may_lead,
        Some(failover) if failover.target == pod.name => pod.info().is_some_and(|info| info.is_master() && !hands_over),
        Some(failover) => failover.planned && failover.from.as_ref() == Some(&pod.name) && may_lead && !hands_over,
    }
}

/// Takes all nodes out of a Service but those that may stay.
fn keep(view: &View<'_>, service: &str, stays: impl Fn(&Pod) -> bool) -> Vec<Action> {
    let take_out = |family: &str| {
        let live = own(view, service, family)?;
        let all = routes_of(&live.value);
        let still = |route: &&Route| view.observed.set.pods.values().any(|pod| route.leads_to(pod) && stays(pod));
        let left: Vec<Route> = all.iter().filter(still).cloned().collect();
        if left.len() == all.len() { None } else { slice_write(view, service, family, &left, None) }
    };
    FAMILIES.into_iter().filter_map(take_out).collect()
}

/// Leads clients of a Service to exactly these nodes.
fn lead(view: &View<'_>, service: &str, routes: &[Route], master: Option<&(Target, String)>) -> Vec<Action> {
    let by_family = |family: &str| {
        let routes: Vec<Route> =
            routes.iter().filter(|route| family_of(Some(&route.address)) == family).cloned().collect();
        slice_write(view, service, family, &routes, master.filter(|_| !routes.is_empty()).cloned())
    };
    FAMILIES.into_iter().filter_map(by_family).collect()
}

/// The action that writes a Service's slice; `None` if it is as it should be.
fn slice_write(
    view: &View<'_>,
    service: &str,
    family: &str,
    routes: &[Route],
    master: Option<(Target, String)>,
) -> Option<Action> {
    let slice = slice(view.object, service, family, routes);
    let live = view.observed.slices.get(slice.name());
    // One of another owner is reported, and keeps nothing else from being done.
    if live.is_some_and(|live| !live.ours) {
        return None;
    }
    if live.map_or(routes.is_empty(), |live| slice.is_met_by(&live.value)) {
        return None;
    }
    let before = live.map(|live| (live.uid.clone(), version_of(live)));
    Some(Action::WriteSlice(Box::new(SliceWrite { slice, before, master })))
}

fn own<'a>(view: &'a View<'_>, service: &str, family: &str) -> Option<&'a Child> {
    view.observed.slices.get(&names::slice(service, family)).filter(|live| live.ours)
}

fn version_of(live: &Child) -> String {
    live.value["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

/// All endpoints of a Service, with the names of the slices that have them.
fn routes<'a>(view: &'a View<'_>, service: &str) -> Vec<(&'a String, Route)> {
    let of_service = view.observed.slices.iter().filter(|(_, live)| service_of(&live.value) == Some(service));
    of_service.flat_map(|(name, live)| routes_of(&live.value).into_iter().map(move |route| (name, route))).collect()
}

fn selects(service: &Child) -> bool {
    service.value["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty())
}

/// Deletes the slices that Kubernetes wrote while a Service had a selector. They stay when it has none any more, and
/// nothing updates them.
fn sweep_slices(view: &View<'_>) -> Vec<Action> {
    let sweep = |service: String| {
        let live = view.observed.set.child("Service", &service)?;
        let left = view.observed.slices.iter().filter(|(_, slice)| {
            service_of(&slice.value) == Some(&service) && is_of_kubernetes(&slice.value) && !selects(live)
        });
        let slices: Vec<(String, String)> = left.map(|(name, slice)| (name.clone(), slice.uid.clone())).collect();
        (live.ours && !slices.is_empty()).then_some(Action::Sweep { service, slices })
    };
    [view.object.name_any(), names::replicas(view.object)].into_iter().filter_map(sweep).collect()
}
