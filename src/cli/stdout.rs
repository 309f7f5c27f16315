//! Writes to standard output.

use std::io::{self, Write};

use super::{OutputError, has_colours};

/// Writes to standard output. It is not an error if the reader has closed the pipe.
///
/// # Errors
/// Returns the error of the operating system.
pub fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Writes a line to standard output. It is not an error if the reader has closed the pipe.
///
/// # Errors
/// Returns the error of the operating system.
pub fn print_line(line: &str) -> Result<(), OutputError> {
    print(format!("{line}\n").as_bytes()).map_err(|source| OutputError {
        path: "standard output".into(),
        source,
    })
}

/// Returns whether standard output is a terminal and `NO_COLOR` is not set.
pub fn colours_stdout() -> bool {
    has_colours(&io::stdout())
}
