//! Prints many objects as a table, JSON or YAML. Pure.

use causeway_runtime::terminal::{health, plain_json};

use super::Error;
use super::options::Form;
use super::seen::{Seen, age};

/// The most characters of a message in a table: `kubectl causeway why` shows all of it.
const MESSAGE: usize = 100;

/// The objects in that form. A table shows those in trouble first.
pub fn print(objects: &[Seen], form: Form, namespaces: bool) -> Result<String, Error> {
    match form {
        Form::Table => Ok(table(objects, namespaces)),
        Form::Json => {
            let text = serde_json::to_string_pretty(objects).map_err(|error| Error::Form(error.to_string()))?;
            Ok(plain_json(&text) + "\n")
        }
        Form::Yaml => {
            let shown: Vec<Seen> = objects.iter().map(Seen::printable).collect();
            serde_saphyr::to_string(&shown).map_err(|error| Error::Form(error.to_string()))
        }
    }
}

fn table(objects: &[Seen], namespaces: bool) -> String {
    if objects.is_empty() {
        return "No objects of Causeway found: use -A for all namespaces.\n".into();
    }
    let shown: Vec<Seen> = objects.iter().map(Seen::printable).collect();
    let mut objects: Vec<&Seen> = shown.iter().collect();
    objects.sort_by_key(|seen| (seen.is_well(), &seen.namespace, &seen.kind, &seen.name));
    let row = |seen: &Seen| {
        [seen.namespace.clone(), seen.kubectl_name(), seen.ready.clone(), seen.reason.clone(), age(seen.age_seconds)]
    };
    let head = ["NAMESPACE", "OBJECT", "READY", "STATUS", "AGE"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(objects.iter().map(|seen| row(seen))).collect();
    let widths: Vec<usize> =
        (0..5).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for (number, row) in rows.iter().enumerate() {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate().skip(usize::from(!namespaces)) {
            let padded = format!("{cell:<width$}   ");
            let of = number.checked_sub(1).map(|index| objects[index]);
            out += &of.filter(|_| at == 2).map_or(padded.clone(), |seen| health(seen.is_well(), &padded));
        }
        let message = number.checked_sub(1).map_or("MESSAGE".into(), |index| short(&objects[index].message));
        out += message.trim_end();
        out.push('\n');
    }
    out
}

/// A text, cut to fit into the table.
fn short(line: &str) -> String {
    if line.chars().count() <= MESSAGE {
        line.to_owned()
    } else {
        line.chars().take(MESSAGE - 1).chain(['…']).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_runtime::terminal::{plain, uncoloured};

    fn seen_object(kind: &str, name: &str, ready: &str, message: &str) -> Seen {
        Seen {
            kind: kind.into(),
            namespace: "shop".into(),
            name: name.into(),
            ready: ready.into(),
            reason: if ready == "True" { "Serving" } else { "SecretMissing" }.into(),
            message: message.into(),
            age_seconds: 125,
            conditions: Vec::new(),
        }
    }

    #[test]
    fn objects_in_trouble_come_first_and_columns_are_aligned() {
        let objects = [
            seen_object("Redis", "cache", "True", "all is well"),
            seen_object("MyIngress", "web", "False", "no Secret login"),
        ];
        insta::assert_snapshot!(uncoloured(&table(&objects, false)), @r"
        OBJECT          READY   STATUS          AGE    MESSAGE
        myingress/web   False   SecretMissing   2m5s   no Secret login
        redis/cache     True    Serving         2m5s   all is well
        ");
        assert!(uncoloured(&table(&objects, true)).starts_with("NAMESPACE   OBJECT"));
    }

    #[test]
    fn text_of_others_neither_controls_the_terminal_nor_forges_rows() {
        for hostile in ["x\nredis/other True", "x\r\u{1b}[2K", "\u{9b}1A\u{202e}x", "x\u{2028}\u{7f}"] {
            let mut objects = [seen_object("Redis", hostile, hostile, hostile)];
            objects[0].reason = hostile.into();
            objects[0].namespace = hostile.into();
            let shown = uncoloured(&table(&objects, true));
            assert_eq!(shown.lines().count(), 2, "{shown}");
            for form in [Form::Table, Form::Json, Form::Yaml] {
                let shown = uncoloured(&print(&objects, form, true).unwrap());
                assert!(shown.lines().all(|line| *line == *plain(line)), "{shown:?}");
            }
        }
    }

    #[test]
    fn a_long_message_is_cut_and_trouble_is_red() {
        let objects = [seen_object("Redis", "cache", "False", &"x".repeat(300))];
        let shown = table(&objects, false);
        assert!(shown.contains('…') && shown.contains("\u{1b}[31m"), "{shown:?}");
    }

    #[test]
    fn programs_get_everything() {
        let objects = [seen_object("Redis", "cache", "True", "")];
        let json = print(&objects, Form::Json, false).unwrap();
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&read[0]["name"], &read[0]["ageSeconds"]), (&"cache".into(), &125.into()));
        assert!(print(&objects, Form::Yaml, false).unwrap().contains("name: cache"));
    }
}
