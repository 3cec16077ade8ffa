//! The kinds that a test's operators serve: only those that the test is about. Each kind has watches of its own, and
//! the suite starts hundreds of operators: the lists and watches of the other kinds took a quarter of its time.

use causeway::controllers::Served::{self, DatabaseBackup, EtcdCluster, MyApp, MyIngress, Redis};
use clap::ValueEnum;

/// The first words of a test's name, and the kinds that it needs.
const BY_NAME: &[(&str, &[Served])] = &[
    ("crash::apps::", &[MyApp]),
    ("crash::etcd::", &[EtcdCluster]),
    ("crash::full::", &[MyIngress]),
    ("crash::ingresses::", &[MyIngress]),
    ("crash::sets::", &[Redis]),
    ("etcd::backup::", &[EtcdCluster, DatabaseBackup]),
    ("etcd::ownership::", &[EtcdCluster, Redis]),
    ("etcd::", &[EtcdCluster]),
    ("faults::", &[MyIngress]),
    ("lost_nodes::cut::etcd::", &[EtcdCluster]),
    ("lost_nodes::cut::redis::", &[Redis]),
    ("myapp::", &[MyApp]),
    ("myingress::", &[MyIngress]),
    ("redis::ownership::", &[EtcdCluster, Redis]),
    ("redis::", &[Redis]),
    ("security::groups::", &[MyIngress]),
    ("security::limits::", &[MyApp, Redis]),
    ("security::oidc::", &[MyIngress]),
    ("security::targets::", &[MyIngress]),
    ("traffic::", &[MyIngress]),
];

/// The kinds that the running test is about; all of them where [`BY_NAME`] does not list the test.
pub fn by_this_test() -> Vec<Served> {
    // libtest gives the thread of a test its name.
    let thread = std::thread::current();
    let kinds = BY_NAME.iter().find(|(prefix, _)| thread.name().is_some_and(|name| name.starts_with(prefix)));
    kinds.map_or_else(|| Served::value_variants().to_vec(), |(_, kinds)| kinds.to_vec())
}
