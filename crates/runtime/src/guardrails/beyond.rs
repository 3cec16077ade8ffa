//! Decides which targets that are not pods of their namespace are allowed. Pure.

use std::net::IpAddr;

use super::allowed::contains;

/// The addresses that belong to no pod of a namespace and may be targets of its load balancers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// All: policies are turned off.
    All,
    /// Those that every one of these lists includes; no addresses if there are no lists.
    Within(Vec<Vec<String>>),
    /// It is not known, for this reason.
    Unknown(String),
}

impl Beyond {
    /// Returns true if that address may be a target; fails if that is not known.
    pub fn allows(&self, address: &str) -> Result<bool, String> {
        let lists = match self {
            Self::All => return Ok(true),
            Self::Within(lists) => lists,
            Self::Unknown(why) => return Err(why.clone()),
        };
        let Ok(address) = address.parse::<IpAddr>() else { return Ok(false) };
        let alone = format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 });
        Ok(!lists.is_empty() && lists.iter().all(|list| list.iter().any(|network| contains(network, &alone))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_must_be_in_every_list_that_there_is() {
        let within = |lists: &[&[&str]]| {
            Beyond::Within(lists.iter().map(|list| list.iter().map(|it| (*it).to_owned()).collect()).collect())
        };
        assert_eq!(within(&[]).allows("10.0.0.1"), Ok(false));
        assert_eq!(within(&[&["10.0.0.0/8"]]).allows("10.0.0.1"), Ok(true));
        assert_eq!(within(&[&["10.0.0.0/8"]]).allows("169.254.169.254"), Ok(false));
        assert_eq!(within(&[&["10.0.0.0/8"], &["10.1.0.0/16", "fd00::/8"]]).allows("10.0.0.1"), Ok(false));
        assert_eq!(within(&[&["10.0.0.0/8"], &[]]).allows("10.0.0.1"), Ok(false));
        assert_eq!(within(&[&["fd00::/8"]]).allows("fd00::1"), Ok(true));
        assert_eq!(within(&[&["0.0.0.0/0"]]).allows("example.com"), Ok(false));
        assert_eq!(Beyond::All.allows("10.0.0.1"), Ok(true));
        assert_eq!(Beyond::Unknown("not listed".into()).allows("10.0.0.1"), Err("not listed".into()));
    }
}
