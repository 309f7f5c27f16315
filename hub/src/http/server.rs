//! Connections and their limits.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ibnet::metrics::Secrets;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Largest number of simultaneous connections. Further connections wait in the queue of the kernel.
const MOST_CONNECTIONS: usize = 512;

/// Time limit of the TLS handshake, and of the header of a request.
const HEADER: Duration = Duration::from_secs(10);

/// Largest size of a request in octets.
const LONGEST_REQUEST: usize = 16 << 10;

/// Pause after a failed accept, such as when no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Certificate and password, shared by all connections.
#[derive(Clone, Debug)]
pub(crate) struct Access(Arc<Mutex<Secrets>>);

impl Access {
    /// Creates the access control.
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self(Arc::new(Mutex::new(secrets)))
    }

    /// Locks the secrets. They stay valid if a thread panics.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Secrets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bound address.
pub(crate) struct Server {
    listener: TcpListener,
    local: SocketAddr,
    access: Access,
}

impl Server {
    /// Binds the address.
    pub(crate) async fn bind(listen: SocketAddr, secrets: Secrets) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let local = listener.local_addr()?;
        Ok(Self { listener, local, access: Access::new(secrets) })
    }

    /// Returns the bound address.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.local
    }

    /// Returns the access control.
    pub(crate) fn access(&self) -> Access {
        self.access.clone()
    }

    /// Serves until the task is dropped.
    pub(crate) async fn serve(self, router: Router) {
        let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (router, access) = (router.clone(), self.access.clone());
            tokio::spawn(async move {
                handle(stream, router, &access).await;
                drop(permit);
            });
        }
    }
}

async fn handle(stream: TcpStream, router: Router, access: &Access) {
    // A frame is sent at once. Without this option, its last packet waits for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let tls = {
        let mut secrets = access.lock();
        secrets.refresh();
        secrets.tls()
    };
    match tls {
        None => serve_http(stream, router).await,
        Some(tls) => {
            // Clients that are too slow or do not use TLS are dropped without a log message.
            if let Ok(Ok(stream)) = timeout(HEADER, tls.accept(stream)).await {
                serve_http(stream, router).await;
            }
        }
    }
}

async fn serve_http(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER).max_buf_size(LONGEST_REQUEST);
    // Clients that disconnect are not logged.
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).with_upgrades().await;
}
