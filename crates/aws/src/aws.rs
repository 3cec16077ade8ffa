//! Shares the treatment of all calls to AWS: they are counted and logged with AWS's request id, their errors are
//! classified, and changes are fenced by the leader lease.

use std::error::Error;
use std::future::Future;
use std::time::{Duration, Instant};

use aws_config::timeout::TimeoutConfig;
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_elasticloadbalancingv2::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_elasticloadbalancingv2::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_elasticloadbalancingv2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_elasticloadbalancingv2::operation::RequestId;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, Metadata};

use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;
use causeway_runtime::{Class, causes};

use super::budget::Budget;
use super::denial;
use super::signing::{self, Unsigned, first_line};

/// A failed call to AWS.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{operation}: {}", self.text())]
pub struct AwsError {
    /// The API's name for the call.
    pub operation: &'static str,
    /// The service's prefix in IAM actions.
    pub service: &'static str,
    /// AWS's error code; `None` when no answer came.
    pub code: Option<String>,
    /// AWS's message without the parts that differ in every call, or what happened to the connection.
    pub message: String,
    /// The class, which decides how the error is dealt with.
    pub class: Class,
    /// True if the call may have had its effect although no success was reported.
    pub ambiguous: bool,
}

impl AwsError {
    /// The error of a call. `class_of` knows the service's own codes; the general ones are known here.
    fn new<E>(
        service: &'static str,
        operation: &'static str,
        error: &SdkError<E, HttpResponse>,
        class_of: fn(&str) -> Option<Class>,
    ) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        if let Some(cause) = causes(error).find_map(|cause| cause.downcast_ref::<CredentialsError>()) {
            return Self::without_credentials(service, operation, cause);
        }
        let status = error.raw_response().map(|response| response.status().as_u16());
        let code = error.code().map(str::to_owned);
        let message = error.message().map_or_else(|| root_cause(error), denial::lasting_text);
        if let Some((code, what)) = code.as_ref().and_then(|code| Some((code, Unsigned::of_answer(code, &message)?))) {
            let message = format!("{code}: {}", signing::without_times(&message));
            let code = Some(what.reason().to_owned());
            return Self { operation, service, code, message, class: Unsigned::CLASS, ambiguous: false };
        }
        let class = code.as_deref().and_then(|code| class_of(code).or_else(|| general_class(code)));
        // Without an answer from the service itself it is not known whether it acted. The same holds if it failed while
        // acting.
        let ambiguous = code.is_none() || status.is_none_or(|status| status >= 500);
        Self { operation, service, code, message, class: class.unwrap_or(Class::Transient), ambiguous }
    }

    /// The error of a call that was not even sent.
    fn without_credentials(service: &'static str, operation: &'static str, cause: &CredentialsError) -> Self {
        let (what, words) = Unsigned::of_missing(cause);
        let message = match what {
            Some(_) => words,
            None => format!("the operator's credentials could not be renewed: {words}"),
        };
        let code = what.map(|what| what.reason().to_owned());
        Self { operation, service, code, message, class: Unsigned::CLASS, ambiguous: false }
    }

    /// Returns the reason for which AWS accepts no signature of the operator, if that is the error. Only a person can
    /// resolve it.
    pub fn unsigned_reason(&self) -> Option<Unsigned> {
        self.code.as_deref().and_then(Unsigned::of_reason)
    }

    /// The word for metrics. AWS denies a call that it does not accept the signature of, although it may be tried again soon.
    fn outcome(&self) -> &'static str {
        if self.unsigned_reason().is_some() { Class::Denied.as_str() } else { self.class.as_str() }
    }

    /// The error of a call that does not fit the present state: observe again.
    pub fn stale(operation: &'static str, message: String) -> Self {
        Self { operation, service: "", code: None, message, class: Class::Conflict, ambiguous: false }
    }

    /// The error of a call whose caller was dropped: the call may have been made or not.
    pub fn abandoned_call() -> Self {
        Self {
            operation: "",
            service: "",
            code: None,
            message: "the caller no longer waits for the response".into(),
            class: Class::Transient,
            ambiguous: true,
        }
    }

    /// True when AWS answered with this code.
    pub fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    fn text(&self) -> String {
        if let Some(unsigned) = self.unsigned_reason() {
            return unsigned.explain(&self.message);
        }
        match (self.class, &self.code) {
            (Class::Denied, Some(code)) if code.starts_with("AccessDenied") || code == "UnauthorizedOperation" => {
                denial::explain(self.service, self.operation, &self.message)
            }
            (_, Some(code)) => format!("{code}: {}", self.message),
            (Class::Conflict, None) => self.message.clone(),
            (_, None) => format!("no answer from AWS: {}", self.message),
        }
    }
}

