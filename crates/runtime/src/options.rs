//! Parsers of options that several commands have.

/// Splits a list that was separated by commas into names. Empty entries and blanks around commas are ignored.
pub fn names(list: &[String]) -> Vec<String> {
    list.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Must be a valid tag value: <https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html>
pub fn cluster_name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    if (1..=100).contains(&text.len()) && text.chars().all(allowed) {
        Ok(text.into())
    } else {
        Err("give 1 to 100 letters, digits or any of - _ . / : @".into())
    }
}

/// Like [`cluster_name`], but an empty value counts as not set.
pub fn cluster_uid(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { cluster_name(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_name_must_fit_into_a_tag() {
        assert_eq!(cluster_name("prod-eu"), Ok("prod-eu".into()));
        assert!(cluster_name("").is_err());
        assert!(cluster_name("a\nb").is_err());
        assert!(cluster_uid("a\nb").is_err());
        assert_eq!(cluster_uid(""), Ok(String::new()));
    }
}
