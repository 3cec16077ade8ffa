//! Finds certificates by the hosts that they cover. Pure.

use std::collections::BTreeSet;

use causeway_aws::acm::Certificate;

use crate::model::Complaint;

/// Returns the ARNs of a listener's certificates: those that specs give, and for each host that they do not cover the one
/// that is valid longest, in the order of the hosts. Where some are given, what they cover is not known for sure, so a host
/// without a certificate is no mistake.
pub fn chosen(
    given: &[String],
    hosts: &BTreeSet<String>,
    known: &[Certificate],
    port: u16,
) -> Result<Vec<String>, Complaint> {
    let mut all = given.to_vec();
    for host in hosts.iter().filter(|host| !is_covered(host, given, known)) {
        let fitting = known.iter().filter(|certificate| certificate.names.iter().any(|name| covers(name, host)));
        match fitting.max_by_key(|certificate| (certificate.expires, &certificate.arn)) {
            Some(best) if all.contains(&best.arn) => {}
            Some(best) => all.push(best.arn.clone()),
            None if given.is_empty() => {
                return Err(Complaint {
                    reason: "CertificateNotFound",
                    message: format!(
                        "spec.listeners: AWS Certificate Manager has no issued certificate for {host}, which the HTTPS \
                         listener on port {port} needs: request one, or name one in certificateArns"
                    ),
                });
            }
            None => {}
        }
    }
    Ok(all)
}

/// Reports whether one of the chosen certificates covers the host.
pub fn is_covered(host: &str, chosen: &[String], known: &[Certificate]) -> bool {
    let mut given = known.iter().filter(|certificate| chosen.contains(&certificate.arn));
    given.any(|certificate| certificate.names.iter().any(|name| covers(name, host)))
}

/// A wildcard stands for exactly one label.
/// <https://docs.aws.amazon.com/acm/latest/userguide/acm-certificate-characteristics.html>
fn covers(name: &str, host: &str) -> bool {
    let (name, host) = (name.to_ascii_lowercase(), host.to_ascii_lowercase());
    match name.strip_prefix("*.") {
        None => name == host,
        Some(domain) => name == host || host.split_once('.').is_some_and(|(_, rest)| rest == domain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(arn: &str, names: &[&str], expires: i64) -> Certificate {
        Certificate {
            arn: arn.into(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            expires: Some(jiff::Timestamp::from_second(expires).unwrap()),
        }
    }

    #[test]
    fn the_longest_valid_certificate_is_chosen_and_none_twice() {
        let known = [
            certificate("old", &["shop.example.com"], 1),
            certificate("wild", &["*.example.com"], 2),
            certificate("other", &["example.org"], 9),
        ];
        let hosts = ["shop.example.com", "www.example.com", "*.example.com"].map(str::to_owned).into();
        assert_eq!(chosen(&[], &hosts, &known, 443).unwrap(), ["wild"]);
    }

    #[test]
    fn a_wildcard_stands_for_one_label() {
        assert!(covers("*.example.com", "a.example.com"));
        assert!(!covers("*.example.com", "a.b.example.com"));
        assert!(!covers("*.example.com", "example.com"));
    }

    #[test]
    fn a_host_without_certificate_is_named() {
        let complaint = chosen(&[], &BTreeSet::from(["a.example.com".to_owned()]), &[], 443).unwrap_err();
        assert!(complaint.message.contains("a.example.com"), "{complaint:?}");
    }
}
