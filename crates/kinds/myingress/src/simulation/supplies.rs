//! The supply of targets that the cluster has behind a Service.

use std::collections::BTreeSet;

use causeway_aws::elbv2::{Target, TargetType};

use super::Simulation;
use crate::targets::{Backend, CheckPort, Endpoints, Summary, Wanted};

/// The supply of targets that the cluster has behind a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Supply {
    /// A pod that passes its checks.
    #[default]
    Serves,
    /// A pod that fails its checks.
    Fails,
    /// A pod that AWS has not judged.
    Unjudged,
    NoPods,
    /// No slice that lists endpoints.
    NoSlices,
    /// There is no such Service.
    NoService,
    /// The Service has no such port.
    NoPort,
    /// The Service cannot be such a backend.
    Unsuitable,
    /// It serves pods, but no nodes.
    NoNodes,
}

impl Supply {
    /// Every one but the first.
    pub const LACKING: [Self; 8] = [
        Self::Fails,
        Self::Unjudged,
        Self::NoPods,
        Self::NoSlices,
        Self::NoService,
        Self::NoPort,
        Self::Unsuitable,
        Self::NoNodes,
    ];

    /// The endpoints that the watches show.
    pub fn endpoints(self, check: CheckPort) -> Endpoints {
        let pod = Target { id: "10.0.0.1".into(), port: 80 };
        let known = |targets| Endpoints::Known(Wanted { targets, check, ..Wanted::default() });
        match self {
            Self::Serves | Self::Fails | Self::Unjudged => known([pod].into()),
            Self::NoPods => known(BTreeSet::new()),
            Self::NoSlices => Endpoints::NoSlices,
            Self::NoService => Endpoints::ServiceMissing,
            Self::NoPort => Endpoints::PortMissing { ports: vec!["8080".into()] },
            Self::Unsuitable | Self::NoNodes => Endpoints::Unsuitable("there is no ready node".into()),
        }
    }

    /// The summary of a bound group. AWS checks only targets of groups that are used.
    pub fn summary(self, used: bool) -> Summary {
        let pods = usize::from(matches!(self, Self::Serves | Self::Fails | Self::Unjudged));
        Summary {
            healthy: usize::from(used && self == Self::Serves),
            own: usize::from(used && self == Self::Serves),
            registered: pods,
            total: pods,
            draining: 0,
            served_lately: false,
            known: true,
            settled: true,
            trouble: (used && self == Self::Fails).then(|| "10.0.0.1:80 unhealthy".into()),
        }
    }
}

impl Simulation {
    /// Returns the supply for a backend.
    pub fn supply(&self, backend: &Backend) -> Supply {
        match self.supplies.get(&backend.service).copied().unwrap_or_default() {
            Supply::NoNodes if backend.target_type == TargetType::Ip => Supply::Serves,
            supply => supply,
        }
    }
}
