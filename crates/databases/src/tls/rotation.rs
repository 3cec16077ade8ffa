//! Which certificate is due, and why. Pure.
//!
//! No process and no client ever meets a certificate that it does not trust. First, processes and clients trust another
//! source, too. When all have that, they get certificates from it. When all have those, they stop trusting the old source.
//! A process tells what it has loaded. A client is given time: the kubelet writes a changed Secret into the files of a pod
//! after a minute or two.
//! <https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets-as-files-from-a-pod>

use jiff::{SignedDuration, Timestamp};

use super::facts::{Authority, SideFacts, Source, StoredCertificate};
use super::{CertificateConfig, RotationStep};

/// No certificate is valid for longer.
const FOREVER: SignedDuration = SignedDuration::from_hours(24 * 365 * 1000);
/// How much longer than asked for a certificate may be valid: it begins a little before it is made.
const SLACK: SignedDuration = SignedDuration::from_mins(10);

/// Certificates as they are, and what their configuration asks for.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about certificates")]
pub struct Situation<'a> {
    pub config: &'a CertificateConfig,
    pub facts: &'a SideFacts,
    /// The spec asks for TLS there, and can be accepted.
    pub wanted: bool,
    /// Processes have files of this side.
    pub in_use: bool,
    /// All processes have the files that are kept.
    pub all_have: bool,
    /// The user's clients may still have the files that were kept before.
    pub clients_lag: bool,
    pub now: Timestamp,
}

/// Something that is due, and why.
pub type Due = (RotationStep, String);

