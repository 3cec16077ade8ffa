//! Clients that write and read all the time while a set changes, and know in the end whether it kept its promises.
//!
//! Every write has a key of its own, with a number that is one higher than its writer's last. So the checker notices
//! when an acknowledged write is missing later, and a write of unknown outcome is no problem.

mod book;
mod client;
mod entrance;
pub mod mixed;
mod report;
mod secure;
mod watch;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{NAME, WAIT_TIMEOUT};
use crate::support::wait::wait_within;
use crate::support::{Scene, wait_for};
use book::{Book, key};
pub use book::{Class, Event};
use client::Caller;
pub use client::open;
pub use entrance::Entrance;
use report::Findings;
pub use report::{Measured, Promise};
pub use secure::Secure;
use watch::Watch;

/// Between two writes of a writer.
const PAUSE: Duration = Duration::from_millis(50);
/// Between two reads of a reader.
const READ_PAUSE: Duration = Duration::from_millis(100);
/// The clients: so many of each class.
const WRITERS: [Class; 6] = [Class::Short, Class::Long, Class::Waiting, Class::Short, Class::Long, Class::Waiting];
/// One reads on short connections, one on a long-lived one.
const READERS: [Class; 2] = [Class::Short, Class::Long];
/// So many keys are read at once in the end.
const PAGE: usize = 1000;

/// Clients at work. They stop when this is dropped, too.
pub struct Checker {
    book: Arc<Mutex<Book>>,
    entrance: Entrance,
    writers: usize,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    begun: Instant,
    /// Watches that only one master is behind the Service; `None` where there is no Service.
    watch: Option<Watch>,
}

impl Checker {
    /// Starts clients of the scene's set; each has had a write acknowledged when this returns.
    pub async fn start(scene: &Scene) -> Self {
        Self::of_service(scene, None, None, &WRITERS).await
    }

    /// The same with TLS, and with a password where one is asked for.
    pub async fn start_with_tls(scene: &Scene, secure: Secure, password: Option<&str>) -> Self {
        // Each short connection needs a TLS handshake: as many clients as without TLS would keep the machine busy.
        let writers = [Class::Short, Class::Long, Class::Waiting];
        Self::of_service(scene, password.map(str::to_owned), Some(secure), &writers).await
    }

    /// The same with a password.
    pub async fn start_with_password(scene: &Scene, password: &str) -> Self {
        Self::of_service(scene, Some(password.to_owned()), None, &WRITERS).await
    }

    /// The same for a set without replicas, where no client can wait for one.
    pub async fn start_without_replicas(scene: &Scene) -> Self {
        let writers: Vec<Class> = WRITERS.into_iter().filter(|class| *class != Class::Waiting).collect();
        Self::of_service(scene, None, None, &writers).await
    }

    /// The same by another way to the master than a Service.
    pub async fn start_at(entrance: Entrance) -> Self {
        let checker = Self::writing(entrance, &WRITERS);
        checker.goes_on("the first writes").await;
        checker
    }

    async fn of_service(scene: &Scene, password: Option<String>, secure: Option<Secure>, writers: &[Class]) -> Self {
        let entrance = Entrance::service(scene, NAME);
        entrance.use_password(password);
        entrance.use_tls(secure);
        let watch = Watch::start(scene, entrance.clone()).await;
        let mut checker = Self::writing(entrance, writers);
        checker.watch = Some(watch);
        checker.goes_on("the first writes").await;
        checker
    }

    /// Starts clients that only write, by any way to a master.
    pub fn writing(entrance: Entrance, writers: &[Class]) -> Self {
        let book = Arc::new(Mutex::new(Book::new(writers.to_vec())));
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        for (number, class) in writers.iter().enumerate() {
            tasks.spawn(write(number, *class, entrance.clone(), book.clone(), stop.clone()));
        }
        for class in READERS {
            tasks.spawn(read(class, entrance.clone(), book.clone(), stop.clone()));
        }
        Self { book, entrance, writers: writers.len(), stop, tasks, begun: Instant::now(), watch: None }
    }

    /// Notes that something is done to the set now.
    pub fn event(&self, what: &str) -> Instant {
        let at = Instant::now();
        locked(&self.book).events.push(Event { what: what.to_owned(), at });
        at
    }

    /// New connections use that password from now on.
    pub fn use_password(&self, password: Option<String>) {
        self.entrance.use_password(password);
    }

    /// New connections use TLS with these settings from now on.
    pub fn use_tls(&self, secure: Secure) {
        self.entrance.use_tls(Some(secure));
    }

    /// Waits until every client has had a write acknowledged that began after this call.
    pub async fn goes_on(&self, what: &str) {
        self.serves(what, self.writers).await;
    }

    /// Waits until so many clients have had a write acknowledged that began after this call.
    pub async fn serves(&self, what: &str, clients: usize) {
        let now = Instant::now();
        let look = || async { locked(&self.book).served_since(now).len() };
        wait_within(WAIT_TIMEOUT, &format!("{what}: writes of {clients} clients"), look, |served| *served >= clients)
            .await;
    }

