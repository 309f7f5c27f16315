//! Parses the command-line arguments of a program.

use std::process::ExitCode;

/// Parses the arguments of a program. `--help`, `--version` and wrong arguments print a message.
///
/// With the cargo feature `pages`, `--write-pages FOLDER` writes manual pages and completions.
///
/// # Errors
/// Returns the exit code after such a message: 0 or 2.
pub fn arguments<A: clap::Parser>() -> Result<A, ExitCode> {
    #[cfg(feature = "pages")]
    write_pages(A::command())?;
    A::try_parse().map_err(|error| wrong_arguments(&error))
}

/// Prints the text of `--help` or `--version`, or the message about wrong arguments. Returns the
/// exit code.
pub fn wrong_arguments(error: &clap::Error) -> ExitCode {
    // If standard error is closed, the message cannot be shown anywhere.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Writes manual pages and completions if the arguments request them.
///
/// # Errors
/// Returns the exit code after the work: 0, or 1 after a message.
#[cfg(feature = "pages")]
fn write_pages(program: clap::Command) -> Result<(), ExitCode> {
    let mut given = std::env::args_os().skip(1);
    if given
        .next()
        .is_none_or(|first| first != super::pages::ARGUMENT)
    {
        return Ok(());
    }
    let Some(folder) = given.next() else {
        return Ok(());
    };
    let folder = std::path::PathBuf::from(folder);
    match super::pages::write(program, &folder) {
        Ok(()) => Err(ExitCode::SUCCESS),
        Err(error) => {
            super::note(&format!(
                "cannot write pages to {}: {error}",
                folder.display()
            ));
            Err(ExitCode::from(1))
        }
    }
}
