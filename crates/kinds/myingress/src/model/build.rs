//! Builds the model from the objects.

use std::collections::{BTreeMap, BTreeSet};

use kube::{Resource, ResourceExt};

use causeway_api::MyIngress;
use causeway_api::myingress::Scheme;
use causeway_aws::acm::Certificate;
use causeway_runtime::undecodable;

use super::guests;
use super::member::part;
use super::merge::Draft;
use super::{Complaint, Limits, Model};
use crate::members::occupied::Occupied;
use crate::members::{Members, key};
use crate::ownership::{ObjectKey, Owner};

/// The reason of a group in which no member says where the balancer stands.
const NOWHERE: &str = "SubnetsMissing";

/// Client secrets of log-ins by (namespace, name of the Secret, key), where they could be read.
pub type Secrets = BTreeMap<(String, String, String), String>;

/// The input of the builder besides the objects.
pub struct Inputs<'a> {
    /// The owner of the balancer.
    pub owner: &'a Owner,
    /// Client secrets.
    pub secrets: &'a Secrets,
    /// AWS's limits.
    pub limits: &'a Limits,
    /// Certificates of AWS Certificate Manager; `None` where it does not matter who lacks one.
    pub certificates: Option<&'a [Certificate]>,
    /// Target groups that members cannot have.
    pub occupied: &'a Occupied,
}

/// A balancer that stays as it is.
#[derive(Clone, Debug)]
pub struct Held {
    /// The member that decides about it, and cannot take part now.
    pub holder: ObjectKey,
    pub scheme: Scheme,
}

/// The outcome of [`build`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The state that AWS should have; `None` where no valid member says where the balancer stands.
    pub model: Option<Model>,
    /// Members that were left out, and why.
    pub complaints: BTreeMap<ObjectKey, Complaint>,
    /// The member that decides about the balancer, if it cannot take part now: the balancer itself stays as it is.
    pub held_by: Option<ObjectKey>,
}

/// Sorts members: those of the group's own namespace first, then by `spec.group.order` (0 unless given), then by age,
/// then by namespace and name.
pub fn order(members: &mut [&MyIngress], home: &str) {
    members.sort_by_cached_key(|object| {
        let order = object.spec.group.as_ref().and_then(|group| group.order).unwrap_or_default();
        let born = object.creation_timestamp();
        // An object without a creation time yet is the youngest.
        let namespace = object.namespace();
        (namespace.as_deref() != Some(home), order, born.is_none(), born, namespace, object.name_any())
    });
}

/// Builds what the members, in their order, want AWS to have. A member with a complaint contributes nothing.
///
/// The first valid member of the group's own namespace that has subnets says where the balancer stands. It wins where
/// members contradict each other, so no other member can take the balancer away from the group. Otherwise the earlier
/// member wins. Members of other namespaces, the guests, are added when all else is decided, and change nothing of it.
pub fn build(members: &[&MyIngress], context: &Inputs<'_>) -> Built {
    build_but(BTreeMap::new(), members, None, context)
}

/// Like [`build`], for all members that share a balancer, while balancers of these schemes exist.
///
/// If the member that decides about the balancer cannot take part now, the others only keep it in existence: the
/// balancer keeps its scheme, and the members' other fields about the balancer itself are not compared.
pub fn build_beside(standing: &[Scheme], members: &Members, context: &Inputs<'_>) -> Built {
    let active = members.active();
    let mut built = build(&active, context);
    let Some(holder) = holder(members, &built) else { return built };
    let Some(scheme) = kept_scheme(holder, standing) else {
        blame(&key(holder), &mut built);
        return built;
    };
    let held = Held { holder: key(holder), scheme };
    let hopeless = built.complaints.get(&held.holder).map(|complaint| (held.holder.clone(), complaint.clone()));
    let built = build_but(hopeless.into_iter().collect(), &active, Some(&held), context);
    Built { held_by: Some(held.holder), ..built }
}

/// Names the member that says where the balancer would stand to those that wait for it.
fn blame((namespace, name): &ObjectKey, built: &mut Built) {
    let waits = |complaint: &&mut Complaint| [NOWHERE, guests::WITHOUT_BALANCER].contains(&complaint.reason);
    for complaint in built.complaints.values_mut().filter(waits) {
        complaint.message = format!(
            "spec.group: {namespace}/{name} says where the load balancer of the group stands, and is left out for a mistake or for \
             spec.suspend: correct it (kubectl -n {namespace} edit myingress {name})"
        );
    }
}

