//! Targets as plain data.

/// A target: an address or an instance id, with its port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// IP address or instance id.
    pub id: String,
    /// The port that gets requests.
    pub port: u16,
}

/// A target's health.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetHealth.html>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetHealth {
    /// The state of the target.
    pub state: TargetState,
    /// AWS's description, for a person.
    pub description: Option<String>,
}

/// State of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetState {
    /// Registered, checks not finished.
    Initial,
    /// It gets requests.
    Healthy,
    /// It gets no requests.
    Unhealthy,
    /// Its group is not used by any listener.
    Unused,
    /// Deregistered; requests under way may finish.
    Draining,
    /// AWS does not know its health.
    Unavailable,
}
