//! Decides who may use the hub.
//!
//! - Without a password, the `Host` header must be a loopback name. This protects against DNS
//!   rebinding: a hostile web site can let its own name resolve to the loopback address, but the
//!   browser then sends the name of the site.
//! - The `Origin` header, if present, must be the origin of the web page itself. Browsers do not
//!   restrict WebSocket connections to the same origin, so the server has to.
//! - With a password, with roles or with a trusted proxy, each request needs one of them
//!   ([`crate::users`]). Comparisons take the same time for each wrong password or token.

use std::net::IpAddr;

use axum::http::header::{
    ALLOW, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::query::error::ApiError;

/// Content security policy: everything comes from the hub itself, and no other page can embed
/// this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; \
                      font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Returns the response that refuses a request, or `None` for an accepted request. `is_known` is
/// true for a request with the password or of a user, and `None` if it needs neither. `schemes` are
/// those of the web page: `http` or `https`. `may_post` is true if there are users who may change
/// something; their roles are checked later.
pub(crate) fn refusal(
    method: &Method,
    headers: &HeaderMap,
    schemes: &[&str],
    is_known: Option<bool>,
    may_post: bool,
) -> Option<Response> {
    let refuse = |status, reason: &str| {
        Some(
            ApiError {
                status,
                reason: reason.to_owned(),
            }
            .into_response(),
        )
    };
    let mut hosts = headers
        .get_all(HOST)
        .iter()
        .map(|host| host.to_str().unwrap_or("?"));
    let host = hosts.next();
    if hosts.next().is_some() {
        return refuse(StatusCode::BAD_REQUEST, "the request has two Host headers");
    }
    match is_known {
        None if !host.is_some_and(is_loopback_host) => {
            return refuse(
                StatusCode::MISDIRECTED_REQUEST,
                "use localhost or a loopback address as the host name",
            );
        }
        Some(false) => {
            let mut response = ApiError {
                status: StatusCode::UNAUTHORIZED,
                reason: "a password or the token of a user is required".to_owned(),
            }
            .into_response();
            response.headers_mut().insert(
                WWW_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"ibnet-hub\", charset=\"UTF-8\""),
            );
            return Some(response);
        }
        _ => {}
    }
    let is_own = |origin: &HeaderValue| {
        let parts = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.split_once("://"));
        parts.is_some_and(|(of, rest)| schemes.contains(&of) && Some(rest) == host)
    };
    if !headers.get_all(ORIGIN).iter().all(is_own) {
        return refuse(
            StatusCode::FORBIDDEN,
            "requests of other sites are refused (Origin differs from Host)",
        );
    }
    if method != Method::GET && method != Method::HEAD && !(may_post && method == Method::POST) {
        let mut response = ApiError {
            status: StatusCode::METHOD_NOT_ALLOWED,
            reason: "use GET or HEAD".to_owned(),
        }
        .into_response();
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(response);
    }
    None
}

pub(crate) fn add_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns whether a `Host` header is `localhost` or a loopback address.
fn is_loopback_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address
            .parse()
            .is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::header::AUTHORIZATION;

    use super::*;

    fn status(
        method: &Method,
        headers: &[(HeaderName, &'static str)],
        password: Option<&str>,
    ) -> u16 {
        status_with(method, headers, password, false)
    }

    fn status_with(
        method: &Method,
        headers: &[(HeaderName, &'static str)],
        password: Option<&str>,
        may_post: bool,
    ) -> u16 {
        let mut map = HeaderMap::new();
        headers.iter().for_each(|(name, value)| {
            map.append(name, HeaderValue::from_static(value));
        });
        let given = map.get(AUTHORIZATION).and_then(|given| given.to_str().ok());
        let is_known = password.map(|password| given == Some(password));
        refusal(method, &map, &["http"], is_known, may_post)
            .map_or(200, |response| response.status().as_u16())
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        let get = |headers: &[(HeaderName, &'static str)]| status(&Method::GET, headers, None);
        assert_eq!(get(&[(HOST, "localhost:8080")]), 200);
        assert_eq!(
            get(&[(HOST, "[::1]:8080"), (ORIGIN, "http://[::1]:8080")]),
            200
        );
        assert_eq!(get(&[]), 421);
        for host in [
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "0.0.0.0:8080",
            "localhost.evil.example",
            "",
        ] {
            assert_eq!(get(&[(HOST, host)]), 421, "{host}");
        }
        assert_eq!(get(&[(HOST, "localhost"), (HOST, "evil.example")]), 400);
        for origin in [
            "http://evil.example",
            "http://localhost:9090",
            "null",
            "",
            "http://127.0.0.1:8080",
            "https://localhost:8080",
            "x://localhost:8080",
        ] {
            assert_eq!(
                get(&[(HOST, "localhost:8080"), (ORIGIN, origin)]),
                403,
                "{origin}"
            );
        }
    }

    #[test]
    fn every_origin_header_is_checked() {
        let origins = [
            (HOST, "localhost"),
            (ORIGIN, "http://localhost"),
            (ORIGIN, "http://evil.example"),
        ];
        assert_eq!(
            (
                status(&Method::GET, &origins, None),
                status(&Method::GET, &origins[..2], None)
            ),
            (403, 200)
        );
    }

    #[test]
    fn password_replaces_the_check_of_the_host() {
        let get = |headers: &[(HeaderName, &'static str)]| {
            status(&Method::GET, headers, Some("Bearer x"))
        };
        assert_eq!(
            get(&[(HOST, "hub.example"), (AUTHORIZATION, "Bearer x")]),
            200
        );
        assert_eq!(
            get(&[(HOST, "hub.example"), (AUTHORIZATION, "Bearer y")]),
            401
        );
        assert_eq!(get(&[(HOST, "hub.example")]), 401);
        assert_eq!(
            get(&[
                (HOST, "hub.example"),
                (AUTHORIZATION, "Bearer x"),
                (ORIGIN, "https://evil.example")
            ]),
            403
        );
    }

    #[test]
    fn with_users_own_pages_and_programs_may_post() {
        let post = |method: &Method, headers: &[(HeaderName, &'static str)]| {
            status_with(method, headers, None, true)
        };
        let own = (ORIGIN, "http://localhost");
        assert_eq!(
            post(&Method::POST, &[(HOST, "localhost"), own.clone()]),
            200
        );
        assert_eq!(post(&Method::POST, &[(HOST, "localhost")]), 200);
        let foreign = (ORIGIN, "http://evil.example");
        assert_eq!(post(&Method::POST, &[(HOST, "localhost"), foreign]), 403);
        for method in [Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(post(&method, &[(HOST, "localhost"), own.clone()]), 405);
        }
    }

    #[test]
    fn only_reading_is_allowed() {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(status(&method, &[(HOST, "localhost")], None), 405);
        }
        assert_eq!(status(&Method::HEAD, &[(HOST, "localhost")], None), 200);
    }
}
