//! Checks what comes back of each database: features are made in one server, which is backed up and restored into an empty one,
//! and both are asked the same questions. The tests fail unless docs/databasebackup.md has the same result.

mod etcd;
mod mariadb;
mod postgresql;
mod redis;
mod sql;
mod table;

use std::fs::{self, File};
use std::path::Path;

/// The variable that is `1` to write the tables into the documentation instead of comparing them.
const WRITE: &str = "CAUSEWAY_WRITE_DOCS";
/// The beginning of the answer to a question that failed.
const FAILED: &str = "ERROR";

/// The answers to the question about a feature.
struct Answers {
    feature: &'static str,
    /// Before the feature was made.
    bare: String,
    /// After the feature was made.
    made: String,
    /// From the server that was restored.
    back: String,
}

impl Answers {
    /// Explains why these answers prove nothing; `None` if they do.
    fn mistake(&self) -> Option<String> {
        let failed = self.made.starts_with(FAILED);
        let useless = failed || self.made == self.bare;
        useless.then(|| format!("{}: {:?}, and {:?} before it was made", self.feature, self.made, self.bare))
    }
}

/// Combines three rounds of questions, each with an answer for each feature.
fn together(features: impl Iterator<Item = &'static str>, looks: [Vec<String>; 3]) -> Vec<Answers> {
    let features: Vec<_> = features.collect();
    assert!(looks.iter().all(|look| look.len() == features.len()), "an answer for each of {features:?}: {looks:#?}");
    let [bare, made, back] = looks;
    let answers = bare.into_iter().zip(made).zip(back).zip(features);
    answers.map(|(((bare, made), back), feature)| Answers { feature, bare, made, back }).collect()
}

/// Panics unless the documentation says about a database what was found.
fn documented(database: &str, answers: &[Answers]) {
    let mistakes: Vec<_> = answers.iter().filter_map(Answers::mistake).collect();
    assert!(mistakes.is_empty(), "questions that prove nothing: {mistakes:#?}");
    for lost in answers.iter().filter(|it| it.made != it.back) {
        println!("{database}: {} do not come back: {:?} became {:?}", lost.feature, lost.made, lost.back);
    }
    let rows: Vec<_> = answers.iter().map(|it| (it.feature, it.made == it.back)).collect();
    let table = table::table(database, &rows);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/databasebackup.md");
    // Each database is tested in another process.
    let lock = File::open(&path).expect("the documentation");
    lock.lock().expect("the lock on the documentation");
    let docs = fs::read_to_string(&path).expect("the documentation");
    let found =
        table::section_of(&docs, database).unwrap_or_else(|| panic!("no markers of {database} in {}", path.display()));
    if found == table {
        return;
    }
    let wanted = std::env::var_os(WRITE).is_some_and(|it| it == "1");
    let changes = table::difference(found, &table).join("\n");
    assert!(
        wanted,
        "{} is not what was found:\n{changes}\nIt should say (with {WRITE}=1 it will):\n{table}",
        path.display()
    );
    let docs = table::with(&docs, database, &table).expect("the markers were just found");
    fs::write(&path, docs).expect("the documentation is written");
}
