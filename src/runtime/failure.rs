//! Classes of errors: the class alone decides when a reconcile is tried again and what the user is told.

use std::error::Error;

use kube::core::Status;

/// What kind of trouble an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The user must change something first: no retry before the object changes or the next sweep.
    Invalid,
    /// Somebody else was faster: observe again at once.
    Conflict,
    /// Something vanished between observing and acting: observe again at once.
    NotFound,
    /// What was asked for must wait for something that is on its way: look again soon, it is no failure.
    NotYet,
    /// We ask too often: back off.
    Throttled,
    /// Likely to pass by itself: back off.
    Transient,
    /// A permission or quota is missing: tell, and retry slowly.
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
}

/// An error that knows its class and how to tell a user of it.
///
/// The text of the error (`Display`) goes into the status: it names the field or permission and the fix, and it is
/// the same for the same trouble, so that a retry does not write the status again. Request ids belong in the log.
pub trait Failure: Error + Send + Sync + 'static {
    /// The class, which decides the retry.
    fn class(&self) -> Class;
    /// A stable `CamelCase` word for conditions and events.
    fn reason(&self) -> &'static str;
}

/// The class of an error of the Kubernetes API.
///
/// <https://kubernetes.io/docs/reference/using-api/api-concepts/>
#[must_use]
pub fn class_of_kubernetes(error: &kube::Error) -> Class {
    let kube::Error::Api(status) = error else { return Class::Transient };
    // A namespace that is going away refuses new objects with 403; that is no missing permission.
    if status.code == 403 && status.message.contains("is being terminated") {
        return Class::Transient;
    }
    if is_replaced(status) { Class::Conflict } else { class_of_status(status.code) }
}

/// Whether a call named the uid of an object that another one has replaced since.
fn is_replaced(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 422 && causes.into_iter().any(|cause| cause.field == "metadata.uid")
}

/// An error and what caused it, the outermost first.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// What the Kubernetes API said. The client's own text has its whole answer a second time.
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
        400 | 422 => Class::Invalid,
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
    fn an_object_that_was_replaced_is_a_lost_race_and_told_once() {
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
