//! Short, stable hashes for names and revisions.

use sha2::{Digest, Sha256};

/// The first `digits` hexadecimal digits of a hash of the parts. Boundaries between parts matter: (a, bc) differs from
/// (ab, c).
#[must_use]
pub fn fingerprint(parts: &[&[u8]], digits: usize) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    hexadecimal(&digest.finalize()).chars().take(digits).collect()
}

/// Two hexadecimal digits for each byte.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| char::from_digit(half.into(), 16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_kept_apart() {
        assert_ne!(fingerprint(&[b"a", b"bc"], 8), fingerprint(&[b"ab", b"c"], 8));
        assert_eq!(fingerprint(&[b"a"], 8).len(), 8);
    }
}
