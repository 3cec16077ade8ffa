//! An S3 in memory that only lists, for tests: in pages, after a key, and up to a delimiter. It has no uploads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "support of tests")]

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_s3::config::{Credentials, SharedCredentialsProvider};
use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use tokio::net::TcpListener;

use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

use super::{Place, S3};

/// Entries of a page, as S3 has them.
const PAGE: usize = 1000;

/// The S3, the place of its only bucket, and the count of its answers.
pub struct Fake {
    /// A client of it.
    pub s3: S3,
    /// The place of the only bucket.
    pub place: Place,
    calls: Arc<AtomicUsize>,
}

impl Fake {
    /// Creates one with these keys in the bucket; all objects were written at `modified`.
    ///
    /// # Panics
    ///
    /// If this machine gives it no port.
    pub async fn with_keys(keys: impl IntoIterator<Item = String>, modified: &str) -> Self {
        Self::with_failures(keys, modified, |_| false).await
    }

    /// Creates the same, but the calls fail whose numbers, from 0, `fails` chooses.
    ///
    /// # Panics
    ///
    /// If this machine gives it no port.
    pub async fn with_failures(
        keys: impl IntoIterator<Item = String>,
        modified: &str,
        fails: fn(usize) -> bool,
    ) -> Self {
        let keys: Arc<BTreeSet<String>> = Arc::new(keys.into_iter().collect());
        let (calls, modified): (Arc<AtomicUsize>, Arc<str>) = (Arc::default(), modified.into());
        let counted = calls.clone();
        let answer = move |request: Request| {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            let (keys, modified) = (keys.clone(), modified.clone());
            async move {
                if fails(number) {
                    return (StatusCode::SERVICE_UNAVAILABLE, String::new());
                }
                (StatusCode::OK, list_keys(&keys, request.uri().query().unwrap_or_default(), &modified))
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        let credentials = Credentials::new("key", "secret", None, None, "test");
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .credentials_provider(SharedCredentialsProvider::new(credentials));
        let place = Place { bucket: "b".into(), region: "eu-west-1".into(), endpoint: Some(endpoint) };
        Self { s3: S3::new(&config.build(), Metrics::new(), Fence::always_open()), place, calls }
    }

    /// Counts the calls that it answered so far.
    pub fn count_answers(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

fn list_keys(keys: &BTreeSet<String>, query: &str, modified: &str) -> String {
    if query.split('&').any(|it| it.trim_end_matches('=') == "uploads") {
        return "<ListMultipartUploadsResult></ListMultipartUploadsResult>".into();
    }
    let parameter = |name: &str| {
        let value = query.split('&').find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
        value.map(|value| value.replace("%2F", "/"))
    };
    let prefix = parameter("prefix").unwrap_or_default();
    let delimiter = parameter("delimiter");
    let after = parameter("continuation-token").or_else(|| parameter("start-after")).unwrap_or_default();
    let (mut names, mut all, mut last) = (BTreeSet::<&str>::new(), Vec::new(), None);
    let mut entries = 0;
    for key in keys.range::<str, _>((Excluded(after.as_str()), Unbounded)).filter(|key| key.starts_with(&prefix)) {
        let name = delimiter.as_ref().and_then(|it| key[prefix.len()..].split_once(it.as_str())).map(|(name, _)| name);
        if name.is_some_and(|name| names.contains(name)) {
            last = Some(key);
            continue;
        }
        if entries == PAGE {
            let token = last.map_or("", String::as_str);
            all.push(format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"));
            break;
        }
        (entries, last) = (entries + 1, Some(key));
        all.push(match name {
            Some(name) => format!("<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>"),
            None => {
                format!("<Contents><Key>{key}</Key><LastModified>{modified}</LastModified><Size>1</Size></Contents>")
            }
        });
        names.extend(name);
    }
    format!("<ListBucketResult>{}</ListBucketResult>", all.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_fails_is_made_again() {
        let keys = (0..3 * PAGE).map(|number| format!("p/{number:06}"));
        // Two of three calls fail.
        let fake = Fake::with_failures(keys, "2026-11-22T00:00:00Z", |number| number % 3 < 2).await;
        let listing = fake.s3.list(&fake.place, "1", "p/").await.expect("a list");
        assert_eq!((listing.objects.len(), fake.count_answers()), (3 * PAGE, 9));
    }

    #[tokio::test]
    async fn an_s3_that_only_fails_is_not_asked_for_ever() {
        let fake = Fake::with_failures([], "2026-11-22T00:00:00Z", |_| true).await;
        fake.s3.list(&fake.place, "1", "p/").await.expect_err("it fails");
        assert_eq!(fake.count_answers(), 4);
    }
}
