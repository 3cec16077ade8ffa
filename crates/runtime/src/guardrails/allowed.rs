//! Compares values with a list of allowed ones. Pure.

use causeway_api::network;

/// Returns true if a pattern matches the whole text; `*` stands for any text, including none.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Returns true if all addresses of `network` are in `allowed`. If either is not a network, both must be the same text.
pub fn contains(allowed: &str, network: &str) -> bool {
    match (network::parse(allowed), network::parse(network)) {
        (Some(allowed), Some(network)) => allowed.contains(&network),
        _ => allowed == network,
    }
}

/// Returns true if the text is a network, such as `10.0.0.0/8`.
pub fn is_network(text: &str) -> bool {
    network::parse(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_and_nothing_else_does() {
        for (pattern, text, matched) in [
            ("redis:7", "redis:7", true),
            ("redis:7", "redis:7.0", false),
            ("redis:*", "redis:7.0", true),
            ("redis:*", "evil/redis:7.0", false),
            ("registry.example.com/*", "registry.example.com/team/a:1", true),
            ("registry.example.com/*", "registry.example.com.evil.org/a", false),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("a*a", "a", false),
            ("arn:aws:acm:*:1111:certificate/*", "arn:aws:acm:eu:2222:certificate/x", false),
            ("redis.7", "redis:7", false),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, text), matched, "{pattern} {text}");
        }
    }

    #[test]
    fn a_network_is_allowed_where_all_of_it_is() {
        for (allowed, network, inside) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.0.0.0/8", "10.0.0.0/8", true),
            ("10.0.0.0/8", "10.0.0.0/7", false),
            ("10.0.0.0/8", "0.0.0.0/0", false),
            ("0.0.0.0/0", "192.0.2.1/32", true),
            ("0.0.0.0/0", "::/0", false),
            ("::/0", "10.0.0.0/8", false),
            ("2001:db8::/32", "2001:db8:1::/48", true),
            ("2001:db8::/32", "2001:db9::/48", false),
            ("10.1.2.3/8", "10.9.0.0/16", true),
            ("pl-1", "pl-1", true),
            ("pl-1", "pl-2", false),
            ("10.0.0.0/8", "10.0.0.0/99", false),
        ] {
            assert_eq!(contains(allowed, network), inside, "{allowed} {network}");
        }
    }
}
