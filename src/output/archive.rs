//! Rotated files: their names, their compression, and the removal of the oldest files.
//!
//! At a rotation, `lines.jsonl` is renamed to `lines-20261121T131144Z.jsonl`, after the time of
//! the rotation. Compression then turns it into `lines-20261121T131144Z.jsonl.zst`. The pattern
//! `lines*.jsonl*` matches all of these files, and sorts them by time.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use super::options::FileOptions;
use super::retention::{Limits, Outdated, Rotated};

/// Default level of zstd. It compresses records to about one tenth of their size, at some hundred
/// megabytes per second.
const LEVEL: i32 = 3;

/// Nice value of the compressing thread: the lowest priority.
const MIN_PRIORITY: i32 = 19;

const COMPRESSED: &str = ".zst";

/// Ending of a file that is being compressed. Such a file is overwritten if a killed program left
/// it.
const PARTIAL: &str = ".zst.part";

/// The rotated files of an output file.
#[derive(Debug)]
pub(super) struct Archive {
    files: Files,
    compress: bool,
    /// Queue of the compressing thread. `None` before the first rotation.
    compressor: Option<Sender<PathBuf>>,
}

/// The folder with the rotated files, and their limits.
#[derive(Clone, Debug)]
struct Files {
    path: PathBuf,
    folder: PathBuf,
    limits: Limits,
}

impl Archive {
    pub(super) fn new(options: &FileOptions) -> Self {
        let FileOptions {
            path,
            compress,
            keep,
            keep_age,
            keep_total,
            ..
        } = options.clone();
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or_else(|| Path::new("."))
            .to_owned();
        let limits = Limits {
            count: keep,
            age: keep_age,
            total: keep_total,
        };
        Self {
            files: Files {
                path,
                folder,
                limits,
            },
            compress,
            compressor: None,
        }
    }

    /// Compresses rotated files that an earlier run left uncompressed.
    pub(super) fn resume(&mut self) {
        if self.compress {
            let names = self.files.rotated();
            names
                .into_iter()
                .filter(|name| !name.ends_with(COMPRESSED))
                .for_each(|name| self.compress(self.files.folder.join(name)));
        }
    }

    /// Renames the file; the new name contains the time `ts`, in nanoseconds since 1970 (UTC).
    pub(super) fn rotate(&mut self, ts: u64) -> io::Result<()> {
        let to = self.files.folder.join(self.files.free_name(ts));
        fs::rename(&self.files.path, &to)?;
        tracing::debug!(to = %to.display(), "rotated the file");
        if self.compress {
            self.compress(to);
        }
        self.files.remove_outdated(Some(ts));
        Ok(())
    }

    fn compress(&mut self, path: PathBuf) {
        if self.compressor.is_none() {
            let (sender, queue) = channel::<PathBuf>();
            let files = self.files.clone();
            let work = move || {
                // Compression must not delay the threads that send MADs. On Linux the nice value
                // applies to this thread only, and a failure is harmless.
                let _ = rustix::process::setpriority_process(
                    Some(rustix::thread::gettid()),
                    MIN_PRIORITY,
                );
                for path in queue {
                    if let Err(error) = compress(&path) {
                        tracing::warn!(path = %path.display(), %error, "cannot compress a rotated file; it stays uncompressed");
                    }
                    files.remove_outdated(None);
                }
            };
            if let Err(error) = thread::Builder::new()
                .name("compressor".to_owned())
                .spawn(work)
            {
                tracing::warn!(%error, "cannot start the thread that compresses rotated files; they stay uncompressed");
                return;
            }
            self.compressor = Some(sender);
        }
        if let Some(compressor) = &self.compressor {
            let _ = compressor.send(path);
        }
    }
}

impl Files {
    fn free_name(&self, ts: u64) -> String {
        let (stem, extension) = self.name_parts();
        let stamp = stamp(ts);
        let taken = |name: &str| {
            [name.to_owned(), format!("{name}{COMPRESSED}")]
                .iter()
                .any(|name| self.folder.join(name).exists())
        };
        let first = format!("{stem}-{stamp}{extension}");
        // The second rotation within one second, and later ones, have a number after the time.
        let others = (1..).map(|count: u32| format!("{stem}-{stamp}-{count:03}{extension}"));
        std::iter::once(first.clone())
            .chain(others)
            .find(|name| !taken(name))
            .unwrap_or(first)
    }

