//! The versioning and the locks of a bucket, as plain data.

use jiff::{SignedDuration, Timestamp};

/// The time that objects that are written into a bucket are locked against deletion, unless their writer says
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// True if no caller at all may delete them before; otherwise, callers with `s3:BypassGovernanceRetention` may.
    pub compliance: bool,
    /// Days from when the object was written.
    pub days: i32,
}

impl Lock {
    /// Returns a lock that is as strict as both.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        Self { compliance: self.compliance || other.compliance, days: self.days.max(other.days) }
    }

    /// Returns the time until which an object is locked that was written at that time.
    pub fn locked_until(&self, written: Timestamp) -> Timestamp {
        let days = SignedDuration::from_hours(24 * i64::from(self.days));
        written.checked_add(days).unwrap_or(Timestamp::MAX)
    }
}

/// The versioning and the locks of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// True if it keeps versions; `None` if it never did, `false` if that is suspended.
    pub versions: Option<bool>,
    /// The lock of objects that are written, if any.
    pub lock: Option<Lock>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_of_two_locks_counts() {
        let lock = |compliance, days| Lock { compliance, days };
        assert_eq!(lock(true, 7).stricter(lock(false, 30)), lock(true, 30));
        let written: Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
        assert_eq!(lock(false, 30).locked_until(written).to_string(), "2026-12-01T00:00:00Z");
    }
}
