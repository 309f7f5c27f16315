//! The state that all handlers share, and the threads that compute answers.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use tokio::sync::Semaphore;

use super::answer::Answer;
use super::places::{Places, Weight};
use super::server::{Access, Peer};
use crate::query::error::ApiError;
use crate::query::evaluated::Evaluations;
use crate::query::groups::Passes;
use crate::state::Hub;

/// Largest number of clients of the stream of slots.
pub(crate) const CLIENTS: usize = 256;

/// Time in which a client of the stream of slots must accept a message. Then the connection is closed.
const SEND: Duration = Duration::from_secs(30);

/// State of all handlers.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) hub: Arc<Hub>,
    pub(crate) evaluations: Arc<Evaluations>,
    pub(crate) passes: Arc<Passes>,
    pub(crate) places: Places,
    pub(crate) clients: Arc<Semaphore>,
    /// Time in which a client of the stream must accept a message.
    pub(crate) send_timeout: Duration,
    pub(crate) access: Access,
}

/// What an answer depends on besides the query: the headers of the request, and the address of the
/// client.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) headers: HeaderMap,
    /// `None` if the request did not come over a connection, as in tests.
    address: Option<IpAddr>,
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let address = parts.extensions.get::<Peer>().map(|peer| peer.0);
        Ok(Self { headers: parts.headers.clone(), address })
    }
}

/// Result of a handler.
pub(crate) type Answered = Result<Response, ApiError>;

impl App {
    /// Creates the state of all handlers.
    pub(crate) fn new(hub: Arc<Hub>, access: Access) -> Self {
        Self {
            hub,
            evaluations: Arc::default(),
            passes: Arc::default(),
            places: Places::default(),
            clients: Arc::new(Semaphore::new(CLIENTS)),
            send_timeout: SEND,
            access,
        }
    }

    /// Computes the answer of a short query on a thread for blocking work.
    pub(crate) async fn compute(&self, client: Client, work: impl FnOnce(&Hub) -> Result<Answer, ApiError> + Send + 'static) -> Answered {
        self.compute_at(Weight::Short, client, work).await
    }

    /// Computes an answer on a thread for blocking work.
    pub(crate) async fn compute_at(
        &self,
        weight: Weight,
        client: Client,
        work: impl FnOnce(&Hub) -> Result<Answer, ApiError> + Send + 'static,
    ) -> Answered {
        let place = self.places.take(client.address, weight).await?;
        let hub = Arc::clone(&self.hub);
        let computed = tokio::task::spawn_blocking(move || {
            let answer = work(&hub).map(|answer| answer.respond(&client.headers));
            drop(place);
            answer
        });
        computed.await.unwrap_or_else(|_| Err(ApiError::failed("the query failed; the log of the hub has the reason")))
    }
}
