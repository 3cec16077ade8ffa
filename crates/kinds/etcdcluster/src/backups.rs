//! The `DatabaseBackup`s that clusters own. Their kind may be installed later, or never: it is looked for seldom, and
//! watched as soon as it is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::ready;
use kube::api::DynamicObject;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{Controller, WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use parking_lot::{Mutex, MutexGuard};

use causeway_api::EtcdCluster;
use causeway_runtime::SlowBackoff;
use causeway_runtime::manifest::is_controlled_by;
use causeway_runtime::room::Kept;
use causeway_runtime::{Decoded, decoded};

use super::error::Error;
use super::facts::{Backup, Child};
use super::names;
use super::resources::backup_kind;

/// How long to wait before trying again what the apiserver refused.
const RETRY_AFTER: Duration = Duration::from_mins(5);

/// The watches, one for each namespace that is served.
#[derive(Default)]
pub struct Backups(Mutex<Vec<Watched>>);

#[derive(Clone)]
struct Watched {
    /// The watched namespace; `None` for all.
    namespace: Option<String>,
    store: Store<DynamicObject>,
    access: Arc<Mutex<Access>>,
}

/// The kind `DatabaseBackup`, as far as the operator may use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Access {
    /// The state by the last event of the watch.
    seen: Kind,
    /// The last refusal of a change for a cluster, and its time, by the cluster's uid.
    refused: BTreeMap<String, (Kind, Instant)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// The watch has not looked yet.
    #[default]
    Unknown,
    Missing,
    Denied,
    /// The API server's words.
    Refused(String),
    Served,
}

impl Access {
    /// Returns the state of the kind for the cluster with that uid.
    fn kind(&self, uid: &str, now: Instant) -> Kind {
        let refused =
            self.refused.get(uid).filter(|(_, at)| now.duration_since(*at) < RETRY_AFTER).map(|(kind, _)| kind);
        refused.filter(|_| self.seen == Kind::Served).unwrap_or(&self.seen).clone()
    }

    fn refuse(&mut self, uid: String, kind: Kind, now: Instant) {
        self.refused.retain(|_, (_, at)| now.duration_since(*at) < RETRY_AFTER);
        self.refused.insert(uid, (kind, now));
    }
}

impl Backups {
    /// Lets them wake the controller.
    pub fn add_to(
        &self,
        controller: Controller<EtcdCluster>,
        client: &Client,
        namespace: Option<&str>,
    ) -> Controller<EtcdCluster> {
        let api: Api<Decoded<DynamicObject>> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &backup_kind()),
            None => Api::all_with(client.clone(), &backup_kind()),
        };
        let writer = Writer::new(backup_kind());
        let access = Arc::new(Mutex::new(Access::default()));
        let watched =
            Watched { namespace: namespace.map(str::to_owned), store: writer.as_reader(), access: access.clone() };
        locked(&self.0).push(watched);
        let mut kept = Kept::default();
        let seen = watcher(api, watcher::Config::default().labels(names::LABEL))
            .backoff(SlowBackoff::default())
            .filter_map(|event| ready(decoded(event)))
            .filter_map(move |event| ready(kept.take(event)))
            .reflect(writer)
            .inspect(move |event| {
                if let Some(kind) = kind_after(event) {
                    locked(&access).seen = kind;
                }
            })
            .touched_objects()
            // Errors are dropped: a kind that is missing needs no warning at every attempt.
            .filter(|seen| ready(seen.is_ok()));
        controller.watches_stream_with(seen, |backup: DynamicObject| clusters_of(&backup), backup_kind())
    }

    /// The cluster's `DatabaseBackup` as the watch saw it last.
    fn read_backup(&self, object: &EtcdCluster) -> Backup {
        let Some(watched) = self.watch_of(object) else { return Backup::Unknown };
        let kind = locked(&watched.access).kind(&object.uid().unwrap_or_default(), Instant::now());
        match kind {
            Kind::Unknown => Backup::Unknown,
            Kind::Missing => Backup::KindMissing,
            Kind::Denied => Backup::Denied,
            Kind::Refused(message) => Backup::Refused(message),
            Kind::Served => {
                let key = ObjectRef::new_with(&names::backup(object), backup_kind())
                    .within(&object.namespace().unwrap_or_default());
                facts(watched.store.get(&key).as_deref(), object)
            }
        }
    }

    /// The cluster's `DatabaseBackup`: as the watch saw it last, or, if `fresh`, read from the apiserver.
    pub async fn look(
        &self,
        client: &Client,
        object: &EtcdCluster,
        fresh: bool,
    ) -> Result<Backup, causeway_databases::Error> {
        let seen = self.read_backup(object);
        if !fresh {
            return Ok(seen);
        }
        let is_served = matches!(seen, Backup::Absent | Backup::Present(_));
        if !is_served || (seen == Backup::Absent && object.spec.backup_schedule.is_none()) {
            return Ok(seen);
        }
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &backup_kind());
        match api.get_opt(&names::backup(object)).await {
            Ok(live) => Ok(facts(live.as_ref(), object)),
            // A missing object is `Ok(None)`: this 404 means that the kind was removed meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Backup::KindMissing),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Backup::Denied),
            Err(source) => Err(causeway_databases::Error::Read { what: "DatabaseBackup", source }),
        }
    }

    /// Reports whether a change failed because the kind is gone, we must not change it, or the object is refused. Nothing else
    /// of the cluster waits for that.
    pub fn excuses(&self, object: &EtcdCluster, error: &Error) -> bool {
        let Error::Backup(kube::Error::Api(status)) = error else { return false };
        let kind = match status.code {
            404 => Kind::Missing,
            403 => Kind::Denied,
            400 | 422 => Kind::Refused(status.message.clone()),
            _ => return false,
        };
        tracing::info!(code = status.code, message = status.message, "the DatabaseBackup could not be changed");
        if let Some(watched) = self.watch_of(object) {
            locked(&watched.access).refuse(object.uid().unwrap_or_default(), kind, Instant::now());
        }
        true
    }

    fn watch_of(&self, object: &EtcdCluster) -> Option<Watched> {
        let watches = locked(&self.0);
        let serves = |watched: &&Watched| watched.namespace.is_none() || watched.namespace == object.namespace();
        watches.iter().find(serves).cloned()
    }
}

