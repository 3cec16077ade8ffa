//! Watches how many pods are ready at every moment of a rollout; sampling would miss the short ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::watcher::{Config, Event, watcher};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::is_ready;
use crate::support::Scene;

/// A running watch of a scene's pods.
pub struct RolloutWatch {
    fewest: Arc<Mutex<usize>>,
    task: JoinHandle<()>,
}

impl RolloutWatch {
    /// Starts to watch; what is there now is known when this returns.
    pub async fn start(scene: &Scene) -> Self {
        let fewest = Arc::new(Mutex::new(usize::MAX));
        let (begun, listed) = oneshot::channel();
        let (mut begun, least, mut ready) = (Some(begun), fewest.clone(), BTreeMap::new());
        let mut events = watcher(scene.api::<Pod>(), Config::default()).boxed();
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                match event.expect("the watch goes on") {
                    Event::Init => ready.clear(),
                    Event::InitDone => _ = begun.take().map(|begun| begun.send(())),
                    Event::InitApply(pod) | Event::Apply(pod) => _ = ready.insert(pod.name_any(), is_ready(&pod)),
                    Event::Delete(pod) => _ = ready.remove(&pod.name_any()),
                }
                if begun.is_none() {
                    let count = ready.values().filter(|ready| **ready).count();
                    let mut least = least.lock().unwrap();
                    *least = count.min(*least);
                }
            }
        });
        listed.await.expect("the pods are listed");
        Self { fewest, task }
    }

    /// The fewest pods that were ready at the same time so far.
    pub fn fewest_ready(&self) -> usize {
        *self.fewest.lock().unwrap()
    }
}

impl Drop for RolloutWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
