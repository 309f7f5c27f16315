//! The output to standard output.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::fs::{OFlags, fcntl_getfl};

use super::error::OutputError;
use super::queue::Inbox;
use super::result::End;
use super::stream::Stream;
use super::write_counted;

/// Standard output without the buffer of [`io::stdout`], which would hide how many bytes were
/// written.
#[derive(Debug)]
pub(super) struct StdoutOutput(File);

impl StdoutOutput {
    /// Opens standard output.
    pub(super) fn open() -> Result<Self, OutputError> {
        let failed = |source| OutputError::File {
            path: "/dev/stdout".into(),
            source,
        };
        let stdout: File = io::stdout()
            .as_fd()
            .try_clone_to_owned()
            .map_err(failed)?
            .into();
        if is_closed(&stdout).map_err(failed)? {
            Err(OutputError::StdoutClosed)
        } else {
            Ok(Self(stdout))
        }
    }

    /// Writes until all outlets are dropped, the output is ended, or the reader closes the pipe.
    pub(super) fn run(mut self, mut inbox: Inbox) -> End {
        let mut stream = Stream::default();
        while let Some(message) = inbox.wait() {
            let (written, result) = write_counted(&mut self.0, stream.take(&message));
            stream.wrote(written);
            match result {
                Ok(()) if written > 0 && inbox.succeeded() => {
                    tracing::info!(
                        output = "standard output",
                        "the output accepts records again"
                    );
                }
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return End::ReaderGone,
                Err(error) => {
                    if inbox.failed(&error.to_string()) {
                        tracing::warn!(output = "standard output", %error, "cannot write; records are dropped until it works again");
                    }
                }
            }
            inbox.settle(&message, stream.unreported());
        }
        End::Complete
    }
}

/// Returns whether standard output was closed when the program started.
///
/// If a standard descriptor is closed at the start, Rust's runtime opens `/dev/null` for reading
/// and writing in its place, whereas `>/dev/null` in a shell opens it for writing only.
fn is_closed(stdout: &File) -> io::Result<bool> {
    let access = fcntl_getfl(stdout)? & OFlags::ACCMODE;
    let metadata = stdout.metadata()?;
    let is_null = metadata.file_type().is_char_device()
        && fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == metadata.rdev());
    Ok(access == OFlags::RDONLY || access == OFlags::RDWR && is_null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_device_open_for_reading_counts_as_closed() {
        let null = |read, write| {
            File::options()
                .read(read)
                .write(write)
                .open("/dev/null")
                .expect("there is a null device")
        };
        for (read, write, closed) in [
            (true, true, true),
            (true, false, true),
            (false, true, false),
        ] {
            assert_eq!(
                is_closed(&null(read, write)).expect("it can be examined"),
                closed,
                "read: {read}, write: {write}"
            );
        }
        let file = tempfile::tempfile().expect("a file open for reading and writing");
        assert!(!is_closed(&file).expect("it can be examined"));
    }
}
