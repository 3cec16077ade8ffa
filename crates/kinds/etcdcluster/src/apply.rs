//! Carries out what was decided.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject};
use kube::{Api, ResourceExt};
use tokio::time::{Instant, sleep};

use causeway_api::EtcdCluster;
use causeway_databases::Sets;
use causeway_databases::etcd::{Endpoint, Etcd, EtcdError, Password, Request, Trouble};
use causeway_databases::tls::write;
use causeway_runtime::manifest::delete_exactly;

use super::action::Action;
use super::auth::secrets;
use super::database::EtcdDatabase;
use super::error::Error;
use super::names;
use super::resources::backup_kind;

/// Carries out `action`.
pub async fn apply(sets: &Sets<EtcdDatabase>, etcd: &Etcd, object: &EtcdCluster, action: &Action) -> Result<(), Error> {
    let client = &sets.client;
    match action {
        Action::Child(action) => Ok(sets.carry_out(object, action).await?),
        Action::ApplyBackup { child, uid } => {
            sets.apply(object, child, uid.as_deref()).await.map_err(|error| match error {
                causeway_databases::Error::Apply { source, .. } => Error::Backup(source),
                other => other.into(),
            })
        }
        Action::DeleteBackup { name, uid } => {
            let namespace = object.namespace().unwrap_or_default();
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &backup_kind());
            delete_exactly(&api, name, uid, DeleteParams::default()).await.map_err(Error::Backup)
        }
        Action::AddLearner { peer_url, via, .. } => {
            Ok(etcd.change(via, Request::AddLearner { peer_url: peer_url.clone() }).await?)
        }
        Action::Promote { id, via, .. } => Ok(etcd.change(via, Request::Promote { id: *id }).await?),
        Action::Remove { id, via, .. } => Ok(etcd.change(via, Request::Remove { id: *id }).await?),
        Action::MoveLeader { id, via, .. } => Ok(etcd.change(via, Request::MoveLeader { to: *id }).await?),
        Action::Certify(side, certify) => {
            Ok(write::certify(client, object, &names::labels(object), &side.config(object), certify).await?)
        }
        Action::UpdatePeer { id, peer_url, pods, via, .. } => {
            // The pods' transport decides whether peers can reach the new URL: the pods must be those that were observed.
            let current = sets.list::<Pod>(object, "pods").await?;
            let current = current.into_iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default()));
            if current.collect::<BTreeMap<_, _>>() != *pods {
                return Err(Error::PodsChanged);
            }
            Ok(etcd.change(via, Request::UpdatePeer { id: *id, peer_url: peer_url.clone() }).await?)
        }
        Action::Compact { revision, via } => match etcd.change(via, Request::Compact { revision: *revision }).await {
            Err(error) if error.trouble == Trouble::Compacted => Ok(()),
            outcome => Ok(outcome?),
        },
        Action::Defragment { via, others, .. } => {
            until_all_serve(etcd, others).await.map_err(Error::OthersBusy)?;
            Ok(etcd.change(via, Request::Defragment).await?)
        }
        Action::Disarm { alarm, via, .. } => Ok(etcd.change(via, Request::Disarm(*alarm)).await?),
        Action::EnableDowngrade { minor, via, .. } => {
            let request = Request::EnableDowngrade { target: format!("3.{minor}") };
            unless_there(etcd.change(via, request).await).map(drop).map_err(Error::from)
        }
        Action::CancelDowngrade { via, .. } => {
            unless_there(etcd.change(via, Request::CancelDowngrade).await).map(drop).map_err(Error::from)
        }
        Action::MakePassword { known, before, .. } => {
            Ok(secrets::make(client, object, known.as_ref(), before.as_ref()).await?)
        }
        Action::NotePassword(note) => Ok(secrets::note(client, object, note).await?),
        Action::PrepareRoot { password, via } => Ok(prepare_root(etcd, via, password).await?),
        Action::ChangePassword { password, via } => {
            Ok(etcd.change(via, Request::ChangePassword { password: password.clone() }).await?)
        }
        Action::EnableAuth { via } => Ok(etcd.change(via, Request::EnableAuth).await?),
        Action::DisableAuth { via } => match etcd.change(via, Request::DisableAuth).await {
            // Another client has turned it off already.
            Err(error) if error.trouble == Trouble::AuthOff => Ok(()),
            outcome => Ok(outcome?),
        },
    }
}

