//! The state that all handlers share, and the threads that compute answers.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use tokio::sync::Semaphore;

use super::answer::Answer;
use super::server::Access;
use crate::query::error::ApiError;
use crate::query::evaluated::Evaluations;
use crate::query::groups::Passes;
use crate::state::Hub;

/// Number of queries that are computed at the same time. Further queries wait.
const QUERIES: usize = 2;

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
    queries: Arc<Semaphore>,
    pub(crate) clients: Arc<Semaphore>,
    /// Time in which a client of the stream must accept a message.
    pub(crate) send_timeout: Duration,
    pub(crate) access: Access,
}

/// Result of a handler.
pub(crate) type Answered = Result<Response, ApiError>;

impl App {
    /// Creates the state of all handlers.
    pub(crate) fn new(hub: Arc<Hub>, access: Access) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self {
            hub,
            evaluations: Arc::default(),
            passes: Arc::default(),
            queries: places(QUERIES),
            clients: places(CLIENTS),
            send_timeout: SEND,
            access,
        }
    }

    /// Computes an answer on a thread for blocking work.
    pub(crate) async fn compute(
        &self,
        headers: HeaderMap,
        work: impl FnOnce(&Hub) -> Result<Answer, ApiError> + Send + 'static,
    ) -> Answered {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.queries).acquire_owned().await;
        let hub = Arc::clone(&self.hub);
        let computed = tokio::task::spawn_blocking(move || {
            let answer = work(&hub).map(|answer| answer.respond(&headers));
            drop(permit);
            answer
        });
        computed.await.unwrap_or_else(|_| Err(ApiError::failed("the query failed; the log of the hub has the reason")))
    }
}
