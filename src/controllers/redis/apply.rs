//! Carries out what was decided.

use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::api::{DeleteParams, DynamicObject, PostParams, PropagationPolicy};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::action::{Action, Publication, Target};
use super::error::Error;
use super::facts::{self, Hidden, Users};
use super::names::{self, AWAITED, CERTIFICATES, PORT, ROLE, SETTINGS};
use super::observe::Observer;
use super::{resources, tls};
use crate::api::Redis as Object;
use crate::api::common::FIELD_MANAGER;
use crate::controllers::tls::write;
use crate::external::redis::{Endpoint, Redis, RedisError, Request, Trouble};
use crate::runtime::hexadecimal;
use crate::runtime::manifest::{Manifest, delete_exactly, is_controlled_by, patch_exactly};

/// A master that hands over has its replica's word within that, or goes on as before.
const HAND_OVER_MS: u64 = 3000;
/// How often a master that hands over is asked whether it has.
const GLANCE: Duration = Duration::from_millis(10);
/// A process without a pod that does not answer by then is taken for gone.
const FENCE_GREETING: Duration = Duration::from_millis(300);
/// A process without a pod has so long to hand over.
const FENCE: Duration = Duration::from_millis(500);

/// Carries out `action`.
pub async fn apply(
    client: &Client,
    redis: &Redis,
    observer: &Observer,
    object: &Object,
    action: &Action,
) -> Result<(), Error> {
    let namespace = object.namespace().unwrap_or_default();
    match action {
        Action::Apply { child, uid } => {
            observer.expect_change(object);
            apply_child(client, object, &namespace, child, uid.as_deref()).await
        }
        Action::DeletePod { name, uid, at_once, .. } => {
            observer.expect_change(object);
            let how = DeleteParams { grace_period_seconds: at_once.then_some(1), ..DeleteParams::default() };
            delete::<Pod>(client, &namespace, name, uid, how).await
        }
        Action::Revive { name, uid, .. } => revive(client, observer, object, name, uid).await,
        Action::DeleteClaim { name, uid, .. } => {
            observer.expect_change(object);
            delete::<PersistentVolumeClaim>(client, &namespace, name, uid, DeleteParams::default()).await
        }
        Action::Orphan { name, uid } => {
            observer.expect_change(object);
            let orphaning =
                DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
            delete::<StatefulSet>(client, &namespace, name, uid, orphaning).await
        }
        Action::GrowClaim { name, uid, size } => {
            observer.expect_change(object);
            grow(client, &namespace, name, uid, size).await
        }
        Action::LabelPod(pod) => change_pod(client, observer, object, pod, &ours(object)).await,
        Action::LabelClaim { name, uid } => {
            observer.expect_change(object);
            let patch = json!({ "metadata": ours(object) });
            change::<PersistentVolumeClaim>(client, &namespace, name, uid, patch).await.map(drop)
        }
        Action::Lead(publication) => lead(redis, observer, object, publication).await,
        Action::Unselect { service, uid } => {
            observer.expect_change(object);
            observer.slices.unselect(object, service, uid).await
        }
        Action::Sweep { service, slices } => {
            observer.expect_change(object);
            observer.slices.sweep(object, service, slices).await
        }
        Action::SetRole { pod, role } => {
            change_pod(client, observer, object, pod, &json!({ "labels": { ROLE: role } })).await
        }
        Action::Follow { node, master, drop_clients } => {
            let at = endpoint(node)?;
            redis.change(&at, Request::Follow { host: master.clone(), port: PORT }).await?;
            if *drop_clients {
                redis.change(&at, Request::DropClients).await?;
            }
            Ok(())
        }
        Action::Promote { node, run_id, .. } => {
            Ok(redis.change(&endpoint(node)?, Request::Promote { run_id: run_id.clone() }).await?)
        }
        Action::HandOver { from, address, hide, .. } => {
            hand_over(client, redis, observer, object, from, (address, hide.as_deref())).await
        }
        Action::Fence { at, history, successor } => {
            fence(redis, at, history, successor).await;
            redis.hang_up(at);
            Ok(())
        }
        Action::StepDown { node, successor } => leave_word(redis, node, successor),
        Action::KeepMastership { node } => Ok(redis.change(&endpoint(node)?, Request::KeepMastership).await?),
        Action::DropClients { node } => Ok(redis.change(&endpoint(node)?, Request::DropClients).await?),
        Action::Certify(certify) => {
            observer.expect_change(object);
            Ok(write::certify(client, object, &names::labels(object), &tls::site(object), certify).await?)
        }
        Action::LoadCertificates { node, settings, content, note, .. } => {
            load_certificates(client, redis, observer, object, (node, settings), (content, note)).await
        }
        Action::MakePassword { secret } => {
            let data = json!({ "password": random()? });
            make_secret(client, object, secret, &data).await
        }
        Action::MakeUsers { secret, hash } => {
            let users = Users { internal: Hidden(random()?), current: hash.clone(), previous: None, exporter: true };
            let child = resources::users_secret(object, &users);
            debug_assert_eq!(child.name(), secret);
            apply_child(client, object, &namespace, &child, None).await
        }
        Action::Configure { node, settings, users, follow_as, note, .. } => {
            let request = Request::SetUsers { users: users.clone(), follow_as: follow_as.clone() };
            redis.change(&endpoint(node)?, request).await?;
            configure(redis, observer, object, node, settings).await?;
            change_pod(client, observer, object, node, &json!({ "annotations": { SETTINGS: note } })).await
        }
        Action::Restore(step) => observer
            .restores
            .carry_out(object, step)
            .await
            .map_err(|source| Error::Change { name: "the DatabaseRestore".into(), source }),
        Action::Tell { .. } => Ok(()),
    }
}

