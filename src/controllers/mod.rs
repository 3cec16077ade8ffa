//! One folder per kind. Kinds do not depend on one another or on this module: what they are built from is in `context`,
//! and what databases in `StatefulSet`s share is in `stateful`. A new kind is a folder here, its types under `api/`,
//! and a variant of [`Served`].

pub mod databasebackup;
pub mod databaserestore;
pub mod etcdcluster;
pub mod myapp;
pub mod myingress;
pub mod redis;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

pub use crate::context::{Context, Served};

/// Runs the controllers of `context.kinds` until `context.environment.stop`. Calls in flight are finished before it
/// returns.
pub async fn run(context: Context) {
    let environment = &context.environment;
    environment.guardrails.expect(context.kinds.iter().map(|kind| kind.name()), &environment.namespaces);
    join_all(context.kinds.iter().map(|kind| controller(*kind, context.clone()))).await;
}

fn controller(kind: Served, context: Context) -> BoxFuture<'static, ()> {
    match kind {
        Served::MyApp => myapp::controller(context).boxed(),
        Served::MyIngress => myingress::controller(context).boxed(),
        Served::EtcdCluster => etcdcluster::controller(context).boxed(),
        Served::Redis => redis::controller(context).boxed(),
        Served::DatabaseBackup => databasebackup::controller(context).boxed(),
        Served::DatabaseRestore => databaserestore::controller(context).boxed(),
    }
}
