//! Splits a dump of MySQL or MariaDB into its statements, as it passes. Pure.
//!
//! Data, comments and the bodies of programs are never taken for statements. Quotes and comments are read as the server
//! read them when it stored the body: by the `sql_mode` that the dump sets before it.
//! <https://dev.mysql.com/doc/refman/8.4/en/string-literals.html>, <https://dev.mysql.com/doc/refman/8.4/en/comments.html>,
//! <https://mariadb.com/kb/en/comment-syntax/>

use std::ops::Range;

/// Bytes of a statement that are kept to recognize it. Modes and names fit easily.
const HEAD: usize = 1024;
/// Bytes that must be looked at together: a mark of a comment, a delimiter, or the command that changes it.
const AHEAD: usize = 16;
/// The client's own command that changes the delimiter, so that a `;` does not end a program.
const DELIMITER: &[u8] = b"DELIMITER ";
/// The delimiter of everything except programs.
const PLAIN: &[u8] = b";";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement<'a> {
    /// Where the statement before it ends: comments may be in between.
    pub begin: u64,
    /// Its own bytes with its delimiter.
    pub range: Range<u64>,
    /// The first bytes of the statement.
    pub head: &'a [u8],
    /// True if it ends with a semicolon. Programs have another delimiter.
    pub plain: bool,
}

/// The construct that the reader is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Nothing,
    /// A text or a name in these quotes.
    Quotes(u8),
    /// A comment up to the end of the line.
    Line,
    /// A comment up to its end mark.
    Block,
    /// The argument of `DELIMITER`.
    Delimiter,
}

/// Reads the statements of a dump.
pub struct Statements {
    /// True if `/*M!` comments are statements, as they are for MariaDB.
    maria: bool,
    inside: Inside,
    delimiter: Vec<u8>,
    /// Modes of the session: whether backslashes are escapes, and whether double quotes are for names.
    escapes: bool,
    ansi: bool,
    /// Bytes that were not read yet, and their offset in the dump.
    held: Vec<u8>,
    at: u64,
    /// Where the statement before ends, and where this one begins; none before its first byte.
    begin: u64,
    first: Option<u64>,
    head: Vec<u8>,
}

impl Statements {
    /// A reader for a dump. `maria` says whether the server is MariaDB.
    pub fn new(maria: bool) -> Self {
        Self {
            maria,
            inside: Inside::Nothing,
            delimiter: PLAIN.to_vec(),
            escapes: true,
            ansi: false,
            held: Vec::new(),
            at: 0,
            begin: 0,
            first: None,
            head: Vec::new(),
        }
    }

