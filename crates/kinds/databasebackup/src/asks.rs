//! The values that a `DatabaseBackup` and a `DatabaseRestore` ask for, which policies may restrict. Pure.

use causeway_api::databasebackup::Source;
use causeway_api::{DatabaseBackupSpec, DatabaseRestoreSpec};
use causeway_runtime::guardrails::asks::{Ask, Topic, ask};

/// Lists what a `DatabaseBackup` asks for.
pub fn of_backup(spec: &DatabaseBackupSpec) -> Vec<Ask> {
    let to = &spec.destination;
    let mut asks: Vec<Ask> = to.bucket.iter().map(|it| ask(Topic::Bucket, "spec.destination.bucket", it)).collect();
    asks.extend(to.endpoint.iter().map(|it| ask(Topic::Endpoint, "spec.destination.endpoint", it)));
    asks.extend(to.kms_key_id.iter().map(|it| ask(Topic::KmsKey, "spec.destination.kmsKeyId", it)));
    asks.extend(spec.source.iter().flat_map(|source| images_of(source, "spec.source")));
    asks
}

/// Lists what a `DatabaseRestore` asks for.
pub fn of_restore(spec: &DatabaseRestoreSpec) -> Vec<Ask> {
    let from = spec.from.s3.iter();
    let mut asks: Vec<Ask> = from.clone().map(|it| ask(Topic::Bucket, "spec.from.s3.bucket", &it.bucket)).collect();
    asks.extend(from.filter_map(|it| Some(ask(Topic::Endpoint, "spec.from.s3.endpoint", it.endpoint.as_ref()?))));
    asks.extend(images_of(&spec.target, "spec.target"));
    let image = spec.point_in_time.as_ref().and_then(|it| it.image.as_ref());
    asks.extend(image.map(|image| ask(Topic::Image, "spec.pointInTime.image", image)));
    asks
}

/// Lists what the recovery of a DatabaseBackup's data asks for: the image in which the server runs.
pub fn of_recovery(image: &str) -> Vec<Ask> {
    vec![ask(Topic::Image, "spec.pointInTime.image (left out, that of the DatabaseBackup)", image)]
}

/// Lists what a restore or a verification asks for: the images of the server that is thrown away. They follow from the
/// backup and from the database, which policies may have denied.
pub fn of_scratch<'a>(images: impl IntoIterator<Item = &'a str>) -> Vec<Ask> {
    let field = "the server into which the backup is loaded, whose image";
    images.into_iter().map(|image| ask(Topic::Image, field, image)).collect()
}

/// Lists the images that a backup runs for the database's own programs.
fn images_of<'a>(source: &'a Source, field: &'a str) -> impl Iterator<Item = Ask> + 'a {
    let servers = [("postgresql", &source.postgresql), ("mysql", &source.mysql)];
    servers.into_iter().filter_map(move |(kind, server)| {
        let image = &server.as_ref()?.image;
        Some(ask(Topic::Image, format!("{field}.{kind}.image"), image))
    })
}

#[cfg(test)]
mod tests {
    use causeway_runtime::guardrails::asks::describe_asks;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn list_asks<S: DeserializeOwned>(list: fn(&S) -> Vec<Ask>, spec: Value) -> Vec<String> {
        describe_asks(list(&serde_json::from_value(spec).unwrap()))
    }

    #[test]
    fn backups_ask_for_their_bucket_and_their_images() {
        let server = json!({ "host": "db", "image": "evil/postgres", "authSecretName": "a" });
        let spec = json!({
            "schedule": "@daily", "source": { "postgresql": server },
            "destination": { "bucket": "b", "endpoint": "https://e", "kmsKeyId": "arn:k" },
        });
        let asks = list_asks(of_backup, spec);
        assert_eq!(
            asks,
            [
                "Bucket spec.destination.bucket b",
                "Endpoint spec.destination.endpoint https://e",
                "KmsKey spec.destination.kmsKeyId arn:k",
                "Image spec.source.postgresql.image evil/postgres",
            ]
        );
        let scratch: Vec<String> = of_scratch(["evil/redis:7"]).into_iter().filter_map(|ask| ask.value).collect();
        assert_eq!(scratch, ["evil/redis:7"]);
        let restore = json!({ "from": { "backup": "n" }, "target": { "mysql": server } });
        assert_eq!(list_asks(of_restore, restore), ["Image spec.target.mysql.image evil/postgres"]);
        let instant = json!({
            "from": { "backup": "base" }, "pointInTime": { "image": "evil/server" }, "target": { "postgresql": {
                "host": "db", "image": "evil/postgres", "authSecretName": "a",
            } },
        });
        let asks = list_asks(of_restore, instant);
        assert!(asks.contains(&"Image spec.pointInTime.image evil/server".to_owned()), "{asks:?}");
        let elsewhere = json!({
            "from": { "s3": { "bucket": "theirs", "endpoint": "https://e" } }, "target": { "redis": { "name": "a" } },
        });
        let asks = list_asks(of_restore, elsewhere);
        assert_eq!(asks, ["Bucket spec.from.s3.bucket theirs", "Endpoint spec.from.s3.endpoint https://e"]);
    }
}
