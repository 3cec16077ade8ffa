//! Limits of an etcd: operations of a transaction, bytes of a request, bytes in all. Pure.
//! <https://etcd.io/docs/latest/op-guide/configuration/>, <https://etcd.io/docs/latest/dev-guide/limit/>

use etcd_client::Error as EtcdError;

use super::etcd_walk::Difference;
use crate::Error;
use crate::plan::Source;

/// Operations of one transaction. etcd's own default limit is 128, also of its conditions, one of which is about the mark.
const OPERATIONS: usize = 127;
/// Bytes of one transaction; etcd's own default limit is 1.5 MiB.
const BYTES: usize = 1024 * 1024;
/// Bytes of a request besides a key, named twice, and its value.
const AROUND: usize = 4096;
/// A recommended setting is a multiple of this.
const STEP: u64 = 512 * 1024;
/// The folder of a server that is named by its address. An `EtcdCluster` has a folder with its name.
const BY_ADDRESS: &str = "etcd";

/// How much a transaction may have. It becomes less when a server refuses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    operations: usize,
    bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { operations: OPERATIONS, bytes: BYTES }
    }
}

impl Limits {
    /// Reports whether a batch of that many differences and bytes has room for a difference.
    pub fn have_room(self, count: usize, bytes: usize, difference: &Difference) -> bool {
        count == 0 || (count < self.operations && bytes + size_of(difference) <= self.bytes)
    }

    /// The limits after a server refused a batch of that size.
    pub fn halved(self, count: usize, bytes: usize) -> Self {
        let (operations, bytes) = (self.operations.min(count / 2), self.bytes.min(bytes / 2));
        Self { operations: operations.max(1), bytes: bytes.max(1) }
    }
}

/// Bytes of a difference in a transaction. The condition that a key is absent names it, too.
pub fn size_of(difference: &Difference) -> usize {
    difference.key().len() * 2 + difference.value().map_or(0, <[u8]>::len)
}

/// Reports whether a server refused a transaction because of its size, so that a smaller one may pass.
pub fn is_too_large(error: &EtcdError) -> bool {
    matches!(error, EtcdError::GRpcStatus(status) if says_too_large(status.message()))
}

fn says_too_large(message: &str) -> bool {
    ["too many operations", "request is too large", "message larger than max"].iter().any(|it| message.contains(it))
}

/// Reports whether a server has no space left.
pub fn is_full(problem: &str) -> bool {
    problem.contains("database space exceeded")
}

/// The size of a restore.
#[derive(Debug, Default)]
pub struct Survey {
    /// Bytes of all keys and values.
    bytes: u64,
    /// The largest pair that is written.
    pub largest: Option<Difference>,
}

impl Survey {
    pub fn add(&mut self, difference: Difference) {
        if difference.value().is_none() {
            return;
        }
        self.bytes += (size_of(&difference) - difference.key().len()) as u64;
        if self.largest.as_ref().is_none_or(|largest| size_of(largest) < size_of(&difference)) {
            self.largest = Some(difference);
        }
    }

    /// The error if it does not fit into an etcd with that quota (0 if the quota is not known), even if the etcd were empty.
    pub fn exceeds(&self, quota: u64, target: &Source) -> Option<Error> {
        (quota > 0 && self.bytes > quota).then(|| {
            Error::ServerUnfit(format!(
                "the restore writes {} bytes into {}, and its quota-backend-bytes is {quota}: set {} to {} or more, then restore \
                 again",
                self.bytes,
                target.title,
                flag("quota-backend-bytes", target),
                (self.bytes + self.bytes / 2).next_multiple_of(STEP)
            ))
        })
    }
}

/// The error about a key that is too large for a request.
pub fn too_large(difference: &Difference, target: &Source) -> Error {
    let size = size_of(difference);
    let key: String = String::from_utf8_lossy(difference.key()).chars().take(60).collect();
    Error::ServerUnfit(format!(
        "key {key:?} of the backup takes a request of {size} bytes, which {} refuses: set {} to {} or more, then restore again",
        target.title,
        flag("max-request-bytes", target),
        ((size + AROUND) as u64).next_multiple_of(STEP)
    ))
}

/// The error about an etcd that ran out of space.
pub fn full(target: &Source) -> Error {
    Error::MemoryTooSmall(format!(
        "{} has no space left, and the restore has not ended: set {} to more than the size of the backup's server, then etcdctl alarm \
         disarm, then restore again with force: true",
        target.title,
        flag("quota-backend-bytes", target)
    ))
}

/// Where a setting of the target is made.
fn flag(name: &str, target: &Source) -> String {
    if target.folder == BY_ADDRESS { format!("--{name} of its members") } else { format!("spec.config.{name}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::Server;

    fn target(folder: &str) -> Source {
        let server = Server::Etcd { endpoints: vec![], tls: None, login: None };
        Source { folder: folder.into(), title: "EtcdCluster prod".into(), server }
    }

    fn deleted(length: usize) -> Difference {
        Difference::Delete(vec![b'k'; length])
    }

    proptest! {
        #[test]
        fn batches_that_are_refused_shrink_down_to_one_key(sizes in prop::collection::vec(1..9000_usize, 1..300), most in 1..200_usize) {
            // A server that takes `most` operations.
            let (mut limits, mut taken, mut calls) = (Limits::default(), 0, 0);
            while taken < sizes.len() {
                let (mut count, mut bytes) = (0, 0);
                while taken + count < sizes.len() && limits.have_room(count, bytes, &deleted(sizes[taken + count])) {
                    bytes += size_of(&deleted(sizes[taken + count]));
                    count += 1;
                }
                if count <= most { taken += count } else { limits = limits.halved(count, bytes) }
                calls += 1;
                prop_assert!(calls < 1000);
            }
        }
    }

    #[test]
    fn only_refusals_by_size_are_retried_smaller() {
        for message in [
            "etcdserver: too many operations in txn request",
            "etcdserver: request is too large",
            "grpc: received message larger than max (2097200 vs. 2097152)",
        ] {
            assert!(says_too_large(message), "{message}");
        }
        for message in ["etcdserver: mvcc: database space exceeded", "etcdserver: permission denied"] {
            assert!(!says_too_large(message), "{message}");
        }
    }

    #[test]
    fn a_large_key_is_named_with_the_setting() {
        let error = too_large(&deleted(600_000), &target("etcdcluster-prod"));
        assert_eq!((error.reason(), error.is_refusal(), error.is_final()), ("ServerUnfit", true, true));
        let text = error.describe();
        assert!(text.contains("a request of 1200000 bytes, which EtcdCluster prod refuses"), "{text}");
        assert!(text.contains("set spec.config.max-request-bytes to 1572864 or more"), "{text}");
        assert!(too_large(&deleted(9), &target(BY_ADDRESS)).describe().contains("--max-request-bytes of its members"));
    }

    #[test]
    fn what_exceeds_the_quota_is_told_before_it_is_written() {
        let survey = Survey { bytes: 3_000_000, largest: None };
        assert!(survey.exceeds(0, &target(BY_ADDRESS)).is_none(), "the quota is not known");
        assert!(survey.exceeds(3_000_000, &target(BY_ADDRESS)).is_none());
        let text = survey.exceeds(2_000_000, &target(BY_ADDRESS)).expect("too much").describe();
        assert!(text.contains("set --quota-backend-bytes of its members to 4718592 or more"), "{text}");
    }
}
