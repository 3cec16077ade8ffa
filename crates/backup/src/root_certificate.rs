//! Certificates with which the throw-away etcd lets us in as its user `root`.
//!
//! A snapshot of an etcd with authentication contains its users, and asks for a password that may be forgotten by now. But etcd
//! takes a client with a certificate of its trusted CA for the user in the common name. The user `root` always exists: no
//! client can delete it while authentication is on. The keys exist only as long as the pod.
//! <https://etcd.io/docs/v3.5/op-guide/authentication/rbac/#using-tls-common-name>

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::Error;

/// Name of their directory in the work directory.
pub const DIRECTORY: &str = "tls";
/// The user in the common name.
const ROOT: &str = "root";
/// Where the server answers.
const HOST: &str = "127.0.0.1";

/// The directory with the certificates.
pub fn directory(work: &Path) -> PathBuf {
    work.join(DIRECTORY)
}

/// Makes new ones: `ca.crt`, `tls.crt` and `tls.key`.
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
    authority.distinguished_name = common_name("throw-away");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(vec![HOST.to_owned()])?;
    leaf.distinguished_name = common_name(ROOT);
    leaf.use_authority_key_identifier_extension = true;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // Server and client present the same certificate.
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let leaf = leaf.signed_by(&key, &authority)?;
    Ok([("ca.crt", authority.pem()), ("tls.crt", leaf.pem()), ("tls.key", key.serialize_pem())])
}

fn common_name(subject: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, subject);
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets;

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
