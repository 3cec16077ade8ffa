//! Issues certificates. Pure: keys and the time are given.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

use super::pem::certificates;

/// Certificates are valid from a little before they are made: clocks differ.
const EARLIER: Duration = Duration::from_mins(5);

/// The authority that signs: certificate and key, as PEM.
pub struct Signer {
    pub certificate: String,
    pub key: String,
}

/// The purpose of a certificate.
pub struct Purpose<'a> {
    pub subject: &'a str,
    pub names: Vec<String>,
    /// Servers present it, too.
    pub serves: bool,
}

/// The certificate of an authority that signs itself.
pub fn authority(subject: &str, key: &KeyPair, now: Timestamp, lifetime: SignedDuration) -> Result<String, Error> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = distinguished_name(subject);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    valid(&mut parameters, now, end_of_life(now, lifetime));
    Ok(parameters.self_signed(key)?.pem())
}

/// A certificate, never valid for longer than its authority.
pub fn leaf(
    signer: &Signer,
    purpose: Purpose<'_>,
    key: &KeyPair,
    now: Timestamp,
    lifetime: SignedDuration,
) -> Result<String, Error> {
    let issuer = Issuer::from_ca_cert_pem(&signer.certificate, KeyPair::from_pem(&signer.key)?)?;
    let end_of_signer = certificates(&signer.certificate).first().map(|certificate| certificate.facts.ends);
    let ends = end_of_life(now, lifetime).min(end_of_signer.ok_or(Error::CouldNotParseCertificate)?);
    let mut parameters = CertificateParams::new(purpose.names)?;
    parameters.distinguished_name = distinguished_name(purpose.subject);
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if purpose.serves {
        parameters.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    valid(&mut parameters, now, ends);
    Ok(parameters.signed_by(key, &issuer)?.pem())
}

fn distinguished_name(subject: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, subject);
    name
}

fn end_of_life(now: Timestamp, lifetime: SignedDuration) -> Timestamp {
    now.checked_add(lifetime).unwrap_or(Timestamp::MAX)
}

/// From a little before now.
fn valid(parameters: &mut CertificateParams, now: Timestamp, ends: Timestamp) {
    let epoch = date_time_ymd(1970, 1, 1);
    let seconds = |at: Timestamp| Duration::from_secs(u64::try_from(at.as_second()).unwrap_or_default());
    parameters.not_before = epoch + seconds(now).saturating_sub(EARLIER);
    parameters.not_after = epoch + seconds(ends);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::user_provided::{Files, Needs, check};

    fn time_at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3600).unwrap()
    }

    fn signer(hours: i64) -> Signer {
        let key = KeyPair::generate().unwrap();
        Signer {
            certificate: authority("db", &key, time_at(0), SignedDuration::from_hours(hours)).unwrap(),
            key: key.serialize_pem(),
        }
    }

    fn files(signer: &Signer, names: &[&str], hours: i64) -> Files {
        let key = KeyPair::generate().unwrap();
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let purpose = Purpose { subject: "db", names, serves: true };
        let certificate = leaf(signer, purpose, &key, time_at(0), SignedDuration::from_hours(hours)).unwrap();
        Files { certificate, key: key.serialize_pem(), trusted: signer.certificate.clone() }
    }

    fn needs(name: &str) -> Needs {
        Needs { names: vec![name.into()], clients: true }
    }

    #[test]
    fn what_is_issued_passes_the_checks_of_what_is_given() {
        let files = files(&signer(30), &["*.db-peers.shop.svc", "localhost", "127.0.0.1"], 10);
        let leaf = check(&files, &needs("db-2.db-peers.shop.svc"), time_at(9)).unwrap();
        assert_eq!((leaf.ends, leaf.begins), (time_at(10), time_at(0) - jiff::SignedDuration::from_mins(5)));
        assert!(leaf.names.contains("127.0.0.1") && leaf.names.contains("localhost"));
    }

    #[test]
    fn what_cannot_be_used_is_reported_with_the_reason() {
        let signer = signer(30);
        let good = || files(&signer, &["db.shop.svc"], 10);
        let message = |files: &Files, name: &str, hour: i64| check(files, &needs(name), time_at(hour)).unwrap_err();
        assert!(message(&good(), "web.shop.svc", 1).contains("not valid for web.shop.svc"));
        assert!(message(&good(), "db.shop.svc", 11).contains("expired"));
        let other = Files { key: files(&signer, &["db.shop.svc"], 10).key, ..good() };
        assert!(message(&other, "db.shop.svc", 1).contains("tls.key does not belong"));
        let stranger = Files { trusted: self::signer(30).certificate, ..good() };
        assert!(message(&stranger, "db.shop.svc", 1).contains("not signed by"));
        let nothing = Files { certificate: "x".into(), ..good() };
        assert!(message(&nothing, "db.shop.svc", 1).contains("tls.crt holds no certificate"));
    }

    #[test]
    fn no_certificate_outlives_its_authority() {
        let files = files(&signer(3), &["db.shop.svc"], 10);
        assert_eq!(certificates(&files.certificate)[0].facts.ends, time_at(3));
    }
}
