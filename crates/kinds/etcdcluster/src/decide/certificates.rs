//! Which certificate is due, on which side. Each step of a change of authorities waits until all members have been
//! restarted since the one before.

use std::time::Duration;

use jiff::Timestamp;

use causeway_databases::tls::rotation::Situation;
use causeway_databases::tls::write::Certify;
use causeway_databases::tls::{CertificateConfig, RotationStep};
use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::super::action::Action;
use super::super::tls::facts::{SideFacts, Source, StoredCertificate};
use super::super::tls::{Mode, Side};
use super::{Step, View};

/// The next certificate that is due. Those in use are renewed whatever the spec says.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    of_peers(view, accepted).or_else(|| trust_of_clients(view)).or_else(|| of_clients(view, accepted))
}

/// Explains why the Secrets that the spec names cannot be used, or why a Secret that is gone cannot be replaced.
pub fn complaint(view: &View<'_>) -> Option<(&'static str, String)> {
    Side::ALL.into_iter().find_map(|side| {
        let SideFacts { source, kept } = view.observed.certificates.side(side);
        match source {
            Source::Unusable(why) if side.wanted_mode(view.object) != Mode::Plain => Some(("SecretInvalid", why.clone())),
            _ if kept.is_none() && side == Side::Peer && is_lost(view, source) => {
                let text = format!(
                    "Secret {} is gone, and nothing is left that the members trust: they run on, but one that starts again \
                     cannot join them. Restore the Secret from a backup",
                    side.secret(view.object)
                );
                Some(("SecretLost", text))
            }
            _ => None,
        }
    })
}

/// Reports whether members run that would not trust a certificate that is made now.
fn is_lost(view: &View<'_>, source: &Source) -> bool {
    in_use(view, Side::Peer) && (*source == Source::None || !all_started(view, Side::Peer, &source.label()))
}

/// Until when the members' certificates are valid. The message names points in time, so that it changes only with the
/// certificates.
pub fn part(view: &View<'_>) -> ExtraCondition {
    let kept = |side: Side| {
        let leaf = view.observed.certificates.side(side).kept.as_ref()?.leaf.as_ref()?;
        let is_used = in_use(view, side) || side.wanted_mode(view.object) != Mode::Plain;
        is_used.then_some((side, leaf.ends))
    };
    let all: Vec<(Side, Timestamp)> = Side::ALL.into_iter().filter_map(kept).collect();
    let expired = all.iter().any(|(_, ends)| *ends <= view.now);
    let until = all.iter().map(|(side, ends)| format!("the {} side until {ends}", side.name()));
    ExtraCondition {
        type_: "CertificatesValid",
        status: if all.is_empty() { ConditionStatus::Absent } else { (!expired).into() },
        reason: if expired { "Expired" } else { "Valid" },
        message: format!("certificates are valid for {}", until.collect::<Vec<_>>().join(", for ")),
    }
}

/// Reports whether members have files for that side.
fn in_use(view: &View<'_>, side: Side) -> bool {
    view.observed.set.pods.values().any(|pod| pod.own.transport.side(side).mode.has_files())
}

fn of_peers(view: &View<'_>, accepted: bool) -> Option<Step> {
    let config = Side::Peer.config(view.object);
    let due = situation(view, Side::Peer, &config, accepted).due_step()?;
    Some(certify(view, Side::Peer, due))
}

fn situation<'a>(view: &'a View<'_>, side: Side, names: &'a CertificateConfig, accepted: bool) -> Situation<'a> {
    let facts = view.observed.certificates.side(side);
    let label = facts.kept.as_ref().map(StoredCertificate::label);
    Situation {
        config: names,
        facts,
        wanted: accepted && side.wanted_mode(view.object) != Mode::Plain,
        in_use: in_use(view, side),
        all_have: label.is_some_and(|label| all_started(view, side, &label)),
        clients_lag: side == Side::Client && unread_for(view).is_some(),
        now: view.now,
    }
}

/// Returns for how long the user's clients may still have what was in their Secret before.
pub fn unread_for(view: &View<'_>) -> Option<Duration> {
    let for_clients = view.observed.certificates.for_clients.as_ref()?;
    for_clients.unread_for(view.observed.set.rules.clients_delay, view.now)
}

/// Reports whether all members were started with the files of that label.
fn all_started(view: &View<'_>, side: Side, label: &str) -> bool {
    let mut channels = view.pods().map(|pod| pod.own.transport.side(side));
    channels.all(|channel| !channel.mode.has_files() || channel.trust.as_deref() == Some(label))
}

/// Updates the authorities that the user's clients trust: they get a new authority before members present a certificate that it
/// signed.
fn trust_of_clients(view: &View<'_>) -> Option<Step> {
    let config = Side::Client.config(view.object);
    let due = situation(view, Side::Client, &config, true)
        .trust_of_clients(view.observed.certificates.for_clients.as_ref())?;
    Some(certify(view, Side::Client, due))
}

/// The certificates that members present to clients, and the one that the user's clients present.
fn of_clients(view: &View<'_>, accepted: bool) -> Option<Step> {
    let config = Side::Client.config(view.object);
    let for_clients = view.observed.certificates.for_clients.as_ref();
    let due = situation(view, Side::Client, &config, accepted).due_of_all(for_clients)?;
    Some(certify(view, Side::Client, due))
}

fn certify(view: &View<'_>, side: Side, (need, why): (RotationStep, String)) -> Step {
    let certificates = &view.observed.certificates;
    let SideFacts { source, kept } = certificates.side(side);
    let version = match need {
        RotationStep::Authority => certificates.authorities.clone(),
        RotationStep::Trust | RotationStep::Leaf | RotationStep::Forget => {
            kept.as_ref().map(|kept| kept.version.clone())
        }
        RotationStep::Clients | RotationStep::TrustOfClients => {
            certificates.for_clients.as_ref().map(|kept| kept.version.clone())
        }
    };
    let text = format!("certificates of the {} side: {why}", side.name());
    let secret = side.config(view.object).secret_of(need);
    let action = Action::Certify(side, Certify { secret, version, source: source.id(), need, why });
    Step::act(vec![action], "IssuingCertificates", text)
}
