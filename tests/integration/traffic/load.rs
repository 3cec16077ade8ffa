//! Clients that send requests all the time, and what became of each request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ureq::Agent;

use super::entrance::Entrance;
use crate::support::wait_for;

/// Clients at once: every other one keeps its connection, the rest make a new one for each request.
const CLIENTS: u32 = 8;
/// Requests per second of all clients together.
const RATE: u32 = 200;
/// A request without an answer has failed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Clients that the test did not stop end by themselves, after all that a test may wait for.
const LONGEST: Duration = Duration::from_mins(40);

/// The answer that a client got, or why it got none.
pub type Outcome = Result<Answer, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub code: u16,
    /// The first word of the body: what answered.
    pub word: String,
    /// The second word: which pod, where one answered.
    pub pod: String,
    /// The third word: what the balancer spoke to it, `http` or `https`.
    pub scheme: String,
}

/// A request and what became of it.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The path that was asked for.
    pub path: &'static str,
    /// True if the client keeps its connection: then an earlier request may have used it.
    pub kept: bool,
    /// When it was sent.
    pub sent: Instant,
    /// When it was answered, or failed.
    pub over: Instant,
    /// How it ended.
    pub outcome: Outcome,
}

impl Exchange {
    /// Reports whether there was no answer, or one that says that no server could answer.
    pub fn failed(&self) -> bool {
        self.outcome.as_ref().map_or(true, |answer| answer.code >= 500)
    }

    /// In a few words.
    pub fn describe(&self) -> String {
        match &self.outcome {
            Ok(answer) => format!("{} {}", answer.code, answer.word),
            Err(error) => error.clone(),
        }
    }
}

/// Clients at work. They stop when this is dropped, too.
pub struct Load {
    entrance: Arc<RwLock<Entrance>>,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
    begun: Instant,
}

impl Load {
    /// Starts clients that ask for these paths in turn.
    pub fn start(entrance: &Entrance, paths: &'static [&'static str]) -> Self {
        let entrance = Arc::new(RwLock::new(entrance.clone()));
        let (exchanges, stop) = (Arc::<Mutex<Vec<Exchange>>>::default(), Arc::<AtomicBool>::default());
        let clients = (0..CLIENTS).map(|number| {
            let (entrance, exchanges, stop) = (entrance.clone(), exchanges.clone(), stop.clone());
            let client = Client { number, paths, entrance, exchanges, stop };
            std::thread::spawn(move || client.work())
        });
        Self { clients: clients.collect(), entrance, exchanges, stop, begun: Instant::now() }
    }

    /// Waits until the requests that are sent from now on are as `good` says.
    pub async fn wait_until(&self, what: &str, good: impl Fn(&[Exchange]) -> bool) {
        let now = Instant::now();
        let look = || async {
            let exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
            exchanges.iter().filter(|exchange| exchange.sent > now).cloned().collect::<Vec<_>>()
        };
        wait_for(what, look, |exchanges| good(exchanges)).await;
    }

    /// From now on requests go to this entrance.
    pub fn go_to(&self, entrance: &Entrance) {
        entrance.clone_into(&mut self.entrance.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Ends the clients; returns what became of all requests, in the order in which they were sent.
    pub fn stop(mut self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.join().expect("a client never panics");
        }
        let mut exchanges = std::mem::take(&mut *self.exchanges.lock().unwrap_or_else(PoisonError::into_inner));
        exchanges.sort_by_key(|exchange| exchange.sent);
        Record { exchanges, begun: self.begun }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Client {
    number: u32,
    paths: &'static [&'static str],
    entrance: Arc<RwLock<Entrance>>,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
    stop: Arc<AtomicBool>,
}

impl Client {
    fn work(self) {
        let begun = Instant::now();
        let pause = Duration::from_secs(1) * CLIENTS / RATE;
        let kept = self.number.is_multiple_of(2);
        let agent = agent(kept);
        let mut next = begun + pause * self.number / CLIENTS;
        // Each client begins with another path.
        for path in self.paths.iter().cycle().skip(self.number as usize) {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            if self.stop.load(Ordering::Relaxed) || begun.elapsed() > LONGEST {
                break;
            }
            let sent = Instant::now();
            let outcome = self.ask(&agent, kept, path);
            let exchange = Exchange { path, kept, sent, over: Instant::now(), outcome };
            self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
            // A client that waited long for an answer does not make up for it by a burst.
            next = Instant::max(next + pause, sent);
        }
    }

    fn ask(&self, agent: &Agent, kept: bool, path: &str) -> Outcome {
        let Entrance { address, host } = self.entrance.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut request = agent.get(format!("http://{address}{path}")).header("Host", host);
        if !kept {
            request = request.header("Connection", "close");
        }
        let mut answer = request.call().map_err(|error| error.to_string())?;
        let text = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
        let mut words = text.split_whitespace().map(str::to_owned);
        let mut word = || words.next().unwrap_or_default();
        Ok(Answer { code: answer.status().as_u16(), word: word(), pod: word(), scheme: word() })
    }
}

fn agent(kept: bool) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .proxy(None)
        .max_redirects(0)
        .timeout_global(Some(ANSWER_TIMEOUT))
        .max_idle_connections(usize::from(kept))
        .max_idle_connections_per_host(usize::from(kept))
        // Shorter than the balancer's own limit: no request is to meet a connection that is being closed.
        .max_idle_age(Duration::from_secs(1))
        .build()
        .new_agent()
}

