//! Accepts connections and limits them.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ibnet::http_limits::{Gate, Limits};
use ibnet::metrics::Secrets;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::users::Peer;

/// Time within which a client of the slot stream must accept a message, and any client at least
/// some bytes. Otherwise the connection is closed.
pub(crate) const SEND: Duration = Duration::from_secs(30);

/// Limits for the number and the duration of connections. The slot stream and large answers may
/// take any time.
const LIMITS: Limits = Limits {
    newcomers: 128,
    members: 512,
    newcomer_timeout: Duration::from_secs(10),
    member_timeout: None,
};

/// Time within which the header of a request must arrive.
const HEADER: Duration = Duration::from_secs(10);

/// Max size of a request in bytes.
const LONGEST_REQUEST: usize = 16 << 10;

/// Pause after a failed accept, for example when no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Certificate and password, shared by all connections.
#[derive(Clone, Debug)]
pub(crate) struct Access(Arc<Mutex<Secrets>>);

impl Access {
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self(Arc::new(Mutex::new(secrets)))
    }

    /// Locks the secrets. They stay valid even if a thread panics.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Secrets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bound address.
pub(crate) struct Server {
    listener: TcpListener,
    local: SocketAddr,
    access: Access,
    /// Time after which a client that accepts no bytes is disconnected.
    pub(crate) send_timeout: Duration,
}

impl Server {
    pub(crate) async fn bind(listen: SocketAddr, secrets: Secrets) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let local = listener.local_addr()?;
        Ok(Self {
            listener,
            local,
            access: Access::new(secrets),
            send_timeout: SEND,
        })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn access(&self) -> Access {
        self.access.clone()
    }

    /// Serves until the task is dropped.
    pub(crate) async fn serve(self, router: Router) {
        let gate = Gate::new(LIMITS);
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            set_send_timeout(&stream, self.send_timeout);
            let connection = gate.connect(peer.ip()).await;
            let router = router
                .clone()
                .layer(Extension(connection.visitor()))
                .layer(Extension(Peer(peer.ip())));
            let access = self.access.clone();
            // Clients that are too slow or do not use TLS are dropped without a log message.
            tokio::spawn(connection.run(async move { handle(stream, router, &access).await }));
        }
    }
}

/// Lets the kernel close a connection whose client accepts no bytes. A time limit for each
/// write would also hit slow clients, because a write continues only when a third of a large
/// buffer is free.
fn set_send_timeout(stream: &TcpStream, send_timeout: Duration) {
    let timeout_ms = u32::try_from(send_timeout.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, timeout_ms) {
        tracing::debug!(%error, "cannot set the time limit of a connection");
    }
}

async fn handle(stream: TcpStream, router: Router, access: &Access) {
    // Sends a frame at once. Without this option, its last packet would wait for an
    // acknowledgement.
    let _ = stream.set_nodelay(true);
    let tls = {
        let mut secrets = access.lock();
        secrets.refresh();
        secrets.tls()
    };
    match tls {
        None => serve_http(stream, router).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                serve_http(stream, router).await;
            }
        }
    }
}

async fn serve_http(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER)
        .max_buf_size(LONGEST_REQUEST);
    // Disconnects are not logged.
    let _ = http
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades()
        .await;
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::Mutex;

    use axum::body::Bytes;
    use axum::routing::get;
    use ibnet::http_limits::Visitor;
    use ibnet::metrics::{Content, Settings};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::oneshot;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;
    use crate::http::routes::router;
    use crate::query::tests::hub;

    const PASSWORD: &str = "a-password-of-the-test";

    fn file(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
        let path = folder.join(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("mode is set");
        path
    }

    /// Returns the status of an answer.
    async fn status(
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        authorization: &str,
    ) -> Option<u16> {
        let request = format!(
            "GET /api/v1/health HTTP/1.1\r\nHost: hub.example\r\n{authorization}Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        // A server may close a TLS connection without a closing message.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer)
            .split(' ')
            .nth(1)?
            .parse()
            .ok()
    }

    struct Answer {
        octets: Vec<u8>,
        _kept: Option<oneshot::Sender<()>>,
    }

    impl AsRef<[u8]> for Answer {
        fn as_ref(&self) -> &[u8] {
            &self.octets
        }
    }

    #[test]
    fn client_that_accepts_no_octets_keeps_no_answer() {
        // It ends when the server drops the answer.
        let (kept, ended) = oneshot::channel();
        let kept = Arc::new(Mutex::new(Some(kept)));
        let router = Router::new().route(
            "/",
            get(|Extension(visitor): Extension<Visitor>| async move {
                visitor.admit();
                Bytes::from_owner(Answer {
                    // Larger than the buffers of a connection.
                    octets: vec![0; 64 << 20],
                    _kept: kept.lock().expect("no panic").take(),
                })
            }),
        );
        let settings = crate::http::tests::settings();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut server =
                Server::bind(settings.listen, Secrets::read(&settings).expect("no files"))
                    .await
                    .expect("bound");
            server.send_timeout = Duration::from_secs(1);
            let address = server.address();
            tokio::spawn(server.serve(router));
            let mut client = TcpStream::connect(address).await.expect("connected");
            client
                .write_all(b"GET / HTTP/1.1\r\nHost: hub.example\r\n\r\n")
                .await
                .expect("written");
            let mut first = [0];
            client.read_exact(&mut first).await.expect("an answer");
            ended.await.expect_err("nothing is sent");
            drop(client);
        });
    }

    #[test]
    fn other_hosts_need_tls_and_the_password() {
        let folder = tempfile::tempdir().expect("a folder");
        let own =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let settings = Settings {
            prefix: "",
            listen: ([127, 0, 0, 1], 0).into(),
            tls: Some((
                file(folder.path(), "cert", &own.cert.pem()),
                file(folder.path(), "key", &own.signing_key.serialize_pem()),
            )),
            password_file: Some(file(folder.path(), "password", PASSWORD)),
            plain_http: Vec::new(),
            content: Content::default(),
        };
        let mut roots = RootCertStore::empty();
        roots.add(own.cert.der().clone()).expect("a root");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions();
        let config = config
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let server = Server::bind(
                settings.listen,
                Secrets::read(&settings).expect("valid files"),
            )
            .await
            .expect("bound");
            let address = server.address();
            let router = router(Arc::new(hub(&[])), server.access());
            tokio::spawn(server.serve(router));
            for (authorization, expected) in [
                (String::new(), Some(401)),
                (format!("Authorization: Bearer {PASSWORD}\r\n"), Some(200)),
                (format!("Authorization: Bearer {PASSWORD}x\r\n"), Some(401)),
                (
                    "Authorization: Basic aWJuZXQ6YS1wYXNzd29yZC1vZi10aGUtdGVzdA==\r\n".to_owned(),
                    Some(200),
                ),
            ] {
                let stream = TcpStream::connect(address).await.expect("connected");
                let stream = connector
                    .connect("localhost".try_into().expect("a name"), stream)
                    .await
                    .expect("TLS");
                assert_eq!(
                    status(stream, &authorization).await,
                    expected,
                    "{authorization}"
                );
            }
            let plain = TcpStream::connect(address).await.expect("connected");
            assert_eq!(status(plain, "").await, None, "HTTP without TLS");
        });
    }
}
