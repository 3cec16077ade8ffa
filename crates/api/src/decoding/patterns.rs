//! Tests: patterns of schemas.

use std::cell::RefCell;
use std::collections::BTreeMap;

use regex_lite::Regex;

thread_local! {
    static PATTERNS: RefCell<BTreeMap<String, Regex>> = RefCell::default();
}

/// Reports whether a text fits a pattern, which is compiled once.
pub fn fits(pattern: &str, text: &str) -> bool {
    PATTERNS.with_borrow_mut(|all| {
        let compiled = all.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).expect("a pattern"));
        compiled.is_match(text)
    })
}
