//! Receives the signals that control a service.

use std::io::{self, IsTerminal};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop a service: SIGINT and SIGTERM.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Starts to receive the signals. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal and returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// The signal that makes a service read its configuration again: SIGHUP. If the program runs on a
/// terminal, SIGHUP means that the terminal was closed. Then it ends the program.
#[derive(Debug)]
pub struct Hangups(Option<Signal>);

impl Hangups {
    /// Starts to receive the signal, unless standard error is a terminal. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn new() -> io::Result<Self> {
        let service = !io::stderr().is_terminal();
        Ok(Self(service.then(|| signal(SignalKind::hangup())).transpose()?))
    }

    /// Returns a receiver that never receives a signal. Then SIGHUP ends the program.
    pub fn none() -> Self {
        Self(None)
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}
