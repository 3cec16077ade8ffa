//! etcd: every key in which the target differs from the backup is written, in the order of the keys. Then both are compared
//! again.
//!
//! So a second try has only the rest to do, and a try that finds no difference is done. Leases are not kept: a key that had
//! one no longer expires.

use std::path::Path;
use std::time::Duration;

use etcd_client::{Client, Compare, CompareOp, Error as EtcdError, GetOptions, Txn, TxnOp};
use tokio::time::timeout;

use causeway_api::databaserestore::RestoreAction;

use super::etcd_limits::{Limits, Survey, full, is_full, is_too_large, size_of, too_large};
use super::etcd_mark::{check_mark, is_marked, mark, taken, unmark};
use super::etcd_walk::{Difference, Differences, Side, again};
use super::{MARK, ready};
use crate::Error;
use crate::manifest::Manifest;
use crate::outlook::Outlook;
use crate::plan::{RestorePlan, Server, Source};
use crate::progress::Progress;
use crate::root_certificate;
use crate::source::{connect_etcd, etcd_problem};

/// An endpoint of the target that does not answer by then is left out.
const CHOICE: Duration = Duration::from_secs(8);
/// Deadline of the hash of all keys, for which a server reads all of them.
const HASH_DEADLINE: Duration = Duration::from_mins(5);

/// The target of writes, and the restore that makes them.
#[derive(Clone, Copy)]
struct Write<'a> {
    target: &'a Source,
    force: bool,
    run: &'a str,
}

/// Copies all keys into the target.
pub async fn restore(plan: &RestorePlan, target: &Source, run: &str) -> Result<u64, Error> {
    let from = scratch_client(plan).await?;
    let into = target_client(target).await?;
    if !is_to_do(&from, &into, plan.force, run).await? {
        return keys_of(&from).await.map_err(of_scratch);
    }
    let mut survey = Survey::default();
    let mut differences = Differences::between(&from, &into);
    while let Some(difference) = differences.next().await.map_err(of_side)? {
        survey.add(difference);
    }
    fits(&survey, &into, target).await?;
    mark(&into, run, plan.force).await?;
    let write = Write { target, force: plan.force, run };
    let keys = match Box::pin(copy(&from, &into, write)).await {
        Err(Error::TargetFailed(problem)) if is_full(&problem) => return Err(full(target)),
        copied => copied?,
    };
    if let Some(difference) = Differences::between(&from, &into).next().await.map_err(of_side)? {
        return Err(changed(&target.title, difference.key()));
    }
    unmark(&into, run).await?;
    tracing::info!(target = target.title, keys, "restored, and equal to the backup");
    Ok(keys)
}

/// Predicts what a restore would do: how many keys it would create, replace, drop and keep.
pub async fn outlook(plan: &RestorePlan, target: &Source, run: &str) -> Result<Outlook, Error> {
    let (from, into) = (scratch_client(plan).await?, target_client(target).await?);
    let mut outlook = Outlook::default();
    if let Err(error) = is_to_do(&from, &into, plan.force, run).await {
        if !error.is_refusal() {
            return Err(error);
        }
        outlook.refuse(&error);
    }
    let (mut new, mut other, mut lacking) = (0, 0, 0);
    let mut differences = Differences::between(&from, &into);
    let mut survey = Survey::default();
    while let Some(difference) = differences.next().await.map_err(of_side)? {
        match difference {
            Difference::Put(_) => new += 1,
            Difference::Replace(_) => other += 1,
            Difference::Delete(_) => lacking += 1,
        }
        survey.add(difference);
    }
    outlook.note(fits(&survey, &into, target).await)?;
    outlook.count(RestoreAction::Create, "keys", new);
    outlook.count(RestoreAction::Replace, "keys", other);
    outlook.count(RestoreAction::Drop, "keys", lacking);
    outlook.count(RestoreAction::Keep, "keys", differences.passed.saturating_sub(new + other));
    Ok(outlook)
}

