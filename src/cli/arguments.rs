//! Parses the arguments of a program.

use std::process::ExitCode;

/// Parses the arguments of a program. `--help`, `--version` and wrong arguments print a message.
///
/// # Errors
/// Returns the exit code after such a message: 0 or 2.
pub fn arguments<A: clap::Parser>() -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| wrong_arguments(&error))
}

/// Prints the message about wrong arguments, or the text of `--help` or `--version`. Returns the
/// exit code.
pub fn wrong_arguments(error: &clap::Error) -> ExitCode {
    // If the terminal is closed, the message cannot be shown anywhere.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
