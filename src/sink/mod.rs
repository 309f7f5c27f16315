//! Where the records go: standard output or a file.
//!
//! The sweep hands over whole lines and never waits: between it and the [`Writer`] is a queue of a few batches. What does not fit into it,
//! or cannot be written, is lost, **counted and told** in the records that follow.
//!
//! A file is appended to. If its last line is torn, by a power failure say, that line is closed first, so that the next one is whole.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use miette::Diagnostic;

/// Whole lines, and how many.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// Each with its line feed.
    pub bytes: Vec<u8>,
    /// How many lines.
    pub lines: u64,
    /// How many lost lines they tell of: if they get lost too, so is that.
    pub told: u64,
}

/// Where records go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// A file, appended to.
    File(PathBuf),
}

/// Why records cannot be written at all.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{}: cannot be opened for writing", path.display())]
#[diagnostic(help("give another file with -o FILE, or `-o -` for standard output"))]
pub struct SinkError {
    /// The file.
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Batches that may wait for the disk: at one a slot, as many seconds at 1 Hz.
const QUEUE: usize = 64;

/// Octets that may wait for it: memory is bounded, however large the fabric is.
const QUEUE_OCTETS: u64 = 64 << 20;

/// The end of the queue where the sweep puts lines in; each clone is another way into the same queue.
#[derive(Clone, Debug)]
pub struct Outlet {
    queue: SyncSender<Batch>,
    shared: Arc<Shared>,
}

/// What both ends of the queue know.
#[derive(Debug, Default)]
struct Shared {
    /// Lines that were lost and that nobody was told of.
    lost: AtomicU64,
    /// Octets in the queue.
    waiting: AtomicU64,
}

/// The end of the queue that writes them.
#[derive(Debug)]
pub struct Writer {
    queue: Receiver<Batch>,
    shared: Arc<Shared>,
    target: Target,
    failing: bool,
}

#[derive(Debug)]
enum Target {
    Stdout(io::Stdout),
    File {
        file: File,
        path: PathBuf,
        /// Whether its last line is torn: a line feed comes before anything else.
        torn: bool,
    },
}

/// Lines in memory, at most as many batches as the queue holds.
#[derive(Debug)]
pub struct Lines(Receiver<Batch>);

impl Lines {
    /// All that was handed over so far.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.try_iter().flat_map(|batch| batch.bytes).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// How a writer ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// All was written, or told of as lost in what was.
    Complete,
    /// The last of these lines could not be written, so no line tells of them.
    Untold {
        /// How many.
        lines: u64,
    },
    /// Nobody reads standard output any more: a quiet end.
    ReaderGone,
}

impl Destination {
    /// `-` is standard output, and so is a text that says nothing.
    pub fn parse(text: &str) -> Self {
        if ["-", ""].contains(&text) { Self::Stdout } else { Self::File(text.into()) }
    }

    /// An outlet whose lines stay in memory.
    pub fn memory() -> (Outlet, Lines) {
        let (sender, queue) = sync_channel(QUEUE);
        (Outlet { queue: sender, shared: Arc::default() }, Lines(queue))
    }

    /// Opens it.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(&self) -> Result<(Outlet, Writer), SinkError> {
        let target = match self {
            Self::Stdout => Target::Stdout(io::stdout()),
            Self::File(path) => {
                let file = open_whole_lines(path).map_err(|source| SinkError { path: path.clone(), source })?;
                Target::File { file, path: path.clone(), torn: false }
            }
        };
        let (sender, queue) = sync_channel(QUEUE);
        let shared = Arc::<Shared>::default();
        Ok((Outlet { queue: sender, shared: Arc::clone(&shared) }, Writer { queue, shared, target, failing: false }))
    }
}

/// Opens a file for appending and closes its last line if that is torn.
fn open_whole_lines(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o640).open(path)?;
    // A device such as /dev/null has no end to look at.
    if file.metadata()?.is_file() && file.seek(SeekFrom::End(0))? > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

impl Outlet {
    /// Hands lines over without waiting; what does not fit is counted as lost.
    pub fn offer(&self, batch: Batch) {
        if batch.lines == 0 {
            return;
        }
        let octets = batch.bytes.len() as u64;
        // A slot that is larger than the bound is not refused for that alone.
        if self.shared.waiting.fetch_add(octets, Ordering::Relaxed) + octets > QUEUE_OCTETS && octets <= QUEUE_OCTETS {
            self.shared.lose(&batch);
        } else if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) = self.queue.try_send(batch) {
            self.shared.lose(&batch);
        }
    }

    /// Lines that were lost since this was asked last. Who asks tells of them in the next batch, and says so in its [`told`](Batch::told).
    pub fn take_lost(&self) -> u64 {
        self.shared.lost.swap(0, Ordering::Relaxed)
    }
}

