//! Events on transitions. An event that cannot be published never fails a reconcile.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::runtime::events::{Event, EventType, Recorder};

use super::conditions::find;
use super::{ActionEvent, fingerprint};

/// Tells of something that was done.
pub async fn publish_action(recorder: &Recorder, object: &impl Resource<DynamicType = ()>, event: ActionEvent) {
    publish(recorder, object, EventType::Normal, event.reason, event.note).await;
}

/// Tells of a change in how the object is; says nothing where reason and state are the same as before.
pub async fn publish_transition(
    recorder: &Recorder,
    object: &impl Resource<DynamicType = ()>,
    before: &[Condition],
    after: &[Condition],
) {
    let Some((type_, headline)) = headline(after) else { return };
    if self::headline(before).is_some_and(|(_, old)| old.reason == headline.reason && old.status == headline.status) {
        return;
    }
    publish(recorder, object, type_, &headline.reason, headline.message.clone()).await;
}

/// The condition that matters most, and whether it is a warning.
fn headline(conditions: &[Condition]) -> Option<(EventType, &Condition)> {
    if let Some(stalled) = find(conditions, "Stalled") {
        return Some((EventType::Warning, stalled));
    }
    let ready = find(conditions, "Ready")?;
    match find(conditions, "Reconciling") {
        // Reconciling for the reason that Ready is false is the normal way to get ready; a reason of its own is trouble.
        Some(reconciling) if ready.reason != reconciling.reason => Some((EventType::Warning, reconciling)),
        _ => Some((EventType::Normal, ready)),
    }
}

async fn publish(
    recorder: &Recorder,
    object: &impl Resource<DynamicType = ()>,
    type_: EventType,
    reason: &str,
    note: String,
) {
    // The recorder takes events of one action for repetitions, and shows the first one's note for all of them.
    let action = format!("{reason}-{}", fingerprint(&[note.as_bytes()], 8));
    let event = Event { type_, reason: reason.into(), note: Some(clipped(note)), action, secondary: None };
    if let Err(error) = recorder.publish(&event, &object.object_ref(&())).await {
        tracing::warn!(reason, %error, "event not published");
    }
}

/// An event's note may have 1,024 bytes.
/// <https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/>
fn clipped(mut note: String) -> String {
    if note.len() > 1024 {
        let end = (0..=1021).rev().find(|index| note.is_char_boundary(*index)).unwrap_or(0);
        note.truncate(end);
        note.push('…');
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_clipped_at_a_character() {
        let clipped = clipped("🚀".repeat(1000));
        assert!(clipped.len() <= 1024);
        assert!(clipped.ends_with('…'));
    }
}
