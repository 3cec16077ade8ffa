//! Secrets with certificates, of which only the names matter here, and processes that trust what they have loaded.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use causeway_api::redis::Tls;
use causeway_api::{Duration, Redis};
use causeway_databases::ChildAction;
use causeway_databases::tls::RotationStep;
use causeway_databases::tls::facts::{Authority, Leaf, Source, StoredCertificate, Version};
use causeway_databases::tls::write::Certify;
use causeway_runtime::Health;

use super::Simulation;
use super::story::Mishap;
use crate::action::Action;
use crate::facts::Certificates;
use crate::fixtures::redis;
use crate::names::ordinal_of;
use crate::tls::config;

/// The authority that signed the certificate.
fn signer(kept: &StoredCertificate) -> Option<&str> {
    kept.leaf.as_ref()?.id.split_once(" of ").map(|(_, authority)| authority)
}

/// Makes what is due, unless the Secret is another than it was.
pub fn certify(known: &mut Certificates, object: &Redis, certify: &Certify, now: Timestamp) -> Result<(), ()> {
    let of = |kept: &Option<StoredCertificate>| kept.as_ref().map(|kept| kept.version.clone());
    let before = match certify.need {
        RotationStep::Authority => known.authority.clone(),
        RotationStep::Clients | RotationStep::TrustOfClients => of(&known.for_clients),
        RotationStep::Trust | RotationStep::Leaf | RotationStep::Forget => of(&known.nodes.kept),
    };
    let source = known.nodes.source.clone();
    if before != certify.version || source.id() != certify.source {
        return Err(());
    }
    let number = before.map_or(0, |version| version.version.parse::<u32>().unwrap()) + 1;
    let version = Version { uid: "uid".into(), version: number.to_string() };
    let tls = object.spec.tls.clone().unwrap();
    let ends = |lifetime: &Duration| now + SignedDuration::from_secs(lifetime.signed_seconds());
    let trust = source.trust();
    let leaf = trust.first().map(|authority| Leaf {
        id: format!("{number} of {authority}"),
        begins: now,
        ends: ends(&tls.certificate_duration),
        names: config(object).names.into_iter().collect(),
    });
    let kept = known.nodes.kept.clone().unwrap_or_default();
    match certify.need {
        RotationStep::Authority => {
            let (id, begins, ends) = (format!("ca-{number}"), now, ends(&tls.authority_duration));
            known.nodes.source = Source::Authority(Authority { id, begins, ends, renewal: tls.renewal });
            known.authority = Some(version);
        }
        RotationStep::Trust => {
            known.nodes.kept = Some(StoredCertificate { version, trust: &kept.trust | &trust, ..kept });
        }
        RotationStep::Leaf => {
            let trust = &kept.trust | &trust;
            known.nodes.kept = Some(StoredCertificate { version, trust, authority: source.id(), leaf, written: None });
        }
        RotationStep::Forget => known.nodes.kept = Some(StoredCertificate { version, trust, ..kept }),
        RotationStep::TrustOfClients => {
            let clients = known.for_clients.clone().unwrap();
            known.for_clients = Some(StoredCertificate { version, trust: kept.trust, ..clients });
        }
        RotationStep::Clients => {
            let (trust, authority, written) = (kept.trust, source.id(), Some(now));
            known.for_clients = Some(StoredCertificate { version, trust, authority, leaf, written });
        }
    }
    Ok(())
}

impl Simulation {
    /// Asserts that no process and no client ever meets a certificate that it does not trust.
    pub fn assert_trusted(&self) {
        let processes = || self.kubernetes.set.pods.values().filter_map(|pod| pod.process.as_ref()?.files.as_ref());
        let clients = self.kubernetes.certificates.for_clients.as_ref();
        for shown in processes().filter_map(signer) {
            let trusts = |kept: &StoredCertificate| kept.trust.contains(shown);
            assert!(processes().all(trusts), "a node does not trust {shown}: {:#?}", self.journal.last());
            assert!(clients.is_none_or(trusts), "clients do not trust {shown}: {:#?}", self.journal.last());
        }
    }