/// Checks that the target takes the largest pair, and has space for all. The largest is put under a condition that is never true, so
/// that nothing is written.
async fn fits(survey: &Survey, into: &Client, target: &Source) -> Result<(), Error> {
    let status = again(async || into.maintenance_client().status().await).await.map_err(of_target)?;
    // Etcd before 3.6 reports no quota.
    let quota = u64::try_from(status.db_size_quota()).unwrap_or_default();
    if let Some(error) = survey.exceeds(quota, target) {
        return Err(error);
    }
    let Some(largest) = &survey.largest else { return Ok(()) };
    let never = Compare::create_revision(largest.key(), CompareOp::Less, 0);
    let transaction = Txn::new().when([never]).and_then([operation(largest)]);
    match again(async || into.kv_client().txn(transaction.clone()).await).await {
        Err(error) if is_too_large(&error) => Err(too_large(largest, target)),
        tried => tried.map(drop).map_err(of_target),
    }
}

/// Reports whether there is something left to do; or why the target is not touched.
async fn is_to_do(from: &Client, into: &Client, force: bool, run: &str) -> Result<bool, Error> {
    let (keys, mark) = look(into).await.map_err(of_target)?;
    if force || mark.as_deref() == Some(run.as_bytes()) || (keys == 0 && mark.is_none()) {
        return Ok(true);
    }
    // An earlier try that died after it had removed the mark left no difference. A restore that has just begun has written its mark
    // and no key yet.
    if keys > 0 && !differs(from, into).await? {
        return Ok(false);
    }
    Err(if mark.is_some() { Error::TargetHalfRestored { keys } } else { Error::TargetNotEmpty { keys } })
}

/// Compares the server that holds the backup with what its etcd had when it was made.
pub async fn verify(plan: &RestorePlan, manifest: &Manifest) -> Result<u64, Error> {
    let client = scratch_client(plan).await?;
    let fact = |name: &str| manifest.contents.facts.get(name).and_then(|text| text.parse::<i64>().ok());
    let Some(revision) = fact("revision") else {
        return Err(Error::ChecksumMismatch("the manifest has no fact revision".into()));
    };
    let keys = match count_at(&client, revision).await {
        Ok(keys) => keys,
        Err(error) if etcd_problem(&error).contains("compacted") => {
            tracing::warn!(
                revision,
                "history was compacted while the snapshot was made: keys are counted, not compared"
            );
            return keys_of(&client).await.map_err(of_scratch);
        }
        Err(error) => return Err(of_scratch(error)),
    };
    if keys != manifest.contents.keys {
        let message = format!("{keys} keys at revision {revision}, and there were {}", manifest.contents.keys);
        return Err(Error::Differs(message));
    }
    if let (Some(hash), Some(compacted)) = (fact("hash"), fact("compactRevision")) {
        let found = timeout(HASH_DEADLINE, client.maintenance_client().hash_kv(revision)).await;
        let found = found.map_err(|_| Error::ScratchFailed("no hash in time".into()))?.map_err(of_scratch)?;
        if found.compact_version() != compacted {
            tracing::warn!(revision, "history was compacted while the snapshot was made: the hash is not compared");
        } else if i64::from(found.hash()) != hash {
            let message = format!("the hash of all keys at revision {revision} is {}, and it was {hash}", found.hash());
            return Err(Error::Differs(message));
        }
    }
    tracing::info!(keys, revision, "verified");
    Ok(keys)
}

async fn copy(from: &Client, into: &Client, write: Write<'_>) -> Result<u64, Error> {
    let progress = Progress::new(&write.target.title, "keys");
    progress.expect(Some(keys_of(from).await.map_err(of_scratch)?));
    progress.during(Box::pin(copy_all(from, into, write, &progress))).await
}

