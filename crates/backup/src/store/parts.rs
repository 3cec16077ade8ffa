//! How large the parts of an upload are. Pure.
//!
//! S3 takes 10,000 parts, each of which is held in memory until it has arrived. So they begin small and grow: 87 GiB
//! fit with parts of 12 MiB at most, and after that the process needs more than its 64 MiB.
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html>

const MIB: usize = 1024 * 1024;

/// The most parts of one upload.
pub const MOST: i32 = 10_000;

/// The most bytes of parts that are on their way, besides the one that is being filled.
const ON_THEIR_WAY: usize = 12 * MIB;

/// Bytes of the part with that number; the first is 1.
#[must_use]
pub const fn size(number: i32) -> usize {
    match number {
        ..=1_000 => 6 * MIB,
        1_001..=8_000 => 12 * MIB,
        8_001..=9_000 => 64 * MIB,
        _ => 256 * MIB,
    }
}

/// How many parts of that number's size may be on their way at once.
#[must_use]
pub const fn at_once(number: i32) -> usize {
    let fitting = ON_THEIR_WAY / size(number);
    if fitting == 0 { 1 } else { fitting }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_last_are_as_large_as_s3_asks() {
        assert!((1..=MOST).all(|number| (5 * MIB..=5 * 1024 * MIB).contains(&size(number))));
    }

    #[test]
    fn as_much_as_a_database_may_hold_fits() {
        let bytes = |numbers: std::ops::RangeInclusive<i32>| numbers.map(|number| size(number) as u64).sum::<u64>();
        assert_eq!(bytes(1..=8_000) >> 30, 87);
        assert_eq!(bytes(1..=MOST) >> 30, 400);
    }

    #[test]
    fn memory_is_bounded_up_to_87_gib() {
        let held = |number| size(number) * (1 + at_once(number));
        assert!((1..=8_000).all(|number| held(number) <= 24 * MIB), "with one part more than are on their way");
    }
}
