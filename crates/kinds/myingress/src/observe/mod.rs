//! Reads what matters to one object. It comes from the snapshots; AWS is called only where these are unconfirmed or
//! lack something.

pub mod bound;
pub mod facts;
pub mod lacking;
pub mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::{Resource, ResourceExt};
use tokio::time::timeout;

use causeway_api::myingress::Scheme;
use causeway_api::{MyIngress, MyIngressStatus};
use causeway_runtime::Unlisted;

use super::MyIngressKind;
use super::error::Error;
use super::members::{Members, key, members_but};
use super::model::{
    self, Built, CertificatesModel, Complaint, Inputs, Limits, Secrets, SecurityModel, SubnetsModel, unprotects,
};
use super::ownership::{ObjectKey, Owner, adoption_tag};
use super::region::Depth;
use super::targets::{Backend, Binding};
use crate::members::occupied::Occupied;
use crate::observe::facts::{Adoption, Observed, key_of};
use crate::ownership::names::candidates;

/// A create call whose answer was lost may take effect, and become visible, up to this long after it was sent. Only a
/// deletion waits for that, because no reconcile looks again after it.
const CREATE_LAG: Duration = Duration::from_secs(30);

/// How long to wait for the first list of the cluster's Services and endpoints before its absence is reported.
const ENDPOINTS_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads what matters to `object`.
pub async fn observe(kind: &MyIngressKind, object: &MyIngress) -> Result<Observed, Error> {
    let region = &kind.region;
    region.ready().await.map_err(Error::from_aws)?;
    let owner = Owner::of_object(region.cluster(), object);
    let deleting = object.meta().deletion_timestamp.is_some();
    let Wanted { members, secrets, built } = read_wanted(kind, object, &owner).await?;
    let recorded = object.status.as_ref().and_then(|status| status.alb.as_ref());
    let user_provided = object.spec.name.as_deref();
    let of_scheme = |scheme| candidates(&owner, scheme, user_provided);
    let mut names: Vec<String> = [Scheme::InternetFacing, Scheme::Internal].into_iter().flat_map(of_scheme).collect();
    names.extend(recorded.map(|alb| alb.name.clone()));
    let grace = if deleting { CREATE_LAG } else { Duration::ZERO };
    region.confirm_created(&owner, &names, grace).await.map_err(Error::from_aws)?;

    let had_security_group = had_security_group(object) || members.recorded().security_group;
    if had_security_group || may_have_security_group(object, &built) {
        let new = !deleting && object.spec.group.is_none() && !had_security_group;
        region.learn_security_groups(&owner, new).await.map_err(Error::from_aws)?;
    }
    region.learn(&owner, depth(object, &members, &built)).await.map_err(Error::from_aws)?;
    let assets = region.owned_by(&owner);
    let idle = kind.bound().idle(&key_of(&owner), |arn| assets.groups.contains_key(arn));

    let mut observed = Observed {
        rival: region.rival(&owner, !assets.is_empty()),
        taken: region.taken_names(&names),
        taken_groups: BTreeMap::new(),
        disowned: recorded.filter(|alb| region.disowned(&owner, &alb.arn)).cloned(),
        adoption: None,
        subnets: Vec::new(),
        security_groups: Vec::new(),
        certificates: Vec::new(),
        endpoints: BTreeMap::new(),
        summaries: assets.groups.keys().filter_map(|arn| Some((arn.clone(), kind.targets.summary(arn)?))).collect(),
        bound: kind.bound().get(&key_of(&owner)).to_vec(),
        idle,
        refusals: kind.refusals.list(&key_of(&owner), &members),
        replacement_grace: kind.replacement_grace,
        limits: limits(kind),
        basis: 0,
        was_right: false,
        owner,
        members,
        built,
        assets,
    };
    if !deleting && observed.rival.is_none() {
        leave_out(kind, &mut observed, &secrets).await?;
        look_up(kind, object, &mut observed).await?;
    }
    Ok(observed)
}

/// The members that share the balancer, and what they want together.
pub struct Wanted {
    pub members: Members,
    /// Client secrets that they name.
    secrets: Secrets,
    /// The wanted state that they describe together.
    pub built: Built,
}

