//! Which answers were right when.

use std::collections::BTreeSet;
use std::time::Instant;

use super::load::{Exchange, Record};

/// For each path, who may answer.
pub type Right = &'static [(&'static str, &'static [&'static str])];

/// The right answers, one edit after the other.
pub struct Timeline {
    phases: Vec<Phase>,
}

struct Phase {
    what: &'static str,
    /// When it was asked for.
    begun: Instant,
    /// When it was known to be in force.
    settled: Instant,
    right: Right,
}

impl Timeline {
    /// Begins with what is in force now.
    pub fn new(right: Right) -> Self {
        let now = Instant::now();
        Self { phases: vec![Phase { what: "the beginning", begun: now, settled: now, right }] }
    }

    /// Notes an edit that was asked for at `begun`, and that is in force now.
    pub fn settled(&mut self, what: &'static str, begun: Instant, right: Right) {
        self.phases.push(Phase { what, begun, settled: Instant::now(), right });
    }

    /// The answers that were right at some time between sending and answering.
    fn allowed(&self, exchange: &Exchange) -> BTreeSet<&'static str> {
        let ends = self.phases.iter().skip(1).map(|next| Some(next.settled)).chain([None]);
        let in_force = self
            .phases
            .iter()
            .zip(ends)
            .filter(|(phase, end)| phase.begun <= exchange.over && end.is_none_or(|end| exchange.sent <= end));
        let right = in_force.flat_map(|(phase, _)| phase.right).filter(|(path, _)| *path == exchange.path);
        right.flat_map(|(_, words)| words.iter().copied()).collect()
    }

    /// Requests with an answer that neither the rules before nor the rules after an edit give.
    pub fn wrong<'a>(&self, record: &'a Record) -> Vec<&'a Exchange> {
        let wrong = |exchange: &&Exchange| match &exchange.outcome {
            Ok(answer) if !exchange.failed() => !self.allowed(exchange).contains(answer.word.as_str()),
            _ => false,
        };
        record.exchanges.iter().filter(wrong).collect()
    }

    /// Prints for each edit how long it took, and what was answered after it.
    pub fn print(&self, record: &Record) {
        let ends = self.phases.iter().skip(1).map(|next| Some(next.begun)).chain([None]);
        for (phase, end) in self.phases.iter().zip(ends) {
            let after =
                record.exchanges.iter().filter(|it| it.sent > phase.settled && end.is_none_or(|end| it.over < end));
            let mut answers: Vec<String> = after.map(|it| format!("{} {}", it.path, it.describe())).collect();
            answers.sort_unstable();
            let counted = answers.chunk_by(|a, b| a == b).map(|same| format!("{} ×{}", same[0], same.len()));
            let counts: Vec<String> = counted.collect();
            println!("»   {:5} ms  {:44} {}", (phase.settled - phase.begun).as_millis(), phase.what, counts.join(", "));
        }
    }
}
