//! Lists of names in messages. Pure.

/// The first `most` of these names, and how many more there are.
pub fn some_of(names: &[impl AsRef<str>], most: usize) -> String {
    let some = names.iter().take(most).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => some,
        more => format!("{some} and {more} more"),
    }
}

/// The most names that a fact of a manifest has.
const NAMED: usize = 3;
/// Characters of such a name.
const NAME: usize = 36;

/// Names in the form of a fact of a manifest; none if there are none.
pub fn listed(names: &[String]) -> Option<String> {
    let clean = |name: &String| name.chars().filter(|it| !it.is_control()).take(NAME).collect::<String>();
    let names: Vec<String> = names.iter().map(clean).collect();
    (!names.is_empty()).then(|| some_of(&names, NAMED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_have_no_place_are_counted() {
        assert_eq!(some_of(&["a", "b"], 2), "a, b");
        assert_eq!(some_of(&["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!(some_of(&[] as &[&str], 2), "");
    }

    #[test]
    fn names_of_what_is_left_out_fit_into_a_manifest() {
        let names = |count: usize, length: usize| vec!["\n".to_owned() + &"n".repeat(length); count];
        assert_eq!(listed(&[]), None);
        assert_eq!(listed(&names(1, 5)).as_deref(), Some("nnnnn"));
        assert_eq!(listed(&names(2, 2)).as_deref(), Some("nn, nn"));
        let longest = listed(&names(900, 63)).unwrap();
        assert!(longest.len() <= 128 && longest.ends_with(" and 897 more"), "{longest}");
    }
}
