//! Clients that write, read and compare the same keys, each call linearizable by etcd's promise.
//! <https://etcd.io/docs/v3.5/learning/api_guarantees/>

use etcd_client::{Compare, CompareOp, KeyValue, Txn, TxnOp, TxnOpResponse};

use super::client::{Failover, Way};
use crate::history::{Do, History, Mixed, Operation, Store};
use crate::support::Scene;

/// One goes through the Service, the others through the members.
const CLIENTS: usize = 3;

/// Starts clients of the scene's cluster.
pub fn start(scene: &Scene) -> Mixed<Failover> {
    let way = |number| if number == 0 { Way::Service } else { Way::Members };
    Mixed::start((0..CLIENTS).map(|number| Failover::new(scene, way(number), number)).collect())
}

impl Store for Failover {
    async fn act(&mut self, history: &History, client: usize, round: u64, (key, _): (String, u64)) {
        match round % 4 {
            0 => self.put(history, client, &key).await,
            1 => drop(self.read(history, client, &key).await),
            by => {
                if let Ok(found) = self.read(history, client, &key).await {
                    self.compare_and_swap(history, client, &key, found, by == 2).await;
                }
            }
        }
    }

    async fn read(&mut self, history: &History, client: usize, key: &str) -> Result<(u64, i64), String> {
        let operation = history.call(client, key, Do::Get);
        // Linearizable, as reads are unless asked otherwise.
        let answer = self.call(async |client| client.get(key, None).await).await?;
        let (seen, revision) = read_pair(answer.kvs())?;
        history.returned(Operation { seen, revision, ..operation });
        Ok((seen, revision))
    }
}

impl Failover {
    async fn put(&mut self, history: &History, client: usize, key: &str) {
        let operation = history.call(client, key, Do::Put);
        let value = operation.value.to_string();
        match self.call(async |client| client.put(key, value, None).await).await {
            Ok(answer) => {
                let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
                history.returned(Operation { revision, ..operation });
            }
            Err(_) => history.unknown(operation),
        }
    }

    /// Writes if the value, or the revision, is the one that was read.
    async fn compare_and_swap(
        &mut self,
        history: &History,
        client: usize,
        key: &str,
        (expected, revision): (u64, i64),
        by_revision: bool,
    ) {
        let operation = Operation { expected, ..history.call(client, key, Do::Cas) };
        // A key that is not there has no value, and revision 0.
        let compare = if by_revision || expected == 0 {
            Compare::mod_revision(key, CompareOp::Equal, revision)
        } else {
            Compare::value(key, CompareOp::Equal, expected.to_string())
        };
        let put = TxnOp::put(key, operation.value.to_string(), None);
        let txn = Txn::new().when([compare]).and_then([put]).or_else([TxnOp::get(key, None)]);
        let Ok(answer) = self.call(async |client| client.txn(txn).await).await else {
            history.unknown(operation);
            return;
        };
        if answer.succeeded() {
            let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
            history.returned(Operation { done: true, revision, ..operation });
            return;
        }
        let Some(TxnOpResponse::Get(get)) = answer.op_responses().into_iter().next() else { return };
        if let Ok((seen, revision)) = read_pair(get.kvs()) {
            history.returned(Operation { seen, revision, ..operation });
        }
    }
}

/// The value, and the revision at which it was written.
fn read_pair(pairs: &[KeyValue]) -> Result<(u64, i64), String> {
    let Some(pair) = pairs.first() else { return Ok((0, 0)) };
    let value = pair.value_str().ok().and_then(|text| text.parse().ok()).ok_or("a value that no client wrote")?;
    Ok((value, pair.mod_revision()))
}
