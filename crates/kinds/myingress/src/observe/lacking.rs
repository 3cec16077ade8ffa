//! Finds what the spec of a member needs and the cluster or AWS lacks: Services and their ports, and target groups that
//! are not Causeway's. A member with such a mistake is left out before anything is changed. Pure.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::MyIngress;

use crate::decide::{backend_tag, backend_trouble};
use crate::members::{Members, key};
use crate::model::{Complaint, GroupModel, Model, foreign_groups};
use crate::ownership::ObjectKey;
use crate::region::assets::Assets;
use crate::targets::{Backend, CheckPort, Endpoints, Wanted};

/// Condition reason if AWS does not know a target group of the spec.
pub const TARGET_GROUP_NOT_FOUND: &str = "TargetGroupNotFound";
/// Condition reason if a spec names what Causeway made for another object.
pub const OWNED_BY_OTHERS: &str = "OwnedByOthers";

/// Members whose backends cannot be followed, and those backends. What has followed its backend so far goes on: its
/// Service changed, and not the spec.
pub fn unfollowable(
    model: &Model,
    members: &Members,
    assets: &Assets,
    endpoints: impl Fn(&Backend) -> Endpoints,
) -> (BTreeMap<ObjectKey, Complaint>, Vec<Backend>) {
    let (mut complaints, mut backends) = (BTreeMap::new(), Vec::new());
    for (name, group) in &model.groups {
        let Some(object) = members.present.iter().find(|object| key(object) == group.member) else { continue };
        let found = endpoints(&group.backend);
        if !is_mistake(&found, object, is_followed(assets, name, group)) {
            continue;
        }
        let Some((reason, message)) = backend_trouble(object, group, &found) else { continue };
        let message = format!("{message}. Until then nothing of this object is changed");
        complaints.entry(group.member.clone()).or_insert(Complaint { reason, message });
        backends.push(group.backend.clone());
    }
    (complaints, backends)
}

/// Reports whether the spec asks for what the cluster does not have.
fn is_mistake(found: &Endpoints, object: &MyIngress, followed: bool) -> bool {
    match found {
        // Before it has listeners, the object may have been created before its Service. It loses nothing by that.
        Endpoints::ServiceMissing => !followed && object.status.as_ref().is_some_and(|it| !it.listeners.is_empty()),
        Endpoints::PortMissing { .. } | Endpoints::Unsuitable(_) => !followed,
        Endpoints::Known(Wanted { check: CheckPort::Missing { .. } | CheckPort::Unsuitable(_), .. }) => true,
        Endpoints::Known(_) | Endpoints::NotReadyYet | Endpoints::NoSlices | Endpoints::PoliciesUnknown(_) => false,
    }
}

/// Reports whether the target group exists and followed that backend before, as its tag says.
fn is_followed(assets: &Assets, name: &str, group: &GroupModel) -> bool {
    let (tag, value) = backend_tag(&group.backend);
    assets.group_named(name).is_some_and(|member| member.tags.get(&tag) == Some(&value))
}

/// Members that name target groups which AWS does not know. `unknown` has AWS's words by ARN.
pub fn of_unknown_groups(members: &Members, unknown: &BTreeMap<String, String>) -> BTreeMap<ObjectKey, Complaint> {
    let at_home = members.active().into_iter().filter(|object| !members.is_guest(&key(object)));
    let complaints = at_home.filter_map(|object| {
        let named = foreign_groups(&object.spec);
        let (group, words) = named.iter().find_map(|group| Some((group, unknown.get(group.arn)?)))?;
        let message = format!(
            "{}: AWS knows no target group {} ({words}): create it in the operator's account and region, or correct the \
             ARN. Until then nothing of this object is changed",
            group.field, group.arn
        );
        Some((key(object), Complaint { reason: TARGET_GROUP_NOT_FOUND, message }))
    });
    complaints.collect()
}

