//! The payload: pieces of 64 KiB. Each has an authentication tag, which also covers the number of the piece and whether it is
//! the last one. So nothing can be changed, left out or cut off, and both directions need memory for one piece only.
//! <https://github.com/C2SP/C2SP/blob/main/age.md#payload>

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};

use super::header::{self, FileKey};
use super::keys::{Identities, Recipient};
use super::{Error, cipher, derive, random};

/// Bytes of a piece.
const PIECE: usize = 64 * 1024;
/// Bytes of a piece's authentication tag.
const CODE: usize = 16;
/// Random bytes after the header: with them, each file has another key for its payload.
const SALT: usize = 16;

/// Encrypts a file piece by piece.
pub struct Seal {
    cipher: Pieces,
    piece: Vec<u8>,
}

impl Seal {
    /// Encrypts for those recipients. The header goes to `out`.
    pub fn new(recipients: &[Recipient], out: &mut Vec<u8>) -> Result<Self, Error> {
        let (key, header) = header::make(recipients)?;
        let salt: [u8; SALT] = random()?;
        out.extend(header);
        out.extend(salt);
        Ok(Self { cipher: Pieces::new(&key, &salt)?, piece: Vec::with_capacity(PIECE + CODE) })
    }

    /// Takes plain bytes, and appends encrypted ones to `out`.
    pub fn push(&mut self, mut plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        while !plain.is_empty() {
            if self.piece.len() == PIECE {
                self.seal(false, out)?;
            }
            let (now, later) = plain.split_at(plain.len().min(PIECE - self.piece.len()));
            self.piece.extend_from_slice(now);
            plain = later;
        }
        Ok(())
    }

    /// Encrypts what is left as the last piece.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.seal(true, out)
    }

    fn seal(&mut self, last: bool, out: &mut Vec<u8>) -> Result<(), Error> {
        let nonce = self.cipher.nonce(last);
        let sealed = self.cipher.key.seal_in_place_append_tag(nonce, Aad::empty(), &mut self.piece);
        sealed.map_err(|_| Error::Library)?;
        out.append(&mut self.piece);
        Ok(())
    }
}

/// Decrypts a file piece by piece. Nothing of a piece is given out before its tag is verified.
pub struct Open<'a> {
    identities: &'a Identities,
    cipher: Option<Pieces>,
    /// The header, and then each piece, until it is complete.
    waiting: Vec<u8>,
}

impl<'a> Open<'a> {
    /// Decrypts with those keys.
    pub fn new(identities: &'a Identities) -> Self {
        Self { identities, cipher: None, waiting: Vec::new() }
    }

    /// Takes bytes as they are stored, and appends plain ones to `out`.
    pub fn push(&mut self, mut stored: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        while !stored.is_empty() {
            let Some(cipher) = &mut self.cipher else {
                self.waiting.extend_from_slice(stored);
                let Some(length) = header::length(&self.waiting)?.filter(|at| self.waiting.len() >= at + SALT) else {
                    return Ok(());
                };
                let key = header::open(&self.waiting[..length], self.identities)?;
                self.cipher = Some(Pieces::new(&key, &self.waiting[length..length + SALT])?);
                let rest = std::mem::take(&mut self.waiting).split_off(length + SALT);
                return self.push(&rest, out);
            };
            if self.waiting.len() == PIECE + CODE {
                cipher.open(&mut self.waiting, false, out)?;
            }
            let (now, later) = stored.split_at(stored.len().min(PIECE + CODE - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            stored = later;
        }
        Ok(())
    }

    /// Ends the file: what is still waiting must be the last piece.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(cipher) = &mut self.cipher else {
            return Err(header::length(&self.waiting).err().unwrap_or(Error::HeaderDamaged));
        };
        // Only a file without any data has an empty piece.
        if self.waiting.len() <= CODE && cipher.number > 0 {
            return Err(Error::PayloadDamaged);
        }
        cipher.open(&mut self.waiting, true, out)
    }
}

/// The key of the pieces, and the next one's number.
struct Pieces {
    key: LessSafeKey,
    number: u64,
}

impl Pieces {
    fn new(key: &FileKey, salt: &[u8]) -> Result<Self, Error> {
        Ok(Self { key: cipher(&derive(key, salt, b"payload")?)?, number: 0 })
    }

