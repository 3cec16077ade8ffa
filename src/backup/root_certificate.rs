//! Certificates by which the throw-away etcd takes us for its root.
//!
//! A snapshot of an etcd with authentication brings its users along, and asks for a password that may be forgotten by now.
//! But whoever shows a certificate of the authority that the server was told of is the user that it is made out to, and
//! `root` is always there: nobody can delete it while authentication is on. The keys live and die with the pod.
//! <https://etcd.io/docs/v3.5/op-guide/authentication/rbac/#using-tls-common-name>

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::Error;

/// Where they are, in the work directory.
pub const DIRECTORY: &str = "tls";
/// The user that they are made out to.
const ROOT: &str = "root";
/// Where the server answers.
const HOST: &str = "127.0.0.1";

/// The directory with the certificates.
pub fn directory(work: &Path) -> PathBuf {
    work.join(DIRECTORY)
}

/// Makes them anew: `ca.crt`, `tls.crt` and `tls.key`.
pub fn make(work: &Path) -> Result<(), Error> {
    let directory = directory(work);
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| Error::of_file(path, error, 0)
    };
    fs::create_dir_all(&directory).map_err(at(&directory))?;
    let files = issue().map_err(|error| Error::Work { path: directory.clone(), source: io::Error::other(error) })?;
    for (name, text) in files {
        let path = directory.join(name);
        fs::write(&path, text).map_err(at(&path))?;
    }
    Ok(())
}

fn issue() -> Result<[(&'static str, String); 3], rcgen::Error> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority.distinguished_name = named("throw-away");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(vec![HOST.to_owned()])?;
    leaf.distinguished_name = named(ROOT);
    leaf.use_authority_key_identifier_extension = true;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // Server and client show the same.
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let leaf = leaf.signed_by(&key, &authority)?;
    Ok([("ca.crt", authority.pem()), ("tls.crt", leaf.pem()), ("tls.key", key.serialize_pem())])
}

fn named(subject: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, subject);
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::secrets;

    #[test]
    fn they_are_found_where_they_were_put() {
        let work = std::env::temp_dir().join(format!("causeway-root-{}", std::process::id()));
        make(&work).unwrap();
        let certificates = secrets::certificates(&directory(&work)).unwrap();
        assert!(certificates.trusted.contains("BEGIN CERTIFICATE"));
        assert!(certificates.identity.unwrap().1.contains("PRIVATE KEY"));
        fs::remove_dir_all(&work).unwrap();
    }
}
