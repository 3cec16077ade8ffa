//! Secrets with certificates, of which only the names matter here.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use causeway_api::EtcdCluster;
use causeway_databases::tls::RotationStep;
use causeway_databases::tls::facts::{Authority, Leaf};
use causeway_databases::tls::write::Certify;
use causeway_runtime::Class;

use crate::tls::Side;
use crate::tls::facts::{Certificates, SideFacts, Source, StoredCertificate, Version};

#[derive(Clone, Debug, Default)]
pub struct Secrets {
    pub facts: Certificates,
    /// The authorities that signed the certificates that members present.
    shown: BTreeMap<Side, BTreeSet<String>>,
    written: u64,
}

impl Secrets {
    /// The authorities that signed the certificate of that side.
    pub fn shown_authorities(&self, side: Side) -> &BTreeSet<String> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        self.shown.get(&side).unwrap_or(&NONE)
    }

    /// Makes what is due, unless the Secret has changed.
    pub fn certify(
        &mut self,
        object: &EtcdCluster,
        side: Side,
        certify: &Certify,
        now: Timestamp,
    ) -> Result<(), Class> {
        let SideFacts { source, kept } = self.facts.side(side).clone();
        let before = match certify.need {
            RotationStep::Authority => self.facts.authorities.clone(),
            RotationStep::Clients | RotationStep::TrustOfClients => {
                self.facts.for_clients.clone().map(|kept| kept.version)
            }
            _ => kept.clone().map(|kept| kept.version),
        };
        if before != certify.version || source.id() != certify.source {
            return Err(Class::Conflict);
        }
        self.written += 1;
        let version = Version { uid: "uid".into(), version: self.written.to_string() };
        let tls = object.spec.tls.clone();
        let ends = |lifetime: i64| now + SignedDuration::from_secs(lifetime);
        let leaf = Leaf {
            id: format!("leaf-{}", self.written),
            begins: now,
            ends: ends(tls.as_ref().map_or(3600, |tls| tls.certificate_duration.signed_seconds())),
            names: side.names(object).into_iter().collect(),
        };
        let kept = kept.unwrap_or_default();
        let new = match certify.need {
            RotationStep::Authority => {
                let authority = Authority {
                    id: format!("ca-{}", self.written),
                    begins: now,
                    ends: ends(tls.as_ref().map_or(3600, |tls| tls.authority_duration.signed_seconds())),
                    renewal: tls.and_then(|tls| tls.renewal),
                };
                self.side(side).source = Source::Authority(authority);
                self.facts.authorities = Some(version);
                return Ok(());
            }
            RotationStep::TrustOfClients => {
                let before = self.facts.for_clients.clone().unwrap();
                self.facts.for_clients = Some(StoredCertificate { version, trust: kept.trust, ..before });
                return Ok(());
            }
            RotationStep::Clients => {
                let (trust, authority) = (kept.trust, source.id());
                let (leaf, written) = (Some(leaf), Some(now));
                self.facts.for_clients = Some(StoredCertificate { version, trust, authority, leaf, written });
                return Ok(());
            }
            RotationStep::Trust => StoredCertificate { version, trust: &kept.trust | &source.trust(), ..kept },
            RotationStep::Leaf => {
                self.shown.insert(side, source.trust());
                let trust = &kept.trust | &source.trust();
                StoredCertificate { version, trust, authority: source.id(), leaf: Some(leaf), written: None }
            }
            RotationStep::Forget => StoredCertificate { version, trust: source.trust(), ..kept },
        };
        self.side(side).kept = Some(new);
        Ok(())
    }

    /// A user deletes a Secret of a side: the members', or that of their authority, but never both.
    pub fn lose(&mut self, side: Side, authority: bool, labels: &BTreeSet<String>) {
        let facts = self.side(side);
        let Some(kept) = &facts.kept else { return };
        if authority {
            facts.source = Source::None;
        } else if facts.source != Source::None
            && facts.source.label() == kept.label()
            && labels.iter().all(|label| *label == kept.label())
        {
            // While authorities change, only this Secret lists all that are trusted.
            facts.kept = None;
        }
    }

    fn side(&mut self, side: Side) -> &mut SideFacts {
        match side {
            Side::Peer => &mut self.facts.peer,
            Side::Client => &mut self.facts.client,
        }
    }
}
