//! Networks as people write them in specs and policies, and AWS in its answers.

use ipnet::IpNet;

/// Parses `192.0.2.0/24` or `2001:db8::/32`; host bits may be set.
///
/// `IpNet`'s own parser takes octets with leading zeros, which other programs read as octal numbers.
pub fn parse(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    IpNet::new(address.parse().ok()?, length.parse().ok()?).ok()
}

/// Returns the network in the one form that AWS and Kubernetes keep: host bits are zero, and IPv6 is short and in lower case.
///
/// Kubernetes 1.36 and later refuse any other form: <https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/>
/// (`StrictIPCIDRValidation`).
pub fn canonical(text: &str) -> Option<String> {
    parse(text).filter(|_| !text.contains('+')).map(|network| network.trunc().to_string())
}

/// Reports whether any address is in both networks.
pub fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_network_contains_what_begins_alike() {
        for (network, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.2.3/16", "10.1.0.0", "10.2.0.0"),
            ("10.1.2.3/32", "10.1.2.3", "10.1.2.2"),
            ("0.0.0.0/0", "203.0.113.1", "::1"),
            ("2001:db8::/64", "2001:db8::ffff", "2001:db8:0:1::"),
            ("::/0", "2001:db8::", "10.0.0.1"),
            ("::/0", "::ffff:10.0.0.1", "10.0.0.1"),
        ] {
            let network = parse(network).unwrap();
            assert!(network.contains(&inside.parse::<IpAddr>().unwrap()), "{network:?} {inside}");
            assert!(!network.contains(&outside.parse::<IpAddr>().unwrap()), "{network:?} {outside}");
        }
    }

    #[test]
    fn networks_overlap_when_one_is_in_the_other() {
        for (one, other, both) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.1.0.0/16", "10.1.0.0/16", true),
            ("10.9.9.9/8", "10.1.2.3/16", true),
            ("10.0.0.0/16", "10.1.0.0/16", false),
            ("0.0.0.0/0", "::/0", false),
        ] {
            let (one, other) = (parse(one).unwrap(), parse(other).unwrap());
            assert_eq!((overlap(&one, &other), overlap(&other, &one)), (both, both));
        }
    }

    #[test]
    fn each_form_of_an_address_and_a_length_is_read() {
        for (text, read) in [
            ("10.1.2.3/8", "10.1.2.3/8"),
            ("10.0.0.0/008", "10.0.0.0/8"),
            ("10.0.0.0/+8", "10.0.0.0/8"),
            ("2001:DB8:0:0::7/32", "2001:db8::7/32"),
            ("::ffff:10.0.0.1/128", "::ffff:10.0.0.1/128"),
            ("0:0:0:0:0:0:0:1/0", "::1/0"),
        ] {
            assert_eq!(parse(text).map(|network| network.to_string()).as_deref(), Some(read), "{text}");
        }
    }

    #[test]
    fn what_is_no_network_is_none() {
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/256",
            "::/129",
            "a/8",
            "10.0.0.0/-1",
            "10.0.0.0/255.0.0.0",
            "10.0.0.0/8/8",
            "10.0.0.0/ 8",
            " 10.0.0.0/8",
            "10.0.0/8",
            "010.0.0.0/8",
            "10.0.0.00/8",
            "fe80::1%eth0/64",
            "[::1]/128",
            "::1::/64",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