/// The members that share the balancer, and what they want together. Certificates and the names of target groups are
/// not looked up.
pub async fn read_wanted(kind: &MyIngressKind, object: &MyIngress, owner: &Owner) -> Result<Wanted, Error> {
    let (mut known, mut unlisted) = (Vec::new(), Unlisted::default());
    if object.spec.group.is_some() {
        // A member that is not listed yet would lose its rules.
        unlisted = kind.listed().await;
        known = kind.objects();
    }
    kind.guardrails.ready().await;
    let mut members = members_but(object, &known, unlisted).map_err(Error::GroupUnknown)?;
    for member in &members.present {
        let asks = || crate::asks::list(&member.spec, &member.namespace().unwrap_or_default());
        if let Some((reason, message)) = kind.guardrails.denial(member.as_ref(), asks) {
            members.refused.entry(key(member)).or_insert(Complaint { reason, message });
        }
    }
    let secrets = kind.secrets.read_for(&mut members).await?;
    leave_out_misnamed_groups(kind, owner, &mut members).await;
    let built = buildable(kind, object, owner, &mut members, &secrets).await;
    Ok(Wanted { members, secrets, built })
}

/// Leaves out members that name a target group which AWS does not know, or a target group or security group of another
/// MyIngress: its owner could not delete it. Guests may name none: they are not told which exist.
async fn leave_out_misnamed_groups(kind: &MyIngressKind, owner: &Owner, members: &mut Members) {
    let at_home = members.active().into_iter().filter(|object| !members.is_guest(&key(object)));
    let (mut named, mut security_groups) = (BTreeSet::new(), BTreeSet::new());
    for object in at_home {
        named.extend(model::foreign_groups(&object.spec).into_iter().map(|group| group.arn.clone()));
        security_groups.extend(object.spec.security_groups.iter().cloned());
    }
    let unknown = kind.region.unknown_target_groups(owner, &named).await;
    let others = kind.region.owned_by_others(owner, &named.union(&security_groups).cloned().collect());
    let mut complaints = lacking::of_others_groups(members, &others);
    complaints.extend(lacking::of_unknown_groups(members, &unknown));
    members.refused.extend(complaints);
}

/// Builds what the members want together, without those whose new backends cannot be followed. They are woken when
/// their Services change.
async fn buildable(
    kind: &MyIngressKind,
    object: &MyIngress,
    owner: &Owner,
    members: &mut Members,
    secrets: &Secrets,
) -> Built {
    let (limits, occupied) = (limits(kind), Occupied::default());
    let inputs = Inputs { owner, secrets, limits: &limits, certificates: None, occupied: &occupied };
    let schemes = kind.region.schemes(owner);
    let assets = kind.region.owned_by(owner);
    let mut waiting = Vec::new();
    let built = loop {
        let built = model::build_beside(&schemes, members, &inputs);
        let Some(model) = built.model.as_ref().filter(|model| !model.groups.is_empty()) else { break built };
        // Where the cluster cannot be read, nothing is left out; a later step reports it.
        let namespace = object.namespace().unwrap_or_default();
        timeout(ENDPOINTS_TIMEOUT, kind.targets.ready(&namespace)).await.ok();
        let endpoints = |backend: &Backend| kind.targets.endpoints(backend);
        let (complaints, backends) = lacking::unfollowable(model, members, &assets, endpoints);
        if complaints.is_empty() {
            break built;
        }
        waiting.extend(backends);
        members.refused.extend(complaints);
    };
    let owners = members.all_keys();
    let wakes =
        |backend| Binding { group_arn: None, vpc: None, backend, former: None, created: false, owners: owners.clone() };
    kind.targets.bind(waiting.into_iter().map(wakes).collect(), &waiting_key(owner));
    built
}

/// The key under which an owner waits for backends that cannot be followed.
fn waiting_key(owner: &Owner) -> ObjectKey {
    let (namespace, uid) = key_of(owner);
    (namespace, format!("{uid} waiting"))
}

