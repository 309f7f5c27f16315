//! What users change by the API, and what a file keeps over a restart: marks of alerts, and marks
//! of what happened.

use std::path::{Path, PathBuf};

use ibnet::cli::{self, Staged};
use ibnet_record::limits;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value, and the file that keeps it.
#[derive(Debug, Default)]
pub(crate) struct Kept<T> {
    pub(crate) value: T,
    path: Option<PathBuf>,
    /// Whether the file does not have the value.
    pub(crate) is_changed: bool,
}

impl<T: Default + Serialize + DeserializeOwned> Kept<T> {
    /// Reads the value of a file. If it cannot be read, there are no marks, so all alerts are told.
    pub(crate) fn load(path: Option<PathBuf>) -> Self {
        let value = match path.as_deref().filter(|path| path.exists()) {
            None => T::default(),
            Some(path) => {
                let read = cli::read(path, limits::CONFIG).map_err(|error| error.to_string());
                let value = read.and_then(|octets| {
                    serde_json::from_slice(&octets).map_err(|error| error.to_string())
                });
                value.unwrap_or_else(|error| {
                    tracing::warn!(path = %path.display(), ?error, "cannot read the marks of users, so there are none, and no alert is silenced; correct or remove the file");
                    T::default()
                })
            }
        };
        Self {
            value,
            path,
            is_changed: false,
        }
    }

    /// Returns whether the value fits into a file that can be read again.
    pub(crate) fn fits(&self) -> bool {
        self.content().len() as u64 <= limits::CONFIG
    }

    /// Returns the content of the file and its path if the value has changed since the last call.
    pub(crate) fn take_change(&mut self) -> Option<(PathBuf, Vec<u8>)> {
        let path = self.path.clone()?;
        std::mem::take(&mut self.is_changed).then(|| (path, self.content()))
    }

    fn content(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(&self.value).unwrap_or_default()
    }
}

/// Writes a file of marks.
pub(crate) fn write(path: &Path, content: &[u8]) {
    if let Err(error) = Staged::new(path, content).and_then(Staged::commit) {
        tracing::warn!(path = %path.display(), %error, "cannot write the marks of users, so they are lost when the hub stops");
    }
}
