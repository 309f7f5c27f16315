//! The audit log: who used the hub, and who marked what. One JSON line for each entry.
//!
//! A line is appended by a single write. A disk that is full or missing harms nothing: the entry is
//! in the log of the hub, too, which also states that the file cannot be written.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};

/// A user counts as logged in again after this time without a request.
const AWAY_NS: u64 = 3600 * 1_000_000_000;

/// Max number of users and addresses that are remembered.
const MAX_SEEN: usize = 1000;

/// Max number of failed logins in a minute that are written. The others are counted.
const MAX_FAILED: u64 = 10;
const MINUTE_NS: u64 = 60 * 1_000_000_000;

/// Largest part of the file that is read back, and max number of its entries.
const TAIL: u64 = 256 << 10;
const MAX_NEWEST: usize = 200;

/// Who did something, and from where.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct By {
    pub(crate) who: String,
    pub(crate) role: &'static str,
    pub(crate) address: String,
}

/// An entry that was read back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Entry {
    /// Time in nanoseconds since 1970.
    at_ns: u64,
    what: String,
    who: String,
    role: String,
    address: String,
    /// The alert, or the name of the mark.
    about: Option<String>,
    /// Reason for the mark of an alert.
    why: Option<String>,
}

impl Entry {
    /// Parses a line. `None` if it was not written to its end.
    fn parse(line: &[u8]) -> Option<Self> {
        let entry: Value = serde_json::from_slice(line).ok()?;
        let text = |name: &str| entry[name].as_str().map(str::to_owned);
        let time = humantime::parse_rfc3339(entry["time"].as_str()?).ok()?;
        let at = time.duration_since(UNIX_EPOCH).ok()?;
        Some(Self {
            at_ns: at.as_nanos().try_into().ok()?,
            what: text("what")?,
            who: text("who")?,
            role: text("role")?,
            address: text("address")?,
            about: text("alert").or_else(|| text("name")),
            why: text("why"),
        })
    }
}

/// The log.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    path: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Time of the last request of each user with a role and from an address.
    seen: BTreeMap<By, u64>,
    /// The minute of the last failed login, the failed logins in it, and those not written.
    minute: u64,
    failed: u64,
    left_out: u64,
    is_failing: bool,
    /// The last line was not written to its end.
    is_torn: bool,
}