/// Looks up the names of target groups, and certificates if some are found by hosts. A member of a group that wants a
/// target group which it cannot have, or names a host without a certificate, is left out, so that the others go on.
async fn leave_out(kind: &MyIngressKind, observed: &mut Observed, secrets: &Secrets) -> Result<(), Error> {
    let mut occupied = Occupied::new(&observed.assets, &observed.owner);
    rebuild(kind, observed, secrets, &mut occupied, false);
    let discovered =
        |it: &CertificatesModel| matches!(it, CertificatesModel::Chosen { hosts, .. } if !hosts.is_empty());
    let Some(model) = &observed.built.model else { return Ok(()) };
    if !model.listeners.values().any(|listener| discovered(&listener.certificates)) {
        return Ok(());
    }
    observed.certificates = kind.region.certificates(&observed.owner).await.map_err(Error::from_aws)?;
    rebuild(kind, observed, secrets, &mut occupied, true);
    Ok(())
}

/// Builds again what a group wants, without the members that cannot have their target groups. `certified` says whether
/// certificates are known, so that members which lack one are left out, too. An object alone wants what it wants.
fn rebuild(kind: &MyIngressKind, observed: &mut Observed, secrets: &Secrets, occupied: &mut Occupied, certified: bool) {
    let taken = |names: &BTreeSet<&String>| kind.region.taken_groups(&observed.owner, names);
    if !observed.members.grouped {
        let names = observed.built.model.iter().flat_map(|model| model.groups.keys());
        observed.taken_groups = taken(&names.collect());
        return;
    }
    let owner = &observed.owner;
    let schemes = kind.region.schemes(owner);
    let certificates = certified.then_some(observed.certificates.as_slice());
    let build = |occupied: &Occupied| {
        let inputs = Inputs { owner, secrets, limits: &observed.limits, certificates, occupied };
        model::build_beside(&schemes, &observed.members, &inputs)
    };
    if certified {
        observed.built = build(occupied);
    }
    occupied.resolve_names(&mut observed.built, owner, build, taken);
    observed.taken_groups.clone_from(&occupied.foreign);
}

fn limits(kind: &MyIngressKind) -> Limits {
    Limits { security_group_rules: kind.security_group_rules.into(), ..kind.region.limits() }
}

/// Looks up what only this model needs.
async fn look_up(kind: &MyIngressKind, object: &MyIngress, observed: &mut Observed) -> Result<(), Error> {
    let Some(model) = &observed.built.model else { return Ok(()) };
    let region = &kind.region;
    if let Some(name) = model.balancer.adopt.as_ref().filter(|_| observed.assets.balancers.is_empty()) {
        observed.adoption = Some(match region.adoptable(&observed.owner, name).await.map_err(Error::from_aws)? {
            None => Adoption::Missing,
            Some((arn, tags)) => {
                region.watch_tags(&arn);
                let (key, value) = adoption_tag(&observed.owner);
                if tags.get(&key) == Some(&value) { Adoption::Agreed { arn } } else { Adoption::Refused }
            }
        });
    }
    observed.subnets = match &model.balancer.subnets {
        SubnetsModel::Tagged { tags, .. } => {
            region.subnets_tagged(&observed.owner, tags).await.map_err(Error::from_aws)?
        }
        // Security groups and target groups must be in the VPC of the balancer, which does not exist yet.
        SubnetsModel::Ids(ids)
            if !observed.assets.balancers.values().any(|it| it.balancer.scheme == Some(model.balancer.scheme))
                && (model.balancer.security.needs_vpc() || !observed.assets.groups.is_empty()) =>
        {
            let ids: Vec<String> = ids.iter().cloned().collect();
            region.subnets(&observed.owner, &ids).await.map_err(Error::from_aws)?
        }
        SubnetsModel::Ids(_) => Vec::new(),
    };
    let called = model.balancer.security.looked_up();
    if !called.is_empty() {
        observed.security_groups =
            region.security_groups_called(&observed.owner, &called).await.map_err(Error::from_aws)?;
    }
    if !matches!(model.balancer.security, SecurityModel::Managed { .. }) && !model.listeners.is_empty() {
        let balancers = observed.assets.balancers.values();
        let ids: BTreeSet<String> = balancers.flat_map(|it| it.balancer.security_groups.iter().cloned()).collect();
        let known = |id: &String| observed.security_groups.iter().any(|group| group.id == *id);
        let unknown: BTreeSet<String> = ids.into_iter().filter(|id| !known(id)).collect();
        observed.security_groups.extend(region.security_groups_of_balancers(&observed.owner, &unknown).await);
    }
    // The backends of guests in other namespaces may be unknown for as long as the operator is denied these.
    let namespace = object.namespace().unwrap_or_default();
    // It was waited for before.
    if !model.groups.is_empty() && timeout(Duration::ZERO, kind.targets.ready(&namespace)).await.is_err() {
        return Err(Error::EndpointsUnread(kind.targets.watch_trouble(&namespace).unwrap_or_default()));
    }
    let endpoints = model.groups.iter().map(|(name, group)| (name.clone(), kind.targets.endpoints(&group.backend)));
    observed.endpoints = endpoints.collect();
    observed.expect_targets();
    Ok(())
}

