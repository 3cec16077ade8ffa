//! A label on a Secret says which kinds may use it. Without that, a user who may create one of our objects could send
//! away a Secret that he may not read himself. All of it is pure except `reading`.

pub mod account;
mod reading;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use reading::{Refusal, SECRET_MISSING, refusals};

/// Label of a Secret. Its value is the kind that may use the Secret, or several kinds joined by dots.
pub const USABLE_BY: &str = "causeway.example.com/usable-by";

/// Label of a Secret with a login. Its value is the kind whose objects may run statements as that login. Statements are
/// part of the object, so this grants more than the use of the Secret.
pub const HOOKS_BY: &str = "causeway.example.com/hooks-by";

/// The value of the label for `MyIngress`.
pub const MYINGRESS: &str = "myingress";

/// The value of the label for `DatabaseBackup`.
pub const DATABASEBACKUP: &str = "databasebackup";

/// The value of the label for `DatabaseRestore`.
pub const DATABASERESTORE: &str = "databaserestore";

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseKind {
    /// The value of the label [`USABLE_BY`].
    pub kind: &'static str,
    /// The label on what Causeway creates for a database of this kind; its value is the name of the database.
    pub made_for: &'static str,
}

/// `Redis`.
pub const REDIS: DatabaseKind = DatabaseKind { kind: "redis", made_for: "causeway.example.com/redis" };

/// `EtcdCluster`.
pub const ETCDCLUSTER: DatabaseKind = DatabaseKind { kind: "etcdcluster", made_for: "causeway.example.com/etcd" };

/// The agreement that a Secret must give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Objects of the kind that names the Secret use it.
    Named,
    /// Objects of the kind that names the Secret use it, and run statements as the login in it.
    Hooks,
    /// The database of that name and uid uses the Secret too. A Secret that Causeway made for the database agrees by
    /// itself.
    Database(DatabaseKind, String, String),
}

impl Consent {
    /// Returns the value of the label that gives this consent to objects of `kind`.
    fn value<'a>(&'a self, kind: &'a str) -> &'a str {
        match self {
            Self::Named | Self::Hooks => kind,
            Self::Database(database, ..) => database.kind,
        }
    }

    /// Returns true if a Secret with this metadata gives the consent to objects of `kind`.
    fn is_given(&self, secret: &ObjectMeta, kind: &str) -> bool {
        match self {
            Self::Named => is_given(secret.labels.as_ref(), kind),
            Self::Hooks => is_given(secret.labels.as_ref(), kind) && agrees_to_hooks(secret.labels.as_ref(), kind),
            Self::Database(database, name, uid) => database.may_use(secret, name, uid),
        }
    }
}

impl DatabaseKind {
    /// Returns true if the database of that name and uid may use a Secret: one that was made for it, or that has the
    /// label. A Secret, like a volume, may remain from an earlier database of that name; it has no owner then.
    pub fn may_use(&self, secret: &ObjectMeta, name: &str, uid: &str) -> bool {
        let label = secret.labels.as_ref().and_then(|labels| labels.get(self.made_for));
        let made = label.is_some_and(|label| label == name)
            && secret.owner_references.iter().flatten().all(|owner| owner.uid == uid);
        made || is_given(secret.labels.as_ref(), self.kind)
    }
}

/// Returns true if a Secret with these labels agrees to be used by objects of that kind.
pub fn is_given(labels: Option<&BTreeMap<String, String>>, kind: &str) -> bool {
    let value = labels.and_then(|labels| labels.get(USABLE_BY));
    value.is_some_and(|kinds| kinds.split('.').any(|usable_by| usable_by == kind))
}

fn agrees_to_hooks(labels: Option<&BTreeMap<String, String>>, kind: &str) -> bool {
    labels.and_then(|labels| labels.get(HOOKS_BY)).is_some_and(|hooks_by| hooks_by == kind)
}

/// Returns the command that makes a Secret agree.
pub fn command(namespace: &str, name: &str, kind: &str) -> String {
    format!("kubectl -n {namespace} label secret {name} {USABLE_BY}={kind}")
}

