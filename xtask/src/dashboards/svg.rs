//! Writes pieces of SVG: <https://www.w3.org/TR/SVG2/>

use std::fmt::Write as _;

/// The fonts of texts. The widths below are those of the widest of them.
pub const FONTS: &str = "'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";
/// Replaces the rest of a text that is too long.
const REST: char = '…';

/// The style of a text.
#[derive(Clone, Copy)]
pub struct Type {
    /// The size in pixels.
    pub size: f64,
    /// Its colour.
    pub colour: &'static str,
    /// The part of the text at its position.
    pub anchor: Anchor,
    /// Whether it is bold.
    pub bold: bool,
}

/// A part of a text.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// The beginning.
    Start,
    /// The middle.
    Middle,
    /// The end.
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

impl Type {
    /// A text that begins at its position.
    pub const fn plain(size: f64, colour: &'static str) -> Self {
        Self { size, colour, anchor: Anchor::Start, bold: false }
    }

    /// The same style in bold.
    pub const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// The same style with another anchor.
    pub const fn at(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    /// Adds a text with its baseline at height `y`.
    pub fn set(self, to: &mut String, x: f64, y: f64, text: &str) {
        let weight = if self.bold { " font-weight=\"600\"" } else { "" };
        let _ = writeln!(
            to,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{}\"{weight}>{}</text>",
            self.size,
            self.colour,
            self.anchor.name(),
            escaped(text)
        );
    }

    /// The approximate width of a text, rather too large than too small.
    pub fn width(self, text: &str) -> f64 {
        let of = |letter: char| match letter {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '|' | '\'' | '!' | ' ' => 0.33,
            'f' | 't' | 'r' | '/' | '-' | '(' | ')' | '[' | ']' => 0.41,
            'm' | 'w' | 'M' | 'W' | '%' | '@' | REST => 0.96,
            'A'..='Z' => 0.72,
            _ => 0.63,
        };
        self.size * text.chars().map(of).sum::<f64>()
    }

    /// The text, cut to fit into `room`.
    pub fn fitted(self, text: &str, room: f64) -> String {
        if self.width(text) <= room {
            return text.to_owned();
        }
        let mut kept: String = text.to_owned();
        while kept.pop().is_some() {
            let shortened = format!("{}{REST}", kept.trim_end());
            if self.width(&shortened) <= room {
                return shortened;
            }
        }
        String::new()
    }

    /// The text in at most `lines` lines that fit into `room`.
    pub fn wrapped(self, text: &str, room: f64, lines: usize) -> Vec<String> {
        let mut done: Vec<String> = Vec::new();
        let mut words = text.split_whitespace().peekable();
        while words.peek().is_some() && done.len() + 1 < lines {
            let mut line = words.next().unwrap_or_default().to_owned();
            while let Some(word) = words.peek() {
                let longer = format!("{line} {word}");
                if self.width(&longer) > room {
                    break;
                }
                line = longer;
                words.next();
            }
            done.push(line);
        }
        let rest: Vec<&str> = words.collect();
        if !rest.is_empty() {
            done.push(self.fitted(&rest.join(" "), room));
        }
        done
    }
}

/// Escapes a text for XML.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // XML allows no other control characters.
            control if control.is_control() && !matches!(control, '\n' | '\t') => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}

/// A line through points. It is interrupted where two points are further apart than `apart`.
pub fn path(points: &[(f64, f64)], apart: f64) -> String {
    let mut drawn = String::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| points[before]).filter(|it| x - it.0 <= apart);
        let after = points.get(index + 1).copied().filter(|it| it.0 - x <= apart);
        match (before, after) {
            (None, Some(_)) => write!(drawn, "M{x:.1} {y:.1}"),
            // A line of zero length with round ends is a dot.
            (None, None) => write!(drawn, "M{x:.1} {y:.1}h0"),
            // A point on a horizontal line between two others is not needed.
            (Some(before), Some(after)) if level(before.1, y) && level(y, after.1) => Ok(()),
            (Some(_), _) => write!(drawn, "L{x:.1} {y:.1}"),
        }
        .ok();
    }
    drawn
}

fn level(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.05
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: Type = Type::plain(10.0, "#fff");

    #[test]
    fn texts_are_escaped() {
        let mut drawn = String::new();
        TYPE.bold().at(Anchor::End).set(&mut drawn, 1.0, 2.0, "a<b & \"c\"\u{1}");
        assert!(
            drawn.contains("text-anchor=\"end\" font-weight=\"600\">a&lt;b &amp; &quot;c&quot; </text>"),
            "{drawn}"
        );
    }

    #[test]
    fn texts_are_cut_where_the_room_ends() {
        assert_eq!(TYPE.fitted("short", 100.0), "short");
        let cut = TYPE.fitted("a rather long text", 60.0);
        assert!(cut.ends_with(REST) && TYPE.width(&cut) <= 60.0, "{cut}");
        assert_eq!(TYPE.fitted("nothing", 1.0), "");
    }

    #[test]
    fn texts_are_broken_between_words() {
        let lines = TYPE.wrapped("one two three four five six seven eight", 70.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("one two") && lines[1].ends_with(REST), "{lines:?}");
        assert_eq!(TYPE.wrapped("one", 70.0, 2), ["one"]);
    }

    #[test]
    fn a_line_is_interrupted_where_nothing_was_found() {
        let points = [(0.0, 5.0), (1.0, 5.0), (2.0, 5.0), (3.0, 4.0), (9.0, 1.0), (20.0, 2.0), (21.0, 3.0)];
        assert_eq!(path(&points, 2.0), "M0.0 5.0L2.0 5.0L3.0 4.0M9.0 1.0h0M20.0 2.0L21.0 3.0");
    }
}
