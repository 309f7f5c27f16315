//! Errors of a query, with the status of the HTTP response.

use axum::http::StatusCode;
use ibnet_record::types::Printable;

/// An error of a request. The answer is JSON with a reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) reason: String,
}

impl ApiError {
    /// Returns the error of a wrong request.
    pub(crate) fn wrong(reason: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            reason: reason.into(),
        }
    }

    /// Returns the error of a request for something that does not exist.
    pub(crate) fn missing(reason: impl Into<String>) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            reason: reason.into(),
        }
    }

    /// Returns the error of a failure in the hub.
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            reason: reason.into(),
        }
    }
}

/// Returns the error for a value.
pub(crate) fn wrong(name: &str, found: &str, expected: &str) -> ApiError {
    ApiError::wrong(format!(
        "cannot use the parameter {name}: expected {expected} (found {})",
        Printable(found)
    ))
}
