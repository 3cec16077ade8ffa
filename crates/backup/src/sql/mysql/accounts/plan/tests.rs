use proptest::prelude::*;

use super::*;

fn who(name: &str) -> Who {
    let (user, host) = name.split_once('@').map_or((name, None), |(user, host)| (user, Some(host.to_owned())));
    Who { user: user.to_owned(), host }
}

fn target(present: &[&str]) -> Target {
    let present = present.iter().map(|name| who(name)).collect();
    Target { present, me: who("restore@%"), partial_revokes: false }
}

fn sql(statements: &[Statement]) -> Vec<String> {
    statements.iter().map(ToString::to_string).collect()
}

const FILE: &str = "SET NAMES utf8mb4;
CREATE ROLE `staff`;
CREATE USER `app`@`%` IDENTIFIED BY PASSWORD '*0C';
CREATE USER `old`@`%` IDENTIFIED BY PASSWORD '*0D';
GRANT USAGE ON *.* TO `app`@`%`;
GRANT FILE ON *.* TO `app`@`%`;
GRANT SELECT ON `shop`.* TO `staff`;
GRANT ALL PRIVILEGES ON `sh%`.* TO `app`@`%`;
GRANT SELECT ON `bank`.* TO `app`@`%`;
GRANT SELECT ON `shop`.`t` TO `app`@`%`;
GRANT EXECUTE ON PROCEDURE `shop`.`p` TO `app`@`%`;
GRANT SELECT ON `shop`.* TO `old`@`%`;
GRANT `staff` TO `app`@`%`;
GRANT `staff` TO `old`@`%`;
SET DEFAULT ROLE `staff` FOR `app`@`%`;
";

#[test]
fn accounts_that_are_there_stay_as_they_are() {
    let plan = Plan::new(FILE, &target(&["old@%", "restore@%"]), &BTreeSet::new(), None);
    let made = ["CREATE ROLE `staff`", "CREATE USER `app`@`%` IDENTIFIED BY PASSWORD '*0C'"];
    assert_eq!(sql(&plan.make), made);
    let given = [
        "GRANT FILE ON *.* TO `app`@`%`",
        "GRANT SELECT ON `shop`.* TO `staff`",
        "GRANT ALL PRIVILEGES ON `sh%`.* TO `app`@`%`",
        "GRANT SELECT ON `bank`.* TO `app`@`%`",
        "GRANT SELECT ON `shop`.`t` TO `app`@`%`",
        "GRANT EXECUTE ON PROCEDURE `shop`.`p` TO `app`@`%`",
        "GRANT `staff` TO `app`@`%`",
        "SET DEFAULT ROLE `staff` FOR `app`@`%`",
    ];
    assert_eq!(sql(&plan.give), given);
    assert_eq!((plan.keep, plan.strange), (BTreeSet::from([who("old@%")]), 0));
}

#[test]
fn what_an_earlier_try_made_gets_what_it_lacks() {
    let (all, none) = (target(&["app@%", "old@%", "staff"]), BTreeSet::new());
    let ours = BTreeSet::from([who("app@%"), who("staff")]);
    let (again, other) = (Plan::new(FILE, &all, &ours, None), Plan::new(FILE, &all, &none, None));
    assert_eq!((sql(&again.make).len(), again.give.len()), (0, 8));
    assert_eq!((other.make.len(), other.give.len(), other.keep.len()), (0, 0, 3));
    let mut plan = Plan::new(FILE, &target(&[]), &none, None);
    plan.drop_failed(&BTreeSet::from([who("app@%"), who("old@%")]));
    assert_eq!(sql(&plan.give), ["GRANT SELECT ON `shop`.* TO `staff`"]);
}

#[test]
fn with_one_database_come_the_rights_on_that_one() {
    let only = [Only { from: "shop", into: "new_shop" }];
    let plan = Plan::new(FILE, &target(&["old@%"]), &BTreeSet::new(), Some(&only));
    let given = [
        "GRANT FILE ON *.* TO `app`@`%`",
        "GRANT SELECT ON `new\\_shop`.* TO `staff`",
        "GRANT ALL PRIVILEGES ON `new\\_shop`.* TO `app`@`%`",
        "GRANT SELECT ON `new_shop`.`t` TO `app`@`%`",
        "GRANT EXECUTE ON PROCEDURE `new_shop`.`p` TO `app`@`%`",
        "GRANT `staff` TO `app`@`%`",
        "SET DEFAULT ROLE `staff` FOR `app`@`%`",
    ];
    assert_eq!(sql(&plan.give), given);
    let literal = Target { partial_revokes: true, ..target(&["old@%"]) };
    let plan = Plan::new(FILE, &literal, &BTreeSet::new(), Some(&only));
    assert_eq!(sql(&plan.give)[1], "GRANT SELECT ON `new_shop`.* TO `staff`");
}

