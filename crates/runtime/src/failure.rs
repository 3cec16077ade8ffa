//! Classes of errors. The class alone decides when a reconcile is retried and what the user sees.

use std::error::Error;
use std::time::Duration;

use kube::core::Status;

/// The class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The user must change something first: no retry before the object changes or the next sweep.
    Invalid,
    /// Another client was faster: observe again at once.
    Conflict,
    /// A resource vanished between observing and acting: observe again at once.
    NotFound,
    /// Something that is already in progress must complete first. This is no failure: observe again soon.
    NotYet,
    /// Calls are too frequent: back off.
    Throttled,
    /// Likely to pass by itself: back off.
    Transient,
    /// A permission or quota is missing: report it, and retry slowly.
    Denied,
}

impl Class {
    /// The name used in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Conflict => "conflict",
            Self::NotFound => "not_found",
            Self::NotYet => "early",
            Self::Throttled => "throttled",
            Self::Transient => "transient",
            Self::Denied => "denied",
        }
    }

    /// Returns true if only a user or an administrator resolves errors of this class, by changing the spec or rights.
    #[must_use]
    pub fn needs_person(self) -> bool {
        matches!(self, Self::Invalid | Self::Denied)
    }
}

/// An error that knows its class and how to describe itself to users.
///
/// The text of the error (`Display`) goes into the status. It names the field or permission and the fix. The same
/// problem must always give the same text, so that a retry does not write the status again. Request ids belong in the
/// log.
pub trait Failure: Error + Send + Sync + 'static {
    /// The class, which decides the retry.
    fn class(&self) -> Class;
    /// Returns true if only a person can resolve it, so that the object is stalled: also where it is tried again soon.
    fn needs_person(&self) -> bool {
        self.class().needs_person()
    }
    /// Returns the longest pause before the next attempt, where clients are cut off meanwhile; `None` for the usual one.
    fn longest_delay(&self) -> Option<Duration> {
        None
    }
    /// A stable `CamelCase` word for conditions and events.
    fn reason(&self) -> &'static str;
}

/// The class of an error of the Kubernetes API.
///
/// <https://kubernetes.io/docs/reference/using-api/api-concepts/>
#[must_use]
pub fn class_of_kubernetes(error: &kube::Error) -> Class {
    let kube::Error::Api(status) = error else { return Class::Transient };
    // A namespace that is being deleted refuses new objects with 403, but no permission is missing.
    if status.code == 403 && status.message.contains("is being terminated") {
        return Class::Transient;
    }
    if is_replaced(status) { Class::Conflict } else { class_of_status(status.code) }
}

/// Returns true if a call named the uid of an object that another one of the same name has replaced.
fn is_replaced(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 422 && causes.into_iter().any(|cause| cause.field == "metadata.uid")
}

/// An error and its causes, the outermost first.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// The message of the Kubernetes API. The client's own text repeats the whole answer.
#[must_use]
pub fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// The class of an HTTP status of the Kubernetes API.
#[must_use]
pub fn class_of_status(status: u16) -> Class {
    match status {
        401 | 403 => Class::Denied,
        404 | 410 => Class::NotFound,
        409 => Class::Conflict,
        400 | 413 | 422 => Class::Invalid,
        429 => Class::Throttled,
        _ => Class::Transient,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::response::StatusDetails;
    use serde_json::json;

    fn api_error(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status { code, message: message.into(), ..Status::default() }))
    }

    #[test]
    fn a_kubernetes_error_is_classed_by_its_code() {
        for (code, class) in [
            (400, Class::Invalid),
            (403, Class::Denied),
            (404, Class::NotFound),
            (409, Class::Conflict),
            (413, Class::Invalid),
            (422, Class::Invalid),
            (429, Class::Throttled),
            (500, Class::Transient),
            (503, Class::Transient),
        ] {
            assert_eq!(class_of_kubernetes(&api_error(code, "")), class, "{code}");
        }
    }

    #[test]
    fn a_terminating_namespace_is_not_a_missing_permission() {
        let error = api_error(
            403,
            "pods is forbidden: unable to create new content in namespace x because it is being terminated",
        );
        assert_eq!(class_of_kubernetes(&error), Class::Transient);
    }

    #[test]
    fn a_replaced_object_is_a_conflict_with_one_message() {
        let cause = |field: &str| serde_json::from_value::<StatusDetails>(json!({ "causes": [{ "field": field }] }));
        let refused = |field| {
            let details = cause(field).expect("details");
            let message = format!("{field}: Invalid value: field is immutable");
            kube::Error::Api(Box::new(Status { code: 422, message, details: Some(details), ..Status::default() }))
        };
        assert_eq!(class_of_kubernetes(&refused("metadata.uid")), Class::Conflict);
        assert_eq!(class_of_kubernetes(&refused("spec.clusterIP")), Class::Invalid);
        assert_eq!(api_message(&refused("metadata.uid")), "metadata.uid: Invalid value: field is immutable");
    }
}
