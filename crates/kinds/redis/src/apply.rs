//! Carries out what was decided.

use std::time::Duration;

use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use causeway_api::Redis as Object;
use causeway_databases::password::KEY;
use causeway_databases::redis::{Endpoint, Redis, RedisError, Request, Trouble};
use causeway_databases::tls::facts::Version;
use causeway_databases::tls::write;
use causeway_databases::{ChildAction, Sets, password, random_password};

use super::action::{Action, SliceWrite, Target};
use super::database::RedisDatabase;
use super::error::Error;
use super::facts::{Node, NodePod, Pod, SecretString, Users};
use super::names::{self, AWAITED, CERTIFICATES, CONF, LOG, PORT, ROLE, SETTINGS};
use super::observe::Observer;
use super::{resources, tls};

/// The answer of Redis and Valkey to `CONFIG SET` of a directive that needs another process.
/// <https://github.com/redis/redis/blob/7.0.15/src/config.c> (`configSetCommand`)
const IMMUTABLE: &str = "can't set immutable config";
/// How long a handover may take, in milliseconds. If the replica has not caught up by then, the master goes on as
/// before.
const HAND_OVER_MS: u64 = 3000;
/// How often a master that hands over is asked whether it is done.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// A process without a pod that does not answer within this time counts as gone.
const FENCE_GREETING: Duration = Duration::from_millis(300);
/// How long a process without a pod may take to hand over.
const FENCE: Duration = Duration::from_millis(500);

/// Carries out `action`.
pub async fn apply(redis: &Redis, observer: &Observer, object: &Object, action: &Action) -> Result<(), Error> {
    let sets = &observer.sets;
    match action {
        Action::Child(ChildAction::TakeBack { kind, name, version, owners, .. }) if kind == "EndpointSlice" => {
            sets.expect_change(object);
            Ok(observer.slices.take_back(object, name, version, owners).await?)
        }
        Action::Child(action) => Ok(sets.carry_out(object, action).await?),
        Action::WriteSlice(slice_write) => lead(redis, observer, object, slice_write).await,
        Action::Unselect { service, uid } => {
            sets.expect_change(object);
            Ok(observer.slices.unselect(object, service, uid).await?)
        }
        Action::Sweep { service, slices } => {
            sets.expect_change(object);
            Ok(observer.slices.sweep(object, service, slices).await?)
        }
        Action::SetRole { pod, role } => change_pod(observer, object, pod, &json!({ "labels": { ROLE: role } })).await,
        Action::Follow { node, master, drop_clients } => {
            let at = endpoint(node)?;
            let request = Request::Follow { host: master.clone(), port: PORT, drop_clients: *drop_clients };
            Ok(redis.change(&at, request).await?)
        }
        Action::Promote { node, run_id, .. } => {
            Ok(redis.change(&endpoint(node)?, Request::Promote { run_id: run_id.clone() }).await?)
        }
        Action::HandOver { from, address, hide, .. } => {
            hand_over(redis, observer, object, from, (address, hide.as_deref())).await
        }
        Action::Fence { at, history, successor } => {
            fence(redis, at, history, successor).await;
            redis.hang_up(at);
            Ok(())
        }
        Action::StepDown { node, successor } => leave_word(redis, node, successor).await,
        Action::EndBusy { node, successor } => end_busy(redis, node, successor).await,
        Action::RewriteLog { node, note } => {
            redis.change(&endpoint(node)?, Request::RewriteLog).await?;
            change_pod(observer, object, node, &json!({ "annotations": { LOG: note } })).await
        }
        Action::KeepMastership { node } => Ok(redis.change(&endpoint(node)?, Request::KeepMastership).await?),
        Action::DropClients { node } => Ok(redis.change(&endpoint(node)?, Request::DropClients).await?),
        Action::Certify(certify) => {
            sets.expect_change(object);
            Ok(write::certify(&sets.client, object, &names::labels(object), &tls::config(object), certify).await?)
        }
        Action::LoadCertificates { node, settings, content, note, .. } => {
            load_certificates(redis, observer, object, (node, settings), (content, note)).await
        }
        Action::MakePassword { secret, before } => Ok(make_password(sets, object, secret, before.as_ref()).await?),
        Action::MakeUsers { secret, hash } => {
            let internal = SecretString(random_password()?);
            let sentinel = object.spec.sentinel.is_some();
            let users = Users { internal, current: hash.clone(), previous: None, exporter: true, sentinel };
            let child = resources::users_secret(object, &users);
            debug_assert_eq!(child.name(), secret);
            Ok(sets.apply(object, &child, None).await?)
        }
        Action::Configure { node, settings, users, follow_as, note, is_new, .. } => {
            let request = Request::SetUsers { users: users.clone(), follow_as: follow_as.clone() };
            redis.change(&endpoint(node)?, request).await?;
            observer.note_users(object, &node.uid, &endpoint(node)?);
            let refused = configure(redis, observer, object, node, settings).await?;
            let note = note.clone().refusing(&refused, *is_new).to_string();
            change_pod(observer, object, node, &json!({ "annotations": { SETTINGS: note } })).await
        }
        Action::WriteSettings { pod, file } => {
            change_pod(observer, object, pod, &json!({ "annotations": { CONF: file } })).await
        }
        Action::Tell { .. } => Ok(()),
    }
}

