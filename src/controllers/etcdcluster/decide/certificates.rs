//! Which certificate is due, and why.
//!
//! Nobody ever meets a certificate that it does not trust: another source is trusted first; when all members were started
//! since, they get certificates from it; and when all were started with those, the old one is forgotten.

use jiff::{SignedDuration, Timestamp};

use super::super::action::Action;
use super::super::tls::facts::{Authority, Kept, Leaf, SideFacts, Source, Version};
use super::super::tls::write::{Certify, Due, secret_of};
use super::super::tls::{Mode, Side};
use super::{Step, View};
use crate::runtime::Part;

/// So much longer than asked for a certificate may be valid: it begins a little before it is made.
const SLACK: SignedDuration = SignedDuration::from_mins(10);

/// The next certificate that is due. Those in use are renewed whatever the spec says.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    let due = |side: Side| side_step(view, side, accepted);
    due(Side::Peer).or_else(|| trust_of_clients(view)).or_else(|| due(Side::Client)).or_else(|| clients(view, accepted))
}

/// Why the Secrets that the spec names cannot be used, or what cannot be made anew.
pub fn complaint(view: &View<'_>) -> Option<(&'static str, String)> {
    Side::ALL.into_iter().find_map(|side| {
        let SideFacts { source, kept } = view.observed.certificates.side(side);
        match source {
            Source::Unusable(why) if side.wanted(view.object) != Mode::Plain => Some(("SecretInvalid", why.clone())),
            _ if kept.is_none() && side == Side::Peer && is_lost(view, source) => {
                let told = format!(
                    "Secret {} is gone, and nothing is left that the members trust: they run on, but one that starts again \
                     cannot join them. Restore the Secret from a backup",
                    side.secret(view.object)
                );
                Some(("SecretLost", told))
            }
            _ => None,
        }
    })
}

/// Whether members run that would not trust what could be made now.
fn is_lost(view: &View<'_>, source: &Source) -> bool {
    in_use(view, Side::Peer) && (*source == Source::None || !all_started(view, Side::Peer, &source.label()))
}

/// Until when the members' certificates are valid. The condition changes with them, and not with the time.
pub fn part(view: &View<'_>) -> Part {
    let kept = |side: Side| {
        let leaf = view.observed.certificates.side(side).kept.as_ref()?.leaf.as_ref()?;
        let is_used = in_use(view, side) || side.wanted(view.object) != Mode::Plain;
        is_used.then_some((side, leaf.ends))
    };
    let all: Vec<(Side, Timestamp)> = Side::ALL.into_iter().filter_map(kept).collect();
    let expired = all.iter().any(|(_, ends)| *ends <= view.now);
    let until = all.iter().map(|(side, ends)| format!("the {} side until {ends}", side.word()));
    Part {
        type_: "CertificatesValid",
        status: (!all.is_empty()).then_some(!expired),
        reason: if expired { "Expired" } else { "Valid" },
        message: format!("certificates are valid for {}", until.collect::<Vec<_>>().join(", for ")),
    }
}

/// Whether members have files for that side.
fn in_use(view: &View<'_>, side: Side) -> bool {
    view.observed.pods.values().any(|pod| pod.transport.side(side).mode.has_files())
}

fn side_step(view: &View<'_>, side: Side, accepted: bool) -> Option<Step> {
    let wanted = accepted && side.wanted(view.object) != Mode::Plain;
    let SideFacts { source, kept } = view.observed.certificates.side(side);
    if matches!(source, Source::Unusable(_)) || !(wanted || in_use(view, side)) {
        return None;
    }
    let given = view.object.spec.tls.as_ref().and_then(|tls| side.given(tls)).is_some();
    if wanted
        && !given
        && let Some(why) = authority(view, source, kept.as_ref())
    {
        return Some(certify(view, Due::Authority(side), view.observed.certificates.authorities.clone(), why));
    }
    if *source == Source::None {
        return None;
    }
    let Some(kept) = kept else {
        return wanted.then(|| certify(view, Due::Leaf(side), None, "there is none yet".into()));
    };
    let (trust, is_from) = (source.trust(), kept.authority == source.id());
    // While TLS is turned off nobody changes sides.
    if !wanted && !is_from {
        return None;
    }
    let version = || Some(kept.version.clone());
    if !kept.trust.is_superset(&trust) {
        let why = "members are to trust another authority";
        return Some(certify(view, Due::Trust(side), version(), why.into()));
    }
    if !is_from {
        let why = "all members trust another authority";
        return all_started(view, side, &kept.label()).then(|| certify(view, Due::Leaf(side), version(), why.into()));
    }
    if let Some(why) = leaf(view, side, source, kept.leaf.as_ref()) {
        return Some(certify(view, Due::Leaf(side), version(), why.into()));
    }
    let why = "nobody needs the old authority any more";
    (wanted && kept.trust != trust && all_started(view, side, &kept.label()))
        .then(|| certify(view, Due::Forget(side), version(), why.into()))
}

