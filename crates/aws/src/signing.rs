//! Calls that AWS does not accept because of who signed them, or when. Only a person can mend that.
//!
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html>

use aws_credential_types::provider::error::CredentialsError;

use causeway_runtime::{Class, causes};

/// The reasons why AWS accepts no signature of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsigned {
    /// No call can be signed: there are no credentials.
    NoCredentials,
    /// AWS does not accept the credentials.
    CredentialsRefused,
    /// The clock of the operator differs from AWS's by more than some minutes.
    ClockSkewed,
}

impl Unsigned {
    /// The class of the error: it is tried again soon, so that it ends soon after it is mended.
    pub const CLASS: Class = Class::Transient;

    /// Classifies AWS's answer to a signed call; `None` if it accepted the signature.
    pub fn of_answer(code: &str, words: &str) -> Option<Self> {
        let by_time = ["Signature expired", "Signature not yet current", "expired or not yet valid"];
        Some(match code {
            "RequestExpired" | "RequestTimeTooSkewed" | "RequestInTheFuture" => Self::ClockSkewed,
            "SignatureDoesNotMatch" | "InvalidSignatureException" | "InvalidSignature" | "AuthFailure"
                if by_time.iter().any(|it| words.contains(it)) =>
            {
                Self::ClockSkewed
            }
            "AuthFailure"
            | "ExpiredToken"
            | "ExpiredTokenException"
            | "IncompleteSignature"
            | "IncompleteSignatureException"
            | "InvalidAccessKeyId"
            | "InvalidClientTokenId"
            | "InvalidSecurity"
            | "InvalidSignature"
            | "InvalidSignatureException"
            | "InvalidToken"
            | "MissingAuthenticationToken"
            | "MissingAuthenticationTokenException"
            | "NotSignedUp"
            | "SignatureDoesNotMatch"
            | "TokenRefreshRequired"
            | "UnrecognizedClientException" => Self::CredentialsRefused,
            _ => return None,
        })
    }

    /// Classifies the reason for which a call could not be signed, with the cause in words. `None` for the former if it
    /// may pass by itself, as when AWS STS does not answer.
    pub fn of_missing(cause: &CredentialsError) -> (Option<Self>, String) {
        let causes: Vec<String> = causes(cause).map(|cause| first_line(&cause.to_string())).collect();
        let tells = |words: &[&str]| causes.iter().any(|text| words.iter().any(|it| text.contains(it)));
        let lasts = matches!(cause, CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_))
            // AWS STS refuses to assume the role, or the file with the token is not there.
            || tells(&["AccessDenied", "InvalidIdentityToken", "ValidationError", "(os error 2)", "(os error 13)"]);
        let expired = tells(&["ExpiredToken", "InvalidClientTokenId", "SignatureDoesNotMatch", "UnrecognizedClient"]);
        let what = match () {
            () if tells(&["RequestExpired", "Signature expired", "Signature not yet current"]) => {
                Some(Self::ClockSkewed)
            }
            () if expired => Some(Self::CredentialsRefused),
            () => lasts.then_some(Self::NoCredentials),
        };
        (what, without_times(&causes.last().cloned().unwrap_or_default()))
    }

    /// Returns the reason with that code, as [`Self::reason`] gives it.
    pub fn of_reason(code: &str) -> Option<Self> {
        [Self::NoCredentials, Self::CredentialsRefused, Self::ClockSkewed].into_iter().find(|it| it.reason() == code)
    }

    /// Stable `CamelCase` word for conditions. It stands in for AWS's code.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoCredentials => "CredentialsMissing",
            Self::CredentialsRefused => "CredentialsInvalid",
            Self::ClockSkewed => "ClockSkewed",
        }
    }

    /// A sentence with the cause, and what to do.
    pub fn explain(self, words: &str) -> String {
        match self {
            Self::NoCredentials => format!(
                "the operator has no AWS credentials ({words}); let its service account assume an IAM role, see \
                 docs/operations.md"
            ),
            Self::CredentialsRefused => format!(
                "AWS does not accept the operator's credentials ({words}); renew its keys, or see whether its service \
                 account still gets tokens for its IAM role, see docs/operations.md#credentials"
            ),
            Self::ClockSkewed => format!(
                "AWS does not accept the time of the operator's calls ({words}); correct the clock of its node (chronyc \
                 tracking), see docs/operations.md#credentials"
            ),
        }
    }
}

