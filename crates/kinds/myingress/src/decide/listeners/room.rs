//! How much more a balancer can have before it reaches AWS's quotas.

use crate::action::ListenerAction;
use crate::decide::Scene;
use crate::region::assets::Member;

/// For how much a balancer has room beside what it has.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub rules: usize,
    /// Certificates beside the default ones.
    pub certificates: usize,
}

impl Room {
    /// The room of a balancer. After AWS refused something for its quota there is none, whatever the known quota says.
    pub(super) fn new(scene: &Scene, current: &Member) -> Self {
        let (aside, limits, arn) = (&scene.aside, &scene.observed.limits, &current.balancer.arn);
        let listeners = || current.listeners.iter().flat_map(|listeners| listeners.values());
        let rules = listeners().map(|listener| listener.rules.len()).sum();
        let certificates = listeners().map(|listener| listener.certificates.len()).sum();
        let left = |full: bool, most: usize, present: usize| if full { 0 } else { most.saturating_sub(present) };
        Self {
            rules: left(aside.is_full_of_rules(arn), limits.rules, rules),
            certificates: left(aside.is_full_of_certificates(arn), limits.certificates, certificates),
        }
    }

    /// The room that is left after these changes.
    pub(super) fn after_changes(self, changes: &[ListenerAction]) -> Self {
        let (mut made, mut gone) = (Self { rules: 0, certificates: 0 }, Self { rules: 0, certificates: 0 });
        for change in changes {
            match change {
                ListenerAction::CreateRule { .. } => made.rules += 1,
                ListenerAction::DeleteRule { .. } => gone.rules += 1,
                ListenerAction::AddCertificates { certificates, .. } => made.certificates += certificates.len(),
                ListenerAction::RemoveCertificates { certificates, .. } => gone.certificates += certificates.len(),
                _ => {}
            }
        }
        Self {
            rules: (self.rules + gone.rules).saturating_sub(made.rules),
            certificates: (self.certificates + gone.certificates).saturating_sub(made.certificates),
        }
    }
}
