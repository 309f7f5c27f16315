//! The spool: lines that are not in the archive yet, in a folder of compressed files.
//!
//! Each batch of lines is one zstd frame with a checksum, written with one call, so a hub that is
//! killed loses no written batch. A loss of power can tear the last frame of the last file. A file
//! is removed once its records are in the archive; a file with a damaged frame is renamed and kept.
//! The size of a file is limited, so that a large spool is packed in several runs.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use ibnet::output::frames;
use ibnet_record::types::Printable;
use miette::Diagnostic;

use super::status::{Part, Shared};

/// Folder of the spool in the archive. Readers of the archive skip names that begin with a dot.
const FOLDER: &str = ".spool";

/// File that the hub locks.
const LOCK: &str = ".lock";

const PREFIX: &str = "lines-";
const SUFFIX: &str = ".jsonl.zst";

/// Compression level of zstd. The files exist for minutes only, so speed counts.
const LEVEL: i32 = 1;

/// Size in bytes from which lines go to the next file.
const FILE: u64 = 64 << 20;

/// Pause before an input that can wait tries again.
const PAUSE: Duration = Duration::from_secs(1);

/// Why the spool does not accept lines.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(crate) enum SpoolError {
    /// The disk does not accept the lines.
    #[error("cannot write {}: {source}", Printable(&path.display().to_string()))]
    #[diagnostic(help(
        "free space, or let the user of the hub write to the folder of the archive"
    ))]
    Write { path: PathBuf, source: io::Error },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", Printable(&path.display().to_string()))]
    #[diagnostic(help(
        "check the disk, and that the user of the hub may read the folder of the archive"
    ))]
    Read { path: PathBuf, source: io::Error },
    /// The limit is reached.
    #[error("cannot add lines to {}: it has {octets} bytes, the limit is {most}", Printable(&path.display().to_string()))]
    #[diagnostic(help(
        "correct the fault that keeps the hub from packing, or raise archive_spool_max"
    ))]
    Full {
        path: PathBuf,
        octets: u64,
        most: u64,
    },
    /// Another hub uses the spool.
    #[error("cannot use {}: another hub packs into this archive", Printable(&path.display().to_string()))]
    #[diagnostic(help(
        "set archive_pack = false for one of the two hubs, or give it another archive"
    ))]
    Busy { path: PathBuf },
}

/// The spool of an archive.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: PathBuf,
    most: u64,
    writer: Mutex<Writer>,
    /// Held while a thread makes lines durable.
    syncing: Mutex<()>,
    status: Arc<Shared>,
    /// The lock ends when the file is closed.
    _lock: File,
}

#[derive(Debug, Default)]
struct Writer {
    open: Option<Open>,
    /// Complete files with their sizes, oldest first.
    closed: Vec<(PathBuf, u64)>,
    /// Complete files that are not durable yet.
    unsynced: Vec<(PathBuf, Arc<File>)>,
    next: u64,
    /// The last file of an earlier hub, whose last frame can be torn.
    torn: Option<PathBuf>,
}

/// The oldest files of the spool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Oldest {
    pub(crate) files: Vec<PathBuf>,
    /// Whether these are all files.
    pub(crate) is_all: bool,
}

/// The file that is written.
#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: Arc<File>,
    octets: u64,
    is_synced: bool,
}

