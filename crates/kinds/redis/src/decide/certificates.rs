//! Which certificate is due, which processes have not loaded it yet, and what the status says about certificates.

use std::time::Duration;

use jiff::Timestamp;

use causeway_databases::tls::facts::{Source, StoredCertificate};
use causeway_databases::tls::rotation::{Due, Situation};
use causeway_databases::tls::write::Certify;
use causeway_databases::tls::{CertificateConfig, RotationStep};
use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::super::action::Action;
use super::super::facts::{NodePod, Pod};
use super::super::{settings, tls};
use super::{Step, View, target};

/// Explains what is wrong with the certificates, with the field and the fix.
pub fn complaint(view: &View<'_>) -> Option<(&'static str, String)> {
    view.object.spec.tls.as_ref()?;
    let certificates = &view.observed.certificates;
    if certificates.denied {
        let text = "spec.tls needs Secrets: bind the ClusterRole causeway-database-secrets in this namespace to the operator \
                    (docs/redis.md), or make another Redis without spec.tls";
        return Some(("SecretsDenied", text.into()));
    }
    match &certificates.nodes.source {
        Source::Unusable(why) => Some(("SecretInvalid", why.clone())),
        _ => None,
    }
}

/// The next certificate that is due. What clients trust is changed before what nodes present.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    view.object.spec.tls.as_ref()?;
    let certificates = &view.observed.certificates;
    if certificates.denied {
        return None;
    }
    let config = tls::config(view.object);
    let (facts, for_clients) = (&certificates.nodes, certificates.for_clients.as_ref());
    let content = facts.kept.as_ref().and_then(StoredCertificate::content);
    let all_have = |content: String| view.observed.set.pods.values().all(|pod| tls::has_loaded(pod, &content));
    let situation = Situation {
        config: &config,
        facts,
        wanted: accepted,
        in_use: !view.observed.set.pods.is_empty(),
        all_have: content.is_some_and(all_have),
        clients_lag: unread_for(view).is_some(),
        now: view.now,
    };
    let due = situation.trust_of_clients(for_clients).or_else(|| situation.due_of_all(for_clients))?;
    Some(certify(view, &config, due))
}

/// Returns for how long the user's clients may still have what was in their Secret before.
pub fn unread_for(view: &View<'_>) -> Option<Duration> {
    let for_clients = view.observed.certificates.for_clients.as_ref()?;
    for_clients.unread_for(view.observed.set.rules.clients_delay, view.now)
}

fn certify(view: &View<'_>, config: &CertificateConfig, (need, why): Due) -> Step {
    let certificates = &view.observed.certificates;
    let version_of = |kept: &Option<StoredCertificate>| kept.as_ref().map(|kept| kept.version.clone());
    let version = match need {
        RotationStep::Authority => certificates.authority.clone(),
        RotationStep::Trust | RotationStep::Leaf | RotationStep::Forget => version_of(&certificates.nodes.kept),
        RotationStep::Clients | RotationStep::TrustOfClients => version_of(&certificates.for_clients),
    };
    let text = format!("certificates: {why}");
    let (secret, source) = (config.secret_of(need), certificates.nodes.source.id());
    Step::act(vec![Action::Certify(Certify { secret, version, source, need, why })], "IssuingCertificates", text)
}

/// Makes processes load the stored certificate if they have not yet. Those that do not answer load it when they start.
pub fn load(view: &View<'_>) -> Option<Step> {
    view.object.spec.tls.as_ref()?;
    let content = view.observed.certificates.nodes.kept.as_ref()?.content()?;
    let behind = |pod: &&Pod| !pod.terminating && !tls::has_loaded(pod, &content);
    let load = |pod: &Pod| {
        let info = pod.info().filter(|info| !info.loading)?;
        Some(Action::LoadCertificates {
            node: target(pod),
            settings: settings::certificates(&content),
            note: tls::note(&content, &info.run_id),
            content: content.clone(),
            renewed: pod.own.certificates.is_some(),
        })
    };
    let actions: Vec<Action> = view.observed.set.pods.values().filter(behind).filter_map(load).collect();
    (!actions.is_empty()).then(|| Step::act(actions, "LoadingCertificates", "nodes load their certificates"))
}

/// The condition that says until when the nodes' certificate is valid. It names the end rather than the time that is
/// left, so it does not change with every look.
pub fn part(view: &View<'_>) -> ExtraCondition {
    let leaf = view.observed.certificates.nodes.kept.as_ref().and_then(|kept| kept.leaf.as_ref());
    let ends: Option<Timestamp> = leaf.filter(|_| view.object.spec.tls.is_some()).map(|leaf| leaf.ends);
    let expired = ends.is_some_and(|ends| ends <= view.now);
    ExtraCondition {
        type_: "CertificatesValid",
        status: ends.map_or(ConditionStatus::Absent, |_| (!expired).into()),
        reason: if expired { "Expired" } else { "Valid" },
        message: ends.map_or_else(String::new, |ends| format!("the nodes' certificate is valid until {ends}")),
    }
}
