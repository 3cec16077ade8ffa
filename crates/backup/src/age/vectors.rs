//! Runs the official test vectors, `tests/fixtures/age`.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{Error, Identities, Open};

/// All vectors that apply to the native keys.
const VECTORS: usize = 67;
/// Bytes of the largest payload, which comes compressed: 258 pieces.
const LARGEST: usize = 20 * 1024 * 1024;
/// A key for the vector that is so short that it names none.
const SOME_KEY: &str = "AGE-SECRET-KEY-16JJA3FDX79XL9KWZFERS9W4WCHJX297W65D72R7WHSSVEE398GHQAVQPT7";

struct Vector {
    expect: String,
    identities: String,
    /// SHA-256 of all that is decrypted.
    payload: Option<String>,
    file: Vec<u8>,
}

impl Vector {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let end = bytes.windows(2).position(|two| two == b"\n\n").unwrap();
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let all = |wanted: &str| -> Vec<String> {
            let fields = head.lines().map(|line| line.split_once(": ").unwrap());
            fields.filter(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned()).collect()
        };
        let one = |wanted: &str| all(wanted).into_iter().next();
        let file = match one("compressed").as_deref() {
            None => bytes[end + 2..].to_vec(),
            Some("zlib") => {
                miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&bytes[end + 2..], LARGEST).unwrap()
            }
            Some(other) => panic!("{}: compressed with {other}", path.display()),
        };
        Self { expect: one("expect").unwrap(), identities: all("identity").join("\n"), payload: one("payload"), file }
    }

    /// Opens it in chunks of that size. Returns the result, and the hash of all that was decrypted.
    fn open(&self, chunk: usize) -> (Result<(), Error>, String) {
        let identities = if self.identities.is_empty() { SOME_KEY } else { &self.identities };
        let identities: Identities = identities.parse().unwrap();
        let (mut open, mut out) = (Open::new(&identities), Vec::new());
        let opened = self.file.chunks(chunk).try_for_each(|chunk| open.push(chunk, &mut out));
        let opened = opened.and_then(|()| open.finish(&mut out));
        (opened, hex::encode(Sha256::digest(&out)))
    }
}

#[test]
fn the_official_vectors_are_opened_or_refused_as_they_say() {
    let mut mistakes = Vec::new();
    let mut found = 0;
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/age")).unwrap() {
        let path = file.unwrap().path();
        if path.ends_with("README.md") {
            continue;
        }
        found += 1;
        let vector = Vector::read(&path);
        let small = if vector.file.len() < 4096 { 1 } else { 4099 };
        for chunk in [small, 100_000] {
            let (opened, payload) = vector.open(chunk);
            let is_right = match vector.expect.as_str() {
                "success" => opened == Ok(()),
                "no match" => opened == Err(Error::NoKeyFits),
                "HMAC failure" => opened == Err(Error::HeaderDamaged),
                "header failure" => matches!(opened, Err(Error::NotAge | Error::HeaderDamaged)),
                "payload failure" => opened == Err(Error::PayloadDamaged),
                other => panic!("{}: {other}", path.display()),
            };
            // Before an error, other programs may have released one more piece: the last one, with something behind it.
            let is_whole = opened.is_err() || vector.payload.as_ref().is_none_or(|expected| *expected == payload);
            if !is_right || !is_whole {
                mistakes.push(format!("{}, {}: {opened:?}", path.display(), vector.expect));
            }
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert_eq!(found, VECTORS);
}
