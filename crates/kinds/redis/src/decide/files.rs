//! The settings that new processes start with. What no process has accepted is in no file of a process that works.
//!
//! A setting that a process can change while it runs is in files once a process has taken it. Without a master, nothing is
//! configured: the last accepted settings stay until then. A setting that needs another process is tried by new pods alone,
//! which a rollout makes one by one. The same holds for what only new pods have, such as certificates and modules.

use kube::ResourceExt;

use super::super::action::Action;
use super::super::applied_config::AppliedConfig;
use super::super::conf_file::{keeping, refused_directive};
use super::super::facts::Pod;
use super::super::names::CONF;
use super::super::{memory, resources, settings};
use super::{Step, View, passwords, target};

/// The file that pods which are made now start with.
pub fn of_template(view: &View<'_>) -> String {
    let wanted = settings::file(view.object);
    let live = view.observed.set.child("StatefulSet", &view.object.name_any()).filter(|live| live.ours);
    let before = live.and_then(|live| live.value["spec"]["template"]["metadata"]["annotations"][CONF].as_str());
    let Some(before) = before.filter(|_| view.before.master.is_some() && !is_accepted(view)) else { return wanted };
    // A process that reads the earlier value does not start: another value can only be better.
    let fails = |name: &str| view.observed.set.pods.values().any(|pod| refuses(pod) == Some(name));
    keeping(&wanted, before, |name| {
        view.object.spec.config.contains_key(name) && settings::is_live(name) && !fails(name)
    })
}

/// Gives every pod the file that a new process of it has to start with. Without it, a process that starts again would
/// evict what fits into a larger `maxmemory` alone.
pub fn step(view: &View<'_>) -> Option<Step> {
    let template = of_template(view);
    let write = |pod: &Pod| {
        let file = of_pod(view, pod, &template);
        (pod.own.conf.as_ref() != Some(&file)).then(|| Action::WriteSettings { pod: target(pod), file })
    };
    let pods = view.observed.set.pods.values().filter(|pod| !pod.terminating);
    let actions: Vec<_> = pods.filter_map(write).collect();
    (!actions.is_empty()).then(|| Step::act(actions, "Applying", "writing the settings that new processes start with"))
}

/// The file of a pod. One that was made from an earlier spec keeps what only new pods get.
fn of_pod(view: &View<'_>, pod: &Pod, template: &str) -> String {
    let Some(own) = &pod.own.conf else { return template.to_owned() };
    let fixed = AppliedConfig::read(pod).map(|note| note.fixed).unwrap_or_default();
    let is_outdated = view.is_outdated(pod);
    let is_of_new_pods = |name: &str| is_outdated && (!settings::is_live(name) || name.starts_with("tls-"));
    let file = keeping(template, own, |name| fixed.contains_key(name) || is_of_new_pods(name));
    // A process that starts again has the limit of its own pod, not that of the spec.
    match memory::most_data_under(view.object, pod.own.memory_limit) {
        Some(bound) => keeping(&file, &format!("maxmemory {bound}"), |name| name == "maxmemory"),
        None => file,
    }
}

/// Reports whether a process has taken the settings of the spec that it can change while it runs.
fn is_accepted(view: &View<'_>) -> bool {
    let users = passwords::users(view);
    let wanted = |pod: &Pod| resources::live_settings(view.object, users.as_ref(), pod.own.memory_limit);
    let mut pods = view.observed.set.pods.values();
    pods.any(|pod| AppliedConfig::read(pod).is_some_and(|note| note.hash == wanted(pod)))
}

/// The directive of its file for which a process does not start.
pub fn refuses(pod: &Pod) -> Option<&str> {
    refused_directive(pod.last_words.as_deref()?)
}