impl Situation<'_> {
    /// Returns the step that is due for the processes. Certificates in use are renewed whatever the spec says.
    pub fn due_step(&self) -> Option<Due> {
        let SideFacts { source, kept } = self.facts;
        if matches!(source, Source::Unusable(_)) || !(self.wanted || self.in_use) {
            return None;
        }
        // Another authority overwrites the key of this one. What this one is to sign comes first: otherwise no process whose
        // certificate has ended could be reached, or restarted to trust the other authority.
        if let Some(why) = kept.as_ref().and_then(|kept| self.leaf(source, kept)) {
            return Some((RotationStep::Leaf, why.to_owned()));
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
        let all_have = self.all_have && !self.clients_lag;
        if !is_from {
            return if all_have { due(RotationStep::Leaf, "all trust another authority") } else { None };
        }
        let is_left = self.wanted && kept.trust != trust && all_have;
        if is_left { due(RotationStep::Forget, "no process needs the old authority any more") } else { None }
    }

    /// Returns the step that is due for the processes, then for the user's clients. Their certificate, too, comes before
    /// another authority, and before processes stop trusting the one that it came from.
    pub fn due_of_all(&self, for_clients: Option<&StoredCertificate>) -> Option<Due> {
        match self.due_step() {
            due @ (None | Some((RotationStep::Authority | RotationStep::Forget, _))) => {
                self.clients(for_clients).or(due)
            }
            due => due,
        }
    }

    /// Returns the step for the authorities that the user's clients trust: they get a new authority before processes present a
    /// certificate that it signed.
    pub fn trust_of_clients(&self, for_clients: Option<&StoredCertificate>) -> Option<Due> {
        let (server, kept) = (self.facts.kept.as_ref()?, for_clients?);
        let why = "clients' trust bundle lacks an authority that the servers trust";
        (kept.trust != server.trust).then(|| (RotationStep::TrustOfClients, why.into()))
    }

    /// The certificate that the user's clients present.
    fn clients(&self, for_clients: Option<&StoredCertificate>) -> Option<Due> {
        if !self.wanted || self.config.user_provided.is_some() {
            return None;
        }
        let SideFacts { source, kept } = self.facts;
        let (Source::Authority(authority), Some(server)) = (source, kept) else { return None };
        let due = |why: &str| Some((RotationStep::Clients, why.to_owned()));
        let Some(kept) = for_clients else { return due("there is none yet") };
        let signed_by_the_same = server.authority == source.id();
        if signed_by_the_same && kept.authority != server.authority {
            return due("servers trust another authority");
        }
        let Some(leaf) = &kept.leaf else { return due("it could not be read") };
        let why = is_old(leaf.begins, leaf.ends, self.lifetime(), self.now);
        due(why.filter(|_| signed_by_the_same && leaf.ends < authority.ends)?)
    }

    /// The lifetime that the spec asks for; if it does not say, none is too long.
    fn lifetime(&self) -> SignedDuration {
        self.config.certificate_lifetime.unwrap_or(FOREVER)
    }

    /// Explains why an authority must be made; `None` while a change of authorities is under way.
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

    /// Explains why another certificate must be made from the source that the one before came from.
    fn leaf(&self, source: &Source, kept: &StoredCertificate) -> Option<&'static str> {
        let is_from = kept.authority == source.id() && kept.trust.is_superset(&source.trust());
        if *source == Source::None || !is_from {
            return None;
        }
        let Some(leaf) = &kept.leaf else { return Some("it could not be read") };
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::facts::Leaf;
    use super::*;

    fn day(days: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * days)
    }

    /// Returns the step that is due on a day, for certificates of day 0 that end on that day, from an authority of ten days
    /// that the spec wants replaced.
    fn due_on(today: i64, ends: i64) -> Option<RotationStep> {
        let config = CertificateConfig {
            authority_lifetime: SignedDuration::from_hours(24 * 10),
            renewal: Some("new".into()),
            ..CertificateConfig::default()
        };
        let authority = Authority { id: "ca".into(), begins: day(0), ends: day(10), renewal: None };
        let source = Source::Authority(authority);
        let leaf = Leaf { id: "leaf".into(), begins: day(0), ends: day(ends), names: BTreeSet::new() };
        let (trust, authority) = (source.trust(), source.id());
        let kept = StoredCertificate { trust, authority, leaf: Some(leaf), ..StoredCertificate::default() };
        let facts = SideFacts { source, kept: Some(kept.clone()) };
        let (config, facts, now) = (&config, &facts, day(today));
        let situation =
            Situation { config, facts, wanted: true, in_use: true, all_have: true, clients_lag: false, now };
        let of_servers = situation.due_step().map(|(need, _)| need);
        let mut fresh = facts.clone();
        fresh.kept.as_mut().unwrap().leaf.as_mut().unwrap().ends = day(1000);
        let situation = Situation { facts: &fresh, ..situation };
        let of_clients = situation.due_of_all(Some(&kept)).map(|(need, _)| need);
        let same = of_servers.map(|need| if need == RotationStep::Leaf { RotationStep::Clients } else { need });
        assert_eq!(of_clients, same);
        of_servers
    }

    /// A change from one authority to another, with clients that take their time.
    #[test]
    fn clients_have_time_to_read_each_step_of_a_renewal() {
        let named = |id: &str| BTreeSet::from([id.to_owned()]);
        let authority = |id: &str| Authority { id: id.into(), begins: day(0), ends: day(1000), renewal: None };
        let (old, new) = (Source::Authority(authority("old")), Source::Authority(authority("new")));
        let leaf = |id: &str| Some(Leaf { id: id.into(), begins: day(0), ends: day(900), names: BTreeSet::new() });
        let stored = |trust: BTreeSet<String>, from: &Source| {
            let (id, authority) = (from.id(), from.id());
            StoredCertificate { trust, authority, leaf: leaf(&id), ..StoredCertificate::default() }
        };
        let both = &named("old") | &named("new");
        let config = CertificateConfig { authority_lifetime: FOREVER, ..CertificateConfig::default() };
        let next = |servers: &StoredCertificate, clients: &StoredCertificate, clients_lag| {
            let facts = SideFacts { source: new.clone(), kept: Some(servers.clone()) };
            let (config, facts, now) = (&config, &facts, day(1));
            let situation = Situation { config, facts, wanted: true, in_use: true, all_have: true, clients_lag, now };
            let due = situation.trust_of_clients(Some(clients)).or_else(|| situation.due_of_all(Some(clients)));
            due.map(|(need, _)| need)
        };
        let (servers, clients) = (stored(both.clone(), &old), stored(both.clone(), &old));
        assert_eq!(next(&servers, &clients, true), None, "clients may not trust the new one");
        assert_eq!(next(&servers, &clients, false), Some(RotationStep::Leaf));
        let servers = stored(both.clone(), &new);
        assert_eq!(next(&servers, &clients, false), Some(RotationStep::Clients), "before the old one is forgotten");
        let clients = stored(both, &new);
        assert_eq!(next(&servers, &clients, true), None, "clients may present the old one");
        assert_eq!(next(&servers, &clients, false), Some(RotationStep::Forget));
    }

    #[test]
    fn an_authority_signs_before_it_is_replaced() {
        assert_eq!(due_on(1, 3), Some(RotationStep::Authority), "nothing else is due");
        assert_eq!(due_on(2, 3), Some(RotationStep::Leaf));
        assert_eq!(due_on(5, 3), Some(RotationStep::Leaf), "it has ended");
    }

    #[test]
    fn an_authority_near_its_end_is_replaced() {
        assert_eq!(due_on(9, 10), Some(RotationStep::Authority));
        assert_eq!(due_on(12, 10), Some(RotationStep::Authority));
    }
}
