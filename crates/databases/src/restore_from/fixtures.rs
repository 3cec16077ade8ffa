//! Outcomes of a `DatabaseRestore` in tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "support of tests")]

use causeway_api::databaserestore::{BackupChoice, RestorePhase};

use super::{Seen, Step};
use crate::restore_from::facts::Live;

/// The newest backup of `DatabaseBackup` `nightly`.
pub fn nightly() -> BackupChoice {
    BackupChoice {
        backup: Some("nightly".into()),
        s3: None,
        source: None,
        before: None,
        id: "latest".into(),
        identity_secret_name: None,
        uid: None,
        accept_unrecorded: false,
        accept_unencrypted: false,
    }
}

/// Carries a step out.
pub fn happen(seen: &mut Seen, step: &Step) {
    match (step, &mut *seen) {
        (Step::Make { .. }, Seen::Absent) => *seen = Seen::Present(live("restore-1")),
        (Step::Stop { uid, .. }, Seen::Present(live)) if live.uid == *uid => live.going = true,
        (Step::TakeBack { uid, .. }, Seen::Present(live)) if live.uid == *uid => {
            (live.ours, live.lost) = (true, false);
        }
        (Step::Make { .. }, Seen::Present(_)) | (Step::Tell { .. } | Step::Stop { .. } | Step::TakeBack { .. }, _) => {}
        (Step::Make { .. }, other) => panic!("made while it is {other:?}"),
    }
}

/// One of ours that was just made.
pub fn live(uid: &str) -> Live {
    Live { uid: uid.into(), ours: true, message: "the backup is looked for".into(), ..Live::default() }
}

/// The same in that phase.
pub fn live_in(uid: &str, phase: RestorePhase, message: &str) -> Seen {
    let id = Some("20261122T000500Z".into());
    let reason =
        message.split_once(": ").filter(|_| phase == RestorePhase::Failed).map(|(reason, _)| reason.to_owned());
    Seen::Present(Live { phase, id, reason, message: message.into(), ..live(uid) })
}
