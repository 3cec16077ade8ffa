//! Which certificate is due, and why. Pure.
//!
//! No process ever meets a certificate that it does not trust. First, processes trust another source, too. When all have
//! that, they get certificates from it. When all have those, they stop trusting the old source.

use jiff::{SignedDuration, Timestamp};

use super::facts::{Authority, Leaf, SideFacts, Source, StoredCertificate};
use super::{CertificateConfig, RotationStep};

/// No certificate is valid for longer.
const FOREVER: SignedDuration = SignedDuration::from_hours(24 * 365 * 1000);
/// How much longer than asked for a certificate may be valid: it begins a little before it is made.
const SLACK: SignedDuration = SignedDuration::from_mins(10);

/// Certificates as they are, and what their configuration asks for.
pub struct Situation<'a> {
    pub config: &'a CertificateConfig,
    pub facts: &'a SideFacts,
    /// The spec asks for TLS there, and can be accepted.
    pub wanted: bool,
    /// Processes have files.
    pub in_use: bool,
    /// All processes have the files that are kept.
    pub all_have: bool,
    pub now: Timestamp,
}

/// Something that is due, and why.
pub type Due = (RotationStep, String);

impl Situation<'_> {
    /// What is due for the processes. Certificates in use are renewed whatever the spec says.
    pub fn due(&self) -> Option<Due> {
        let SideFacts { source, kept } = self.facts;
        if matches!(source, Source::Unusable(_)) || !(self.wanted || self.in_use) {
            return None;
        }
        if self.wanted
            && self.config.user_provided.is_none()
            && let Some(why) = self.authority(source, kept.as_ref())
        {
            return Some((RotationStep::Authority, why));
        }
        if *source == Source::None {
            return None;
        }
        let Some(kept) = kept else {
            // A process that starts again needs its files, even while TLS is being turned off.
            let why = if self.wanted { "there is none yet" } else { "it is in use, and gone" };
            return Some((RotationStep::Leaf, why.into()));
        };
        let (trust, is_from) = (source.trust(), kept.authority == source.id());
        // While TLS is being turned off, certificates keep their source.
        if !self.wanted && !is_from {
            return None;
        }
        let due = |need: RotationStep, why: &str| Some((need, why.to_owned()));
        if !kept.trust.is_superset(&trust) {
            return due(RotationStep::Trust, "another authority is to be trusted");
        }
        if !is_from {
            return if self.all_have { due(RotationStep::Leaf, "all trust another authority") } else { None };
        }
        if let Some(why) = self.leaf(source, kept.leaf.as_ref()) {
            return due(RotationStep::Leaf, why);
        }
        let is_left = self.wanted && kept.trust != trust && self.all_have;
        if is_left { due(RotationStep::Forget, "nobody needs the old authority any more") } else { None }
    }

    /// What the user's clients trust: they get a new authority before processes present a certificate that it signed.
    pub fn trust_of_clients(&self, for_clients: Option<&StoredCertificate>) -> Option<Due> {
        let (server, kept) = (self.facts.kept.as_ref()?, for_clients?);
        let why = "clients are to trust whom servers trust";
        (kept.trust != server.trust).then(|| (RotationStep::TrustOfClients, why.into()))
    }

    /// The certificate that the user's clients present.
    pub fn clients(&self, for_clients: Option<&StoredCertificate>) -> Option<Due> {
        if !self.wanted || self.config.user_provided.is_some() {
            return None;
        }
        let SideFacts { source, kept } = self.facts;
        let (Source::Authority(_), Some(server)) = (source, kept) else { return None };
        let due = |why: &str| Some((RotationStep::Clients, why.to_owned()));
        let Some(kept) = for_clients else { return due("there is none yet") };
        let signed_by_the_same = server.authority == source.id();
        if signed_by_the_same && kept.authority != server.authority {
            return due("servers trust another authority");
        }
        let Some(leaf) = &kept.leaf else { return due("it could not be read") };
        let why = is_old(leaf.begins, leaf.ends, self.lifetime(), self.now);
        due(why.filter(|_| signed_by_the_same)?)
    }

    /// The lifetime that the spec asks for; if it does not say, none is too long.
    fn lifetime(&self) -> SignedDuration {
        self.config.certificate_lifetime.unwrap_or(FOREVER)
    }

    /// Why an authority must be made; never while a change of authorities is under way.
    fn authority(&self, source: &Source, kept: Option<&StoredCertificate>) -> Option<String> {
        let Source::Authority(Authority { begins, ends, renewal, .. }) = source else {
            return Some("there is none yet".into());
        };
        let is_at_rest = kept.is_some_and(|kept| kept.authority == source.id() && kept.trust == source.trust());
        if !is_at_rest {
            return None;
        }
        if self.config.renewal.is_some() && self.config.renewal != *renewal {
            return Some("spec.tls.renewal asks for it".into());
        }
        is_old(*begins, *ends, self.config.authority_lifetime, self.now).map(str::to_owned)
    }

    /// Why another certificate must be made.
    fn leaf(&self, source: &Source, leaf: Option<&Leaf>) -> Option<&'static str> {
        let Some(leaf) = leaf else { return Some("it could not be read") };
        match source {
            Source::Given { leaf: user_provided, .. } => {
                (*user_provided != leaf.id).then_some("the given one has changed")
            }
            Source::Authority(authority) => {
                if leaf.names != self.config.names.iter().cloned().collect() {
                    return Some("servers have other names");
                }
                // Another one could not be valid for longer than its authority, either.
                is_old(leaf.begins, leaf.ends, self.lifetime(), self.now).filter(|_| leaf.ends < authority.ends)
            }
            Source::None | Source::Unusable(_) => None,
        }
    }
}

fn is_old(begins: Timestamp, ends: Timestamp, lifetime: SignedDuration, now: Timestamp) -> Option<&'static str> {
    let life = ends.duration_since(begins);
    if now >= begins + life * 2 / 3 {
        return Some("two thirds of its lifetime are over");
    }
    (life > lifetime + SLACK).then_some("it is valid for longer than the spec asks")
}