#[test]
fn with_several_databases_come_the_rights_on_each_of_them() {
    let only = [Only { from: "bank", into: "bank" }, Only { from: "shop", into: "shop" }];
    let plan = Plan::new(FILE, &target(&["old@%"]), &BTreeSet::new(), Some(&only));
    let given = sql(&plan.give);
    assert_eq!(
        given[1..4],
        [
            "GRANT SELECT ON `shop`.* TO `staff`",
            "GRANT ALL PRIVILEGES ON `shop`.* TO `app`@`%`",
            "GRANT SELECT ON `bank`.* TO `app`@`%`",
        ]
    );
    let file = "CREATE USER `a`@`%`; GRANT SELECT ON `s%`.* TO `a`@`%`;";
    let only = [Only { from: "shop", into: "shop" }, Only { from: "s_1", into: "s_1" }, Only { from: "x", into: "x" }];
    let plan = Plan::new(file, &target(&[]), &BTreeSet::new(), Some(&only));
    assert_eq!(sql(&plan.give), ["GRANT SELECT ON `shop`.* TO `a`@`%`", "GRANT SELECT ON `s\\_1`.* TO `a`@`%`"]);
}

#[test]
fn the_nearest_of_several_patterns_applies() {
    let file = "CREATE USER `a`@`%`; CREATE USER `b`@`%`; GRANT ALL PRIVILEGES ON `%`.* TO `a`@`%`; GRANT INSERT ON `sh%`.* TO `a`@`%`;
        GRANT SELECT ON `shop`.* TO `a`@`%`; GRANT ALL PRIVILEGES ON `s%`.* TO `b`@`%`; GRANT UPDATE ON `sh%`.* TO `b`@`%`;
        GRANT DELETE ON `sh_p`.* TO `b`@`%`;";
    let given = |from| {
        let only = [Only { from, into: from }];
        sql(&Plan::new(file, &target(&[]), &BTreeSet::new(), Some(&only)).give)
    };
    assert_eq!(given("shop"), ["GRANT SELECT ON `shop`.* TO `a`@`%`"], "and no rule tells b's apart");
    assert_eq!(given("show"), ["GRANT INSERT ON `show`.* TO `a`@`%`", "GRANT UPDATE ON `show`.* TO `b`@`%`"]);
    assert_eq!(given("bank"), ["GRANT ALL PRIVILEGES ON `bank`.* TO `a`@`%`"]);
}

#[test]
fn system_accounts_and_the_login_stay_unchanged() {
    let file = "CREATE USER `root`@`%`; CREATE USER `mysql.sys`@`localhost`; CREATE USER `mariadb.sys`@`localhost`;
        CREATE USER `healthcheck`@`::1`; CREATE USER `restore`@`%`; CREATE USER `mysql`@`%`;
        GRANT ALL PRIVILEGES ON *.* TO `restore`@`%`; GRANT SELECT ON *.* TO `root`@`%`; GRANT SELECT ON *.* TO `mysql`@`%`;
        DROP USER `x`@`%`; GRANT SELECT ON *.* TO `a`@`%`, `root`@`localhost`;";
    let plan = Plan::new(file, &target(&["restore@%"]), &BTreeSet::from([who("restore@%")]), None);
    assert_eq!(sql(&plan.make), ["CREATE USER `mysql`@`%`"]);
    assert_eq!(sql(&plan.give), ["GRANT SELECT ON *.* TO `mysql`@`%`"]);
    assert_eq!((plan.keep.len(), plan.strange), (0, 2));
}

#[test]
fn grants_to_public_are_restored() {
    let file = "GRANT SELECT ON `shop`.* TO PUBLIC; GRANT SELECT ON *.* TO PUBLIC;";
    let plan = Plan::new(file, &target(&[]), &BTreeSet::new(), None);
    assert_eq!(sql(&plan.give), ["GRANT SELECT ON `shop`.* TO PUBLIC"]);
    assert_eq!(Plan::new(file, &target(&[PUBLIC]), &BTreeSet::new(), None), Plan::default());
}

