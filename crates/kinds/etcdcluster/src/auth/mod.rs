//! Authentication of a cluster: which password the user `root` is to have, which it has, and whether clients must log in.
//!
//! ```text
//! NAME-auth, or a given Secret ──▶ the password that root is to have
//! NAME-root                    ──▶ the one that it has; and, while that changes, the next one
//! ```
//!
//! A password is changed in three steps: record it as the next one, change it in etcd, and record it as the current one.
//! If the operator dies in between, both passwords are recorded, and one of them lets its successor in.

pub mod secrets;

use kube::ResourceExt;

use causeway_api::EtcdCluster;
use causeway_databases::etcd::Password;
use causeway_databases::password::Emptied;

use super::tls::facts::Version;

/// All that is known of authentication.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Auth {
    /// We may not read Secrets.
    pub denied: bool,
    /// The Secret with the password that root is to have does not permit its use by this object.
    pub unshared: bool,
    /// The password that root is to have, where its Secret has one.
    pub user_provided: Option<Password>,
    /// That Secret, if the spec does not name it, and it exists without a password.
    pub emptied: Option<Emptied>,
    /// The record about the password that root has.
    pub kept: Option<StoredPasswords>,
    /// The Secret for that, if it exists without a password.
    pub kept_emptied: Option<Version>,
    /// A Secret of our name belongs to another owner.
    pub foreign: bool,
    /// How members let us in.
    pub access: Access,
}

/// Root's password, as its Secret records it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPasswords {
    /// The Secret as it was.
    pub version: Version,
    /// It is deleted with the object.
    pub goes: bool,
    /// The password that etcd has, or will have when authentication is turned on.
    pub current: Password,
    /// The one that etcd is being given: it may have it already.
    pub next: Option<Password>,
}

/// How members let us in.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Access {
    /// No member could be asked.
    #[default]
    Unknown,
    /// No client must log in.
    Free,
    /// This password of root is right.
    With(Password),
    /// None of the recorded passwords is right.
    Refused,
    /// One must log in, and no password is recorded.
    Locked,
}

impl Access {
    /// The password to log in with.
    pub fn login(&self) -> Option<&Password> {
        match self {
            Self::With(password) => Some(password),
            _ => None,
        }
    }
}

impl StoredPasswords {
    /// All passwords that etcd may have.
    pub fn passwords(&self) -> impl Iterator<Item = &Password> {
        [&self.current].into_iter().chain(&self.next)
    }
}

/// Reports whether authentication matters to this object: clients are to log in, or had to until now.
pub fn concerns(object: &EtcdCluster) -> bool {
    object.spec.auth.enabled || object.status.as_ref().is_some_and(|status| status.auth.is_some())
}

/// Name of the Secret with the password that root is to have.
pub fn user_provided_secret(object: &EtcdCluster) -> String {
    object.spec.auth.secret_name.clone().unwrap_or_else(|| format!("{}-auth", object.name_any()))
}

/// Name of the Secret with the password that root has. Jobs log in by it, too.
pub fn kept_secret(object: &EtcdCluster) -> String {
    format!("{}-root", object.name_any())
}
