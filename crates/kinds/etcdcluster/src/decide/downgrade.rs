//! Members go back to the minor version before theirs.
//!
//! First, the downgrade is enabled in etcd. The leader then lowers the version of the cluster, and each member writes its
//! data in the format of the lower version. After that, pods are replaced as by any other rollout, and etcd ends the
//! downgrade when the last one runs. Until all members have written their data, pods are made with the version that runs:
//! the lower version would not start on the later format, and etcd does not lower the cluster's version while a member
//! is away.
//! <https://etcd.io/docs/v3.6/downgrades/downgrade_3_6/>

use causeway_api::EtcdCluster;
use causeway_api::etcdcluster::{DowngradeStatus, published_image};
use causeway_databases::etcd::Status;
use causeway_databases::step::numbers;

use super::super::action::Action;
use super::super::facts::{Observed, Pod};
use super::super::names;
use super::super::settings::{OLDEST_SAFE, minor_of, parse};
use super::{PROGRESS_INTERVAL, Step, View};

/// The reason if it is cancelled before a member is added, or after one could not join.
pub const SHUTS_OUT: &str = "no member can join while it is enabled";
/// The log message of a member that starts with a version that is below the cluster's.
const TOO_OLD: &str = "server version is lower than determined cluster version";
/// The log message of a new member while a downgrade is enabled: its version is then compared with another one than the
/// cluster's.
const SHUT_OUT: &str = "incompatible with current running cluster";

/// The object with the version that members run; `None` unless they are to go back and are not all prepared for that.
pub fn hold_version(object: &EtcdCluster, stage: Option<&DowngradeStatus>) -> Option<EtcdCluster> {
    let stage = stage.filter(|stage| !stage.prepared)?;
    let mut held = object.clone();
    (held.spec.version, held.spec.image) = (stage.from.clone(), Some(stage.image.clone()));
    Some(held)
}

/// Reports whether the downgrade has reached another stage than the recorded one. Pods are replaced only after it is recorded.
pub fn is_new(view: &View<'_>) -> bool {
    recorded(view.written) != view.downgrade.as_ref()
}

/// Reports whether the status records a downgrade.
pub fn is_on_the_way(view: &View<'_>) -> bool {
    recorded(view.written).is_some()
}

/// Enables a downgrade in etcd, waits for it, or cancels it. When this is called, all members are well.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    let Some(stage) = view.downgrade.as_ref().filter(|_| accepted) else {
        let cancel = cancel(view, "spec.version asks for none").filter(|_| accepted)?;
        return Some(Step::act(vec![cancel], "Applying", "cancelling a downgrade that spec.version does not ask for"));
    };
    if stage.prepared {
        return None;
    }
    let to = &view.written.spec.version;
    let minor = minor_of(to)?;
    if !is_enabled(view) {
        let action = Action::EnableDowngrade { from: stage.from.clone(), to: to.clone(), minor, via: view.via()? };
        let message = format!("preparing members to go back from {} to {to}", stage.from);
        return Some(Step::act(vec![action], "Downgrading", message));
    }
    let others = view.members.keys().copied().filter(|ordinal| {
        let status = view.members.get(ordinal).and_then(|member| view.observed.status_of(*ordinal, member));
        !status.is_some_and(|status| is_prepared(status, minor))
    });
    let names: Vec<String> = others.map(|ordinal| names::pod(view.object, ordinal)).collect();
    let message =
        format!("{} to write their data as etcd 3.{minor} reads them, before pods are replaced", names.join(", "));
    Some(Step { again: PROGRESS_INTERVAL, ..Step::wait("Downgrading", format!("waiting for {message}")) })
}

/// Cancels a downgrade, if one is enabled.
pub fn cancel(view: &View<'_>, why: &'static str) -> Option<Action> {
    let via = view.via().filter(|_| is_enabled(view))?;
    Some(Action::CancelDowngrade { why, via })
}

/// Reports whether a member cannot join because a downgrade is enabled, or was when it tried.
pub fn is_shut_out(pod: &Pod) -> bool {
    has_said(pod, SHUT_OUT)
}

fn has_said(pod: &Pod, text: &str) -> bool {
    pod.last_words.as_deref().is_some_and(|words| words.contains(text))
}

fn is_enabled(view: &View<'_>) -> bool {
    view.observed.statuses.values().any(|status| status.downgrades)
}

fn recorded(object: &EtcdCluster) -> Option<&DowngradeStatus> {
    object.status.as_ref()?.downgrade.as_ref()
}

/// The stage of the downgrade; `None` if the object does not ask for an earlier minor version than the members'.
pub fn stage(object: &EtcdCluster, observed: &Observed) -> Option<DowngradeStatus> {
    let wanted = minor_of(&object.spec.version)?;
    let begun = match recorded(object) {
        Some(recorded) => recorded.clone(),
        None if parse(&object.spec.version)? < OLDEST_SAFE => return None,
        None => running(object, observed)?,
    };
    if minor_of(&begun.from)? <= wanted || of_all(object, observed, |status| has_gone_back(status, wanted)) {
        return None;
    }
    let prepared = || stays_behind(observed, wanted) && of_all(object, observed, |status| is_prepared(status, wanted));
    let prepared = (begun.prepared && !is_undone(observed, wanted)) || prepared();
    Some(DowngradeStatus { prepared, ..begun })
}

/// The highest version that a member runs, with its image.
fn running(object: &EtcdCluster, observed: &Observed) -> Option<DowngradeStatus> {
    let highest = observed.statuses.iter().max_by_key(|(_, status)| numbers(&status.version));
    let (from, image) = if let Some((ordinal, status)) = highest {
        (status.version.clone(), observed.set.pods.get(ordinal).and_then(|pod| pod.own.image.clone()))
    } else {
        // No member answers: take the recorded version, and the image of a pod that is there.
        let version = object.status.as_ref()?.current_version.clone()?;
        (version, observed.set.pods.values().find_map(|pod| pod.own.image.clone()))
    };
    let image = image.unwrap_or_else(|| published_image(&from));
    Some(DowngradeStatus { from, image, prepared: false })
}

/// Reports whether the member runs that minor version, or an earlier one.
fn has_gone_back(status: &Status, wanted: u8) -> bool {
    minor_of(&status.version).is_some_and(|minor| minor <= wanted)
}

/// Reports whether the member can be started with that minor version.
fn is_prepared(status: &Status, wanted: u8) -> bool {
    has_gone_back(status, wanted) || status.storage_minor.is_some_and(|it| it <= wanted)
}

fn of_all(object: &EtcdCluster, observed: &Observed, holds: impl Fn(&Status) -> bool) -> bool {
    let members = observed.members(object);
    let all = members.iter().all(|(ordinal, member)| observed.status_of(*ordinal, member).is_some_and(&holds));
    all && !members.is_empty()
}

/// Reports whether the cluster will not adopt its members' later version. Members that were upgraded only just look prepared,
/// too: for moments, their data still have the earlier format.
fn stays_behind(observed: &Observed, wanted: u8) -> bool {
    observed.statuses.values().any(|status| status.downgrades || has_gone_back(status, wanted))
}

/// Reports whether another client cancelled the downgrade before a member ran the lower version: the cluster has its version
/// again.
fn is_undone(observed: &Observed, wanted: u8) -> bool {
    let statuses = || observed.statuses.values();
    let runs = statuses().any(|status| has_gone_back(status, wanted));
    !runs
        && (observed.set.pods.values().any(|pod| has_said(pod, TOO_OLD))
            || statuses().any(|status| !is_prepared(status, wanted)))
}
