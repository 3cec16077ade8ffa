//! Limits how many tasks work at the same time, with fair turns for namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::round_robin::RoundRobin;

/// One in this many slots is reserved for namespaces that hold none. A namespace with much or slow work can then never
/// hold all slots.
const KEPT: usize = 4;

/// Slots that namespaces share.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    /// The number of slots that are reserved for namespaces that hold none.
    kept: usize,
    had: BTreeMap<String, usize>,
    queue: RoundRobin,
    waiting: BTreeMap<u64, oneshot::Sender<Slot>>,
    last: u64,
}

/// A slot; dropping it gives it back.
#[derive(Debug)]
pub struct Slot {
    slots: Slots,
    /// The namespace that holds the slot; `None` once it was given back.
    namespace: Option<String>,
}

impl Slots {
    /// Creates `count` slots, a quarter of which is reserved for namespaces that hold none.
    pub fn new(count: usize) -> Self {
        Self::with_reserve(count, count / KEPT)
    }

    /// Creates `count` slots, `kept` of which are reserved for namespaces that hold none.
    pub fn with_reserve(count: usize, kept: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            free: count,
            kept,
            had: BTreeMap::new(),
            queue: RoundRobin::default(),
            waiting: BTreeMap::new(),
            last: 0,
        })))
    }

    /// Waits for a slot. It never returns `None`, because the queue is never closed.
    pub async fn acquire(&self, namespace: &str) -> Option<Slot> {
        let (sender, slot) = oneshot::channel();
        {
            let mut state = self.state();
            state.last += 1;
            let number = state.last;
            state.queue.join(namespace, number);
            state.waiting.insert(number, sender);
        }
        self.hand_out();
        slot.await.ok()
    }

    /// Gives free slots to the next waiting tasks.
    fn hand_out(&self) {
        loop {
            let Some((namespace, waiting)) = self.state().take() else { return };
            let slot = Slot { slots: self.clone(), namespace: Some(namespace) };
            // If the task no longer waits, return the slot.
            if let Err(mut slot) = waiting.send(slot)
                && let Some(namespace) = slot.namespace.take()
            {
                self.state().give_back(&namespace);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    fn take(&mut self) -> Option<(String, oneshot::Sender<Slot>)> {
        let (free, kept, had) = (self.free, self.kept, &self.had);
        let (namespace, number) = self.queue.next_entry(|it| free > kept || (free > 0 && !had.contains_key(it)))?;
        let namespace = namespace.to_owned();
        self.queue.had_its_turn(&namespace);
        self.free -= 1;
        *self.had.entry(namespace.clone()).or_default() += 1;
        self.waiting.remove(&number).map(|sender| (namespace, sender))
    }

    fn give_back(&mut self, namespace: &str) {
        self.free += 1;
        if let Some(count) = self.had.get_mut(namespace) {
            *count -= 1;
        }
        self.had.retain(|_, count| *count > 0);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(namespace) = self.namespace.take() {
            self.slots.state().give_back(&namespace);
            self.slots.hand_out();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    async fn slot(slots: &Slots, namespace: &str) -> Slot {
        slots.acquire(namespace).await.expect("the queue is never closed")
    }

    #[tokio::test]
    async fn a_busy_namespace_leaves_slots_to_the_others() {
        let slots = Slots::new(8);
        let busy: Vec<_> = (0..20).filter_map(|_| slots.acquire("busy").now_or_never()).collect();
        assert_eq!(busy.len(), 6);
        let _calm = slots.acquire("calm").now_or_never().expect("one is kept for it");
        assert!(slots.acquire("calm").now_or_never().is_none(), "the other one is for a namespace without slots");
        assert!(slots.acquire("third").now_or_never().is_some());
    }

    #[tokio::test]
    async fn those_who_wait_have_turns() {
        let slots = Slots::with_reserve(1, 0);
        let first = slot(&slots, "busy").await;
        let (mut busy, mut calm) = (Box::pin(slots.acquire("busy")), Box::pin(slots.acquire("calm")));
        let mut more = Box::pin(slots.acquire("busy"));
        assert!(busy.as_mut().now_or_never().is_none() && more.as_mut().now_or_never().is_none());
        assert!(calm.as_mut().now_or_never().is_none());
        drop(first);
        drop(busy.await);
        assert!(more.as_mut().now_or_never().is_none(), "the other namespace is next");
        drop(calm.await);
        assert!(more.now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_task_that_gives_up_holds_no_slot() {
        let slots = Slots::with_reserve(1, 0);
        let first = slot(&slots, "a").await;
        for _ in 0..5 {
            assert!(slots.acquire("a").now_or_never().is_none());
        }
        drop(first);
        assert!(slots.acquire("b").now_or_never().is_some());
    }
}
