//! The HTTP server for `/metrics` and `/healthz`, on its own thread.
//!
//! Each connection serves one request. [`http_limits`](crate::http_limits) limits the number and
//! the duration of connections, so that connections without a valid password never take the places
//! of those with one. The size of a request is limited too.

use std::collections::BTreeSet;
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

use super::page::Variant;
use super::secrets::{Secrets, SecretsError};
use super::{Metrics, Settings, lock};
use crate::http_limits::{Gate, Limits, Visitor};

/// Max size of a request in bytes.
const LONGEST_REQUEST: usize = 16 << 10;

/// Pause after a failed accept, for example when no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Max number of rejected addresses that are logged.
const MAX_REJECTED: usize = 64;

const PLAIN: &str = "text/plain; charset=utf-8";

/// Error of the metrics server.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ServerError {
    /// The address cannot be bound.
    #[error("cannot listen on {listen} for metrics")]
    #[diagnostic(help(
        "another program may use the address (see `ss -ltnp`), or the address does not belong to this host; set metrics.listen to a free address of this host"
    ))]
    Listen {
        /// Address of `metrics.listen`.
        listen: SocketAddr,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Certificate, key or password cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Secrets(#[from] SecretsError),
    /// The server thread cannot be started.
    #[error("cannot start the thread of the metrics server")]
    Thread(#[source] io::Error),
}

/// A server whose address is bound. [`start`](Self::start) starts to serve.
pub struct Server {
    listener: TcpListener,
    settings: Settings,
    secrets: Secrets,
    local: SocketAddr,
    limits: Limits,
}

/// State shared by all connections.
struct Endpoint {
    metrics: Arc<Metrics>,
    /// Whether the configuration permits clients of other networks without TLS and without a
    /// password.
    plain_http: bool,
    secrets: Mutex<Secrets>,
}

impl Server {
    /// Binds the address and reads certificate, key and password.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound or a file cannot be used.
    pub fn bind(settings: &Settings) -> Result<Self, ServerError> {
        let secrets = Secrets::read(settings)?;
        let failed = |source| ServerError::Listen {
            listen: settings.listen,
            source,
        };
        let listener = TcpListener::bind(settings.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            settings: settings.clone(),
            secrets,
            local,
            limits: Limits::default(),
        })
    }

    /// Sets the limits of the connections. Tests set time limits that even a slow machine does
    /// not exceed.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the bound address.
    pub fn address(&self) -> SocketAddr {
        self.local
    }

    /// Serves on its own thread until the process ends.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(self, metrics: Arc<Metrics>) -> Result<(), ServerError> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ServerError::Thread)?;
        let scheme = if self.secrets.tls().is_some() {
            "https"
        } else {
            "http"
        };
        tracing::info!(url = %format_args!("{scheme}://{}/metrics", self.local), "serving metrics");
        if !self.settings.plain_http.is_empty() {
            let networks: Vec<_> = self
                .settings
                .plain_http
                .iter()
                .map(ToString::to_string)
                .collect();
            tracing::warn!(
                plain_http = %networks.join(","),
                password = self.secrets.has_password(),
                "metrics are not encrypted: every host of these networks can read host names and traffic"
            );
        }
        let work = move || {
            if let Err(error) = runtime.block_on(self.serve(metrics)) {
                tracing::error!(%error, "the metrics server has stopped; scrapes fail until ibnet-sweep is restarted");
            }
        };
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(work)
            .map(|_| ())
            .map_err(ServerError::Thread)
    }

    async fn serve(self, metrics: Arc<Metrics>) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let plain_http = !self.settings.plain_http.is_empty();
        let endpoint = Arc::new(Endpoint {
            metrics,
            plain_http,
            secrets: Mutex::new(self.secrets),
        });
        let gate = Gate::new(self.limits);
        let mut rejected = BTreeSet::new();
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection for metrics");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if !self.settings.admits(peer.ip()) {
                if rejected.len() < MAX_REJECTED && rejected.insert(peer.ip()) {
                    tracing::warn!(client = %peer.ip().to_canonical(), "rejected a client of the metrics: it is not in a network of metrics.plain_http");
                }
                continue;
            }
            let connection = gate.connect(peer.ip()).await;
            let work = Arc::clone(&endpoint).handle_connection(stream, connection.visitor());
            // Clients that are too slow or do not use TLS are disconnected without a log message.
            tokio::spawn(connection.run(work));
        }
    }
}

impl Endpoint {
    async fn handle_connection(self: Arc<Self>, stream: tokio::net::TcpStream, visitor: Visitor) {
        let tls = {
            let mut secrets = lock(&self.secrets);
            secrets.refresh();
            secrets.tls()
        };
        match tls {
            None => self.serve_http(stream, visitor).await,
            Some(tls) => {
                if let Ok(stream) = tls.accept(stream).await {
                    self.serve_http(stream, visitor).await;
                }
            }
        }
    }

