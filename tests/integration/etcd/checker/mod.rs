//! Clients that write and read all the time while a cluster changes, and know in the end whether it kept its promises.
//!
//! Every write has a key of its own, and a number that is one higher than its writer's last. So the checker notices
//! when an acknowledged write is missing later, and when a read is too old. A write of unknown outcome is no problem.

mod book;
mod client;
pub mod mixed;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use etcd_client::{GetOptions, KeyValue, ResponseHeader, SortOrder, SortTarget};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::WAIT_TIMEOUT;
use crate::support::wait::wait_within;
use crate::support::{Scene, wait_for};
use crate::traffic::load::spread;
use book::{Acknowledged, Book, Gap, Header, gaps, key, prefix, value};
pub use client::{Failover, Way};

/// Clients that write: one through the Service, the others through the members.
const WRITERS: usize = 4;
const READERS: usize = 2;
/// Between two writes of a writer.
const PAUSE: Duration = Duration::from_millis(80);
/// Between two reads of a reader.
const READ_PAUSE: Duration = Duration::from_millis(200);
/// So many of a writer's newest writes are read at once.
const LATEST: usize = 50;
/// So many keys are read at once in the end.
const PAGE: i64 = 2000;
/// Gaps longer than this are listed.
const LONG: Duration = Duration::from_secs(1);

/// Clients at work. They stop when this is dropped, too.
pub struct Checker {
    book: Arc<Mutex<Book>>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    begun: Instant,
}

/// The outcome of all writes.
pub struct Report {
    /// The longest time in which no client's write was acknowledged.
    pub longest_gap: Duration,
    /// Acknowledged writes.
    pub written: usize,
    /// Those of them that are gone.
    pub lost: usize,
}

impl Checker {
    /// Starts clients; each has had a write acknowledged when this returns.
    pub async fn start(scene: &Scene) -> Self {
        let book = Arc::new(Mutex::new(Book::new(WRITERS)));
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        for number in 0..WRITERS {
            let client = Failover::new(scene, if number == 0 { Way::Service } else { Way::Members }, number);
            tasks.spawn(write(number, client, book.clone(), stop.clone()));
        }
        for number in 0..READERS {
            let client = Failover::new(scene, if number == 0 { Way::Service } else { Way::Members }, number);
            tasks.spawn(read(client, book.clone(), stop.clone()));
        }
        let checker = Self { book, stop, tasks, begun: Instant::now() };
        checker.goes_on("the first writes").await;
        checker
    }

    /// Waits until every client has had a write acknowledged that began after this call.
    pub async fn goes_on(&self, what: &str) {
        let now = Instant::now();
        let look = || async {
            let book = locked(&self.book);
            let later = book.writes.iter().rev().filter(|(_, write)| write.sent > now);
            let mut served: Vec<usize> = later.map(|(writer, _)| *writer).collect();
            served.sort_unstable();
            served.dedup();
            served
        };
        wait_for(&format!("{what}: writes of all clients"), look, |served| served.len() == WRITERS).await;
    }

    /// When writes were acknowledged since then, in that order.
    pub fn acknowledged_since(&self, moment: Instant) -> Vec<Instant> {
        locked(&self.book).writes.iter().map(|(_, write)| write.at).filter(|at| *at > moment).collect()
    }

    /// Waits for so many further writes.
    pub async fn writes(&self, count: usize) {
        let before = locked(&self.book).count();
        let look = || async { locked(&self.book).count() - before };
        wait_for(&format!("{count} further writes"), look, |written| *written >= count).await;
    }

    /// Call this while the cluster answers no client: it will be a new one when it answers again.
    pub fn expect_new_cluster(&self) {
        locked(&self.book).expect_new_cluster();
    }

