//! What comes back of each database: features are made in one server, which is backed up and restored into an empty one,
//! and the same question is put to both. docs/databasebackup.md has the result, which is what decides here.

mod etcd;
mod mariadb;
mod postgresql;
mod redis;
mod sql;
mod table;

use std::fs::{self, File};
use std::path::Path;

/// Set to `1`, it has the tables written into the documentation, not compared.
const WRITE: &str = "CAUSEWAY_WRITE_DOCS";
/// What the answer to a question begins with that failed.
const FAILED: &str = "ERROR";

/// What was answered to the question about a feature.
struct Answers {
    feature: &'static str,
    /// Before it was made.
    bare: String,
    /// When it was made.
    made: String,
    /// By the server that was restored.
    back: String,
}

impl Answers {
    /// Why they tell nothing, if that is so.
    fn mistake(&self) -> Option<String> {
        let failed = self.made.starts_with(FAILED);
        let useless = failed || self.made == self.bare;
        useless.then(|| format!("{}: {:?}, and {:?} before it was made", self.feature, self.made, self.bare))
    }
}

/// Three looks, each with an answer for each feature, put together.
fn together(features: impl Iterator<Item = &'static str>, looks: [Vec<String>; 3]) -> Vec<Answers> {
    let features: Vec<_> = features.collect();
    assert!(looks.iter().all(|look| look.len() == features.len()), "an answer for each of {features:?}: {looks:#?}");
    let [bare, made, back] = looks;
    let answers = bare.into_iter().zip(made).zip(back).zip(features);
    answers.map(|(((bare, made), back), feature)| Answers { feature, bare, made, back }).collect()
}

/// Fails unless the documentation says of a database what was found.
fn told(database: &str, answers: &[Answers]) {
    let mistakes: Vec<_> = answers.iter().filter_map(Answers::mistake).collect();
    assert!(mistakes.is_empty(), "questions that tell nothing: {mistakes:#?}");
    for lost in answers.iter().filter(|it| it.made != it.back) {
        println!("{database}: {} do not come back: {:?} became {:?}", lost.feature, lost.made, lost.back);
    }
    let rows: Vec<_> = answers.iter().map(|it| (it.feature, it.made == it.back)).collect();
    let table = table::table(database, &rows);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/databasebackup.md");
    // Each database is another process.
    let lock = File::open(&path).expect("the documentation");
    lock.lock().expect("nobody else writes it");
    let docs = fs::read_to_string(&path).expect("the documentation");
    let found =
        table::found(&docs, database).unwrap_or_else(|| panic!("no markers of {database} in {}", path.display()));
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
