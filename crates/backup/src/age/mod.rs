//! Files as [age](https://age-encryption.org) writes them, for its native keys (X25519). With a secret key, a user can open a
//! backup with `age --decrypt`, without Causeway.
//!
//! The format is small and does not change, and all cryptography is that of aws-lc, which this program uses for TLS, too.
//! The crate `age` is not used because it brings 77 others, among them a second set of ciphers and a framework for
//! translations. The official test vectors are opened or refused as they say (`vectors.rs`), and the program `age` opens what is
//! written here, and the other way round.
//! <https://c2sp.org/age>

mod header;
mod keys;
mod payload;

#[cfg(test)]
mod vectors;

pub use keys::{Identities, KeyError, Recipient};
pub use payload::{Open, Seal};

/// The reasons why a file cannot be made or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It does not begin as such files do.
    #[error("it is no file of age, version 1")]
    NotAge,
    /// It begins as such files do, but its header is damaged or cut off.
    #[error("the header of age is damaged")]
    HeaderDamaged,
    /// It was encrypted for others.
    #[error("none of the keys opens it: it was encrypted for others")]
    NoKeyFits,
    /// A piece is damaged, or the end is missing.
    #[error("what age encrypted is damaged or cut off")]
    PayloadDamaged,
    /// The cryptographic library failed; no input can cause that.
    #[error("the cryptographic library failed")]
    Library,
}

/// Bytes of the key that a file is encrypted with; each recipient can learn it from the header.
const FILE_KEY: usize = 16;

/// Derives a key of 32 bytes.
fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> Result<[u8; 32], Error> {
    use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
    let (prk, mut key) = (Salt::new(HKDF_SHA256, salt).extract(secret), [0; 32]);
    prk.expand(&[info], HKDF_SHA256).and_then(|okm| okm.fill(&mut key)).map_err(|_| Error::Library)?;
    Ok(key)
}

/// ChaCha20-Poly1305 with a key of 32 bytes.
fn cipher(key: &[u8; 32]) -> Result<aws_lc_rs::aead::LessSafeKey, Error> {
    use aws_lc_rs::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};
    UnboundKey::new(&CHACHA20_POLY1305, key).map(LessSafeKey::new).map_err(|_| Error::Library)
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::Library)?;
    Ok(bytes)
}