/// Without force, only keys that the target lacks are written. An unfinished restore of ours differs in no other way, so any
/// other difference is data of another client.
async fn copy_all(from: &Client, into: &Client, write: Write<'_>, progress: &Progress) -> Result<u64, Error> {
    let Write { target, force, run: _ } = write;
    let mut differences = Differences::between(from, into);
    let (mut batch, mut bytes, mut deleted, mut limits) = (Vec::new(), 0, 0_u64, Limits::default());
    while let Some(difference) = differences.next().await.map_err(of_side)? {
        if !force && !matches!(difference, Difference::Put(_)) {
            return Err(changed(&target.title, difference.key()));
        }
        deleted += u64::from(difference.value().is_none());
        if !limits.have_room(batch.len(), bytes, &difference) {
            limits = commit_all(into, std::mem::take(&mut batch), write, limits).await?;
            bytes = 0;
        }
        bytes += size_of(&difference);
        batch.push(difference);
        progress.pass(differences.passed - progress.passed());
    }
    commit_all(into, batch, write, limits).await?;
    if differences.leased > 0 {
        tracing::warn!(keys = differences.leased, "these keys had leases, which are not kept: they stay");
    }
    if deleted > 0 {
        tracing::info!(keys = deleted, "deleted what the backup lacks");
    }
    Ok(differences.passed)
}

/// Writes differences, in more transactions than one if the target refuses one as too large. Returns the limits that it takes.
async fn commit_all(
    into: &Client,
    batch: Vec<Difference>,
    write: Write<'_>,
    mut limits: Limits,
) -> Result<Limits, Error> {
    let mut left = vec![batch];
    while let Some(mut batch) = left.pop() {
        let bytes = batch.iter().map(size_of).sum();
        if commit(into, &mut batch, write).await? {
            continue;
        }
        let count = batch.len();
        if let [one] = batch.as_slice() {
            return Err(too_large(one, write.target));
        }
        tracing::info!(count, bytes, "the target refused a batch: it is split");
        limits = limits.halved(count, bytes);
        let rest = batch.split_off(count / 2);
        left.extend([rest, batch]);
    }
    Ok(limits)
}

/// Writes differences in one transaction; without force only if none of the keys exists. Returns false, and leaves what was not
/// written, if the target refuses the transaction as too large.
async fn commit(into: &Client, batch: &mut Vec<Difference>, write: Write<'_>) -> Result<bool, Error> {
    while !batch.is_empty() {
        let conditions = conditions(batch, write);
        let operations: Vec<TxnOp> = batch.iter().map(operation).collect();
        let transaction = Txn::new().when(conditions).and_then(operations);
        let answer = match again(async || into.kv_client().txn(transaction.clone()).await).await {
            Err(error) if is_too_large(&error) => return Ok(false),
            answer => answer.map_err(of_target)?,
        };
        if answer.succeeded() {
            break;
        }
        check_mark(into, write.run).await?;
        // The mark was another's, and is ours again.
        if write.force {
            return Err(taken(into).await?);
        }
        // Keys may be there because we wrote them, in a call whose answer was lost.
        let mut left = Vec::new();
        for difference in batch.drain(..) {
            let found = again(async || into.kv_client().get(difference.key(), None).await).await.map_err(of_target)?;
            match found.kvs().first() {
                None => left.push(difference),
                Some(pair) if difference.value() == Some(pair.value()) => {}
                Some(_) => return Err(changed(&write.target.title, difference.key())),
            }
        }
        *batch = left;
    }
    Ok(true)
}

/// The conditions of a batch: the target is ours, and without force, it has none of the keys.
fn conditions(batch: &[Difference], write: Write<'_>) -> Vec<Compare> {
    let absent = |it: &Difference| Compare::create_revision(it.key(), CompareOp::Equal, 0);
    let keys = batch.iter().filter(|_| !write.force).map(absent);
    std::iter::once(is_marked(write.run)).chain(keys).collect()
}

fn operation(difference: &Difference) -> TxnOp {
    match difference.value() {
        Some(value) => TxnOp::put(difference.key(), value, None),
        None => TxnOp::delete(difference.key(), None),
    }
}

/// Returns the error for a target that another client changes.
fn changed(title: &str, key: &[u8]) -> Error {
    let key = String::from_utf8_lossy(key);
    Error::Differs(format!("{title} was changed by another client meanwhile, such as its key {key:?}"))
}

