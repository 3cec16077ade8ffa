//! Finds links, anchors and blocks of code on a page in Markdown. Pure.

use std::collections::HashMap;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The targets of all links and pictures, and their positions. A target that is defined elsewhere on the page has none.
pub fn links(text: &str) -> Vec<(Option<Range<usize>>, String)> {
    let target = |(event, range): (Event, Range<usize>)| {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else { return None };
        let at = text[range.clone()].rfind(&*dest_url).map(|at| range.start + at);
        Some((at.map(|at| at..at + dest_url.len()), dest_url.into_string()))
    };
    Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter().filter_map(target).collect()
}

/// The anchors of its headings, as GitHub and mdBook generate them.
pub fn anchors(text: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let (mut anchors, mut heading) = (Vec::new(), None);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                let count = seen.entry(anchor.clone()).or_default();
                anchors.push(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
                *count += 1;
            }
            _ => {}
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let letter = |it: char| match it {
        ' ' => Some('-'),
        it if it.is_alphanumeric() || it == '-' || it == '_' => Some(it),
        _ => None,
    };
    heading.trim().to_lowercase().chars().filter_map(letter).collect()
}

/// The content of all fenced blocks in a language, without the indentation of a list around them.
pub fn blocks(text: &str, language: &str) -> Vec<String> {
    let (mut found, mut inside) = (Vec::new(), false);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(name))) if name.starts_with(language) => {
                found.push(String::new());
                inside = true;
            }
            Event::Text(part) if inside => found.last_mut().into_iter().for_each(|block| block.push_str(&part)),
            Event::End(TagEnd::CodeBlock) => inside = false,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "See [a](b.md#c), [`code`](d) and `[not](this)`.\n\n```console\n[nor](this)\n```\n[ü](e) ![i](f.svg \"t\")\n\
                    [g][h]\n\n[h]: i.md";
        let found = links(text);
        let targets: Vec<&str> = found.iter().map(|(_, target)| target.as_str()).collect();
        assert_eq!(targets, ["b.md#c", "d", "e", "f.svg", "i.md"]);
        for (range, target) in &found[..4] {
            assert_eq!(&text[range.clone().unwrap()], target);
        }
        assert_eq!(found[4].0, None);
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
