//! Keys: a file is encrypted for `age1…`, and `AGE-SECRET-KEY-1…` decrypts it.
//! <https://github.com/C2SP/C2SP/blob/main/age.md#the-x25519-recipient-type>

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::agreement::{PrivateKey, X25519};
use bech32::Bech32;
use bech32::primitives::decode::CheckedHrpstring;

/// The prefix of a recipient.
const RECIPIENT: &str = "age";
/// The prefix of a secret key.
const IDENTITY: &str = "age-secret-key-";

/// A public key for which files are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipient(pub(super) [u8; 32]);

/// The reasons why a text is no key, without the text: it may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is a secret key, and a public key was asked for.
    #[error("it is a secret key: replace it at once, and give its public key here, which begins with age1")]
    IsSecret,
    /// It does not begin as a public key does.
    #[error("it is no public key of age-keygen, which begins with age1")]
    NoRecipient,
    /// It is misspelt.
    #[error("a letter of it is wrong or missing")]
    Misspelt,
    /// A file with secret keys has none.
    #[error("it has no line with a secret key of age-keygen, which begins with AGE-SECRET-KEY-1")]
    NoIdentity,
    /// A file with secret keys has something else, too.
    #[error("line {0} is no secret key of age-keygen, which begins with AGE-SECRET-KEY-1")]
    StrangeLine(usize),
}

impl FromStr for Recipient {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let begins_with = |begin: &str| text.to_ascii_lowercase().starts_with(&format!("{begin}1"));
        if begins_with(IDENTITY) {
            return Err(KeyError::IsSecret);
        }
        if !begins_with(RECIPIENT) {
            return Err(KeyError::NoRecipient);
        }
        // The program `age` takes them in small letters only.
        let small = !text.bytes().any(|letter| letter.is_ascii_uppercase());
        bytes(text, RECIPIENT).filter(|_| small).map(Self).ok_or(KeyError::Misspelt)
    }
}

/// Secret keys, each with its public key.
pub struct Identities(pub(super) Vec<(PrivateKey, [u8; 32])>);

/// Prints no key.
impl fmt::Debug for Identities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Identities").field(&self.0.len()).finish()
    }
}

impl FromStr for Identities {
    type Err = KeyError;

    /// Reads a file as `age-keygen` writes it: a key a line, and lines that begin with `#`.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let keys = lines.map(|(number, line)| identity(line).ok_or(KeyError::StrangeLine(number + 1)));
        let keys: Vec<_> = keys.collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(KeyError::NoIdentity) } else { Ok(Self(keys)) }
    }
}

fn identity(line: &str) -> Option<(PrivateKey, [u8; 32])> {
    let private = PrivateKey::from_private_key(&X25519, &bytes(line, IDENTITY)?).ok()?;
    let public = private.compute_public_key().ok()?.as_ref().try_into().ok()?;
    Some((private, public))
}

fn bytes(text: &str, begin: &str) -> Option<[u8; 32]> {
    let checked = CheckedHrpstring::new::<Bech32>(text).ok()?;
    let found: Vec<u8> = checked.byte_iter().collect();
    found.try_into().ok().filter(|_| checked.hrp().to_lowercase() == begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made for this test by `age-keygen`.
    const SECRET: &str = "AGE-SECRET-KEY-16JJA3FDX79XL9KWZFERS9W4WCHJX297W65D72R7WHSSVEE398GHQAVQPT7";
    const PUBLIC: &str = "age1ljmwwkts2649rkhmf3tu0nk6vfz849ync5ynh5tjgqzzke2pz90sww4d6y";

    #[test]
    fn a_public_key_belongs_to_its_secret_one() {
        let file = format!("# created: 2026-11-22T00:00:00Z\n# public key: {PUBLIC}\n{SECRET}\n");
        let identities: Identities = file.parse().unwrap();
        let recipient: Recipient = PUBLIC.parse().unwrap();
        assert_eq!(identities.0[0].1, recipient.0);
        assert_eq!(format!("{identities:?}"), "Identities(1)");
    }

    #[test]
    fn what_is_no_public_key_is_refused_with_its_mistake() {
        assert_eq!(SECRET.parse::<Recipient>(), Err(KeyError::IsSecret));
        assert_eq!("ssh-ed25519 AAAA".parse::<Recipient>(), Err(KeyError::NoRecipient));
        assert_eq!(PUBLIC.to_uppercase().parse::<Recipient>(), Err(KeyError::Misspelt));
        assert_eq!(PUBLIC[..PUBLIC.len() - 1].parse::<Recipient>(), Err(KeyError::Misspelt));
        for place in 4..PUBLIC.len() {
            let other = if &PUBLIC[place..=place] == "q" { "p" } else { "q" };
            let changed = format!("{}{other}{}", &PUBLIC[..place], &PUBLIC[place + 1..]);
            assert_eq!(changed.parse::<Recipient>(), Err(KeyError::Misspelt), "{changed}");
        }
    }

    #[test]
    fn a_file_without_secret_keys_is_refused_and_not_told() {
        let mistake = |text: &str| text.parse::<Identities>().err();
        assert_eq!(mistake(""), Some(KeyError::NoIdentity));
        assert_eq!(mistake("# only words\n\n"), Some(KeyError::NoIdentity));
        assert_eq!(mistake(&format!("{SECRET}\nsecret words")), Some(KeyError::StrangeLine(2)));
        assert_eq!(mistake(PUBLIC), Some(KeyError::StrangeLine(1)));
    }
}
