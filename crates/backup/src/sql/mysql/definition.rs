//! Reads the statement that makes a table, as a server prints it. Pure.

use super::rows::identifier;

/// Bytes of a column in a key that every format of rows has room for.
/// <https://mariadb.com/kb/en/innodb-limitations/>
const SHORT_KEY: u64 = 767;
/// The words before a column that says since when a row has its values.
const PERIOD: &str = " GENERATED ALWAYS AS ROW START";

pub struct Definition<'a> {
    lines: Vec<&'a str>,
}

impl<'a> Definition<'a> {
    /// Reads the definition in a statement.
    pub fn read(statement: &'a str) -> Self {
        Self { lines: statement.lines().map(str::trim).collect() }
    }

    /// Reports whether it is a table of `InnoDB` that has neither a primary key nor a unique one of columns that are never
    /// null.
    pub fn is_keyless(&self) -> bool {
        let is_filled = |column: &str| self.column(column).is_some_and(|kind| kind.contains(" NOT NULL"));
        let is_key = |line: &&str| {
            line.starts_with("PRIMARY KEY")
                || (line.starts_with("UNIQUE KEY ") && {
                    let columns = key(line);
                    !columns.is_empty() && columns.iter().all(|(name, _)| is_filled(name))
                })
        };
        self.is_inno() && !self.lines.iter().any(is_key)
    }

    /// Reports whether it is a table of `InnoDB` that names no format for its rows, and has a key that some formats have no
    /// room for.
    pub fn has_long_key(&self) -> bool {
        let options = self.options();
        if !self.is_inno() || options.contains(" ROW_FORMAT=") {
            return false;
        }
        let charset = word_after(options, " DEFAULT CHARSET=");
        let is_long = |(name, prefix): &(String, Option<u64>)| {
            self.column(name).is_some_and(|kind| size(kind, charset, *prefix) > SHORT_KEY)
        };
        let is_plain =
            |line: &&&str| ["PRIMARY KEY (", "UNIQUE KEY ", "KEY "].iter().any(|word| line.starts_with(word));
        self.lines.iter().filter(is_plain).any(|line| key(line).iter().any(is_long))
    }

    /// Reports whether it names the columns of its periods.
    pub fn has_periods(&self) -> bool {
        self.lines.iter().any(|line| line.starts_with('`') && line.contains(PERIOD))
    }

    fn is_inno(&self) -> bool {
        self.options().starts_with(") ENGINE=InnoDB")
    }

    /// The line after the columns and keys.
    fn options(&self) -> &'a str {
        self.lines.iter().rev().find(|line| line.starts_with(") ENGINE=")).copied().unwrap_or_default()
    }

    /// Returns the definition of a column, after its name.
    fn column(&self, name: &str) -> Option<&'a str> {
        let begin = format!("`{}` ", name.replace('`', "``"));
        self.lines.iter().find_map(|line| line.strip_prefix(begin.as_str()))
    }
}

/// The columns of a key, each with the length of its part that is in the key, if that is not all of it.
fn key(line: &str) -> Vec<(String, Option<u64>)> {
    let mut all = Vec::new();
    let name = line.find('`').and_then(|at| Some(at + identifier(line.get(at..)?.as_bytes())?.1));
    // The name of a primary key is its kind.
    let from = if line.starts_with("PRIMARY KEY") { Some(0) } else { name };
    let Some((_, mut rest)) = from.and_then(|from| line.get(from..)).and_then(|rest| rest.split_once('(')) else {
        return all;
    };
    while let Some((column, length)) = identifier(rest.as_bytes()) {
        rest = rest.get(length..).unwrap_or_default();
        let prefix = rest.strip_prefix('(').and_then(|rest| rest.split(')').next()?.parse().ok());
        all.push((column, prefix));
        rest = rest.split_once(',').map_or("", |(_, rest)| rest);
    }
    all
}