/// Waits until all of these members serve reads; some 25 s at most, so that a reconcile has time for what follows.
async fn until_all_serve(etcd: &Etcd, members: &[Endpoint]) -> Result<(), EtcdError> {
    const LONGEST: Duration = Duration::from_secs(25);
    const INTERVAL: Duration = Duration::from_secs(1);
    let begun = Instant::now();
    loop {
        match try_join_all(members.iter().map(|member| etcd.serves(member))).await {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() >= LONGEST => return Err(error),
            Err(_) => sleep(INTERVAL).await,
        }
    }
}

/// If root exists already, it may have any password: it gets this one.
async fn prepare_root(etcd: &Etcd, via: &Endpoint, password: &Password) -> Result<(), EtcdError> {
    if !unless_there(etcd.change(via, Request::AddRoot { password: password.clone() }).await)? {
        etcd.change(via, Request::ChangePassword { password: password.clone() }).await?;
    }
    unless_there(etcd.change(via, Request::AddRole).await)?;
    etcd.change(via, Request::GrantRole).await
}

/// Returns whether this call made the change: false if it was made before.
fn unless_there(outcome: Result<(), EtcdError>) -> Result<bool, EtcdError> {
    match outcome {
        Err(error) if error.trouble == Trouble::AlreadyThere => Ok(false),
        outcome => outcome.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use parking_lot::Mutex;

    use super::*;
    use causeway_databases::etcd::{Reply, Transport};
    use causeway_runtime::leader::Fence;
    use causeway_runtime::metrics::Metrics;

    /// Members of which `busy` answers that many reads with nothing; `asked` counts the reads of both.
    #[derive(Clone, Default)]
    struct Members {
        busy: usize,
        asked: Arc<Mutex<usize>>,
    }

    impl Transport for Members {
        fn call<'a>(&'a self, to: &'a Endpoint, request: &'a Request) -> BoxFuture<'a, Result<Reply, EtcdError>> {
            assert_eq!(*request, Request::LocalRead);
            let mut asked = self.asked.lock();
            *asked += 1;
            let hangs = to.url == "busy" && *asked <= self.busy * 2;
            async move { if hangs { std::future::pending().await } else { Ok(Reply::Done) } }.boxed()
        }
    }

    async fn waited(busy: usize) -> (Result<(), Trouble>, u64) {
        let etcd =
            Etcd::new(Arc::new(Members { busy, ..Members::default() }), Fence::closed_until_lease(), Metrics::new());
        let members = ["well", "busy"].map(|url| Endpoint { url: url.into(), ..Endpoint::default() });
        let begun = Instant::now();
        let outcome = until_all_serve(&etcd, &members).await;
        (outcome.map_err(|error| error.trouble), begun.elapsed().as_secs())
    }

    /// etcd goes on with a defragmentation whose caller is gone, and the member reports its status as usual.
    /// <https://github.com/etcd-io/etcd/blob/v3.5.35/server/etcdserver/api/v3rpc/maintenance.go#L96>
    #[tokio::test(start_paused = true)]
    async fn no_member_is_defragmented_before_all_others_serve_reads() {
        assert_eq!(waited(0).await, (Ok(()), 0));
        assert_eq!(waited(3).await, (Ok(()), 9));
        let (outcome, seconds) = waited(100).await;
        assert_eq!(outcome, Err(Trouble::Unanswered));
        assert!(seconds < 30, "a reconcile has time for what follows: {seconds} s");
    }
}
