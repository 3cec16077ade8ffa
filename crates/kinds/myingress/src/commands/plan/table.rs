//! The report for people.

use std::fmt::{self, Write};

use causeway_runtime::terminal::{green, red, strong};

use super::report::{Change, CheckState, Field, ObjectReport, Origin, Report, System};

/// The report as aligned text.
pub fn table(report: &Report) -> Result<String, fmt::Error> {
    let report = &report.printable();
    let mut out = String::new();
    for object in &report.objects {
        heading(&mut out, object)?;
        let width = |text: fn(&Change) -> &str| object.changes.iter().map(|it| text(it).len()).max().unwrap_or(0);
        let (systems, calls) = (width(|it| system(it.system)), width(|it| it.call));
        let numbers = object.changes.len().to_string().len();
        for (number, change) in object.changes.iter().enumerate() {
            let (number, system, call) = (number + 1, system(change.system), change.call);
            writeln!(out, "  {number:>numbers$}  {system:<systems$}  {call:<calls$}  {}", change.subject)?;
            fields(&mut out, &change.fields, numbers + 4)?;
        }
        for check in &object.checks {
            let word = match check.state {
                CheckState::Wrong => "error",
                CheckState::Unchecked | CheckState::Kept => "note",
            };
            writeln!(out, "  {word} {}: {}", check.field, check.message)?;
        }
        let Outcome { word, text } = outcome(object);
        writeln!(out, "  {word} {}: {text}\n", object.result.reason)?;
    }
    for skipped in &report.skipped {
        writeln!(out, "skipped: {} {}, which is no MyIngress", skipped.kind, skipped.name)?;
    }
    let (aws, kubernetes) = (report.count(System::Aws), report.count(System::Kubernetes));
    if aws + kubernetes == 0 {
        writeln!(out, "Nothing would change.")?;
    } else {
        writeln!(out, "{aws} AWS calls and {kubernetes} Kubernetes writes would be made; none was.")?;
    }
    Ok(out)
}

struct Outcome<'a> {
    word: &'static str,
    text: &'a str,
}

fn outcome(object: &ObjectReport) -> Outcome<'_> {
    Outcome { word: if object.result.stalled { "error" } else { "then" }, text: &object.result.message }
}

fn heading(out: &mut String, object: &ObjectReport) -> fmt::Result {
    let origin = match object.origin {
        Origin::New => "new",
        Origin::File => "from the file",
        Origin::Cluster => "as the cluster has it",
    };
    let name = strong(&format!("myingress {}/{}", object.namespace, object.name));
    let nothing = if object.changes.is_empty() { ": nothing to do" } else { "" };
    writeln!(out, "{name} ({origin}){nothing}")
}

fn fields(out: &mut String, fields: &[Field], indent: usize) -> fmt::Result {
    let names = fields.iter().map(|it| it.path.chars().count()).max().unwrap_or(0);
    for Field { path, old, new } in fields {
        write!(out, "{:indent$}{path:<names$}  ", "")?;
        match (old, new) {
            (Some(old), Some(new)) => writeln!(out, "{} -> {}", red(line(old)), green(line(new)))?,
            (None, Some(new)) => writeln!(out, "+ {}", green(line(new)))?,
            (Some(old), None) => writeln!(out, "- {}", red(line(old)))?,
            (None, None) => writeln!(out)?,
        }
    }
    Ok(())
}

/// Shows a value that is empty, too.
fn line(value: &str) -> &str {
    if value.is_empty() { "\"\"" } else { value }
}

