use super::*;

/// As `mariadb-dump` 10.11 writes it.
const DUMP: &str = "USE `shop`;\nCREATE TABLE `kept` (\n  `id` int(11) NOT NULL,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n\
    CREATE TABLE `unique` (\n  `a` int(11) NOT NULL,\n  `b` int(11) NOT NULL,\n  UNIQUE KEY `u` (`a`,`b`(3))\n) ENGINE=InnoDB;\n\
    CREATE TABLE `bare` (\n  `a` int(11) DEFAULT NULL,\n  `b` int(11) NOT NULL,\n  UNIQUE KEY `u` (`a`,`b`)\n) ENGINE=InnoDB;\n\
    CREATE TABLE `long` (\n  `id` int(11) NOT NULL,\n  `t` varchar(700) DEFAULT NULL,\n  PRIMARY KEY (`id`),\n  KEY `k` (`t`)\n\
    ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n\
    CREATE TABLE `since` (\n  `rs` timestamp(6) GENERATED ALWAYS AS ROW START,\n  `re` timestamp(6) GENERATED ALWAYS AS ROW END,\n\
    PRIMARY KEY (`rs`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 WITH SYSTEM VERSIONING;\n\
    CREATE TABLE `other` (\n  `a` int(11) DEFAULT NULL\n) ENGINE=Aria;\n\
    INSERT INTO `bare` VALUES (1,2),(3,4);\n\
    DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 trigger tr before insert on kept\n\
    for each row set new.id=1 */;;\nDELIMITER ;\n\
    DELIMITER ;;\nCREATE DEFINER=`app`@`%` FUNCTION `f`() RETURNS int(11)\n    DETERMINISTIC\nreturn 1 ;;\n\
    CREATE DEFINER=`app`@`%` FUNCTION `g`() RETURNS int(11)\nreturn rand() ;;\nDELIMITER ;\n\
    /*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`some``body`@`%` SQL SECURITY DEFINER */\n\
    /*!50001 VIEW `v` AS select 1 AS `1` */;\n\
    /*!50106 CREATE*/ /*!50117 DEFINER=`app`@`%`*/ /*!50106 EVENT `e` ON SCHEDULE EVERY 1 DAY DO select 1 */ ;\n";

async fn demands(pieces: Option<&[Piece]>) -> Demands {
    let number = pieces.map_or(0, <[Piece]>::len);
    let dump = std::env::temp_dir().join(format!("causeway-demands-{}-{number}", std::process::id()));
    std::fs::write(&dump, DUMP).unwrap();
    let found = read(true, &dump, pieces).await.unwrap().unwrap();
    std::fs::remove_file(&dump).unwrap();
    found
}

#[tokio::test]
async fn what_a_server_may_refuse_is_found_in_a_dump() {
    let found = demands(None).await;
    assert_eq!(found.keyless, ["bare"]);
    assert_eq!((&found.long_keyed, &found.periods), (&vec!["long".to_owned()], &vec!["since".to_owned()]));
    let of_accounts: Vec<(&str, &str)> =
        found.programs_of_accounts.iter().map(|it| (it.name.as_str(), it.body.as_str())).collect();
    assert_eq!(of_accounts, [("f", ""), ("g", ""), ("v", "select 1 AS `1` */;")]);
    assert!(found.programs_of_accounts.iter().all(|it| it.database == "shop" && !it.is_invokers));
    assert_eq!(found.programs, ["tr", "f", "g"]);
    assert_eq!(found.unsafe_functions, ["g"]);
    let definers: Vec<&str> = found.definers.iter().map(String::as_str).collect();
    assert_eq!(definers, ["`app`@`%`", "`root`@`localhost`", "`some``body`@`%`"]);
    let begin = Piece::Bytes(12..70);
    assert_eq!(demands(Some(&[begin])).await, Demands::default(), "what is not restored demands nothing");
}

#[tokio::test]
async fn what_is_refused_is_told_with_what_permits_it() {
    let (found, user) = (demands(None).await, "`app`@`%`");
    let refused = |refuses: Refuses, version| found.refused(&refuses, user, version).map(|error| error.describe());
    let text = refused(Refuses { keyless: true, ..Refuses::default() }, "10.11.6-MariaDB").unwrap();
    assert!(text.contains("(1173): bare: SET GLOBAL innodb_force_primary_key = OFF, then restore again"), "{text}");
    let row_format = Some("redundant".to_owned());
    let text = refused(Refuses { row_format, ..Refuses::default() }, "10.11.6-MariaDB").unwrap();
    assert!(text.contains("is redundant") && text.contains("(1709)") && text.contains(": long: SET GLOBAL"), "{text}");
    let text =
        refused(Refuses { temporal_format: Some("OFF".into()), ..Refuses::default() }, "10.11.6-MariaDB").unwrap();
    assert!(text.contains("(4110): since: SET GLOBAL mysql56_temporal_format = ON"), "{text}");
    let text = refused(Refuses { programs: true, ..Refuses::default() }, "10.11.6-MariaDB").unwrap();
    assert!(text.contains("(1419)") && text.contains("log_bin_trust_function_creators = ON"), "{text}");
    assert!(text.ends_with("then restore again"), "{text}");
    let text = refused(Refuses { unsafe_functions: true, ..Refuses::default() }, "10.11.6-MariaDB").unwrap();
    assert!(text.contains("(1418): g: SET"), "{text}");
    for (version, right) in [
        ("10.11.6-MariaDB", "SET USER"),
        ("10.4.1-MariaDB", "SUPER"),
        ("8.0.36", "SET_USER_ID"),
        ("9.1.0", "SET_ANY_DEFINER"),
    ] {
        let text = refused(Refuses { others_than: Some(user.into()), ..Refuses::default() }, version).unwrap();
        let expected = format!(
            "run as `root`@`localhost`, `some``body`@`%`, and user {user} may not make such (1227): GRANT {right} ON"
        );
        assert!(text.contains(&expected), "{text}");
    }
    assert_eq!(refused(Refuses::default(), "8.0.36"), None);
}
