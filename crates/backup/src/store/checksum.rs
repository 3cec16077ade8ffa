//! SHA-256 as S3 writes it.
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html>

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

/// The SHA-256 of an object or a part.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// A SHA-256 as headers have it.
pub fn text(digest: &[u8]) -> String {
    BASE64_STANDARD.encode(digest)
}

/// The checksum of an object that came in parts: the SHA-256 of their checksums, and how many they are.
pub fn of_parts(parts: &[[u8; 32]]) -> String {
    let mut all = Sha256::new();
    for part in parts {
        all.update(part);
    }
    format!("{}-{}", text(&all.finalize()), parts.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_written_as_s3_does() {
        assert_eq!(text(&sha256(b"")), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
        let parts = [sha256(b"a"), sha256(b"b")];
        let joined: Vec<u8> = parts.concat();
        assert_eq!(of_parts(&parts), format!("{}-2", text(&sha256(&joined))));
    }
}
