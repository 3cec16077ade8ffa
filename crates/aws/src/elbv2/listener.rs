//! Listeners as plain data.

use super::actions::RuleAction;

/// A listener as AWS describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The ARN of the listener.
    pub arn: String,
    /// The settings, without rules.
    pub settings: ListenerSettings,
}

/// The settings of a listener, without its rules, attributes and further certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Port, unique on its balancer.
    pub port: u16,
    /// The protocol that clients speak.
    pub protocol: Protocol,
    /// ARN of the default certificate; only with [`Protocol::Https`].
    pub certificate: Option<String>,
    /// Security policy; only with [`Protocol::Https`], where AWS chooses one if none is asked for.
    pub ssl_policy: Option<String>,
    /// The check of client certificates; `None` is AWS's mode `off`.
    pub mutual_authentication: Option<MutualAuthentication>,
    /// The actions for requests that no rule matches, in order; the last one answers.
    pub default_actions: Vec<RuleAction>,
}

/// The protocol of a listener, or of requests to targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP without TLS.
    Http,
    /// HTTP over TLS.
    Https,
}

/// The check of client certificates.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_MutualAuthenticationAttributes.html>
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MutualAuthentication {
    /// Certificates are handed to the targets unchecked.
    Passthrough,
    /// Certificates must be signed by an authority of the trust store.
    Verify {
        /// ARN of the trust store.
        trust_store: String,
        /// True if expired certificates pass.
        ignore_expiry: bool,
        /// True if the names of the authorities are sent to clients.
        advertise_authorities: bool,
    },
}