async fn differs(from: &Client, into: &Client) -> Result<bool, Error> {
    Ok(Differences::between(from, into).next().await.map_err(of_side)?.is_some())
}

/// How many keys an etcd has besides our mark, and the value of the mark.
async fn look(client: &Client) -> Result<(u64, Option<Vec<u8>>), EtcdError> {
    let mark = again(async || client.kv_client().get(MARK, None).await).await?;
    let all = count_at(client, 0).await?;
    let mark = mark.kvs().first().map(|pair| pair.value().to_vec());
    Ok((all - u64::from(mark.is_some()).min(all), mark))
}

async fn keys_of(client: &Client) -> Result<u64, EtcdError> {
    look(client).await.map(|(keys, _)| keys)
}

pub async fn count_at(client: &Client, revision: i64) -> Result<u64, EtcdError> {
    let options = GetOptions::new().with_all_keys().with_count_only().with_revision(revision);
    let counted = again(async || client.kv_client().get("", Some(options.clone())).await).await?;
    Ok(u64::try_from(counted.count()).unwrap_or_default())
}

async fn scratch_client(plan: &RestorePlan) -> Result<Client, Error> {
    let by_tls = plan.scratch.starts_with("https://");
    let certificates = Some(root_certificate::directory(&plan.work)).filter(|_| by_tls);
    let url = if by_tls { plan.scratch.clone() } else { format!("http://{}", plan.scratch) };
    ready(&plan.scratch, async || {
        let client = connect_etcd(&url, certificates.as_deref(), None).await.map_err(|error| error.to_string())?;
        let options = GetOptions::new().with_count_only();
        let answer = timeout(Duration::from_secs(5), client.kv_client().get(MARK, Some(options))).await;
        answer.map_err(|_| "no answer".to_owned())?.map_err(|error| etcd_problem(&error))?;
        Ok(client)
    })
    .await
}

/// A client of the first endpoint of the target that answers a read, for which it needs a majority.
async fn target_client(target: &Source) -> Result<Client, Error> {
    let Server::Etcd { endpoints, tls, login } = &target.server else {
        return Err(Error::Unsupported(format!("{} is no etcd", target.title)));
    };
    let mut refusals = Vec::new();
    for url in endpoints {
        match target_at(url, tls.as_deref(), login.as_deref()).await {
            Ok(client) => return Ok(client),
            Err(error @ Error::Secret { .. }) => return Err(error),
            Err(Error::SourceUnreachable(problem)) => refusals.push(problem),
            Err(error) => refusals.push(error.to_string()),
        }
    }
    Err(Error::TargetUnreachable(refusals.join("; ")))
}

async fn target_at(url: &str, tls: Option<&Path>, login: Option<&Path>) -> Result<Client, Error> {
    let client = connect_etcd(url, tls, login).await?;
    let refused = |problem: String| Error::TargetUnreachable(format!("{url}: {problem}"));
    let answer = timeout(CHOICE, client.kv_client().get(MARK, None)).await.map_err(|_| refused("no answer".into()))?;
    answer.map_err(|error| refused(etcd_problem(&error)))?;
    Ok(client)
}

fn of_side(side: Side) -> Error {
    match side {
        Side::Model(error) => of_scratch(error),
        Side::Other(error) => of_target(error),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn of_scratch(error: EtcdError) -> Error {
    Error::ScratchFailed(etcd_problem(&error))
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
pub fn of_target(error: EtcdError) -> Error {
    Error::TargetFailed(etcd_problem(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_is_written_only_while_the_target_is_ours() {
        let target = Source {
            folder: "etcd".into(),
            title: "etcd".into(),
            server: Server::Etcd { endpoints: vec![], tls: None, login: None },
        };
        let batch = [Difference::Delete(b"a".to_vec()), Difference::Delete(b"b".to_vec())];
        for (force, others) in [(false, 2), (true, 0)] {
            let conditions = conditions(&batch, Write { target: &target, force, run: "noon" });
            assert_eq!(conditions.len(), 1 + others);
            assert_eq!(format!("{:?}", conditions[0]), format!("{:?}", is_marked("noon")));
        }
    }
}
