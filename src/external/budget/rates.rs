//! Who calls next: classes of operations in turn, in each the namespaces in turn, and of a namespace the calls in the order in
//! which they came. Pure: whoever asks says what time it is.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Class;
use super::bucket::Bucket;
use crate::runtime::RoundRobin;

/// So many calls wait for a class whose tokens take seconds to come. Each holds up a reconcile, and with it a place that
/// another object could have.
const WAITING_FOR_SLOW: usize = 2;

/// One bucket for each class of operations, and those that wait.
#[derive(Debug)]
pub struct Rates {
    /// From which every call of Elastic Load Balancing takes a token, beside that of its class.
    load_balancing: Bucket,
    classes: [Bucket; Class::COUNT],
    queues: [RoundRobin; Class::COUNT],
    /// Classes, the next one first.
    turns: VecDeque<Class>,
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
    last: u64,
}

impl Rates {
    /// These buckets, with nobody who waits.
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

    /// A call of a tenant waits from now on; `None` where it would wait long, and another of the tenant does so already, or
    /// enough of others.
    pub fn join(&mut self, class: Class, tenant: &str, now: Instant) -> Option<(u64, oneshot::Receiver<()>)> {
        self.hand_out(now);
        let queue = &self.queues[class as usize];
        let is_full = queue.waits(tenant) || queue.tenants() >= WAITING_FOR_SLOW;
        if self.classes[class as usize].is_slow() && is_full && !self.until(class, tenant).is_zero() {
            return None;
        }
        let (sender, turn) = oneshot::channel();
        self.last += 1;
        self.queues[class as usize].join(tenant, self.last);
        self.waiting.insert(self.last, sender);
        Some((self.last, turn))
    }

    /// It does not wait any more. Where it had its turn already, its tokens go back.
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

    /// Gives tokens to those whose turn it is.
    pub fn hand_out(&mut self, now: Instant) {
        self.load_balancing.refill(now);
        self.classes.iter_mut().for_each(|bucket| bucket.refill(now));
        while let Some((class, tenant, number)) = self.next() {
            self.classes[class as usize].take(&tenant);
            if class.is_of_load_balancing() {
                self.load_balancing.take(&tenant);
            }
            self.queues[class as usize].had_its_turn(&tenant);
            self.turns.retain(|it| *it != class);
            self.turns.push_back(class);
            if let Some(turn) = self.waiting.remove(&number) {
                // Who does not wait any more says so when it leaves.
                let _ = turn.send(());
            }
        }
    }

    fn next(&self) -> Option<(Class, String, u64)> {
        self.turns.iter().find_map(|class| {
            let queue = &self.queues[*class as usize];
            let (tenant, number) = queue.next(|tenant| self.until(*class, tenant).is_zero())?;
            Some((*class, tenant.to_owned(), number))
        })
    }

    /// How long it takes until a tenant may make a call of that class, if nobody else does.
    pub fn until(&self, class: Class, tenant: &str) -> Duration {
        let own = self.classes[class as usize].until(tenant);
        if class.is_of_load_balancing() { own.max(self.load_balancing.until(tenant)) } else { own }
    }

    /// Takes tokens of which nobody else needs any, for work that can wait; else tells when to ask again.
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

    /// AWS took no token for a call: one that takes seconds to come back is not lost here either.
    pub fn refused(&mut self, class: Class) {
        let bucket = &mut self.classes[class as usize];
        if bucket.is_slow() {
            bucket.give_back();
        }
    }
}
