//! Marks that users post: what happened when, such as a deploy or a test.

use std::collections::BTreeMap;

use ibnet_analysis::hosts::Hosts;
use ibnet_analysis::job::marks::Mark;
use ibnet_record::types::misleads;
use serde::{Deserialize, Serialize};

use crate::kept::{self, Kept};

/// Max number of marks. The one that was posted first gives way. All of them fit into a file that
/// can be read again.
pub(crate) const MAX_MARKS: usize = 500;

/// Max lengths of a text, of a host list and of a job ID in bytes.
const MAX_NAME: usize = 200;
const MAX_NODES: usize = 500;
const MAX_JOB: usize = 64;

/// Max length of a mark, max time from now to its start, and time for which it is kept.
const YEAR_NS: u64 = 366 * 86_400_000_000_000;

/// What a user posts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// What happened.
    pub(crate) name: String,
    /// Start in nanoseconds since 1970. `None` for now.
    pub(crate) start_ns: Option<u64>,
    /// End. `None` for a moment.
    pub(crate) end_ns: Option<u64>,
    /// Host list. `None` for all hosts.
    pub(crate) nodes: Option<String>,
    /// ID of a job.
    pub(crate) job: Option<String>,
}

/// A posted mark.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Posted {
    /// Name of the user, and time at which the mark was posted.
    pub(crate) by: String,
    at_ns: u64,
    pub(crate) name: String,
    pub(crate) start_ns: u64,
    /// Equal to the start for a moment.
    pub(crate) end_ns: u64,
    pub(crate) nodes: Option<String>,
    pub(crate) job: Option<String>,
}

/// All posted marks by their numbers.
pub(crate) type All = Kept<BTreeMap<u64, Posted>>;

impl Request {
    /// Checks a request of a user.
    ///
    /// # Errors
    /// Returns the reason if a value is not valid.
    pub(crate) fn check(self, by: String, now_ns: u64) -> Result<Posted, String> {
        for (field, text, max) in [
            ("name", Some(&self.name), MAX_NAME),
            ("nodes", self.nodes.as_ref(), MAX_NODES),
            ("job", self.job.as_ref(), MAX_JOB),
        ] {
            let is_text = |text: &String| {
                !text.trim().is_empty() && text.len() <= max && !text.contains(misleads)
            };
            if !text.is_none_or(is_text) {
                return Err(format!(
                    "give 1 to {max} bytes without control characters in {field}"
                ));
            }
        }
        if let Some(nodes) = &self.nodes {
            Hosts::parse(nodes).map_err(|error| error.to_string())?;
        }
        let start_ns = self.start_ns.unwrap_or(now_ns);
        let end_ns = self.end_ns.unwrap_or(start_ns);
        if start_ns > now_ns.saturating_add(YEAR_NS) || end_ns.saturating_sub(start_ns) > YEAR_NS {
            return Err("start_ns is more than a year away, or the mark is longer".to_owned());
        }
        if end_ns < start_ns {
            return Err("end_ns is before start_ns".to_owned());
        }
        Ok(Posted {
            by,
            at_ns: now_ns,
            name: self.name,
            start_ns,
            end_ns,
            nodes: self.nodes,
            job: self.job,
        })
    }
}

impl Posted {
    /// Returns the mark. `None` if the host list is malformed, as in a file that was changed by
    /// hand.
    pub(crate) fn mark(&self) -> Option<Mark> {
        Some(Mark {
            name: self.name.clone(),
            hosts: self.nodes.as_deref().map(Hosts::parse).transpose().ok()?,
            from: self.start_ns,
            to: Some(self.end_ns),
            value: None,
        })
    }
}

impl All {
    /// Adds a mark, removes the marks beyond the limits, and writes the file. Returns its number.
    pub(crate) fn add(&mut self, mark: Posted, now_ns: u64) -> u64 {
        let all = &mut self.value;
        let next = all
            .last_key_value()
            .map_or(1, |(id, _)| id.saturating_add(1));
        all.insert(next, mark);
        all.retain(|_, mark| mark.at_ns.saturating_add(YEAR_NS) >= now_ns);
        while all.len() > MAX_MARKS {
            all.pop_first();
        }
        self.changed();
        next
    }

    /// Removes a mark, and writes the file.
    pub(crate) fn remove(&mut self, id: u64) {
        self.value.remove(&id);
        self.changed();
    }

    fn changed(&mut self) {
        self.is_changed = true;
        if let Some((path, content)) = self.take_change() {
            kept::write(&path, &content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000_000_000;

    fn request(name: &str) -> Request {
        Request {
            name: name.to_owned(),
            start_ns: None,
            end_ns: None,
            nodes: None,
            job: None,
        }
    }

    fn check(change: impl FnOnce(&mut Request)) -> Result<Posted, String> {
        let mut request = request("deploy");
        change(&mut request);
        request.check("ada".to_owned(), NOW)
    }

    #[test]
    fn mark_without_times_is_a_moment_now() {
        let mark = check(|_| ()).expect("valid");
        assert_eq!((mark.start_ns, mark.end_ns), (NOW, NOW));
        let late = check(|request| request.end_ns = Some(NOW + 5)).expect("valid");
        assert_eq!((late.start_ns, late.end_ns), (NOW, NOW + 5));
    }

    #[test]
    fn wrong_marks_are_refused_with_the_reason() {
        let text = |length: usize| Some("n".repeat(length));
        for (found, reason) in [
            (check(|request| request.name = " ".to_owned()), "in name"),
            (
                check(|request| request.name = "a\u{1b}[2J".to_owned()),
                "in name",
            ),
            (
                check(|request| request.name = "a\u{202e}b".to_owned()),
                "in name",
            ),
            (check(|request| request.name = "é".repeat(101)), "200 bytes"),
            (check(|request| request.nodes = text(501)), "in nodes"),
            (
                check(|request| request.nodes = Some("n[1-".to_owned())),
                "n[1-",
            ),
            (check(|request| request.job = text(65)), "in job"),
            (
                check(|request| request.end_ns = Some(NOW - 1)),
                "before start_ns",
            ),
            (
                check(|request| request.start_ns = Some(NOW + YEAR_NS + 1)),
                "a year away",
            ),
            (check(|request| request.end_ns = Some(u64::MAX)), "longer"),
        ] {
            let found = found.expect_err(reason);
            assert!(found.contains(reason), "{found}");
        }
        assert!(check(|request| request.name = "é".repeat(100)).is_ok());
    }

    #[test]
    fn first_marks_give_way_and_the_longest_ones_can_be_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("marks.json");
        let mut all = All::load(Some(path.clone()));
        let longest = check(|request| {
            request.name = "\"".repeat(MAX_NAME);
            request.nodes = Some("\"".repeat(MAX_NODES - 1) + "*");
            request.job = Some("\"".repeat(MAX_JOB));
        });
        let longest = longest.expect("valid");
        for _ in 0..=MAX_MARKS {
            all.value.insert(all.value.len() as u64, longest.clone());
        }
        all.add(longest.clone(), NOW);
        let read = All::load(Some(path)).value;
        assert_eq!(read.len(), MAX_MARKS);
        assert_eq!(read.keys().next(), Some(&2));
        assert_eq!(read.values().next(), Some(&longest));
        // Marks that were posted more than a year ago are removed.
        all.add(longest, NOW + YEAR_NS + 1);
        assert_eq!(all.value.len(), 0);
    }
}
