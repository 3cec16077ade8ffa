//! Reports whether new clients get in, and what to do about it if not. Clients that are in already notice nothing.

use kube::ResourceExt;

use causeway_databases::redis::{Admission, Writes};
use causeway_runtime::Health;

use super::super::facts::{NodePod, Pod};
use super::{RETRY_INTERVAL, Step, View};

/// The error of Redis when it has as many clients as it may.
/// <https://github.com/redis/redis/blob/7.0/src/networking.c> (`acceptCommonHandler`)
const FULL: &str = "max number of clients reached";
/// Codes by which users and passwords are not those of the spec, or protected mode is on.
const CHANGED: [&str; 4] = ["NOAUTH", "WRONGPASS", "NOPERM", "DENIED"];

/// Reports whether the users of a process are not those of the spec: it refuses new clients, or the operator's own user.
pub fn users_changed(pod: &Pod) -> bool {
    let code = |words: &str| words.split(' ').next().is_some_and(|code| CHANGED.contains(&code));
    pod.own.detour || matches!(&pod.own.turned_away, Some(Admission::Refused(words)) if code(words))
}

/// The step, whose health says so if a node turns new clients away: then the object is not ready.
pub fn describe(view: &View<'_>, mut step: Step) -> Step {
    if view.before.failover.is_some() {
        return step;
    }
    let serves = |ordinal: i32| view.master() == Some(ordinal) || view.follows(ordinal);
    let mut closed = view.observed.set.pods.iter().filter(|(ordinal, pod)| serves(**ordinal) && !pod.terminating);
    // What a new client writes waits like the writes of all others: the cause is told with these.
    let waits = |pod: &Pod, admission: &Admission| {
        pod.own.writes == Some(Writes::Waiting) && matches!(admission, Admission::Ignored(_))
    };
    let refusal = |pod: &Pod| pod.own.turned_away.clone().filter(|admission| !waits(pod, admission));
    let Some(text) = closed.find_map(|(_, pod)| Some(words(view, pod, &refusal(pod)?))) else {
        return step;
    };
    match &step.health {
        Health::Ready(_) => {
            step.again = step.again.min(RETRY_INTERVAL);
            step.health = Health::progressing(REASON, text);
        }
        Health::Progressing(cause) if cause.reason == "Configuring" => step.health = Health::progressing(REASON, text),
        Health::Progressing(cause) => {
            step.health = Health::progressing(REASON, format!("{text}; {}", cause.message));
        }
        _ => {}
    }
    step
}

/// The condition's reason.
const REASON: &str = "ClientsRefused";

fn words(view: &View<'_>, pod: &Pod, admission: &Admission) -> String {
    let name = &pod.name;
    let limit = pod.info().and_then(|info| Some((info.clients, info.most_clients?)));
    match (admission, limit) {
        (Admission::Refused(words), limit) if words.contains(FULL) => full(name, limit),
        // With TLS, it closes the connection before it could say anything.
        (Admission::Ignored(_), Some((clients, most))) if clients >= most => full(name, limit),
        (Admission::Refused(words), _) if users_changed(pod) => format!(
            "{name} refuses new clients: {words}. Its users, its password or protected-mode were changed by hand; Causeway sets \
             them again as the spec has them. If that comes back, find out what changes them (CONFIG SET requirepass, ACL \
             SETUSER)"
        ),
        (Admission::Refused(words), _) if words.starts_with("TLS") => {
            format!(
                "{name} refuses new clients: {words}; the condition CertificatesValid says which certificates nodes have"
            )
        }
        (Admission::Refused(words), _) => format!("{name} refuses new clients: {words}; {}", restart(view, pod)),
        (Admission::Ignored(seen), _) => format!(
            "{name} {seen} when a new client comes, although it answers over connections that it had before: its port or bind may have \
             been changed by hand (CONFIG SET), its file descriptors may be used up, or a NetworkPolicy may be new (kubectl -n \
             {} get networkpolicy). {}",
            view.object.namespace().unwrap_or_default(),
            restart(view, pod)
        ),
        (Admission::Admitted, _) => String::new(),
    }
}

fn full(name: &str, limit: Option<(u64, u64)>) -> String {
    let numbers = limit.map_or_else(String::new, |(clients, most)| format!(" ({clients} of {most})"));
    format!(
        "{name} refuses new clients: {FULL}{numbers}. Close connections that applications do not need, set \
         spec.config.timeout to close idle ones, or raise spec.config.maxclients, which needs no restart"
    )
}

/// The command that starts a process again with the settings of the spec, and what that costs.
pub fn restart(view: &View<'_>, pod: &Pod) -> String {
    let cost = match () {
        () if !view.object.spec.storage.ephemeral => "its data stay on its volume",
        () if view.pods() > 1 => "its volume goes with it, so another node must have all data",
        () => "which deletes its data: save them first",
    };
    let namespace = view.object.namespace().unwrap_or_default();
    format!(
        "to start its process again with the spec's settings, kubectl -n {namespace} delete pod {} ({cost})",
        pod.name
    )
}
