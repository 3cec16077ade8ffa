//! Splits statements about accounts into tokens. So they are read as a server reads them, and what a backup holds reaches a
//! server only as single statements of a known kind. Pure.
//!
//! Statements are read and written for an `sql_mode` without `ANSI_QUOTES` and `NO_BACKSLASH_ESCAPES`.
//! <https://dev.mysql.com/doc/refman/8.4/en/string-literals.html>, <https://dev.mysql.com/doc/refman/8.4/en/identifiers.html>

use super::super::quoted;

/// A part of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    /// True if there is space before it.
    spaced: bool,
}

/// Kinds of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A keyword, a number, or a name without quotes.
    Word(String),
    /// A name in backquotes.
    Name(String),
    /// A text in quotes.
    Text(String),
    Sign(char),
}

/// The tokens of each statement, without the semicolon. An unterminated quote becomes a sign that no valid statement has.
pub fn statements(text: &str) -> Vec<Vec<Token>> {
    let mut statements = vec![Vec::new()];
    let mut rest = text;
    loop {
        let trimmed = rest.trim_start();
        let spaced = trimmed.len() < rest.len();
        let Some(first) = trimmed.chars().next() else { break };
        let (kind, length) = match first {
            '`' => quote(trimmed, '`').map_or((Kind::Sign('`'), trimmed.len()), |(text, end)| (Kind::Name(text), end)),
            '\'' | '"' => {
                quote(trimmed, first).map_or((Kind::Sign(first), trimmed.len()), |(text, end)| (Kind::Text(text), end))
            }
            _ if is_word(first) => {
                let end = trimmed.find(|it| !is_word(it)).unwrap_or(trimmed.len());
                (Kind::Word(trimmed[..end].to_owned()), end)
            }
            sign => (Kind::Sign(sign), sign.len_utf8()),
        };
        rest = &trimmed[length..];
        match (kind, statements.last_mut()) {
            (Kind::Sign(';'), _) => statements.push(Vec::new()),
            (kind, Some(statement)) => statement.push(Token { kind, spaced }),
            (_, None) => {}
        }
    }
    statements.retain(|statement| !statement.is_empty());
    statements
}

/// The text of a statement, in one line unless a name contains line breaks.
pub fn render(tokens: &[Token]) -> String {
    let mut text = String::new();
    for Token { kind, spaced } in tokens {
        if *spaced && !text.is_empty() {
            text.push(' ');
        }
        match kind {
            Kind::Word(word) => text.push_str(word),
            Kind::Name(name) => text.push_str(&quoted(name)),
            Kind::Text(value) => text.push_str(&literal(value)),
            Kind::Sign(sign) => text.push(*sign),
        }
    }
    text
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

/// The text between quotes, and where it ends; none if it does not end.
fn quote(text: &str, mark: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == mark {
            if letters.next_if(|(_, next)| *next == mark).is_none() {
                return Some((value, at + mark.len_utf8()));
            }
            value.push(mark);
        } else if letter == '\\' && mark != '`' {
            match letters.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'r' => value.push('\r'),
                '0' => value.push('\0'),
                'b' => value.push('\u{8}'),
                'Z' => value.push('\u{1a}'),
                // These escapes keep their backslash, because they are for patterns.
                other @ ('%' | '_') => value.extend(['\\', other]),
                other => value.push(other),
            }
        } else {
            value.push(letter);
        }
    }
    None
}

/// A text in the form for statements.
fn literal(text: &str) -> String {
    let mut literal = String::from("'");
    for letter in text.chars() {
        match letter {
            '\'' => literal.push_str("''"),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\0' => literal.push_str("\\0"),
            '\u{1a}' => literal.push_str("\\Z"),
            letter => literal.push(letter),
        }
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_statement_is_written_as_it_was_read() {
        for text in [
            "CREATE USER `o'dd \"``\\u`@`10.0.%` IDENTIFIED BY PASSWORD '*F2' REQUIRE SUBJECT '/CN=o''d' ACCOUNT LOCK",
            "CREATE USER `a`@`%` IDENTIFIED WITH 'caching_sha2_password' AS 0x244124 WITH MAX_STATEMENT_TIME 2.500000",
            "GRANT SELECT, UPDATE (`s`) ON `odd ``one`.`T``x` TO `staff`@`%`",
            "GRANT ALL PRIVILEGES ON `a\\_b`.* TO ``@`localhost` WITH GRANT OPTION",
        ] {
            assert_eq!(statements(text).iter().map(|it| render(it)).collect::<Vec<_>>(), [text]);
        }
        let text = r#"x 'it\'s \\ \n', "two ""words""" ;; y"#;
        let written: Vec<String> = statements(text).iter().map(|it| render(it)).collect();
        assert_eq!(written, [r#"x 'it''s \\ \n', 'two "words"'"#, "y"]);
    }

    #[test]
    fn a_quote_that_never_ends_is_no_text() {
        let tokens = statements("CREATE USER `a; DROP TABLE b;").concat();
        assert_eq!(tokens.last().map(|it| it.kind.clone()), Some(Kind::Sign('`')));
        assert_eq!(tokens.len(), 3);
    }

    proptest! {
        #[test]
        fn no_name_or_text_is_taken_for_more(name in any::<String>(), value in any::<String>()) {
            let token = |kind| Token { kind, spaced: true };
            let tokens = vec![token(Kind::Name(name)), token(Kind::Text(value)), token(Kind::Word("x".into()))];
            let mut read = statements(&format!(" {}", render(&tokens)));
            prop_assert_eq!(read.len(), 1);
            prop_assert_eq!(read.remove(0), tokens);
        }
    }
}
