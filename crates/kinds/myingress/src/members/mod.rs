//! Who shares a balancer: an object alone, or the members of its group. Pure.

pub mod occupied;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::{Resource, ResourceExt};

use causeway_api::MyIngress;
use causeway_api::myingress::ManagedKeys;
use causeway_runtime::{Unlisted, undecodable};

use super::model::{Complaint, order};
use super::ownership::{ObjectKey, group_of};

/// Who shares a balancer.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// Those that are not being deleted, in the order of their group.
    pub present: Vec<Arc<MyIngress>>,
    /// Those that may not take part, and why.
    pub refused: BTreeMap<ObjectKey, Complaint>,
    /// Those of `refused` that the group does not allow to join. The group keeps nothing for them.
    pub strangers: BTreeSet<ObjectKey>,
    /// True if they are a group.
    pub grouped: bool,
    /// The group's own namespace; `None` where there is no group.
    pub home: Option<String>,
    /// Namespaces whose objects are not known, so that there may be more members.
    pub unlisted: Unlisted,
}

impl Members {
    /// The members that take part in what is decided.
    pub fn active(&self) -> Vec<&MyIngress> {
        let takes_part = |object: &&Arc<MyIngress>| !object.spec.suspend && !self.refused.contains_key(&key(object));
        self.present.iter().filter(takes_part).map(AsRef::as_ref).collect()
    }

    /// Reports whether that object belongs to the group of another namespace. A guest brings rules and backends, and
    /// decides nothing else.
    pub fn is_guest(&self, member: &ObjectKey) -> bool {
        self.home.as_ref().is_some_and(|home| member.0 != *home)
    }

    /// Reports whether a guest may be there that is not among those present, because the objects of its namespace are
    /// not known. Guests that the group does not allow are left out: it keeps nothing for them.
    pub fn may_be_unseen(&self, member: &ObjectKey) -> bool {
        self.unlisted.contains(&member.0) && self.is_guest(member) && self.may_allow(&member.0)
    }

    fn may_allow(&self, namespace: &str) -> bool {
        let mut at_home = self.present.iter().filter(|member| member.namespace() == self.home);
        at_home.any(|member| {
            let mut allowed = member.spec.group.iter().flat_map(|group| &group.allowed_namespaces);
            undecodable(member.meta()).is_some() || allowed.any(|allowed| allowed == "*" || allowed == namespace)
        })
    }

    /// Reports whether no member is left that the balancer must stay for.
    pub fn is_deserted(&self) -> bool {
        self.present.iter().all(|object| self.strangers.contains(&key(object)))
    }

    /// The keys of all present members.
    pub fn all_keys(&self) -> BTreeSet<ObjectKey> {
        self.present.iter().map(|object| key(object)).collect()
    }

    /// The keys that specs have set in AWS, by the records of all members: another member may have acted before. Guests
    /// bring listeners, and nothing else that is recorded.
    pub fn recorded(&self) -> ManagedKeys {
        let at_home = self.present.iter().filter(|member| !self.is_guest(&key(member)));
        let records = at_home.filter_map(|member| member.status.as_ref()?.managed.as_ref());
        let mut all = records.fold(ManagedKeys::default(), |all, one| ManagedKeys {
            tags: [all.tags, one.tags.clone()].concat(),
            attributes: [all.attributes, one.attributes.clone()].concat(),
            listeners: all.listeners || one.listeners,
            listener_attributes: all.listener_attributes || one.listener_attributes,
            web_acl: all.web_acl || one.web_acl,
            security_group: all.security_group || one.security_group,
            capacity: all.capacity || one.capacity,
        });
        let mut guests = self.present.iter().filter_map(|member| member.status.as_ref()?.managed.as_ref());
        all.listeners |= guests.any(|one| one.listeners);
        for keys in [&mut all.tags, &mut all.attributes] {
            keys.sort();
            keys.dedup();
        }
        all
    }

    /// Reports whether no member takes part, because each is suspended.
    pub fn all_suspended(&self) -> bool {
        self.present.iter().all(|member| member.spec.suspend)
    }

    /// Members whose rules and target groups are to stay as they are, whatever their specs say.
    pub fn suspended(&self) -> impl Iterator<Item = ObjectKey> {
        self.present.iter().filter(|object| object.spec.suspend).map(|object| key(object))
    }
}

/// The members that share a balancer with `object`, out of all objects that are known.
pub fn members_of(object: &MyIngress, known: &[Arc<MyIngress>]) -> Members {
    let Some(group) = group_of(object) else {
        let present = if is_present(object) { vec![Arc::new(object.clone())] } else { Vec::new() };
        return Members { present, ..Members::default() };
    };
    let unreadable = |member: &MyIngress| {
        let message = undecodable(member.meta())?.to_owned();
        Some(Complaint { reason: "Undecodable", message })
    };
    // The object itself may be newer than its cached copy.
    let others = known.iter().filter(|other| key(other) != key(object) && group_of(other).as_ref() == Some(&group));
    let mut all: Vec<Arc<MyIngress>> = others.cloned().chain([Arc::new(object.clone())]).collect();
    all.retain(|member| is_present(member));
    let mut ordered: Vec<&MyIngress> = all.iter().map(AsRef::as_ref).collect();
    order(&mut ordered, &group.0);
    let places: Vec<ObjectKey> = ordered.into_iter().map(key).collect();
    all.sort_by_key(|member| places.iter().position(|place| *place == key(member)));
    let allows = |namespace: &str| {
        let at_home = all.iter().filter(|member| member.namespace().as_ref() == Some(&group.0));
        let mut allowed = at_home.flat_map(|member| &member.spec.group).flat_map(|group| &group.allowed_namespaces);
        allowed.any(|allowed| allowed == "*" || allowed == namespace)
    };
    // A member of the group's namespace that cannot be read may allow further namespaces. While there is one, no member
    // counts as a stranger.
    let sure = !all.iter().any(|it| it.namespace().as_ref() == Some(&group.0) && unreadable(it).is_some());
    let (mut refused, mut strangers) = (BTreeMap::new(), BTreeSet::new());
    for member in &all {
        let namespace = member.namespace().unwrap_or_default();
        if namespace != group.0 && !allows(&namespace) {
            if sure {
                strangers.insert(key(member));
            }
            let message = format!(
                "spec.group.namespace: no member of group {} in namespace {} lists namespace {namespace} in \
                 spec.group.allowedNamespaces: add it there, or leave spec.group.namespace out",
                group.1, group.0
            );
            refused.insert(key(member), Complaint { reason: "GroupNotAllowed", message });
        } else if let Some(complaint) = unreadable(member) {
            // Its rules and target groups stay as they are.
            refused.insert(key(member), complaint);
        }
    }
    Members { present: all, refused, strangers, grouped: true, home: Some(group.0), unlisted: Unlisted::default() }
}

