//! Signatures of manifests: they prove that Causeway took a backup, even when the cluster that took it is gone. Pure, except
//! for making a key.
//!
//! A signature has the format of OpenSSH. It covers the bytes of the manifest and the place of the backup: a manifest that is
//! copied to another place is not signed there. `ssh-keygen -Y verify` checks it without Causeway.
//! <https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig>
//!
//! The crate `ssh-key` is not used: its release 0.6 brings an older set of `RustCrypto` beside the one in use. The cryptography is
//! that of aws-lc, and signatures of OpenSSH itself are among the tests.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA512, digest};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Name of the object with the signature, beside the manifest.
pub const SIGNATURE: &str = "manifest.json.sig";
/// Bytes of the largest signature that is read.
pub const LARGEST_SIGNATURE: usize = 4 * 1024;

const MAGIC: &[u8] = b"SSHSIG";
const ALGORITHM: &[u8] = b"ssh-ed25519";
const HASH: &[u8] = b"sha512";
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
/// Characters of a line.
const LINE: usize = 70;

/// The reasons why a key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is no public key.
    #[error("it is no public key of the form ssh-ed25519 AAAA…")]
    Public,
    /// The bytes are no secret key.
    #[error("it is no secret key of Ed25519 in PKCS#8")]
    Secret,
    /// The library could not make a key.
    #[error("no key could be made")]
    Library,
}

/// The reasons why a signature is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// There is no signature.
    #[error("is not signed")]
    Missing,
    /// It cannot be read.
    #[error("has a signature that cannot be read")]
    Unreadable,
    /// It is of a key that is not trusted.
    #[error("is signed by {0}, which is not trusted")]
    Stranger(PublicKey),
    /// It is of other bytes, or of another place.
    #[error("is not what was signed: the manifest was changed, or copied to another place")]
    Wrong,
}

/// The key that signs.
#[derive(Debug)]
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// A new one, and its secret as PKCS#8.
    pub fn generate() -> Result<(Self, Vec<u8>), KeyError> {
        let pair = Ed25519KeyPair::generate().map_err(|_| KeyError::Library)?;
        let secret = pair.to_pkcs8v1().map_err(|_| KeyError::Library)?.as_ref().to_vec();
        Ok((Self(pair), secret))
    }

    /// From its secret as PKCS#8.
    pub fn read(secret: &[u8]) -> Result<Self, KeyError> {
        Ed25519KeyPair::from_pkcs8(secret).map(Self).map_err(|_| KeyError::Secret)
    }

    /// Returns the public key of the pair.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    /// Signs the manifest of the backup at a place: what its keys begin with, without a slash at the end.
    #[must_use]
    pub fn sign(&self, place: &str, manifest: &[u8]) -> String {
        let context = context_of(place);
        let signature = self.0.sign(&signed(context.as_bytes(), manifest));
        let signature = [string(ALGORITHM), string(signature.as_ref())].concat();
        let fields = [&self.public().blob(), context.as_bytes(), b"", HASH, &signature];
        let blob = [MAGIC, &1_u32.to_be_bytes(), &fields.map(string).concat()].concat();
        let text = STANDARD.encode(blob);
        // Base64 is ASCII, so it may be cut at any byte.
        let lines: Vec<&str> = (0..text.len()).step_by(LINE).map(|at| &text[at..text.len().min(at + LINE)]).collect();
        format!("{BEGIN}\n{}\n{END}\n", lines.join("\n"))
    }
}

/// The key that others trust, written as OpenSSH writes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    fn blob(self) -> Vec<u8> {
        [string(ALGORITHM), string(&self.0)].concat()
    }

    fn of_blob(blob: &[u8]) -> Option<Self> {
        let mut rest = blob;
        let (algorithm, key) = (take(&mut rest)?, take(&mut rest)?);
        (algorithm == ALGORITHM && rest.is_empty()).then_some(Self(key.try_into().ok()?))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ssh-ed25519 {}", STANDARD.encode(self.blob()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    /// A comment may follow, as in files of OpenSSH.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let mut words = text.split_whitespace();
        let (Some("ssh-ed25519"), Some(blob)) = (words.next(), words.next()) else { return Err(KeyError::Public) };
        let blob = STANDARD.decode(blob).map_err(|_| KeyError::Public)?;
        Self::of_blob(&blob).ok_or(KeyError::Public)
    }
}

/// Checks that one of these keys signed that manifest at that place.
pub fn verify(trusted: &[PublicKey], place: &str, manifest: &[u8], signature: &[u8]) -> Result<PublicKey, Distrust> {
    let (key, context, signature) = parts(signature).ok_or(Distrust::Unreadable)?;
    if !trusted.contains(&key) {
        return Err(Distrust::Stranger(key));
    }
    let expected = context_of(place);
    let is_right = context == expected.as_bytes()
        && UnparsedPublicKey::new(&ED25519, key.0).verify(&signed(&context, manifest), &signature).is_ok();
    if is_right { Ok(key) } else { Err(Distrust::Wrong) }
}

/// Key, context and bytes of an armoured signature.
fn parts(armoured: &[u8]) -> Option<(PublicKey, Vec<u8>, Vec<u8>)> {
    let text = std::str::from_utf8(armoured).ok()?.trim();
    let text: String = text.strip_prefix(BEGIN)?.strip_suffix(END)?.split_whitespace().collect();
    let blob = STANDARD.decode(text).ok()?;
    let mut rest = blob.strip_prefix(MAGIC)?.strip_prefix(&1_u32.to_be_bytes())?;
    let key = PublicKey::of_blob(take(&mut rest)?)?;
    let (context, _reserved, hash) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
    let mut signature = take(&mut rest)?;
    let (algorithm, bytes) = (take(&mut signature)?, take(&mut signature)?);
    let is_ours = hash == HASH && algorithm == ALGORITHM && rest.is_empty() && signature.is_empty();
    is_ours.then(|| (key, context.to_vec(), bytes.to_vec()))
}

/// The purpose that a signature names: OpenSSH calls it namespace.
fn context_of(place: &str) -> String {
    format!("causeway-backup:{place}")
}

fn signed(context: &[u8], manifest: &[u8]) -> Vec<u8> {
    let hash = digest(&SHA512, manifest);
    [MAGIC, &[context, b"", HASH, hash.as_ref()].map(string).concat()].concat()
}

/// Bytes with their length before them.
fn string(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or_default();
    [&length.to_be_bytes(), bytes].concat()
}

/// The next bytes that have their length before them.
fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, later) = rest.split_first_chunk::<4>()?;
    let (bytes, later) = later.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    *rest = later;
    Some(bytes)
}
