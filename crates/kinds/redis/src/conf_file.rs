//! Files of settings, line by line. Pure.

/// The directive of a line.
pub fn directive(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

/// The file, with some directives as another file has them.
pub fn keeping(file: &str, other: &str, is_kept: impl Fn(&str) -> bool) -> String {
    let kept: Vec<&str> = other.lines().filter(|line| is_kept(directive(line))).collect();
    let has = |name: &str| kept.iter().any(|line| directive(line) == name);
    let mut lines: Vec<&str> = Vec::new();
    for line in file.lines() {
        let name = directive(line);
        if !is_kept(name) {
            lines.push(line);
        } else if has(name) && !lines.iter().any(|line| directive(line) == name) {
            lines.extend(kept.iter().filter(|line| directive(line) == name));
        }
    }
    let is_left = |line: &&&str| !lines.contains(*line);
    let left: Vec<&str> = kept.iter().filter(is_left).copied().collect();
    let mut text = String::new();
    for line in lines.into_iter().chain(left) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// The directive that Redis refused when it read its file, by its last words.
/// <https://github.com/redis/redis/blob/7.0/src/config.c> (`loadServerConfigFromString`)
pub fn refused_directive(words: &str) -> Option<&str> {
    let line = words.lines().rev().find_map(|line| line.strip_prefix(">>> "))?;
    Some(directive(line.trim_matches('\''))).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_directives_are_those_of_the_other_file() {
        let file = "a 1\nb 1\nloadmodule x\nloadmodule y\nz 1\n";
        let other = "a 0\nb 0\nc 0\nloadmodule w\n";
        let is_kept = |name: &str| name != "a" && name != "z";
        let mixed = keeping(file, other, is_kept);
        assert_eq!(mixed, "a 1\nb 0\nloadmodule w\nz 1\nc 0\n");
        assert_eq!(keeping(file, &mixed, is_kept), mixed, "again, it stays the same");
        assert_eq!(keeping(file, other, |_| false), file);
        assert_eq!(keeping(file, "a 0\n", |name| name == "b"), "a 1\nloadmodule x\nloadmodule y\nz 1\n");
    }

    #[test]
    fn the_refused_directive_is_read_from_the_last_words() {
        let words = "*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***\nReading the configuration file, at line 9\n>>> 'timeout \"x\"'\nno\n";
        assert_eq!(refused_directive(words), Some("timeout"));
        assert_eq!(refused_directive("# Out of memory"), None);
    }
}
