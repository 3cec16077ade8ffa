//! An S3 in memory, for tests: it lists, gets and puts whole objects, and honours `If-None-Match`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::{Store, checksum};

/// Bytes, and when they were written.
type Object = (Vec<u8>, Timestamp);

/// The objects in the bucket, by key.
#[derive(Clone, Default)]
pub struct Bucket(Arc<Mutex<BTreeMap<String, Object>>>, Arc<Mutex<Downloads>>);

/// Downloads of data of backups.
#[derive(Default)]
struct Downloads {
    count: usize,
    /// The number of first downloads that are damaged on their way.
    damaged: usize,
}

impl Bucket {
    /// Puts an object into the bucket.
    pub fn put(&self, key: &str, bytes: &[u8], written: Timestamp) {
        self.0.lock().insert(key.to_owned(), (bytes.to_vec(), written));
    }

    /// Damages that many of the next downloads of data.
    pub fn damage(&self, count: usize) {
        self.1.lock().damaged = count;
    }

    /// The number of downloads of data.
    pub fn downloads(&self) -> usize {
        self.1.lock().count
    }

    /// The bytes of an object as a client gets them.
    fn sent(&self, key: &str, method: &Method, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if *method == Method::GET && key.ends_with("/data") {
            let mut downloads = self.1.lock();
            downloads.count += 1;
            if downloads.count <= downloads.damaged {
                bytes[0] ^= 1;
            }
        }
        bytes
    }

    /// A store in it, whose keys begin with `p/`.
    pub async fn store(&self) -> Store {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let bucket = self.clone();
        let answer = move |request: Request| {
            let bucket = bucket.clone();
            async move { bucket.answer(request).await }
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        store_at(endpoint)
    }

    async fn answer(&self, request: Request) -> Response {
        let key = request.uri().path().trim_start_matches("/b").trim_start_matches('/').to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        if key.is_empty() {
            return self.list(&query).into_response();
        }
        if request.method() == Method::PUT {
            let once = request.headers().contains_key(header::IF_NONE_MATCH);
            let bytes = to_bytes(request.into_body(), usize::MAX).await.unwrap();
            if once && self.0.lock().contains_key(&key) {
                return (StatusCode::PRECONDITION_FAILED, error("PreconditionFailed")).into_response();
            }
            self.put(&key, &bytes, Timestamp::now());
            return StatusCode::OK.into_response();
        }
        let method = request.method().clone();
        match self.0.lock().get(&key) {
            Some((bytes, _)) => {
                let sum = checksum::text(&checksum::sha256(bytes));
                ([("x-amz-checksum-sha256", sum)], self.sent(&key, &method, bytes)).into_response()
            }
            None => (StatusCode::NOT_FOUND, error("NoSuchKey")).into_response(),
        }
    }

    fn list(&self, query: &str) -> String {
        let prefix = query.split('&').find_map(|it| it.strip_prefix("prefix=")).unwrap_or_default().replace("%2F", "/");
        let objects = self.0.lock();
        if query.contains("delimiter=") {
            let names = objects.keys().filter_map(|key| Some(key.strip_prefix(&prefix)?.split_once('/')?.0));
            let names: BTreeSet<&str> = names.collect();
            let each = |name| format!("<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>");
            let all: Vec<String> = names.into_iter().map(each).collect();
            return format!("<ListBucketResult>{}</ListBucketResult>", all.concat());
        }
        let first = objects.iter().find(|(key, _)| key.starts_with(&prefix));
        let contents = first.map_or_else(String::new, |(key, (bytes, written))| {
            let size = bytes.len();
            format!("<Contents><Key>{key}</Key><LastModified>{written}</LastModified><Size>{size}</Size></Contents>")
        });
        format!("<ListBucketResult>{contents}</ListBucketResult>")
    }
}

fn error(code: &str) -> String {
    format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>")
}

/// A store whose bucket `b` answers there, with keys that begin with `p/`; what fails is not tried again.
pub fn store_at(endpoint: String) -> Store {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        .endpoint_url(endpoint)
        .force_path_style(true);
    let text = r#"{"bucket":"b","owner":"000000000000","region":"eu-central-1","prefix":"p"}"#;
    let place = serde_json::from_str(text).unwrap();
    Store { client: aws_sdk_s3::Client::from_conf(config.build()), place: Arc::new(place) }
}
