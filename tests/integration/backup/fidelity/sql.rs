//! Features of SQL servers, and how they are tried.

use causeway_api::DatabaseBackupStatus;
use serde_json::json;

use super::{documented, together};
use crate::backup::sql_stage::{Engine, SqlStage};
use crate::backup::stage::NAME;
use crate::support::Operator;

/// Something that a server may hold.
pub struct Feature {
    /// In words of the documentation.
    name: &'static str,
    /// Statements that make it.
    make: &'static str,
    /// A query whose answer differs when it exists.
    question: &'static str,
}

/// A feature, the statements that make it, and the question about it.
pub const fn feature(name: &'static str, make: &'static str, question: &'static str) -> Feature {
    Feature { name, make, question }
}

/// A server, and all that it may hold.
pub struct Server {
    /// In words of the documentation.
    pub name: &'static str,
    /// How it is run.
    pub engine: &'static Engine,
    /// Makes the empty database of all questions.
    pub empty: &'static str,
    /// Switches to that database.
    pub enter: &'static str,
    /// The features that it may have.
    pub features: &'static [Feature],
}

impl Server {
    async fn look(&self, stage: &SqlStage) -> Vec<String> {
        let questions: Vec<_> = self.features.iter().map(|it| it.question).collect();
        stage.ask_each(self.enter, &questions).await
    }
}

/// Makes all features, backs the server up, restores another one, and compares what came back with the documentation.
pub async fn probe(name: &str, server: &Server) {
    let mut stage = SqlStage::new(name, server.engine).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(server.empty).await;
    let bare = server.look(&stage).await;
    let make: Vec<_> = server.features.iter().flat_map(|it| [server.enter, it.make]).collect();
    stage.ask(&make.join("\n")).await;
    let before = server.look(&stage).await;
    stage.back_up(NAME, &stage.server(&json!({})), false).await;
    let taken = |status: &DatabaseBackupStatus| {
        assert_eq!(status.last_failure, None);
        !status.recent.is_empty()
    };
    stage.becomes("a backup", taken).await;

    stage.replace().await;
    stage.restored("back", &stage.server(&json!({})), false).await;
    let back = server.look(&stage).await;
    documented(server.name, &together(server.features.iter().map(|it| it.name), [bare, before, back]));
}
