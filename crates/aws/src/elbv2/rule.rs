//! Rules as plain data.

use std::collections::BTreeSet;

use super::actions::RuleAction;
use super::conditions::Condition;
use super::transforms::Transform;

/// A rule as AWS describes it. The default rule of a listener is not one of these: see
/// [`super::ListenerSettings::default_actions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The ARN of the rule.
    pub arn: String,
    /// Rules are evaluated from the lowest priority to the highest.
    pub priority: u16,
    /// The conditions, and the actions on requests that meet them.
    pub settings: RuleSettings,
}

/// The conditions and actions of a rule. They are in a canonical form, so equal settings compare equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSettings {
    /// The conditions, which must all hold.
    pub conditions: BTreeSet<Condition>,
    /// Rewrites before the request goes to a target: at most one of each part, the URL first.
    pub transforms: Vec<Transform>,
    /// Authentication first, then exactly one action that answers.
    pub actions: Vec<RuleAction>,
}
