//! `Ready` is never true, not even for a moment, for a generation whose children are missing or not rolled out:
//! `kubectl wait` would return in that moment.

mod backup;
mod databases;
mod judge;
mod pods;

use std::fmt::Debug;

use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::support::Scene;
use crate::support::wait::wait_within;
use std::time::Duration;

/// Pods start one after the other, on a machine that runs other tests, too.
const WAIT_TIMEOUT: Duration = Duration::from_mins(6);

/// The condition of an object about its readiness: status, reason, message, and whether that is about its newest
/// generation.
type Claim = (String, String, String, bool);

/// Waits until the object reports a `good` status and reason for its newest generation; returns the message.
async fn says<K>(scene: &Scene, name: &str, what: &str, good: impl Fn(&str, &str) -> bool) -> String
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let api = scene.api::<K>();
    let look = || async {
        let object = serde_json::to_value(api.get(name).await.expect("the object")).expect("an object");
        describe(&object)
    };
    let (_, _, message, _) =
        wait_within(WAIT_TIMEOUT, what, look, |(status, reason, _, current)| *current && good(status, reason)).await;
    message
}

/// Changes the object's spec, and waits until that is carried out.
async fn carried_out<K>(scene: &Scene, name: &str, change: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let what = format!("{change} to be carried out");
    scene.edit::<K>(name, change).await;
    says::<K>(scene, name, &what, |status, _| status == "True").await;
}

/// Changes the object's spec to what cannot be carried out, and waits until `Ready` is false for that reason; returns
/// its message.
async fn fails<K>(scene: &Scene, name: &str, change: Value, because: &str) -> String
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let what = format!("{change} to be reported as {because}");
    scene.edit::<K>(name, change).await;
    says::<K>(scene, name, &what, |status, reason| status == "False" && reason == because).await
}

fn describe(object: &Value) -> Claim {
    let ready = judge::ready(object);
    let text = |key: &str| ready[key].as_str().unwrap_or_default().to_owned();
    let current =
        !ready["observedGeneration"].is_null() && ready["observedGeneration"] == object["metadata"]["generation"];
    (text("status"), text("reason"), text("message"), current)
}
