//! The frame of an RDB file: its header, its end, and the CRC64 after it. Pure.
//! <https://rdb.fnordig.de/file_format.html>

use crc_fast::CrcAlgorithm::Crc64Redis;
use crc_fast::Digest;

/// Bytes of the checksum.
const SUM: usize = 8;
/// The opcode before it.
const END: u8 = 0xFF;
/// Bytes of the header: `REDIS0011`, or `VALKEY080`.
const HEAD: usize = 9;

/// Tells whether the file had a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It had one, and it was right.
    Checksum,
    /// The server is set to write none (`rdbchecksum no`).
    None,
}

/// Checks a file as it passes.
pub struct RdbCheck {
    head: Vec<u8>,
    /// The last bytes so far: they may be the end opcode and the checksum.
    last: Vec<u8>,
    sum: Digest,
}

impl Default for RdbCheck {
    fn default() -> Self {
        Self { head: Vec::new(), last: Vec::new(), sum: Digest::new(Crc64Redis) }
    }
}

impl RdbCheck {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let missing = HEAD - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(missing)]);
        self.last.extend_from_slice(bytes);
        let certain = self.last.len().saturating_sub(SUM + 1);
        self.sum.update(&self.last[..certain]);
        self.last.drain(..certain);
    }

    /// Checks that what came is a whole file.
    pub fn finish(mut self) -> Result<Proof, String> {
        let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
        let known = match self.head.as_slice() {
            [b'R', b'E', b'D', b'I', b'S', version @ ..] => version.len() == 4 && digits(version),
            [b'V', b'A', b'L', b'K', b'E', b'Y', version @ ..] => version.len() == 3 && digits(version),
            _ => false,
        };
        if !known {
            return Err("what came does not begin as an RDB file does".into());
        }
        let Some((&[END], sum)) = self.last.split_first_chunk::<1>().filter(|_| self.last.len() == SUM + 1) else {
            return Err("the RDB file ended before its end".into());
        };
        let message = sum.try_into().map(u64::from_le_bytes).unwrap_or_default();
        self.sum.update(&[END]);
        match (message, self.sum.finalize()) {
            (0, _) => Ok(Proof::None),
            (message, found) if message == found => Ok(Proof::Checksum),
            _ => Err("the RDB file is not what the checksum at its end says".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crc_fast::checksum;
    use proptest::prelude::*;

    use super::*;

    fn file(data: &[u8]) -> Vec<u8> {
        let mut file = b"REDIS0011".to_vec();
        file.extend_from_slice(data);
        file.push(END);
        let sum = checksum(Crc64Redis, &file);
        file.extend_from_slice(&sum.to_le_bytes());
        file
    }

    fn check(bytes: &[u8], cut: usize) -> Result<Proof, String> {
        let mut check = RdbCheck::default();
        bytes.chunks(cut).for_each(|chunk| check.push(chunk));
        check.finish()
    }

    #[test]
    fn the_checksum_is_redis_own() {
        // From the self-test in Redis' crc64.c.
        assert_eq!(checksum(Crc64Redis, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let text = b"This is a test of the emergency broadcast system.";
        let mut sum = Digest::new(Crc64Redis);
        text.chunks(7).for_each(|part| sum.update(part));
        assert_eq!((sum.finalize(), checksum(Crc64Redis, text)), (0x4215_3dc5_db99_540f, 0x4215_3dc5_db99_540f));
    }

    #[test]
    fn a_file_without_a_checksum_is_taken_and_told_apart() {
        let mut plain = b"REDIS0011".to_vec();
        plain.push(END);
        plain.extend_from_slice(&[0; 8]);
        assert_eq!(check(&plain, 3), Ok(Proof::None));
    }

    #[test]
    fn valkey_has_a_head_of_its_own() {
        let mut valkey = b"VALKEY080".to_vec();
        valkey.push(END);
        valkey.extend_from_slice(&[0; 8]);
        assert_eq!(check(&valkey, 100), Ok(Proof::None));
        assert!(check(b"<html>no such page</html>", 100).is_err());
        assert!(check(b"", 1).is_err());
    }

    proptest! {
        #[test]
        fn a_whole_file_is_good_however_it_is_cut(data in prop::collection::vec(any::<u8>(), 0..500), cut in 1..80_usize) {
            prop_assert_eq!(check(&file(&data), cut), Ok(Proof::Checksum));
        }

        #[test]
        fn a_damaged_file_is_detected(
            data in prop::collection::vec(any::<u8>(), 1..300),
            cut in 1..80_usize,
            at in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            // If the data end with the end opcode, the file may by chance be valid without its last byte, too.
            prop_assume!(data.last() != Some(&END));
            let mut whole = file(&data);
            prop_assert!(check(&whole[..whole.len() - 1], cut).is_err());
            let at = at.index(whole.len());
            whole[at] ^= 1 << bit;
            prop_assert!(check(&whole, cut) != Ok(Proof::Checksum), "bit {} of byte {}", bit, at);
        }
    }
}
