//! Marks of alerts: who has seen or silenced an alert, why, and until when.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kept::Kept;

/// Max number of marks. Marks with long texts are fewer: all fit into a file that can be read
/// again.
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
pub(crate) type Marks = Kept<BTreeMap<String, Mark>>;

impl Marks {
    /// Sets the mark of an alert; a mark that has ended already ends the known one. Returns whether
    /// there was room for it.
    pub(crate) fn set(&mut self, id: &str, mark: Mark) -> bool {
        if mark.until_ns <= mark.at_ns {
            if let Some(known) = self.value.get_mut(id) {
                // The next look removes it, and tells receivers that a silence has ended.
                known.until_ns = 0;
            }
            return true;
        }
        let before = self.value.insert(id.to_owned(), mark);
        let has_room = self.value.len() <= MAX_MARKS && self.fits();
        match before {
            _ if has_room => self.is_changed = true,
            Some(before) => drop(self.value.insert(id.to_owned(), before)),
            None => drop(self.value.remove(id)),
        }
        has_room
    }

    /// Returns the mark of an alert, if it has not ended.
    pub(crate) fn get(&self, id: &str) -> Option<&Mark> {
        self.value.get(id).filter(|mark| mark.until_ns > 0)
    }

    /// Returns whether receivers are not told that an alert fires.
    pub(crate) fn is_silent(&self, id: &str) -> bool {
        self.value.get(id).is_some_and(|mark| mark.silent)
    }

    /// Removes the marks that have ended. Returns the identities of the alerts that were silent.
    pub(crate) fn expire(&mut self, now_ns: u64) -> Vec<String> {
        let mut ended = Vec::new();
        let is_changed = &mut self.is_changed;
        self.value.retain(|id, mark| {
            let is_kept = mark.until_ns > now_ns;
            if !is_kept && mark.silent {
                ended.push(id.clone());
            }
            *is_changed |= !is_kept;
            is_kept
        });
        ended
    }
}
