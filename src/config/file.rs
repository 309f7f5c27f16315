//! Reads a configuration file: `ibnet.toml` of the sampler, or `ibnet-hub.toml` of the hub.

use std::io;
use std::path::{Path, PathBuf};

use ibnet_record::limits;
use ibnet_record::types::Printable;
use miette::Diagnostic;
use serde::de::DeserializeOwned;

use super::examples::Keys;
use super::explain::{Explained, explain};

/// Error of a configuration file.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    #[diagnostic(help("give another file with -c FILE"))]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file is not UTF-8.
    #[error("{}:{line}: cannot read this line: the text is not UTF-8", path.display())]
    #[diagnostic(help(
        "save the file in the encoding UTF-8, or remove the characters that are not ASCII from this line"
    ))]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Line of the first byte that is not UTF-8, counted from 1.
        line: usize,
    },
    /// The file has a key that does not exist.
    #[error("{}:{line}: cannot use {}: there is no such key", path.display(), Printable(found))]
    #[diagnostic(help(
        "{}{} lists every key with its unit and default",
        nearest.as_ref().map(|key| format!("did you mean {key}? ")).unwrap_or_default(),
        keys.file
    ))]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// Line of the key, counted from 1.
        line: usize,
        /// The key.
        found: String,
        /// The key that the user probably meant.
        nearest: Option<String>,
        /// All valid keys.
        keys: &'static Keys,
    },
    /// The file is not valid TOML, or a value has the wrong type.
    #[error("{}:{line}: {}", path.display(), Printable(message))]
    #[diagnostic(help("{}{} lists every key with its unit and default", of_syntax(keys, key), keys.file))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line of the error, counted from 1.
        line: usize,
        /// The key with the name of its table, or an empty string if it is unknown.
        key: String,
        /// Description of the error.
        message: String,
        /// All valid keys.
        keys: &'static Keys,
    },
}

/// Reads and parses a file in which `keys` are valid.
///
/// # Errors
/// Returns an error if the file cannot be read, is not valid TOML, or has an unknown key.
pub fn read<T: DeserializeOwned>(path: &Path, keys: &'static Keys) -> Result<T, FileError> {
    let octets = limits::read_file(path, limits::CONFIG).map_err(|source| FileError::Io {
        path: path.to_owned(),
        source,
    })?;
    parse(text(&octets, path)?, path, keys)
}

/// Returns the text of a file.
///
/// # Errors
/// Returns an error if the bytes are not UTF-8.
pub fn text<'a>(octets: &'a [u8], path: &Path) -> Result<&'a str, FileError> {
    limits::utf8(octets).map_err(|line| FileError::NotUtf8 {
        path: path.to_owned(),
        line,
    })
}

/// Parses a text in which `keys` are valid. `path` is the name of the file in messages.
///
/// # Errors
/// Returns an error if the text is not valid TOML, or has an unknown key.
pub fn parse<T: DeserializeOwned>(
    text: &str,
    path: &Path,
    keys: &'static Keys,
) -> Result<T, FileError> {
    let path = path.to_owned();
    toml::from_str(text).map_err(|error| match explain(text, &error, keys) {
        Explained::UnknownKey {
            line,
            found,
            nearest,
        } => FileError::UnknownKey {
            path,
            line,
            found,
            nearest,
            keys,
        },
        Explained::Wrong { line, key, message } => FileError::Syntax {
            path,
            line,
            key,
            message,
            keys,
        },
    })
}

/// Returns an example of the key for a line that is not valid.
fn of_syntax(keys: &Keys, key: &str) -> String {
    match keys.example(key) {
        Some(line) => format!("a valid line is {line}; "),
        None => "a line is a key, = and a value, and text needs quotes; ".to_owned(),
    }
}
