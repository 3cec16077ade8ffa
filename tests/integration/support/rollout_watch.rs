//! Watches how many pods are ready at every moment of a rollout, and in which order pods are replaced. Sampling would
//! miss short moments.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Scene;

/// A running watch of a scene's pods.
pub struct RolloutWatch {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    /// By name: the uid of the pod, and whether it is ready.
    pods: BTreeMap<String, (String, bool)>,
    fewest: usize,
    replaced: Vec<String>,
}

impl RolloutWatch {
    /// Starts to watch. The pods that exist now are known when this returns.
    pub async fn start(scene: &Scene) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (begun, listed) = oneshot::channel();
        let (mut begun, shared) = (Some(begun), seen.clone());
        let mut events = watcher(scene.api::<Pod>(), Config::default()).default_backoff().boxed();
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                // The watcher goes on after an error.
                let Ok(event) = event else { continue };
                let mut seen = shared.lock().unwrap();
                match event {
                    // After a broken watch the pods are listed again, and each overwrites what was known under its
                    // name.
                    Event::Init => {}
                    Event::InitDone => {
                        if let Some(begun) = begun.take() {
                            seen.fewest = usize::MAX;
                            let _ = begun.send(());
                        }
                    }
                    Event::InitApply(pod) | Event::Apply(pod) => seen.note(&pod),
                    Event::Delete(pod) => seen.lose(&pod),
                }
                let ready = seen.pods.values().filter(|(_, ready)| *ready).count();
                seen.fewest = seen.fewest.min(ready);
            }
        });
        listed.await.expect("the pods are listed");
        Self { seen, task }
    }

    /// The fewest pods that were ready at the same time so far.
    pub fn fewest_ready(&self) -> usize {
        self.seen.lock().unwrap().fewest
    }

    /// The names of pods that were replaced, in the order of their replacements.
    pub fn replaced(&self) -> Vec<String> {
        self.seen.lock().unwrap().replaced.clone()
    }
}

impl Drop for RolloutWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    fn note(&mut self, pod: &Pod) {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let before = self.pods.insert(name.clone(), (uid.clone(), is_ready(pod)));
        if before.is_some_and(|(before, _)| before != uid) {
            self.replaced.push(name);
        }
    }

    /// Keeps the uid of the deleted pod: by it, the next pod of that name is recognised as a replacement.
    fn lose(&mut self, pod: &Pod) {
        if let Some((uid, ready)) = self.pods.get_mut(&pod.name_any())
            && Some(&*uid) == pod.uid().as_ref()
        {
            *ready = false;
        }
    }
}

/// Reports whether a pod is ready and not being deleted.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
