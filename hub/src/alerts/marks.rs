//! Marks of alerts: who has seen or silenced an alert, why, and until when.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ibnet::cli::{self, Staged};
use ibnet_record::limits;
use serde::{Deserialize, Serialize};

/// Max number of marks.
const MAX_MARKS: usize = 1000;

/// A mark of an alert.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// Name of the user.
    pub(crate) by: String,
    pub(crate) why: String,
    /// Whether receivers are not told that the alert fires.
    pub(crate) silent: bool,
    /// Time of the mark, and the time at which it ends, in nanoseconds since 1970.
    pub(crate) at_ns: u64,
    pub(crate) until_ns: u64,
}

/// All marks by the identities of their alerts.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    all: BTreeMap<String, Mark>,
    path: Option<PathBuf>,
    is_changed: bool,
}

impl Marks {
    /// Reads the marks of a file. If it cannot be read, there are no marks, so all alerts are told.
    pub(crate) fn load(path: Option<PathBuf>) -> Self {
        let all = match path.as_deref().filter(|path| path.exists()) {
            None => BTreeMap::new(),
            Some(path) => {
                let read = cli::read(path, limits::CONFIG).map_err(|error| error.to_string());
                let all = read.and_then(|octets| {
                    serde_json::from_slice(&octets).map_err(|error| error.to_string())
                });
                all.unwrap_or_else(|error| {
                    tracing::warn!(path = %path.display(), ?error, "cannot read the marks of alerts, so no alert is silenced; correct or remove the file");
                    BTreeMap::new()
                })
            }
        };
        Self {
            all,
            path,
            is_changed: false,
        }
    }

    /// Sets the mark of an alert; a mark that has ended already ends the known one. Returns whether
    /// there was room for it.
    pub(crate) fn set(&mut self, id: &str, mark: Mark) -> bool {
        if mark.until_ns <= mark.at_ns {
            if let Some(known) = self.all.get_mut(id) {
                // The next look removes it, and tells receivers that a silence has ended.
                known.until_ns = 0;
            }
            return true;
        }
        let has_room = self.all.len() < MAX_MARKS || self.all.contains_key(id);
        if has_room {
            self.all.insert(id.to_owned(), mark);
            self.is_changed = true;
        }
        has_room
    }

    /// Returns the mark of an alert, if it has not ended.
    pub(crate) fn get(&self, id: &str) -> Option<&Mark> {
        self.all.get(id).filter(|mark| mark.until_ns > 0)
    }

    /// Returns whether receivers are not told that an alert fires.
    pub(crate) fn is_silent(&self, id: &str) -> bool {
        self.all.get(id).is_some_and(|mark| mark.silent)
    }

    /// Removes the marks that have ended. Returns the identities of the alerts that were silent.
    pub(crate) fn expire(&mut self, now_ns: u64) -> Vec<String> {
        let mut ended = Vec::new();
        self.all.retain(|id, mark| {
            let is_kept = mark.until_ns > now_ns;
            if !is_kept && mark.silent {
                ended.push(id.clone());
            }
            self.is_changed |= !is_kept;
            is_kept
        });
        ended
    }

    /// Returns the content of the file and its path if the marks have changed since the last call.
    pub(crate) fn take_change(&mut self) -> Option<(PathBuf, Vec<u8>)> {
        let path = self.path.clone()?;
        std::mem::take(&mut self.is_changed).then(|| {
            (
                path,
                serde_json::to_vec_pretty(&self.all).unwrap_or_default(),
            )
        })
    }
}

/// Writes a file of marks.
pub(crate) fn write(path: &std::path::Path, content: &[u8]) {
    if let Err(error) = Staged::new(path, content).and_then(Staged::commit) {
        tracing::warn!(path = %path.display(), %error, "cannot write the marks of alerts, so they are lost when the hub stops");
    }
}
