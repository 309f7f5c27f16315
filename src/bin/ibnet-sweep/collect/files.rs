//! The files of `ibnet-sweep collect`: `lines-TIME.jsonl.zst`, with the suffix `.part` while one
//! is being written.
//!
//! Each write is one zstd frame, which is on the disk before the write returns. A crash therefore
//! leaves whole frames, and at most one incomplete frame at the end, whose messages are delivered
//! again.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use ibnet::output::frames;
use zstd::bulk::Compressor;

use crate::clock::wall_clock as now;

/// Level of zstd: its default.
const LEVEL: i32 = 3;

/// Mode of the files.
const MODE: u32 = 0o640;

/// The files in a folder, one of which is open.
pub(super) struct Files {
    folder: PathBuf,
    every: Duration,
    open: Option<Open>,
    compressor: Compressor<'static>,
    records: u64,
    _lock: File,
}

struct Open {
    file: File,
    part: PathBuf,
    octets: u64,
    /// Time at which the file must be closed, in nanoseconds since 1970.
    until: u64,
}

impl Files {
    /// Opens a folder, and creates it if it is missing. Closes the files that a crash left open.
    pub(super) fn open(folder: &Path, every: Duration) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(MODE)
            .open(folder.join(".collect.lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other("another ibnet-sweep collect writes to it"));
            }
            Err(TryLockError::Error(error)) => {
                tracing::warn!(%error, "the file system has no locks, so a second collector could write to the same folder");
            }
        }
        let compressor = frames::compressor(LEVEL)?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path
                .to_str()
                .is_some_and(|path| path.ends_with(".jsonl.zst.part"))
            {
                recover(&path)?;
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
            every,
            open: None,
            compressor,
            records: 0,
            _lock: lock,
        })
    }

    /// Returns the number of records that were written.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// Writes whole lines to the disk.
    pub(super) fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let frame = self.compressor.compress(text)?;
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(Open::new(&self.folder, self.every)?),
        };
        open.file.write_all_at(&frame, open.octets)?;
        open.file.sync_data()?;
        open.octets += frame.len() as u64;
        self.records += memchr::memchr_iter(b'\n', text).count() as u64;
        Ok(())
    }

    /// Closes the file if its time has come.
    pub(super) fn close_if_due(&mut self) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| now() >= open.until) {
            self.close()
        } else {
            Ok(())
        }
    }

    /// Closes the open file: removes the suffix `.part`, and what a failed write left at its end.
    pub(super) fn close(&mut self) -> io::Result<()> {
        match self.open.take() {
            Some(open) => finish(&open.file, &open.part, open.octets),
            None => Ok(()),
        }
    }
}

