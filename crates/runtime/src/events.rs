//! Events on transitions. An event that cannot be published never fails a reconcile.

use std::time::Instant;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use parking_lot::Mutex;
use tracing::{debug, warn};

use super::conditions::find;
use super::event_rates::EventRates;
use super::{ActionEvent, Kind, fingerprint};
use crate::metrics::Metrics;

/// The most bytes that an event's note may have.
/// <https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/>
const MOST_BYTES: usize = 1024;

/// Separates notes that are joined into one event.
const JOINT: &str = "; ";

/// Publishes events, but not without bound.
pub struct Publisher {
    recorder: Recorder,
    rates: Mutex<EventRates>,
}

impl Publisher {
    /// Publishes in the name of `reporter`.
    pub fn new(client: Client, reporter: Reporter) -> Self {
        Self { recorder: Recorder::new(client, reporter), rates: Mutex::default() }
    }

    async fn publish(&self, event: &Event, object: &ObjectReference) {
        let (namespace, uid) =
            (object.namespace.as_deref().unwrap_or_default(), object.uid.as_deref().unwrap_or_default());
        let admitted = self.rates.lock().admits(namespace, uid, Instant::now());
        if !admitted {
            debug!(
                namespace,
                uid,
                reason = event.reason,
                "not published: the object, or its namespace, has had too many events"
            );
        } else if let Err(error) = self.recorder.publish(event, object).await {
            warn!(reason = event.reason, %error, "event not published");
        }
    }
}

/// The events of one reconcile, in order. They are published at its end, so that they do not delay the status.
#[derive(Default)]
pub struct PendingEvents(Vec<Item>);

/// One event to publish.
#[derive(Debug, PartialEq)]
struct Item {
    type_: EventType,
    reason: String,
    note: String,
    /// True if it reports an action, so that notes of further actions may be appended.
    grows: bool,
}

impl PendingEvents {
    /// Adds an event about an action. Consecutive actions with the same reason share one event, because each event is a
    /// write and one object can take dozens of actions.
    pub fn action(&mut self, event: ActionEvent) {
        let ActionEvent { warning, reason, note } = event;
        let type_ = if warning { EventType::Warning } else { EventType::Normal };
        if let Some(last) = self.0.last_mut().filter(|last| last.grows && last.reason == reason && last.type_ == type_)
            && last.note.len() + JOINT.len() + note.len() <= MOST_BYTES
        {
            last.note.push_str(JOINT);
            last.note.push_str(&note);
            return;
        }
        self.0.push(Item { type_, reason: reason.into(), note, grows: true });
    }

    /// Adds an event about a new state of the object, unless its reason and status are the same as before. The reasons
    /// in `trouble` make it a warning.
    pub fn transition(&mut self, before: &[Condition], after: &[Condition], trouble: &[&str]) {
        let Some((type_, now)) = headline(after, trouble) else { return };
        if headline(before, trouble).is_none_or(|(_, old)| old.reason != now.reason || old.status != now.status) {
            self.0.push(Item { type_, reason: now.reason.clone(), note: now.message.clone(), grows: false });
        }
    }

    /// Publishes and counts all events.
    pub async fn publish<K: Kind>(self, publisher: &Publisher, metrics: &Metrics, object: &K::Object) {
        self.publish_about::<K>(publisher, metrics, &object.object_ref(&())).await;
    }

    /// Publishes and counts all events, about an object of which only a reference is known.
    pub async fn publish_about<K: Kind>(self, publisher: &Publisher, metrics: &Metrics, object: &ObjectReference) {
        for event in self.0.into_iter().map(event_of) {
            metrics.event(K::NAME, matches!(event.type_, EventType::Warning), &event.reason);
            publisher.publish(&event, object).await;
        }
    }
}

