//! Reads whose answer many objects wait for. One is under way at a time, and all of them share its failure. For a while
//! after a failure no object asks again. Otherwise each object in turn would wait for an answer that does not come.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use causeway_aws::aws::AwsError;
use causeway_runtime::Class;
use causeway_runtime::tenant::for_everybody;

use crate::ownership::Concerned;

/// After a failure no object asks again for this long. The pause doubles with each failure in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Errors that only a person can fix are tried again twice a minute.
const LASTING_PAUSE: Duration = Duration::from_secs(30);
/// A failure that no object asked about again for this long is forgotten: the objects that got it are gone, or ask for
/// something else. It is longer than any object waits before it tries again.
const UNASKED: Duration = Duration::from_mins(15);
/// At most so many objects are woken after a failure. Others try again by themselves.
const WOKEN: usize = 5_000;

/// A read that is made once for all that want it.
#[derive(Debug, Default)]
pub struct SharedRead {
    /// Held by the object that reads. The mutex is fair.
    reading: tokio::sync::Mutex<()>,
    failure: Mutex<Option<Failure>>,
}

#[derive(Debug)]
struct Failure {
    error: AwsError,
    pause: Duration,
    until: Instant,
    /// The objects that got this error. They are woken when a read succeeds.
    held_up: BTreeSet<Concerned>,
}

impl SharedRead {
    /// Returns what is known, or what `read` finds, and the objects that an earlier failure held up.
    pub async fn get<T>(
        &self,
        whom: &Concerned,
        known: impl Fn() -> Option<T>,
        read: impl Future<Output = Result<T, AwsError>>,
    ) -> Result<(T, BTreeSet<Concerned>), AwsError> {
        if let Some(known) = known() {
            return Ok((known, BTreeSet::new()));
        }
        self.not_failed_lately(whom)?;
        let _reading = self.reading.lock().await;
        // While this object waited, another one may have read, or failed to.
        if let Some(known) = known() {
            return Ok((known, BTreeSet::new()));
        }
        self.not_failed_lately(whom)?;
        match for_everybody(read).await {
            Ok(found) => {
                let held_up = self.failure().take().map(|failure| failure.held_up).unwrap_or_default();
                Ok((found, held_up))
            }
            Err(error) => {
                let mut failure = self.failure();
                let (pause, mut held_up) = failure
                    .take()
                    .map_or((FIRST_PAUSE, BTreeSet::new()), |it| ((it.pause * 2).min(LONGEST_PAUSE), it.held_up));
                let lasts = matches!(error.class, Class::Denied | Class::Invalid);
                let pause = if lasts { LASTING_PAUSE } else { pause };
                hold_up(&mut held_up, whom);
                *failure = Some(Failure { error: error.clone(), pause, until: Instant::now() + pause, held_up });
                Err(error)
            }
        }
    }

    /// Reports whether an object waits for it, or got its error lately.
    pub fn matters(&self) -> bool {
        let failed_lately = |failure: &Failure| failure.until + UNASKED > Instant::now();
        self.failure().as_ref().is_some_and(failed_lately) || self.reading.try_lock().is_err()
    }

    fn not_failed_lately(&self, whom: &Concerned) -> Result<(), AwsError> {
        match self.failure().as_mut().filter(|failure| failure.until > Instant::now()) {
            Some(failure) => {
                hold_up(&mut failure.held_up, whom);
                Err(failure.error.clone())
            }
            None => Ok(()),
        }
    }

    fn failure(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failure.lock()
    }
}

