//! GET requests to Prometheus over HTTP/1.1, with TLS and a password if necessary.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderValue, USER_AGENT};
use hyper::rt::{Read, Write};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::error::HostMetricsError;

/// Longest time of a connection setup, and of a whole request.
const CONNECT: Duration = Duration::from_secs(10);
const WHOLE: Duration = Duration::from_secs(300);

/// Largest response in octets. 100,000 series of an hour at 15 s have about this size.
const MOST: usize = 1 << 30;

/// What a connection to Prometheus needs besides its address.
#[derive(Clone, Default)]
pub struct Access {
    /// With a user in the URL, the password of this user (basic authentication). Without a user, a
    /// bearer token.
    pub secret: Option<String>,
    /// PEM file of the certificates that are trusted, instead of those of the system.
    pub ca_file: Option<PathBuf>,
}

/// A server.
pub(super) struct Server {
    runtime: Runtime,
    /// The address without the user.
    url: String,
    host: String,
    port: u16,
    /// Path before `/api/v1`.
    prefix: String,
    tls: Option<TlsConnector>,
    authorization: Option<HeaderValue>,
}

impl Server {
    pub(super) fn new(url: &str, access: &Access) -> Result<Self, HostMetricsError> {
        let wrong = |why: String| HostMetricsError::Url { url: without_user(url), why };
        let uri: Uri = url.parse().map_err(|_| wrong("it is not a URL".to_owned()))?;
        let is_tls = uri.scheme_str() == Some("https");
        let authority = uri.authority().ok_or_else(|| wrong("it has no host".to_owned()))?;
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        if user.is_some_and(|user| user.contains(':')) {
            return Err(wrong("it has a password, which other users of this machine can see; use --host-metrics-password-file".to_owned()));
        }
        if uri.query().is_some() {
            return Err(wrong("it has a query after `?`".to_owned()));
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
            let mut value = HeaderValue::from_str(&text).map_err(|_| wrong("the password or token has a control character".to_owned()))?;
            value.set_sensitive(true);
            Ok::<_, HostMetricsError>(value)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self {
            runtime: runtime.map_err(|error| wrong(format!("no runtime for the connection: {error}")))?,
            url: without_user(url),
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            tls: is_tls.then(|| connector(access.ca_file.as_deref())).transpose()?,
            authorization: authorization.map(header).transpose()?,
        })
    }

    /// Returns the address without the user.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Sends a GET request. Returns the status and the body.
    pub(super) fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<(u16, Bytes), HostMetricsError> {
        let unreachable = |why: String| HostMetricsError::Unreachable { url: self.url.clone(), why };
        let late = |_| unreachable(format!("no response within {} s", WHOLE.as_secs()));
        self.runtime.block_on(async { tokio::time::timeout(WHOLE, self.send(path, parameters)).await.map_err(late)? })
    }

    async fn send(&self, path: &str, parameters: &[(&str, &str)]) -> Result<(u16, Bytes), HostMetricsError> {
        let unreachable = |why: String| HostMetricsError::Unreachable { url: self.url.clone(), why };
        let connecting = tokio::time::timeout(CONNECT, TcpStream::connect((&*self.host, self.port))).await;
        let stream = connecting.map_err(|_| unreachable("the connection setup takes too long".to_owned()))?;
        let stream = stream.map_err(|error| unreachable(error.to_string()))?;
        let query: Vec<String> = parameters.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value))).collect();
        let mut request = Request::get(format!("{}{path}?{}", self.prefix, query.join("&")))
            .header(HOST, format!("{}:{}", self.host, self.port))
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("ibnet-view/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::new()).map_err(|error| unreachable(error.to_string()))?;
        let Some(tls) = &self.tls else { return self.exchange(TokioIo::new(stream), request).await };
        let name = ServerName::try_from(self.host.clone()).map_err(|error| unreachable(error.to_string()))?;
        let stream =
            tls.connect(name, stream).await.map_err(|error| HostMetricsError::Tls { url: self.url.clone(), why: error.to_string() })?;
        self.exchange(TokioIo::new(stream), request).await
    }

    async fn exchange<T>(&self, io: T, request: Request<Empty<Bytes>>) -> Result<(u16, Bytes), HostMetricsError>
    where
        T: Read + Write + Unpin + Send + 'static,
    {
        let broken = |error: &dyn std::fmt::Display| HostMetricsError::Response { url: self.url.clone(), why: error.to_string() };
        let (mut sender, connection) = http1::handshake(io).await.map_err(|error| broken(&error))?;
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MOST).collect().await.map_err(|error| broken(&error))?;
        connection.abort();
        Ok((status, body.to_bytes()))
    }
}

/// Returns a connector that trusts the certificates of a file. Without a file it trusts those of this
/// system, or those of `SSL_CERT_FILE`.
fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, HostMetricsError> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            let wrong = |why: String| HostMetricsError::Authority { path: path.display().to_string(), why };
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(wrong("it has no certificate".to_owned()));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(TlsConnector::from(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())))
}

/// Returns the URL without the user and a password.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    format!("{scheme}://{}{path}", authority.rsplit_once('@').map_or(authority, |(_, host)| host))
}

/// Escapes a value of a query (RFC 3986, 2.1).
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for octet in text.bytes() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(octet.into()),
            _ => escaped += &format!("%{octet:02X}"),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_in_the_address_is_refused_and_not_shown() {
        for url in ["http://u:secret@h:9090", "http://h/?a=b", "http://", "not a url"] {
            let error = Server::new(url, &Access::default()).err().unwrap().to_string();
            assert!(error.contains("cannot use") && !error.contains("secret@"), "{error}");
        }
        let server = Server::new("https://user@[::1]/prometheus/", &Access { secret: Some("x".to_owned()), ca_file: None }).unwrap();
        assert_eq!((server.url(), &*server.host, server.port, &*server.prefix), ("https://[::1]/prometheus/", "::1", 443, "/prometheus"));
        assert_eq!(server.authorization.unwrap(), "Basic dXNlcjp4");
    }

    #[test]
    fn query_is_escaped() {
        assert_eq!(escaped("{a=~\"b.*\"}[1m] ü"), "%7Ba%3D~%22b.%2A%22%7D%5B1m%5D%20%C3%BC");
    }
}
