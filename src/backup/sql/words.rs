//! Lists of names in messages. Pure.

/// The first `most` of these names, and how many more there are.
pub fn some_of(names: &[impl AsRef<str>], most: usize) -> String {
    let some = names.iter().take(most).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => some,
        more => format!("{some} and {more} more"),
    }
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
}