/// A change that was sent while we led must be over before another process can lead. The lease lasts 5 s longer than a
/// leader that cannot renew it trusts in it (see [`causeway_runtime::leader::Timing`]). Reads of a single resource need no longer
/// either.
const DEADLINE: Duration = Duration::from_secs(5);

/// Lists of a whole region may take longer: many objects wait for one answer, and asking again would bring none.
const LIST_DEADLINE: Duration = Duration::from_secs(25);

const CONNECT_DEADLINE: Duration = Duration::from_secs(3);

/// A call that AWS throttles is repeated for this long; then its object reports the error.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// Codes that any service may answer with.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/CommonErrors.html>
pub(super) fn general_class(code: &str) -> Option<Class> {
    Some(match code {
        "Throttling"
        | "ThrottlingException"
        | "ThrottledException"
        | "RequestThrottled"
        | "RequestLimitExceeded"
        | "TooManyRequestsException"
        | "SlowDown"
        | "PriorRequestNotComplete" => Class::Throttled,
        "AccessDenied" | "AccessDeniedException" | "UnauthorizedOperation" | "OptInRequired" | "NotAuthorized" => {
            Class::Denied
        }
        _ => return None,
    })
}

/// The innermost cause. The outer ones only say that the call failed.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(|cause| first_line(&cause.to_string())).unwrap_or_default()
}

/// Makes calls of one service: they are counted and logged, and their errors are classified.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The service's prefix in IAM actions.
    pub service: &'static str,
    /// The metrics, which count the calls.
    pub metrics: Metrics,
    /// Classes of the service's own error codes.
    pub class_of: fn(&str) -> Option<Class>,
    /// The rates at which calls may be made.
    pub budget: Budget,
}

impl Caller {
    /// Returns a caller for work that can wait, with the same settings.
    #[must_use]
    pub fn in_background(&self) -> Self {
        Self { budget: self.budget.in_background(), ..self.clone() }
    }

    /// Makes a call once the budget has room for it, and repeats it while AWS throttles it. A throttled call had no
    /// effect, and without the repetition everything that was read for it would be lost. The deadline begins when the
    /// call is sent.
    pub async fn call_again<T, E, S>(&self, operation: &'static str, send: impl Fn() -> S) -> Result<T, AwsError>
    where
        S: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        T: RequestId,
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let mut time_left = REFUSED_FOR;
        let mut refusal = None;
        loop {
            let came = Instant::now();
            if tokio::time::timeout(time_left, self.budget.wait_until_accepted(operation)).await.is_err() {
                return Err(refusal.unwrap_or_else(|| self.crowded_error(operation)));
            }
            time_left = time_left.saturating_sub(came.elapsed());
            let Some(waited) = self.budget.wait(operation).await else {
                return Err(self.crowded_error(operation));
            };
            self.metrics.aws_call_waited(operation, waited);
            let begun = Instant::now();
            // The SDK's futures hold the whole request. On the heap they do not enlarge every future that awaits one.
            let answered = tokio::time::timeout(deadline(operation), Box::pin(send()));
            let outcome = match answered.await {
                Ok(result) => self.account(operation, result, begun.elapsed()),
                Err(_) => Err(self.timeout_error(operation, begun.elapsed())),
            };
            match outcome {
                Err(error) if error.class == Class::Throttled => {
                    self.budget.record_refusal(operation);
                    if time_left.is_zero() {
                        return Err(error);
                    }
                    refusal = Some(error);
                }
                // Without an answer it is not known whether AWS accepts calls again.
                Err(error) if error.ambiguous => return Err(error),
                outcome => {
                    self.budget.record_success(operation);
                    return outcome;
                }
            }
        }
    }

    /// The error of a call that exceeded its deadline.
    fn timeout_error(&self, operation: &'static str, took: Duration) -> AwsError {
        let error = AwsError {
            operation,
            service: self.service,
            code: None,
            message: format!("it took longer than {} s", deadline(operation).as_secs()),
            class: Class::Transient,
            ambiguous: true,
        };
        self.metrics.aws_call(self.service, operation, Err(error.class.as_str()), took);
        tracing::info!(operation, %error, "AWS call failed");
        error
    }

    /// Makes a call once the budget has room for it; its own deadline begins only then.
    pub fn call<T, E>(
        &self,
        operation: &'static str,
        sent: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> impl Future<Output = Result<T, AwsError>>
    where
        T: RequestId,
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        // The SDK's futures hold the whole request. On the heap they do not enlarge every future that awaits one.
        let sent = Box::pin(sent);
        async move {
            let Some(waited) = self.budget.wait(operation).await else {
                return Err(self.crowded_error(operation));
            };
            self.metrics.aws_call_waited(operation, waited);
            let begun = Instant::now();
            let result = sent.await;
            self.account(operation, result, begun.elapsed())
        }
    }