/// Reports whether there is or was a security group of our own. The status says so before one is created.
fn had_security_group(object: &MyIngress) -> bool {
    let managed = |status: &MyIngressStatus| {
        status.security_group.is_some() || status.managed.as_ref().is_some_and(|managed| managed.security_group)
    };
    object.status.as_ref().is_some_and(managed)
}

/// Reports whether there may be a security group of our own.
fn may_have_security_group(object: &MyIngress, built: &Built) -> bool {
    !object.spec.inbound_cidrs.is_empty()
        || !object.spec.inbound_prefix_lists.is_empty()
        || built.model.as_ref().is_some_and(|it| matches!(it.balancer.security, SecurityModel::Managed { .. }))
}

/// The details of the balancers that must be known: what the spec sets, and what it once set according to the status.
pub fn depth(object: &MyIngress, members: &Members, built: &Built) -> Depth {
    let status = object.status.clone().unwrap_or_default();
    let managed = members.recorded();
    if object.meta().deletion_timestamp.is_some() && members.is_deserted() {
        // Everything is deleted; only the deletion protection must be known.
        return Depth { attributes: unprotects(&object.spec), ..Depth::default() };
    }
    let balancer = built.model.as_ref().map(|model| &model.balancer);
    let listeners = built.model.as_ref().map(|model| &model.listeners);
    Depth {
        groups: true,
        attributes: balancer.is_some_and(|it| !it.attributes.is_empty()) || !managed.attributes.is_empty(),
        listeners: listeners.is_some_and(|it| !it.is_empty()) || !status.listeners.is_empty() || managed.listeners,
        listener_attributes: listeners.is_some_and(|it| it.values().any(|one| !one.attributes.is_empty()))
            || managed.listener_attributes,
        web_acl: balancer.is_some_and(|it| it.web_acl.is_some()) || managed.web_acl,
        capacity: balancer.is_some_and(|it| it.capacity.is_some()) || managed.capacity,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::model::fixtures::{built, standing};
    use causeway_api::myingress::ManagedKeys;

    #[test]
    fn former_listeners_are_read_without_one_in_any_spec() {
        let without = standing("web", json!({}));
        let managed = Some(ManagedKeys { listeners: true, ..ManagedKeys::default() });
        let status = Some(MyIngressStatus { managed, ..MyIngressStatus::default() });
        let recorded = MyIngress { status, ..standing("web", json!({})) };
        let are_read = |object: &MyIngress, all: &[&MyIngress]| {
            let present = all.iter().map(|member| Arc::new((*member).clone())).collect();
            depth(object, &Members { present, ..Members::default() }, &built(all)).listeners
        };
        assert!(!are_read(&without, &[&without]));
        assert!(are_read(&recorded, &[&recorded]));
        let other = MyIngress { status: recorded.status.clone(), ..standing("other", json!({})) };
        assert!(are_read(&without, &[&without, &other]), "another member of the group has the record");
    }
}