impl Spool {
    /// Opens the spool of an archive. Files of an earlier hub wait to be packed.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written to, or if another hub uses it.
    pub(crate) fn open(archive: &Path, most: u64, status: Arc<Shared>) -> Result<Self, SpoolError> {
        let folder = archive.join(FOLDER);
        let failed = |source| SpoolError::Write {
            path: folder.clone(),
            source,
        };
        fs::create_dir_all(&folder).map_err(failed)?;
        let lock = File::options()
            .create(true)
            .append(true)
            .open(folder.join(LOCK))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SpoolError::Busy { path: folder }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let mut writer = Writer::default();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| {
                name.strip_prefix(PREFIX)?
                    .strip_suffix(SUFFIX)?
                    .parse::<u64>()
                    .ok()
            });
            if let Some(number) = number {
                writer.next = writer.next.max(number + 1);
                writer
                    .closed
                    .push((entry.path(), entry.metadata().map_err(failed)?.len()));
            }
        }
        writer.closed.sort();
        writer.torn = writer.closed.last().map(|(path, _)| path.clone());
        status.lock().spool_max_octets = most;
        let spool = Self {
            folder,
            most,
            writer: Mutex::new(writer),
            syncing: Mutex::default(),
            status,
            _lock: lock,
        };
        spool.show(&spool.lock());
        Ok(spool)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        // After a panic of another thread, the sizes of the files are still valid.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds lines.
    ///
    /// # Errors
    /// Returns an error if the disk fails or the limit is reached. None of the lines are then in
    /// the spool.
    pub(crate) fn add(&self, lines: &[u8]) -> Result<(), SpoolError> {
        let failed = |path: &Path, source| SpoolError::Write {
            path: path.to_owned(),
            source,
        };
        let mut text = std::borrow::Cow::Borrowed(lines);
        if lines.last().is_some_and(|octet| *octet != b'\n') {
            // The last line may lack its line feed, and the next frame begins a new line.
            text.to_mut().push(b'\n');
        }
        let frame = frames::compressor(LEVEL)
            .and_then(|mut compressor| compressor.compress(&text))
            .map_err(|source| failed(&self.folder, source))?;
        let mut writer = self.lock();
        let octets = writer.octets();
        if octets + frame.len() as u64 > self.most {
            return Err(SpoolError::Full {
                path: self.folder.clone(),
                octets,
                most: self.most,
            });
        }
        let mut open = match writer.open.take() {
            Some(open) => open,
            None => {
                let path = self
                    .folder
                    .join(format!("{PREFIX}{:012}{SUFFIX}", writer.next));
                let file = File::options()
                    .create_new(true)
                    .append(true)
                    .open(&path)
                    .map_err(|source| failed(&path, source))?;
                writer.next += 1;
                Open {
                    path,
                    file: Arc::new(file),
                    octets: 0,
                    is_synced: false,
                }
            }
        };
        let written = (&*open.file).write_all(&frame);
        if let Err(source) = written {
            let error = failed(&open.path, source);
            // A partial frame would hide the frames after it.
            match open.file.set_len(open.octets) {
                Ok(()) => writer.open = Some(open),
                Err(_) => writer.close(open),
            }
            return Err(error);
        }
        open.octets += frame.len() as u64;
        open.is_synced = false;
        if open.octets < FILE {
            writer.open = Some(open);
        } else {
            writer.close(open);
        }
        self.show(&writer);
        Ok(())
    }

    /// Adds lines of an input that cannot wait. If this fails, the lines are counted as lost.
    pub(crate) fn offer(&self, lines: &[u8]) {
        let added = self.add(lines);
        if added.is_err() {
            self.status.lock().lines_lost += memchr::memchr_iter(b'\n', lines).count() as u64;
        }
        self.note(added);
    }

    /// Adds lines of an input that can wait. Returns once they are in the spool.
    pub(crate) fn add_when_possible(&self, lines: &[u8]) {
        loop {
            let added = self.add(lines);
            let is_added = added.is_ok();
            self.note(added);
            if is_added {
                return;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Makes all lines durable. Retries until it succeeds.
    pub(crate) fn sync_when_possible(&self) {
        loop {
            let synced = self.sync();
            let is_synced = synced.is_ok();
            self.note(synced);
            if is_synced {
                return;
            }
            thread::sleep(PAUSE);
        }
    }

    fn note(&self, result: Result<(), SpoolError>) {
        self.status.lock().set_fault(
            Part::Spool,
            result.err().map(|error| super::status::with_help(&error)),
        );
    }

    /// Makes all lines durable.
    ///
    /// # Errors
    /// Returns the error of the disk.
    pub(crate) fn sync(&self) -> Result<(), SpoolError> {
        // A second caller returns when its lines are durable too.
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let files = {
            let mut writer = self.lock();
            let mut files = std::mem::take(&mut writer.unsynced);
            if let Some(open) = writer.open.as_mut().filter(|open| !open.is_synced) {
                // Lines that arrive from here on are made durable the next time.
                open.is_synced = true;
                files.push((open.path.clone(), Arc::clone(&open.file)));
            }
            files
        };
        let Some((path, _)) = files.last() else {
            return Ok(());
        };
        let path = path.clone();
        let synced = files
            .iter()
            .try_for_each(|(_, file)| file.sync_all())
            .and_then(|()| File::open(&self.folder)?.sync_all());
        synced.map_err(|source| {
            self.lock().unsynced.extend(files);
            SpoolError::Write { path, source }
        })
    }

    /// Returns the oldest files: at least one, and several only if they have at most `most` bytes
    /// together. Closes the file that is being written if it is one of them. The files stay in the
    /// spool until they are [removed](Self::remove).
    ///
    /// # Errors
    /// Returns the error of the disk.
    pub(crate) fn oldest(&self, most: u64) -> Result<Oldest, SpoolError> {
        self.sync()?;
        let mut writer = self.lock();
        if writer.octets() <= most
            && let Some(open) = writer.open.take()
        {
            writer.close(open);
        }
        let mut octets = 0;
        let fits = |(number, (_, size)): &(usize, &(PathBuf, u64))| {
            octets += size;
            *number == 0 || octets <= most
        };
        let files: Vec<PathBuf> = writer
            .closed
            .iter()
            .enumerate()
            .take_while(fits)
            .map(|(_, (path, _))| path.clone())
            .collect();
        Ok(Oldest {
            is_all: files.len() == writer.closed.len() && writer.open.is_none(),
            files,
        })
    }

    /// Returns the time in nanoseconds since 1970 at which the oldest complete file got its last
    /// line. `None` if there is none.
    pub(crate) fn waiting_since(&self) -> Option<u64> {
        let path = self.lock().closed.first().map(|(path, _)| path.clone())?;
        written_ns(&path)
    }

    /// Removes files whose records are in the archive.
    ///
    /// # Errors
    /// Returns the error of the disk. The file is then packed again.
    pub(crate) fn remove(&self, files: &[PathBuf]) -> Result<(), SpoolError> {
        for path in files {
            fs::remove_file(path).map_err(|source| SpoolError::Write {
                path: path.clone(),
                source,
            })?;
            self.forget(path);
        }
        Ok(())
    }

    /// Opens a file of the spool.
    ///
    /// # Errors
    /// Returns the error of the disk.
    pub(super) fn lines(&self, path: &Path) -> Result<Lines, SpoolError> {
        let can_be_torn = self.lock().torn.as_deref() == Some(path);
        let octets = fs::read(path).map_err(|source| SpoolError::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Lines {
            octets,
            at: 0,
            can_be_torn,
            damaged: 0,
            torn: 0,
        })
    }

    /// Renames a file with damaged frames, so that it is not packed again. An existing file with
    /// the new name is kept.
    ///
    /// # Errors
    /// Returns the error of the disk.
    pub(crate) fn set_aside(&self, path: &Path) -> Result<PathBuf, SpoolError> {
        let first = path.with_extension("damaged");
        let others = (1..).map(|number: u32| first.with_added_extension(number.to_string()));
        let aside = std::iter::once(first.clone())
            .chain(others)
            .find(|aside| !aside.exists())
            .unwrap_or_else(|| first.clone());
        fs::rename(path, &aside).map_err(|source| SpoolError::Write {
            path: path.to_owned(),
            source,
        })?;
        self.forget(path);
        Ok(aside)
    }

    fn forget(&self, path: &Path) {
        let mut writer = self.lock();
        writer.closed.retain(|(closed, _)| closed != path);
        writer.unsynced.retain(|(unsynced, _)| unsynced != path);
        self.show(&writer);
    }

    pub(super) fn set_reader_fault(&self, name: &str, fault: Option<String>) {
        self.status.lock().set_reader_fault(name, fault);
    }

    pub(crate) fn is_half_full(&self) -> bool {
        self.lock().octets() > self.most / 2
    }

    fn show(&self, writer: &Writer) {
        self.status.lock().spool_octets = writer.octets();
    }
}

/// Returns the time of the last change of a file in nanoseconds since 1970.
pub(super) fn written_ns(path: &Path) -> Option<u64> {
    let written = fs::metadata(path).and_then(|state| state.modified()).ok()?;
    u64::try_from(
        written
            .duration_since(SystemTime::UNIX_EPOCH)
            .ok()?
            .as_nanos(),
    )
    .ok()
}

impl Writer {
    fn close(
        &mut self,
        Open {
            path,
            file,
            octets,
            is_synced,
        }: Open,
    ) {
        if !is_synced {
            self.unsynced.push((path.clone(), file));
        }
        self.closed.push((path, octets));
    }

    fn octets(&self) -> u64 {
        self.closed.iter().map(|(_, octets)| octets).sum::<u64>()
            + self.open.as_ref().map_or(0, |open| open.octets)
    }
}

/// Bytes of text that are read at once.
const CHUNK: usize = 4 << 20;

/// Reads the lines of a file of the spool, frame by frame.
pub(super) struct Lines {
    octets: Vec<u8>,
    at: usize,
    can_be_torn: bool,
    /// Number of damaged frames. Their lines are skipped.
    pub(super) damaged: u64,
    /// Number of bytes of a torn frame at the end.
    pub(super) torn: usize,
}

impl Lines {
    /// Returns the next whole lines. `None` at the end.
    pub(super) fn read(&mut self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() < CHUNK
            && let Some(rest) = self.octets.get(self.at..).filter(|rest| !rest.is_empty())
        {
            let whole = text.len();
            let length = frames::length(rest);
            if let Some(length) = length
                && zstd::stream::copy_decode(&rest[..length], &mut text).is_ok()
            {
                self.at += length;
                continue;
            }
            text.truncate(whole);
            let next = frames::next(rest);
            if self.can_be_torn && length.is_none() && next == rest.len() {
                self.torn = rest.len();
            } else {
                self.damaged += 1;
            }
            self.at += next;
        }
        (!text.is_empty()).then_some(text)
    }
}
