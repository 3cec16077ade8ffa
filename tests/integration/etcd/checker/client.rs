//! A client as users have it: it knows several endpoints, stays with one that answers for a while, and goes on to the
//! next one when it does not.

use std::time::Duration;

use causeway_databases::etcd::{Endpoint, Password, ROOT};
use etcd_client::{Client, ConnectOptions, Error};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::Api;
use kube::api::ListParams;

use crate::etcd::{LABEL, NAME, access};
use crate::support::Scene;

/// A call without an answer has failed.
const DEADLINE: Duration = Duration::from_secs(2);
const CONNECT: Duration = Duration::from_secs(1);
/// After so many calls a client goes on to the next member, so that members that were added later are used, too.
const STAY: usize = 50;

/// How a client reaches the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the address of its Service.
    Service,
    /// By the addresses of its pods, as they are whenever it looks for another one.
    Members,
}

/// A client that goes on to another endpoint after an error, and after a while.
pub struct Failover {
    services: Api<Service>,
    pods: Api<Pod>,
    secrets: Api<Secret>,
    way: Way,
    turn: usize,
    calls: usize,
    connection: Option<Client>,
}

impl Failover {
    /// One that begins with the `turn`-th endpoint.
    pub fn new(scene: &Scene, way: Way, turn: usize) -> Self {
        Self { services: scene.api(), pods: scene.api(), secrets: scene.api(), way, turn, calls: 0, connection: None }
    }

    /// Makes a call; the error says in a few words why it failed.
    pub async fn call<T>(&mut self, call: impl AsyncFnOnce(&mut Client) -> Result<T, Error>) -> Result<T, String> {
        self.calls += 1;
        if self.way == Way::Members && self.calls.is_multiple_of(STAY) {
            self.go_on();
        }
        let whole = async {
            if self.connection.is_none() {
                self.connection = Some(connect(&self.endpoint().await?).await?);
            }
            let connection = self.connection.as_mut().ok_or("not connected")?;
            call(connection).await.map_err(|error| in_words(&error))
        };
        let answer = tokio::time::timeout(DEADLINE, whole).await.unwrap_or_else(|_| Err("no answer in 2 s".into()));
        if answer.is_err() {
            self.go_on();
        }
        answer
    }

    fn go_on(&mut self) {
        self.connection = None;
        self.turn += 1;
    }

    /// With TLS as soon as the member serves it, or, through the Service, all members do. Clients switch while members
    /// serve both.
    async fn endpoint(&self) -> Result<Endpoint, String> {
        let ours = ListParams::default().labels(&format!("{LABEL}={NAME}"));
        let pods = self.pods.list(&ours).await.map_err(|_| "no pods")?.items;
        let (address, by_tls) = match self.way {
            Way::Service => {
                let service = self.services.get(NAME).await.map_err(|_| "no Service")?;
                (service.spec.and_then(|spec| spec.cluster_ip), pods.iter().all(access::speaks_tls))
            }
            Way::Members => {
                let address = |pod: &Pod| Some((pod.status.as_ref()?.pod_ip.clone()?, access::speaks_tls(pod)));
                let addresses: Vec<(String, bool)> = pods.iter().filter_map(address).collect();
                let chosen = (!addresses.is_empty()).then(|| addresses[self.turn % addresses.len()].clone());
                chosen.map_or((None, false), |(address, by_tls)| (Some(address), by_tls))
            }
        };
        Ok(access::endpoint(&self.secrets, &address.ok_or("no address")?, by_tls).await)
    }
}

async fn connect(endpoint: &Endpoint) -> Result<Client, String> {
    let mut options = ConnectOptions::new().with_connect_timeout(CONNECT);
    if let Some(credentials) = &endpoint.tls {
        options = options.with_tls(credentials.options());
    }
    if let Some(Password(password)) = &endpoint.login {
        let with_login = options.clone().with_user(ROOT, password);
        match Client::connect([&endpoint.url], Some(with_login)).await.map_err(|error| in_words(&error)) {
            Err(words) if words.contains("authentication is not enabled") => {}
            outcome => return outcome,
        }
    }
    Client::connect([&endpoint.url], Some(options)).await.map_err(|error| in_words(&error))
}

/// The error without what differs from call to call.
fn in_words(error: &Error) -> String {
    match error {
        Error::GRpcStatus(status) => format!("{:?}: {}", status.code(), status.message()),
        other => other.to_string(),
    }
}
