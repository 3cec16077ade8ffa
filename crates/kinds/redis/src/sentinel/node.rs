//! Asks the node beside this sentinel which master it names, and whether a password is right.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use causeway_databases::redis::{Credentials, Endpoint, Info, Login, Reply, Request, Tcp, Transport, Trouble};

use super::session::Verdict;
use super::tls::Files;
use super::view::{self, View};

/// The interval of questions to the node.
const INTERVAL: Duration = Duration::from_millis(500);
/// The time that an answer is waited for.
const DEADLINE: Duration = Duration::from_secs(1);
/// The number of passwords that are checked at the same time.
const CHECKS: usize = 16;

/// The address and the credentials with which the node is called.
#[derive(Debug)]
pub struct Node {
    /// Host and port, such as `127.0.0.1:6379`.
    pub address: String,
    /// The user as which it is asked for its master; `None` if it asks for no password.
    pub login: Option<Login>,
    /// The settings of TLS, if the node speaks it.
    pub tls: Option<Tls>,
    checks: Semaphore,
}

/// The settings of TLS with the node.
#[derive(Debug)]
pub struct Tls {
    /// The directory with the certificates, which change now and then.
    pub directory: PathBuf,
    /// The name that its certificate is valid for.
    pub name: String,
    /// True if it asks for a client certificate.
    pub asks: bool,
}

impl Node {
    /// Describes a node that was not asked yet.
    pub fn new(address: String, login: Option<Login>, tls: Option<Tls>) -> Self {
        Self { address, login, tls, checks: Semaphore::new(CHECKS) }
    }

    /// Asks it again and again, and publishes what is known whenever that changes.
    pub async fn watch(&self, node: &view::Node, views: &watch::Sender<View>) {
        let calls = Tcp::default();
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_answer = Instant::now();
        loop {
            ticks.tick().await;
            let reply = self.info(&calls, self.login.clone()).await;
            views.send_if_modified(|view| {
                let now = match &reply {
                    Ok(info) => {
                        last_answer = Instant::now();
                        view.after_answer(node, info)
                    }
                    Err(_) => view.silent(last_answer.elapsed()),
                };
                let changed = *view != now;
                if view.address() != now.address() {
                    let (before, master) = (view.address().unwrap_or("none"), now.address().unwrap_or("none"));
                    tracing::info!(before, master, "the node names another master");
                }
                *view = now;
                changed
            });
        }
    }

    /// Checks whether clients log in to the node with that password. The node itself is asked: it knows a changed
    /// password at once.
    pub async fn check(&self, password: &str) -> Verdict {
        let login = Login { user: "default".into(), password: password.to_owned() };
        let checked = timeout(DEADLINE, async {
            let _turn = self.checks.acquire().await;
            // The connection is closed when this is done.
            self.info(&Tcp::default(), Some(login)).await
        });
        match checked.await {
            Ok(Ok(_)) => Verdict::Right,
            Ok(Err(Trouble::Unauthenticated)) => Verdict::Wrong,
            Ok(Err(_)) | Err(_) => Verdict::Unknown,
        }
    }

    /// Returns the node's answer to `INFO`.
    async fn info(&self, calls: &Tcp, login: Option<Login>) -> Result<Info, Trouble> {
        let endpoint = self.endpoint(login).map_err(|error| {
            tracing::warn!(%error, "the certificates cannot be read");
            Trouble::Unanswered
        })?;
        let Ok(answer) = timeout(DEADLINE, calls.call(&endpoint, &Request::Info)).await else {
            calls.hang_up(&endpoint);
            return Err(Trouble::Unanswered);
        };
        match answer {
            Ok(Reply::Info(info)) => Ok(*info),
            Ok(_) => Err(Trouble::Refused),
            Err(error) => {
                tracing::debug!(%error, "the node does not answer");
                Err(error.trouble)
            }
        }
    }

    fn endpoint(&self, login: Option<Login>) -> std::io::Result<Endpoint> {
        let credentials = |tls: &Tls| {
            let files = Files::read(&tls.directory)?;
            let identity = tls.asks.then_some((files.certificate, files.key));
            Ok::<_, std::io::Error>(Arc::new(Credentials {
                trusted: files.trusted,
                server_name: tls.name.clone(),
                identity,
            }))
        };
        let tls = self.tls.as_ref().map(credentials).transpose()?;
        Ok(Endpoint { address: self.address.clone(), login, tls })
    }
}
