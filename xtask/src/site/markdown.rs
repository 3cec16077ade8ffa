//! Links and headings of a page in Markdown. Pure.
//! <https://spec.commonmark.org/0.31.2/#links>, <https://spec.commonmark.org/0.31.2/#code-spans>

use std::collections::HashMap;
use std::ops::Range;

/// Where the targets of links are: in `[text](target)`, not in code.
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

/// The anchors of its headings, as GitHub and mdBook make them.
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
    // Of a link its text counts.
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

/// The text with spaces in place of code, so that places stay what they are.
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
    // Letters of several bytes were replaced as a whole.
    String::from_utf8_lossy(&plain).into_owned()
}

fn run_of_ticks(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|byte| **byte == b'`').count()
}

/// Behind the ticks that end a span of code within the paragraph.
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

/// The text with spaces in place of fenced code.
fn masked_fences(text: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut masked = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let word = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| word.starts_with(mark));
        let is_code = fence.is_some() || mark.is_some();
        fence = match (fence, mark) {
            (None, mark) => mark,
            (Some(open), Some(mark)) if open == mark => None,
            (open, _) => open,
        };
        if is_code {
            masked.extend(line.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        } else {
            masked.push_str(line);
        }
    }
    masked
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