/// Makes a node load its certificates again. An annotation of its pod records which ones it has loaded, or which ones
/// the kubelet has yet to bring.
async fn load_certificates(
    redis: &Redis,
    observer: &Observer,
    object: &Object,
    (node, settings): (&Target, &[(String, String)]),
    (content, loaded_now): (&str, &str),
) -> Result<(), Error> {
    let loaded = load(redis, node, settings).await;
    let (annotation, value) = match loaded {
        Ok(()) => (CERTIFICATES, loaded_now),
        // The change of the annotation makes the kubelet bring them.
        Err(Error::FilesAwaited(_)) => (AWAITED, content),
        Err(error) => return Err(error),
    };
    change_pod(observer, object, node, &json!({ "annotations": { annotation: value } })).await?;
    loaded
}

/// Lets a node load certificates, if their files are there.
async fn load(redis: &Redis, node: &Target, settings: &[(String, String)]) -> Result<(), Error> {
    match redis.change(&endpoint(node)?, Request::Configure(settings.to_vec())).await {
        Err(error) if error.trouble == Trouble::Refused => {
            tracing::debug!(node = node.name, %error, "certificates are not loaded yet");
            Err(Error::FilesAwaited(node.name.clone()))
        }
        outcome => Ok(outcome?),
    }
}

/// Ends a master that a script keeps busy. The failover waits for that only if its script has ended, or its process has.
async fn end_busy(redis: &Redis, node: &Target, successor: &str) -> Result<(), Error> {
    match redis.change(&endpoint(node)?, Request::EndBusy).await {
        Err(error) if error.trouble != Trouble::Gone => {
            tracing::warn!(node = node.name, %error, "a master that runs a script could not be ended");
            leave_word(redis, node, successor).await
        }
        outcome => Ok(outcome?),
    }
}

/// Sends a hung master the commands to step down, which it finds when it wakes up. Its successor is promoted after
/// that, even if they cannot be sent.
async fn leave_word(redis: &Redis, node: &Target, successor: &str) -> Result<(), Error> {
    let at = endpoint(node)?;
    match redis.change(&at, Request::StepDown { host: successor.to_owned(), port: PORT }).await {
        Ok(()) => {
            tracing::info!(node = node.name, successor, "the word to step down was sent to the master that hangs");
        }
        Err(error) => tracing::warn!(
            node = node.name, successor, %error,
            "it is not certain that the master that hangs finds word to step down: if it wakes up, it may answer writes that waited"
        ),
    }
    Ok(())
}

/// Applies settings to a process, and notes in which form it returns them. Returns those that it cannot change.
async fn configure(
    redis: &Redis,
    observer: &Observer,
    object: &Object,
    node: &Target,
    settings: &[(String, String)],
) -> Result<Vec<(String, String)>, Error> {
    let at = endpoint(node)?;
    let refused = set(redis, node, settings).await?;
    if let Ok(info) = redis.info(&at).await {
        observer.note_applied(object, &node.uid, &info.run_id, &at).await;
    }
    Ok(refused)
}

/// Applies settings to a process, apart from those that its version cannot change while it runs. Returns these.
async fn set(redis: &Redis, node: &Target, settings: &[(String, String)]) -> Result<Vec<(String, String)>, Error> {
    let at = endpoint(node)?;
    let (mut left, mut refused) = (settings.to_vec(), Vec::new());
    loop {
        let error = match redis.change(&at, Request::Configure(left.clone())).await {
            Err(error) if error.trouble == Trouble::Refused => error,
            outcome => return outcome.map(|()| refused).map_err(Error::from),
        };
        // Redis checks all names before it changes anything.
        let named = directive(&error.message).filter(|_| error.message.contains(IMMUTABLE));
        match named.and_then(|name| left.iter().position(|(it, _)| it == name)) {
            Some(place) => refused.push(left.remove(place)),
            None => return Err(refusal(node, &error.message)),
        }
    }
}