/// The same where the objects of some namespaces are not known: what guests have stays as long as it is not known
/// whether they are there. Fails with the group's namespace if that is one of these, for only members there say whether
/// the group is needed, and who may join it.
pub fn members_but(object: &MyIngress, known: &[Arc<MyIngress>], unlisted: Unlisted) -> Result<Members, String> {
    match group_of(object) {
        Some((home, _)) if unlisted.contains(&home) => Err(home),
        _ => Ok(Members { unlisted, ..members_of(object, known) }),
    }
}

/// An object as (namespace, name).
pub fn key(object: &MyIngress) -> ObjectKey {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn is_present(object: &MyIngress) -> bool {
    object.meta().deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn member(namespace: &str, name: &str, group: &serde_json::Value) -> Arc<MyIngress> {
        let mut object = MyIngress::new(name, serde_json::from_value(json!({ "group": group })).unwrap());
        object.metadata.namespace = Some(namespace.into());
        Arc::new(object)
    }

    #[test]
    fn a_group_is_of_one_namespace() {
        let known = [
            member("a", "one", &json!({ "name": "shared" })),
            member("b", "two", &json!({ "name": "shared" })),
            member("a", "three", &json!({ "name": "other" })),
        ];
        let members = members_of(&known[0], &known);
        assert_eq!(members.present.iter().map(|it| key(it)).collect::<Vec<_>>(), [("a".into(), "one".into())]);
    }

    #[test]
    fn another_namespace_joins_only_where_it_is_allowed() {
        let joins = json!({ "name": "shared", "namespace": "a" });
        let stranger = member("b", "two", &joins);
        let closed = member("a", "one", &json!({ "name": "shared" }));
        let members = members_of(&closed, &[closed.clone(), stranger.clone()]);
        assert_eq!(members.refused.keys().collect::<Vec<_>>(), [&("b".to_owned(), "two".to_owned())]);
        assert_eq!(members.active().len(), 1);
        let open = member("a", "one", &json!({ "name": "shared", "allowedNamespaces": ["b"] }));
        let members = members_of(&stranger, &[open]);
        assert!(members.refused.is_empty());
        assert_eq!(members.active().len(), 2);
    }

    #[test]
    fn members_of_the_groups_own_namespace_come_before_all_others() {
        let guest = member("b", "early", &json!({ "name": "shared", "namespace": "a", "order": 0 }));
        let home = member("a", "late", &json!({ "name": "shared", "allowedNamespaces": ["b"], "order": 9 }));
        let members = members_of(&guest, &[home]);
        assert_eq!(members.present.iter().map(|it| it.name_any()).collect::<Vec<_>>(), ["late", "early"]);
        assert!(members.is_guest(&("b".into(), "early".into())) && !members.is_guest(&("a".into(), "late".into())));
    }

    #[test]
    fn a_group_with_an_unknown_namespace_is_left_alone() {
        let guest = member("b", "two", &json!({ "name": "shared", "namespace": "a" }));
        assert_eq!(members_but(&guest, &[], Unlisted::new(&["a", "c"])).err().as_deref(), Some("a"));
        assert!(members_but(&guest, &[], Unlisted::new(&["c"])).is_ok_and(|members| members.is_deserted()));
        let alone = member("b", "three", &json!(null));
        assert!(members_but(&alone, &[], Unlisted::new(&["a"])).is_ok());
    }

    #[test]
    fn unknown_guests_may_be_there_if_allowed() {
        let home = |allowed: &[&str]| member("a", "one", &json!({ "name": "shared", "allowedNamespaces": allowed }));
        let (of_b, of_c) = (("b".to_owned(), "two".to_owned()), ("c".to_owned(), "two".to_owned()));
        let unseen = |allowed: &[&str]| {
            let members = members_but(&home(allowed), &[], Unlisted::new(&["b"])).unwrap();
            (members.may_be_unseen(&of_b), members.may_be_unseen(&of_c))
        };
        assert_eq!(unseen(&["b", "c"]), (true, false), "the objects of the other namespace are known");
        assert_eq!(unseen(&["*"]), (true, false));
        assert_eq!(unseen(&["c"]), (false, false));
    }

    #[test]
    fn a_member_that_is_being_deleted_is_none() {
        let mut gone = (*member("a", "two", &json!({ "name": "shared" }))).clone();
        gone.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        let stays = member("a", "one", &json!({ "name": "shared" }));
        assert_eq!(members_of(&gone, &[stays]).present.len(), 1);
    }
}
