//! Tokens that come back at a steady rate. Pure: the caller passes the time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Calls may arrive at AWS closer together than they were made, so a tenth of each bucket is never used.
const SPARED: f64 = 0.1;

/// If fewer tokens than this come back per second, a caller had better do something else meanwhile.
const SLOW: f64 = 0.4;

/// This part of a bucket must be there before work that can wait takes a token. So other calls find room for a burst.
const LEFT_TO_OTHERS: f64 = 0.75;

/// Work that can wait takes this part of the rate. Other callers of the account need some as well.
const SHARE_OF_RATE: f64 = 0.8;

/// This part of a bucket is kept for namespaces that took little lately.
const KEPT: f64 = 0.25;

/// A namespace that takes no more than this part of the rate takes little.
const LITTLE: f64 = 0.1;

/// Tokens that come back at a steady rate.
#[derive(Debug)]
pub struct Bucket {
    size: f64,
    per_second: f64,
    tokens: f64,
    at: Instant,
    /// The time at which work that can wait may take the next token.
    left_over_at: Instant,
    /// The number of kept tokens that each namespace may still take. Only namespaces that took some are listed.
    kept: BTreeMap<String, f64>,
}

impl Bucket {
    /// A full bucket, of which a little is never used.
    pub fn new(size: f64, per_second: f64) -> Self {
        // A bucket that cannot hold one token would never let any call pass.
        let size = (size * (1.0 - SPARED)).floor().max(1.0);
        let now = Instant::now();
        Self { size, per_second, tokens: size, at: now, left_over_at: now, kept: BTreeMap::new() }
    }

    /// Returns true if a token takes seconds to come.
    pub fn is_slow(&self) -> bool {
        self.per_second < SLOW
    }

    /// Adds the tokens that came back by now.
    pub fn refill(&mut self, now: Instant) {
        let came_back = now.duration_since(self.at).as_secs_f64() * self.per_second;
        (self.tokens, self.at) = ((self.tokens + came_back).min(self.size), now.max(self.at));
        let kept = self.kept_tokens();
        for left in self.kept.values_mut() {
            *left += came_back * LITTLE;
        }
        self.kept.retain(|_, left| *left < kept);
    }

    /// Returns how many tokens are kept for namespaces that took little lately.
    fn kept_tokens(&self) -> f64 {
        (self.size * KEPT).floor()
    }

    /// Returns the time until a tenant may take a token.
    pub fn time_until(&self, tenant: &str) -> Duration {
        let took_little = tenant.is_empty() || self.kept.get(tenant).is_none_or(|left| *left >= 1.0);
        let needed = if took_little { 1.0 } else { 1.0 + self.kept_tokens() };
        Duration::from_secs_f64((needed - self.tokens).max(0.0) / self.per_second)
    }

    /// Takes a token for a tenant.
    pub fn take(&mut self, tenant: &str) {
        self.tokens -= 1.0;
        if !tenant.is_empty() {
            let kept = self.kept_tokens();
            let left = self.kept.entry(tenant.to_owned()).or_insert(kept);
            *left = (*left - 1.0).max(0.0);
        }
    }

    /// Puts a token back.
    pub fn give_back(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.size);
    }

    /// Returns the least time until a token is left over for work that can wait.
    pub fn until_left_over(&self) -> Duration {
        let missing = ((self.size * LEFT_TO_OTHERS).max(1.0) - self.tokens).max(0.0);
        Duration::from_secs_f64(missing / self.per_second).max(self.left_over_at.duration_since(self.at))
    }

    /// Takes a token that is left over, for work that can wait. If `paced`, that work gets the next one a little later.
    pub fn take_what_is_left_over(&mut self, paced: bool) {
        self.tokens -= 1.0;
        if paced {
            self.left_over_at = self.at + Duration::from_secs_f64(1.0 / (self.per_second * SHARE_OF_RATE));
        }
    }

    /// The time in which a token comes back.
    pub fn interval(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.per_second)
    }
}