    fn nonce(&mut self, last: bool) -> Nonce {
        let mut nonce = [0; 12];
        nonce[3..11].copy_from_slice(&self.number.to_be_bytes());
        nonce[11] = last.into();
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    fn open(&mut self, piece: &mut Vec<u8>, last: bool, out: &mut Vec<u8>) -> Result<(), Error> {
        let nonce = self.nonce(last);
        let plain = self.key.open_in_place(nonce, Aad::empty(), piece).map_err(|_| Error::PayloadDamaged)?;
        out.extend_from_slice(plain);
        piece.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Made for these tests by `age-keygen`.
    const SECRET: &str = "AGE-SECRET-KEY-16JJA3FDX79XL9KWZFERS9W4WCHJX297W65D72R7WHSSVEE398GHQAVQPT7";
    const PUBLIC: &str = "age1ljmwwkts2649rkhmf3tu0nk6vfz849ync5ynh5tjgqzzke2pz90sww4d6y";
    const OTHER: &str = "age1hd8ylgc0y9lpnrwnxmjzyjxgk9s0h6gq3kwp8d5ftmfpc9vshg2srt0m8z";

    fn stranger() -> Recipient {
        OTHER.parse().unwrap()
    }

    fn key() -> (Identities, Recipient) {
        (SECRET.parse().unwrap(), PUBLIC.parse().unwrap())
    }

    fn sealed(recipients: &[Recipient], plain: &[u8], cut: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut seal = Seal::new(recipients, &mut out).unwrap();
        for chunk in plain.chunks(cut) {
            seal.push(chunk, &mut out).unwrap();
        }
        seal.finish(&mut out).unwrap();
        out
    }

    fn decrypt(identities: &Identities, stored: &[u8], cut: usize) -> Result<Vec<u8>, Error> {
        let (mut open, mut out) = (Open::new(identities), Vec::new());
        for chunk in stored.chunks(cut) {
            open.push(chunk, &mut out)?;
        }
        open.finish(&mut out).map(|()| out)
    }

    fn data(size: usize) -> Vec<u8> {
        (0..=250).cycle().take(size).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_was_encrypted_is_opened_however_it_comes(size in 0..300_000_usize, into in 1..90_000_usize, out in 1..90_000_usize) {
            let ((identities, recipient), plain) = (key(), data(size));
            let stored = sealed(&[stranger(), recipient], &plain, into);
            prop_assert_eq!(decrypt(&identities, &stored, out), Ok(plain));
        }

        #[test]
        fn a_changed_byte_is_never_taken(size in 1..140_000_usize, at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let ((identities, recipient), plain) = (key(), data(size));
            let mut stored = sealed(&[recipient], &plain, PIECE);
            let at = at.index(stored.len());
            stored[at] ^= 1 << bit;
            prop_assert!(decrypt(&identities, &stored, PIECE).is_err());
        }

        #[test]
        fn what_lacks_its_end_is_never_taken(size in 0..140_000_usize, left in any::<prop::sample::Index>()) {
            let ((identities, recipient), plain) = (key(), data(size));
            let stored = sealed(&[recipient], &plain, PIECE);
            prop_assert!(decrypt(&identities, &stored[..left.index(stored.len())], PIECE).is_err());
        }
    }

    #[test]
    fn pieces_end_where_the_data_end() {
        let (identities, recipient) = key();
        for size in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE] {
            let stored = sealed(&[recipient], &data(size), PIECE);
            let pieces = size.div_ceil(PIECE).max(1);
            let header = header::length(&stored).unwrap().unwrap();
            assert_eq!(stored.len(), header + SALT + size + pieces * CODE, "{size}");
            assert_eq!(decrypt(&identities, &stored, PIECE), Ok(data(size)));
        }
    }

    #[test]
    fn a_file_for_others_differs_from_a_damaged_one() {
        let (identities, _) = key();
        assert_eq!(decrypt(&identities, &sealed(&[stranger()], b"secret", 1), 7), Err(Error::NoKeyFits));
        assert_eq!(decrypt(&identities, b"(\xb5/\xfd zstd, not encrypted", 1), Err(Error::NotAge));
        assert_eq!(decrypt(&identities, b"", 1), Err(Error::HeaderDamaged));
        let endless = [b"age-encryption.org/v1\n".to_vec(), vec![b'x'; 100_000]].concat();
        assert_eq!(decrypt(&identities, &endless, 999), Err(Error::HeaderDamaged));
    }

    /// The sample is by age 1.1.1, for an SSH key, for a stranger, and for our key.
    #[test]
    fn what_the_program_age_encrypted_is_opened() {
        let (identities, _) = key();
        assert_eq!(decrypt(&identities, include_bytes!("sample.age"), 5), Ok(b"made by age itself\n".to_vec()));
    }
}
