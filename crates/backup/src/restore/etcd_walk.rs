//! Walks through the keys of an etcd in order, a page at a time, and finds the differences between two etcds.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use etcd_client::{Client, Error as EtcdError, GetOptions, GetResponse, KeyValue};
use tokio::time::timeout;

use super::MARK;
use crate::source::etcd_problem;
use crate::store::pauses;

/// Deadline of one page or one batch.
const DEADLINE: Duration = Duration::from_secs(30);
/// After a page with more bytes than this, pages get fewer keys; after one with less than a fourth of it, more.
const PAGE: usize = 2 * 1024 * 1024;
/// Bytes of the largest page that is read.
const PAGE_LIMIT: usize = 8 * 1024 * 1024;
/// Bytes of the largest single key with its value.
const VALUE_LIMIT: usize = 256 * 1024 * 1024;
/// How many keys a page has.
const KEYS: std::ops::RangeInclusive<i64> = 1..=1000;

/// Makes a call again while its error is transient. Only for calls that may be made twice.
pub async fn again<T>(mut call: impl AsyncFnMut() -> Result<T, EtcdError>) -> Result<T, EtcdError> {
    let mut pauses = pauses();
    loop {
        let error = match timeout(DEADLINE, call()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_) => EtcdError::EndpointError(format!("no answer within {} s", DEADLINE.as_secs())),
        };
        let transient = match &error {
            // Cancelled, deadline exceeded, unavailable.
            EtcdError::GRpcStatus(status) => matches!(status.code() as i32, 1 | 4 | 14),
            EtcdError::EndpointError(_) | EtcdError::TransportError(_) | EtcdError::IoError(_) => true,
            _ => false,
        };
        let Some(pause) = pauses.next().filter(|_| transient) else { return Err(error) };
        tracing::warn!(problem = etcd_problem(&error), again_ms = pause.as_millis(), "etcd call failed");
        tokio::time::sleep(pause).await;
    }
}

/// Walks through all keys except our own mark.
pub struct Walk {
    client: Client,
    /// Where the next page begins.
    from: Vec<u8>,
    page: VecDeque<KeyValue>,
    keys: i64,
    is_over: bool,
}

impl Walk {
    /// Begins at the first key.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), from: vec![0], page: VecDeque::new(), keys: 128, is_over: false }
    }

    /// Reads the next page when all keys of this one are taken. The page stays empty at the end.
    async fn fill(&mut self) -> Result<(), EtcdError> {
        while self.page.is_empty() && !self.is_over {
            let mut answer = match self.page_of(PAGE_LIMIT).await {
                Err(error) if is_too_large(&error) && self.keys > *KEYS.start() => {
                    self.keys = (self.keys / 4).max(*KEYS.start());
                    continue;
                }
                Err(error) if is_too_large(&error) => self.page_of(VALUE_LIMIT).await?,
                other => other?,
            };
            self.is_over = !answer.more();
            let page = answer.take_kvs();
            let bytes: usize = page.iter().map(|it| it.key().len() + it.value().len()).sum();
            if bytes > PAGE {
                self.keys = (self.keys / 2).max(*KEYS.start());
            } else if bytes < PAGE / 4 {
                self.keys = (self.keys * 2).min(*KEYS.end());
            }
            if let Some(last) = page.last() {
                self.from = [last.key(), &[0]].concat();
            }
            self.page = page.into_iter().filter(|it| it.key() != MARK.as_bytes()).collect();
        }
        Ok(())
    }

    async fn page_of(&self, limit: usize) -> Result<GetResponse, EtcdError> {
        let client = self.client.kv_client().max_decoding_message_size(limit);
        again(async || {
            let options = GetOptions::new().with_from_key().with_limit(self.keys);
            client.clone().get(self.from.clone(), Some(options)).await
        })
        .await
    }
}

fn is_too_large(error: &EtcdError) -> bool {
    matches!(error, EtcdError::GRpcStatus(status) if status.message().contains("message length too large"))
}

/// A change that one etcd needs to equal the other.
#[derive(Debug)]
pub enum Difference {
    /// It lacks the key.
    Put(KeyValue),
    /// It has another value.
    Replace(KeyValue),
    /// The other one lacks the key.
    Delete(Vec<u8>),
}

impl Difference {
    /// The key that differs.
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Put(pair) | Self::Replace(pair) => pair.key(),
            Self::Delete(key) => key,
        }
    }

    /// The value that the key is to have; none if it is to be deleted.
    pub fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Put(pair) | Self::Replace(pair) => Some(pair.value()),
            Self::Delete(_) => None,
        }
    }
}

/// Goes through two etcds at once.
pub struct Differences {
    model: Walk,
    other: Walk,
    /// Keys of the model that were passed.
    pub passed: u64,
    /// Those of them that had a lease.
    pub leased: u64,
}

/// Which of the two walks failed.
#[derive(Debug)]
pub enum Side {
    /// The one that is the model.
    Model(EtcdError),
    /// The one that is compared with it.
    Other(EtcdError),
}

impl Differences {
    /// Compares `other` with `model`.
    pub fn between(model: &Client, other: &Client) -> Self {
        Self { model: Walk::new(model), other: Walk::new(other), passed: 0, leased: 0 }
    }

    /// The next difference; none at the end.
    pub async fn next(&mut self) -> Result<Option<Difference>, Side> {
        loop {
            self.model.fill().await.map_err(Side::Model)?;
            self.other.fill().await.map_err(Side::Other)?;
            let order = match (self.model.page.front(), self.other.page.front()) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(model), Some(other)) => model.key().cmp(other.key()),
            };
            let other = if order.is_ge() { self.other.page.pop_front() } else { None };
            if order.is_gt() {
                return Ok(other.map(|it| Difference::Delete(it.into_key_value().0)));
            }
            let Some(model) = self.model.page.pop_front() else { continue };
            self.passed += 1;
            self.leased += u64::from(model.lease() != 0);
            match other {
                None => return Ok(Some(Difference::Put(model))),
                Some(other) if other.value() != model.value() => return Ok(Some(Difference::Replace(model))),
                Some(_) => {}
            }
        }
    }
}