fn system(system: System) -> &'static str {
    match system {
        System::Aws => "aws",
        System::Kubernetes => "kubernetes",
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::{Check, Outcome, Skipped, Verdict};
    use super::*;
    use causeway_runtime::terminal::{plain, uncoloured};

    fn report() -> Report {
        let field = |field: &str, old: Option<&str>, new: Option<&str>| Field {
            path: field.into(),
            old: old.map(Into::into),
            new: new.map(Into::into),
        };
        let changes = vec![
            Change {
                system: System::Kubernetes,
                call: "patch",
                subject: "finalizers".into(),
                fields: vec![field("metadata.finalizers", None, Some("causeway.example.com/load-balancer"))],
            },
            Change {
                system: System::Aws,
                call: "ModifyRule",
                subject: "rule 100 on port 443 of web-alb".into(),
                fields: vec![
                    field("actions[0]", Some("respond 404 text/plain"), Some("respond 503 text/plain \"a\nb\"")),
                    field("tags.team", Some(""), None),
                ],
            },
        ];
        let result = Outcome { stalled: false, reason: "Active".into(), message: "the load balancer is active".into() };
        let (field, message) = ("spec.securityGroups".into(), "not checked: whether they exist".into());
        let checks = vec![Check { field, state: CheckState::Unchecked, message }];
        let (namespace, name) = ("shop".into(), "web".into());
        let object = ObjectReport { namespace, name, origin: Origin::File, changes, checks, result };
        Report { objects: vec![object], skipped: vec![Skipped { kind: "Service".into(), name: "web".into() }] }
    }

    #[test]
    fn columns_are_aligned_and_values_stay_on_their_line() {
        insta::assert_snapshot!(uncoloured(&table(&report()).unwrap()), @r#"
        myingress shop/web (from the file)
          1  kubernetes  patch       finalizers
             metadata.finalizers  + causeway.example.com/load-balancer
          2  aws         ModifyRule  rule 100 on port 443 of web-alb
             actions[0]  respond 404 text/plain -> respond 503 text/plain "a\nb"
             tags.team   - ""
          note spec.securityGroups: not checked: whether they exist
          then Active: the load balancer is active

        skipped: Service web, which is no MyIngress
        1 AWS calls and 1 Kubernetes writes would be made; none was.
        "#);
    }

    #[test]
    fn text_of_others_neither_controls_the_terminal_nor_forges_lines() {
        let usual = uncoloured(&table(&report()).unwrap()).lines().count();
        for hostile in ["x\nNothing would change.", "x\r\u{1b}[2K", "\u{9b}1A\u{202e}x", "x\u{2028}\u{7f}"] {
            let mut report = report();
            let object = &mut report.objects[0];
            let text = || hostile.to_owned();
            (object.namespace, object.name) = (text(), text());
            (object.result.reason, object.result.message) = (text(), text());
            (object.checks[0].field, object.checks[0].message) = (text(), text());
            object.changes[1].subject = text();
            object.changes[1].fields[0] = Field { path: text(), old: Some(text()), new: Some(text()) };
            (report.skipped[0].kind, report.skipped[0].name) = (text(), text());
            let shown = uncoloured(&table(&report).unwrap());
            assert_eq!(shown.lines().count(), usual, "{shown}");
            assert!(shown.lines().all(|line| *line == *plain(line)), "{shown:?}");
        }
    }

    #[test]
    fn old_and_new_values_differ_in_colour() {
        let shown = table(&report()).unwrap();
        assert!(
            shown.contains(&red("respond 404 text/plain"))
                && shown.contains(&green("causeway.example.com/load-balancer"))
        );
    }

    #[test]
    fn the_exit_code_tells_nothing_changes_and_trouble_apart() {
        let code = |edit: fn(&mut ObjectReport)| {
            let mut report = report();
            report.objects.iter_mut().for_each(edit);
            report.verdict().code()
        };
        assert_eq!(code(|_| {}), 2);
        assert_eq!(code(|object| object.changes.clear()), 0);
        assert_eq!(code(|object| object.result.stalled = true), 1);
        assert_eq!(code(|object| object.checks[0].state = CheckState::Wrong), 1);
        assert_eq!(Report::default().verdict(), Verdict::Nothing);
    }

    #[test]
    fn the_json_is_as_documented() {
        insta::assert_snapshot!(serde_json::to_string(&report().objects[0].changes[1]).unwrap(), @r#"{"system":"aws","call":"ModifyRule","subject":"rule 100 on port 443 of web-alb","fields":[{"field":"actions[0]","old":"respond 404 text/plain","new":"respond 503 text/plain \"a\nb\""},{"field":"tags.team","old":"","new":null}]}"#);
    }
}