/// Asks the master to hand over, and waits for the end of it. Meanwhile new clients are kept away from it: it takes no
/// more writes.
async fn hand_over(
    redis: &Redis,
    observer: &Observer,
    object: &Object,
    from: &Target,
    (address, hide): (&str, Option<&SliceWrite>),
) -> Result<(), Error> {
    let at = endpoint(from)?;
    let request = Request::HandOver { host: address.to_owned(), port: PORT, timeout_ms: HAND_OVER_MS };
    redis.change(&at, request).await?;
    let hidden = async {
        match hide {
            Some(slice_write) => lead(redis, observer, object, slice_write).await,
            None => Ok(()),
        }
    };
    let nothing: Option<&str> = None;
    let metadata = json!({ "labels": { ROLE: nothing } });
    let unlabelled = change_pod(observer, object, from, &metadata);
    let ((), hidden, unlabelled) = tokio::join!(handed_over(redis, &at, address), hidden, unlabelled);
    hidden.and(unlabelled)
}

/// Waits until a master has handed over. Meanwhile the replica that takes over is made to acknowledge its offset all
/// the time: by itself it would do so once a second, and writes would wait for that.
async fn handed_over(redis: &Redis, at: &Endpoint, address: &str) {
    let heir = heir(at, address);
    let ends = timeout(Duration::from_millis(HAND_OVER_MS), async {
        while redis.info(at).await.is_ok_and(|info| info.handing_over) {
            redis.change(&heir, Request::Acknowledge).await.ok();
            sleep(POLL_INTERVAL).await;
        }
    });
    ends.await.ok();
}

/// Writes a slice while this process is the leader. It leads clients to no node that is not the master.
async fn lead(redis: &Redis, observer: &Observer, object: &Object, slice_write: &SliceWrite) -> Result<(), Error> {
    if let Some((node, run_id)) = &slice_write.master {
        let info = redis.info(&endpoint(node)?).await?;
        if !info.is_master() || info.run_id != *run_id {
            return Err(Error::NoMaster(node.name.clone()));
        }
    }
    redis.may_change("EndpointSlice")?;
    let written = observer.slices.write(object, slice_write).await;
    // The watch may not show the new slice yet, or what made the write fail.
    if written.is_err() || slice_write.before.is_none() {
        observer.sets.expect_change(object);
    }
    written
}

/// The endpoint of the replica that takes over.
fn heir(master: &Endpoint, host: &str) -> Endpoint {
    let own = Node { login: master.login.clone(), tls: master.tls.clone(), ..Node::default() };
    let pod = Pod { address: Some(host.to_owned()), own, ..Pod::default() };
    pod.endpoint().unwrap_or_else(|| master.clone())
}

/// Makes a master without a pod hand over or step down. One that cannot be reached is not waited for: the failover goes
/// on without it.
async fn fence(redis: &Redis, at: &Endpoint, history: &str, successor: &str) {
    let Ok(Ok(info)) = timeout(FENCE_GREETING, redis.info(at)).await else { return };
    // The address may be another process's by now.
    if !info.is_master() || !info.continues(history) {
        return;
    }
    let heir = heir(at, successor);
    let steps_down = async {
        let timeout_ms = u64::try_from(FENCE.as_millis()).unwrap_or(1);
        redis.change(at, Request::HandOver { host: successor.to_owned(), port: PORT, timeout_ms }).await?;
        while redis.info(at).await.is_ok_and(|info| info.is_master() && info.handing_over) {
            redis.change(&heir, Request::Acknowledge).await.ok();
            sleep(POLL_INTERVAL).await;
        }
        Ok::<(), RedisError>(())
    };
    let stepped_down = async {
        steps_down.await.ok();
        if redis.info(at).await.is_ok_and(|info| info.is_master()) {
            let follow = Request::Follow { host: successor.to_owned(), port: PORT, drop_clients: true };
            return redis.change(at, follow).await;
        }
        redis.change(at, Request::DropClients).await
    };
    if let Ok(Err(error)) = timeout(FENCE * 2, stepped_down).await {
        tracing::info!(%error, node = at.address, "the earlier master did not step down");
    }
}

fn endpoint(target: &Target) -> Result<Endpoint, Error> {
    target.endpoint.clone().ok_or_else(|| Error::NoAddress(target.name.clone()))
}

/// Changes metadata of exactly that pod.
async fn change_pod(observer: &Observer, object: &Object, pod: &Target, metadata: &Value) -> Result<(), Error> {
    Ok(observer.sets.change_pod(object, &pod.name, &pod.uid, metadata).await?)
}

/// The directive that Redis quotes in its refusal.
fn directive(message: &str) -> Option<&str> {
    message.split('\'').nth(1)
}

/// The error for a refused setting.
fn refusal(node: &Target, message: &str) -> Error {
    let directive = directive(message).unwrap_or("…").to_owned();
    Error::SettingRefused { node: node.name.clone(), directive, message: message.to_owned() }
}

