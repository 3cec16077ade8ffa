//! Parses the page into its files, its commands, and their expected output.

use std::fmt::Write as _;
use std::path::Path;

/// A part of a page.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// Text that is not interpreted.
    Text(String),
    /// A file for the reader to save.
    File { name: String, content: String },
    /// A command in a block `console`, and its expected output.
    Command {
        /// The command line. It has several lines if they end with a backslash.
        typed: String,
        /// The expected output: empty, or whole lines.
        printed: String,
    },
}

/// Splits a page into parts. A block `yaml` that begins with a comment `# NAME.yaml` is a file.
pub fn parse(page: &str) -> Vec<Part> {
    let mut parts = vec![Part::Text(String::new())];
    let (mut block, mut continues) = (None, false);
    for line in page.split_inclusive('\n') {
        let bare = line.trim_end();
        if let Some(language) = bare.strip_prefix("```") {
            block = if block.is_none() { Some(language.to_owned()) } else { None };
            parts.push(Part::Text(line.to_owned()));
            continue;
        }
        if block.as_deref() == Some("console") && !continues && bare.starts_with("$ ") {
            parts.push(Part::Command { typed: String::new(), printed: String::new() });
        }
        let file = bare.strip_prefix("# ").filter(|name| Path::new(name).extension().is_some_and(|it| it == "yaml"));
        if let (Some("yaml"), Some(name)) = (block.as_deref(), file) {
            parts.push(Part::File { name: name.to_owned(), content: String::new() });
        }
        match parts.last_mut() {
            Some(Part::Command { typed, printed }) => {
                let is_typed = continues || typed.is_empty();
                if is_typed { typed } else { printed }.push_str(line);
                continues = is_typed && bare.ends_with('\\');
            }
            Some(Part::Text(text) | Part::File { content: text, .. }) => text.push_str(line),
            None => {}
        }
    }
    parts
}

/// Joins the parts into a page.
pub fn write(parts: &[Part]) -> String {
    let mut page = String::new();
    for part in parts {
        let _ = match part {
            Part::Text(text) | Part::File { content: text, .. } => write!(page, "{text}"),
            Part::Command { typed, printed } => write!(page, "{typed}{printed}"),
        };
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Title\n\n```yaml\n# a.yaml\nkind: A\n```\n\n```console\n$ one \\\n    more\nsaid\n\nagain\n$ two\n```\nend\n";

    #[test]
    fn files_commands_and_outputs_are_found() {
        let parts = parse(PAGE);
        let found: Vec<&Part> = parts.iter().filter(|part| !matches!(part, Part::Text(_))).collect();
        assert_eq!(
            found,
            [
                &Part::File { name: "a.yaml".to_owned(), content: "# a.yaml\nkind: A\n".to_owned() },
                &Part::Command { typed: "$ one \\\n    more\n".to_owned(), printed: "said\n\nagain\n".to_owned() },
                &Part::Command { typed: "$ two\n".to_owned(), printed: String::new() },
            ]
        );
    }

    #[test]
    fn a_page_is_written_as_it_was_read() {
        assert_eq!(write(&parse(PAGE)), PAGE);
        let tutorial = include_str!("../../../../docs/tutorial.md");
        assert_eq!(write(&parse(tutorial)), tutorial);
    }
}
