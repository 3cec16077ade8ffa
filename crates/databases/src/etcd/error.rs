//! Errors of calls to members.

use causeway_runtime::Class;

/// A call that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("etcd {operation}: {message}")]
pub struct EtcdError {
    /// The name of the call.
    pub operation: &'static str,
    /// The kind of failure.
    pub trouble: Trouble,
    /// In etcd's words, or what happened to the connection.
    pub message: String,
}

/// The kinds of failures that make a difference.
/// <https://github.com/etcd-io/etcd/blob/main/api/v3rpc/rpctypes/error.go>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No answer came; the call may have had its effect.
    Unanswered,
    /// There is no leader: a majority is missing, or an election is going on.
    NoLeader,
    /// A learner has not caught up.
    LearnerNotReady,
    /// The cluster refuses the change while members are not healthy.
    Unhealthy,
    /// The cluster does not have the version of its members yet.
    VersionBehind,
    /// A member with that peer URL is there already.
    PeerExists,
    /// The cluster has no such member.
    MemberNotFound,
    /// The member that was asked does not lead, or the other one cannot take leadership over.
    NotLeader,
    /// The history was compacted already.
    Compacted,
    /// The user or the role is there already, or the downgrade is enabled or cancelled already.
    AlreadyThere,
    /// Authentication is off: no client has to log in, or can.
    AuthOff,
    /// The password is not the one that etcd has.
    LoginRefused,
    /// The caller must log in, or its login is not valid any more.
    NotLoggedIn,
    /// This process must not change anything.
    NotLeading,
    /// Anything else, which the message describes.
    Other,
}

impl EtcdError {
    /// Describes a failed call of that operation.
    #[must_use]
    pub fn new(operation: &'static str, trouble: Trouble, message: String) -> Self {
        Self { operation, trouble, message }
    }

    /// Describes an answer that belongs to another call.
    pub(super) fn unexpected_answer(operation: &'static str) -> Self {
        Self::new(operation, Trouble::Other, "the answer belongs to another call".into())
    }

    /// Returns true if it is about the login of the caller, and not about the call itself.
    #[must_use]
    pub fn is_about_login(&self) -> bool {
        matches!(self.trouble, Trouble::AuthOff | Trouble::LoginRefused | Trouble::NotLoggedIn)
    }

    /// Returns the class, which decides the retry.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.trouble {
            // Observe again which login is needed, and who is a member.
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
