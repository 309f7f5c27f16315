//! Writes the manual pages and the shell completions of a program from the definition of its
//! arguments, so that they always agree with `--help`.
//!
//! Packages need these files once, at build time. This module therefore exists only with the
//! cargo feature `pages`, and its argument is not in `--help`.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

/// The argument that precedes the folder: `ibnet-gen --write-pages FOLDER`.
pub(super) const ARGUMENT: &str = "--write-pages";

/// The section of the manual for administration programs.
const SECTION: &str = "8";

/// Writes `FOLDER/man/NAME.8` for the program and `NAME-SUBCOMMAND.8` for each of its subcommands,
/// and `FOLDER/{bash,zsh,fish}/` with a completion file under the name that the shell expects.
///
/// # Errors
/// Returns the error of the first file or folder that cannot be written.
pub(super) fn write(mut program: Command, folder: &Path) -> io::Result<()> {
    let name = program.get_name().to_owned();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let folder = folder.join(shell.to_string());
        fs::create_dir_all(&folder)?;
        let written = clap_complete::generate_to(shell, &mut program, &name, &folder)?;
        if shell == Shell::Bash {
            // bash-completion looks for a file that has the name of the program.
            fs::rename(written, folder.join(&name))?;
        }
    }
    let folder = folder.join("man");
    fs::create_dir_all(&folder)?;
    program.build();
    pages(&program, &name, &folder)
}

/// Writes the page of a command, and those of its subcommands.
fn pages(command: &Command, name: &str, folder: &Path) -> io::Result<()> {
    let page = clap_mangen::Man::new(command.clone())
        .title(name.to_uppercase())
        .section(SECTION)
        .source(format!("ibnet {}", env!("CARGO_PKG_VERSION")))
        .manual("InfiniBand counters");
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(folder.join(format!("{name}.{SECTION}")), text)?;
    for subcommand in command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
    {
        pages(
            subcommand,
            &format!("{name}-{}", subcommand.get_name()),
            folder,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    #[test]
    fn pages_and_completions_contain_every_argument_and_subcommand() {
        let folder = tempfile::tempdir().unwrap();
        let program = || {
            let inner = Command::new("check")
                .about("Checks a host")
                .arg(Arg::new("quiet").long("quiet").help("Prints less"));
            Command::new("ibnet-x")
                .about("Measures")
                .version("1")
                .arg(Arg::new("interval").long("interval").help("Time"))
                .subcommand(inner)
        };
        super::write(program(), folder.path()).unwrap();
        let read = |path: &str| std::fs::read_to_string(folder.path().join(path)).unwrap();
        assert!(read("man/ibnet-x.8").contains(r"\-\-interval"));
        assert!(read("man/ibnet-x-check.8").contains(r"\-\-quiet"));
        for path in ["bash/ibnet-x", "zsh/_ibnet-x", "fish/ibnet-x.fish"] {
            let text = read(path);
            assert!(
                text.contains("interval") && text.contains("quiet"),
                "{path}: {text}"
            );
        }
    }
}