impl Open {
    fn new(folder: &Path, every: Duration) -> io::Result<Self> {
        let now = now();
        let every = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1);
        let until = (now / every + 1).saturating_mul(every);
        let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(now))
            .to_string()
            .replace(['-', ':'], "");
        for number in 0..1000 {
            let number = if number == 0 {
                String::new()
            } else {
                format!("-{number:03}")
            };
            let path = folder.join(format!("lines-{time}{number}.jsonl.zst"));
            let part = path.with_added_extension("part");
            if !path.exists() && !part.exists() {
                let file = File::options()
                    .write(true)
                    .create_new(true)
                    .mode(MODE)
                    .open(&part)?;
                return Ok(Self {
                    file,
                    part,
                    octets: 0,
                    until,
                });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

/// Truncates a file after its whole frames and removes the suffix `.part`. Removes a file without
/// a frame.
fn finish(file: &File, part: &Path, octets: u64) -> io::Result<()> {
    file.set_len(octets)?;
    file.sync_all()?;
    if octets == 0 {
        fs::remove_file(part)
    } else {
        fs::rename(part, part.with_extension(""))
    }
}

/// Closes a file that a crash left open, without its incomplete frame. If the disk has damaged a
/// frame before others, an unchanged copy with the ending `.damaged` is kept too.
fn recover(part: &Path) -> io::Result<()> {
    let octets = fs::read(part)?;
    let (mut whole, mut damaged, mut behind, mut rest) = (Vec::new(), 0, 0, octets.as_slice());
    while !rest.is_empty() {
        let length = frames::length(rest)
            .filter(|length| zstd::stream::copy_decode(&rest[..*length], io::sink()).is_ok());
        let (frame, others) = rest.split_at(length.unwrap_or_else(|| frames::next(rest)));
        if length.is_some() {
            whole.extend_from_slice(frame);
            damaged += u64::from(behind > 0);
            behind = 0;
        } else {
            behind += frame.len();
        }
        rest = others;
    }
    if behind > 0 {
        tracing::info!(path = %part.display(), octets = behind, "removed the incomplete end of a file; the server sends its records again");
    }
    if damaged > 0 {
        let aside = part.with_extension("damaged");
        tracing::warn!(path = %aside.display(), places = damaged, "a file is damaged, and the records of its damaged frames are lost; check the disk");
        // The copy gets the mode of the file, so other users cannot read it either.
        fs::copy(part, &aside)?;
        File::open(&aside)?.sync_all()?;
    }
    let file = File::options().write(true).open(part)?;
    file.write_all_at(&whole, 0)?;
    finish(&file, part, whole.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.retain(|name| !name.to_string_lossy().starts_with('.'));
        names.sort();
        names
            .into_iter()
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }

    fn text(path: &Path) -> String {
        String::from_utf8(
            zstd::stream::decode_all(&fs::read(path).expect("read")[..]).expect("whole frames"),
        )
        .expect("text")
    }

    #[test]
    fn file_is_closed_by_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = Files::open(folder.path(), Duration::from_secs(3600)).expect("opened");
        for _ in 0..2 {
            files.write(b"a\nb\n").expect("written");
            files.write(b"c\n").expect("written");
            assert!(
                names(folder.path())
                    .iter()
                    .any(|name| name.ends_with(".jsonl.zst.part"))
            );
            files.close().expect("closed");
        }
        let names = names(folder.path());
        assert!(
            names.len() == 2
                && names
                    .iter()
                    .all(|name| name.starts_with("lines-2") && name.ends_with(".jsonl.zst")),
            "{names:?}"
        );
        assert!(
            names
                .iter()
                .all(|name| text(&folder.path().join(name)) == "a\nb\nc\n")
                && files.records() == 6
        );
    }

    #[test]
    fn any_flipped_bit_costs_the_records_of_its_frame_only_and_the_file_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let part = folder.path().join("lines-20200101T000000Z.jsonl.zst.part");
        let closed = part.with_extension("");
        let aside = closed.with_added_extension("damaged");
        let mut compressor = frames::compressor(LEVEL).expect("zstd");
        let frames = ["one\n", "two\n", "three\n"]
            .map(|text| compressor.compress(text.as_bytes()).expect("compressed"));
        let [first, second, _] = &frames;
        for place in first.len()..first.len() + second.len() {
            for bit in 0..8 {
                let mut octets = frames.concat();
                octets[place] ^= 1 << bit;
                octets.extend_from_slice(&first[..3]);
                fs::write(&part, &octets).expect("written");
                fs::set_permissions(&part, Permissions::from_mode(0o600)).expect("set");
                recover(&part).expect("closed");
                let found = text(&closed);
                // Some bits of a frame mean nothing.
                assert!(
                    found == "one\nthree\n" || found == "one\ntwo\nthree\n",
                    "bit {bit} of {place}: {found}"
                );
                assert!(
                    found.contains("two") || fs::read(&aside).expect("kept") == octets,
                    "bit {bit} of {place}"
                );
            }
        }
        assert_eq!(
            names(folder.path()),
            [
                "lines-20200101T000000Z.jsonl.zst",
                "lines-20200101T000000Z.jsonl.zst.damaged"
            ]
        );
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        assert_eq!(
            [&closed, &aside].map(|path| mode(path)),
            [0o600; 2],
            "no other user can read them"
        );
    }

    #[test]
    fn failed_write_leaves_whole_frames() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = Files::open(folder.path(), Duration::from_secs(3600)).expect("opened");
        files.write(b"one\n").expect("written");
        for expected in [1, 0] {
            let open = files.open.get_or_insert_with(|| {
                Open::new(folder.path(), Duration::from_secs(3600)).expect("opened")
            });
            // A full disk takes the first octets of a frame.
            let torn = open.file.write_all_at(&[0x28, 0xb5], open.octets);
            torn.expect("written");
            files.close().expect("closed");
            let names = names(folder.path());
            assert_eq!(names.len(), expected, "{names:?}");
            for path in names.iter().map(|name| folder.path().join(name)) {
                assert_eq!(text(&path), "one\n");
                fs::remove_file(path).expect("removed");
            }
        }
    }

    #[test]
    fn crash_leaves_whole_frames() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = Files::open(folder.path(), Duration::from_secs(3600)).expect("opened");
        files.write(b"one\n").expect("written");
        files.write(b"two\n").expect("written");
        assert!(
            Files::open(folder.path(), Duration::from_secs(1)).is_err(),
            "another process"
        );
        drop(files);
        let part = folder.path().join(names(folder.path()).remove(0));
        let whole = fs::read(&part).expect("read");
        fs::write(&part, &whole[..whole.len() - 3]).expect("written");
        fs::write(
            folder.path().join("lines-20200101T000000Z.jsonl.zst.part"),
            &whole[..3],
        )
        .expect("written");
        drop(Files::open(folder.path(), Duration::from_secs(1)).expect("opened"));
        let [name] = &names(folder.path())[..] else {
            panic!("one file")
        };
        assert!(!name.ends_with(".part") && text(&folder.path().join(name)) == "one\n");
    }
}
