use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

use super::*;

/// The dump that `mariadb-dump` wrote of a server whose data, comments and programs look like sections of others.
const DUMP: &str = include_str!("mariadb.sql");
/// A database of that server with a strange name.
const LINE: &str = "line\nUSE `bank`;";

fn read(dump: &str, cut: usize) -> Option<Sections> {
    let mut reader = Reader::new(true);
    for chunk in dump.as_bytes().chunks(cut) {
        reader.push(chunk);
    }
    reader.finish()
}

fn text(dump: &str, pieces: &[Piece]) -> String {
    let place = |at: u64| usize::try_from(at).unwrap();
    let piece = |piece: &Piece| match piece {
        Piece::Bytes(range) => dump[place(range.start)..place(range.end)].to_owned(),
        Piece::Text(text) => text.clone(),
    };
    pieces.iter().map(piece).collect()
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns what is between two lines of a text, which are in it once.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    assert_eq!(text.matches(begin).count(), 1, "{begin}");
    let at = text.find(begin).unwrap();
    &text[at..at + text[at..].find(end).unwrap()]
}

#[test]
fn a_dump_of_a_server_is_taken_apart() {
    for cut in [1, 7, 64, 4096, DUMP.len()] {
        let sections = read(DUMP, cut).expect("a dump");
        assert_eq!(sections.databases(), ["bank", LINE, "odd `one's \"d\"", "shop", "zero"]);
        let tables: Vec<_> = sections.databases().iter().map(|name| sections.tables(name)).collect();
        let of = |table: &str, full: &str| BTreeMap::from([(table.to_owned(), full.to_owned())]);
        let orders = of("orders", "shop.orders");
        assert_eq!(tables[0], of("accounts", "bank.accounts"));
        assert_eq!((tables[2].len(), &tables[3], tables[4].len()), (0, &orders, 0));
        assert_eq!(text(DUMP, &sections.pieces_of(&sections.databases())), DUMP);
    }
}

#[test]
fn of_one_database_comes_all_that_is_its_own() {
    let sections = read(DUMP, 1024).expect("a dump");
    let part = text(DUMP, &sections.pieces_of(&names(&["shop"])));
    let whole =
        between(DUMP, "\nUSE `shop`;\n\n--\n-- Sequence", "\n\nCREATE DATABASE /*!32312 IF NOT EXISTS*/ `zero`");
    let views = between(DUMP, "\nUSE `shop`;\n\n--\n-- Final view", "\nUSE `zero`;\n/*!40103 SET TIME_ZONE");
    for its in [whole, views, "mode */ \n-- MariaDB dump", "PROCEDURE \"p\"", "\n\n-- Dump completed on"] {
        let its = its.split("\n--\n-- Current Database").next().unwrap();
        assert!(part.contains(its), "{its}\n\n{part}");
    }
    for other in ["`bank` /*!40100", "`accounts`", "`zero`", "ALTER TABLE `t` DISABLE", "`odd ``one's"] {
        assert!(!part.contains(other), "{other}");
    }
    let both = text(DUMP, &sections.pieces_of(&names(&["zero", LINE])));
    assert!(both.contains("CREATE DATABASE /*!32312 IF NOT EXISTS*/ `line\nUSE ``bank``;`"), "{both}");
    assert!(both.contains("USE `zero`;") && !both.contains("`shop`"), "{both}");
}

#[test]
fn a_renamed_database_does_not_use_its_old_name() {
    let sections = read(DUMP, 1024).expect("a dump");
    let part = text(DUMP, &sections.pieces_under("shop", "o`ther"));
    assert_eq!(part.matches("ALTER DATABASE `o``ther` CHARACTER SET ").count(), 6);
    for statement in ["ALTER DATABASE `shop`", "CREATE DATABASE", "USE `shop`;\n\n--"] {
        assert!(!part.contains(statement), "{statement}");
    }
    assert!(part.contains("VIEW `totals` AS select"), "{part}");
    let create = text(DUMP, &sections.create("shop", "o`ther"));
    let expected = "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `o``ther` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE \
                    utf8mb4_general_ci */ COMMENT 'a;b\\nUSE `bank`;\\n''x';";
    assert_eq!(create, expected);
    assert!(read(&part, 99).is_none(), "it names no database");
}

#[test]
fn a_dump_of_one_database_changes_its_target() {
    let alone = text(DUMP, &read(DUMP, 1024).expect("a dump").pieces_under("shop", "shop"));
    assert_eq!(alone.matches("ALTER DATABASE `shop` CHARACTER SET ").count(), 6);
    let renamed = alone.replace("ALTER DATABASE `shop` CHARACTER SET ", "ALTER DATABASE `o``ther` CHARACTER SET ");
    for cut in [1, 7, 4096] {
        let mut renaming = Renaming::new(true);
        for chunk in alone.as_bytes().chunks(cut) {
            renaming.push(chunk);
        }
        assert_eq!(text(&alone, &renaming.finish("o`ther").expect("a dump")), renamed, "cut in {cut}");
    }
}

