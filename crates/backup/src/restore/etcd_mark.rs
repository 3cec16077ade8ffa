//! The mark of a restore in an etcd. Every write is made on condition that the mark is still that of its run, so of two restores
//! at once only one writes.

use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};

use super::MARK;
use super::etcd::{count_at, of_target};
use super::etcd_walk::again;
use crate::Error;

/// The condition that the target is still this run's.
pub fn is_marked(run: &str) -> Compare {
    Compare::value(MARK, CompareOp::Equal, run)
}

/// Writes the mark, with `force` over that of another run. It is an error if another restore has the target, or takes it now.
pub async fn mark(into: &Client, run: &str, force: bool) -> Result<(), Error> {
    let condition = match value(into).await? {
        None => Compare::create_revision(MARK, CompareOp::Equal, 0),
        Some(there) if force || there == run.as_bytes() => Compare::value(MARK, CompareOp::Equal, there),
        Some(_) => return Err(taken(into).await?),
    };
    let transaction = Txn::new().when([condition]).and_then([TxnOp::put(MARK, run, None)]);
    again(async || into.kv_client().txn(transaction.clone()).await).await.map_err(of_target)?;
    // Not what it answered: the answer to a try that had succeeded may have been lost.
    check_mark(into, run).await
}

/// Checks that the mark is that of this run.
pub async fn check_mark(into: &Client, run: &str) -> Result<(), Error> {
    if value(into).await?.is_some_and(|there| there == run.as_bytes()) { Ok(()) } else { Err(taken(into).await?) }
}

/// Removes the mark of this run.
pub async fn unmark(into: &Client, run: &str) -> Result<(), Error> {
    let transaction = Txn::new().when([is_marked(run)]).and_then([TxnOp::delete(MARK, None)]);
    again(async || into.kv_client().txn(transaction.clone()).await).await.map(drop).map_err(of_target)
}

/// The error if another restore has the target.
pub async fn taken(into: &Client) -> Result<Error, Error> {
    let all = count_at(into, 0).await.map_err(of_target)?;
    let marks = u64::from(value(into).await?.is_some());
    Ok(Error::TargetHalfRestored { keys: all.saturating_sub(marks) })
}

async fn value(into: &Client) -> Result<Option<Vec<u8>>, Error> {
    let found = again(async || into.kv_client().get(MARK, None).await).await.map_err(of_target)?;
    Ok(found.kvs().first().map(|pair| pair.value().to_vec()))
}
