//! The file output. It appends records to a file and never truncates it. To rotate the file, the
//! output renames it and opens a new one.
//!
//! An advisory lock (`flock`) ensures that only one program at a time writes to the file.
//!
//! Before each write, the output checks whether another program renamed, removed or truncated the
//! file. If so, it opens a new file with the same name, which begins with `start` records.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, UNIX_EPOCH};

use super::archive::Archive;
use super::fifo::{self, Fifo};
use super::lock;
use super::options::FileOptions;
use super::queue::{Inbox, Message};
use super::stream::Stream;
use super::write_counted;

/// A file output.
#[derive(Debug)]
pub(super) struct FileOutput {
    options: FileOptions,
    archive: Archive,
    file: Option<Opened>,
    stream: Stream,
    /// Whether the last rename failed, and the log has reported this.
    cannot_rotate: bool,
}

/// An open file.
#[derive(Debug)]
struct Opened {
    file: File,
    /// Device and inode.
    id: (u64, u64),
    /// Whether the path is a regular file. Devices, pipes and symbolic links are not rotated.
    is_file: bool,
    /// Size in bytes.
    length: u64,
    /// Index of the rotation period to which the last slot in the file belongs.
    period: Option<u64>,
    /// Lines that the reader of a FIFO may not have read yet. `None` if the file is not a FIFO.
    fifo: Option<Fifo>,
}

impl FileOutput {
    /// Opens the file, ends an incomplete last line, and compresses files that an earlier run
    /// rotated.
    pub(super) fn open(options: FileOptions) -> io::Result<Self> {
        let archive = Archive::new(&options);
        let mut output = Self {
            options,
            archive,
            file: None,
            stream: Stream::default(),
            cannot_rotate: false,
        };
        output.file = Some(output.open_whole_lines()?);
        output.archive.resume();
        Ok(output)
    }

    /// Writes until all outlets are dropped, and then waits until the reader of a FIFO has all
    /// records.
    pub(super) fn run(mut self, mut inbox: Inbox) {
        while let Some(message) = inbox.wait() {
            self.take(&message, &inbox);
            inbox.settle(&message, self.stream.unreported());
        }
        let unreported = self.stream.unreported();
        if let Some(Opened {
            file,
            fifo: Some(fifo),
            ..
        }) = self.file
        {
            fifo.wait(file, &self.options.path, |unread, why| {
                inbox.set_unreported(unreported + unread);
                // The program reports the reason when it ends.
                let _ = unread > 0 && inbox.failed(why);
            });
        }
    }

    fn take(&mut self, message: &Message, inbox: &Inbox) {
        if let Some(ts) = Stream::ts(message) {
            self.check_file(ts, message, inbox);
        }
        if self.stream.take(message).is_empty() {
            return;
        }
        let unreported = self.stream.unreported();
        let (written, result) = match &mut self.file {
            // The program can end while the FIFO is full; the records in the FIFO are then lost
            // too.
            Some(file) => file.write(self.stream.text(), |unread| {
                inbox.set_unreported(unreported + unread);
            }),
            // The log has reported the reason when the file could not be opened.
            None => (0, Ok(())),
        };
        self.stream.wrote(written);
        match result {
            Ok(()) if self.file.is_some() => self.log_success(inbox),
            Ok(()) => {}
            Err(error) => self.log_failure(&error, inbox),
        }
        // A file with only `start` records is not rotated, so only other records set its period.
        if let (Some(file), Message::Lines(_, batch, _)) = (&mut self.file, message) {
            file.period = self.options.period(batch.ts);
        }
    }

