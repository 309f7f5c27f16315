//! State shared by all handlers, and the threads that compute answers.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use tokio::sync::Semaphore;

use super::answer::Answer;
use super::known::LastKnown;
use super::places::{Places, Weight};
use super::server::{Access, SEND};
use crate::query::cabling::LastComparison;
use crate::query::error::ApiError;
use crate::query::evaluated::Evaluations;
use crate::query::groups::Passes;
use crate::state::Hub;

/// Max number of clients of the slot stream.
pub(crate) const CLIENTS: usize = 256;

/// State of all handlers.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) hub: Arc<Hub>,
    pub(crate) evaluations: Arc<Evaluations>,
    pub(crate) passes: Arc<Passes>,
    pub(crate) comparison: Arc<LastComparison>,
    pub(crate) places: Places,
    pub(crate) clients: Arc<Semaphore>,
    /// Time within which a client of the slot stream must accept a message.
    pub(crate) send_timeout: Duration,
    pub(crate) access: Access,
    /// The names from which those of others are hidden.
    pub(crate) known: Arc<LastKnown>,
}

/// Result of a handler.
pub(crate) type Answered = Result<Response, ApiError>;

impl App {
    pub(crate) fn new(hub: Arc<Hub>, access: Access) -> Self {
        Self {
            hub,
            evaluations: Arc::default(),
            passes: Arc::default(),
            comparison: Arc::default(),
            places: Places::default(),
            clients: Arc::new(Semaphore::new(CLIENTS)),
            send_timeout: SEND,
            access,
            known: Arc::default(),
        }
    }

    /// Computes the answer of a short query on a thread for blocking work.
    pub(crate) async fn compute(
        &self,
        headers: HeaderMap,
        work: impl FnOnce(&Hub) -> Result<Answer, ApiError> + Send + 'static,
    ) -> Answered {
        self.compute_at(Weight::Short, headers, work).await
    }

    /// Computes an answer on a thread for blocking work.
    pub(crate) async fn compute_at(
        &self,
        weight: Weight,
        headers: HeaderMap,
        work: impl FnOnce(&Hub) -> Result<Answer, ApiError> + Send + 'static,
    ) -> Answered {
        let place = self.places.take(weight).await?;
        let hub = Arc::clone(&self.hub);
        let computed = tokio::task::spawn_blocking(move || {
            let answer = work(&hub).map(|answer| answer.respond(&headers));
            drop(place);
            answer
        });
        computed.await.unwrap_or_else(|_| {
            Err(ApiError::failed(
                "the query failed; the log of the hub has the reason",
            ))
        })
    }
}
