//! What the programs share: messages, input, output, progress, log and signals.
//!
//! Besides the programs themselves, only this module writes to standard output and standard error.

mod arguments;
mod dumps;
mod files;
mod host;
mod log;
mod messages;
#[cfg(feature = "pages")]
mod pages;
mod progress;
mod signals;
mod staged;
mod stdout;

pub use arguments::{arguments, wrong_arguments};
pub use dumps::forbid_core_dumps;
pub use files::{InputError, is_dash, name_of, open, read};
pub use host::{random_seed, short_host_name};
pub use log::log_to_stderr;
pub use messages::{fail, fill, note};
pub use progress::Progress;
pub use signals::{Hangups, Signals};
pub use staged::{OutputError, Staged};
pub use stdout::{colours_stdout, print, print_line};
pub use tracing_subscriber::filter::LevelFilter;

use std::io::IsTerminal;

/// Returns whether a stream is a terminal and `NO_COLOR` is not set.
fn has_colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
