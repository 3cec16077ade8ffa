//! Errors of the plugin's commands.

use std::io;

use causeway_runtime::api_message;
use causeway_runtime::clients;

/// A failure of a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to reach the cluster.
    #[error("no cluster to talk to: {0}; set KUBECONFIG, or name a context with --context")]
    Kubeconfig(#[source] kube::config::KubeconfigError),
    /// There is no way to reach the cluster of the current context.
    #[error(transparent)]
    Clients(#[from] clients::Error),
    /// The word before the slash is no kind of ours.
    #[error("{word:?} is no kind of Causeway: use one of {known}")]
    Kind {
        /// The word that is no kind.
        word: String,
        /// The kinds that there are.
        known: String,
    },
    /// A command about one object needs its name.
    #[error("{0:?} names no object: write KIND/NAME, such as redis/cache")]
    NoName(String),
    /// The object could not be read.
    #[error("cannot read {what}: {}", api_message(.source))]
    Read {
        /// Kind, namespace and name.
        what: String,
        /// The answer of the apiserver.
        source: kube::Error,
    },
    /// The object could not be changed.
    #[error("cannot change {what}: {}", api_message(.source))]
    Write {
        /// Kind, namespace and name.
        what: String,
        /// The answer of the apiserver.
        source: kube::Error,
    },
    /// The kind has no such field.
    #[error("a {kind} cannot be suspended")]
    NotSuspendable {
        /// The name of the kind.
        kind: String,
    },
    /// No replica can take over.
    #[error(
        "{0} has no replica with all data that could take over: see kubectl causeway status redis/{0}, or name one with --to"
    )]
    NoReplica(String),
    /// The operator has not seen that the field was removed.
    #[error(
        "{0}: Causeway switches over to the same pod again only after spec.switchover was removed. It is removed now, but \
         status.switchedTo has not gone within 30 s: is an operator running, and is spec.suspend false? Then run this \
         command again"
    )]
    SwitchoverRemembered(String),
    /// Writes that only the other members have would be lost.
    #[error(
        "{name} would be rebuilt from the data of {from}, and what only other members have is lost: add --yes if they are \
         lost for good"
    )]
    NotConfirmed {
        /// The name of the cluster.
        name: String,
        /// The name of the member.
        from: String,
    },
    /// The objects could not be written as JSON or YAML.
    #[error("cannot express the objects: {0}")]
    Form(String),
    /// The output could not be written.
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
}