fn facts(live: Option<&DynamicObject>, object: &EtcdCluster) -> Backup {
    let Some(live) = live else { return Backup::Absent };
    Backup::Present(Child {
        value: serde_json::to_value(live).unwrap_or_default(),
        uid: live.uid().unwrap_or_default(),
        ours: is_controlled_by(live, object),
    })
}

/// Reads the state of the kind from an event of the watch; `None` if the event does not show it.
fn kind_after(event: &Result<watcher::Event<DynamicObject>, watcher::Error>) -> Option<Kind> {
    let code = match event {
        // These also come before a list that then fails.
        Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => return None,
        Ok(_) => return Some(Kind::Served),
        Err(
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status)),
        ) => status.code,
        Err(_) => return None,
    };
    match code {
        404 => Some(Kind::Missing),
        403 => Some(Kind::Denied),
        _ => None,
    }
}

/// The object that controls it, and the one that its label names: a user may have changed the label.
fn clusters_of(backup: &DynamicObject) -> Vec<ObjectRef<EtcdCluster>> {
    let namespace = backup.namespace().unwrap_or_default();
    let owners = backup.owner_references().iter().filter(|owner| owner.kind == "EtcdCluster").map(|owner| &owner.name);
    let mut names: Vec<&String> = owners.chain(backup.labels().get(names::LABEL)).collect();
    names.dedup();
    names.into_iter().map(|name| ObjectRef::new(name).within(&namespace)).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn failed(code: u16) -> watcher::Error {
        let status = Status::failure("404 page not found", "Failed to parse error data").with_code(code);
        watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))
    }

    #[test]
    fn a_list_tells_the_state_of_a_kind() {
        assert_eq!(kind_after(&Ok(watcher::Event::Init)), None);
        assert_eq!(kind_after(&Err(failed(404))), Some(Kind::Missing));
        assert_eq!(kind_after(&Err(failed(403))), Some(Kind::Denied));
        assert_eq!(kind_after(&Err(failed(500))), None);
        assert_eq!(kind_after(&Ok(watcher::Event::InitDone)), Some(Kind::Served));
    }

    #[test]
    fn a_refusal_is_retried_and_concerns_one_cluster() {
        let now = Instant::now();
        let mut access = Access { seen: Kind::Served, ..Access::default() };
        access.refuse("a".into(), Kind::Denied, now);
        assert_eq!((access.kind("a", now), access.kind("b", now)), (Kind::Denied, Kind::Served));
        assert_eq!(access.kind("a", now + RETRY_AFTER), Kind::Served);
        access.refuse("b".into(), Kind::Refused("too long".into()), now + RETRY_AFTER);
        assert_eq!(access.refused.len(), 1, "what is over is forgotten");
        assert_eq!(Access { seen: Kind::Missing, ..access }.kind("b", now), Kind::Missing);
    }
}
