//! A record of several `ConfigMaps`, on an API server in memory that may fail at any write.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Map;

use super::*;
use crate::jobs::Catalog;
use crate::record::Evidence;

const UID: &str = "u1";

/// `ConfigMaps` by name, and how many writes still succeed.
#[derive(Clone)]
struct Server(Arc<Mutex<(BTreeMap<String, Value>, usize)>>);

impl Server {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((BTreeMap::new(), usize::MAX))))
    }

    /// The records, as a process sees them that has just started.
    fn records(&self) -> Records {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.expect("a body");
                let sent = serde_json::from_slice(&body).unwrap_or_default();
                let name = head.uri.path().rsplit('/').next().unwrap_or_default();
                let (code, answer) = server.answer(head.method.as_str(), name, sent);
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).expect("a response"))
            }
        });
        Records::new(Client::new(service, "default"), "causeway-system".into())
    }

    fn writes_left(&self, count: usize) {
        self.0.lock().1 = count;
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().0.keys().cloned().collect()
    }

    fn answer(&self, method: &str, name: &str, mut sent: Value) -> (u16, Value) {
        let failure = |code: u16| {
            let reason = if code == 404 { "NotFound" } else { "Conflict" };
            (code, json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no" }))
        };
        let (all, left) = &mut *self.0.lock();
        if method == "GET" {
            return all.get(name).map_or_else(|| failure(404), |found| (200, found.clone()));
        }
        if *left == 0 {
            return failure(500);
        }
        *left -= 1;
        let made = sent["metadata"]["name"].as_str().unwrap_or(name).to_owned();
        match (method, all.get_mut(&made)) {
            ("POST", None) => {
                sent["metadata"]["resourceVersion"] = json!("1");
                all.insert(made, sent.clone());
                (201, sent)
            }
            ("PATCH", Some(live)) if live["metadata"]["resourceVersion"] == sent["metadata"]["resourceVersion"] => {
                let version = live["metadata"]["resourceVersion"].as_str().and_then(|it| it.parse::<u32>().ok());
                live["metadata"]["resourceVersion"] = json!((version.unwrap_or_default() + 1).to_string());
                let data = live["data"].as_object_mut().expect("data");
                for (key, text) in sent["data"].as_object().unwrap_or(&Map::new()) {
                    if text.is_null() { drop(data.remove(key)) } else { drop(data.insert(key.clone(), text.clone())) }
                }
                (200, live.clone())
            }
            ("DELETE", Some(_)) => (200, all.remove(&made).unwrap_or_default()),
            (_, None) => failure(404),
            _ => failure(409),
        }
    }
}

/// A record with so many backups of the log, one each minute, behind the first `gone` ones.
fn record(gone: usize, count: usize, before: &Record) -> Record {
    let due = |minutes: usize| {
        let first: Timestamp = "2026-01-01T00:00:00Z".parse().expect("an instant");
        first + SignedDuration::from_mins(i64::try_from(minutes).expect("minutes"))
    };
    let backups = (gone..gone + count).map(|at| (due(at), Evidence::Listed(due(at)))).collect();
    let mut record = before.clone();
    record.backups = BTreeMap::from([("postgresql-wal".to_owned(), backups)]);
    record.tidy(&Catalog { cut: true, ..Catalog::default() }, &std::collections::BTreeSet::new());
    record
}

#[tokio::test]
async fn a_record_of_several_config_maps_stays_whole() {
    let server = Server::new();
    let records = server.records();
    let large = record(0, 12_000, &Record::default());
    records.write(UID, &large).await.expect("written");
    assert_eq!(server.names(), ["causeway-backups-u1", "causeway-backups-u1-1"]);
    assert_eq!(server.records().record(UID).await.expect("read").as_ref(), Some(&large));
    // The log was deleted up to some instant: its page is deleted, too.
    let small = record(7_000, 5_001, &large);
    records.write(UID, &small).await.expect("written");
    assert_eq!(server.names(), ["causeway-backups-u1"]);
    assert_eq!(server.records().read(UID).await.expect("read").as_ref(), Some(&small));
    records.write(UID, &record(7_000, 16_000, &small)).await.expect("written");
    assert_eq!(server.names().len(), 3);
    server.records().delete(UID).await.expect("deleted");
    assert!(server.names().is_empty());
}

#[tokio::test]
async fn a_write_that_stops_half_way_loses_no_evidence() {
    let (before, mut stops) = (record(0, 10_000, &Record::default()), 0);
    let after = record(0, 16_000, &before);
    assert_eq!((before.pages.len(), after.pages.len()), (0, 2));
    loop {
        let server = Server::new();
        server.records().write(UID, &before).await.expect("written");
        server.writes_left(stops);
        let records = server.records();
        records.record(UID).await.expect("read");
        let is_whole = records.write(UID, &after).await.is_ok();
        server.writes_left(usize::MAX);
        let found = server.records().record(UID).await.expect("read").expect("a record");
        let dues = |record: &Record| record.backups["postgresql-wal"].keys().copied().collect::<Vec<_>>();
        assert!(dues(&found).starts_with(&dues(&before)), "stopped behind {stops} writes");
        // The next process writes over what the first one left.
        let next = server.records();
        next.record(UID).await.expect("read");
        next.write(UID, &record(0, 16_000, &found)).await.expect("written");
        assert_eq!(server.records().record(UID).await.expect("read").as_ref(), Some(&after), "behind {stops} writes");
        if is_whole {
            break;
        }
        stops += 1;
    }
    assert_eq!(stops, 3, "two pages and the first ConfigMap");
}
