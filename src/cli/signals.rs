//! Receives the signals that control a service.

use std::io::{self, IsTerminal};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// A signal that follows the same signal within this time is a copy: `timeout` of GNU coreutils
/// sends its signal to the process, and then again to the process group.
const COPY: Duration = Duration::from_millis(100);

/// The signals that stop a service: SIGINT and SIGTERM.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    last: Last,
}

/// Name and time of the last signal that was not a copy.
#[derive(Default, Debug)]
struct Last(Option<(&'static str, Instant)>);

impl Last {
    /// Returns whether a signal is not a copy of the last one.
    fn accepts(&mut self, name: &'static str, now: Instant) -> bool {
        if self
            .0
            .is_some_and(|(last, at)| last == name && now.duration_since(at) < COPY)
        {
            return false;
        }
        self.0 = Some((name, now));
        true
    }
}

impl Signals {
    /// Starts to receive the signals. Requires a tokio runtime.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            last: Last::default(),
        })
    }

    /// Waits for the next signal and returns its name. Ignores the same signal within 100 ms.
    pub async fn next(&mut self) -> &'static str {
        loop {
            let name = tokio::select! {
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.terminate.recv() => "SIGTERM",
            };
            if self.last.accepts(name, Instant::now()) {
                return name;
            }
        }
    }
}

/// The signal that makes a service read its configuration again: SIGHUP. On a terminal, SIGHUP
/// means that the terminal was closed, and therefore ends the program.
#[derive(Debug)]
pub struct Hangups(Option<Signal>);

impl Hangups {
    /// Starts to receive the signal, unless standard error is a terminal. Requires a tokio runtime.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn new() -> io::Result<Self> {
        let service = !io::stderr().is_terminal();
        Ok(Self(
            service.then(|| signal(SignalKind::hangup())).transpose()?,
        ))
    }

    /// Returns a receiver that never receives a signal, so that SIGHUP ends the program.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_signal_at_once_is_a_copy() {
        let (mut last, start) = (Last::default(), Instant::now());
        assert!(last.accepts("SIGTERM", start));
        assert!(!last.accepts("SIGTERM", start + COPY / 2));
        assert!(
            last.accepts("SIGINT", start + COPY / 2),
            "another signal is no copy"
        );
        assert!(
            last.accepts("SIGINT", start + COPY * 2),
            "the time has passed"
        );
    }
}