    /// When writes were acknowledged since then, in that order.
    pub fn acknowledged_since(&self, moment: Instant) -> Vec<Instant> {
        locked(&self.book).writes.iter().map(|write| write.at).filter(|at| *at > moment).collect()
    }

    /// Waits for so many further writes.
    pub async fn writes(&self, count: usize) {
        let before = locked(&self.book).writes.len();
        let look = || async { locked(&self.book).writes.len() - before };
        wait_for(&format!("{count} further writes"), look, |written| *written >= count).await;
    }

    /// Waits until no client's writes are acknowledged any more.
    pub async fn stops(&self, what: &str) {
        let quiet = Duration::from_secs(1);
        let look = || async { locked(&self.book).writes.last().map(|write| write.at.elapsed()) };
        wait_for(&format!("{what}: no writes"), look, |since| since.is_some_and(|since| since > quiet)).await;
    }

    /// Ends the clients, compares all that they know with what is stored, prints the result, and panics if a promise
    /// was broken.
    pub async fn finish(self, what: &str, promise: Promise) {
        let (begun, end) = (self.begun, Instant::now());
        let findings = self.end(end).await;
        findings.print(what, begun, end);
        let complaints = findings.complaints(promise);
        assert!(complaints.is_empty(), "{what}:\n{}", complaints.join("\n"));
    }

    /// Ends the clients, panics if a promise was broken, and returns the result in figures.
    pub async fn measured(self, promise: Promise) -> Measured {
        let findings = self.end(Instant::now()).await;
        let complaints = findings.complaints(promise);
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
        findings.measured()
    }

    /// Ends the clients, and returns in which ways the promise was broken.
    pub async fn complaints(self, promise: Promise) -> Vec<String> {
        self.end(Instant::now()).await.complaints(promise)
    }

    async fn end(mut self, end: Instant) -> Findings {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a client never panics");
        }
        let watched = match self.watch.take() {
            Some(watch) => Some(watch.finish().await),
            None => None,
        };
        let keys: Vec<(usize, u64)> = locked(&self.book).keys().collect();
        let stored = stored_keys(&self.entrance, &keys).await;
        let book = std::mem::replace(&mut *locked(&self.book), Book::new(Vec::new()));
        Findings::new(book, &stored, watched, end)
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn locked(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().expect("the lock is not poisoned")
}

async fn write(writer: usize, class: Class, entrance: Entrance, book: Arc<Mutex<Book>>, stop: CancellationToken) {
    let mut caller = Caller::new(entrance);
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.is_cancelled() {
        ticks.tick().await;
        let number = locked(&book).begin(writer);
        let (key, sent) = (key(writer, number), Instant::now());
        let answer = match class {
            Class::Waiting => caller.set_and_wait(&key, number).await,
            Class::Short | Class::Long => caller.set(&key, number).await,
        };
        match answer {
            Ok(()) => locked(&book).acknowledged(writer, number, sent),
            Err(why) => locked(&book).failed(Some(writer), &why),
        }
        if class == Class::Short {
            caller.hang_up();
        }
    }
}

/// Reads the newest write that was acknowledged, of all writers.
async fn read(class: Class, entrance: Entrance, book: Arc<Mutex<Book>>, stop: CancellationToken) {
    let mut caller = Caller::new(entrance);
    let mut ticks = interval(READ_PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.is_cancelled() {
        ticks.tick().await;
        let Some(newest) = locked(&book).writes.last().copied() else { continue };
        let name = key(newest.writer, newest.number);
        let answer: Result<Option<u64>, _> = caller.call(redis::cmd("GET").arg(&name)).await;
        let mut book = locked(&book);
        match answer {
            Ok(Some(value)) if value == newest.number => book.reads += 1,
            Ok(_) => book.unseen.push((newest.writer, newest.number)),
            Err(why) => book.failed(None, &why),
        }
        if class == Class::Short {
            caller.hang_up();
        }
    }
}

/// Those of the writes that are stored.
async fn stored_keys(entrance: &Entrance, keys: &[(usize, u64)]) -> HashSet<(usize, u64)> {
    let look = || async {
        let mut caller = Caller::new(entrance.clone());
        let mut stored = HashSet::new();
        for page in keys.chunks(PAGE) {
            let names: Vec<String> = page.iter().map(|(writer, number)| key(*writer, *number)).collect();
            let values: Vec<Option<u64>> = caller.call(redis::cmd("MGET").arg(&names)).await?;
            let there = page.iter().zip(values).filter(|((_, number), value)| *value == Some(*number));
            stored.extend(there.map(|(write, _)| *write));
        }
        Ok::<_, String>(stored)
    };
    wait_within(WAIT_TIMEOUT, "a read of everything", look, Result::is_ok).await.expect("just read")
}
