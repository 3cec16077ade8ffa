//! Tokens that come back at a steady rate.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Calls may arrive closer together than they were made: a tenth of what each bucket holds is left alone.
const SPARED: f64 = 0.1;

/// Less tokens a second than this are worth doing something else meanwhile.
const SLOW: f64 = 0.4;

/// So much of a bucket must be there before work that can wait takes a token: the others find a burst.
const LEFT_TO_OTHERS: f64 = 0.75;

/// So much of the rate that work takes which can wait: other callers of the account need some as well.
const SHARE_OF_RATE: f64 = 0.8;

/// Tokens that come back at a steady rate.
#[derive(Debug)]
pub struct Bucket {
    size: f64,
    per_second: f64,
    /// Held by who waits for the next token; the others queue for the lock, which is fair.
    level: Mutex<Level>,
}

/// How full a bucket is.
#[derive(Debug)]
pub struct Level {
    tokens: f64,
    at: Instant,
    /// When work that can wait may take the next token.
    left_over_at: Instant,
}

impl Level {
    /// Takes a token.
    pub fn take(&mut self) {
        self.tokens -= 1.0;
    }
}

impl Bucket {
    /// A full one, of which a little is never used.
    pub fn new(size: f64, per_second: f64) -> Self {
        // A bucket that cannot hold one token would never let anybody pass.
        let size = (size * (1.0 - SPARED)).floor().max(1.0);
        let now = Instant::now();
        Self { size, per_second, level: Mutex::new(Level { tokens: size, at: now, left_over_at: now }) }
    }

    /// Whether a token takes seconds to come.
    pub fn is_slow(&self) -> bool {
        self.per_second < SLOW
    }

    /// Waits for a token, and keeps the others from it until it is taken or left.
    pub async fn at_hand(&self) -> MutexGuard<'_, Level> {
        self.filled(self.level.lock().await).await
    }

    /// The same, unless somebody waits already: tokens that take seconds to come would have every worker wait.
    pub async fn at_hand_unless_crowded(&self) -> Option<MutexGuard<'_, Level>> {
        Some(self.filled(self.level.try_lock().ok()?).await)
    }

    async fn filled<'a>(&self, mut level: MutexGuard<'a, Level>) -> MutexGuard<'a, Level> {
        self.refill(&mut level);
        if level.tokens < 1.0 {
            tokio::time::sleep(Duration::from_secs_f64((1.0 - level.tokens) / self.per_second)).await;
            self.refill(&mut level);
        }
        level
    }

    fn refill(&self, level: &mut Level) {
        let now = Instant::now();
        let came_back = now.duration_since(level.at).as_secs_f64() * self.per_second;
        (level.tokens, level.at) = ((level.tokens + came_back).min(self.size), now);
    }

    /// Puts a token back.
    pub async fn give_back(&self) {
        let mut level = self.looked_at().await;
        level.tokens = (level.tokens + 1.0).min(self.size);
    }

    /// How full it is, without waiting for a token.
    pub async fn looked_at(&self) -> MutexGuard<'_, Level> {
        let mut level = self.level.lock().await;
        self.refill(&mut level);
        level
    }

    /// The same; `None` while somebody waits for a token.
    pub fn try_looked_at(&self) -> Option<MutexGuard<'_, Level>> {
        let mut level = self.level.try_lock().ok()?;
        self.refill(&mut level);
        Some(level)
    }

    /// How long it takes at least until a token is left over for work that can wait.
    pub fn until_left_over(&self, level: &Level) -> Duration {
        let missing = ((self.size * LEFT_TO_OTHERS).max(1.0) - level.tokens).max(0.0);
        Duration::from_secs_f64(missing / self.per_second).max(level.left_over_at.duration_since(level.at))
    }

    /// Notes that work that can wait took a token: the next one is for it a little later.
    pub fn took_what_was_left_over(&self, level: &mut Level) {
        level.left_over_at = level.at + Duration::from_secs_f64(1.0 / (self.per_second * SHARE_OF_RATE));
    }

    /// The time in which a token comes back.
    pub fn interval(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.per_second)
    }
}