/// Deletes a pod whose container died, so that the next one does not wait for the kubelet's back-off.
async fn revive(client: &Client, observer: &Observer, object: &Object, name: &str, uid: &str) -> Result<(), Error> {
    observer.expect_change(object);
    let namespace = object.namespace().unwrap_or_default();
    delete::<Pod>(client, &namespace, name, uid, DeleteParams::default()).await?;
    observer.revivals.note(&object.uid().unwrap_or_default(), name);
    Ok(())
}

/// Makes a node read its certificates anew, and records on its pod which it has, or that the kubelet has yet to bring
/// them.
async fn load_certificates(
    client: &Client,
    redis: &Redis,
    observer: &Observer,
    object: &Object,
    (node, settings): (&Target, &[(String, String)]),
    (content, loaded_now): (&str, &str),
) -> Result<(), Error> {
    let loaded = load(redis, node, settings).await;
    let (annotation, value) = match loaded {
        Ok(()) => (CERTIFICATES, loaded_now),
        // The change makes the kubelet bring them.
        Err(Error::FilesAwaited(_)) => (AWAITED, content),
        Err(error) => return Err(error),
    };
    change_pod(client, observer, object, node, &json!({ "annotations": { annotation: value } })).await?;
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

/// Leaves a master that hangs word to step down. The change of masters does not wait for one who sleeps.
fn leave_word(redis: &Redis, node: &Target, successor: &str) -> Result<(), Error> {
    let (redis, at, heir) = (redis.clone(), endpoint(node)?, successor.to_owned());
    tokio::spawn(async move {
        let outcome = redis.change(&at, Request::StepDown { host: heir, port: PORT }).await;
        tracing::info!(node = at.address, ?outcome, "the earlier master was left word to step down");
    });
    Ok(())
}

/// Tells a process its settings, and notes what it makes of them.
async fn configure(
    redis: &Redis,
    observer: &Observer,
    object: &Object,
    node: &Target,
    settings: &[(String, String)],
) -> Result<(), Error> {
    let at = endpoint(node)?;
    match redis.change(&at, Request::Configure(settings.to_vec())).await {
        Err(error) if error.trouble == Trouble::Refused => return Err(refused(node, &error.message)),
        outcome => outcome?,
    }
    if let Ok(info) = redis.info(&at).await {
        observer.note_told(object, &node.uid, &info.run_id, &at).await;
    }
    Ok(())
}

/// Asks the master to hand over and waits for the end of it; meanwhile new clients are kept from it, for it takes no more
/// writes.
async fn hand_over(
    client: &Client,
    redis: &Redis,
    observer: &Observer,
    object: &Object,
    from: &Target,
    (address, hide): (&str, Option<&Publication>),
) -> Result<(), Error> {
    let at = endpoint(from)?;
    let request = Request::HandOver { host: address.to_owned(), port: PORT, timeout_ms: HAND_OVER_MS };
    redis.change(&at, request).await?;
    let hidden = async {
        match hide {
            Some(publication) => lead(redis, observer, object, publication).await,
            None => Ok(()),
        }
    };
    let nothing: Option<&str> = None;
    let metadata = json!({ "labels": { ROLE: nothing } });
    let unlabelled = change_pod(client, observer, object, from, &metadata);
    let ((), hidden, unlabelled) = tokio::join!(handed_over(redis, &at, address), hidden, unlabelled);
    hidden.and(unlabelled)
}

/// Waits until a master has handed over, and has its heir tell how far it is all the time.
async fn handed_over(redis: &Redis, at: &Endpoint, address: &str) {
    let heir = heir(at, address);
    let ends = timeout(Duration::from_millis(HAND_OVER_MS), async {
        while redis.info(at).await.is_ok_and(|info| info.handing_over) {
            redis.change(&heir, Request::Acknowledge).await.ok();
            sleep(GLANCE).await;
        }
    });
    ends.await.ok();
}

/// Writes a slice while this process leads, and leads clients to nobody who is not the master.
async fn lead(redis: &Redis, observer: &Observer, object: &Object, publication: &Publication) -> Result<(), Error> {
    if let Some((node, run_id)) = &publication.master {
        let info = redis.info(&endpoint(node)?).await?;
        if !info.is_master() || info.run_id != *run_id {
            return Err(Error::NoMaster(node.name.clone()));
        }
    }
    redis.may_change("EndpointSlice")?;
    let written = observer.slices.write(object, publication).await;
    // The watch may not show it yet, or not what stood in the way.
    if written.is_err() || publication.before.is_none() {
        observer.expect_change(object);
    }
    written
}

/// Where the replica answers that takes over. It would tell once a second how far it is, and writes would wait for that.
fn heir(master: &Endpoint, host: &str) -> Endpoint {
    let (login, tls) = (master.login.clone(), master.tls.clone());
    let pod = facts::Pod { address: Some(host.to_owned()), login, tls, ..facts::Pod::default() };
    pod.endpoint().unwrap_or_else(|| master.clone())
}

/// What cannot be reached is not waited for: the failover goes on without.
async fn fence(redis: &Redis, at: &Endpoint, history: &str, successor: &str) {
    let Ok(Ok(info)) = timeout(FENCE_GREETING, redis.info(at)).await else { return };
    // The address may be somebody else's by now.
    if !info.is_master() || !info.continues(history) {
        return;
    }
    let heir = heir(at, successor);
    let steps_down = async {
        let timeout_ms = u64::try_from(FENCE.as_millis()).unwrap_or(1);
        redis.change(at, Request::HandOver { host: successor.to_owned(), port: PORT, timeout_ms }).await?;
        while redis.info(at).await.is_ok_and(|info| info.is_master() && info.handing_over) {
            redis.change(&heir, Request::Acknowledge).await.ok();
            sleep(GLANCE).await;
        }
        Ok::<(), RedisError>(())
    };
    let stepped_down = async {
        steps_down.await.ok();
        if redis.info(at).await.is_ok_and(|info| info.is_master()) {
            redis.change(at, Request::Follow { host: successor.to_owned(), port: PORT }).await?;
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

/// The label by which pods and claims are found, as metadata.
fn ours(object: &Object) -> Value {
    json!({ "labels": { names::LABEL: object.name_any() } })
}

/// Changes metadata of exactly that pod.
async fn change_pod(
    client: &Client,
    observer: &Observer,
    object: &Object,
    pod: &Target,
    metadata: &Value,
) -> Result<(), Error> {
    let patch = json!({ "metadata": metadata });
    let namespace = object.namespace().unwrap_or_default();
    observer.note_pod(object, change::<Pod>(client, &namespace, &pod.name, &pod.uid, patch).await?);
    Ok(())
}

async fn change<K>(client: &Client, namespace: &str, name: &str, uid: &str, patch: Value) -> Result<K, Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let changed = patch_exactly(&Api::<K>::namespaced(client.clone(), namespace), name, uid, patch).await;
    changed.map_err(|source| Error::Change { name: format!("{} {name}", K::kind(&())), source })
}

/// Redis quotes the directive that it does not like.
fn refused(node: &Target, message: &str) -> Error {
    let directive = message.split('\'').nth(1).unwrap_or("…").to_owned();
    Error::SettingRefused { node: node.name.clone(), directive, message: message.to_owned() }
}

/// A password that nobody guesses.
fn random() -> Result<String, Error> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|error| Error::Random(error.to_string()))?;
    Ok(hexadecimal(&bytes))
}

/// Makes a Secret that is not there; one that is there is somebody's, and stays.
async fn make_secret(client: &Client, object: &Object, name: &str, data: &Value) -> Result<(), Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let metadata = json!({
        "name": name,
        "labels": names::labels(object),
        "ownerReferences": object.controller_owner_ref(&()).map(|owner| vec![owner]),
    });
    let secret = serde_json::from_value(json!({ "metadata": metadata, "stringData": data }));
    let secret: Secret = secret.map_err(|error| Error::Random(error.to_string()))?;
    let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
    match api.create(&parameters, &secret).await {
        Ok(_) => Ok(()),
        Err(source) => Err(Error::Apply { kind: "Secret".into(), name: name.to_owned(), source }),
    }
}

