//! Clients that write, read, swap and count under the same keys; a call counts only once a replica confirmed it.
//!
//! Redis copies asynchronously, and promises nothing by itself when a master is succeeded. Causeway promises that what
//! `WAIT 1` acknowledged stays, as long as no two nodes fail at once (docs/redis.md, "What can be lost"). So:
//!
//! - a write that `WAIT 1` did not confirm is of unknown outcome: it may be there now, later, or never;
//! - a read counts only if a write after it, on the same connection, was confirmed: then a replica has all that it saw. What
//!   other reads saw may vanish with the master, which breaks no promise.
//!
//! One order of all calls, across all masters, must explain what counts.

use redis::FromRedisValue;

use super::client::{Caller, refuses};
use super::entrance::Entrance;
use crate::history::{Do, History, Mixed, Operation, Store};
use crate::redis::NAME;
use crate::support::Scene;

const CLIENTS: usize = 3;
/// Of the keys in use this one is counted up, the others hold values.
const COUNTED: u64 = 2;

/// Starts clients of the scene's set.
pub fn start(scene: &Scene) -> Mixed<Caller> {
    let entrance = Entrance::service(scene, NAME);
    Mixed::start((0..CLIENTS).map(|_| Caller::new(entrance.clone())).collect())
}

impl Store for Caller {
    async fn act(&mut self, history: &History, client: usize, round: u64, (key, which): (String, u64)) {
        // A call that cannot be sent has no effect.
        if self.connected().await.is_err() {
            return;
        }
        match (which == COUNTED, round % 3) {
            (_, 0) => drop(self.read(history, client, &key).await),
            (true, _) => {
                let sum = |sum: u64, it: Operation| Operation { seen: sum, ..it };
                self.write(history.call(client, &key, Do::Add), history, redis::cmd("INCR").arg(&key), sum).await;
            }
            (false, 1) => {
                let operation = history.call(client, &key, Do::Put);
                let mut set = redis::cmd("SET");
                set.arg(&key).arg(operation.value);
                self.write(operation, history, &set, |(): (), it| it).await;
            }
            (false, _) => {
                let operation = history.call(client, &key, Do::Swap);
                let mut set = redis::cmd("SET");
                set.arg(&key).arg(operation.value).arg("GET");
                let before = |seen: Option<u64>, it| Operation { seen: seen.unwrap_or_default(), ..it };
                self.write(operation, history, &set, before).await;
            }
        }
    }

    async fn read(&mut self, history: &History, client: usize, key: &str) -> Result<(u64, i64), String> {
        let operation = history.call(client, key, Do::Get);
        let seen: Option<u64> = self.call(redis::cmd("GET").arg(key)).await?;
        let seen = seen.unwrap_or_default();
        // This call must not make a new connection: that could lead to another master.
        self.call_again::<()>(redis::cmd("SET").arg(format!("shared:seen:{client}")).arg(seen)).await?;
        self.confirmed().await?;
        history.returned(Operation { seen, ..operation });
        Ok((seen, 0))
    }
}

impl Caller {
    async fn write<T: FromRedisValue>(
        &mut self,
        operation: Operation,
        history: &History,
        command: &redis::Cmd,
        answered: impl FnOnce(T, Operation) -> Operation,
    ) {
        match self.call_again(command).await {
            Err(why) if refuses(&why) => {}
            Err(_) => history.unknown(operation),
            Ok(answer) => match self.confirmed().await {
                Ok(()) => history.returned(answered(answer, operation)),
                Err(_) => history.unknown(operation),
            },
        }
    }
}