#[test]
fn a_dump_of_another_order_is_not_taken_apart() {
    let of = |databases: &str| {
        read(&format!("SET a = 1;\n{databases}/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;\nSET b = 1;\n"), 9)
    };
    let (a, b) = ("CREATE DATABASE `a`;\nUSE `a`;\n", "CREATE DATABASE `b`;\nUSE `b`;\n");
    let (again, next) = ("USE `a`;\n", "USE `b`;\n");
    for good in [a.to_owned(), format!("{a}{b}"), format!("{a}{b}{again}{next}"), format!("{a}{b}{next}")] {
        assert!(of(&good).is_some(), "{good}");
    }
    for bad in [
        String::new(),
        again.to_owned(),
        "CREATE DATABASE `a`;\n".to_owned(),
        format!("INSERT INTO `t` VALUES (1);\n{a}"),
        format!("{a}{a}"),
        format!("{a}{again}{b}"),
        format!("{a}{b}{next}{again}"),
        format!("{a}{b}{again}{again}"),
        format!("{a}USE `c`;\n"),
        format!("CREATE DATABASE `a`;\n{next}"),
        format!("{a}ALTER DATABASE `b` CHARACTER SET latin1 ;\n{b}"),
        format!("{a}/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;\n{b}"),
        format!("{a}DELIMITER ;;\n{b}"),
    ] {
        assert!(of(&bad).is_none(), "{bad}");
    }
}

/// A database of a made-up server.
#[derive(Clone, Debug)]
struct Made {
    name: String,
    /// Its contents, by kinds.
    contents: Vec<(String, u8)>,
}

impl Made {
    fn name(&self) -> String {
        quoted(&self.name)
    }

    /// Its first section; under another name without what makes and chooses it.
    fn first(&self, into: Option<&str>) -> String {
        let name = self.name();
        let comment = format!("\n--\n-- Current Database: {}\n--\n\n", name.replace('\n', "\n-- "));
        let (create, chosen) =
            (format!("CREATE DATABASE /*!32312 IF NOT EXISTS*/ {name} /*!40100 x */;"), format!("USE {name};"));
        let begin = if into.is_some() { format!("{comment}\n\n") } else { format!("{comment}{create}\n\n{chosen}") };
        let contents: String = self.contents.iter().map(|(text, kind)| self.content(text, *kind, into)).collect();
        format!("{begin}{contents}")
    }

    fn content(&self, text: &str, kind: u8, into: Option<&str>) -> String {
        let name = into.map_or_else(|| self.name(), quoted);
        let data = text.replace('\\', "\\\\").replace('\'', "\\'");
        match kind {
            0 => format!("\nINSERT INTO `t` VALUES\n(1,'{data}');"),
            1 => format!("\nCREATE TABLE `t``` (`{}` int COMMENT '{data}');", text.replace('`', "``")),
            2 => format!(
                "\nALTER DATABASE {name} CHARACTER SET latin1 ;\nDELIMITER ;;\nCREATE PROCEDURE p() SELECT '{data}' -- {}\n \
                 ;;\nDELIMITER ;\nALTER DATABASE {name} CHARACTER SET utf8mb4 ;",
                text.replace('\n', " ")
            ),
            _ => format!(
                "\n/*!50003 SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES' */ ;\nDELIMITER ;;\nCREATE PROCEDURE p() SELECT \
                 '{}' AS \"{}\" /* {} */ ;;\nDELIMITER ;\n/*!50003 SET sql_mode = @saved_sql_mode */ ;",
                text.replace('\'', "''"),
                text.replace('"', "\"\""),
                text.replace('/', "-")
            ),
        }
    }

    fn views(&self, into: Option<&str>) -> String {
        let chosen = if into.is_some() { String::new() } else { format!("USE {};", self.name()) };
        format!("\n\n--\n-- Current Database\n--\n\n{chosen}\n/*!50001 CREATE VIEW `v` AS select 1 */;")
    }
}

const HEAD: &str = "/*M!999999\\- enable the sandbox mode */ \n-- MariaDB dump\n\n/*!40101 SET NAMES utf8mb4 */;";
const TAIL: &str = "\n/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;\n\n/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;\n\n-- Dump completed on 2026";

fn databases() -> impl Strategy<Value = Vec<Made>> {
    let dangerous = "(\n|;|;;|'|\"|`|\\\\|DELIMITER ;\n|USE `a`;|CREATE DATABASE `b`;|-- |#|/\\*|\\*/|x){0,9}";
    let contents = prop::collection::vec((dangerous, 0..4_u8), 0..5);
    let all = prop::collection::btree_map("[ab`'\" ;\n.-]{1,6}", contents, 1..5);
    all.prop_map(|all| all.into_iter().map(|(name, contents)| Made { name, contents }).collect())
}

proptest! {
    #[test]
    fn a_part_has_exactly_its_databases(
        (all, wanted) in databases().prop_flat_map(|all| {
            let indices: Vec<usize> = (0..all.len()).collect();
            (Just(all), subsequence(indices.clone(), 0..=indices.len()))
        }),
        views: bool, cut in 1..99_usize, at in any::<Index>(),
    ) {
        let dump = |some: &[&Made]| {
            let first: String = some.iter().map(|it| it.first(None)).collect();
            let second: String = some.iter().filter(|_| views).map(|it| it.views(None)).collect();
            format!("{HEAD}{first}{second}{TAIL}")
        };
        let whole = dump(&all.iter().collect::<Vec<_>>());
        let sections = read(&whole, cut).expect("a dump");
        let names: Vec<String> = all.iter().map(|it| it.name.clone()).collect();
        prop_assert_eq!(&sections.databases(), &names);
        prop_assert_eq!(text(&whole, &sections.pieces_of(&names)), whole.clone());
        let some: Vec<&Made> = wanted.iter().map(|at| &all[*at]).collect();
        let chosen: Vec<String> = some.iter().map(|it| it.name.clone()).collect();
        prop_assert_eq!(text(&whole, &sections.pieces_of(&chosen)), dump(&some));
        let one = at.get(&all);
        let into = Some("o`ther");
        let views = if views { one.views(into) } else { String::new() };
        let expected = format!("{HEAD}{}{views}{TAIL}", one.first(into));
        prop_assert_eq!(text(&whole, &sections.pieces_under(&one.name, "o`ther")), expected);
    }
}
