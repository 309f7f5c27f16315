//! GET requests to Prometheus, with TLS and authentication if necessary.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ibnet_analysis::host_metrics::{HostMetricsError, Server};
use rustls::crypto::ring;
use ureq::http::Uri;
use ureq::http::header::{AUTHORIZATION, HeaderValue};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Error, Timeout};

/// Max time for setting up a connection, and below, for a whole request.
const CONNECT: Duration = Duration::from_secs(10);
const WHOLE: Duration = Duration::from_secs(300);

/// Max size of a response in bytes, which is about 100,000 series of an hour at 15 s.
const MAX: u64 = 1 << 30;

/// What a connection to Prometheus needs besides the address.
#[derive(Clone, Default)]
pub(crate) struct Access {
    /// Password of the user in the URL (basic authentication), or a bearer token if the URL has
    /// no user.
    pub(crate) secret: Option<String>,
    /// PEM file with the certificates to trust instead of those of the system.
    pub(crate) ca_file: Option<PathBuf>,
}

/// A server with the API of Prometheus.
pub(crate) struct HttpServer {
    agent: Agent,
    /// The address without the user.
    url: String,
    authorization: Option<HeaderValue>,
}

impl HttpServer {
    pub(crate) fn new(url: &str, access: &Access) -> Result<Self, HostMetricsError> {
        let wrong = |why: &str| HostMetricsError::Url {
            url: without_user(url),
            why: why.to_owned(),
        };
        let uri: Uri = url.parse().map_err(|_| wrong("it is not a URL"))?;
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        if user.is_some_and(|user| user.contains(':')) {
            return Err(wrong(
                "it has a password, which other users of this machine can see; use --host-metrics-password-file",
            ));
        }
        if uri.query().is_some() {
            return Err(wrong("it has a query after `?`"));
        }
        let authorization = match (user, &access.secret) {
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
        let is_tls = uri.scheme_str() == Some("https");
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // No redirect is followed, because the password is for this server only.
            .max_redirects(0)
            .proxy(None)
            .accept("application/json")
            .user_agent(concat!("ibnet-view/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(WHOLE));
        if is_tls {
            config = config.tls_config(tls(access.ca_file.as_deref())?);
        }
        Ok(Self {
            agent: config.build().into(),
            url: without_user(url),
            authorization: authorization.map(header).transpose()?,
        })
    }

    fn failed(&self, error: Error) -> HostMetricsError {
        let url = self.url.clone();
        match error {
            Error::Timeout(Timeout::Resolve | Timeout::Connect) => HostMetricsError::Unreachable {
                url,
                why: "the connection setup takes too long".to_owned(),
            },
            Error::Timeout(_) => HostMetricsError::Unreachable {
                url,
                why: format!("no response within {} s", WHOLE.as_secs()),
            },
            Error::Io(error) => match error
                .get_ref()
                .is_some_and(|inner| inner.is::<rustls::Error>())
            {
                true => HostMetricsError::Tls {
                    url,
                    why: error.to_string(),
                },
                false => HostMetricsError::Unreachable {
                    url,
                    why: error.to_string(),
                },
            },
            Error::Rustls(_) | Error::Tls(_) => HostMetricsError::Tls {
                url,
                why: error.to_string(),
            },
            Error::HostNotFound | Error::ConnectionFailed => HostMetricsError::Unreachable {
                url,
                why: error.to_string(),
            },
            error => HostMetricsError::Response {
                url,
                why: error.to_string(),
            },
        }
    }
}

impl Server for HttpServer {
    fn url(&self) -> &str {
        &self.url
    }

    fn get(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<(u16, Vec<u8>), HostMetricsError> {
        let mut request = self
            .agent
            .get(format!("{}{path}", self.url.trim_end_matches('/')))
            .query_pairs(parameters.iter().copied());
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let mut response = request.call().map_err(|error| self.failed(error))?;
        let body = response
            .body_mut()
            .with_config()
            .limit(MAX)
            .read_to_vec()
            .map_err(|error| self.failed(error))?;
        Ok((response.status().as_u16(), body))
    }
}

/// Returns a configuration that trusts the certificates of a file. Without a file it trusts those
/// of this system, or those of `SSL_CERT_FILE`.
fn tls(ca_file: Option<&Path>) -> Result<TlsConfig, HostMetricsError> {
    let roots: Vec<_> = match ca_file {
        Some(path) => {
            let wrong = |why: String| HostMetricsError::Authority {
                path: path.display().to_string(),
                why,
            };
            let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
            let items = parse_pem(&text)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| wrong(error.to_string()))?;
            items
                .into_iter()
                .filter_map(|item| {
                    if let PemItem::Certificate(found) = item {
                        Some(found)
                    } else {
                        None
                    }
                })
                .collect()
        }
        None => rustls_native_certs::load_native_certs()
            .certs
            .iter()
            .map(|found| Certificate::from_der(found).to_owned())
            .collect(),
    };
    if let Some(path) = ca_file.filter(|_| roots.is_empty()) {
        return Err(HostMetricsError::Authority {
            path: path.display().to_string(),
            why: "it has no certificate".to_owned(),
        });
    }
    let provider = Arc::new(ring::default_provider());
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(provider)
        .build())
}

fn without_user(url: &str) -> String {
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
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use tokio::net::TcpSocket;

    use super::*;

    #[test]
    fn password_in_the_address_is_refused_and_not_shown() {
        for url in [
            "http://u:secret@h:9090",
            "http://h/?a=b",
            "http://",
            "not a url",
        ] {
            let error = HttpServer::new(url, &Access::default())
                .err()
                .unwrap()
                .to_string();
            assert!(
                error.contains("cannot use") && !error.contains("secret@"),
                "{error}"
            );
        }
        let server = HttpServer::new(
            "https://user@[::1]/prometheus/",
            &Access {
                secret: Some("x".to_owned()),
                ca_file: None,
            },
        )
        .unwrap();
        assert_eq!(
            (
                server.url(),
                server.authorization.as_ref().unwrap().to_str().unwrap()
            ),
            ("https://[::1]/prometheus/", "Basic dXNlcjp4")
        );
    }

    #[test]
    fn request_has_the_token_and_its_response_is_returned() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let request = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap())
                .lines()
                .map(Result::unwrap)
                .take_while(|line| !line.is_empty())
                .collect::<Vec<_>>();
            // Redirects are not followed: the password is for this server only.
            let head =
                "HTTP/1.1 302 X\r\nLocation: /b\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
            stream.write_all(format!("{head}{{}}").as_bytes()).unwrap();
            lines.join("\n")
        });
        let access = Access {
            secret: Some("token".to_owned()),
            ca_file: None,
        };
        let server = HttpServer::new(&url, &access).unwrap();
        let parameters = [("query", "{a=\"b\"}[610s]"), ("match[]", "x")];
        let (status, body) = server.get("/api", &parameters).unwrap();
        assert_eq!((status, &*body), (302, &b"{}"[..]));
        let request = request.join().unwrap();
        assert!(
            request
                .starts_with("GET /api?query=%7Ba%3D%22b%22%7D%5B610s%5D&match%5B%5D=x HTTP/1.1")
                && request.contains("authorization: Bearer token"),
            "{request}"
        );
    }

    #[test]
    fn refused_connection_has_a_message() {
        // The port belongs to this socket, which does not listen.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let server = HttpServer::new(&url, &Access::default()).unwrap();
        let error = server.get("/api", &[]).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "cannot reach Prometheus at {url}: Connection refused"
            )),
            "{error}"
        );
    }
}