/// Members that name target groups or security groups of other objects. These could not be deleted while they are used.
pub fn of_others_groups(members: &Members, others: &BTreeSet<String>) -> BTreeMap<ObjectKey, Complaint> {
    let at_home = members.active().into_iter().filter(|object| !members.is_guest(&key(object)));
    let complaints = at_home.filter_map(|object| {
        let targets = foreign_groups(&object.spec).into_iter();
        let targets = targets.map(|group| (group.field, group.arn, "target group", "a backend of this object"));
        let security = object.spec.security_groups.iter().enumerate().map(|(index, id)| {
            (format!("spec.securityGroups[{index}]"), id, "security group", "a group that Causeway did not create")
        });
        let (field, id, what, fix) = targets.chain(security).find(|(_, id, ..)| others.contains(*id))?;
        let message = format!(
            "{field}: {what} {id} is a part of another MyIngress, which could not be deleted: use {fix}. Until then nothing \
             of this object is changed"
        );
        Some((key(object), Complaint { reason: OWNED_BY_OTHERS, message }))
    });
    complaints.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::model::fixtures::{built, joining, standing};
    use crate::region::assets::GroupMember;
    use causeway_api::MyIngressStatus;
    use causeway_api::myingress::ListenerStatus;
    use causeway_aws::elbv2::{Pairs, TargetGroup};

    const ARN: &str = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/legacy/0123456789abcdef";

    fn served(port: u16) -> Value {
        let action = json!({ "forward": { "backends": [{ "name": "app" }] } });
        json!({
            "listeners": [{ "port": 80, "defaultAction": action }],
            "backends": [{ "name": "app", "service": "web", "port": port }],
        })
    }

    fn members(objects: &[&MyIngress]) -> Members {
        let present = objects.iter().map(|object| Arc::new((*object).clone())).collect();
        Members { present, grouped: objects.len() > 1, ..Members::default() }
    }

    fn with_listener(mut object: MyIngress) -> MyIngress {
        let listener = ListenerStatus { port: 80, protocol: "HTTP".into(), arn: "l".into(), rules: 0 };
        object.status = Some(MyIngressStatus { listeners: vec![listener], ..MyIngressStatus::default() });
        object
    }

    /// The resources once the target group of the object's backend follows it.
    fn following(object: &MyIngress) -> Assets {
        let mut assets = Assets::default();
        for (name, group) in &built(&[object]).model.unwrap().groups {
            let tags = Pairs::from([backend_tag(&group.backend)]);
            let (arn, name) = ("tg".to_owned(), name.clone());
            let group = TargetGroup { arn: arn.clone(), name, kind: None, health_check: None, balancers: [].into() };
            assets.groups.insert(arn, GroupMember { group, tags, attributes: None, fresh: false });
        }
        assets
    }

    fn complaint(object: &MyIngress, assets: &Assets, found: &Endpoints) -> Option<Complaint> {
        let model = built(&[object]).model.unwrap();
        let (complaints, backends) = unfollowable(&model, &members(&[object]), assets, |_| found.clone());
        assert_eq!(complaints.len(), backends.len(), "the object is woken when the backend changes");
        complaints.into_values().next()
    }

    #[test]
    fn a_missing_port_stops_the_object_unless_followed_before() {
        let (wrong, right) = (standing("web", served(81)), standing("web", served(80)));
        let found = Endpoints::PortMissing { ports: vec!["80".into()] };
        let stopped = complaint(&wrong, &following(&right), &found).unwrap();
        assert_eq!(stopped.reason, "PortNotFound");
        assert!(stopped.message.starts_with("spec.backends[0].port: Service web has no such port"), "{stopped:?}");
        assert!(complaint(&wrong, &Assets::default(), &found).is_some(), "nor is it made at first");
        assert_eq!(complaint(&wrong, &following(&wrong), &found), None, "the Service changed");
    }

    #[test]
    fn a_service_may_come_after_its_object() {
        let object = standing("web", served(80));
        assert_eq!(complaint(&object, &Assets::default(), &Endpoints::ServiceMissing), None);
        let serving = with_listener(object);
        let stopped = complaint(&serving, &Assets::default(), &Endpoints::ServiceMissing).unwrap();
        assert_eq!(stopped.reason, "ServiceNotFound");
        assert_eq!(complaint(&serving, &following(&serving), &Endpoints::ServiceMissing), None);
    }

    #[test]
    fn only_a_missing_check_port_stops_the_object() {
        let object = standing("web", served(80));
        let known = |check| Endpoints::Known(Wanted { check, ..Wanted::default() });
        let missing = known(CheckPort::Missing { ports: vec!["80".into()] });
        assert_eq!(complaint(&object, &following(&object), &missing).unwrap().reason, "PortNotFound");
        let differs = known(CheckPort::Differs([1, 2].into()));
        assert_eq!(complaint(&object, &following(&object), &differs), None, "a rollout ends by itself");
    }

    #[test]
    fn a_complaint_about_an_unknown_group_has_field_and_arn() {
        let action = json!({ "forward": { "targetGroups": [{ "arn": ARN }] } });
        let rules = json!([{ "hosts": ["a.example.com"], "action": action }]);
        let (one, other) = (
            standing("a", json!({ "listeners": [{ "port": 80 }] })),
            joining("b", json!({ "listeners": [{ "port": 80, "rules": rules }] })),
        );
        let unknown = BTreeMap::from([(ARN.to_owned(), "One or more target groups not found".to_owned())]);
        let complaints = of_unknown_groups(&members(&[&one, &other]), &unknown);
        assert_eq!(complaints.keys().collect::<Vec<_>>(), [&key(&other)]);
        let message = &complaints[&key(&other)].message;
        let field = "spec.listeners[0].rules[0].action.forward.targetGroups[0].arn: AWS knows no target group ";
        assert!(message.starts_with(&format!("{field}{ARN} (One or more target groups not found)")), "{message}");
        let default = standing("c", json!({ "listeners": [{ "port": 80, "defaultAction": action }] }));
        let complaints = of_unknown_groups(&members(&[&default]), &unknown);
        let message = &complaints[&key(&default)].message;
        assert!(message.starts_with("spec.listeners[0].defaultAction.forward.targetGroups[0].arn"), "{message}");
        assert!(of_unknown_groups(&members(&[&default]), &BTreeMap::new()).is_empty());
    }

    #[test]
    fn a_member_that_names_groups_of_others_is_told_which() {
        let action = json!({ "forward": { "targetGroups": [{ "arn": ARN }] } });
        let target = standing("a", json!({ "listeners": [{ "port": 80, "defaultAction": action }] }));
        let security = standing("b", json!({ "securityGroups": ["sg-1", "sg-2"] }));
        let others = BTreeSet::from([ARN.to_owned(), "sg-2".to_owned()]);
        let told = |object: &MyIngress| of_others_groups(&members(&[object]), &others)[&key(object)].message.clone();
        assert!(
            told(&target).starts_with("spec.listeners[0].defaultAction.forward.targetGroups[0].arn: target group arn:")
        );
        assert!(
            told(&security).starts_with("spec.securityGroups[1]: security group sg-2 is a part of another MyIngress")
        );
        let own = standing("c", json!({ "securityGroups": ["sg-1"] }));
        assert!(of_others_groups(&members(&[&own]), &others).is_empty());
    }
}
