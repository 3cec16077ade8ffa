//! Checks of texts that AWS takes, and of networks.

use std::net::IpAddr;

use causeway_api::network::canonical;

use super::Complaint;
use super::field::Field;

/// Printable ASCII, from `least` to `most` characters.
pub fn printable(text: &str, least: usize, most: usize, field: &Field<'_>) -> Result<(), Complaint> {
    of_characters(text, least, most, field, |c| c == ' ' || c.is_ascii_graphic(), "printable ASCII characters")
}

/// As [`printable`], without spaces.
pub fn unbroken(text: &str, least: usize, most: usize, field: &Field<'_>) -> Result<(), Complaint> {
    of_characters(text, least, most, field, |c| c.is_ascii_graphic(), "printable ASCII characters without spaces")
}

/// From `least` to `most` characters, all of which `allowed` accepts. `kind` describes them in messages.
pub fn of_characters(
    text: &str,
    least: usize,
    most: usize,
    field: &Field<'_>,
    allowed: impl Fn(char) -> bool,
    kind: &str,
) -> Result<(), Complaint> {
    if let Some(strange) = text.chars().find(|c| !allowed(*c)) {
        return field.complain(format_args!("has {strange:?}, which AWS does not take: use {kind}"));
    }
    let length = text.chars().count();
    if length < least || length > most {
        return field.complain(format_args!("has {length} characters: use {least} to {most}"));
    }
    Ok(())
}

/// A full URL that begins with `https://`.
pub fn https_url(url: &str, most: usize, field: &Field<'_>) -> Result<(), Complaint> {
    unbroken(url, 1, most, field)?;
    match url.strip_prefix("https://") {
        Some(rest) if !rest.is_empty() && !rest.starts_with(['/', '?', '#']) => Ok(()),
        _ => field.complain("must be a full URL that begins with https:// and a host"),
    }
}

/// An ARN of this service: `arn:<partition>:<service>:…`.
pub fn arn(arn: &str, services: &[&str], field: &Field<'_>) -> Result<(), Complaint> {
    unbroken(arn, 1, 2048, field)?;
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    match parts[..] {
        ["arn", partition, service, _, _, resource]
            if !partition.is_empty() && services.contains(&service) && !resource.is_empty() =>
        {
            Ok(())
        }
        _ => field.complain(format_args!("must be an ARN of {}, as AWS shows it", services.join(" or "))),
    }
}

/// An id such as `subnet-0a1b2c3d`.
pub fn id(id: &str, prefix: &str, field: &Field<'_>) -> Result<(), Complaint> {
    let rest = id.strip_prefix(prefix).unwrap_or_default();
    let good = !rest.is_empty() && rest.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()) && id.len() <= 64;
    if good { Ok(()) } else { field.complain(format_args!("must be an id such as {prefix}0a1b2c3d")) }
}

/// A network in the one form in which AWS keeps it: host bits are zero, and IPv6 is short and in lower case.
pub fn network(text: &str, field: &Field<'_>) -> Result<String, Complaint> {
    canonical(text).ok_or_else(|| {
        if text.parse::<IpAddr>().is_ok() {
            let whole = if text.contains(':') { 128 } else { 32 };
            return field.wrong(format_args!("must be a network: for this one address write {text}/{whole}"));
        }
        field.wrong("must be a network such as 192.0.2.0/24 or 2001:db8::/32")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_kept_in_its_one_form() {
        for (written, kept) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("192.0.2.1/32", "192.0.2.1/32"),
            ("2001:DB8:0:0::7/32", "2001:db8::/32"),
            ("::/0", "::/0"),
            ("::1/128", "::1/128"),
            ("10.0.0.0/008", "10.0.0.0/8"),
            ("::ffff:10.1.2.3/104", "::ffff:10.0.0.0/104"),
        ] {
            assert_eq!(network(written, &Field::spec()).unwrap(), kept);
        }
    }

    #[test]
    fn what_is_no_network_is_named() {
        for text in
            ["", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/+8", "10.0.0.0/", "::/129", "a/8", "10.0.0.0/8\n", "010.0.0.0/8"]
        {
            let complaint = network(text, &Field::spec()).unwrap_err();
            assert_eq!(complaint.message, "spec must be a network such as 192.0.2.0/24 or 2001:db8::/32", "{text:?}");
        }
        let complaint = network("192.0.2.7", &Field::spec()).unwrap_err();
        assert_eq!(complaint.message, "spec must be a network: for this one address write 192.0.2.7/32");
    }

    #[test]
    fn a_strange_character_is_shown() {
        let complaint = printable("a\nb", 1, 9, &Field::spec()).unwrap_err();
        assert_eq!(complaint.message, r"spec has '\n', which AWS does not take: use printable ASCII characters");
        assert!(printable("", 1, 9, &Field::spec()).is_err());
        assert!(unbroken("a b", 1, 9, &Field::spec()).is_err());
        assert!(printable("a b", 1, 3, &Field::spec()).is_ok());
    }

    #[test]
    fn an_arn_is_of_the_right_service() {
        let good = "arn:aws:acm:eu-west-1:123456789012:certificate/a";
        assert!(arn(good, &["acm", "iam"], &Field::spec()).is_ok());
        for bad in ["arn:aws:s3:::bucket", "arn:aws:acm", "certificate/a", "arn::acm:r:1:x", "arn:aws:acm:r:1:"] {
            assert!(arn(bad, &["acm", "iam"], &Field::spec()).is_err(), "{bad}");
        }
    }
}
