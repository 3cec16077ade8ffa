//! Decides which call comes next. Classes of operations take turns, within each class the namespaces take turns, and
//! the calls of a namespace go in the order in which they came. Pure: the caller passes the time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use causeway_runtime::RoundRobin;

use super::Class;
use super::bucket::Bucket;

/// At most this many calls wait for a class whose tokens take seconds to come back. Each holds up a reconcile, and
/// occupies a place that another object could have.
const WAITING_FOR_SLOW: usize = 2;

/// One bucket for each class of operations, and the waiting calls.
#[derive(Debug)]
pub struct Rates {
    /// Every call of Elastic Load Balancing takes a token from it, besides that of its class.
    load_balancing: Bucket,
    classes: [Bucket; Class::COUNT],
    queues: [RoundRobin; Class::COUNT],
    /// Classes, the next one first.
    turns: VecDeque<Class>,
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
    last: u64,
}

impl Rates {
    /// Rates with these buckets, and no waiting calls.
    pub fn new(load_balancing: Bucket, classes: [Bucket; Class::COUNT]) -> Self {
        Self {
            load_balancing,
            classes,
            queues: Default::default(),
            turns: Class::ALL.into(),
            waiting: BTreeMap::new(),
            last: 0,
        }
    }

    /// Adds a waiting call of a tenant. `None` if it would wait long and another call of the tenant, or enough calls of
    /// others, wait already.
    pub fn join(&mut self, class: Class, tenant: &str, now: Instant) -> Option<(u64, oneshot::Receiver<()>)> {
        self.hand_out(now);
        let queue = &self.queues[class as usize];
        let is_full = queue.waits(tenant) || queue.tenants() >= WAITING_FOR_SLOW;
        if self.classes[class as usize].is_slow() && is_full && !self.time_until(class, tenant).is_zero() {
            return None;
        }
        let (sender, turn) = oneshot::channel();
        self.last += 1;
        self.queues[class as usize].join(tenant, self.last);
        self.waiting.insert(self.last, sender);
        Some((self.last, turn))
    }

    /// Removes a call that does not wait any more. If it has had its turn already, its tokens are put back.
    pub fn leave(&mut self, class: Class, number: u64, now: Instant) {
        if self.waiting.remove(&number).is_some() {
            self.queues[class as usize].leave(number);
        } else {
            self.classes[class as usize].give_back();
            if class.is_of_load_balancing() {
                self.load_balancing.give_back();
            }
        }
        self.hand_out(now);
    }

    /// Gives tokens to the calls whose turn it is.
    pub fn hand_out(&mut self, now: Instant) {
        self.load_balancing.refill(now);
        self.classes.iter_mut().for_each(|bucket| bucket.refill(now));
        while let Some((class, tenant, number)) = self.next_call() {
            self.classes[class as usize].take(&tenant);
            if class.is_of_load_balancing() {
                self.load_balancing.take(&tenant);
            }
            self.queues[class as usize].had_its_turn(&tenant);
            self.turns.retain(|it| *it != class);
            self.turns.push_back(class);
            if let Some(turn) = self.waiting.remove(&number) {
                // A call that does not wait any more gives its tokens back when it leaves.
                let _ = turn.send(());
            }
        }
    }

    fn next_call(&self) -> Option<(Class, String, u64)> {
        self.turns.iter().find_map(|class| {
            let queue = &self.queues[*class as usize];
            let (tenant, number) = queue.next_entry(|tenant| self.time_until(*class, tenant).is_zero())?;
            Some((*class, tenant.to_owned(), number))
        })
    }

    /// Returns the time until a tenant may make a call of that class, if no other tenant does.
    pub fn time_until(&self, class: Class, tenant: &str) -> Duration {
        let own = self.classes[class as usize].time_until(tenant);
        if class.is_of_load_balancing() { own.max(self.load_balancing.time_until(tenant)) } else { own }
    }

    /// Takes tokens that no other caller needs, for work that can wait. Otherwise returns after what time to ask again.
    pub fn take_what_is_left_over(&mut self, class: Class, now: Instant) -> Result<(), Duration> {
        self.hand_out(now);
        let bucket = &mut self.classes[class as usize];
        let mut pause = bucket.until_left_over();
        if class.is_of_load_balancing() {
            pause = pause.max(self.load_balancing.until_left_over());
        }
        if !self.queues[class as usize].is_empty() {
            pause = pause.max(bucket.interval());
        }
        if !pause.is_zero() {
            return Err(pause);
        }
        bucket.take_what_is_left_over(true);
        if class.is_of_load_balancing() {
            self.load_balancing.take_what_is_left_over(false);
        }
        Ok(())
    }

    /// Records that AWS took no token for a call. If a token takes seconds to come back, it is put back here as well.
    pub fn record_refusal(&mut self, class: Class) {
        let bucket = &mut self.classes[class as usize];
        if bucket.is_slow() {
            bucket.give_back();
        }
    }
}
