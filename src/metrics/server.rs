//! HTTP: `/metrics` and `/healthz`, on a thread of its own. One request a connection, each bounded in size and time, and few at once.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use miette::Diagnostic;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime;
use tokio::sync::Semaphore;

use super::secrets::{Secrets, SecretsError};
use super::{Metrics, Settings, lock};

/// Connections at once; further ones wait in the kernel.
const MOST_CONNECTIONS: usize = 16;

/// A connection has this long, from its first octet to the last of the answer.
const CONNECTION: Duration = Duration::from_secs(10);

/// Octets of a request.
const LONGEST_REQUEST: usize = 16 << 10;

/// When nothing can be accepted, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(200);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Why metrics cannot be served.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ServerError {
    /// Nobody can listen there.
    #[error("metrics.listen: cannot listen on {listen}")]
    #[diagnostic(help(
        "is another program listening there (`ss -ltnp`), or is it no address of this host? Give another with metrics.listen"
    ))]
    Listen {
        /// Where.
        listen: SocketAddr,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// A file that keeps nobody out.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Secrets(#[from] SecretsError),
    /// There is no thread or no timer for it.
    #[error("metrics: their thread could not be started")]
    Thread(#[source] io::Error),
}

/// A listener that nobody is served by yet.
pub struct Server {
    listener: TcpListener,
    secrets: Secrets,
    local: SocketAddr,
}

/// What every connection knows.
struct Door {
    metrics: Arc<Metrics>,
    secrets: Mutex<Secrets>,
}

impl Server {
    /// Listens, and reads what keeps others out.
    ///
    /// # Errors
    /// When the address is taken or a file cannot be used.
    pub fn bind(settings: &Settings) -> Result<Self, ServerError> {
        let secrets = Secrets::read(settings)?;
        let failed = |source| ServerError::Listen { listen: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, secrets, local })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.local
    }

    /// Serves on a thread of its own until the process ends.
    ///
    /// # Errors
    /// When there can be no such thread.
    pub fn start(self, metrics: Arc<Metrics>) -> Result<(), ServerError> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(ServerError::Thread)?;
        let scheme = if self.secrets.tls().is_some() { "https" } else { "http" };
        tracing::info!("metrics are served at {scheme}://{}/metrics", self.local);
        let work = move || {
            if let Err(error) = runtime.block_on(self.serve(metrics)) {
                tracing::error!(%error, "metrics are not served any more");
            }
        };
        thread::Builder::new().name("metrics".to_owned()).spawn(work).map(|_| ()).map_err(ServerError::Thread)
    }

    async fn serve(self, metrics: Arc<Metrics>) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let door = Arc::new(Door { metrics, secrets: Mutex::new(self.secrets) });
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            // It is never closed.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "metrics: nobody can be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let door = Arc::clone(&door);
            tokio::spawn(async move {
                // Who is too slow, or speaks no TLS, is left alone; it is no news.
                let _ = tokio::time::timeout(CONNECTION, door.welcome(stream)).await;
                drop(place);
            });
        }
    }
}

impl Door {
    async fn welcome(self: Arc<Self>, stream: tokio::net::TcpStream) {
        let tls = {
            let mut secrets = lock(&self.secrets);
            secrets.refresh();
            secrets.tls()
        };
        match tls {
            None => self.converse(stream).await,
            Some(tls) => {
                if let Ok(stream) = tls.accept(stream).await {
                    self.converse(stream).await;
                }
            }
        }
    }

    async fn converse(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service = service_fn(move |request| {
            let door = Arc::clone(&self);
            async move { Ok::<_, Infallible>(door.answer(&request)) }
        });
        let mut http = http1::Builder::new();
        let _ = http.keep_alive(false).max_buf_size(LONGEST_REQUEST).serve_connection(TokioIo::new(stream), service).await;
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let answer = self.answer_to(request.method(), request.uri().path(), request.headers());
        let mut response = Response::new(Full::new(answer.body));
        *response.status_mut() = answer.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        match answer.status {
            StatusCode::UNAUTHORIZED => headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"ibnet\"")),
            StatusCode::METHOD_NOT_ALLOWED => headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD")),
            _ => None,
        };
        response
    }

    fn answer_to(&self, method: &Method, path: &str, headers: &HeaderMap) -> Answer {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let secrets = lock(&self.secrets);
        if !secrets.has_password() && !text(header::HOST).is_none_or(is_this_host) {
            // A page of somewhere else made a browser of this host ask, by a name that it turned into our address.
            return Answer::plain(StatusCode::MISDIRECTED_REQUEST, "ask by localhost or a loopback address\n");
        }
        if !secrets.admit(text(header::AUTHORIZATION)) {
            return Answer::plain(StatusCode::UNAUTHORIZED, "a password is needed\n");
        }
        drop(secrets);
        match (method, path) {
            (&Method::GET | &Method::HEAD, "/metrics") => {
                Answer { status: StatusCode::OK, content: OPEN_METRICS, body: self.metrics.text() }
            }
            (&Method::GET | &Method::HEAD, "/healthz") if self.metrics.is_healthy() => Answer::plain(StatusCode::OK, "ok\n"),
            (&Method::GET | &Method::HEAD, "/healthz") => {
                Answer::plain(StatusCode::SERVICE_UNAVAILABLE, "no slot ended lately, or there is no way to the fabric\n")
            }
            (&Method::GET | &Method::HEAD, "/") => Answer::plain(StatusCode::OK, "ibnet-sweep: /metrics /healthz\n"),
            (&Method::GET | &Method::HEAD, _) => Answer::plain(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n"),
            _ => Answer::plain(StatusCode::METHOD_NOT_ALLOWED, "GET only\n"),
        }
    }
}

struct Answer {
    status: StatusCode,
    content: &'static str,
    body: Bytes,
}

impl Answer {
    fn plain(status: StatusCode, body: &'static str) -> Self {
        Self { status, content: PLAIN, body: Bytes::from_static(body.as_bytes()) }
    }
}

/// Whether a `Host` header names this host by loopback.
fn is_this_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_called_by_loopback_only() {
        for host in ["localhost", "localhost:9315", "LocalHost:1", "127.0.0.1", "127.0.0.1:9315", "127.9.9.9:1", "[::1]", "[::1]:9315"] {
            assert!(is_this_host(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example:9315",
            "10.0.0.1:9315",
            "127.0.0.1.evil.example",
            "[::2]:1",
            "0.0.0.0",
            "@127.0.0.1",
        ] {
            assert!(!is_this_host(host), "{host}");
        }
    }
}
