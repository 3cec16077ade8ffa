//! Output that people read on a terminal: its colours, and text of others in it.
//!
//! Names, messages, events and tags come from others, and must neither control the terminal nor look like lines of ours.

use std::borrow::Cow;
use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
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

/// Writes one line, without unprintable characters.
pub fn line(mut out: impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", plain(text))
}

/// Reports whether the character is printed as itself. Those that combine with the one before are.
fn is_plain(character: char) -> bool {
    matches!(character, ' '..='~') || String::from_iter(['a', character]).escape_debug().nth(1) != Some('\\')
}

/// Writes text, which may be coloured, on standard output. Colours are for terminals, and not for those who set
/// `NO_COLOR`: <https://docs.rs/anstream/latest/anstream/struct.AutoStream.html>.
pub fn print(text: &str) -> io::Result<()> {
    anstream::stdout().write_all(text.as_bytes())
}

/// Reports whether lines on standard error may have colours.
pub fn has_coloured_errors() -> bool {
    AutoStream::choice(&io::stderr()) != ColorChoice::Never
}

const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();
const STRONG: Style = Style::new().bold();

fn styled(style: Style, text: &str) -> String {
    format!("{style}{}{style:#}", plain(text))
}

/// Text about something healthy or added.
pub fn green(text: &str) -> String {
    styled(GREEN, text)
}

/// Text about something unhealthy or removed.
pub fn red(text: &str) -> String {
    styled(RED, text)
}

/// Green if `well`, otherwise red.
pub fn health(well: bool, text: &str) -> String {
    if well { green(text) } else { red(text) }
}

/// Returns a heading in bold.
pub fn strong(text: &str) -> String {
    styled(STRONG, text)
}

/// Removes our own colours and nothing else that controls a terminal.
#[cfg(any(test, feature = "testing"))]
pub fn uncoloured(text: &str) -> String {
    let codes = [GREEN, RED, STRONG].map(|style| style.to_string());
    codes.iter().fold(text.replace("\u{1b}[0m", ""), |text, code| text.replace(code, ""))
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
    fn json_is_equal_without_unprintable_characters() {
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
        assert_eq!(green("a\u{1b}[31mb"), "\u{1b}[32ma\\u{1b}[31mb\u{1b}[0m");
    }

    #[test]
    fn without_colours_the_text_stays_as_it_is() {
        let text = ["Größe 5 €\n  ", &green("日本"), &red(""), " »…→ e\u{301}\t", &strong("x"), "\n"].concat();
        let mut out = AutoStream::never(Vec::new());
        out.write_all(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(out.into_inner()).unwrap(), "Größe 5 €\n  日本 »…→ e\u{301}\tx\n");
        assert_eq!(uncoloured(&text), "Größe 5 €\n  日本 »…→ e\u{301}\tx\n");
    }
}
