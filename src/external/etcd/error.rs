//! Why a call of a member failed.

use crate::runtime::Class;

/// A call that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("etcd {operation}: {message}")]
pub struct EtcdError {
    /// The name of the call.
    pub operation: &'static str,
    /// What went wrong.
    pub trouble: Trouble,
    /// In etcd's words, or what happened to the connection.
    pub message: String,
}

/// What went wrong, as far as it matters.
/// <https://github.com/etcd-io/etcd/blob/main/api/v3rpc/rpctypes/error.go>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No answer came; the call may have had its effect.
    Unanswered,
    /// A majority is missing, or just chooses a leader.
    NoLeader,
    /// A learner has not caught up.
    LearnerNotReady,
    /// The cluster refuses to change while a member is sick.
    Unhealthy,
    /// The cluster does not have the version of its members yet.
    VersionBehind,
    /// A member with that peer URL is there already.
    PeerExists,
    /// No such member.
    MemberNotFound,
    /// Somebody else leads than was asked.
    NotLeader,
    /// What was to be forgotten is forgotten already.
    Compacted,
    /// The user or the role is there already, or the downgrade is as it was to be.
    AlreadyThere,
    /// Nobody has to log in: there is nothing to log in to.
    AuthOff,
    /// The password is not the one that etcd has.
    LoginRefused,
    /// Whoever asks must log in, or did so too long ago.
    NotLoggedIn,
    /// This process must not change anything.
    NotLeading,
    /// Anything else.
    Other,
}

impl EtcdError {
    /// An error of a call.
    #[must_use]
    pub fn new(operation: &'static str, trouble: Trouble, message: String) -> Self {
        Self { operation, trouble, message }
    }

    /// The answer belongs to another call.
    pub(super) fn unexpected(operation: &'static str) -> Self {
        Self::new(operation, Trouble::Other, "the answer belongs to another call".into())
    }

    /// Whether it is about who calls, and not about what is called for.
    #[must_use]
    pub fn is_about_login(&self) -> bool {
        matches!(self.trouble, Trouble::AuthOff | Trouble::LoginRefused | Trouble::NotLoggedIn)
    }

    /// What is to be done about it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.trouble {
            // Whether a login is needed, and which, is found out anew, and so is who is a member.
            Trouble::PeerExists
            | Trouble::MemberNotFound
            | Trouble::NotLeader
            | Trouble::AuthOff
            | Trouble::LoginRefused
            | Trouble::NotLoggedIn => Class::Conflict,
            Trouble::LearnerNotReady | Trouble::Unhealthy | Trouble::NoLeader | Trouble::VersionBehind => Class::NotYet,
            _ => Class::Transient,
        }
    }
}