    /// Ends the clients, compares all that they know with what is stored, prints the result, and panics if a promise
    /// was broken.
    pub async fn finish(mut self, scene: &Scene, what: &str) -> Report {
        let end = Instant::now();
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a client never panics");
        }
        let (stored, header) = everything(scene).await;
        let mut book = locked(&self.book);
        let effective = book.audit(&stored, header);
        let report = print(what, &book, effective, self.begun, end);
        let broken = &book.broken;
        assert!(broken.is_empty(), "{what}: {} promises broken:\n{}", broken.len(), first(broken));
        report
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

fn first(lines: &[String]) -> String {
    lines.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n")
}

async fn write(writer: usize, mut client: Failover, book: Arc<Mutex<Book>>, stop: CancellationToken) {
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.is_cancelled() {
        ticks.tick().await;
        let (number, floor) = {
            let mut book = locked(&book);
            (book.begin(writer), book.floor(writer))
        };
        let sent = Instant::now();
        let answer = client
            .call(async |client| client.put(key(writer, number), value(writer, number), None).await)
            .await
            .and_then(|answer| header_of(answer.header()));
        let mut book = locked(&book);
        match answer {
            Ok(header) => {
                book.acknowledged(writer, number, floor, header, Acknowledged { sent, at: Instant::now() });
            }
            Err(why) => book.note_unknown(writer, number, &why),
        }
    }
}

async fn read(mut client: Failover, book: Arc<Mutex<Book>>, stop: CancellationToken) {
    let mut ticks = interval(READ_PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for writer in (0..WRITERS).cycle() {
        if stop.is_cancelled() {
            return;
        }
        ticks.tick().await;
        let floor = locked(&book).floor(writer);
        let newest = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Key, SortOrder::Descend)
            .with_limit(LATEST.try_into().expect("a small number"));
        // Linearizable, as reads are unless asked otherwise.
        let answer = client.call(async |client| client.get(prefix(writer), Some(newest)).await).await;
        let answer = answer.and_then(|answer| Ok((header_of(answer.header())?, pairs(answer.kvs()))));
        let mut book = locked(&book);
        match answer {
            Ok((header, seen)) => book.read(writer, floor, LATEST, &seen, header),
            Err(why) => book.unread(&why),
        }
    }
}

fn header_of(header: Option<&ResponseHeader>) -> Result<Header, String> {
    let header = header.ok_or("an answer without a header")?;
    Ok(Header { cluster: header.cluster_id(), revision: header.revision() })
}

fn pairs(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    pairs.iter().map(|pair| (text(pair.key()), text(pair.value()))).collect()
}

/// Everything that clients wrote and that is stored.
async fn everything(scene: &Scene) -> (BTreeMap<String, String>, Header) {
    let look = || async { whole(scene).await };
    wait_within(WAIT_TIMEOUT, "a read of everything", look, Result::is_ok).await.expect("just read")
}

async fn whole(scene: &Scene) -> Result<(BTreeMap<String, String>, Header), String> {
    let mut client = Failover::new(scene, Way::Members, 0);
    let mut stored = BTreeMap::new();
    let mut from = b"check/".to_vec();
    loop {
        // Up to the next prefix: "0" follows "/".
        let page = GetOptions::new().with_range("check0").with_limit(PAGE);
        let answer = client.call(async |client| client.get(from.clone(), Some(page)).await).await?;
        stored.extend(pairs(answer.kvs()));
        let header = header_of(answer.header())?;
        match answer.kvs().last().filter(|_| answer.more()) {
            None => return Ok((stored, header)),
            Some(last) => {
                from = last.key().to_vec();
                from.push(0);
            }
        }
    }
}

fn print(what: &str, book: &Book, effective: usize, begun: Instant, end: Instant) -> Report {
    let took = (end - begun).as_secs_f64();
    let lost = book.broken.iter().filter(|broken| broken.ends_with("is lost")).count();
    println!(
        "» {what}: {} writes acknowledged in {took:.1} s, {lost} lost; {} of unknown outcome, {effective} of them \
         took effect; {} reads",
        book.count(),
        book.unknowns(),
        book.reads,
    );
    let of = |writer: Option<usize>| -> Vec<Instant> {
        let chosen = book.writes.iter().filter(|(it, _)| writer.is_none_or(|writer| writer == *it));
        chosen.map(|(_, write)| write.at).collect()
    };
    let all = gaps(begun, &of(None), end);
    println!("»   between acknowledged writes: {}", spread(all.iter().map(|gap| gap.span).collect()));
    println!("»   one write: {}", spread(book.writes.iter().map(|(_, write)| write.at - write.sent).collect()));
    let longest = |gaps: &[Gap]| gaps.iter().map(|gap| gap.span).max().unwrap_or_default();
    let alone: Vec<String> = (0..WRITERS)
        .map(|writer| format!("{:.1} s", longest(&gaps(begun, &of(Some(writer)), end)).as_secs_f64()))
        .collect();
    println!("»   longest gap of each client, the first through the Service: {}", alone.join(", "));
    let long: Vec<String> = all
        .iter()
        .filter(|gap| gap.span > LONG)
        .map(|gap| format!("{:.1} s after {:.1} s", gap.span.as_secs_f64(), gap.after.as_secs_f64()))
        .collect();
    println!("»   gaps over 1 s: {}", if long.is_empty() { "none".to_owned() } else { long.join(", ") });
    for (error, count) in &book.errors {
        println!("    {count:5} {error}");
    }
    Report { longest_gap: longest(&all), written: book.count(), lost }
}
