//! Which signatures are accepted.

use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

const PLACE: &str = "shop/nightly/uid-1/redis-cache/20261122T000500Z";
const MANIFEST: &[u8] = br#"{"format":1}"#;
/// Made for these tests by `ssh-keygen` 9.2p1.
const OPENSSH_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC5ZE74CyewTJzbk0mFmr9rhGqvoTEdCDk5ZDDg8TDQC";
/// The same key's signature of the manifest at that place: `ssh-keygen -Y sign -n causeway-backup:PLACE`.
const OPENSSH_SIGNATURE: &str = "\
-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgLlkTvgLJ7BMnNuTSYWav2uEaq+
hMR0IOTlkMODxMNAIAAAA/Y2F1c2V3YXktYmFja3VwOnNob3AvbmlnaHRseS91aWQtMS9y
ZWRpcy1jYWNoZS8yMDI2MTEyMlQwMDA1MDBaAAAAAAAAAAZzaGE1MTIAAABTAAAAC3NzaC
1lZDI1NTE5AAAAQPon1/M/Ujn5oRpu817cWzLq/Pcc6tYpWbZKvBw9Eq2tf0ayzThBo3wb
gV+EgzdzW+vja5/LK9EUWIWzM8z9Rw0=
-----END SSH SIGNATURE-----
";
/// The same with `-O hashalg=sha256`.
const OPENSSH_SHA256: &str = "\
-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgLlkTvgLJ7BMnNuTSYWav2uEaq+
hMR0IOTlkMODxMNAIAAAA/Y2F1c2V3YXktYmFja3VwOnNob3AvbmlnaHRseS91aWQtMS9y
ZWRpcy1jYWNoZS8yMDI2MTEyMlQwMDA1MDBaAAAAAAAAAAZzaGEyNTYAAABTAAAAC3NzaC
1lZDI1NTE5AAAAQFTy3W+3YREbc1vvO93A6ST/BsuHwZKiqkZWdxveqLNSe/MoJtywW8TN
nGByRgybYYyQdzCDbsbRFVOdjdsxiA4=
-----END SSH SIGNATURE-----
";

fn key() -> SigningKey {
    SigningKey::generate().unwrap().0
}

#[test]
fn only_trusted_signatures_of_these_bytes_and_place_count() {
    let (ours, theirs) = (key(), key());
    let signature = ours.sign(PLACE, MANIFEST);
    let checked = |trusted: &[PublicKey], place, manifest| verify(trusted, place, manifest, signature.as_bytes());
    assert_eq!(checked(&[theirs.public(), ours.public()], PLACE, MANIFEST), Ok(ours.public()));
    assert_eq!(checked(&[theirs.public()], PLACE, MANIFEST), Err(Distrust::Stranger(ours.public())));
    assert_eq!(checked(&[], PLACE, MANIFEST), Err(Distrust::Stranger(ours.public())));
    assert_eq!(checked(&[ours.public()], PLACE, b"{}"), Err(Distrust::Wrong));
    for elsewhere in ["bank/nightly/uid-1/redis-cache/20261122T000500Z", &PLACE[..PLACE.len() - 1], ""] {
        assert_eq!(checked(&[ours.public()], elsewhere, MANIFEST), Err(Distrust::Wrong), "{elsewhere}");
    }
}

#[test]
fn a_key_is_the_same_after_it_was_kept() {
    let (key, secret) = SigningKey::generate().unwrap();
    assert_eq!(SigningKey::read(&secret).unwrap().public(), key.public());
    assert_eq!(SigningKey::read(b"nonsense").unwrap_err(), KeyError::Secret);
    let text = key.public().to_string();
    assert_eq!(text.parse(), Ok(key.public()));
    assert_eq!(format!("{text} causeway@prod\n").parse(), Ok(key.public()), "with a comment");
    for other in ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa AAAAB3NzaC1yc2E=", &text[..text.len() - 4]] {
        assert_eq!(other.parse::<PublicKey>(), Err(KeyError::Public), "{other}");
    }
}

#[test]
fn a_signature_by_ssh_keygen_is_believed_as_ours_and_only_with_our_hash() {
    let key: PublicKey = OPENSSH_KEY.parse().unwrap();
    let checked = |place, manifest, signature: &str| verify(&[key], place, manifest, signature.as_bytes());
    assert_eq!(checked(PLACE, MANIFEST, OPENSSH_SIGNATURE), Ok(key));
    assert_eq!(checked("elsewhere", MANIFEST, OPENSSH_SIGNATURE), Err(Distrust::Wrong));
    assert_eq!(checked(PLACE, b"{}", OPENSSH_SIGNATURE), Err(Distrust::Wrong));
    assert_eq!(checked(PLACE, MANIFEST, OPENSSH_SHA256), Err(Distrust::Unreadable));
}

/// The check by a user who no longer has Causeway.
#[test]
fn ssh_keygen_believes_what_is_signed_and_nothing_else() {
    let directory = std::env::temp_dir().join(format!("causeway-signature-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let key = key();
    std::fs::write(directory.join("signers"), format!("causeway {}\n", key.public())).unwrap();
    std::fs::write(directory.join("sig"), key.sign(PLACE, MANIFEST)).unwrap();
    let believed = |place: &str, manifest: &[u8]| {
        let mut child = Command::new("ssh-keygen")
            .current_dir(&directory)
            .args(["-Y", "verify", "-f", "signers", "-I", "causeway", "-s", "sig", "-n"])
            .arg(format!("causeway-backup:{place}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ssh-keygen, of Debian's package openssh-client");
        // ssh-keygen may end before it has read all of its input.
        child.stdin.take().expect("its input").write_all(manifest).ok();
        child.wait().expect("its end").success()
    };
    assert!(believed(PLACE, MANIFEST));
    assert!(!believed(PLACE, b"{}") && !believed("elsewhere", MANIFEST));
    std::fs::remove_dir_all(&directory).unwrap();
}

proptest! {
    #[test]
    fn nothing_that_lies_there_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>(), byte: u8) {
        let key = key();
        let armoured = [BEGIN.as_bytes(), b"\n", STANDARD.encode([MAGIC, &bytes].concat()).as_bytes(), b"\n", END.as_bytes()].concat();
        prop_assert!(verify(&[key.public()], PLACE, MANIFEST, &bytes).is_err());
        prop_assert!(verify(&[key.public()], PLACE, MANIFEST, &armoured).is_err());
        let mut signature = key.sign(PLACE, MANIFEST).into_bytes();
        let at = at.index(signature.len());
        let before = std::mem::replace(&mut signature[at], byte);
        let is_blank = |it: u8| char::from(it).is_whitespace();
        let changed = before != byte && !(is_blank(before) && is_blank(byte));
        prop_assert!(!changed || verify(&[key.public()], PLACE, MANIFEST, &signature).is_err());
    }
}
