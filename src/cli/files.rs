//! Reads input files, or standard input for `-`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use ibnet_record::limits;
use miette::Diagnostic;

/// An input file cannot be read.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("cannot read {}", name_of(path))]
#[diagnostic(help("{}", remedy(source)))]
pub struct InputError {
    /// Path of the file.
    pub path: PathBuf,
    /// Error of the operating system.
    #[source]
    pub source: io::Error,
}

/// Returns whether a path is `-`, which means standard input or standard output.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the name of an input in messages.
pub fn name_of(path: &Path) -> String {
    if is_dash(path) {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// Opens a file, or standard input for `-`, to read it line by line.
///
/// # Errors
/// Returns the error of the operating system.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, InputError> {
    if is_dash(path) {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = File::open(path).map_err(|source| InputError {
        path: path.to_owned(),
        source,
    })?;
    Ok(Box::new(BufReader::new(opened)))
}

/// Reads a whole file, or standard input for `-`. `most` is the max number of bytes.
///
/// # Errors
/// Returns the error of the operating system, or an error if the file has more bytes.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, InputError> {
    let read = if is_dash(path) {
        limits::read(io::stdin().lock(), most)
    } else {
        limits::read_file(path, most)
    };
    read.map_err(|source| InputError {
        path: path.to_owned(),
        source,
    })
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            "check the path: the file is larger than any real file of its kind"
        }
        _ => "give the path of a file that you may read, or `-` for standard input",
    }
}
