//! Errors of calls of S3, and whether another try is worthwhile.

use std::error::Error;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::error::{ErrorMetadata, ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;

use causeway_runtime::causes;

use crate::jobs::SERVICE_ACCOUNT;

/// A call of S3 that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", self.text())]
pub struct StoreError {
    /// The API's name for the call.
    pub operation: &'static str,
    /// S3's error code; none if no answer came, or one without a body.
    pub code: Option<String>,
    /// S3's message, or what happened to the connection.
    pub message: String,
    /// The kind of error.
    pub trouble: Trouble,
}

/// Kinds of errors, as far as they matter. <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The role of the Job may not do that, or the bucket is another account's.
    Denied,
    /// There is no such bucket.
    NoBucket,
    /// There is no such object.
    NoObject,
    /// The object is in a storage class from which nothing can be read.
    Archived,
    /// The multipart upload was aborted, or completed.
    NoUpload,
    /// The object is not the one that we looked at.
    Changed,
    /// This S3 does not know a header that we use.
    NotImplemented,
    /// A transient error: overload, a broken connection, an expired token. The call may have had its effect.
    Passing,
    /// S3 refuses, and would refuse again.
    Refused,
}

impl StoreError {
    /// The error of a call.
    pub(super) fn new<E>(operation: &'static str, error: &SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        if let Some(cause) = causes(error).find_map(|cause| cause.downcast_ref::<CredentialsError>()) {
            return Self::without_credentials(operation, cause);
        }
        let status = error.raw_response().map(|response| response.status().as_u16());
        let code = error.code().map(str::to_owned);
        let message = error.message().map_or_else(|| root_cause(error), str::to_owned);
        Self { operation, trouble: trouble(code.as_deref(), status), code, message }
    }

    /// The call was not even sent.
    fn without_credentials(operation: &'static str, cause: &CredentialsError) -> Self {
        // STS' answer, whose text would have the form of a structure of Rust.
        let answer = causes(cause).find_map(|cause| cause.downcast_ref::<ErrorMetadata>());
        let words = answer.and_then(|it| Some(format!("{}: {}", it.code()?, it.message()?)));
        let description: Vec<String> = causes(cause).map(|cause| first_line(&cause.to_string())).collect();
        let refused = |text: &String| {
            ["AccessDenied", "InvalidIdentityToken", "ValidationError"].iter().any(|code| text.contains(code))
        };
        let lasting = matches!(cause, CredentialsError::CredentialsNotLoaded(_)) || description.iter().any(refused);
        let role = std::env::var(ROLE).ok();
        let why = words.or_else(|| description.last().cloned()).unwrap_or_default();
        Self {
            operation,
            code: Some(NO_CREDENTIALS.into()),
            message: no_credentials(role.as_deref(), &why),
            trouble: if lasting { Trouble::Denied } else { Trouble::Passing },
        }
    }

    /// No answer came in time.
    pub(super) fn overdue(operation: &'static str, seconds: u64) -> Self {
        Self { operation, code: None, message: format!("no answer within {seconds} s"), trouble: Trouble::Passing }
    }

    /// An answer without what was asked for.
    pub(super) fn incomplete(operation: &'static str, what: &str) -> Self {
        Self { operation, code: None, message: format!("the answer has no {what}"), trouble: Trouble::Passing }
    }

    /// The bytes of an object stopped coming.
    pub(super) fn broken(operation: &'static str, message: String) -> Self {
        Self { operation, code: None, message, trouble: Trouble::Passing }
    }

    /// Reports whether the same call may succeed later.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.trouble == Trouble::Passing
    }

    /// Stable word for reports.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.trouble {
            Trouble::Denied if self.code.as_deref() == Some(NO_CREDENTIALS) => "NoCredentials",
            Trouble::Denied => "AccessDenied",
            Trouble::NoBucket => "BucketMissing",
            Trouble::NoObject => "BackupMissing",
            Trouble::Archived => "BackupArchived",
            Trouble::NoUpload | Trouble::Changed => "Raced",
            Trouble::Passing => "StoreUnavailable",
            Trouble::NotImplemented | Trouble::Refused => "StoreRefused",
        }
    }

    fn text(&self) -> String {
        let operation = self.operation;
        match (self.trouble, self.code.as_deref()) {
            (_, Some(NO_CREDENTIALS)) => format!("S3 {operation}: {}", self.message),
            (Trouble::Denied, code) => format!(
                "S3 {operation}: {}: allow it for the Jobs' role (iam/policy-backup-jobs.json), and see that the bucket \
                 is in the expected account",
                code.unwrap_or("access denied")
            ),
            (Trouble::Archived, _) => format!(
                "S3 {operation}: the object was moved to Glacier or another archive by a lifecycle rule, and cannot be read there: bring \
                 it back (aws s3api restore-object), wait until that is done, then restore again"
            ),
            (Trouble::NoBucket, _) => format!("S3 {operation}: there is no such bucket"),
            (_, Some(code)) => format!("S3 {operation}: {code}: {}", self.message),
            (_, None) => format!("S3 {operation}: {}", self.message),
        }
    }
}

/// The variable of a Job with the role that it takes. Without it, EKS gives credentials to the service account.
const ROLE: &str = "AWS_ROLE_ARN";