/// The bytes that a column may take in a key.
fn size(kind: &str, charset: &str, prefix: Option<u64>) -> u64 {
    let name = kind.split(|it: char| !it.is_ascii_alphabetic()).next().unwrap_or_default();
    let declared = kind.split_once('(').and_then(|(_, rest)| rest.split(')').next()?.parse::<u64>().ok());
    let letters = match (declared, prefix) {
        (Some(declared), Some(prefix)) => declared.min(prefix),
        (None, Some(prefix)) => prefix,
        (declared, None) => declared.unwrap_or_default(),
    };
    let its = word_after(kind, " CHARACTER SET ");
    match name {
        "char" | "varchar" | "text" | "tinytext" | "mediumtext" | "longtext" => {
            letters * width(if its.is_empty() { charset } else { its })
        }
        "binary" | "varbinary" | "blob" | "tinyblob" | "mediumblob" | "longblob" => letters,
        _ => 0,
    }
}

/// The most bytes of a letter.
fn width(charset: &str) -> u64 {
    match charset {
        "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030" => 4,
        "utf8" | "utf8mb3" | "ujis" | "eucjpms" => 3,
        "ucs2" | "sjis" | "cp932" | "gbk" | "big5" | "gb2312" | "euckr" => 2,
        _ => 1,
    }
}

fn word_after<'a>(text: &'a str, words: &str) -> &'a str {
    let rest = text.split_once(words).map_or("", |(_, rest)| rest);
    rest.split(|it: char| !it.is_ascii_alphanumeric()).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lines: &str, options: &str) -> String {
        format!("CREATE TABLE `t` (\n{lines}\n) ENGINE={options}")
    }

    #[test]
    fn keys_with_columns_that_are_never_null_are_enough() {
        let columns = "  `a` int(11) DEFAULT NULL,\n  `b``(` int(11) NOT NULL,\n";
        for (key, is_keyless) in [
            ("  PRIMARY KEY (`a`)", false),
            ("  UNIQUE KEY `u` (`b``(`)", false),
            ("  UNIQUE KEY `u` (`a`,`b``(`)", true),
            ("  KEY `u` (`b``(`)", true),
        ] {
            let text = table(&format!("{columns}{key}"), "InnoDB");
            assert_eq!(Definition::read(&text).is_keyless(), is_keyless, "{key}");
        }
        assert!(!Definition::read(&table(columns, "Aria")).is_keyless());
    }

    #[test]
    fn only_keys_beyond_small_formats_are_long() {
        let columns = "  `t` varchar(700) DEFAULT NULL,\n  `l` varchar(700) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT NULL,\n  \
                       `s` varchar(191) NOT NULL,\n  `b` blob DEFAULT NULL,\n  `i` bigint(20) NOT NULL,\n";
        let utf8 = "InnoDB AUTO_INCREMENT=18 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci";
        for (key, options, is_long) in [
            ("  KEY `k (` (`t`)", utf8, true),
            ("  UNIQUE KEY `k` (`i`,`t`)", utf8, true),
            ("  KEY `k` (`t`(191))", utf8, false),
            ("  KEY `k` (`t`(192))", utf8, true),
            ("  PRIMARY KEY (`s`)", utf8, false),
            ("  KEY `k` (`l`,`s`)", utf8, false),
            ("  KEY `k` (`b`(768))", utf8, true),
            ("  FULLTEXT KEY `k` (`t`)", utf8, false),
            ("  KEY `k` (`t`)", "InnoDB DEFAULT CHARSET=latin1", false),
            ("  KEY `k` (`t`)", "InnoDB DEFAULT CHARSET=utf8mb4 ROW_FORMAT=DYNAMIC", false),
            ("  KEY `k` (`t`)", "MyISAM DEFAULT CHARSET=utf8mb4", false),
        ] {
            let text = table(&format!("{columns}{key}"), options);
            assert_eq!(Definition::read(&text).has_long_key(), is_long, "{key} {options}");
        }
    }

    #[test]
    fn named_periods_are_found() {
        let named = "  `i` int(11) DEFAULT NULL,\n  `rs` timestamp(6) GENERATED ALWAYS AS ROW START,\n  `re` timestamp(6) GENERATED \
                     ALWAYS AS ROW END,\n  PERIOD FOR SYSTEM_TIME (`rs`, `re`)";
        assert!(Definition::read(&table(named, "InnoDB WITH SYSTEM VERSIONING")).has_periods());
        assert!(!Definition::read(&table("  `i` int(11)", "InnoDB WITH SYSTEM VERSIONING")).has_periods());
    }
}
