//! Rules as plain data.

use std::collections::BTreeSet;

use super::actions::RuleAction;
use super::conditions::Condition;
use super::transforms::Transform;

/// A rule as AWS describes it. The default rule of a listener is not one of these: see
/// [`super::ListenerSettings::default_actions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Amazon resource name.
    pub arn: String,
    /// Rules are evaluated from the lowest priority to the highest.
    pub priority: u16,
    /// What it does.
    pub settings: RuleSettings,
}

/// What a rule does. Conditions and actions are in a canonical form, so equal settings compare equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSettings {
    /// All must hold.
    pub conditions: BTreeSet<Condition>,
    /// Rewrites before the request goes to a target: at most one of each part, the URL first.
    pub transforms: Vec<Transform>,
    /// Authentication first, then exactly one action that answers.
    pub actions: Vec<RuleAction>,
}