/// Makes the Secret with the clients' password, or fills the emptied version `before` of it. Another Secret that exists
/// was made by a user, and stays: then this fails.
async fn make_password(
    sets: &Sets<RedisDatabase>,
    object: &Object,
    name: &str,
    before: Option<&Version>,
) -> Result<(), causeway_databases::Error> {
    let metadata = json!({
        "labels": names::labels(object),
        "ownerReferences": object.controller_owner_ref(&()).map(|owner| vec![owner]),
    });
    let content = json!({ "metadata": metadata, "stringData": { KEY: random_password()? } });
    let made = password::write(&sets.client, &object.namespace().unwrap_or_default(), name, before, content).await;
    made.map_err(|source| causeway_databases::Error::Apply { kind: "Secret".into(), name: name.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use tokio::time::Instant;

    use super::*;
    use causeway_databases::redis::{Reply, Transport};
    use causeway_runtime::leader::Fence;
    use causeway_runtime::metrics::Metrics;

    /// A node whose socket takes what is written to it after a while.
    struct Slow {
        takes: Duration,
        has_word: Arc<AtomicBool>,
    }

    impl Transport for Slow {
        fn call<'a>(&'a self, _: &'a Endpoint, request: &'a Request) -> BoxFuture<'a, Result<Reply, RedisError>> {
            async move {
                assert!(matches!(request, Request::StepDown { .. }));
                sleep(self.takes).await;
                self.has_word.store(true, Ordering::SeqCst);
                Ok(Reply::Done)
            }
            .boxed()
        }

        fn until_broken<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, ()> {
            std::future::pending().boxed()
        }

        fn put_aside(&self, _: &Endpoint) {}

        fn hang_up(&self, _: &Endpoint) {}
    }

    /// A node that cannot change some directives while it runs.
    struct Rigid(&'static [&'static str]);

    impl Transport for Rigid {
        fn call<'a>(&'a self, _: &'a Endpoint, request: &'a Request) -> BoxFuture<'a, Result<Reply, RedisError>> {
            let Request::Configure(settings) = request else { panic!("it is configured alone") };
            let rigid = settings.iter().find(|(name, _)| self.0.contains(&name.as_str()));
            let invalid = settings.iter().find(|(_, value)| value == "x");
            let answer = match (rigid, invalid) {
                (Some((name, _)), _) => Err((name, IMMUTABLE)),
                (None, Some((name, _))) => Err((name, "argument must be a memory value")),
                (None, None) => Ok(Reply::Done),
            };
            let refusal = |(name, why): (&String, &str)| {
                let message = format!("CONFIG SET failed (possibly related to argument '{name}') - {why}");
                RedisError::new("CONFIG SET", Trouble::Refused, message)
            };
            std::future::ready(answer.map_err(refusal)).boxed()
        }

        fn until_broken<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, ()> {
            std::future::pending().boxed()
        }

        fn put_aside(&self, _: &Endpoint) {}

        fn hang_up(&self, _: &Endpoint) {}
    }

    fn target() -> Target {
        let endpoint = Endpoint { address: "10.0.0.1:6379".into(), login: None, tls: None };
        Target { name: "cache-0".into(), uid: "uid".into(), endpoint: Some(endpoint) }
    }

    #[tokio::test]
    async fn immutable_directives_do_not_block_the_others() {
        let redis = Redis::new(Arc::new(Rigid(&["one", "two"])), Fence::always_open(), Metrics::new());
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let all = pairs(&[("maxmemory", "1gb"), ("one", "1"), ("timeout", "5"), ("two", "2")]);
        let refused = set(&redis, &target(), &all).await.expect("the others are set");
        assert_eq!(refused, pairs(&[("one", "1"), ("two", "2")]));
        let error = set(&redis, &target(), &pairs(&[("one", "1"), ("maxmemory", "x")])).await.unwrap_err();
        let Error::SettingRefused { directive, .. } = error else { panic!("{error}") };
        assert_eq!(directive, "maxmemory");
    }

    /// Sends the commands to step down. Returns whether they were sent when the next action may begin, and after how
    /// long.
    async fn step_down_within(takes: Duration) -> (bool, Duration) {
        let has_word = Arc::new(AtomicBool::new(false));
        let transport = Arc::new(Slow { takes, has_word: has_word.clone() });
        let redis = Redis::new(transport, Fence::always_open(), Metrics::new());
        let node = target();
        let begun = Instant::now();
        leave_word(&redis, &node, "10.0.0.2").await.expect("the change of masters goes on");
        (has_word.load(Ordering::SeqCst), begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_promotion_waits_briefly_for_the_step_down() {
        assert_eq!(step_down_within(Duration::from_millis(100)).await, (true, Duration::from_millis(100)));
        let (has_word, after) = step_down_within(Duration::from_mins(1)).await;
        assert!(!has_word && after <= Duration::from_millis(510), "{after:?}");
    }
}