#[test]
fn partial_revokes_grant_no_more_than_before() {
    let file = "CREATE USER `part`@`%`; GRANT SELECT ON *.* TO `part`@`%`; REVOKE SELECT ON `mysql`.* FROM `part`@`%`;
        GRANT INSERT ON `shop`.* TO `part`@`%`;";
    let plan = Plan::new(file, &target(&[]), &BTreeSet::new(), None);
    assert_eq!(sql(&plan.give), ["GRANT INSERT ON `shop`.* TO `part`@`%`"]);
    assert_eq!(plan.held.len(), 2);
    let plan = Plan::new(file, &Target { partial_revokes: true, ..target(&[]) }, &BTreeSet::new(), None);
    let given = [
        "GRANT SELECT ON *.* TO `part`@`%`",
        "GRANT INSERT ON `shop`.* TO `part`@`%`",
        "REVOKE SELECT ON `mysql`.* FROM `part`@`%`",
    ];
    assert_eq!(sql(&plan.give), given);
    let only = [Only { from: "mysql", into: "other" }];
    let plan = Plan::new(file, &Target { partial_revokes: true, ..target(&[]) }, &BTreeSet::new(), Some(&only));
    assert_eq!(
        sql(&plan.give)[1..],
        ["REVOKE SELECT ON `other`.* FROM `part`@`%`", "REVOKE SELECT ON `mysql`.* FROM `part`@`%`",]
    );
}

#[test]
fn the_file_has_each_statement_once_in_order() {
    let printed = [
        "CREATE USER `app`@`%` IDENTIFIED BY PASSWORD '*0C' REQUIRE SSL",
        "GRANT `staff` TO `app`@`%`",
        "GRANT FILE ON *.* TO `app`@`%` IDENTIFIED BY PASSWORD '*0C' REQUIRE SSL",
        "SET DEFAULT ROLE `staff` FOR `app`@`%`",
        "CREATE USER `odd`@`%` REQUIRE SUBJECT '/CN=o'd\\x'",
        "GRANT `inner` TO `staff`",
        "GRANT USAGE ON *.* TO `inner`",
        "GRANT USAGE ON *.* TO `staff`",
        "GRANT USAGE ON *.* TO `inner`",
        "GRANT SELECT ON `shop`.* TO PUBLIC",
    ]
    .map(str::to_owned);
    let accounts = ["app@%", "odd@%", "staff", "inner", PUBLIC].map(who);
    let (file, strange) = file(&printed, &accounts);
    let expected = format!(
        "{HEADER}CREATE ROLE `staff`;\nCREATE ROLE `inner`;\nCREATE USER `app`@`%` IDENTIFIED BY PASSWORD '*0C' REQUIRE SSL;\n\
         GRANT FILE ON *.* TO `app`@`%`;\nGRANT USAGE ON *.* TO `inner`;\nGRANT USAGE ON *.* TO `staff`;\n\
         GRANT SELECT ON `shop`.* TO PUBLIC;\nGRANT `staff` TO `app`@`%`;\nGRANT `inner` TO `staff`;\n\
         SET DEFAULT ROLE `staff` FOR `app`@`%`;\n"
    );
    assert_eq!(file, expected);
    assert_eq!(strange, 1);
    assert_eq!(Plan::new(&file, &target(&[]), &BTreeSet::new(), None).make.len(), 3);
}

#[test]
fn a_pattern_stands_for_databases() {
    for (pattern, name, expected) in [
        ("shop", "shop", true),
        ("shop", "shops", false),
        ("sh%", "shop", true),
        ("%op%", "shop", true),
        ("s_op", "shop", true),
        ("s\\_op", "shop", false),
        ("s\\_op", "s_op", true),
        ("%", "", true),
        ("", "x", false),
        ("a%b%c", "abxbc", true),
        ("a%b%c", "abxb", false),
    ] {
        assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
    }
}

proptest! {
    #[test]
    fn an_escaped_name_stands_for_itself_alone(name in "[a-c_%\\\\]{0,6}", other in "[a-c_%\\\\]{0,6}") {
        prop_assert!(matches(&escaped(&name), &name));
        prop_assert_eq!(matches(&escaped(&name), &other), name == other);
    }
}