    /// Returns the file name without its extension, and the extension with its dot.
    fn name_parts(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| {
            part.unwrap_or_default().to_string_lossy().into_owned()
        };
        let extension = self
            .path
            .extension()
            .map(|extension| format!(".{}", extension.to_string_lossy()));
        (text(self.path.file_stem()), extension.unwrap_or_default())
    }

    /// Returns the names of the rotated files, the oldest first.
    fn rotated(&self) -> Vec<String> {
        let (stem, extension) = self.name_parts();
        let is_ours = |name: &String| {
            let middle = name
                .strip_prefix(&stem)
                .and_then(|rest| rest.strip_prefix('-'));
            let middle = middle
                .map(|rest| rest.strip_suffix(COMPRESSED).unwrap_or(rest))
                .and_then(|rest| rest.strip_suffix(&extension));
            middle.is_some_and(is_stamp)
        };
        let Ok(folder) = fs::read_dir(&self.folder) else {
            return Vec::new();
        };
        let mut names: Vec<_> = folder
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(is_ours)
            .collect();
        // Names sort by time and number, whether the files are compressed or not.
        let time = |name: &str| {
            let name = name.strip_suffix(COMPRESSED).unwrap_or(name);
            name.strip_suffix(&extension).unwrap_or(name).to_owned()
        };
        names.sort_by_key(|name| time(name));
        names
    }

    /// Removes the files beyond the limits. `closed` is the time, in nanoseconds since 1970, at
    /// which a file was closed; without it, the age limit is not applied.
    fn remove_outdated(&self, closed: Option<u64>) {
        let facts = |name: String| {
            let path = self.folder.join(name);
            let facts = fs::metadata(&path).ok()?;
            Some((
                path,
                Rotated {
                    octets: facts.len(),
                    modified: facts.modified().ok()?,
                },
            ))
        };
        let (paths, files): (Vec<_>, Vec<_>) = self.rotated().into_iter().filter_map(facts).unzip();
        let Outdated { now, later } = self.limits.outdated(&files, closed);
        if later > 0 {
            tracing::warn!(
                path = %self.path.display(),
                files = later,
                "many closed files are older than keep_age, and each closing removes only the oldest ones; check the clock of this host"
            );
        }
        for path in &paths[..now] {
            match fs::remove_file(path) {
                // The compressing thread removes files too, so a file may already be gone.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), %error, "cannot remove an old file; it keeps using space on the disk");
                }
                _ => {}
            }
        }
    }
}

/// Replaces a file by a compressed one, which gets its final name only when it is complete.
fn compress(path: &Path) -> io::Result<()> {
    let with = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let (partial, whole) = (with(PARTIAL), with(COMPRESSED));
    let from = match File::open(path) {
        // The file was one of the oldest, and was removed in the meantime.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let modified = from.metadata()?.modified()?;
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let to = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o640)
        .open(&partial)?;
    let done = encode(from, &to).and_then(|()| {
        to.set_modified(modified)?;
        to.sync_all()?;
        fs::rename(&partial, &whole)
    });
    if let Err(error) = done {
        let _ = fs::remove_file(&partial);
        return Err(error);
    }
    fs::remove_file(path)
}

/// Compresses a file. The frame has a checksum, so a reader detects bytes that the disk changed.
fn encode(mut from: File, to: &File) -> io::Result<()> {
    let mut encoder = zstd::Encoder::new(to, LEVEL)?;
    encoder.include_checksum(true)?;
    io::copy(&mut from, &mut encoder)?;
    encoder.finish().map(drop)
}

/// Formats a time for file names: `20261121T131144Z`.
fn stamp(ts: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_nanos(ts);
    humantime::format_rfc3339_seconds(at)
        .to_string()
        .replace(['-', ':'], "")
}

