//! The header of a file: the file key, encrypted for each recipient, and a MAC that cannot be made without the key.
//! <https://github.com/C2SP/C2SP/blob/main/age.md#header>

use aws_lc_rs::aead::{Aad, Nonce};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::keys::{Identities, Recipient};
use super::{Error, FILE_KEY, cipher, derive, random};

/// The first line of every file.
const VERSION: &str = "age-encryption.org/v1";
/// Type of the stanzas of native recipients.
const TYPE: &str = "X25519";
/// Label for the derivation of the keys that encrypt a file key.
const WRAPS: &[u8] = b"age-encryption.org/v1/X25519";
/// Columns of a stanza's lines. The last one of a stanza has fewer.
const COLUMNS: usize = 64;
/// Bytes of the longest header that is read.
const LONGEST: usize = 64 * 1024;

/// The symmetric key that encrypts one file.
pub type FileKey = [u8; FILE_KEY];

/// An ephemeral public key for one recipient of one file, and the file key, encrypted for that recipient.
type Stanza = ([u8; 32], [u8; 32]);

/// A new file key, and the header that holds it for the recipients.
pub fn make(recipients: &[Recipient]) -> Result<(FileKey, Vec<u8>), Error> {
    let key: FileKey = random()?;
    let mut text = format!("{VERSION}\n");
    for recipient in recipients {
        let once = PrivateKey::generate(&X25519).map_err(|_| Error::Library)?;
        let share = once.compute_public_key().map_err(|_| Error::Library)?;
        let wrapping = wrapping(&once, &recipient.0, share.as_ref(), &recipient.0)?;
        let mut body = key.to_vec();
        // The key is used only once, so the nonce may be constant.
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        cipher(&wrapping)?.seal_in_place_append_tag(nonce, Aad::empty(), &mut body).map_err(|_| Error::Library)?;
        // 32 bytes are 43 letters: one line.
        let (share, body) = (STANDARD_NO_PAD.encode(share.as_ref()), STANDARD_NO_PAD.encode(body));
        text.extend(["-> ", TYPE, " ", &share, "\n", &body, "\n"]);
    }
    text.push_str("---");
    let code = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &derive(&key, &[], b"header")?), text.as_bytes());
    text.extend([" ", &STANDARD_NO_PAD.encode(code.as_ref()), "\n"]);
    Ok((key, text.into_bytes()))
}

/// Bytes of the header at the beginning of a file; none if more of the file is needed to know.
pub fn length(file: &[u8]) -> Result<Option<usize>, Error> {
    let seen = file.len().min(VERSION.len());
    if file[..seen] != VERSION.as_bytes()[..seen] {
        return Err(Error::NotAge);
    }
    // Another version, such as v12.
    if file.get(VERSION.len()).is_some_and(|next| *next != b'\n') {
        return Err(Error::NotAge);
    }
    let mut length = 0;
    for line in file[..file.len().min(LONGEST)].split_inclusive(|byte| *byte == b'\n') {
        length += line.len();
        if line.starts_with(b"---") && line.ends_with(b"\n") {
            return Ok(Some(length));
        }
    }
    if file.len() >= LONGEST { Err(Error::HeaderDamaged) } else { Ok(None) }
}

/// The file key, decrypted with one of those secret keys.
pub fn open(header: &[u8], identities: &Identities) -> Result<FileKey, Error> {
    let text = std::str::from_utf8(header).map_err(|_| Error::HeaderDamaged)?;
    let (signed, code) = text.rsplit_once("--- ").ok_or(Error::HeaderDamaged)?;
    let code = code.strip_suffix('\n').and_then(decoded).ok_or(Error::HeaderDamaged)?;
    let mut found = None;
    for (share, body) in stanzas(signed)? {
        for (private, public) in &identities.0 {
            found = found.or(unwrap(private, public, &share, &body)?);
        }
    }
    let key = found.ok_or(Error::NoKeyFits)?;
    let signed = &header[..signed.len() + "---".len()];
    let verified = hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &derive(&key, &[], b"header")?), signed, &code);
    verified.map(|()| key).map_err(|_| Error::HeaderDamaged)
}

/// The stanzas for X25519 keys. Stanzas of other types are for other recipients: they must be well formed, and are ignored.
fn stanzas(text: &str) -> Result<Vec<Stanza>, Error> {
    // The first line is the version.
    let mut lines = text.strip_suffix('\n').ok_or(Error::HeaderDamaged)?.split('\n').skip(1);
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let arguments: Vec<&str> = line.strip_prefix("-> ").ok_or(Error::HeaderDamaged)?.split(' ').collect();
        if !arguments.iter().copied().all(is_argument) {
            return Err(Error::HeaderDamaged);
        }
        let mut body = Vec::new();
        loop {
            let line = lines.next().filter(|line| line.len() <= COLUMNS).ok_or(Error::HeaderDamaged)?;
            // A full line has 48 bytes, so each line is decoded for itself.
            body.extend(decoded(line).ok_or(Error::HeaderDamaged)?);
            if line.len() < COLUMNS {
                break;
            }
        }
        if let [TYPE, arguments @ ..] = arguments.as_slice() {
            let [share] = arguments else { return Err(Error::HeaderDamaged) };
            let share = decoded(share).and_then(|share| share.try_into().ok()).ok_or(Error::HeaderDamaged)?;
            found.push((share, body.try_into().map_err(|_| Error::HeaderDamaged)?));
        }
    }
    Ok(found)
}

/// Printable characters of ASCII, at least one.
fn is_argument(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn unwrap(
    private: &PrivateKey,
    public: &[u8; 32],
    share: &[u8; 32],
    body: &[u8; 32],
) -> Result<Option<FileKey>, Error> {
    let wrapping = wrapping(private, share, share, public).map_err(|_| Error::HeaderDamaged)?;
    let (mut body, nonce) = (*body, Nonce::assume_unique_for_key([0; 12]));
    let opened = cipher(&wrapping)?.open_in_place(nonce, Aad::empty(), &mut body);
    Ok(opened.ok().and_then(|key| (&*key).try_into().ok()))
}

/// The key that encrypts a file's key for one recipient.
fn wrapping(private: &PrivateKey, peer: &[u8; 32], share: &[u8], recipient: &[u8; 32]) -> Result<[u8; 32], Error> {
    let salt = [share, recipient].concat();
    agree(private, UnparsedPublicKey::new(&X25519, peer), Error::Library, |secret| derive(secret, &salt, WRAPS))
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    STANDARD_NO_PAD.decode(text).ok()
}