/// Why an authority must be made; never while a change of authorities is under way.
fn authority(view: &View<'_>, source: &Source, kept: Option<&Kept>) -> Option<String> {
    let Source::Authority(Authority { begins, ends, renewal, .. }) = source else {
        return Some("there is none yet".into());
    };
    let tls = view.object.spec.tls.as_ref()?;
    let is_at_rest = kept.is_some_and(|kept| kept.authority == source.id() && kept.trust == source.trust());
    if !is_at_rest {
        return None;
    }
    if tls.renewal.is_some() && tls.renewal != *renewal {
        return Some("spec.tls.renewal asks for it".into());
    }
    is_old(*begins, *ends, tls.authority_hours, view.now).map(str::to_owned)
}

/// Why another certificate must be made.
fn leaf(view: &View<'_>, side: Side, source: &Source, leaf: Option<&Leaf>) -> Option<&'static str> {
    let Some(leaf) = leaf else { return Some("it could not be read") };
    match source {
        Source::Given { leaf: given, .. } => (*given != leaf.id).then_some("the given one has changed"),
        Source::Authority(authority) => {
            let hours = view.object.spec.tls.as_ref().map_or(i32::MAX, |tls| tls.certificate_hours);
            let names = side.names(view.object).into_iter().collect();
            if leaf.names != names {
                return Some("members have other names");
            }
            // Another one could not be valid for longer than its authority, either.
            is_old(leaf.begins, leaf.ends, hours, view.now).filter(|_| leaf.ends < authority.ends)
        }
        Source::None | Source::Unusable(_) => None,
    }
}

fn is_old(begins: Timestamp, ends: Timestamp, hours: i32, now: Timestamp) -> Option<&'static str> {
    let life = ends.duration_since(begins);
    if now >= begins + life * 2 / 3 {
        return Some("two thirds of its lifetime are over");
    }
    (life > SignedDuration::from_hours(hours.into()) + SLACK).then_some("it is valid for longer than the spec asks")
}

/// Whether all members were started with the files of that label.
fn all_started(view: &View<'_>, side: Side, label: &str) -> bool {
    let mut channels = view.observed.pods.values().map(|pod| pod.transport.side(side));
    channels.all(|channel| !channel.mode.has_files() || channel.trust.as_deref() == Some(label))
}

/// Whom the user's clients trust: a new authority before members show what it signed.
fn trust_of_clients(view: &View<'_>) -> Option<Step> {
    let certificates = &view.observed.certificates;
    let (server, kept) = (certificates.client.kept.as_ref()?, certificates.for_clients.as_ref()?);
    let why = "clients are to trust whom members trust";
    (kept.trust != server.trust).then(|| certify(view, Due::TrustOfClients, Some(kept.version.clone()), why.into()))
}

/// What the user's clients show.
fn clients(view: &View<'_>, accepted: bool) -> Option<Step> {
    let tls = view.object.spec.tls.as_ref()?;
    if !accepted || tls.client.is_none() || Side::Client.given(tls).is_some() {
        return None;
    }
    let SideFacts { source, kept } = view.observed.certificates.side(Side::Client);
    let (Source::Authority(_), Some(server)) = (source, kept) else { return None };
    let due = |version: Option<Version>, why: &str| Some(certify(view, Due::Clients, version, why.to_owned()));
    let Some(kept) = &view.observed.certificates.for_clients else { return due(None, "there is none yet") };
    let version = Some(kept.version.clone());
    let signed_by_the_same = server.authority == source.id();
    if signed_by_the_same && kept.authority != server.authority {
        return due(version, "members trust another authority");
    }
    let Some(leaf) = &kept.leaf else { return due(version, "it could not be read") };
    let why = is_old(leaf.begins, leaf.ends, tls.certificate_hours, view.now).filter(|_| signed_by_the_same)?;
    due(version, why)
}

fn certify(view: &View<'_>, due: Due, version: Option<Version>, why: String) -> Step {
    let side = match due {
        Due::Authority(side) | Due::Trust(side) | Due::Leaf(side) | Due::Forget(side) => side,
        Due::Clients | Due::TrustOfClients => Side::Client,
    };
    let source = view.observed.certificates.side(side).source.id();
    let told = format!("certificates of the {} side: {why}", side.word());
    let action = Action::Certify(Certify { secret: secret_of(view.object, due), version, source, due, why });
    Step::act(vec![action], "IssuingCertificates", told)
}
