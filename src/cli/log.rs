//! The log.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use super::has_colours;

/// Level of the log without `RUST_LOG`.
const DEFAULT_FILTER: &str = "info,async_nats=off";

/// Sends the log to standard error, filtered by `RUST_LOG`. Only a terminal gets times: a journal
/// adds its own.
pub fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    // A failed write of the log must not disturb the sweep.
    let format = tracing_subscriber::fmt()
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(has_colours(&io::stderr()))
        .with_target(false);
    // A test may have set its own subscriber, which stays.
    let _ = if io::stderr().is_terminal() { format.try_init() } else { format.without_time().try_init() };
}
