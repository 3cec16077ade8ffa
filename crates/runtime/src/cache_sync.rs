//! Waits for a watch's first list.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use kube::Resource;
use kube::runtime::reflector::{Lookup, Store};
use tokio::sync::Notify;

/// The first list of a watch, for any number of waiting tasks.
///
/// [`Store::wait_until_ready`] wakes only the last task that called it; all others would sleep until something else
/// wakes them. Here one task calls it, and wakes the others.
#[derive(Clone)]
pub struct CacheSync(Shared<BoxFuture<'static, ()>>);

impl CacheSync {
    /// Waits for the first list of that store.
    pub fn for_store<K>(store: Store<K>) -> Self
    where
        K: Resource<DynamicType = ()> + Lookup<DynamicType = ()> + Clone + Send + Sync + 'static,
    {
        let listed = async move {
            // The writer of a store is gone only when its controller ends.
            store.wait_until_ready().await.ok();
        };
        Self(listed.boxed().shared())
    }

    /// Waits for the first list of that store, or for the first notification that its kind is not installed, so that it
    /// has no objects.
    pub fn for_optional_store<K>(store: Store<K>, missing: Arc<Notify>) -> Self
    where
        K: Resource<DynamicType = ()> + Lookup<DynamicType = ()> + Clone + Send + Sync + 'static,
    {
        let listed = Self::for_store(store);
        let either = async move {
            tokio::select! {
                () = listed.wait() => {}
                () = missing.notified() => {}
            }
        };
        Self(either.boxed().shared())
    }

    /// Waits for the first list.
    pub async fn wait(&self) {
        self.0.clone().await;
    }

    /// Returns true if the list is complete.
    pub fn is_over(&self) -> bool {
        self.0.clone().now_or_never().is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::runtime::{reflector, watcher};
    use tokio::task::JoinSet;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn all_tasks_that_wait_for_a_list_are_woken() {
        let (reader, mut writer) = reflector::store::<ConfigMap>();
        let listed = CacheSync::for_store(reader);
        let mut waiting = JoinSet::new();
        for _ in 0..10 {
            let listed = listed.clone();
            waiting.spawn(async move { listed.wait().await });
        }
        tokio::task::yield_now().await;
        writer.apply_watcher_event(&watcher::Event::Init);
        writer.apply_watcher_event(&watcher::Event::InitDone);
        let all = timeout(Duration::from_secs(10), waiting.join_all()).await;
        assert_eq!(all.map(|done| done.len()), Ok(10));
    }
}
