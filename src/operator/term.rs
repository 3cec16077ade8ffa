//! One term as the leader: the controllers, in a runtime of their own.
//!
//! However busy the controllers are, they never delay renewals of the lease: those run on another thread, in another
//! runtime, with a higher priority. When the lease is lost, the runtime ends with every task and every connection in
//! it. The process can then stand by for the next term instead of exiting.
//!
//! A look-up of a name blocks a thread of its own, and nothing can interrupt it: where the network is cut, it may take
//! longer than the lease. It changes nothing, so the end of a term waits only for the threads that run tasks, the workers.

use std::cell::Cell;
use std::io;
use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{debug, error};

/// The most threads of a term. Controllers wait more than they compute. Each thread has a heap of its own, so more of
/// them on a node with many cores would exceed the pod's memory limit.
const THREADS: usize = 4;
/// Lowers the priority of the controllers' threads below that of the thread that renews the lease. Between containers,
/// CPU requests share the processor; this value only matters among the threads of our own.
/// <https://docs.kernel.org/scheduler/sched-nice-design.html>
const NICE: i32 = 5;
/// The longest wait for the runtime to end. Tasks end at their next await point, usually within milliseconds.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Running controllers. Dropping it ends them too, but does not wait for that.
pub struct Term {
    runtime: Option<Runtime>,
    workers: Workers,
    work: JoinHandle<()>,
}

/// Some work of a term did not end. Only the end of the process ends it.
#[derive(Debug, PartialEq, Eq)]
pub struct Undead;

thread_local! {
    /// True if this thread is a worker.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// The workers of a runtime: the threads that run its tasks. Clones share the same state.
#[derive(Clone, Debug)]
struct Workers {
    count: usize,
    seen: watch::Sender<Seen>,
}

/// The numbers of workers that have begun, and that have ended.
#[derive(Debug, Default)]
struct Seen {
    begun: usize,
    ended: usize,
}

impl Workers {
    fn new(count: usize) -> Self {
        Self { count, seen: watch::Sender::default() }
    }

    /// Counts a thread of the runtime that begins. The first ones are the workers: see [`Self::all_begun`].
    fn begins(&self) {
        self.seen.send_if_modified(|seen| {
            let is_worker = seen.begun < self.count;
            IS_WORKER.set(is_worker);
            seen.begun += usize::from(is_worker);
            is_worker
        });
    }

    /// Counts a thread of the runtime that ends. Every task that it ran has ended.
    fn ends(&self) {
        if IS_WORKER.get() {
            self.seen.send_modify(|seen| seen.ended += 1);
        }
    }

    /// Waits for the last worker to begin. A thread that blocks only after that does not count as a worker.
    async fn all_begun(&self) {
        self.wait_until(|seen| seen.begun == self.count).await;
    }

    /// Waits for the last worker to end.
    async fn all_ended(&self) {
        self.wait_until(|seen| seen.ended == self.count).await;
    }

    async fn wait_until(&self, so: impl Fn(&Seen) -> bool) {
        let mut seen = self.seen.subscribe();
        // `self` has the sender, so the channel is open.
        let _ = seen.wait_for(so).await;
    }
}

impl Term {
    /// Starts `work`, with everything that it spawns, in a runtime of its own.
    pub fn begin(work: impl Future<Output = ()> + Send + 'static) -> io::Result<Self> {
        let workers = Workers::new(available_parallelism().map_or(1, NonZero::get).min(THREADS));
        let (beginning, ending, begun) = (workers.clone(), workers.clone(), workers.clone());
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .worker_threads(workers.count)
            .thread_name("controllers")
            .on_thread_start(move || {
                if let Err(problem) = rustix::process::nice(NICE) {
                    debug!(%problem, "a thread of the controllers has the priority of all others");
                }
                // Last, so that no pause comes between it and the thread's first task: see `Workers::all_begun`.
                beginning.begins();
            })
            .on_thread_stop(move || ending.ends())
            .build()?;
        let work = runtime.spawn(async move {
            begun.all_begun().await;
            work.await;
        });
        Ok(Self { runtime: Some(runtime), workers, work })
    }

    /// Waits until the work is done. A panic in it is logged.
    pub async fn wait_done(&mut self) {
        if let Err(problem) = (&mut self.work).await {
            error!(%problem, "the controllers died");
        }
    }

    /// Ends everything that was started, and waits until it has ended, but for look-ups of names.
    pub async fn end(mut self) -> Result<(), Undead> {
        let Some(runtime) = self.runtime.take() else { return Ok(()) };
        runtime.shutdown_background();
        timeout(SHUTDOWN_TIMEOUT, self.workers.all_ended()).await.map_err(|_| Undead)
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::time::{sleep, timeout};

    use super::*;

    /// Counts for ever, in a task of its own.
    fn count_for_ever(counter: &Arc<AtomicU64>) -> impl Future<Output = ()> + Send + 'static {
        let counter = counter.clone();
        async move {
            let counts = async move {
                loop {
                    counter.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            };
            drop(tokio::spawn(counts));
            std::future::pending::<()>().await;
        }
    }

    #[tokio::test]
    async fn nothing_of_a_term_goes_on_after_its_end() {
        let counter = Arc::new(AtomicU64::new(0));
        let term = Term::begin(count_for_ever(&counter)).unwrap();
        while counter.load(Ordering::SeqCst) < 1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(term.end().await, Ok(()));
        assert_eq!(Arc::strong_count(&counter), 1, "something of it is still there");
    }

    #[tokio::test]
    async fn a_term_that_cannot_be_ended_is_reported() {
        let (hang, hangs) = std::sync::mpsc::channel::<()>();
        let (start, started) = tokio::sync::oneshot::channel();
        let term = Term::begin(async move {
            start.send(()).unwrap();
            let _ = hangs.recv();
        })
        .unwrap();
        started.await.unwrap();
        assert_eq!(term.end().await, Err(Undead));
        drop(hang);
    }

    #[tokio::test]
    async fn a_look_up_that_blocks_does_not_delay_the_end() {
        let (hang, hangs) = std::sync::mpsc::channel::<()>();
        let (start, started) = tokio::sync::oneshot::channel();
        let term = Term::begin(async move {
            // As `getaddrinfo` does in the clients, where no name server answers.
            let looks_up = tokio::task::spawn_blocking(move || {
                start.send(()).unwrap();
                let _ = hangs.recv();
            });
            looks_up.await.unwrap();
        })
        .unwrap();
        started.await.unwrap();
        assert_eq!(term.end().await, Ok(()));
        drop(hang);
    }

    #[tokio::test]
    async fn a_term_that_ends_as_it_begins_ends() {
        assert_eq!(Term::begin(std::future::pending()).unwrap().end().await, Ok(()));
    }

    /// The lease is renewed on a thread of its own, where a timer fires in time even if tasks of the controllers never
    /// yield.
    #[tokio::test]
    async fn renewals_wait_for_no_controller() {
        let counter = Arc::new(AtomicU64::new(0));
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let is_done = Arc::new(std::sync::Mutex::new(is_done));
        let busy = {
            let (counter, is_done) = (counter.clone(), is_done.clone());
            async move {
                for _ in 0..64 {
                    let (counter, is_done) = (counter.clone(), is_done.clone());
                    tokio::spawn(async move {
                        while is_done.lock().unwrap().try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                            counter.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
            }
        };
        let term = Term::begin(busy).unwrap();
        let slept = timeout(Duration::from_secs(10), sleep(Duration::from_millis(50))).await;
        assert!(slept.is_ok());
        drop(done);
        assert_eq!(term.end().await, Ok(()));
    }
}
