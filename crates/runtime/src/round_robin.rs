//! A fair queue. Tenants take turns, and the entries of one tenant keep their order. A tenant with much work delays
//! only itself. Pure.

use std::collections::VecDeque;

/// The waiting entries of all tenants.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    /// Tenants in order of their next turn, each with its waiting entries. No tenant has an empty queue.
    waiting: VecDeque<(String, VecDeque<u64>)>,
}

impl RoundRobin {
    /// Adds an entry of a tenant. The caller chooses its number, which must be unique.
    pub fn join(&mut self, tenant: &str, number: u64) {
        match self.waiting.iter_mut().find(|(known, _)| known == tenant) {
            Some((_, queue)) => queue.push_back(number),
            None => self.waiting.push_back((tenant.to_owned(), VecDeque::from([number]))),
        }
    }

    /// Removes an entry that had no turn.
    pub fn leave(&mut self, number: u64) {
        self.waiting.iter_mut().for_each(|(_, queue)| queue.retain(|it| *it != number));
        self.waiting.retain(|(_, queue)| !queue.is_empty());
    }

    /// Returns the next entry, among the tenants that `may` accepts.
    pub fn next_entry(&self, mut may: impl FnMut(&str) -> bool) -> Option<(&str, u64)> {
        let (tenant, queue) = self.waiting.iter().find(|(tenant, _)| may(tenant))?;
        queue.front().map(|number| (tenant.as_str(), *number))
    }

    /// Removes the first entry of this tenant after its turn. All other tenants get a turn before its next one.
    pub fn had_its_turn(&mut self, tenant: &str) {
        let Some(place) = self.waiting.iter().position(|(known, _)| known == tenant) else { return };
        if let Some((tenant, mut queue)) = self.waiting.remove(place) {
            queue.pop_front();
            if !queue.is_empty() {
                self.waiting.push_back((tenant, queue));
            }
        }
    }

    /// Returns true if the tenant has waiting entries.
    pub fn waits(&self, tenant: &str) -> bool {
        self.waiting.iter().any(|(known, _)| known == tenant)
    }

    /// Counts the tenants that have waiting entries.
    pub fn tenants(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if there are no waiting entries.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn serve_all(queue: &mut RoundRobin) -> Vec<u64> {
        let mut order = Vec::new();
        while let Some((tenant, number)) =
            queue.next_entry(|_| true).map(|(tenant, number)| (tenant.to_owned(), number))
        {
            queue.had_its_turn(&tenant);
            order.push(number);
        }
        order
    }

    #[test]
    fn tenants_have_turns_and_each_its_own_order() {
        let mut queue = RoundRobin::default();
        (0..4).for_each(|number| queue.join("busy", number));
        queue.join("calm", 10);
        queue.join("calm", 11);
        assert_eq!(serve_all(&mut queue), [0, 10, 1, 11, 2, 3]);
        assert!(queue.is_empty());
    }

    #[test]
    fn entries_that_left_or_may_not_go_are_skipped() {
        let mut queue = RoundRobin::default();
        queue.join("a", 1);
        queue.join("b", 2);
        queue.join("b", 3);
        queue.leave(2);
        assert_eq!(queue.next_entry(|tenant| tenant != "a"), Some(("b", 3)));
        queue.leave(1);
        assert!(!queue.waits("a") && queue.waits("b"));
        assert_eq!(serve_all(&mut queue), [3]);
    }

    proptest! {
        /// However many entries others add, each of them has at most one turn between two turns of a waiting tenant.
        #[test]
        fn no_tenant_has_two_turns_while_another_waits(joins in prop::collection::vec((0..4_usize, 0..3_usize), 1..60)) {
            let mut queue = RoundRobin::default();
            let tenants = ["a", "b", "c", "d"];
            let mut turns: Vec<(String, Vec<String>)> = Vec::new();
            for (number, (tenant, served)) in joins.into_iter().enumerate() {
                queue.join(tenants[tenant], number as u64);
                for _ in 0..served {
                    let waiting = tenants.iter().filter(|it| queue.waits(it)).map(|it| (*it).to_owned()).collect();
                    let Some(next) = queue.next_entry(|_| true).map(|(tenant, _)| tenant.to_owned()) else { break };
                    queue.had_its_turn(&next);
                    turns.push((next, waiting));
                }
            }
            for tenant in tenants {
                let mut since: Vec<&String> = Vec::new();
                for (next, waiting) in &turns {
                    if next == tenant || !waiting.iter().any(|it| it == tenant) {
                        since.clear();
                    } else {
                        prop_assert!(!since.contains(&next), "{} twice while {} waits", next, tenant);
                        since.push(next);
                    }
                }
            }
        }
    }
}
