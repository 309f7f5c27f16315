//! Starts the threads that must not stop, because the web page would show old data or records would
//! be lost.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::Builder;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::HubError;

/// Starts threads. The panic of any of them is reported and ends the hub.
#[derive(Clone, Debug)]
pub(crate) struct Threads(UnboundedSender<HubError>);

impl Threads {
    /// Creates the starter of threads, and the receiver of their panics.
    pub(crate) fn new() -> (Self, UnboundedReceiver<HubError>) {
        let (sender, panics) = unbounded_channel();
        (Self(sender), panics)
    }

    /// Starts a thread. It can end without a panic, for example at the end of an input.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub(crate) fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let (thread, panics) = (name.to_owned(), self.0.clone());
        let work = move || {
            // The hub ends, so nothing relies on the state that the panic left behind.
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                // Without a receiver, the hub is already ending.
                let _ = panics.send(HubError::Panicked { thread });
            }
        };
        Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }
}
