//! Finds links and headings on a page in Markdown. Pure. <https://spec.commonmark.org/0.31.2/#links>,
//! <https://spec.commonmark.org/0.31.2/#code-spans>

use std::collections::HashMap;
use std::ops::Range;

/// The positions of link targets in `[text](target)`, outside of code.
pub fn links(text: &str) -> Vec<Range<usize>> {
    let plain = without_code(text);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = plain[from..].find("](") {
        let begin = from + at + 2;
        let end = plain[begin..].find([')', '\n', ' ']).map_or(plain.len(), |length| begin + length);
        if plain[end..].starts_with([')', ' ']) {
            found.push(begin..end);
        }
        from = end;
    }
    found
}

/// The anchors of its headings, as GitHub and mdBook generate them.
pub fn anchors(text: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let fenced = masked_fences(text);
    let headings = fenced
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let unique = |heading: &str| {
        let anchor = anchor(heading);
        let count = seen.entry(anchor.clone()).or_default();
        *count += 1;
        if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
    };
    headings.map(unique).collect()
}

fn anchor(heading: &str) -> String {
    // Of a link, only the text is in the anchor.
    let mut text = heading.to_owned();
    for link in links(heading).into_iter().rev() {
        text.replace_range(link.start - 1..=link.end, "");
    }
    let letter = |it: char| match it {
        ' ' => Some('-'),
        it if it.is_alphanumeric() || it == '-' || it == '_' => Some(it),
        _ => None,
    };
    text.trim().to_lowercase().chars().filter_map(letter).collect()
}

/// The text with code replaced by spaces, so that positions stay the same.
fn without_code(text: &str) -> String {
    let mut plain = masked_fences(text).into_bytes();
    let mut at = 0;
    while at < plain.len() {
        let ticks = run_of_ticks(&plain, at);
        if ticks == 0 {
            at += 1;
            continue;
        }
        let begin = at + ticks;
        let Some(end) = closing(&plain, begin, ticks) else {
            at = begin;
            continue;
        };
        plain[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    // Characters of several bytes were replaced as a whole.
    String::from_utf8_lossy(&plain).into_owned()
}

fn run_of_ticks(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|byte| **byte == b'`').count()
}

/// The position after the ticks that end a span of code within the paragraph.
fn closing(bytes: &[u8], begin: usize, ticks: usize) -> Option<usize> {
    let mut at = begin;
    while at < bytes.len() && !bytes[at..].starts_with(b"\n\n") {
        let run = run_of_ticks(bytes, at);
        if run == ticks {
            return Some(at + run);
        }
        at += run.max(1);
    }
    None
}

/// A block of fenced code. <https://spec.commonmark.org/0.31.2/#fenced-code-blocks>
pub struct Fence<'a> {
    /// The text after the opening marks.
    pub language: &'a str,
    /// The indentation of the marks.
    pub indent: usize,
    /// All its lines, including the marks.
    pub whole: Range<usize>,
    /// The lines of the code.
    pub code: Range<usize>,
}

/// All blocks of fenced code. A block without an end extends to the end of the text.
pub fn fences(text: &str) -> Vec<Fence<'_>> {
    let mut fences: Vec<Fence<'_>> = Vec::new();
    let (mut open, mut at) = (None, 0);
    for line in text.split_inclusive('\n') {
        let (begin, end) = (at, at + line.len());
        at = end;
        let word = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| word.starts_with(mark));
        match (open, mark, fences.last_mut()) {
            (None, Some(mark), _) => {
                let (language, indent) = (word[mark.len()..].trim(), line.len() - word.len());
                fences.push(Fence { language, indent, whole: begin..text.len(), code: end..text.len() });
                open = Some(mark);
            }
            (Some(opened), Some(mark), Some(fence)) if opened == mark => {
                (fence.whole.end, fence.code.end) = (end, begin);
                open = None;
            }
            _ => {}
        }
    }
    fences
}

/// The text with fenced code replaced by spaces.
fn masked_fences(text: &str) -> String {
    let mut masked = text.as_bytes().to_vec();
    for fence in fences(text) {
        masked[fence.whole].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    // Lines were replaced as a whole.
    String::from_utf8_lossy(&masked).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<&str> {
        links(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn links_are_found_outside_of_code() {
        let text =
            "See [a](b.md#c), [`code`](d) and `[not](this)`.\n\n```console\n[nor](this)\n```\n[ü](e) ![i](f.svg \"t\")";
        assert_eq!(targets(text), ["b.md#c", "d", "e", "f.svg"]);
        assert_eq!(targets("`` a ` [x](y) `` [z](w) and a lone ` [v](u)"), ["w", "u"]);
        assert_eq!(targets("[broken](over\nlines)"), [""; 0]);
    }

    #[test]
    fn anchors_are_those_of_github() {
        let text = "# A page\n## `spec.x`: PostgreSQL, MySQL and MariaDB\n## Fields\n```\n# no heading\n```\n## Fields\n### [Linked](to.md) heading";
        assert_eq!(
            anchors(text),
            ["a-page", "specx-postgresql-mysql-and-mariadb", "fields", "fields-1", "linked-heading"]
        );
    }
}
