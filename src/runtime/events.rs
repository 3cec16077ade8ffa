//! Events on transitions. An event that cannot be published never fails a reconcile.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::runtime::events::{Event, EventType, Recorder};

use super::conditions::find;
use super::{ActionEvent, fingerprint};

/// What is to be told of one reconcile, in the order in which it happened. It is published at the end: nobody waits
/// longer for a status because of it.
#[derive(Default)]
pub struct News(Vec<Event>);

impl News {
    /// Something was done.
    pub fn action(&mut self, event: ActionEvent) {
        self.0.push(event_of(EventType::Normal, event.reason, event.note));
    }

    /// The object is now in another way than before; no news where reason and state are the same.
    pub fn transition(&mut self, before: &[Condition], after: &[Condition]) {
        let Some((type_, now)) = headline(after) else { return };
        if headline(before).is_none_or(|(_, old)| old.reason != now.reason || old.status != now.status) {
            self.0.push(event_of(type_, &now.reason, now.message.clone()));
        }
    }

    /// Publishes it all.
    pub async fn publish(self, recorder: &Recorder, object: &impl Resource<DynamicType = ()>) {
        for event in self.0 {
            if let Err(error) = recorder.publish(&event, &object.object_ref(&())).await {
                tracing::warn!(reason = event.reason, %error, "event not published");
            }
        }
    }
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

fn event_of(type_: EventType, reason: &str, note: String) -> Event {
    // The recorder takes events of one action for repetitions, and shows the first one's note for all of them.
    let action = format!("{reason}-{}", fingerprint(&[note.as_bytes()], 8));
    Event { type_, reason: reason.into(), note: Some(clipped(note)), action, secondary: None }
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
