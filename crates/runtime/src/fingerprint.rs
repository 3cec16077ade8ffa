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
    hex::encode(digest.finalize()).chars().take(digits).collect()
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
