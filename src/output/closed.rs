//! Files that are closed: how they are called, compressed, and removed when there are enough.
//!
//! `lines.jsonl` becomes `lines-20261121T131144Z.jsonl`, by the time at which it was closed, and `lines-20261121T131144Z.jsonl.zst` when it is compressed:
//! what reads `lines*.jsonl*` finds all of them, in order.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use super::file::FileOptions;

/// Of zstd's levels the one that it takes by itself: a tenth of the octets, at hundreds of megabytes a second.
const LEVEL: i32 = 3;

/// The nice value of whoever compresses.
const LEAST_PRIORITY: i32 = 19;

const COMPRESSED: &str = ".zst";
/// Half compressed files; they count as nothing.
const HALF: &str = ".zst.part";

/// The closed files of a file.
#[derive(Debug)]
pub(super) struct Archive {
    path: PathBuf,
    folder: PathBuf,
    keep: Option<usize>,
    compress: bool,
    /// Whoever compresses them, once there is something to compress.
    compressor: Option<Sender<PathBuf>>,
}

impl Archive {
    pub(super) fn new(options: &FileOptions) -> Self {
        let FileOptions { path, keep, compress, .. } = options.clone();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new(".")).to_owned();
        Self { path, folder, keep, compress, compressor: None }
    }

    /// Goes on with what was left undone when the program ended.
    pub(super) fn resume(&mut self) {
        if self.compress {
            self.closed().into_iter().filter(|name| !name.ends_with(COMPRESSED)).for_each(|name| self.compress(self.folder.join(name)));
        }
    }

    /// Closes the file, at that time.
    pub(super) fn close(&mut self, ts: u64) -> io::Result<()> {
        let to = self.folder.join(self.free_name(ts));
        fs::rename(&self.path, &to)?;
        tracing::debug!(to = %to.display(), "the file was closed");
        if self.compress {
            self.compress(to);
        }
        self.remove_oldest();
        Ok(())
    }

    /// A name that no closed file has.
    fn free_name(&self, ts: u64) -> String {
        let (stem, extension) = self.name_parts();
        let stamp = stamp(ts);
        let taken = |name: &str| [name.to_owned(), format!("{name}{COMPRESSED}")].iter().any(|name| self.folder.join(name).exists());
        let first = format!("{stem}-{stamp}{extension}");
        // Two in a second.
        let others = (1..).map(|count: u32| format!("{stem}-{stamp}-{count:03}{extension}"));
        std::iter::once(first.clone()).chain(others).find(|name| !taken(name)).unwrap_or(first)
    }

    /// The name of the file, before its extension and from there on.
    fn name_parts(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let extension = self.path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
        (text(self.path.file_stem()), extension.unwrap_or_default())
    }

    /// The names of the closed files, from the oldest.
    fn closed(&self) -> Vec<String> {
        let (stem, extension) = self.name_parts();
        let is_ours = |name: &String| {
            let middle = name.strip_prefix(&stem).and_then(|rest| rest.strip_prefix('-'));
            let middle = middle.map(|rest| rest.strip_suffix(COMPRESSED).unwrap_or(rest)).and_then(|rest| rest.strip_suffix(&extension));
            middle.is_some_and(is_stamp)
        };
        let Ok(folder) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut names: Vec<_> = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).filter(is_ours).collect();
        // By time, not by what comes after it.
        let time = |name: &str| {
            let name = name.strip_suffix(COMPRESSED).unwrap_or(name);
            name.strip_suffix(&extension).unwrap_or(name).to_owned()
        };
        names.sort_by_key(|name| time(name));
        names
    }

    fn remove_oldest(&self) {
        let Some(keep) = self.keep else { return };
        let closed = self.closed();
        for name in &closed[..closed.len().saturating_sub(keep)] {
            if let Err(error) = fs::remove_file(self.folder.join(name)) {
                tracing::warn!(%name, %error, "an old file cannot be removed");
            }
        }
    }

    fn compress(&mut self, path: PathBuf) {
        if self.compressor.is_none() {
            let (sender, files) = channel::<PathBuf>();
            let work = move || {
                // It has time, and whoever sends MADs has none. On Linux this is of the thread; where it is refused, it is refused.
                let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LEAST_PRIORITY);
                for path in files {
                    if let Err(error) = compress(&path) {
                        tracing::warn!(path = %path.display(), %error, "cannot be compressed; it stays as it is");
                    }
                }
            };
            if let Err(error) = thread::Builder::new().name("compressor".to_owned()).spawn(work) {
                tracing::warn!(%error, "closed files cannot be compressed");
                return;
            }
            self.compressor = Some(sender);
        }
        if let Some(compressor) = &self.compressor {
            let _ = compressor.send(path);
        }
    }
}

