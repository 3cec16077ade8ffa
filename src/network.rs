//! A network: an address, and the number of its leading bits that count.

use std::net::IpAddr;

/// An IPv4 or IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    length: u32,
}

impl Network {
    /// Parses `192.0.2.0/24` or `2001:db8::/32`.
    pub fn parse(text: &str) -> Option<Self> {
        let (base, length) = text.split_once('/')?;
        let (base, length): (IpAddr, u32) = (base.parse().ok()?, length.parse().ok()?);
        let most = if base.is_ipv4() { 32 } else { 128 };
        (length <= most).then_some(Self { base, length })
    }

    /// Whether any address is in both networks.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.encloses(other) || other.encloses(self)
    }

    /// Whether all addresses of `other` are in this network.
    pub fn encloses(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(other.base)
    }

    /// Whether the address is in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        // Bits beyond the prefix length are shifted out. `checked_shr` returns `None` for a shift by the whole width,
        // which leaves no bits.
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(it)) => {
                (base.to_bits() ^ it.to_bits()).checked_shr(32 - self.length).unwrap_or(0) == 0
            }
            (IpAddr::V6(base), IpAddr::V6(it)) => {
                (base.to_bits() ^ it.to_bits()).checked_shr(128 - self.length).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_what_begins_alike() {
        for (network, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.2.3/32", "10.1.2.3", "10.1.2.2"),
            ("0.0.0.0/0", "203.0.113.1", "::1"),
            ("2001:db8::/64", "2001:db8::ffff", "2001:db8:0:1::"),
            ("::/0", "2001:db8::", "10.0.0.1"),
        ] {
            let network = Network::parse(network).unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network:?} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network:?} {outside}");
        }
    }

    #[test]
    fn networks_overlap_when_one_is_in_the_other() {
        for (one, other, overlap) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.1.0.0/16", "10.1.0.0/16", true),
            ("10.0.0.0/16", "10.1.0.0/16", false),
            ("0.0.0.0/0", "::/0", false),
        ] {
            let (one, other) = (Network::parse(one).unwrap(), Network::parse(other).unwrap());
            assert_eq!((one.overlaps(&other), other.overlaps(&one)), (overlap, overlap));
        }
    }

    #[test]
    fn what_is_no_network_is_none() {
        for text in ["", "10.0.0.0", "10.0.0.0/33", "::/129", "a/8", "10.0.0.0/-1"] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
