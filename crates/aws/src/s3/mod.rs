//! S3, as far as it is needed to keep the buckets of backups: they are created and hardened, listed, and emptied of
//! what is not wanted any more. The Jobs of backups carry the data itself.
//!
//! Every call names the account that must own the bucket.
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/Welcome.html>

mod bucket;
mod bucket_facts;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod keeping;
mod object;
mod objects;
mod versions;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aws_config::{Region, SdkConfig};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::Builder;
use aws_sdk_s3::config::retry::RetryConfig;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use causeway_runtime::Class;
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

use super::aws::{AwsError, Caller, FenceGuard};
use super::budget::Budget;

pub use bucket_facts::{BucketFacts, Found};
pub use keeping::{Keeping, Lock};
pub use object::{DELETED_AT_ONCE, LOCKED, Listing, Object, Refusals, Upload};

type Outcome<T> = Result<T, AwsError>;

/// Tags of a bucket by key.
pub type Tags = BTreeMap<String, String>;

/// The location of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The name of the bucket.
    pub bucket: String,
    /// The region of the bucket.
    pub region: String,
    /// The endpoint of an S3 other than that of the operator's own configuration.
    pub endpoint: Option<String>,
}

/// The number of clients that are kept. Objects name regions, and not all of them exist.
const CLIENTS: usize = 128;

/// The most attempts at a call whose error is transient. An object needs dozens of calls, and if each may fail, hardly
/// any look at it comes to its end. All calls here may be made again.
const ATTEMPTS: u32 = 4;
/// The first pause between two attempts, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A client for each region and endpoint.
type Clients<C> = HashMap<(String, Option<String>), C>;

/// The API in all regions. A clone is cheap and shares everything.
#[derive(Clone)]
pub struct S3(Arc<Inner>);

struct Inner {
    config: SdkConfig,
    fence: Fence,
    s3: Caller,
    sts: Caller,
    clients: Mutex<Clients<Client>>,
    account: OnceCell<String>,
}

impl S3 {
    /// A client that counts into `metrics` and changes things only while `fence` is open.
    pub fn new(config: &SdkConfig, metrics: Metrics, fence: Fence) -> Self {
        let caller =
            |service, class_of, metrics| Caller { service, metrics, class_of, budget: Budget::without_limit() };
        Self(Arc::new(Inner {
            config: config.clone(),
            fence,
            s3: caller("s3", class_of, metrics.clone()),
            sts: caller("sts", |_| None, metrics),
            clients: Mutex::default(),
            account: OnceCell::new(),
        }))
    }

    /// Returns the operator's region.
    pub fn region(&self) -> String {
        self.0.config.region().map(ToString::to_string).unwrap_or_default()
    }

    /// Returns the account whose credentials the operator has. It is asked for once.
    pub async fn account(&self) -> Outcome<String> {
        let ask = || async {
            let client = aws_sdk_sts::Client::new(&self.0.config);
            let identity = self.0.sts.call("GetCallerIdentity", client.get_caller_identity().send()).await?;
            identity.account.ok_or_else(|| self.0.sts.empty_answer("GetCallerIdentity"))
        };
        self.0.account.get_or_try_init(ask).await.cloned()
    }

    fn client(&self, place: &Place) -> Client {
        let mut clients = self.0.clients.lock();
        kept_client(&mut clients, place, || self.make_client(place))
    }

    fn make_client(&self, place: &Place) -> Client {
        let retries = RetryConfig::standard().with_max_attempts(ATTEMPTS).with_initial_backoff(FIRST_PAUSE);
        let builder = Builder::from(&self.0.config)
            .region(Region::new(place.region.clone()))
            .retry_config(retries.with_max_backoff(LONGEST_PAUSE))
            .interceptor(FenceGuard(self.0.fence.clone()));
        client_at(builder, &self.0.config, place.endpoint.as_deref())
    }

    fn caller(&self) -> &Caller {
        &self.0.s3
    }
}

/// Returns a client with these settings, for AWS or for the S3 at that endpoint.
pub fn client_at(mut builder: Builder, shared: &SdkConfig, endpoint: Option<&str>) -> Client {
    if let Some(endpoint) = endpoint {
        builder = builder.endpoint_url(endpoint);
    }
    // Only AWS's own DNS has names of buckets as parts of host names.
    let elsewhere = endpoint.is_some() || shared.endpoint_url().is_some();
    Client::from_conf(builder.force_path_style(elsewhere).build())
}

/// Returns the client of a place, which is made if it is not kept. Where too many are kept, all are made again.
fn kept_client<C: Clone>(clients: &mut Clients<C>, place: &Place, make: impl FnOnce() -> C) -> C {
    let key = (place.region.clone(), place.endpoint.clone());
    if clients.len() >= CLIENTS && !clients.contains_key(&key) {
        clients.clear();
    }
    clients.entry(key).or_insert_with(make).clone()
}

/// Classes of the service's own codes.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>
fn class_of(code: &str) -> Option<Class> {
    Some(match code {
        "NoSuchBucket" | "NoSuchKey" | "NoSuchUpload" => Class::NotFound,
        "BucketNotEmpty" | "OperationAborted" | "BucketAlreadyOwnedByYou" => Class::Conflict,
        "BucketAlreadyExists"
        | "AllAccessDisabled"
        | "AccountProblem"
        | "TooManyBuckets"
        | "KMS.DisabledException"
        | "KMS.NotFoundException" => Class::Denied,
        "InvalidBucketName"
        | "PermanentRedirect"
        | "AuthorizationHeaderMalformed"
        | "IllegalLocationConstraintException"
        | "InvalidLocationConstraint"
        | "InvalidArgument"
        | "InvalidRequest"
        | "MalformedXML"
        | "MalformedPolicy" => Class::Invalid,
        _ => return None,
    })
}

/// Returns the answer; `None` if it says that nothing is set.
fn if_set<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    const UNSET: [&str; 6] = [
        "ObjectLockConfigurationNotFoundError",
        "NoSuchPublicAccessBlockConfiguration",
        "OwnershipControlsNotFoundError",
        "ServerSideEncryptionConfigurationNotFoundError",
        "NoSuchBucketPolicy",
        "NoSuchLifecycleConfiguration",
    ];
    match outcome {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if UNSET.iter().any(|code| error.is(code)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A request that lacks a field is a bug of ours.
fn built<T>(operation: &'static str, built: Result<T, aws_sdk_s3::error::BuildError>) -> Outcome<T> {
    built.map_err(|error| AwsError::stale(operation, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_made_up_regions_are_dropped() {
        let mut clients = Clients::new();
        let place = |number: usize| Place { bucket: "b".into(), region: format!("r-{number}"), endpoint: None };
        for number in 0..3 * CLIENTS {
            assert_eq!(kept_client(&mut clients, &place(number), || number), number);
            assert_eq!(kept_client(&mut clients, &place(number), || 0), number, "it is kept");
            assert!(clients.len() <= CLIENTS);
        }
    }
}
