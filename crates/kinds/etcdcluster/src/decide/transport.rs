//! Which transport members use, and how it changes without a moment in which one of them cannot be reached.
//!
//! Peers have two ports. First, a rollout makes all members listen on both. Then the members' peer URLs are changed to the
//! other port, one by one. Finally, a rollout makes the members listen on that port alone. Clients have one port, which
//! takes both transports meanwhile. The stage is read from the members' URLs and the pods' labels.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::super::action::Action;
use super::super::names;
use super::super::tls::{Channel, Mode, Side, Transport};
use super::{Step, View, children};

/// The transport of pods that are made now.
pub fn transport(view: &View<'_>) -> Transport {
    let channel = |side: Side, mode: Mode| Channel { mode, trust: trust(view, side).filter(|_| mode.has_files()) };
    let peer = peer_mode(view);
    Transport { peer: channel(Side::Peer, peer), client: channel(Side::Client, client_mode(view, peer)) }
}

/// Label of the certificates that pods are to have: those in the Secret or, if it is gone, those in the pod template.
fn trust(view: &View<'_>, side: Side) -> Option<String> {
    let kept = view.observed.certificates.side(side).kept.as_ref();
    kept.map(super::super::tls::facts::StoredCertificate::label).or_else(|| label_of_set(view, side.trust_label()))
}

fn peer_mode(view: &View<'_>) -> Mode {
    let wanted = Side::Peer.wanted_mode(view.object);
    let settled = |urls: &[&String]| match wanted {
        Mode::Plain if urls.iter().all(|url| !names::is_https(url)) => Mode::Plain,
        Mode::Secure if urls.iter().all(|url| names::is_https(url)) => Mode::Secure,
        _ => Mode::Both,
    };
    if view.observed.quorum.is_some() {
        // A URL that another client set says nothing about the transport of the member.
        let ours = |(ordinal, member): (&i32, &&causeway_databases::etcd::Member)| {
            member
                .peer_urls
                .iter()
                .find(|url| names::ordinal_at(view.object, &[(*url).clone()]) == Some(*ordinal))
                .cloned()
        };
        let urls: Vec<String> = view.members.iter().filter_map(ours).collect();
        return settled(&urls.iter().collect::<Vec<_>>());
    }
    // Without a majority, the members' URLs are not known for certain: the transport stays as it is.
    if has_set(view) {
        return Mode::from_label(label_of_set(view, Side::Peer.mode_label()).as_deref());
    }
    match children::written_start(view) {
        Some(start) => settled(&start.members.iter().map(|(_, url)| url).collect::<Vec<_>>()),
        // Members of an earlier object, whose volumes are used again, may be reached either way.
        None if wanted == Mode::Secure && children::earlier_volumes(view).is_some() => Mode::Both,
        None => wanted,
    }
}

/// Both sides change in the same rollouts.
fn client_mode(view: &View<'_>, peer: Mode) -> Mode {
    if view.observed.quorum.is_none() && has_set(view) {
        return Mode::from_label(label_of_set(view, Side::Client.mode_label()).as_deref());
    }
    let any_pod = |mode: Mode| view.pods().any(|pod| pod.own.transport.client.mode == mode);
    match Side::Client.wanted_mode(view.object) {
        Mode::Secure if any_pod(Mode::Plain) => Mode::Both,
        Mode::Plain if any_pod(Mode::Secure) => Mode::Both,
        _ if peer == Mode::Both && any_pod(Mode::Both) => Mode::Both,
        wanted => wanted,
    }
}

fn has_set(view: &View<'_>) -> bool {
    view.observed.set.child("StatefulSet", &view.object.name_any()).is_some()
}

/// A label of the pods that the `StatefulSet` makes.
fn label_of_set(view: &View<'_>, label: &str) -> Option<String> {
    let set = view.observed.set.child("StatefulSet", &view.object.name_any())?;
    set.value["spec"]["template"]["metadata"]["labels"][label].as_str().map(str::to_owned)
}

/// Changes the peer URL of the next member. When this is called, all members are well.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    if !accepted || view.transport().peer.mode != Mode::Both {
        return None;
    }
    let by_tls = Side::Peer.wanted_mode(view.object) == Mode::Secure;
    let all_listen = view.pods().all(|pod| pod.own.transport.peer.mode == Mode::Both && !pod.terminating);
    let known = view.members.keys().all(|ordinal| view.observed.set.pods.contains_key(ordinal));
    let behind =
        |member: &&causeway_databases::etcd::Member| member.peer_urls.iter().any(|url| names::is_https(url) != by_tls);
    let left = view.members.values().copied().filter(behind).count();
    let (ordinal, member) = view.members.iter().find(|(_, member)| behind(member))?;
    let message = format!("{left} of {} members are to be reached by {}", view.members.len(), scheme(by_tls));
    if !all_listen || !known {
        return Some(Step::wait("ChangingTransport", message));
    }
    let action = Action::UpdatePeer {
        name: names::pod(view.object, *ordinal),
        id: member.id,
        peer_url: names::peer_url(view.object, *ordinal, by_tls),
        pods: view
            .observed
            .set
            .pods
            .values()
            .map(|pod| (pod.name.clone(), pod.uid.clone()))
            .collect::<BTreeMap<_, _>>(),
        via: view.via()?,
    };
    Some(Step::act(vec![action], "ChangingTransport", message))
}

fn scheme(by_tls: bool) -> &'static str {
    if by_tls { "https" } else { "http" }
}