    /// Takes what comes next, and shows each statement that ends in it.
    pub fn push(&mut self, bytes: &[u8], show: &mut impl FnMut(&Statement<'_>)) {
        self.held.extend_from_slice(bytes);
        self.read(self.held.len().saturating_sub(AHEAD), show);
    }

    /// The length of the dump; none if the last statement has no end.
    pub fn finish(mut self, show: &mut impl FnMut(&Statement<'_>)) -> Option<u64> {
        self.read(self.held.len(), show);
        let is_whole = matches!(self.inside, Inside::Nothing | Inside::Line) && self.first.is_none();
        (is_whole && self.delimiter == PLAIN).then_some(self.at)
    }

    fn read(&mut self, limit: usize, show: &mut impl FnMut(&Statement<'_>)) {
        let held = std::mem::take(&mut self.held);
        let mut used = 0;
        while used < limit {
            let rest = &held[used..];
            let taken = self.step(rest, show).clamp(1, rest.len());
            if self.first.is_some() {
                self.keep(&rest[..taken]);
            }
            used += taken;
            self.at += taken as u64;
        }
        self.held = held[used..].to_vec();
    }

    /// Reads on, and returns how many bytes were taken.
    fn step(&mut self, rest: &[u8], show: &mut impl FnMut(&Statement<'_>)) -> usize {
        match self.inside {
            Inside::Quotes(mark) => self.quotes(rest, mark),
            Inside::Line => match rest.iter().position(|byte| *byte == b'\n') {
                Some(end) => self.leave(end + 1),
                None => rest.len(),
            },
            Inside::Block => match rest.windows(2).position(|pair| pair == b"*/") {
                Some(end) => self.leave(end + 2),
                None => rest.len() - 1,
            },
            Inside::Delimiter => self.delimiter(rest),
            Inside::Nothing => self.outside(rest, show),
        }
    }

    fn leave(&mut self, taken: usize) -> usize {
        self.inside = Inside::Nothing;
        taken
    }

    /// Reads up to the end of a text or a name. A quote inside is doubled, and is read as an end and a new beginning.
    fn quotes(&mut self, rest: &[u8], mark: u8) -> usize {
        let escapes = self.escapes && (mark == b'\'' || (mark == b'"' && !self.ansi));
        match rest.iter().position(|byte| *byte == mark || (escapes && *byte == b'\\')) {
            None => rest.len(),
            Some(at) if rest[at] == mark => self.leave(at + 1),
            // The byte that the backslash escapes is not here yet.
            Some(at) if at + 1 == rest.len() => at,
            Some(at) => at + 2,
        }
    }

    /// Reads the new delimiter: the rest of the line, trimmed.
    fn delimiter(&mut self, rest: &[u8]) -> usize {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let part = &rest[..end.unwrap_or(rest.len())];
        self.head.extend_from_slice(&part[..part.len().min(HEAD.saturating_sub(self.head.len()))]);
        let Some(end) = end else { return rest.len() };
        let word = std::mem::take(&mut self.head).trim_ascii().to_vec();
        // A delimiter longer than AHEAD could not be recognized, and no dump has one.
        if !word.is_empty() && word.len() <= AHEAD {
            self.delimiter = word;
        }
        self.begin = self.at + end as u64 + 1;
        self.leave(end + 1)
    }

    fn outside(&mut self, rest: &[u8], show: &mut impl FnMut(&Statement<'_>)) -> usize {
        if self.first.is_none() {
            let space = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if space > 0 {
                return space;
            }
            if rest.get(..DELIMITER.len()).is_some_and(|word| word.eq_ignore_ascii_case(DELIMITER)) {
                self.inside = Inside::Delimiter;
                return DELIMITER.len();
            }
        }
        if rest.starts_with(&self.delimiter) {
            self.end(show);
            return self.delimiter.len();
        }
        match rest {
            [b'#', ..] | [b'-', b'-'] => self.inside = Inside::Line,
            [b'-', b'-', next, ..] if next.is_ascii_whitespace() || next.is_ascii_control() => {
                self.inside = Inside::Line;
            }
            [b'/', b'*', after @ ..] if !self.is_statement(after) => {
                self.inside = Inside::Block;
                return 2;
            }
            _ => return self.code(rest),
        }
        1
    }

    /// Reports whether a comment that goes on like this is a part of a statement: servers of some versions execute its text.
    fn is_statement(&self, after: &[u8]) -> bool {
        after.starts_with(b"!") || (self.maria && after.starts_with(b"M!"))
    }

    /// Reads code up to the next byte that may begin a text, a name, a comment or the delimiter.
    fn code(&mut self, rest: &[u8]) -> usize {
        self.first.get_or_insert(self.at);
        if let mark @ (b'\'' | b'"' | b'`') = rest[0] {
            self.inside = Inside::Quotes(mark);
            return 1;
        }
        let end = self.delimiter[0];
        let is_other = |byte: &u8| matches!(byte, b'\'' | b'"' | b'`' | b'#' | b'-' | b'/') || *byte == end;
        rest[1..].iter().position(is_other).map_or(rest.len(), |at| at + 1)
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = HEAD.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Ends the statement at the delimiter.
    fn end(&mut self, show: &mut impl FnMut(&Statement<'_>)) {
        let end = self.at + self.delimiter.len() as u64;
        if let Some(first) = self.first.take() {
            let plain = self.delimiter == PLAIN;
            show(&Statement { begin: self.begin, range: first..end, head: &self.head, plain });
            if let Some(modes) = modes(&self.head) {
                let has = |mode: &str| modes.split(',').any(|it| it == mode);
                (self.escapes, self.ansi) = (!has("NO_BACKSLASH_ESCAPES"), has("ANSI_QUOTES"));
            }
            self.begin = end;
        }
        self.head.clear();
    }
}

/// The statement without the comment around it that hides it from servers of some versions.
pub fn bare(head: &[u8]) -> &[u8] {
    let Some(inner) = head.strip_prefix(b"/*!").or_else(|| head.strip_prefix(b"/*M!")) else { return head };
    let digits = inner.iter().take_while(|byte| byte.is_ascii_digit()).count();
    inner[digits..].trim_ascii_start()
}

/// The modes that a statement sets; none if it does not set `sql_mode`. Without any mode if it restores the earlier value: that
/// is the dump's own, which has neither mode that matters here.
fn modes(head: &[u8]) -> Option<String> {
    let mut words = std::str::from_utf8(bare(head)).ok()?.splitn(2, '=');
    let (before, value) = (words.next()?.to_ascii_lowercase(), words.next()?.trim_start());
    if before.split_whitespace().collect::<Vec<_>>() != ["set", "sql_mode"] {
        return None;
    }
    Some(value.strip_prefix('\'').and_then(|text| text.split('\'').next()).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The statements of a dump that comes in pieces of that size.
    fn read(dump: &str, cut: usize, maria: bool) -> Option<Vec<String>> {
        let (mut statements, mut found, mut end) = (Statements::new(maria), Vec::new(), 0);
        let mut show = |it: &Statement<'_>| {
            assert!(end <= it.begin && it.begin <= it.range.start, "{it:?}");
            end = it.range.end;
            let place = |at: u64| usize::try_from(at).unwrap();
            let text = &dump[place(it.range.start)..place(it.range.end)];
            assert!(text.as_bytes().starts_with(&it.head[..it.head.len().min(1)]));
            found.push(text.to_owned());
        };
        for chunk in dump.as_bytes().chunks(cut) {
            statements.push(chunk, &mut show);
        }
        let length = statements.finish(&mut show)?;
        assert_eq!(length, dump.len() as u64);
        Some(found)
    }

    #[test]
    fn statements_are_told_from_whatever_looks_like_them() {
        let dump = "-- it's; a comment\nA 'x;\\';';\n\nB `;\\`; # it's\n/* it's; */ C--D \"\\\";\";\n\
            /*!50003 SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES' */ ;\nDELIMITER ;;\n\
            E ';\\' \";\\\" ; -- it's ;;\nDELIMITER ;\nF ;;\nDELIMITER ;\n/*!50003 SET sql_mode = @saved_sql_mode */ ;\n\
            G '\\';' /*!50003 'x;' /* it's */ */;\n--\nH;\n-- Dump completed";
        let expected = [
            "A 'x;\\';';",
            "B `;\\`;",
            "C--D \"\\\";\";",
            "/*!50003 SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES' */ ;",
            "E ';\\' \";\\\" ; -- it's ;;\nDELIMITER ;\nF ;;",
            "/*!50003 SET sql_mode = @saved_sql_mode */ ;",
            "G '\\';' /*!50003 'x;' /* it's */ */;",
            "H;",
        ];
        for cut in 1..40 {
            assert_eq!(read(dump, cut, true).unwrap(), expected, "cut in {cut}");
        }
    }

    #[test]
    fn a_dump_that_was_cut_is_not_taken() {
        for dump in ["A", "A 'x;", "A /* ;", "DELIMITER ;;\nA ;;\n", "A;\nB `;"] {
            assert_eq!(read(dump, 7, true), None, "{dump}");
        }
        assert_eq!(read("", 7, true), Some(Vec::new()));
    }

    #[test]
    fn comments_of_mariadb_are_nothing_to_mysql() {
        assert_eq!(read("/*M!100 it's; */ A;", 3, false).unwrap(), ["A;"]);
        assert_eq!(read("/*M!100 'x;' */ A;", 3, true).unwrap(), ["/*M!100 'x;' */ A;"]);
    }

    #[test]
    fn modes_are_those_that_are_set() {
        assert_eq!(modes(b"/*!50003 SET sql_mode              = 'A,B' */ ;"), Some("A,B".into()));
        assert_eq!(modes(b"SET sql_mode = @saved_sql_mode ;"), Some(String::new()));
        assert_eq!(modes(b"/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;"), None);
        assert_eq!(modes(b"/*!40101 SET SQL_NOTES=@OLD_SQL_NOTES */;"), None);
    }

    proptest! {
        #[test]
        fn no_text_name_or_comment_is_taken_for_more(
            texts in prop::collection::vec(("[ab';`\"\\\\\n#*/-]{0,12}", 0..4_usize), 1..9), cut in 1..40_usize,
        ) {
            let statement = |(text, form): &(String, usize)| match form {
                0 => format!("A '{}';", text.replace('\\', "\\\\").replace('\'', "\\'")),
                1 => format!("A `{}`;", text.replace('`', "``")),
                2 => format!("A \"{}\";", text.replace('\\', "\\\\").replace('"', "\"\"")),
                _ => format!("A /* {} */ b;", text.replace('/', "-")),
            };
            let all: Vec<String> = texts.iter().map(statement).collect();
            prop_assert_eq!(read(&all.join("\n"), cut, true), Some(all));
        }
    }
}
