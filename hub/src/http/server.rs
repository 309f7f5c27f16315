//! Connections and their limits.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Largest number of simultaneous connections. Further connections wait in the queue of the kernel.
const MOST_CONNECTIONS: usize = 512;

/// Time in which the header of a request must arrive.
const HEADER: Duration = Duration::from_secs(10);

/// Largest size of a request in octets.
const LONGEST_REQUEST: usize = 16 << 10;

/// Pause after a failed accept, such as when no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A bound address.
pub(crate) struct Server {
    listener: TcpListener,
    local: SocketAddr,
}

impl Server {
    /// Binds the address.
    pub(crate) async fn bind(listen: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let local = listener.local_addr()?;
        Ok(Self { listener, local })
    }

    /// Returns the bound address.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.local
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
            let router = router.clone();
            tokio::spawn(async move {
                prepare(&stream);
                serve_http(stream, router).await;
                drop(permit);
            });
        }
    }
}

fn prepare(stream: &TcpStream) {
    // Frames are sent at once. Without the option they only arrive later.
    let _ = stream.set_nodelay(true);
}

async fn serve_http(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER).max_buf_size(LONGEST_REQUEST);
    // Clients that disconnect are not logged.
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).with_upgrades().await;
}