    async fn serve_http(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        visitor: Visitor,
    ) {
        let service = service_fn(move |request| {
            let (endpoint, visitor) = (Arc::clone(&self), visitor.clone());
            async move { Ok::<_, Infallible>(endpoint.answer(&request, &visitor)) }
        });
        let mut http = http1::Builder::new();
        let _ = http
            .keep_alive(false)
            .max_buf_size(LONGEST_REQUEST)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    fn answer(&self, request: &Request<Incoming>, visitor: &Visitor) -> Response<Full<Bytes>> {
        let answer = match self.refusal(request.headers()) {
            Some(refusal) => refusal,
            None => {
                visitor.admit();
                self.answer_to(request)
            }
        };
        let mut response = Response::new(Full::new(answer.body));
        *response.status_mut() = answer.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(answer.content),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        if let Some(Variant { gzip, .. }) = answer.variant {
            headers.insert(
                header::VARY,
                HeaderValue::from_static("accept, accept-encoding"),
            );
            if gzip {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
        }
        match answer.status {
            StatusCode::UNAUTHORIZED => headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"ibnet\""),
            ),
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"))
            }
            _ => None,
        };
        response
    }

    /// Returns the answer to a request that may not read the metrics, or `None` for other requests.
    fn refusal(&self, headers: &HeaderMap) -> Option<Answer> {
        let secrets = lock(&self.secrets);
        if !secrets.has_password()
            && !self.plain_http
            && !headers.get_all(header::HOST).iter().all(is_loopback_host)
        {
            // Protects against DNS rebinding: a hostile web site can make its own name resolve to
            // the loopback address. A browser on this host then sends the requests of this site
            // to this server, but their `Host` header contains the name of the site.
            return Some(Answer::plain(
                StatusCode::MISDIRECTED_REQUEST,
                "use localhost or a loopback address as the host name\n",
            ));
        }
        let authorization = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let is_authorized = secrets.authorizes(authorization);
        (!is_authorized)
            .then(|| Answer::plain(StatusCode::UNAUTHORIZED, "a password is required\n"))
    }

    fn answer_to(&self, request: &Request<Incoming>) -> Answer {
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/metrics") => {
                let variant = Variant::of(request.headers());
                let content = variant.format.content_type();
                Answer {
                    status: StatusCode::OK,
                    content,
                    variant: Some(variant),
                    body: self.metrics.page(variant),
                }
            }
            (&Method::GET | &Method::HEAD, "/healthz") if self.metrics.is_healthy() => {
                Answer::plain(StatusCode::OK, "ok\n")
            }
            (&Method::GET | &Method::HEAD, "/healthz") => Answer::plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "no slot ended recently, or the transport is closed\n",
            ),
            (&Method::GET | &Method::HEAD, "/") => {
                let body = format!(
                    "ibnet-sweep\n\n/metrics   {}\n/healthz\n",
                    self.metrics.size()
                );
                Answer {
                    status: StatusCode::OK,
                    content: PLAIN,
                    variant: None,
                    body: body.into(),
                }
            }
            (&Method::GET | &Method::HEAD, _) => Answer::plain(
                StatusCode::NOT_FOUND,
                "not found: use /metrics or /healthz\n",
            ),
            _ => Answer::plain(StatusCode::METHOD_NOT_ALLOWED, "use GET or HEAD\n"),
        }
    }
}

struct Answer {
    status: StatusCode,
    content: &'static str,
    /// Variant of the metrics. `None` for all other answers.
    variant: Option<Variant>,
    body: Bytes,
}

impl Answer {
    fn plain(status: StatusCode, body: &'static str) -> Self {
        Self {
            status,
            content: PLAIN,
            variant: None,
            body: Bytes::from_static(body.as_bytes()),
        }
    }
}

/// Returns whether the value of a `Host` header is `localhost` or a loopback address.
fn is_loopback_host(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else {
        return false;
    };
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
    use super::*;

    #[test]
    fn only_loopback_names_are_accepted_as_host() {
        for host in [
            "localhost",
            "localhost:9315",
            "LocalHost:1",
            "127.0.0.1",
            "127.0.0.1:9315",
            "127.9.9.9:1",
            "[::1]",
            "[::1]:9315",
        ] {
            assert!(is_loopback_host(&HeaderValue::from_static(host)), "{host}");
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
            assert!(!is_loopback_host(&HeaderValue::from_static(host)), "{host}");
        }
        let foreign = HeaderValue::from_bytes(b"localhost\xff").expect("a header value");
        assert!(!is_loopback_host(&foreign), "a name that is not ASCII");
    }
}
