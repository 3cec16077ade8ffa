//! Selects parts of a real dump.

use super::*;

/// PostgreSQL 15's print of a dump, and of the comments of its script.
fn toc() -> Toc {
    Toc::read(include_str!("../toc/list.txt"), include_str!("../toc/names.txt"))
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|it| (*it).to_owned()).collect()
}

fn tables(all: &[&str]) -> Included {
    Included { tables: names(all), ..Included::default() }
}

fn pairs(all: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    all.iter().map(|(schema, name)| ((*schema).to_owned(), (*name).to_owned())).collect()
}

fn roles() -> Present {
    Present { roles: names(&["app", "postgres"]).into_iter().collect(), ..Present::default() }
}

fn select(include: &Included, exclude: &Excluded, present: &Present, superuser: bool) -> Result<Selected, String> {
    Wanted { include, exclude, superuser }.select(&toc(), present)
}

/// Entries as the list has them, without numbers.
fn entries(selected: &Selected) -> Vec<&str> {
    selected.lines.iter().filter_map(|line| line.splitn(4, ' ').nth(3)).collect()
}

#[test]
fn a_table_comes_with_what_belongs_to_it_and_what_it_needs() {
    let selected = select(&tables(&["sales.orders"]), &Excluded::default(), &roles(), true).unwrap();
    assert_eq!(
        entries(&selected),
        [
            "SCHEMA - sales app",
            "EXTENSION - hstore ",
            "TYPE sales mood postgres",
            "FUNCTION sales seven(integer, text) postgres",
            "FUNCTION sales touched() postgres",
            "TABLE sales orders app",
            "COMMENT sales COLUMN orders.n app",
            "SEQUENCE sales orders_id_seq app",
            "SEQUENCE sales orders_n_seq app",
            "SEQUENCE OWNED BY sales orders_n_seq app",
            "DEFAULT sales orders n app",
            "TABLE DATA sales orders app",
            "SEQUENCE SET sales orders_id_seq app",
            "SEQUENCE SET sales orders_n_seq app",
            "CONSTRAINT sales orders orders_pkey app",
            "INDEX sales odd app",
            "COMMENT sales INDEX odd app",
            "STATISTICS sales both postgres",
            "RULE sales orders quiet app",
            "TRIGGER sales orders trg app",
            "POLICY sales orders mine app",
            "ROW SECURITY sales orders app",
        ]
    );
    let sequences = [("sales", "orders_id_seq"), ("sales", "orders_n_seq")];
    assert_eq!(selected.relations, pairs(&[&[("sales", "orders")][..], &sequences].concat()));
}

#[test]
fn what_the_target_has_is_not_made_again() {
    let present = Present {
        schemas: names(&["public", "sales"]).into_iter().collect(),
        types: pairs(&[("sales", "mood")]),
        functions: pairs(&[("sales", "seven(integer, text)")]),
        extensions: names(&["hstore"]).into_iter().collect(),
        ..roles()
    };
    let selected = select(&tables(&["sales.orders"]), &Excluded::default(), &present, true).unwrap();
    assert_eq!(entries(&selected)[..2], ["FUNCTION sales touched() postgres", "TABLE sales orders app"]);
}

#[test]
fn a_partitioned_table_comes_with_its_parts_and_a_foreign_key_only_with_its_table() {
    let alone = select(&tables(&["sales.lines"]), &Excluded::default(), &roles(), true).unwrap();
    for part in [
        "TABLE DATA sales first postgres",
        "TABLE ATTACH sales rest postgres",
        "INDEX ATTACH sales first_pkey postgres",
    ] {
        assert!(entries(&alone).contains(&part), "{part} of {:#?}", entries(&alone));
    }
    assert!(!entries(&alone).iter().any(|it| it.starts_with("FK ")), "{:#?}", entries(&alone));
    assert_eq!(alone.left_out, ["the foreign key sales.lines lines_id_fkey (its table is not there)"]);
    let there = Present { relations: pairs(&[("sales", "orders")]), ..roles() };
    for (include, present) in [(tables(&["sales.lines"]), there), (tables(&["sales.lines", "sales.orders"]), roles())] {
        let selected = select(&include, &Excluded::default(), &present, true).unwrap();
        assert!(entries(&selected).contains(&"FK CONSTRAINT sales lines lines_id_fkey postgres"), "{selected:#?}");
        assert!(selected.left_out.is_empty(), "{:?}", selected.left_out);
    }
}