fn hold_up(held_up: &mut BTreeSet<Concerned>, whom: &Concerned) {
    if held_up.len() < WOKEN {
        held_up.insert(whom.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use tokio::time::{advance, sleep};

    const SLOWLY: Duration = Duration::from_secs(10);

    fn object(number: usize) -> Concerned {
        Concerned::Object(("shop".into(), format!("app-{number}")))
    }

    /// A read that takes long, and how often it was made.
    #[derive(Default)]
    struct Source {
        reads: AtomicUsize,
        known: Mutex<Option<u32>>,
    }

    impl Source {
        async fn read(&self, succeeds: bool) -> Result<u32, AwsError> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            sleep(SLOWLY).await;
            if !succeeds {
                return Err(AwsError::stale("DescribeSecurityGroups", "too late".into()));
            }
            *self.known.lock() = Some(7);
            Ok(7)
        }

        fn reads(&self) -> usize {
            self.reads.load(Ordering::Relaxed)
        }
    }

    async fn all(shared: &SharedRead, source: &Source, succeeds: bool) -> Vec<Result<u32, String>> {
        let known = || *source.known.lock();
        let get = |number: usize| async move {
            let got = shared.get(&object(number), known, source.read(succeeds)).await;
            got.map(|(found, _)| found).map_err(|error| error.to_string())
        };
        join_all((0..300).map(get)).await
    }

    #[tokio::test(start_paused = true)]
    async fn one_read_serves_all_who_wait() {
        let (shared, source) = (SharedRead::default(), Source::default());
        let begun = Instant::now();
        let got = all(&shared, &source, true).await;
        assert!(got.iter().all(|it| *it == Ok(7)));
        assert_eq!((source.reads(), begun.elapsed()), (1, SLOWLY));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lasting_failure_is_retried_twice_a_minute() {
        let shared = SharedRead::default();
        let mut asked = 0;
        for _ in 0..60 {
            let denied = async {
                asked += 1;
                let mut error = AwsError::stale("DescribeSecurityGroups", "not authorized".into());
                error.class = Class::Denied;
                Err(error)
            };
            assert!(shared.get::<()>(&object(0), || None, denied).await.is_err());
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(asked, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn all_waiting_objects_share_a_failure() {
        let (shared, source) = (SharedRead::default(), Source::default());
        let begun = Instant::now();
        let got = all(&shared, &source, false).await;
        assert!(got.iter().all(Result::is_err));
        assert_eq!((source.reads(), begun.elapsed()), (1, SLOWLY));
        let got = all(&shared, &source, false).await;
        assert!(got.iter().all(Result::is_err));
        assert_eq!((source.reads(), begun.elapsed()), (1, SLOWLY), "within the pause no object asks");
        advance(FIRST_PAUSE).await;
        all(&shared, &source, false).await;
        assert_eq!(source.reads(), 2);
        advance(FIRST_PAUSE).await;
        all(&shared, &source, false).await;
        assert_eq!(source.reads(), 2, "the pause is longer the second time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_up_object_is_woken_by_the_next_success() {
        let (shared, source) = (SharedRead::default(), Source::default());
        all(&shared, &source, false).await;
        advance(FIRST_PAUSE).await;
        let (_, held_up) = shared.get(&object(1), || None, source.read(true)).await.unwrap();
        assert_eq!(held_up.len(), 300);
        assert!(!shared.matters());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_forgotten_once_no_object_asks_again() {
        let (shared, source) = (SharedRead::default(), Source::default());
        all(&shared, &source, false).await;
        advance(UNASKED).await;
        assert!(shared.matters(), "an object may still try again");
        advance(FIRST_PAUSE).await;
        assert!(!shared.matters());
    }

    #[tokio::test(start_paused = true)]
    async fn the_list_of_held_up_objects_is_bounded() {
        let shared = SharedRead::default();
        for number in 0..WOKEN + 10 {
            let fails = async { Err(AwsError::stale("DescribeSubnets", "no such subnet".into())) };
            assert!(shared.get::<()>(&object(number), || None, fails).await.is_err());
        }
        assert_eq!(shared.failure().as_ref().unwrap().held_up.len(), WOKEN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_reader_leaves_the_read_to_the_next() {
        let (shared, source) = (SharedRead::default(), Source::default());
        let known = || *source.known.lock();
        let (first, second) = (object(1), object(2));
        let gives_up = tokio::time::timeout(SLOWLY / 2, shared.get(&first, known, source.read(true)));
        let (abandoned, got) = tokio::join!(gives_up, shared.get(&second, known, source.read(true)));
        assert!(abandoned.is_err());
        assert_eq!(got.unwrap().0, 7);
    }
}
