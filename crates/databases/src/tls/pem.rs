//! Reads certificates. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;

use causeway_runtime::fingerprint;

use super::facts::Leaf;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// A certificate as text, and what it says.
#[derive(Clone, Debug)]
pub struct Certificate {
    pub text: String,
    pub facts: Leaf,
}

/// All certificates of a text that can be read, in their order.
pub fn certificates(text: &str) -> Vec<Certificate> {
    let blocks = text.split_inclusive(END).filter_map(|part| Some(&part[part.find(BEGIN)?..]));
    blocks.filter_map(read).collect()
}

/// Returns the IDs of certificates.
pub fn ids(certificates: &[Certificate]) -> BTreeSet<String> {
    certificates.iter().map(|certificate| certificate.facts.id.clone()).collect()
}

/// One text with these certificates, each once, in an order that depends on nothing but them.
pub fn joined<'a>(certificates: impl IntoIterator<Item = &'a Certificate>) -> String {
    let mut all: Vec<&Certificate> = certificates.into_iter().collect();
    all.sort_by(|one, other| one.facts.id.cmp(&other.facts.id));
    all.dedup_by(|one, other| one.facts.id == other.facts.id);
    all.iter().flat_map(|certificate| [certificate.text.as_str(), "\n"]).collect()
}

fn read(block: &str) -> Option<Certificate> {
    let (_, pem) = parse_x509_pem(block.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    let validity = certificate.validity();
    let facts = Leaf {
        id: fingerprint(&[&pem.contents], 16),
        begins: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
        ends: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
        names: names(&certificate),
    };
    Some(Certificate { text: block.to_owned(), facts })
}

fn names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let all = alternative.iter().flat_map(|names| &names.value.general_names);
    all.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    })
    .collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    four().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}