#[test]
fn a_view_needs_its_table_which_nobody_restores_unasked() {
    let refused = select(&tables(&["public.totals"]), &Excluded::default(), &roles(), true).unwrap_err();
    assert!(
        refused.contains("public.totals needs sales.orders, which is neither restored nor in the target"),
        "{refused}"
    );
    let there = Present { relations: pairs(&[("sales", "orders")]), ..roles() };
    let selected = select(&tables(&["public.totals"]), &Excluded::default(), &there, true).unwrap();
    assert_eq!(entries(&selected), ["VIEW public totals postgres"]);
    let kept = select(&tables(&["public.kept"]), &Excluded::default(), &there, true).unwrap();
    assert_eq!(
        entries(&kept),
        [
            "MATERIALIZED VIEW public kept postgres",
            "INDEX public kept_id postgres",
            "MATERIALIZED VIEW DATA public kept postgres"
        ]
    );
}

#[test]
fn names_with_spaces_are_told_apart() {
    let selected = select(&tables(&["public.orders old"]), &Excluded::default(), &roles(), true).unwrap();
    assert_eq!(
        entries(&selected),
        [
            "TABLE public orders old postgres",
            "ACL public COLUMN \"orders old\".id postgres",
            "TABLE DATA public orders old postgres",
            "CONSTRAINT public orders old orders old_pkey postgres",
        ]
    );
    let none = select(&tables(&["public.orders"]), &Excluded::default(), &roles(), true).unwrap_err();
    assert!(none.starts_with("spec.include.tables: the backup has no table, view or sequence public.orders"), "{none}");
}

#[test]
fn a_schema_comes_with_all_of_it_and_what_is_excluded_does_not() {
    let schema = |name: &str| Included { schemas: names(&[name]), ..Included::default() };
    let public = select(
        &schema("public"),
        &Excluded { tables: names(&["public.kept", "public.totals"]), ..Excluded::default() },
        &roles(),
        true,
    )
    .unwrap();
    assert_eq!(entries(&public).len(), 4, "{:#?}", entries(&public));
    let all = toc().entries.len();
    let without = |exclude: Excluded, present: &Present| select(&Included::default(), &exclude, present, true);
    let rest = without(Excluded { tables: names(&["public.orders old"]), ..Excluded::default() }, &roles()).unwrap();
    assert_eq!(rest.lines.len(), all - 4);
    let refused = without(Excluded { tables: names(&["sales.orders"]), ..Excluded::default() }, &roles()).unwrap_err();
    assert!(refused.contains("or exclude public."), "{refused}");
    let none = without(Excluded { schemas: names(&["audit"]), ..Excluded::default() }, &roles()).unwrap_err();
    assert_eq!(none, "spec.exclude.schemas: the backup has no schema audit");
}

#[test]
fn an_owner_who_is_missing_is_told_to_superusers_alone() {
    let nobody = Present { roles: names(&["postgres"]).into_iter().collect(), ..Present::default() };
    let refused = select(&tables(&["sales.orders"]), &Excluded::default(), &nobody, true).unwrap_err();
    assert!(refused.contains("belongs to role app, which the target lacks"), "{refused}");
    assert!(select(&tables(&["sales.orders"]), &Excluded::default(), &nobody, false).is_ok());
}

#[test]
fn who_is_no_superuser_leaves_extensions_that_are_there_alone() {
    let present = Present { extensions: names(&["hstore"]).into_iter().collect(), ..roles() };
    let selected = select(&Included::default(), &Excluded::default(), &present, false).unwrap();
    assert!(!entries(&selected).iter().any(|it| it.contains("EXTENSION")), "{:#?}", entries(&selected));
    assert!(entries(&selected).contains(&"TABLE sales orders app"));
    let made = select(&Included::default(), &Excluded::default(), &roles(), false).unwrap();
    assert!(entries(&made).contains(&"COMMENT - EXTENSION hstore "), "who makes it may comment on it");
}