/// Puts a compressed file in the place of a file, at once.
fn compress(path: &Path) -> io::Result<()> {
    let with = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let (half, whole) = (with(HALF), with(COMPRESSED));
    let from = match File::open(path) {
        // It was one too many meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let modified = from.metadata()?.modified()?;
    match fs::remove_file(&half) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let to = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&half)?;
    let done = zstd::stream::copy_encode(BufReader::new(from), &to, LEVEL).and_then(|()| {
        to.set_modified(modified)?;
        to.sync_all()?;
        fs::rename(&half, &whole)
    });
    if let Err(error) = done {
        let _ = fs::remove_file(&half);
        return Err(error);
    }
    fs::remove_file(path)
}

/// A time as it stands in names: `20261121T131144Z`.
fn stamp(ts: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_nanos(ts);
    humantime::format_rfc3339_seconds(at).to_string().replace(['-', ':'], "")
}

/// Whether this is such a time, and perhaps a number after it.
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
    fn a_time_is_part_of_a_name() {
        assert_eq!(stamp(1_795_261_017_811_478_479), "20261121T113657Z");
        for (text, is) in [("20261121T113657Z", true), ("20261121T113657Z-012", true), ("20261121T115657", false), ("backup", false)] {
            assert_eq!(is_stamp(text), is, "{text}");
        }
        assert!(!is_stamp("20261121T113657Z-1\u{e4}"));
    }

    #[test]
    fn only_closed_files_of_this_file_are_removed_and_the_oldest_of_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = [
            "lines.jsonl",
            "lines-backup.jsonl",
            "lines-20261121T000000Z.json",
            "others-20261121T000000Z.jsonl",
            "lines-20261121T000001Z.jsonl.zst",
            "lines-20261121T000001Z-001.jsonl",
            "lines-20261121T000002Z.jsonl",
        ];
        names.iter().for_each(|name| fs::write(folder.path().join(name), "").expect("written"));
        let options = FileOptions { path: folder.path().join("lines.jsonl"), keep: Some(1), ..FileOptions::default() };
        Archive::new(&options).remove_oldest();
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .expect("read")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
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
    fn a_name_is_never_taken_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = FileOptions { path: folder.path().join("lines"), ..FileOptions::default() };
        let mut archive = Archive::new(&options);
        for text in ["a", "b", "c"] {
            fs::write(&options.path, text).expect("written");
            archive.close(1_795_261_017_000_000_000).expect("closed");
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("read");
        assert_eq!(archive.closed(), ["lines-20261121T113657Z", "lines-20261121T113657Z-001", "lines-20261121T113657Z-002"]);
        assert_eq!(archive.closed().iter().map(|name| read(name)).collect::<String>(), "abc");
    }

    #[test]
    fn a_compressed_file_takes_the_place_of_the_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines-20261121T113657Z.jsonl");
        let text = "{\"type\":\"port\"}\n".repeat(10_000);
        fs::write(&path, &text).expect("written");
        fs::write(folder.path().join("lines-20261121T113657Z.jsonl.zst.part"), "half of it").expect("written");
        compress(&path).expect("compressed");
        let names: Vec<_> = fs::read_dir(folder.path()).expect("read").map(|entry| entry.expect("an entry").file_name()).collect();
        assert_eq!(names, ["lines-20261121T113657Z.jsonl.zst"]);
        let compressed = fs::read(folder.path().join(&names[0])).expect("read");
        assert!(compressed.len() < text.len() / 10, "{}", compressed.len());
        assert!(zstd::stream::decode_all(&compressed[..]).expect("whole") == text.as_bytes());
        compress(&path).expect("what is gone needs nothing");
    }
}