/// Explains that a Secret does not agree to be used, and gives the command that changes that.
pub fn not_shared(namespace: &str, name: &str, kind: &str) -> String {
    format!(
        "Secret {name} does not agree to be used by objects of this kind: its owner labels it ({}; several kinds \
         are joined by a dot)",
        command(namespace, name, kind)
    )
}

/// Explains that a Secret does not agree to hooks, and gives the command that changes that.
fn not_for_hooks(namespace: &str, name: &str, kind: &str) -> String {
    format!(
        "Secret {name} does not agree that spec.hooks run statements as its login: its owner labels it (kubectl -n \
         {namespace} label secret {name} {HOOKS_BY}={kind}), or spec.hooks goes"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_agrees_only_by_the_label_of_the_kind() {
        let labelled = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        assert!(is_given(Some(&labelled(USABLE_BY, MYINGRESS)), MYINGRESS));
        assert!(is_given(Some(&labelled(USABLE_BY, "redis.myingress")), MYINGRESS), "several kinds");
        assert!(!is_given(Some(&labelled(USABLE_BY, "redis")), MYINGRESS));
        assert!(!is_given(Some(&labelled(USABLE_BY, "myingress-too")), MYINGRESS));
        assert!(!is_given(Some(&labelled(USABLE_BY, "")), MYINGRESS));
        assert!(!is_given(Some(&labelled("usable-by", MYINGRESS)), MYINGRESS));
        assert!(!is_given(None, MYINGRESS));
    }

    #[test]
    fn use_of_a_login_does_not_permit_statements() {
        let secret = |labels: &[(&str, &str)]| ObjectMeta {
            labels: Some(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
            ..ObjectMeta::default()
        };
        let usable = (USABLE_BY, DATABASEBACKUP);
        assert!(Consent::Named.is_given(&secret(&[usable]), DATABASEBACKUP));
        assert!(!Consent::Hooks.is_given(&secret(&[usable]), DATABASEBACKUP));
        assert!(!Consent::Hooks.is_given(&secret(&[(HOOKS_BY, DATABASEBACKUP)]), DATABASEBACKUP));
        assert!(!Consent::Hooks.is_given(&secret(&[usable, (HOOKS_BY, "true")]), DATABASEBACKUP));
        assert!(Consent::Hooks.is_given(&secret(&[usable, (HOOKS_BY, DATABASEBACKUP)]), DATABASEBACKUP));
    }

    #[test]
    fn all_kinds_together_are_a_label() {
        let all = [MYINGRESS, REDIS.kind, ETCDCLUSTER.kind, DATABASEBACKUP, DATABASERESTORE].join(".");
        // https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
        assert!(all.len() <= 63, "{all}");
    }

    #[test]
    fn a_database_uses_only_what_was_made_for_it() {
        let secret = |label: &str, name: &str, owners: &[&str]| -> ObjectMeta {
            let owner = |uid: &&str| json!({ "apiVersion": "v1", "kind": "any", "name": "any", "uid": uid });
            let owners: Vec<_> = owners.iter().map(owner).collect();
            serde_json::from_value(json!({ "labels": { label: name }, "ownerReferences": owners })).expect("metadata")
        };
        let may = |secret: &ObjectMeta| {
            let consent = Consent::Database(REDIS, "cache".into(), "uid".into());
            consent.is_given(secret, DATABASEBACKUP)
        };
        assert!(may(&secret(REDIS.made_for, "cache", &["uid"])));
        assert!(may(&secret(REDIS.made_for, "cache", &[])), "of an earlier object of the name");
        assert!(may(&secret(USABLE_BY, "redis", &["another"])), "it says so");
        assert!(!may(&secret(REDIS.made_for, "cache", &["another"])));
        assert!(!may(&secret(REDIS.made_for, "billing", &["uid"])));
        assert!(!may(&secret(ETCDCLUSTER.made_for, "cache", &["uid"])), "of an etcd of the same name");
        assert!(!may(&secret(USABLE_BY, DATABASEBACKUP, &[])), "the database itself may not use it");
        assert!(!may(&ObjectMeta::default()), "another owner's that has the name that we would give it");
    }
}
