//! Answers of the API: JSON, bytes, and errors with a reason.

use std::io::Write;

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY,
};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use crate::query::error::ApiError;

/// Min size in bytes of an answer that is compressed.
const COMPRESSED_FROM: usize = 2048;

/// Seconds after which a client that sent too many requests may try again.
const RETRY_SECONDS: &str = "5";

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Reason {
            error: String,
        }
        let text = serde_json::to_vec(&Reason { error: self.reason }).unwrap_or_default();
        let mut response =
            (self.status, [(CONTENT_TYPE, "application/json")], text).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
        }
        response
    }
}

/// A successful answer, before compression.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    content_type: &'static str,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(value: &impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(value)
            .map_err(|error| ApiError::failed(format!("cannot write the answer: {error}")))?;
        Ok(Self {
            content_type: "application/json",
            body,
        })
    }

    pub(crate) const fn octets(body: Vec<u8>) -> Self {
        Self {
            content_type: "application/octet-stream",
            body,
        }
    }

    /// Converts the answer to a response, compressed if the client accepts that.
    pub(crate) fn respond(self, headers: &HeaderMap) -> Response {
        let is_compressed = self.body.len() >= COMPRESSED_FROM && accepts_gzip(headers);
        let body = if is_compressed {
            gzip(&self.body, Compression::fast())
        } else {
            self.body
        };
        let mut response = Response::new(Body::from(body));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if is_compressed {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    accepted.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip") && parts.all(|part| part != "q=0")
    })
}

pub(crate) fn gzip(octets: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    // Writing to a Vec cannot fail.
    let _ = encoder.write_all(octets);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_used_if_it_is_accepted() {
        for (accepted, expected) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, gzip;q=0.8", true),
            ("identity", false),
            ("gzip;q=0", false),
        ] {
            let headers = HeaderMap::from_iter([(
                header::ACCEPT_ENCODING,
                HeaderValue::from_static(accepted),
            )]);
            assert_eq!(accepts_gzip(&headers), expected, "{accepted}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
