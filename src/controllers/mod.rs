//! One folder per kind; none knows of another, and none looks up here: what kinds are made from is in `context`, what
//! databases in `StatefulSet`s have in common in `stateful`. A new kind is a folder here, its types under `api/`, and a
//! variant of [`Served`].

pub mod databasebackup;
pub mod databaserestore;
pub mod etcdcluster;
pub mod myapp;
pub mod myingress;
pub mod redis;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

pub use crate::context::{Context, Served};

/// Runs the controller of each of `context.kinds` until `context.environment.stop`; then the calls in hand are finished.
pub async fn run(context: Context) {
    let environment = &context.environment;
    environment.guardrails.expect(context.kinds.iter().map(|kind| kind.name()), environment.namespaces.len().max(1));
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