impl Shared {
    /// A batch never got into the queue.
    fn lose(&self, batch: &Batch) {
        self.waiting.fetch_sub(batch.bytes.len() as u64, Ordering::Relaxed);
        self.lost.fetch_add(batch.lines + batch.told, Ordering::Relaxed);
    }
}

impl Writer {
    /// Writes until all outlets are dropped or nobody reads any more.
    pub fn run(mut self) -> Ended {
        while let Ok(batch) = self.queue.recv() {
            self.shared.waiting.fetch_sub(batch.bytes.len() as u64, Ordering::Relaxed);
            match self.target.write(&batch.bytes) {
                Ok(()) => {
                    if std::mem::take(&mut self.failing) {
                        tracing::info!(to = %self.target, "writing again");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ended::ReaderGone,
                Err(error) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        tracing::warn!(to = %self.target, %error, "cannot write; lines are lost, and counted");
                    }
                    // Some of it may have been written; then fewer were lost than are told.
                    self.shared.lost.fetch_add(batch.lines + batch.told, Ordering::Relaxed);
                }
            }
        }
        match self.shared.lost.load(Ordering::Relaxed) {
            0 => Ended::Complete,
            lines => Ended::Untold { lines },
        }
    }
}

impl Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => {
                let mut stdout = stdout.lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
            Self::File { file, torn, .. } => {
                if *torn {
                    file.write_all(b"\n")?;
                }
                *torn = true;
                file.write_all(bytes)?;
                *torn = false;
                Ok(())
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout(_) => f.write_str("standard output"),
            Self::File { path, .. } => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(text: &str) -> Batch {
        Batch { bytes: text.as_bytes().to_vec(), lines: text.lines().count() as u64, told: 0 }
    }

    #[test]
    fn a_torn_last_line_is_closed_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines");
        std::fs::write(&path, "{\"whole\":1}\n{\"to").expect("written");
        for _ in 0..2 {
            let (outlet, writer) = Destination::File(path.clone()).open().expect("opened");
            outlet.offer(batch("{\"next\":2}\n"));
            drop(outlet);
            assert_eq!(writer.run(), Ended::Complete);
        }
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "{\"whole\":1}\n{\"to\n{\"next\":2}\n{\"next\":2}\n");
    }

    #[test]
    fn what_does_not_fit_is_counted_and_the_sweep_does_not_wait() {
        let folder = tempfile::tempdir().expect("a folder");
        let (outlet, writer) = Destination::File(folder.path().join("lines")).open().expect("opened");
        for _ in 0..QUEUE + 3 {
            outlet.offer(batch("a\nb\n"));
        }
        assert_eq!((outlet.take_lost(), outlet.take_lost()), (6, 0));
        drop(writer);
        outlet.offer(batch("c\n"));
        assert_eq!(outlet.take_lost(), 1);
    }

    #[test]
    fn what_tells_of_lost_lines_may_get_lost_too_and_the_number_does_not() {
        let (outlet, lines) = Destination::memory();
        let told = |told| Batch { told, ..batch("a\nb\n") };
        (0..QUEUE).for_each(|_| outlet.offer(told(0)));
        outlet.offer(told(0));
        let first = outlet.take_lost();
        outlet.offer(told(first));
        assert_eq!((first, outlet.take_lost()), (2, 4));
        drop(lines);
    }

    #[test]
    fn memory_is_bounded_by_octets_too() {
        let (outlet, _lines) = Destination::memory();
        let large = || Batch { bytes: vec![b'x'; QUEUE_OCTETS as usize / 2], lines: 1, told: 0 };
        (0..3).for_each(|_| outlet.offer(large()));
        assert_eq!(outlet.take_lost(), 1);
    }

    #[test]
    fn a_line_that_was_torn_on_the_way_is_closed_before_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines");
        let mut target = Target::File { file: open_whole_lines(&path).expect("opened"), path: path.clone(), torn: false };
        target.write(b"{\"whole\":1}\n{\"to").expect("written");
        let Target::File { torn, .. } = &mut target else { unreachable!("it is a file") };
        *torn = true;
        target.write(b"{\"next\":2}\n").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "{\"whole\":1}\n{\"to\n{\"next\":2}\n");
    }

    #[test]
    fn a_full_disk_loses_lines_and_says_how_many() {
        let full = Path::new("/dev/full");
        assert!(full.exists(), "this test needs /dev/full");
        let (outlet, writer) = Destination::File(full.to_owned()).open().expect("opened");
        outlet.offer(batch("a\nb\n"));
        let shared = Arc::clone(&outlet.shared);
        drop(outlet);
        assert_eq!((writer.run(), shared.lost.load(Ordering::Relaxed)), (Ended::Untold { lines: 2 }, 2));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error = Destination::File("/no/such/folder/lines".into()).open().map(|_| ()).expect_err("no such folder");
        assert!(error.to_string().starts_with("/no/such/folder/lines:"), "{error}");
    }
}