/// What seems not to be there is looked for first: applying would take over a foreign object of that name.
async fn apply_child(
    client: &Client,
    object: &Object,
    namespace: &str,
    child: &Manifest,
    uid: Option<&str>,
) -> Result<(), Error> {
    let failed = |source| Error::Apply { kind: child.kind().to_owned(), name: child.name().to_owned(), source };
    if uid.is_none() {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &child.resource);
        let there = api.get_opt(child.name()).await.map_err(failed)?;
        if there.is_some_and(|there| !is_controlled_by(&there, object)) {
            return Err(Error::NameTaken(format!("{} {}", child.kind(), child.name())));
        }
    }
    child.apply(client, namespace, uid).await.map_err(failed)
}

async fn delete<K>(client: &Client, namespace: &str, name: &str, uid: &str, how: DeleteParams) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let deleted = delete_exactly(&api, name, uid, how).await;
    deleted.map_err(|source| Error::Change { name: format!("{} {name}", K::kind(&())), source })
}

async fn grow(client: &Client, namespace: &str, name: &str, uid: &str, size: &str) -> Result<(), Error> {
    let patch = json!({ "spec": { "resources": { "requests": { "storage": size } } } });
    match change::<PersistentVolumeClaim>(client, namespace, name, uid, patch).await {
        Err(Error::Change { source: kube::Error::Api(status), .. }) if matches!(status.code, 403 | 422) => {
            Err(Error::CannotGrow { name: name.to_owned(), message: status.message.clone() })
        }
        changed => changed.map(drop),
    }
}
