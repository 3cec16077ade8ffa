//! How clients find the master: one address for all of them, whichever node is behind it.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::watcher::{self, Event, watcher};
use redis::RedisError;
use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::client::open;
use super::secure::Secure;
use crate::support::Scene;

/// Finds the address to connect to, such as `10.0.0.7:6379`, whenever a connection is made.
pub type Find = dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync;

/// The way to the master, and the password that it takes.
#[derive(Clone)]
pub struct Entrance {
    find: Arc<Find>,
    password: Arc<Mutex<Option<String>>>,
    secure: Arc<Mutex<Option<Secure>>>,
}

impl Entrance {
    /// Finds the master by any means.
    pub fn new(find: impl Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync + 'static) -> Self {
        Self { find: Arc::new(find), password: Arc::default(), secure: Arc::default() }
    }

    /// Finds the master by the address of a Service, which may change.
    pub fn service(scene: &Scene, name: &str) -> Self {
        let (known, address) = watch::channel(None);
        let mut events =
            watcher(scene.api(), watcher::Config::default().fields(&format!("metadata.name={name}"))).boxed();
        let task = Follower(tokio::spawn(async move {
            // The watcher restarts a broken watch by itself.
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(service) | Event::InitApply(service)) => known.send_replace(address_of(&service)),
                    Ok(Event::Delete(_)) => known.send_replace(None),
                    Ok(Event::Init | Event::InitDone) | Err(_) => continue,
                };
            }
        }));
        let task = Arc::new(task);
        Self::new(move || {
            let (address, _task) = (address.borrow().clone(), task.clone());
            async move { address.ok_or_else(|| "no Service".to_owned()) }.boxed()
        })
    }

    /// Where to connect to now.
    pub async fn address(&self) -> Result<String, String> {
        (self.find)().await
    }

    /// The password for new connections.
    pub fn password(&self) -> Option<String> {
        self.password.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// New connections use that password from now on.
    pub fn use_password(&self, password: Option<String>) {
        *self.password.lock().unwrap_or_else(PoisonError::into_inner) = password;
    }
}

impl Entrance {
    /// New connections use TLS from now on, or, with `None`, do not.
    pub fn use_tls(&self, secure: Option<Secure>) {
        *self.secure.lock().unwrap_or_else(PoisonError::into_inner) = secure;
    }

    /// Connects to a server as clients do now.
    pub async fn open(&self, address: &str) -> Result<MultiplexedConnection, RedisError> {
        let (password, secure) = (self.password(), self.secure.lock().unwrap_or_else(PoisonError::into_inner).clone());
        match secure {
            Some(secure) => secure.open(address, password.as_deref()).await,
            None => open(address, password.as_deref()).await,
        }
    }
}

/// A task that ends with the last entrance that needs it.
struct Follower(JoinHandle<()>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn address_of(service: &Service) -> Option<String> {
    let spec = service.spec.as_ref()?;
    let port = spec.ports.as_ref()?.first()?.port;
    spec.cluster_ip.as_ref().map(|address| format!("{address}:{port}"))
}