/// The first member of the group's own namespace that says where the balancer stands, if it cannot take part. A member that
/// cannot be read may say so.
fn holder<'a>(members: &'a Members, built: &Built) -> Option<&'a MyIngress> {
    let says = |object: &&MyIngress| {
        let spec = &object.spec;
        !spec.subnets.is_empty() || spec.subnet_selector.is_some() || undecodable(object.meta()).is_some()
    };
    let mut at_home = members.present.iter().map(AsRef::as_ref).filter(|object| !members.is_guest(&key(object)));
    let first = at_home.find(says)?;
    let place = key(first);
    let unable = first.spec.suspend || members.refused.contains_key(&place) || built.complaints.contains_key(&place);
    unable.then_some(first)
}

/// The scheme that the balancer keeps: of several, the one that the member asks for.
fn kept_scheme(holder: &MyIngress, standing: &[Scheme]) -> Option<Scheme> {
    let asked_for = standing.iter().find(|scheme| **scheme == holder.spec.scheme);
    asked_for.or(standing.first()).copied()
}

/// Builds without the hopeless members. `held` is a balancer that stays as it is.
fn build_but(
    mut hopeless: BTreeMap<ObjectKey, Complaint>,
    members: &[&MyIngress],
    held: Option<&Held>,
    context: &Inputs<'_>,
) -> Built {
    loop {
        let (draft, complaints) = attempt(members, &hopeless, held, context);
        let Some(draft) = draft else {
            return Built { model: None, complaints, held_by: None };
        };
        let bare = draft.without_certificate(context.certificates);
        if bare.is_empty() {
            return Built { model: draft.model(), complaints, held_by: None };
        }
        hopeless.extend(bare);
    }
}

/// Merges all members but the hopeless ones.
fn attempt(
    members: &[&MyIngress],
    hopeless: &BTreeMap<ObjectKey, Complaint>,
    held: Option<&Held>,
    context: &Inputs<'_>,
) -> (Option<Draft>, BTreeMap<ObjectKey, Complaint>) {
    let mut complaints = hopeless.clone();
    let mut seen = BTreeSet::new();
    let hopeful = |object: &&MyIngress| !hopeless.contains_key(&key(object)) && seen.insert(key(object));
    let candidates = members.iter().copied().filter(hopeful);
    let (candidates, guests): (Vec<&MyIngress>, Vec<&MyIngress>) =
        candidates.partition(|object| key(object).0 == context.owner.namespace);
    let others = !candidates.is_empty() || !guests.is_empty();
    let begun = anchor(&candidates, held, context, &mut complaints).map(|(place, draft)| (Some(place), draft));
    // Settings of the balancer that no other member gives stay as they are.
    let begun = begun.or_else(|| held.filter(|_| others).map(|held| (None, Draft::hold(held))));
    let Some((anchor, start)) = begun else {
        let message =
            "no member names the load balancer's subnets: give one of them spec.subnets or spec.subnetSelector";
        for object in candidates {
            let nowhere = || Complaint { reason: NOWHERE, message: message.into() };
            complaints.entry(key(object)).or_insert_with(nowhere);
        }
        complaints.extend(guests.into_iter().map(|object| (key(object), guests::without_home(context.owner))));
        return (None, complaints);
    };
    let mut draft = start;
    for (place, object) in candidates.iter().enumerate().filter(|(place, _)| Some(*place) != anchor) {
        match part(&key(object), &object.spec, draft.scheme(), context)
            .and_then(|part| draft.with(&part, place, context.limits))
        {
            Ok(merged) => draft = merged,
            Err(complaint) => drop(complaints.insert(key(object), complaint)),
        }
    }
    // A port without a certificate is not opened: the next attempt leaves it out, and adds the guests.
    if draft.without_certificate(context.certificates).is_empty() {
        for object in guests {
            let admitted = guests::admitted(object, context.owner, &draft.protocols());
            let part = admitted.and_then(|spec| part(&key(object), &spec, draft.scheme(), context));
            match part.and_then(|part| draft.with_guest(&part, context.limits)) {
                Ok(merged) => draft = merged,
                Err(complaint) => drop(complaints.insert(key(object), complaint)),
            }
        }
    }
    (Some(draft), complaints)
}

