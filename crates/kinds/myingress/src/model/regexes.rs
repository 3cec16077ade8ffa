//! Regular expressions that AWS can compile.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-rules.html>

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{self, Ast, ClassSetItem, Flag, Flags, FlagsItemKind, GroupKind, Visitor};

use super::Complaint;
use super::field::Field;
use super::text;

/// A regular expression of at most `most` characters, without look-around, backreferences, atomic groups, possessive
/// quantifiers, recursion and Unicode classes.
pub fn regex(expression: &str, most: usize, field: &Field<'_>) -> Result<(), Complaint> {
    text::printable(expression, 1, most, field)?;
    // The parser takes none of the features that AWS lacks, except for those that the visitor looks for.
    let parsed = Parser::new()
        .parse(expression)
        .map_err(|error| field.wrong(format_args!("is no regular expression that AWS takes: {}", error.kind())))?;
    ast::visit(&parsed, Lacking).map_err(|what| field.wrong(format_args!("must not have {what}: AWS does not take it")))
}

const UNICODE: &str = "a Unicode class such as \\p{L}";

/// Refuses flags that only this parser knows; `(?R)` means recursion elsewhere.
fn check_flags(flags: &Flags) -> Result<(), &'static str> {
    let strange = |kind: &FlagsItemKind| matches!(kind, FlagsItemKind::Flag(Flag::CRLF | Flag::Unicode));
    if flags.items.iter().any(|item| strange(&item.kind)) { Err("recursion or the flags R and u") } else { Ok(()) }
}

/// Finds what the parser takes but AWS does not.
struct Lacking;

impl Visitor for Lacking {
    type Output = ();
    type Err = &'static str;

    fn finish(self) -> Result<(), Self::Err> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        match ast {
            Ast::ClassUnicode(_) => Err(UNICODE),
            Ast::Flags(it) => check_flags(&it.flags),
            Ast::Group(it) => match &it.kind {
                GroupKind::NonCapturing(flags) => check_flags(flags),
                _ => Ok(()),
            },
            Ast::Repetition(it) if matches!(*it.ast, Ast::Repetition(_)) => Err("a possessive or repeated quantifier"),
            _ => Ok(()),
        }
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        match item {
            ClassSetItem::Unicode(_) => Err(UNICODE),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_expressions_are_taken() {
        for good in ["^/v[0-9]+/(.*)$", r"\/api\/(users|orders)\/?", "(?i)abc", r"^(.+?)\.example\.com$", "a{2,3}"] {
            regex(good, 128, &Field::spec()).unwrap();
        }
    }

    #[test]
    fn what_aws_cannot_compile_is_refused() {
        for bad in [
            "",
            "(",
            "[a",
            "a**",
            "*a",
            r"a\",
            "(?=a)",
            "(?!a)",
            "(?<=a)b",
            "(?>a)",
            r"(a)\1",
            r"\p{L}",
            r"[\pL]",
            "a++",
            "(?R)",
            "é",
            "a\nb",
            &"a".repeat(129),
            &"(".repeat(100),
        ] {
            assert!(regex(bad, 128, &Field::spec()).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_complaint_says_why() {
        let complaint = regex("a(b", 128, &Field::spec()).unwrap_err();
        assert_eq!(complaint.message, "spec is no regular expression that AWS takes: unclosed group");
    }
}
