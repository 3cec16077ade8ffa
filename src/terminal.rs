//! Output that people read on a terminal: its colours, and text of others in it.
//!
//! Names, messages, events and tags come from others, and must neither control the terminal nor look like lines of ours.

use std::borrow::Cow;
use std::io::{self, Write};

use serde_json::Value;

/// Text of others as part of one line: each character that cannot be printed is shown by its escape, such as `\n` or `\u{1b}`.
/// Such are control characters, breaks of lines, and those that change the direction of text or have no width.
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_plain(character) {
            shown.push(character);
        } else {
            shown.extend(character.escape_debug());
        }
    }
    shown.into()
}

/// Makes the text plain in its place.
pub fn make_plain(text: &mut String) {
    if let Cow::Owned(shown) = plain(text) {
        *text = shown;
    }
}

/// Makes all text in a value plain, names of fields included.
pub fn make_all_plain(value: &mut Value) {
    match value {
        Value::String(text) => make_plain(text),
        Value::Array(items) => items.iter_mut().for_each(make_all_plain),
        Value::Object(fields) => {
            for (mut name, mut value) in std::mem::take(fields) {
                make_plain(&mut name);
                make_all_plain(&mut value);
                fields.insert(name, value);
            }
        }
        _ => {}
    }
}

/// The text of an error: breaks of lines stay, but no line after the first begins at the margin.
pub fn block(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n    ")
}

/// JSON in which each character that cannot be printed is escaped as JSON has it: values stay what they are.
pub fn plain_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if character == '\n' || is_plain(character) {
            shown.push(character);
        } else {
            let mut units = [0; 2];
            shown.extend(character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    shown
}

/// Writes one line.
pub fn line(mut out: impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", plain(text))
}

/// Whether the character is printed as itself. Those that combine with the one before are.
fn is_plain(character: char) -> bool {
    matches!(character, ' '..='~') || String::from_iter(['a', character]).escape_debug().nth(1) != Some('\\')
}

/// Writes text in colour if there is a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    /// Whether the output goes to a terminal.
    pub terminal: bool,
}

impl Paint {
    fn with(self, code: u8, text: &str) -> String {
        let text = plain(text);
        if self.terminal { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.into_owned() }
    }

    /// Text about something healthy or added.
    pub fn green(self, text: &str) -> String {
        self.with(32, text)
    }

    /// Text about something unhealthy or removed.
    pub fn red(self, text: &str) -> String {
        self.with(31, text)
    }

    /// Green if `well`, otherwise red.
    pub fn health(self, well: bool, text: &str) -> String {
        if well { self.green(text) } else { self.red(text) }
    }

    /// A heading.
    pub fn strong(self, text: &str) -> String {
        self.with(1, text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Text that controls a terminal, or looks like another line or another word.
    const HOSTILE: [&str; 12] = [
        "\u{1b}[2J",
        "a\nb",
        "a\r\nb",
        "a\rb",
        "a\u{8}b",
        "\u{7f}",
        "\u{9b}31m",
        "\u{85}b",
        "\u{202e}txet",
        "\u{2066}x\u{2069}",
        "a\u{200b}b",
        "a\u{2028}b",
    ];

    fn is_shown(text: &str) -> bool {
        text.chars().all(is_plain)
    }

    #[test]
    fn what_cannot_be_printed_is_shown_by_its_escape() {
        for text in HOSTILE {
            assert!(!is_shown(text) && is_shown(&plain(text)), "{text:?}");
            assert_eq!(plain(&plain(text)), plain(text), "{text:?}");
        }
        assert_eq!(plain("a\u{1b}[31mb\nc"), "a\\u{1b}[31mb\\nc");
        for text in ["", "it's \"a\" \\ b", "Größe 5 €", "e\u{301}", "日本", "»…→"] {
            assert_eq!(plain(text), text);
        }
    }

    #[test]
    fn errors_keep_their_lines_but_none_begins_where_ours_do() {
        assert_eq!(block("line 1\nfixed: all is well\u{1b}[1A"), "line 1\n    fixed: all is well\\u{1b}[1A");
    }

    #[test]
    fn json_says_the_same_without_a_character_that_cannot_be_printed() {
        for text in HOSTILE {
            let value = json!({ (text): [text] });
            let json = plain_json(&serde_json::to_string_pretty(&value).unwrap());
            assert!(json.chars().all(|it| it == '\n' || is_plain(it)), "{json:?}");
            assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
            let mut shown = value;
            make_all_plain(&mut shown);
            assert!(is_shown(&shown.to_string()), "{shown}");
        }
    }

    #[test]
    fn colours_are_for_text_that_is_plain() {
        let paint = Paint { terminal: true };
        assert_eq!(paint.green("a\u{1b}[31mb"), "\u{1b}[32ma\\u{1b}[31mb\u{1b}[0m");
    }
}