impl Audit {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            state: Mutex::default(),
        }
    }

    /// Remembers a request of a user. Returns whether it is the first one after a while.
    pub(crate) fn is_login(&self, now_ns: u64, by: &By) -> bool {
        let mut state = self.lock();
        let last = state.seen.insert(by.clone(), now_ns);
        if state.seen.len() > MAX_SEEN {
            let oldest = state.seen.iter().min_by_key(|(_, seen)| **seen);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                state.seen.remove(&oldest);
            }
        }
        last.is_none_or(|last| now_ns.saturating_sub(last) > AWAY_NS)
    }

    /// Counts a request with a wrong password or token. Returns the number of failed logins without
    /// an entry before it, or `None` if it has no entry either.
    pub(crate) fn is_failure(&self, now_ns: u64) -> Option<u64> {
        let mut state = self.lock();
        let minute = now_ns / MINUTE_NS;
        if state.minute != minute {
            (state.minute, state.failed) = (minute, 0);
        }
        state.failed += 1;
        if state.failed > MAX_FAILED {
            state.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut state.left_out))
    }

    /// Writes an entry. `more` is an object with further fields.
    pub(crate) fn write(&self, now_ns: u64, what: &str, by: &By, more: Value) {
        let time = humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_nanos(now_ns));
        let By { who, role, address } = by;
        let mut entry = json!({"time": time.to_string(), "what": what, "who": who, "role": role, "address": address});
        if let (Some(entry), Value::Object(more)) = (entry.as_object_mut(), more) {
            entry.extend(more);
        }
        let line = format!("{entry}\n");
        tracing::info!(entry = line.trim_end(), "audit");
        let Some(path) = &self.path else { return };
        let mut state = self.lock();
        let text = if state.is_torn {
            format!("\n{line}")
        } else {
            line
        };
        let written = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o640)
            .open(path)
            .and_then(|mut file| file.write(text.as_bytes()));
        if let Ok(octets @ 1..) = written {
            state.is_torn = octets < text.len();
        }
        let error = match written {
            Ok(octets) if octets == text.len() => None,
            Ok(_) => Some(io::Error::from(io::ErrorKind::StorageFull)),
            Err(error) => Some(error),
        };
        let was_failing = std::mem::replace(&mut state.is_failing, error.is_some());
        match error {
            Some(error) if !was_failing => {
                tracing::warn!(path = %path.display(), %error, "cannot write the audit log, so its entries are only in this log; free space, or correct users.audit");
            }
            None if was_failing => tracing::info!("the audit log is written again"),
            _ => {}
        }
    }

    /// Returns the newest entries, the last one first. `None` without a file.
    pub(crate) fn newest(&self) -> io::Result<Option<Vec<Entry>>> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let mut text = Vec::new();
        let length = match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Vec::new())),
            // To open a pipe could take forever.
            Ok(found) if !found.is_file() => {
                return Err(io::Error::other("it is no regular file"));
            }
            found => found?.len(),
        };
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        file.take(TAIL).read_to_end(&mut text)?;
        let lines = text.rsplit(|octet| *octet == b'\n');
        Ok(Some(
            lines.filter_map(Entry::parse).take(MAX_NEWEST).collect(),
        ))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn by(who: &str) -> By {
        By {
            who: who.to_owned(),
            role: "user",
            address: "10.0.0.1".to_owned(),
        }
    }

    fn entries(path: &std::path::Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).expect("a file");
        let parse = |line| serde_json::from_str(line).expect("JSON");
        text.lines().map(parse).collect()
    }

    #[test]
    fn logins_are_written_once_and_failed_ones_are_limited() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let audit = Audit::new(Some(path.clone()));
        let logins = [1, 2, 3000, 7000].map(|second| audit.is_login(second * SECOND, &by("ada")));
        assert_eq!(logins, [true, false, false, true]);
        let other = By {
            address: "10.0.0.2".to_owned(),
            ..by("ada")
        };
        assert!(audit.is_login(7001 * SECOND, &other));
        let failed: Vec<_> = (0..50).map(|_| audit.is_failure(120 * SECOND)).collect();
        assert_eq!(failed.iter().flatten().count(), MAX_FAILED as usize);
        assert_eq!(audit.is_failure(180 * SECOND), Some(40));
        audit.write(SECOND, "login", &by("ada"), json!({"left_out": 1}));
        let expected = json!({"time": "1970-01-01T00:00:01.000Z", "what": "login", "who": "ada", "role": "user", "address": "10.0.0.1", "left_out": 1});
        assert_eq!(entries(&path), [expected]);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&path).expect("a file").permissions(),
        );
        assert_eq!(mode & 0o7137, 0);
    }

    #[test]
    fn newest_entries_are_read_back_from_a_log_of_any_size() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let audit = Audit::new(Some(path.clone()));
        assert_eq!(audit.newest().expect("no entry yet"), Some(Vec::new()));
        assert_eq!(Audit::default().newest().expect("no file"), None);
        // An old part that is longer than what is read, and a line that was not written to its end.
        std::fs::write(&path, "x".repeat(TAIL as usize) + "\n{\"time\": \"1970\n")
            .expect("written");
        for second in 1..=300 {
            audit.write(second * SECOND, "login", &by("ada"), json!({"left_out": 0}));
        }
        let more = json!({"alert": "A/1", "why": "at the vendor", "until_ns": 1});
        audit.write(301 * SECOND, "silence", &by("bob"), more);
        audit.write(302 * SECOND, "mark", &by("bob"), json!({"name": "deploy"}));
        let found = audit.newest().expect("readable").expect("a file");
        let short = |entry: &Entry| {
            (
                entry.at_ns / SECOND,
                entry.what.clone(),
                entry.about.clone(),
            )
        };
        let text = |text: &str| Some(text.to_owned());
        let expected = [
            (302, "mark".to_owned(), text("deploy")),
            (301, "silence".to_owned(), text("A/1")),
            (300, "login".to_owned(), None),
        ];
        assert_eq!(found[..3].iter().map(short).collect::<Vec<_>>(), expected);
        assert_eq!(
            (found.len(), &found[1].why),
            (MAX_NEWEST, &text("at the vendor"))
        );
        let all = |path: &str| Audit::new(Some(path.into())).newest();
        assert!(all("/dev/zero").is_err(), "an endless file");
    }

    #[test]
    fn log_that_cannot_be_written_harms_nothing() {
        // Writing to this file fails as on a full disk.
        let full = Audit::new(Some("/dev/full".into()));
        full.write(SECOND, "login", &by("ada"), json!({}));
        assert!(full.lock().is_failing);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("missing/audit.jsonl");
        let audit = Audit::new(Some(path.clone()));
        audit.write(SECOND, "login", &by("ada"), json!({}));
        assert!(audit.lock().is_failing);
        std::fs::create_dir(folder.path().join("missing")).expect("a folder");
        audit.write(SECOND, "login", &by("bob"), json!({}));
        assert!(!audit.lock().is_failing && entries(&path).len() == 1);
    }
}