/// The first valid member that says where the balancer stands, and the draft with that member alone.
fn anchor(
    candidates: &[&MyIngress],
    held: Option<&Held>,
    context: &Inputs<'_>,
    complaints: &mut BTreeMap<ObjectKey, Complaint>,
) -> Option<(usize, Draft)> {
    candidates.iter().enumerate().find_map(|(place, object)| {
        let scheme = held.map_or(object.spec.scheme, |held| held.scheme);
        let begun = part(&key(object), &object.spec, scheme, context)
            .map(|part| Draft::begin(&part, place, held, context.limits));
        match begun {
            Ok(Some(Ok(draft))) => {
                complaints.extend(draft.contradicts(object.spec.scheme).map(|complaint| (key(object), complaint)));
                Some((place, draft))
            }
            Ok(None) => None,
            Ok(Some(Err(complaint))) | Err(complaint) => {
                complaints.insert(key(object), complaint);
                None
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::members::members_of;
    use crate::model::fixtures::{born, built, describe, joining, owner, secrets, standing};
    use serde_json::json;

    fn names(mut members: Vec<&MyIngress>) -> Vec<String> {
        order(&mut members, "shop");
        members.into_iter().map(ResourceExt::name_any).collect()
    }

    #[test]
    fn members_come_by_order_then_age_then_name() {
        let group = |order: Option<u16>| json!({ "group": { "name": "g", "order": order } });
        let late = born("a", 9, group(None));
        let explicit = born("b", 1, group(Some(1)));
        let early = born("d", 3, group(Some(0)));
        let twin = born("c", 3, group(None));
        let mut undated = born("0", 0, group(None));
        undated.metadata.creation_timestamp = None;
        assert_eq!(names(vec![&explicit, &undated, &late, &early, &twin]), ["c", "d", "a", "0", "b"]);
    }

    #[test]
    fn the_first_valid_member_with_subnets_is_the_anchor() {
        let (first, bad) = (joining("a", json!({})), standing("b", json!({ "tags": { "aws:x": "" } })));
        let good = standing("c", json!({ "scheme": "internal" }));
        let built = built(&[&first, &bad, &good]);
        assert_eq!(built.model.as_ref().unwrap().balancer.scheme, Scheme::Internal);
        assert_eq!(built.complaints.keys().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_group_that_stands_nowhere_says_so_to_every_member() {
        let (one, other) = (joining("a", json!({})), joining("b", json!({ "tags": { "aws:x": "" } })));
        let built = built(&[&one, &other]);
        assert_eq!(built.model, None);
        assert!(describe(&built, "a").starts_with("no member names the load balancer's subnets"));
        assert!(describe(&built, "b").starts_with("spec.tags[aws:x]"));
    }

    #[test]
    fn members_go_on_without_their_only_anchor() {
        let rules = |host: &str| {
            let action = json!({ "fixedResponse": { "statusCode": 200 } });
            json!({ "listeners": [{ "port": 80, "rules": [{ "hosts": [host], "action": action }] }] })
        };
        let group = json!({ "name": "all" });
        let mut wrong = rules("bad host");
        wrong["group"] = group.clone();
        let suspended = standing("owner", json!({ "group": group, "suspend": true }));
        let (owner, secrets, limits, occupied) = (owner(), secrets(), Limits::default(), Occupied::default());
        let inputs =
            Inputs { owner: &owner, secrets: &secrets, limits: &limits, certificates: None, occupied: &occupied };
        for holder in [standing("owner", wrong), suspended] {
            let other = joining("member", rules("a.example.com"));
            let all: Vec<_> = [&holder, &other].into_iter().map(|object| Arc::new(object.clone())).collect();
            let members = members_of(&other, &all);
            let built = build_beside(&[Scheme::InternetFacing], &members, &inputs);
            assert_eq!(built.held_by, Some(key(&holder)));
            assert!(!built.complaints.contains_key(&key(&other)), "{:?}", built.complaints);
            assert_eq!(built.model.unwrap().listeners[&80].rules.len(), 1);
            let built = build_beside(&[], &members, &inputs);
            assert_eq!(built.model, None);
            assert!(describe(&built, "member").contains("shop/owner says where"), "{:?}", built.complaints);
            // There is nothing to do for the one that is left out.
            let alone = members_of(&holder, &all[..1]);
            assert_eq!(build_beside(&[Scheme::InternetFacing], &alone, &inputs).model, None);
        }
    }

    #[test]
    fn a_listener_without_certificate_leaves_only_its_members_out() {
        let bare = standing("a", json!({ "listeners": [{ "port": 443 }] }));
        let fine = standing("b", json!({ "listeners": [{ "port": 80 }] }));
        let built = built(&[&bare, &fine]);
        assert_eq!(built.model.as_ref().unwrap().listeners.keys().collect::<Vec<_>>(), [&80]);
        assert!(describe(&built, "a").starts_with("spec.listeners[0] is HTTPS and needs a certificate"));
    }

    #[test]
    fn a_certificate_of_one_member_does_for_all() {
        let bare = joining("a", json!({ "listeners": [{ "port": 443 }] }));
        let certificate = "arn:aws:acm:eu-west-1:000000000000:certificate/a";
        let fine = standing("b", json!({ "listeners": [{ "port": 443, "certificateArns": [certificate] }] }));
        assert!(built(&[&bare, &fine]).complaints.is_empty());
    }

    #[test]
    fn without_members_there_is_no_model() {
        assert_eq!(built(&[]), Built { model: None, complaints: BTreeMap::new(), held_by: None });
    }
}
