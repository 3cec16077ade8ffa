//! One call of S3 with a deadline, and more tries of it while its error is transient.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use backon::{BackoffBuilder, ExponentialBuilder};

use super::StoreError;

/// Deadline of calls that carry no data of the backup.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Tries of one call after the first one. With the pauses between them they last about a minute.
const RETRIES: usize = 9;

/// The pauses between tries.
pub fn pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(200))
        .with_max_delay(Duration::from_secs(10))
        .with_max_times(RETRIES)
        .with_jitter()
        .build()
}

/// Makes a call once.
pub fn once<T, E>(
    operation: &'static str,
    deadline: Duration,
    sent: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
) -> impl Future<Output = Result<T, StoreError>>
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    // The SDK's futures hold the whole request: on the heap they do not enlarge the futures that await them.
    let sent = Box::pin(sent);
    async move {
        match tokio::time::timeout(deadline, sent).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(StoreError::new(operation, &error)),
            Err(_) => Err(StoreError::overdue(operation, deadline.as_secs())),
        }
    }
}

/// Makes a call that may be made twice, until it succeeds or its error is not transient.
pub async fn again<T, E, F>(
    operation: &'static str,
    deadline: Duration,
    mut send: impl FnMut() -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let mut pauses = pauses();
    loop {
        let error = match once(operation, deadline, send()).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        pause(&mut pauses, error).await?;
    }
}

/// Waits before another try, or returns the error if there is none.
pub async fn pause(pauses: &mut impl Iterator<Item = Duration>, error: StoreError) -> Result<(), StoreError> {
    match pauses.next().filter(|_| error.passes()) {
        Some(pause) => {
            tracing::warn!(operation = error.operation, %error, again_ms = pause.as_millis(), "S3 call failed");
            tokio::time::sleep(pause).await;
            Ok(())
        }
        None => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Trouble;

    #[tokio::test(start_paused = true)]
    async fn tries_end_within_two_minutes() {
        let begun = tokio::time::Instant::now();
        let mut pauses = pauses();
        let mut tries = 1;
        while pause(&mut pauses, StoreError::overdue("PutObject", 1)).await.is_ok() {
            tries += 1;
        }
        assert_eq!(tries, RETRIES + 1);
        assert!(begun.elapsed() < Duration::from_mins(2), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_pass_is_not_tried_again() {
        let denied = StoreError { trouble: Trouble::Denied, ..StoreError::overdue("PutObject", 1) };
        assert!(pause(&mut pauses(), denied).await.is_err());
    }
}
