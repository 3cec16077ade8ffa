//! Passes on which objects to reconcile: from the monitors of databases to the controllers.

use std::sync::Arc;

use parking_lot::Mutex;

use futures::StreamExt;
use futures::stream::{self, Stream};
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;

/// Namespace and name of an object.
pub type Key = (String, String);

/// The subscribers to objects that are to be reconciled. Clones share them.
#[derive(Clone, Default)]
pub struct Wake(Arc<Mutex<Vec<mpsc::UnboundedSender<Key>>>>);

impl Wake {
    /// Has the object reconciled.
    pub fn wake(&self, key: &Key) {
        let mut all = self.0.lock();
        all.retain(|subscriber| subscriber.send(key.clone()).is_ok());
    }

    /// The objects that are to be reconciled.
    pub fn subscribe(&self) -> impl Stream<Item = Key> + Send + 'static + use<> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.lock().push(sender);
        stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
    }

    /// The same for the controller of a kind that serves one namespace, or all.
    pub fn requests<K>(&self, namespace: Option<&str>) -> impl Stream<Item = ObjectRef<K>> + Send + 'static + use<K>
    where
        K: Resource<DynamicType = ()> + 'static,
    {
        let served = namespace.map(str::to_owned);
        self.subscribe().filter_map(move |(namespace, name)| {
            let is_served = served.as_ref().is_none_or(|served| *served == namespace);
            std::future::ready(is_served.then(|| ObjectRef::new(&name).within(&namespace)))
        })
    }
}