/// The first line of a text, without the list of sources that were tried.
pub fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_end_matches(". Attempted:").to_owned()
}

/// AWS's words without times, which differ in every call: `Signature expired: 20261128T120000Z is now earlier than …`
/// becomes `Signature expired`.
pub fn without_times(words: &str) -> String {
    let is_time = |word: &&str| word.bytes().filter(u8::is_ascii_digit).count() >= 8 && !word.contains("arn:");
    let Some(time) = words.split(' ').find(is_time) else { return words.to_owned() };
    let (before, _) = words.split_once(time).unwrap_or_default();
    // The message ends before the colon; without one, it is all that is left.
    before.rsplit_once(": ").map_or(before, |(head, _)| head).trim_end_matches([' ', ':', '(']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKEWED: &str =
        "Signature expired: 20261128T120000Z is now earlier than 20261128T121500Z (20261128T122000Z - 5 min.)";

    #[test]
    fn a_wrong_clock_is_told_from_wrong_credentials() {
        for (code, words, expected) in [
            ("RequestExpired", "Request has expired.", Unsigned::ClockSkewed),
            (
                "RequestTimeTooSkewed",
                "The difference between the request time and the current time is too large.",
                Unsigned::ClockSkewed,
            ),
            ("SignatureDoesNotMatch", SKEWED, Unsigned::ClockSkewed),
            (
                "InvalidSignatureException",
                "Signature not yet current: 20261128T120000Z is still later than now",
                Unsigned::ClockSkewed,
            ),
            (
                "SignatureDoesNotMatch",
                "The request signature we calculated does not match",
                Unsigned::CredentialsRefused,
            ),
            ("ExpiredToken", "The security token included in the request is expired", Unsigned::CredentialsRefused),
            (
                "InvalidClientTokenId",
                "The security token included in the request is invalid.",
                Unsigned::CredentialsRefused,
            ),
            (
                "UnrecognizedClientException",
                "The security token included in the request is invalid.",
                Unsigned::CredentialsRefused,
            ),
            (
                "AuthFailure",
                "AWS was not able to validate the provided access credentials",
                Unsigned::CredentialsRefused,
            ),
        ] {
            assert_eq!(Unsigned::of_answer(code, words), Some(expected), "{code} {words}");
        }
        for code in ["AccessDenied", "Throttling", "InternalFailure", "UnauthorizedOperation"] {
            assert_eq!(Unsigned::of_answer(code, SKEWED), None, "{code}");
        }
    }

    #[test]
    fn a_missing_token_lasts_but_a_silent_sts_does_not() {
        let missing = |words: &'static str| Unsigned::of_missing(&CredentialsError::provider_error(words));
        assert_eq!(missing("No such file or directory (os error 2)").0, Some(Unsigned::NoCredentials));
        assert_eq!(
            missing("AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity").0,
            Some(Unsigned::NoCredentials)
        );
        let (what, words) = missing(
            "ExpiredTokenException: Token expired: current date/time 1764331200 must be before the expiration date/time 1764331100",
        );
        assert_eq!(
            (what, words.as_str()),
            (Some(Unsigned::CredentialsRefused), "ExpiredTokenException: Token expired")
        );
        assert_eq!(missing("InternalFailure: try again").0, None);
        assert_eq!(Unsigned::of_missing(&CredentialsError::not_loaded("none")).0, Some(Unsigned::NoCredentials));
    }

    #[test]
    fn words_are_the_same_in_every_call() {
        assert_eq!(without_times(SKEWED), "Signature expired");
        for text in ["Request has expired.", "", "a role arn:aws:iam::111122223333:role/x is missing"] {
            assert_eq!(without_times(text), text);
        }
    }
}
