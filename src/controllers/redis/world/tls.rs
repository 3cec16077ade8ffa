//! Secrets with certificates, of which only the names matter here, and processes that trust what they have loaded.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::World;
use super::story::Mishap;
use crate::api::Redis;
use crate::api::redis::Tls;
use crate::controllers::redis::action::Action;
use crate::controllers::redis::fixtures::redis;
use crate::controllers::redis::names::ordinal_of;
use crate::controllers::redis::tls::{Certificates, site};
use crate::controllers::tls::Need;
use crate::controllers::tls::facts::{Authority, Kept, Leaf, Source, Version};
use crate::controllers::tls::write::Certify;
use crate::runtime::Health;

/// The authority that signed what is shown.
fn signer(kept: &Kept) -> Option<&str> {
    kept.leaf.as_ref()?.id.split_once(" of ").map(|(_, authority)| authority)
}

/// Makes what is due, unless the Secret is another than it was.
pub fn certify(known: &mut Certificates, object: &Redis, certify: &Certify, now: Timestamp) -> Result<(), ()> {
    let of = |kept: &Option<Kept>| kept.as_ref().map(|kept| kept.version.clone());
    let before = match certify.need {
        Need::Authority => known.authority.clone(),
        Need::Clients | Need::TrustOfClients => of(&known.for_clients),
        Need::Trust | Need::Leaf | Need::Forget => of(&known.nodes.kept),
    };
    let source = known.nodes.source.clone();
    if before != certify.version || source.id() != certify.source {
        return Err(());
    }
    let number = before.map_or(0, |version| version.version.parse::<u32>().unwrap()) + 1;
    let version = Version { uid: "uid".into(), version: number.to_string() };
    let tls = object.spec.tls.clone().unwrap();
    let ends = |hours: i32| now + SignedDuration::from_hours(hours.into());
    let trust = source.trust();
    let leaf = trust.first().map(|authority| Leaf {
        id: format!("{number} of {authority}"),
        begins: now,
        ends: ends(tls.certificate_hours),
        names: site(object).names.into_iter().collect(),
    });
    let kept = known.nodes.kept.clone().unwrap_or_default();
    match certify.need {
        Need::Authority => {
            let (id, begins, ends) = (format!("ca-{number}"), now, ends(tls.authority_hours));
            known.nodes.source = Source::Authority(Authority { id, begins, ends, renewal: tls.renewal });
            known.authority = Some(version);
        }
        Need::Trust => known.nodes.kept = Some(Kept { version, trust: &kept.trust | &trust, ..kept }),
        Need::Leaf => {
            let trust = &kept.trust | &trust;
            known.nodes.kept = Some(Kept { version, trust, authority: source.id(), leaf });
        }
        Need::Forget => known.nodes.kept = Some(Kept { version, trust, ..kept }),
        Need::TrustOfClients => {
            let clients = known.for_clients.clone().unwrap();
            known.for_clients = Some(Kept { version, trust: kept.trust, ..clients });
        }
        Need::Clients => {
            known.for_clients = Some(Kept { version, trust: kept.trust, authority: source.id(), leaf });
        }
    }
    Ok(())
}

impl World {
    /// Nobody ever meets a certificate that it does not trust.
    pub fn assert_trusted(&self) {
        let processes = || self.kubernetes.pods.values().filter_map(|pod| pod.process.as_ref()?.files.as_ref());
        let clients = self.kubernetes.certificates.for_clients.as_ref();
        for shown in processes().filter_map(signer) {
            let trusts = |kept: &Kept| kept.trust.contains(shown);
            assert!(processes().all(trusts), "a node does not trust {shown}: {:#?}", self.journal.last());
            assert!(clients.is_none_or(trusts), "clients do not trust {shown}: {:#?}", self.journal.last());
        }
    }

    fn contents(&self) -> BTreeSet<Option<String>> {
        let files = self.kubernetes.pods.values().map(|pod| pod.process.as_ref().unwrap().files.clone());
        files.map(|kept| kept.and_then(|kept| kept.content())).collect()
    }
}

fn with_tls(replicas: i32) -> World {
    let mut object = redis(replicas);
    object.spec.tls = Some(Tls::default());
    World::settled(object)
}

/// Asks for something else of the certificates, and dies after so many actions of the first reconcile.
fn renews(mut world: World, edit: fn(&mut Tls), dies_after: Option<usize>) -> World {
    world.journal.clear();
    let before = world.contents();
    edit(world.object.spec.tls.as_mut().unwrap());
    world.reconcile(&Mishap { dies_after, ..Mishap::default() });
    world.settle();
    world.assert_settled();
    let disturbs = |action: &&Action| {
        matches!(action, Action::DeletePod { .. } | Action::HandOver { .. } | Action::Promote { .. })
    };
    assert_eq!(world.journal.iter().find(disturbs), None);
    assert_eq!(world.contents().len(), 1, "all have the same");
    assert!(world.contents().is_disjoint(&before), "and another than before");
    world
}

#[test]
fn a_set_with_tls_begins_with_certificates_and_comes_to_rest() {
    let world = with_tls(2);
    world.assert_settled();
    assert!(world.contents().iter().all(Option::is_some) && world.contents().len() == 1);
    let connection = world.object.status.as_ref().unwrap().connection.clone().unwrap();
    assert_eq!(
        (connection.scheme.as_deref(), connection.authority_secret.as_deref()),
        (Some("rediss"), Some("cache-client-tls"))
    );
}

#[test]
fn certificates_are_renewed_in_running_processes_wherever_the_operator_dies() {
    for dies_after in (0..8).map(Some).chain([None]) {
        renews(with_tls(2), |tls| tls.certificate_hours = 24, dies_after);
    }
}

#[test]
fn an_authority_is_replaced_without_a_moment_of_mistrust_wherever_the_operator_dies() {
    for dies_after in (0..12).map(Some).chain([None]) {
        let world = renews(with_tls(2), |tls| tls.renewal = Some("now".into()), dies_after);
        let kept = world.kubernetes.certificates.nodes.kept.as_ref().unwrap();
        assert_eq!(kept.trust, world.kubernetes.certificates.nodes.source.trust(), "the old one is forgotten");
    }
}

#[test]
fn a_secret_that_cannot_be_used_is_told_of_and_keeps_nobody_from_taking_over() {
    let mut world = with_tls(2);
    world.object.spec.tls.as_mut().unwrap().secret_name = Some("mine".into());
    world.kubernetes.certificates.nodes.source = Source::Unusable("spec.tls.secretName: mend it".into());
    world.settle();
    let told =
        |world: &World| matches!(&world.health, Some(Health::Stalled(cause)) if cause.message.contains("mend it"));
    assert!(told(&world), "{:?}", world.health);
    let before = world.object.status.as_ref().unwrap().master.clone();
    let master = before.as_ref().and_then(|name| ordinal_of(&world.object, name)).unwrap();
    world.kubernetes.kill(master);
    world.settle();
    assert!(told(&world), "{:?}", world.health);
    assert_ne!(world.object.status.as_ref().unwrap().master, before, "another took over");
}
