//! Writes the log of a program to standard error.

use std::env;
use std::io;

use rustix::fs::fstat;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::has_colours;

/// Writes the log to standard error, filtered by `RUST_LOG`, or else by `level`. Lines have
/// times, unless standard error is the journal of systemd, which adds its own.
///
/// `RUST_LOG` is a list of levels and of `target=level`, such as `ibnet=debug`. Filters by span
/// or field are not supported, because they need additional crates (regular expressions). If the
/// list is not valid, `level` applies.
pub fn log_to_stderr(level: LevelFilter) {
    let given = env::var("RUST_LOG")
        .ok()
        .filter(|text| !text.is_empty())
        .and_then(|text| text.parse::<Targets>().ok());
    let default = || {
        Targets::new()
            .with_default(level)
            .with_target("async_nats", LevelFilter::OFF)
    };
    // The sweep must go on even if the log cannot be written.
    let format = tracing_subscriber::fmt::layer()
        .log_internal_errors(false)
        .with_writer(io::stderr)
        .with_ansi(has_colours(&io::stderr()))
        .with_target(false);
    let registry = tracing_subscriber::registry().with(given.unwrap_or_else(default));
    // A test may have set its own subscriber, which then stays in use.
    let _ = if is_journal() {
        registry.with(format.without_time()).try_init()
    } else {
        registry.with(format).try_init()
    };
}

/// Returns whether standard error is the journal. Its device and inode are in `JOURNAL_STREAM`,
/// see systemd.exec(5).
fn is_journal() -> bool {
    let (Ok(stream), Ok(stderr)) = (env::var("JOURNAL_STREAM"), fstat(io::stderr())) else {
        return false;
    };
    stream == format!("{}:{}", stderr.st_dev, stderr.st_ino)
}
