//! Changes of a spec that the running cluster cannot accept.

use causeway_runtime::schedule::Schedule;

use super::{View, auth, certificates, children, downgrade};
use crate::database::EtcdDatabase;
use crate::settings::{self, OLDEST_SAFE, parse};

/// Explains why the spec cannot be followed, with the field and the fix.
pub fn complaint(view: &View<'_>) -> Option<(&'static str, String)> {
    // Both the version that is asked for and the one that runs must know all settings.
    if let Some(trouble) = settings::trouble(view.written).or_else(|| settings::trouble(view.object)) {
        return Some(("ConfigInvalid", trouble));
    }
    let denied = view.observed.set.complaint::<EtcdDatabase>(view.written);
    denied
        .or_else(|| recovery(view))
        .or_else(|| children::taken_names(view))
        .or_else(|| version(view))
        .or_else(|| schedules(view))
        .or_else(|| certificates::complaint(view))
        .or_else(|| auth::complaint(view))
        .or_else(|| refused_pods(view))
        .or_else(|| children::failed(view))
}

fn schedules(view: &View<'_>) -> Option<(&'static str, String)> {
    let spec = &view.object.spec;
    let defrag = spec.defrag.as_ref().map(|defrag| ("spec.defrag.schedule", &defrag.schedule));
    let backup = spec.backup_schedule.as_ref().map(|schedule| ("spec.backupSchedule", schedule));
    defrag.into_iter().chain(backup).find_map(|(field, text)| {
        let mistake = Schedule::read(text, None).err()?;
        Some(("ScheduleInvalid", mistake.describe(field, text)))
    })
}

fn recovery(view: &View<'_>) -> Option<(&'static str, String)> {
    let message = || {
        let claims = view.observed.set.claims.iter();
        let filled = claims.filter(|(ordinal, _)| super::recovery::has_data(view, **ordinal));
        let names: Vec<&str> = filled.map(|(_, claim)| claim.name.trim_start_matches("data-")).collect();
        if names.is_empty() {
            return "spec.recovery: no member has a volume with data, so there is nothing to restart the cluster from. Remove \
                    spec.recovery; a new cluster with the data of a backup is begun by spec.restoreFrom"
                .to_owned();
        }
        format!("spec.recovery.fromMember must be a member whose volume is there and not empty: {}", names.join(", "))
    };
    super::recovery::lacks_data(view).then(|| ("RecoveryInvalid", message()))
}

/// Explains why the apiserver rejects the pods, for example because of where they may run. A cluster does not begin without any
/// of its children, such as its network policy.
fn refused_pods(view: &View<'_>) -> Option<(&'static str, String)> {
    let is_needed = |(kind, _): &(String, String)| kind == "StatefulSet" || !view.has_begun();
    let (_, refusal) = view.observed.refused.iter().find(|(child, _)| is_needed(child))?;
    Some((refusal.reason, refusal.message.clone()))
}

/// etcd goes up and back by one minor version at a time.
/// <https://etcd.io/docs/v3.6/upgrades/upgrade_3_6/>
fn version(view: &View<'_>) -> Option<(&'static str, String)> {
    let wanted = parse(&view.written.spec.version)?;
    let running: Vec<(u8, u16)> = view.observed.statuses.values().filter_map(|status| parse(&status.version)).collect();
    let recorded = view.object.status.as_ref().and_then(|status| parse(status.current_version.as_deref()?));
    let (lowest, highest) = (running.iter().min().copied().or(recorded)?, running.iter().max().copied().or(recorded)?);
    let asked = &view.written.spec.version;
    // Earlier releases read another list of members than the one that 3.6 writes: removed members may come back in it.
    if wanted < OLDEST_SAFE && (highest.0 > wanted.0 || downgrade::is_on_the_way(view)) {
        let message = format!(
            "spec.version: members of 3.{} go back to 3.{}.{} or a later 3.{}, not to {asked}: set such a version, or one of 3.{}",
            highest.0, OLDEST_SAFE.0, OLDEST_SAFE.1, OLDEST_SAFE.0, highest.0
        );
        return Some(("DowngradeRefused", message));
    }
    if wanted.0 > lowest.0 + 1 {
        let message = format!(
            "spec.version: etcd goes up by one minor version at a time: set a version of 3.{} first",
            lowest.0 + 1
        );
        return Some(("UpgradeTooFar", message));
    }
    // With 3.6, members that were removed long ago may come back, unless a late 3.5 has run before.
    if wanted.0 == 6 && lowest < OLDEST_SAFE {
        let message = format!(
            "spec.version: the members run 3.5.{}, from which an upgrade to 3.6 can bring removed members back: set 3.5.26 or a \
             later 3.5 first",
            lowest.1
        );
        return Some(("UpgradeTooFar", message));
    }
    None
}
