//! A client of HTTP servers, with TLS and authentication if necessary.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio_rustls::rustls;
use ureq::http::Uri;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Error, Timeout};

/// Max time for setting up a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Max size of a response in bytes, which is about 100,000 series of an hour at 15 s of Prometheus.
const MAX: u64 = 1 << 30;

/// What a connection needs besides the address.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Password of the user in the URL (basic authentication), or a bearer token if the URL has
    /// no user.
    pub secret: Option<String>,
    /// PEM file with the certificates to trust instead of those of the system.
    pub ca_file: Option<PathBuf>,
}

/// What is wrong, for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The URL cannot be used.
    Url,
    /// The file with the certificates to trust cannot be used.
    Authority,
    /// No connection, or a connection that ended early.
    Unreachable,
    /// TLS could not be set up.
    Tls,
    /// The response is not valid.
    Response,
}

/// An error of the client.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why}")]
pub struct ClientError {
    /// What is wrong.
    pub fault: Fault,
    /// The reason.
    pub why: String,
}

/// A client of one server.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    /// The address without the user.
    url: String,
    authorization: Option<HeaderValue>,
    patience: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password must not get into a log.
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Prepares requests to a URL. A whole request may take the time `patience`.
    ///
    /// # Errors
    /// Returns an error if the URL or the certificates cannot be used.
    pub fn new(url: &str, access: &Access, patience: Duration) -> Result<Self, ClientError> {
        let wrong = |why: &str| ClientError {
            fault: Fault::Url,
            why: why.to_owned(),
        };
        let uri: Uri = url.parse().map_err(|_| wrong("it is not a URL"))?;
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("it begins with neither http:// nor https://")),
        };
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        let authorization = match (user, &access.secret) {
            (Some(pair), None) if pair.contains(':') => {
                Some(format!("Basic {}", STANDARD.encode(pair)))
            }
            (Some(user), secret) => {
                let pair = format!("{user}:{}", secret.as_deref().unwrap_or_default());
                Some(format!("Basic {}", STANDARD.encode(pair)))
            }
            (None, Some(token)) => Some(format!("Bearer {token}")),
            (None, None) => None,
        };
        let header = |text: String| {
            HeaderValue::from_str(&text)
                .map_err(|_| wrong("the password or token has a control character"))
        };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // No redirect is followed, because the password is for this server only.
            .max_redirects(0)
            .proxy(None)
            .accept("application/json")
            .user_agent(concat!("ibnet/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(patience));
        if is_tls {
            config = config.tls_config(tls(access.ca_file.as_deref())?);
        }
        Ok(Self {
            agent: config.build().into(),
            url: without_user(url),
            authorization: authorization.map(header).transpose()?,
            patience,
        })
    }

    /// Returns the address without the user.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Gets a path below the URL. Returns the status and the body.
    ///
    /// # Errors
    /// Returns an error if there is no whole response.
    pub fn get(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<(u16, Vec<u8>), ClientError> {
        let mut request = self
            .agent
            .get(format!("{}{path}", self.url.trim_end_matches('/')))
            .query_pairs(parameters.iter().copied());
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let failed = |error| self.failed(error);
        let mut response = request.call().map_err(failed)?;
        let body = response.body_mut().with_config().limit(MAX);
        let body = body.read_to_vec().map_err(failed)?;
        Ok((response.status().as_u16(), body))
    }

    /// Posts JSON to the URL. Returns the status; the body of the response is not read.
    ///
    /// # Errors
    /// Returns an error if there is no response.
    pub fn post(&self, json: &[u8]) -> Result<u16, ClientError> {
        let mut request = self
            .agent
            .post(&self.url)
            .header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let response = request.send(json).map_err(|error| self.failed(error))?;
        Ok(response.status().as_u16())
    }

    fn failed(&self, error: Error) -> ClientError {
        let why = match &error {
            Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
                "the connection setup takes too long".to_owned()
            }
            Error::Timeout(_) => format!("no response within {} s", self.patience.as_secs()),
            Error::Io(error) => error.to_string(),
            error => error.to_string(),
        };
        let fault = match &error {
            Error::Timeout(_) | Error::HostNotFound | Error::ConnectionFailed => Fault::Unreachable,
            Error::Io(error) => match error
                .get_ref()
                .is_some_and(|inner| inner.is::<rustls::Error>())
            {
                true => Fault::Tls,
                false => Fault::Unreachable,
            },
            Error::Rustls(_) | Error::Tls(_) => Fault::Tls,
            _ => Fault::Response,
        };
        ClientError { fault, why }
    }
}

/// Returns a configuration that trusts the certificates of a file. Without a file it trusts those
/// of this system, or those of `SSL_CERT_FILE`.
fn tls(ca_file: Option<&Path>) -> Result<TlsConfig, ClientError> {
    let roots: Vec<_> = match ca_file {
        Some(path) => {
            let wrong = |why: String| ClientError {
                fault: Fault::Authority,
                why,
            };
            let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
            let items = parse_pem(&text)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| wrong(error.to_string()))?;
            let roots: Vec<_> = items
                .into_iter()
                .filter_map(|item| match item {
                    PemItem::Certificate(found) => Some(found),
                    _ => None,
                })
                .collect();
            if roots.is_empty() {
                return Err(wrong("it has no certificate".to_owned()));
            }
            roots
        }
        None => rustls_native_certs::load_native_certs()
            .certs
            .iter()
            .map(|found| Certificate::from_der(found).to_owned())
            .collect(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(provider)
        .build())
}

/// Returns a URL without the user and the password.
pub fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    format!(
        "{scheme}://{}{path}",
        authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_of_the_url_is_not_shown_and_gets_the_password() {
        let client = |url: &str| {
            let access = Access {
                secret: Some("x".to_owned()),
                ca_file: None,
            };
            Client::new(url, &access, Duration::from_secs(1))
        };
        let made = client("https://user@[::1]/prometheus/").expect("a URL");
        let authorization = made.authorization.as_ref().expect("one");
        assert_eq!(
            (made.url(), authorization.to_str().expect("text")),
            ("https://[::1]/prometheus/", "Basic dXNlcjp4")
        );
        for url in ["", "no url", "http://", "ftp://host", "host:9090"] {
            let fault = client(url).map(|_| ()).expect_err(url).fault;
            assert_eq!(fault, Fault::Url, "{url}");
        }
    }
}