    fn account<T, E>(
        &self,
        operation: &'static str,
        result: Result<T, SdkError<E, HttpResponse>>,
        took: Duration,
    ) -> Result<T, AwsError>
    where
        T: RequestId,
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        match result {
            Ok(answer) => {
                self.metrics.aws_call(self.service, operation, Ok(()), took);
                tracing::debug!(operation, took_ms, request_id = answer.request_id(), "AWS call");
                Ok(answer)
            }
            Err(error) => {
                let request_id = error.request_id().map(str::to_owned);
                let error = AwsError::new(self.service, operation, &error, self.class_of);
                self.metrics.aws_call(self.service, operation, Err(error.outcome()), took);
                tracing::info!(operation, took_ms, request_id, %error, "AWS call failed");
                Err(error)
            }
        }
    }

    /// The error of a call that was not made, because others already wait to make it.
    fn crowded_error(&self, operation: &'static str) -> AwsError {
        AwsError {
            operation,
            service: self.service,
            code: Some("RateLimited".into()),
            message: "the rate limit for this AWS call is reached, and other calls are waiting".into(),
            class: Class::Throttled,
            ambiguous: false,
        }
    }

    /// The error of an answer without the thing that was asked for.
    pub fn empty_answer(&self, operation: &'static str) -> AwsError {
        AwsError {
            operation,
            service: self.service,
            code: None,
            message: "the answer is empty".into(),
            class: Class::Transient,
            ambiguous: true,
        }
    }
}

/// The timeouts of a client whose calls are made by [`Caller::call_again`], which knows how long each may take.
pub fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder().operation_timeout(LIST_DEADLINE).connect_timeout(CONNECT_DEADLINE).build()
}

/// Returns the time that a call may take.
fn deadline(operation: &str) -> Duration {
    match operation {
        "DescribeLoadBalancers"
        | "DescribeSecurityGroups"
        | "DescribeSubnets"
        | "DescribeTags"
        | "DescribeTargetGroups"
        | "ListCertificates" => LIST_DEADLINE,
        _ => DEADLINE,
    }
}

/// Lets a change pass only while this process leads. The check is made at the last moment before the change is sent.
#[derive(Debug)]
pub struct FenceGuard(pub Fence);

impl Intercept for FenceGuard {
    fn name(&self) -> &'static str {
        "FenceGuard"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if bag.load::<Metadata>().is_none_or(|call| is_change(call.name())) {
            self.0.check()?;
        }
        Ok(())
    }
}

/// Returns true if an operation changes something, by AWS's naming rules.
fn is_change(operation: &str) -> bool {
    !["Describe", "Get", "List", "Head", "Assume"].iter().any(|prefix| operation.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_only_read_pass_without_the_lease() {
        assert!(!is_change("DescribeLoadBalancers"));
        assert!(!is_change("AssumeRoleWithWebIdentity"));
        assert!(is_change("CreateLoadBalancer"));
        assert!(is_change("AddTags"));
    }

    #[test]
    fn a_denied_call_keeps_awss_words_after_the_operation() {
        let words = "User: a is not authorized to perform: ec2:GetSecurityGroupsForVpc on resource: b because no \
                     identity-based policy allows the ec2:GetSecurityGroupsForVpc action";
        let error = AwsError {
            operation: "CreateLoadBalancer",
            service: "elasticloadbalancing",
            code: Some("AccessDenied".into()),
            message: words.into(),
            class: Class::Denied,
            ambiguous: false,
        };
        assert!(error.to_string().starts_with(&format!("CreateLoadBalancer: AWS denies it: {words}")), "{error}");
        let error = AwsError { code: Some("UnauthorizedOperation".into()), service: "ec2", ..error };
        assert!(error.to_string().contains(words), "{error}");
    }

    #[test]
    fn calls_with_a_refused_signature_are_counted_as_denied() {
        let error = |code: Option<&str>| AwsError {
            operation: "CreateLoadBalancer",
            service: "elasticloadbalancing",
            code: code.map(str::to_owned),
            message: "no".into(),
            class: Class::Transient,
            ambiguous: false,
        };
        for unsigned in [Unsigned::NoCredentials, Unsigned::CredentialsRefused, Unsigned::ClockSkewed] {
            assert_eq!(error(Some(unsigned.reason())).outcome(), "denied", "{unsigned:?}");
        }
        assert_eq!(error(None).outcome(), "transient");
    }
}