/// Whose credentials do not come, why, and where that is corrected.
fn no_credentials(role: Option<&str>, why: &str) -> String {
    match role {
        Some(role) => format!(
            "AWS gives the service account {SERVICE_ACCOUNT} no credentials of {role} ({why}): correct BACKUP_ROLE_ARN of the operator, \
             or the trust policy of the role (iam/README.md#backups)"
        ),
        None => format!(
            "EKS gives the service account {SERVICE_ACCOUNT} no credentials ({why}): make an association for it (aws eks \
             create-pod-identity-association, iam/README.md#backups), or set BACKUP_ROLE_ARN of the operator"
        ),
    }
}

/// Stands in for S3's code if a call could not be signed.
const NO_CREDENTIALS: &str = "NoCredentials";

fn trouble(code: Option<&str>, status: Option<u16>) -> Trouble {
    match (code, status) {
        (Some("AccessDenied" | "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "AllAccessDisabled"), _) => {
            Trouble::Denied
        }
        // The status of these is 4xx, but the next try may succeed.
        (
            Some(
                "ExpiredToken"
                | "ExpiredTokenException"
                | "RequestTimeTooSkewed"
                | "RequestTimeout"
                | "BadDigest"
                | "XAmzContentChecksumMismatch"
                | "IncompleteBody"
                | "OperationAborted"
                | "ConditionalRequestConflict"
                | "TokenRefreshRequired",
            ),
            _,
        ) => Trouble::Passing,
        // With the status 403, as if a right were missing.
        (Some("InvalidObjectState"), _) => Trouble::Archived,
        (Some("NoSuchBucket"), _) => Trouble::NoBucket,
        (Some("NoSuchUpload"), _) => Trouble::NoUpload,
        (Some("PreconditionFailed"), _) | (_, Some(412)) => Trouble::Changed,
        (Some("NotImplemented"), _) | (_, Some(501)) => Trouble::NotImplemented,
        (_, Some(403)) => Trouble::Denied,
        (Some("NoSuchKey" | "NotFound"), _) | (_, Some(404)) => Trouble::NoObject,
        (_, Some(status)) if (400..500).contains(&status) && status != 429 && status != 408 => Trouble::Refused,
        _ => Trouble::Passing,
    }
}

/// The innermost reason: the outer ones only say that the call failed.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(|cause| first_line(&cause.to_string())).unwrap_or_default()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_errors_are_retried_and_others_reported() {
        let of = |code: &str, status| trouble(Some(code).filter(|code| !code.is_empty()), status);
        for passing in ["SlowDown", "InternalError", "ServiceUnavailable"] {
            assert_eq!(of(passing, Some(503)), Trouble::Passing, "{passing}");
        }
        assert_eq!(of("ExpiredToken", Some(400)), Trouble::Passing);
        assert_eq!(of("BadDigest", Some(400)), Trouble::Passing);
        assert_eq!(of("", None), Trouble::Passing);
        assert_eq!(of("AccessDenied", Some(403)), Trouble::Denied);
        assert_eq!(of("", Some(403)), Trouble::Denied);
        assert_eq!(of("InvalidObjectState", Some(403)), Trouble::Archived);
        assert_eq!(of("NoSuchBucket", Some(404)), Trouble::NoBucket);
        assert_eq!(of("", Some(404)), Trouble::NoObject);
        assert_eq!(of("PreconditionFailed", Some(412)), Trouble::Changed);
        assert_eq!(of("InvalidArgument", Some(400)), Trouble::Refused);
    }

    #[test]
    fn credentials_that_do_not_come_name_role_account_and_page() {
        let metadata = ErrorMetadata::builder().code("AccessDenied").message("Not authorized").build();
        let cause = CredentialsError::provider_error(metadata);
        let error = StoreError::without_credentials("PutObject", &cause);
        assert_eq!(error.reason(), "NoCredentials");
        assert!(error.to_string().contains("(AccessDenied: Not authorized)"), "{error}");
        let text = no_credentials(Some("arn:aws:iam::123456789012:role/backup"), "AccessDenied: Not authorized");
        for part in ["causeway-backup", "arn:aws:iam::123456789012:role/backup", "iam/README.md#backups"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(no_credentials(None, "no token").contains("create-pod-identity-association"));
    }

    #[test]
    fn an_object_in_an_archive_is_no_missing_right() {
        let (code, trouble) = (Some("InvalidObjectState".into()), Trouble::Archived);
        let error = StoreError { operation: "GetObject", code, message: "…".into(), trouble };
        assert_eq!(error.reason(), "BackupArchived");
        let text = error.to_string();
        assert!(
            text.contains("Glacier") && text.contains("aws s3api restore-object") && !text.contains("iam/"),
            "{text}"
        );
    }

    #[test]
    fn a_denied_call_says_where_to_allow_it() {
        let error = StoreError {
            operation: "PutObject",
            code: Some("AccessDenied".into()),
            message: "User: arn:aws:sts::…".into(),
            trouble: Trouble::Denied,
        };
        let text = error.to_string();
        assert!(text.contains("PutObject") && text.contains("iam/policy-backup-jobs.json"), "{text}");
    }
}
