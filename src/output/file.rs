//! A file that is appended to, and closed by a rename when it is large or old enough. Nothing is ever truncated.
//!
//! A file that somebody renames, removes or empties is noticed before the next lines are written: they go to the file of that name, with `start` lines
//! at its head.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use super::closed::Archive;
use super::queue::{Inbox, Message};
use super::stream::Stream;
use super::{Ended, write_counted};

/// How a file is kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileOptions {
    /// Where it is.
    pub path: PathBuf,
    /// Octets after which another is begun.
    pub rotate_octets: Option<u64>,
    /// Another is begun where the wall clock passes a multiple of this.
    pub rotate_every: Option<Duration>,
    /// Whether closed files are compressed.
    pub compress: bool,
    /// How many closed files are kept; all of them if `None`.
    pub keep: Option<usize>,
}

/// What is written to a file.
#[derive(Debug)]
pub(super) struct FileSink {
    options: FileOptions,
    archive: Archive,
    file: Option<Opened>,
    stream: Stream,
    /// Whether the log was told that nothing can be written.
    failing: bool,
    /// Whether it was told that the file cannot be closed.
    stuck: bool,
}

/// A file that is open.
#[derive(Debug)]
struct Opened {
    file: File,
    /// Its device and inode.
    id: (u64, u64),
    /// Whether it is a file of that very name, and no device, pipe or link: only those are rotated.
    is_file: bool,
    /// Its octets.
    length: u64,
    /// In which period its last slot was written.
    period: Option<u64>,
}

impl FileSink {
    /// Opens it and closes its last line if that is torn.
    pub(super) fn open(options: FileOptions) -> io::Result<Self> {
        let archive = Archive::new(&options);
        let mut sink = Self { options, archive, file: None, stream: Stream::default(), failing: false, stuck: false };
        sink.file = Some(sink.open_whole_lines()?);
        sink.archive.resume();
        Ok(sink)
    }

    /// Writes until all outlets are dropped.
    pub(super) fn run(mut self, mut inbox: Inbox) -> Ended {
        while let Some(message) = inbox.wait() {
            self.take(&message);
        }
        Ended::of(self.stream.untold() + inbox.untold())
    }

    fn take(&mut self, message: &Message) {
        if let Some(ts) = Stream::ts(message) {
            self.mind(ts, message);
        }
        if self.stream.take(message).is_empty() {
            return;
        }
        let (written, result) = match &mut self.file {
            Some(file) => file.write(self.stream.text()),
            // Why not was told.
            None => (0, Ok(())),
        };
        self.stream.wrote(written);
        match result {
            Ok(()) if self.file.is_some() => self.tell_writing(),
            Ok(()) => {}
            Err(error) => self.tell_failing(&error),
        }
        // Start lines alone are no reason to close a file.
        if let (Some(file), Message::Lines(_, batch, _)) = (&mut self.file, message) {
            file.period = self.options.period(batch.ts);
        }
    }

    /// Sees to it that the right file is open.
    fn mind(&mut self, ts: u64, message: &Message) {
        let path = &self.options.path;
        if let Some(Opened { id, length, is_file, .. }) = &mut self.file {
            match fs::metadata(path) {
                Ok(now) if identity(&now) == *id => {
                    if *is_file && now.len() < *length {
                        tracing::warn!(path = %path.display(), "somebody truncated the file: what it had may be lost");
                        self.stream.begin();
                    }
                    *length = now.len();
                }
                // As long as nobody can look, what is open is as good as any.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => {
                    tracing::info!(path = %path.display(), "somebody moved the file away: another is begun");
                    self.file = None;
                }
            }
        }
        if self.is_due(ts, message) {
            self.close(ts);
        }
        if self.file.is_none() {
            self.stream.begin();
            match self.open_whole_lines() {
                Ok(file) => self.file = Some(file),
                Err(error) => self.tell_failing(&error),
            }
        }
    }

    /// Whether another file is to be begun before this message.
    fn is_due(&self, ts: u64, message: &Message) -> bool {
        let Some(Opened { is_file: true, length: length @ 1.., period, .. }) = &self.file else { return false };
        let is_old = period.zip(self.options.period(ts)).is_some_and(|(file, now)| file != now);
        let more = if let Message::Lines(_, batch, _) = message { batch.bytes.len() as u64 } else { 0 };
        is_old || self.options.rotate_octets.is_some_and(|most| more > 0 && length + more > most)
    }

    /// Closes the file by a rename.
    fn close(&mut self, ts: u64) {
        match self.archive.close(ts) {
            Ok(()) => (self.file, self.stuck) = (None, false),
            Err(error) => {
                if !std::mem::replace(&mut self.stuck, true) {
                    tracing::warn!(path = %self.options.path.display(), %error, "the file cannot be renamed; it grows on");
                }
            }
        }
    }

    /// Opens the file for appending and closes its last line if that is torn.
    fn open_whole_lines(&self) -> io::Result<Opened> {
        let path = &self.options.path;
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o640).open(path)?;
        let metadata = file.metadata()?;
        // A device such as /dev/null has no end to look at.
        if metadata.is_file() && file.seek(SeekFrom::End(0))? > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        let is_link = fs::symlink_metadata(path)?.is_symlink();
        if is_link && (self.options.rotate_octets.is_some() || self.options.rotate_every.is_some()) {
            tracing::warn!(path = %path.display(), "this is a symbolic link: it is not rotated");
        }
        let written = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let period = written.filter(|_| metadata.len() > 0).and_then(|at| self.options.period(nanos(at)));
        let length = file.metadata()?.len();
        Ok(Opened { file, id: identity(&metadata), is_file: metadata.is_file() && !is_link, length, period })
    }

    fn tell_writing(&mut self) {
        if std::mem::take(&mut self.failing) {
            tracing::info!(to = %self.options.path.display(), "writing again");
        }
    }

    fn tell_failing(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(to = %self.options.path.display(), %error, "cannot write; lines are lost, and counted");
        }
    }
}

/// What a file is known by, whatever it is called.
fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl FileOptions {
    /// Which period of rotation a time is in.
    fn period(&self, ts: u64) -> Option<u64> {
        ts.checked_div(nanos(self.rotate_every?))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Opened {
    fn write(&mut self, text: &[u8]) -> (usize, io::Result<()>) {
        let (written, result) = write_counted(&mut self.file, text);
        self.length += written as u64;
        (written, result)
    }
}

#[cfg(test)]
mod tests;