/// The outcome of all requests.
pub struct Record {
    /// The requests, in the order in which they were sent.
    pub exchanges: Vec<Exchange>,
    begun: Instant,
}

impl Record {
    /// Those that failed.
    pub fn failures(&self) -> Vec<&Exchange> {
        self.exchanges.iter().filter(|exchange| exchange.failed()).collect()
    }

    /// Panics with the first failures if there are any.
    pub fn assert_no_failures(&self) {
        let failures = self.failures();
        assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), self.listed(&failures));
    }

    /// Requests with their times, the first of them in words.
    pub fn listed(&self, exchanges: &[&Exchange]) -> String {
        let line = |exchange: &&Exchange| {
            let kind = if exchange.kept { "kept" } else { "new" };
            let (at, took) = (exchange.sent - self.begun, exchange.over - exchange.sent);
            let message = exchange.describe();
            format!("  {:8.3} s  {:5} ms  {kind:4}  {}  {message}\n", at.as_secs_f64(), took.as_millis(), exchange.path)
        };
        exchanges.iter().take(20).map(line).collect()
    }

    /// Prints counts, times and who answered.
    pub fn print(&self, what: &str) {
        let count = self.exchanges.len();
        let seconds = self.exchanges.last().map_or(0.0, |last| (last.over - self.begun).as_secs_f64());
        println!("» {what}: {count} requests in {seconds:.1} s, {} failed", self.failures().len());
        for (kind, kept) in [("kept connections", true), ("new connections", false)] {
            let of_kind = self.exchanges.iter().filter(|it| it.kept == kept);
            let took: Vec<Duration> = of_kind.map(|it| it.over - it.sent).collect();
            println!("»   {:6} on {kind:16}  {}", took.len(), spread(took));
        }
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for exchange in &self.exchanges {
            *counts.entry(exchange.describe()).or_default() += 1;
        }
        for (answer, count) in counts {
            println!("»   {count:6} {answer}");
        }
        let failures = self.failures();
        if !failures.is_empty() {
            print!("{}", self.listed(&failures));
        }
    }
}

/// The median, the 99th percentile and the longest, in words.
pub fn spread(mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    let at = |percent: usize| took.get((took.len() * percent / 100).min(took.len().saturating_sub(1)));
    let millis = |percent| at(percent).map_or(0.0, |took| took.as_secs_f64() * 1000.0);
    format!("p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms", millis(50), millis(99), millis(100))
}