    /// Rotates the file if this is due, and opens a new one if another program moved the file.
    fn check_file(&mut self, ts: u64, message: &Message, inbox: &Inbox) {
        let path = &self.options.path;
        if let Some(Opened {
            id,
            length,
            is_file,
            ..
        }) = &mut self.file
        {
            match fs::metadata(path) {
                Ok(now) if identity(&now) == *id => {
                    if *is_file && now.len() < *length {
                        tracing::warn!(path = %path.display(), "another program truncated the file; records may be lost");
                        self.stream.begin();
                    }
                    *length = now.len();
                }
                // If the path cannot be examined, the output keeps the open file.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => {
                    tracing::info!(path = %path.display(), "another program moved the file; writing to a new one");
                    self.file = None;
                }
            }
        }
        if self.is_due(ts, message) {
            self.rotate(ts);
        }
        if self.file.is_none() {
            self.stream.begin();
            match self.open_whole_lines() {
                Ok(file) => self.file = Some(file),
                Err(error) => self.log_failure(&error, inbox),
            }
        }
    }

    /// Returns whether the file must be rotated before this message is written.
    fn is_due(&self, ts: u64, message: &Message) -> bool {
        let Some(Opened {
            is_file: true,
            length: length @ 1..,
            period,
            ..
        }) = &self.file
        else {
            return false;
        };
        let is_old = period
            .zip(self.options.period(ts))
            .is_some_and(|(file, now)| file != now);
        let exceeds = |most: u64| matches!(message, Message::Lines(_, batch, _) if length + batch.octets() > most);
        is_old || self.options.rotate_octets.is_some_and(exceeds)
    }

    fn rotate(&mut self, ts: u64) {
        match self.archive.rotate(ts) {
            Ok(()) => (self.file, self.cannot_rotate) = (None, false),
            Err(error) => {
                if !std::mem::replace(&mut self.cannot_rotate, true) {
                    tracing::warn!(path = %self.options.path.display(), %error, "cannot rotate the file; writing to the same one");
                }
            }
        }
    }

    /// Opens the file for appending, and ends an incomplete last line.
    fn open_whole_lines(&self) -> io::Result<Opened> {
        let path = &self.options.path;
        let is_fifo = fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
        let flags = if is_fifo { fifo::FLAGS } else { 0 };
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o640)
            .custom_flags(flags)
            .open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() {
            lock::exclusive(&file)?;
        }
        // Only a regular file can be read from its end.
        if metadata.is_file() && file.seek(SeekFrom::End(0))? > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        let is_link = fs::symlink_metadata(path)?.is_symlink();
        if is_link && (self.options.rotate_octets.is_some() || self.options.rotate_every.is_some())
        {
            tracing::warn!(path = %path.display(), "the file is a symbolic link and is not rotated");
        }
        let written = metadata
            .modified()
            .ok()
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let period = written
            .filter(|_| metadata.len() > 0)
            .and_then(|at| self.options.period(nanos(at)));
        let length = file.metadata()?.len();
        let fifo = metadata.file_type().is_fifo().then(Fifo::default);
        Ok(Opened {
            file,
            id: identity(&metadata),
            is_file: metadata.is_file() && !is_link,
            length,
            period,
            fifo,
        })
    }

    fn log_success(&self, inbox: &Inbox) {
        if inbox.succeeded() {
            tracing::info!(output = ?self.options.path, "the output accepts records again");
        }
    }

    fn log_failure(&self, error: &io::Error, inbox: &Inbox) {
        if inbox.failed(&error.to_string()) {
            tracing::warn!(output = ?self.options.path, %error, "cannot write; records are dropped until it works again");
        }
    }
}

/// Returns device and inode, which stay the same when the file is renamed.
fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl FileOptions {
    /// Returns the index of the rotation period to which a time belongs.
    fn period(&self, ts: u64) -> Option<u64> {
        ts.checked_div(nanos(self.rotate_every?))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Opened {
    /// Writes a text. While a FIFO is full, `unread` receives the number of earlier lines in it.
    fn write(&mut self, text: &[u8], unread: impl Fn(u64)) -> (usize, io::Result<()>) {
        let (written, result) = match &mut self.fifo {
            Some(fifo) => fifo.write(&self.file, text, unread),
            None => write_counted(&mut self.file, text),
        };
        self.length += written as u64;
        (written, result)
    }
}

#[cfg(test)]
mod tests;
