//! The database into which a backup goes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};

use causeway_api::databasebackup::Method;
use causeway_api::databaserestore::{RestoreOutcome, Restored};
use causeway_api::{DatabaseRestore, EtcdCluster, Redis};
use causeway_backup::jobs::{Served, image_of, of_etcd_cluster, of_redis, of_source};
use causeway_backup::transfer::Error;
use causeway_runtime::manifest::is_controlled_by;

use super::facts::{Choice, Target};
use super::observe::Observer;

/// The reason where the database that owns the restore has not noted it yet.
pub const NOT_NOTED: &str = "NotNoted";

/// The reason why nothing can be chosen, or not yet.
type No = Choice;

impl Observer {
    /// How the target is reached, and what serves it.
    pub(super) async fn target(&self, object: &DatabaseRestore) -> Result<Result<Target, No>, Error> {
        let target = &object.spec.target;
        if let Some(access) = of_source(target, Method::Dump) {
            let usual = if target.etcd.is_some() { "etcd" } else { "redis" };
            let kind = image_of(target).map_or(usual, |(kind, _)| kind);
            return Ok(Ok(Target { access, kind, served: Served::of_source(target), born: None }));
        }
        let missing = |field: &str, kind: &str, name: &str| {
            let message = format!("spec.target.{field}: there is no {kind} {name} in this namespace");
            Err(Choice::Waiting("TargetMissing", message))
        };
        if let Some(named) = &target.etcd_cluster {
            let Some(cluster) = self.get::<EtcdCluster>(object, &named.name, "EtcdCluster").await? else {
                return Ok(missing("etcdCluster", "EtcdCluster", &named.name));
            };
            if let Some(no) = unnoted(object, &cluster, cluster.status.as_ref().and_then(|it| it.restored.as_ref())) {
                return Ok(Err(no));
            }
            let (access, served) = (of_etcd_cluster(&cluster), Served::of_etcd_cluster(&cluster));
            return Ok(Ok(Target { access, kind: "etcd", served, born: born(object, &cluster) }));
        }
        let name = target.redis.as_ref().map(|named| named.name.clone()).unwrap_or_default();
        let Some(redis) = self.get::<Redis>(object, &name, "Redis").await? else {
            return Ok(missing("redis", "Redis", &name));
        };
        if let Some(no) = unnoted(object, &redis, redis.status.as_ref().and_then(|it| it.restored.as_ref())) {
            return Ok(Err(no));
        }
        // Only the master takes writes.
        let (access, served) = (of_redis(&redis, true), Served::of_redis(&redis));
        Ok(Ok(Target { access, kind: "redis", served, born: born(object, &redis) }))
    }
}

/// Explains why a restore that a database made for itself may not start: the database has not noted it in its status yet, or
/// another database has its name by now. So no restore starts that its database does not know of.
pub fn unnoted(
    object: &DatabaseRestore,
    target: &impl Resource<DynamicType = ()>,
    restored: Option<&Restored>,
) -> Option<No> {
    let mut owners = object.owner_references().iter().filter(|owner| owner.controller == Some(true));
    let owner = owners.find(|owner| is_a::<EtcdCluster>(owner) || is_a::<Redis>(owner))?;
    let noted = restored.is_some_and(|it| it.outcome == RestoreOutcome::Running && it.uid == object.uid());
    if noted && is_controlled_by(object, target) {
        return None;
    }
    let message = format!("{} {} made this, and has to note it in its status first", owner.kind, owner.name);
    Some(Choice::Waiting(NOT_NOTED, message))
}

fn is_a<K: Resource<DynamicType = ()>>(owner: &OwnerReference) -> bool {
    owner.kind == K::kind(&()) && owner.api_version == K::api_version(&())
}

/// When the target was made, where it made this restore for itself.
fn born(object: &DatabaseRestore, target: &impl Resource<DynamicType = ()>) -> Option<Timestamp> {
    let made = target.meta().creation_timestamp.as_ref().map(|time| time.0);
    made.filter(|_| is_controlled_by(object, target))
}