    fn contents(&self) -> BTreeSet<Option<String>> {
        let files = self.kubernetes.set.pods.values().map(|pod| pod.process.as_ref().unwrap().files.clone());
        files.map(|kept| kept.and_then(|kept| kept.content())).collect()
    }
}

fn with_tls(replicas: i32) -> Simulation {
    let mut object = redis(replicas);
    object.spec.tls = Some(Tls::default());
    Simulation::settled(object)
}

/// Asks for something else of the certificates, and dies after so many actions of the first reconcile.
fn renews(mut simulation: Simulation, edit: fn(&mut Tls), dies_after: Option<usize>) -> Simulation {
    simulation.journal.clear();
    let before = simulation.contents();
    edit(simulation.object.spec.tls.as_mut().unwrap());
    simulation.reconcile(&Mishap { dies_after, ..Mishap::default() });
    simulation.settle();
    simulation.assert_settled();
    let disturbs = |action: &&Action| {
        matches!(
            action,
            Action::Child(ChildAction::DeletePod { .. }) | Action::HandOver { .. } | Action::Promote { .. }
        )
    };
    assert_eq!(simulation.journal.iter().find(disturbs), None);
    assert_eq!(simulation.contents().len(), 1, "all have the same");
    assert!(simulation.contents().is_disjoint(&before), "and another than before");
    simulation
}

#[test]
fn a_set_with_tls_settles() {
    let simulation = with_tls(2);
    simulation.assert_settled();
    assert!(simulation.contents().iter().all(Option::is_some) && simulation.contents().len() == 1);
    let connection = simulation.object.status.as_ref().unwrap().connection.clone().unwrap();
    assert_eq!(
        (connection.scheme.as_deref(), connection.authority_secret_name.as_deref()),
        (Some("rediss"), Some("cache-client-tls"))
    );
}

#[test]
fn certificates_are_renewed_in_running_processes_wherever_the_operator_dies() {
    for dies_after in (0..8).map(Some).chain([None]) {
        renews(with_tls(2), |tls| tls.certificate_duration = Duration::from_hours(24), dies_after);
    }
}

#[test]
fn an_authority_is_replaced_without_mistrust_despite_crashes() {
    for dies_after in (0..12).map(Some).chain([None]) {
        let simulation = renews(with_tls(2), |tls| tls.renewal = Some("now".into()), dies_after);
        let kept = simulation.kubernetes.certificates.nodes.kept.as_ref().unwrap();
        assert_eq!(kept.trust, simulation.kubernetes.certificates.nodes.source.trust(), "the old one is forgotten");
    }
}

#[test]
fn expired_certificates_are_renewed_before_their_authority() {
    let mut simulation = with_tls(2);
    simulation.now = simulation.now.checked_add(SignedDuration::from_hours(91 * 24)).unwrap();
    let simulation = renews(simulation, |tls| tls.renewal = Some("now".into()), None);
    let need = |action: &Action| if let Action::Certify(certify) = action { Some(certify.need) } else { None };
    let first: Vec<RotationStep> = simulation.journal.iter().filter_map(need).take(3).collect();
    assert_eq!(first, [RotationStep::Leaf, RotationStep::Clients, RotationStep::Authority]);
}

#[test]
fn an_unusable_secret_stops_no_failover() {
    let mut simulation = with_tls(2);
    simulation.object.spec.tls.as_mut().unwrap().secret_name = Some("mine".into());
    simulation.kubernetes.certificates.nodes.source = Source::Unusable("spec.tls.secretName: mend it".into());
    simulation.settle();
    let text = |simulation: &Simulation| matches!(&simulation.health, Some(Health::Stalled(cause)) if cause.message.contains("mend it"));
    assert!(text(&simulation), "{:?}", simulation.health);
    let before = simulation.object.status.as_ref().unwrap().master.clone();
    let master = before.as_ref().and_then(|name| ordinal_of(&simulation.object, name)).unwrap();
    simulation.kubernetes.kill(master);
    simulation.settle();
    assert!(text(&simulation), "{:?}", simulation.health);
    assert_ne!(simulation.object.status.as_ref().unwrap().master, before, "another took over");
}