/// Returns the most important condition, with the type `Warning` if it means trouble.
fn headline<'a>(conditions: &'a [Condition], trouble: &[&str]) -> Option<(EventType, &'a Condition)> {
    if let Some(stalled) = find(conditions, "Stalled") {
        return Some((EventType::Warning, stalled));
    }
    let ready = find(conditions, "Ready")?;
    match find(conditions, "Reconciling") {
        // An object that becomes ready has the same reason in Reconciling and in Ready. A different reason in
        // Reconciling means trouble.
        Some(reconciling) if ready.reason != reconciling.reason => Some((EventType::Warning, reconciling)),
        _ if ready.status == "False" && trouble.contains(&ready.reason.as_str()) => Some((EventType::Warning, ready)),
        _ => Some((EventType::Normal, ready)),
    }
}

fn event_of(Item { type_, reason, note, grows: _ }: Item) -> Event {
    // The recorder groups events with the same action as repetitions, and would show the first note for all of them.
    let action = format!("{reason}-{}", fingerprint(&[note.as_bytes()], 8));
    Event { type_, reason, note: Some(clip(note)), action, secondary: None }
}

fn clip(mut note: String) -> String {
    if note.len() > MOST_BYTES {
        let end = (0..=MOST_BYTES - '…'.len_utf8()).rev().find(|index| note.is_char_boundary(*index)).unwrap_or(0);
        note.truncate(end);
        note.push('…');
    }
    note
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn a_long_note_is_clipped_at_a_character() {
        let clipped = clip("🚀".repeat(1000));
        assert!(clipped.len() <= 1024);
        assert!(clipped.ends_with('…'));
    }

    fn news(actions: &[(&'static str, &str)]) -> Vec<(String, String)> {
        let mut news = PendingEvents::default();
        for (reason, note) in actions {
            news.action(ActionEvent::normal(reason, *note));
        }
        news.0.into_iter().map(|item| (item.reason, item.note)).collect()
    }

    #[test]
    fn consecutive_actions_for_the_same_reason_are_one_event() {
        let text = news(&[("Created", "a"), ("Created", "b"), ("Updated", "c"), ("Created", "d"), ("Created", "e")]);
        let text: Vec<(&str, &str)> = text.iter().map(|(reason, note)| (reason.as_str(), note.as_str())).collect();
        assert_eq!(text, [("Created", "a; b"), ("Updated", "c"), ("Created", "d; e")]);
    }

    #[test]
    fn a_note_that_does_not_fit_begins_another_event() {
        let notes: Vec<String> = (0..100).map(|number| format!("Created rule {number:03} on port 443")).collect();
        let text = news(&notes.iter().map(|note| ("Created", note.as_str())).collect::<Vec<_>>());
        assert!(text.len() == 3 && text.iter().all(|(_, note)| note.len() <= 1024), "{text:?}");
        let joined: Vec<&str> = text.iter().flat_map(|(_, note)| note.split("; ")).collect();
        assert_eq!(joined, notes);
    }

    fn ready(status: &str, reason: &str, message: &str) -> Condition {
        Condition {
            type_: "Ready".into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            observed_generation: None,
        }
    }

    #[test]
    fn trouble_while_reconciling_is_a_warning_but_progress_is_not() {
        let warns = |status: &str, reason: &str| {
            let mut news = PendingEvents::default();
            news.transition(&[ready("True", "Serving", "")], &[ready(status, reason, "")], &["QuorumLost"]);
            news.0.iter().map(|item| matches!(item.type_, EventType::Warning)).collect::<Vec<_>>()
        };
        assert_eq!(warns("False", "QuorumLost"), [true]);
        assert_eq!(warns("False", "Scaling"), [false]);
        assert_eq!(warns("True", "QuorumLost"), [false], "it serves");
    }

    #[test]
    fn how_the_object_is_stands_by_itself() {
        let mut news = PendingEvents::default();
        news.transition(&[], &[ready("True", "Deleted", "state")], &[]);
        news.action(ActionEvent::normal("Deleted", "action"));
        let notes: Vec<&str> = news.0.iter().map(|item| item.note.as_str()).collect();
        assert_eq!(notes, ["state", "action"]);
    }
}