/// Returns whether a text is such a time, with or without a number after it (`-001`).
fn is_stamp(text: &str) -> bool {
    let is = |text: &str, pattern: &str| {
        let fits = |(c, p): (char, char)| if p == '0' { c.is_ascii_digit() } else { c == p };
        text.len() == pattern.len() && text.chars().zip(pattern.chars()).all(fits)
    };
    let (time, count) = text.split_at_checked(16).unwrap_or((text, ""));
    is(time, "00000000T000000Z") && (count.is_empty() || is(count, "-000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamp_is_the_utc_time_in_seconds() {
        assert_eq!(stamp(1_795_261_017_811_478_479), "20261121T113657Z");
        for (text, is) in [
            ("20261121T113657Z", true),
            ("20261121T113657Z-012", true),
            ("20261121T115657", false),
            ("backup", false),
        ] {
            assert_eq!(is_stamp(text), is, "{text}");
        }
        assert!(!is_stamp("20261121T113657Z-1\u{e4}"));
    }

    #[test]
    fn oldest_rotated_files_of_this_output_are_removed_and_no_others() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let names = [
            "lines.jsonl",
            "lines-backup.jsonl",
            "lines-20261121T000000Z.json",
            "others-20261121T000000Z.jsonl",
            "lines-20261121T000001Z.jsonl.zst",
            "lines-20261121T000001Z-001.jsonl",
            "lines-20261121T000002Z.jsonl",
        ];
        names
            .iter()
            .for_each(|name| fs::write(folder.path().join(name), "").expect("written"));
        let options = FileOptions {
            path: folder.path().join("lines.jsonl"),
            keep: Some(1),
            ..FileOptions::default()
        };
        Archive::new(&options).files.remove_outdated(None);
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .expect("read")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "lines-20261121T000000Z.json",
                "lines-20261121T000002Z.jsonl",
                "lines-backup.jsonl",
                "lines.jsonl",
                "others-20261121T000000Z.jsonl"
            ]
        );
    }

    #[test]
    fn compressed_files_count_against_the_total_size() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = FileOptions {
            path: folder.path().join("lines"),
            keep_total: Some(3000),
            ..FileOptions::default()
        };
        let mut archive = Archive::new(&options);
        for (at, octets) in [(1, 2000), (2, 2000), (3, 900)] {
            fs::write(&options.path, vec![b' '; octets]).expect("written");
            archive
                .rotate(1_795_261_017_000_000_000 + at * 1_000_000_000)
                .expect("renamed");
        }
        // The second and the third file have 2900 octets together.
        assert_eq!(
            archive.files.rotated(),
            ["lines-20261121T113659Z", "lines-20261121T113700Z"]
        );
        let last = folder.path().join("lines-20261121T113700Z.zst");
        fs::write(&last, vec![b' '; 1100]).expect("written");
        fs::remove_file(folder.path().join("lines-20261121T113700Z")).expect("removed");
        archive.files.remove_outdated(None);
        assert_eq!(archive.files.rotated(), ["lines-20261121T113700Z.zst"]);
    }

    #[test]
    fn two_rotations_in_one_second_get_different_names() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = FileOptions {
            path: folder.path().join("lines"),
            ..FileOptions::default()
        };
        let mut archive = Archive::new(&options);
        for text in ["a", "b", "c"] {
            fs::write(&options.path, text).expect("written");
            archive.rotate(1_795_261_017_000_000_000).expect("renamed");
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("read");
        assert_eq!(
            archive.files.rotated(),
            [
                "lines-20261121T113657Z",
                "lines-20261121T113657Z-001",
                "lines-20261121T113657Z-002"
            ]
        );
        assert_eq!(
            archive
                .files
                .rotated()
                .iter()
                .map(|name| read(name))
                .collect::<String>(),
            "abc"
        );
    }

    #[test]
    fn compressed_file_replaces_the_rotated_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lines-20261121T113657Z.jsonl");
        let text = "{\"type\":\"port\"}\n".repeat(10_000);
        fs::write(&path, &text).expect("written");
        fs::write(
            folder.path().join("lines-20261121T113657Z.jsonl.zst.part"),
            "leftover",
        )
        .expect("written");
        compress(&path).expect("compressed");
        let names: Vec<_> = fs::read_dir(folder.path())
            .expect("read")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(names, ["lines-20261121T113657Z.jsonl.zst"]);
        let compressed = fs::read(folder.path().join(&names[0])).expect("read");
        assert!(compressed.len() < text.len() / 10, "{}", compressed.len());
        assert!(zstd::stream::decode_all(&compressed[..]).expect("whole") == text.as_bytes());
        compress(&path).expect("a removed file is skipped");
    }

    #[test]
    fn flipped_bit_of_a_compressed_file_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("lines");
        // Digits that are hard to compress: most octets of the file are these digits.
        let line = |n: u64| {
            format!(
                "{{\"port_xmit_data_bytes\":{}}}\n",
                n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            )
        };
        let text: String = (0..100).map(line).collect();
        fs::write(&path, &text).expect("written");
        compress(&path).expect("compressed");
        let whole = fs::read(folder.path().join("lines.zst")).expect("read");
        for (place, bit) in (0..whole.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut damaged = whole.clone();
            damaged[place] ^= 1 << bit;
            let read = zstd::stream::decode_all(&damaged[..]);
            assert!(
                read.map_or(true, |read| read == text.as_bytes()),
                "bit {bit} of octet {place}"
            );
        }
    }
}
