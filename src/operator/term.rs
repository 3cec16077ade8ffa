//! One term as the leader: the controllers, in a runtime of their own.
//!
//! However busy they are, renewals of the lease wait for none of them: those run on another thread, in another runtime, and
//! with more right to the processor. And when the lease is lost the runtime ends with all that is in it, every task and every
//! connection, so that the process can stand by for the next term instead of ending itself.

use std::io;
use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;
use tracing::{debug, error};

/// Threads of a term at most. Controllers wait more than they compute, and each thread has a heap of its own: a node with
/// many cores would need more memory than the pod's limit.
const THREADS: usize = 4;
/// How much the controllers' threads give way to the one that renews the lease. Containers share the processor by their
/// requests; this is about the threads within ours.
/// <https://docs.kernel.org/scheduler/sched-nice-design.html>
const NICE: i32 = 5;
/// Whatever runs ends at its next pause, within milliseconds.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Controllers at work. Dropped, they end too, but nobody waits for that.
pub struct Term {
    runtime: Option<Runtime>,
    work: JoinHandle<()>,
}

/// Something of a term goes on after its end: only the end of the process ends that.
#[derive(Debug, PartialEq, Eq)]
pub struct Undead;

impl Term {
    /// Begins `work`, with whatever it spawns, in a runtime of its own.
    pub fn begin(work: impl Future<Output = ()> + Send + 'static) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .worker_threads(available_parallelism().map_or(1, NonZero::get).min(THREADS))
            .thread_name("controllers")
            .on_thread_start(|| {
                if let Err(problem) = rustix::process::nice(NICE) {
                    debug!(%problem, "a thread of the controllers has the priority of all others");
                }
            })
            .build()?;
        let work = runtime.spawn(work);
        Ok(Self { runtime: Some(runtime), work })
    }

    /// Waits until the work is done; that it panicked is in the log.
    pub async fn done(&mut self) {
        if let Err(problem) = (&mut self.work).await {
            error!(%problem, "the controllers died");
        }
    }

    /// Ends everything that was begun, and waits until it has ended.
    pub async fn end(mut self) -> Result<(), Undead> {
        let Some(runtime) = self.runtime.take() else { return Ok(()) };
        let begun = Instant::now();
        let ended = spawn_blocking(move || runtime.shutdown_timeout(SHUTDOWN_TIMEOUT)).await;
        if ended.is_ok() && begun.elapsed() < SHUTDOWN_TIMEOUT { Ok(()) } else { Err(Undead) }
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
    fn counting(counter: &Arc<AtomicU64>) -> impl Future<Output = ()> + Send + 'static {
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
        let term = Term::begin(counting(&counter)).unwrap();
        while counter.load(Ordering::SeqCst) < 1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(term.end().await, Ok(()));
        assert_eq!(Arc::strong_count(&counter), 1, "something of it is still there");
    }

    #[tokio::test]
    async fn what_cannot_be_ended_is_told() {
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

    /// On one thread of its own, a timer fires in time however many tasks of the controllers never pause.
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
