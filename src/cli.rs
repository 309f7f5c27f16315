//! What the programs share: how an error is shown, where input comes from, how output gets to the disk.
//!
//! Beside the programs this is the only file that writes to standard output or standard error.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use miette::Diagnostic;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::types::Printable;

const HEADING: &str = "error:";
const RED_HEADING: &str = "\u{1b}[1;31merror:\u{1b}[0m";

/// The arguments of a program; else what `--help`, `--version` or a wrong argument end it with, after it was told.
///
/// # Errors
/// The exit code: 0 or 2.
pub fn arguments<A: clap::Parser>() -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| {
        // If the terminal is gone there is nobody left to tell.
        let _ = error.print();
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// Shows an error for people on standard error and gives exit code 1.
///
/// One line `error: ...`, one line a cause, then `help: ...`. The word `error:` is red on a terminal unless `NO_COLOR` is set.
pub fn fail(error: &dyn Diagnostic) -> ExitCode {
    tell(&explain(error), true);
    ExitCode::FAILURE
}

fn explain(error: &dyn Diagnostic) -> String {
    let mut text = String::from(HEADING);
    paragraph(&mut text, &error.to_string());
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str("cause:");
        paragraph(&mut text, &cause.to_string());
        source = cause.source();
    }
    if let Some(help) = error.help() {
        text.push_str("help:");
        paragraph(&mut text, &help.to_string());
    }
    text
}

/// Appends a text after its heading; further lines are indented. No terminal obeys what stands in it.
fn paragraph(to: &mut String, text: &str) {
    for (number, line) in text.lines().enumerate() {
        let lead = if number == 0 { " " } else { "      " };
        to.push_str(&format!("{lead}{}\n", Printable(line)));
    }
}

/// Tells people something on standard error: on a terminal in short lines, else as it is, so that it can be searched.
pub fn note(text: &str) {
    tell(text, false);
}

fn tell(text: &str, is_error: bool) {
    let mut stderr = io::stderr().lock();
    let mut text = if stderr.is_terminal() { wrapped(text) } else { text.to_owned() };
    if is_error && stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) {
        text = text.replacen(HEADING, RED_HEADING, 1);
    }
    // If standard error is gone there is nobody left to tell.
    let _ = stderr.write_all(text.as_bytes());
}

/// Breaks long lines between words; what is left of a line stands below its text.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 80;
    let mut out = String::new();
    for line in text.lines().map(str::trim_end) {
        let indent = text_column(line);
        let mut column = 0;
        for word in line.split_inclusive(' ') {
            let length = word.trim_end().chars().count();
            if column > indent && column + length > WIDTH {
                out.truncate(out.trim_end_matches(' ').len());
                out.push_str(&format!("\n{:indent$}", ""));
                column = indent;
            }
            out.push_str(word);
            column += word.chars().count();
        }
        out.push('\n');
    }
    out
}

/// Where the text of a line begins: after its blanks, or after its heading and more than one blank, or after `error:`.
fn text_column(line: &str) -> usize {
    const AFTER_HELP: usize = "help: ".len();
    let blanks = line.len() - line.trim_start_matches(' ').len();
    match line.find("  ") {
        _ if blanks > 0 => blanks + 2,
        Some(gap) if gap < 12 => line.len() - line[gap..].trim_start_matches(' ').len(),
        _ => AFTER_HELP,
    }
}

/// A file that could not be read.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{}: cannot be read", name_of(path))]
#[diagnostic(help("give the path of a file that you may read, or `-` for standard input"))]
pub struct InputError {
    /// The file.
    pub path: PathBuf,
    /// What the operating system said.
    #[source]
    pub source: io::Error,
}

/// A file that could not be written. Nothing of it is left.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{}: cannot be written", path.display())]
#[diagnostic(help("give a path in a directory that you may write to and that has room, or `-` for standard output"))]
pub struct OutputError {
    /// The file.
    pub path: PathBuf,
    /// What the operating system said.
    #[source]
    pub source: io::Error,
}

/// Whether a path means standard input or output.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The name of an input in messages.
pub fn name_of(path: &Path) -> String {
    if is_dash(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// Opens a file that may be too large to be held, or standard input for `-`.
///
/// # Errors
/// What the operating system says.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, InputError> {
    if is_dash(path) {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = File::open(path).map_err(|source| InputError { path: path.to_owned(), source })?;
    Ok(Box::new(BufReader::new(opened)))
}

/// Reads a whole file, or standard input for `-`.
///
/// # Errors
/// What the operating system says.
pub fn read(path: &Path) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::new();
    let done = if is_dash(path) {
        io::stdin().lock().read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    done.map(|_| bytes).map_err(|source| InputError { path: path.to_owned(), source })
}

/// Output that is ready but not yet in its place: until [`Staged::commit`] an older file stands unharmed.
///
/// A regular file is written beside its place and then renamed, so that no reader ever sees half of it. What is no regular file
/// (`-`, a pipe, `/dev/null`) is written to at the commit.
#[derive(Debug)]
#[must_use]
pub struct Staged<'a> {
    path: PathBuf,
    content: Content<'a>,
}

#[derive(Debug)]
enum Content<'a> {
    /// All of it is in this file, on the disk.
    Beside(PathBuf),
    Direct(&'a [u8]),
    Committed,
}

impl<'a> Staged<'a> {
    /// Makes everything ready that can fail.
    ///
    /// # Errors
    /// What the operating system says: no such directory, no permission, no room.
    pub fn new(path: &Path, bytes: &'a [u8]) -> Result<Self, OutputError> {
        let failed = |source| OutputError { path: path.to_owned(), source };
        if is_dash(path) {
            return Ok(Self { path: path.to_owned(), content: Content::Direct(bytes) });
        }
        // A link stays a link: its target is what gets replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let old = fs::metadata(&path).ok();
        if old.as_ref().is_some_and(|old| !old.is_file() && !old.is_dir()) {
            return Ok(Self { path, content: Content::Direct(bytes) });
        }
        if old.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
        let (mut file, beside) = create_beside(&path, name).map_err(failed)?;
        // From here on, dropping this value removes the file.
        let staged = Self { path, content: Content::Beside(beside) };
        if let Some(old) = old {
            file.set_permissions(old.permissions()).map_err(failed)?;
        }
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(staged)
    }

    /// Puts the output in its place. A reader that closed standard output is no error.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn commit(mut self) -> Result<(), OutputError> {
        let done = match &self.content {
            Content::Beside(beside) => fs::rename(beside, &self.path),
            Content::Direct(bytes) if is_dash(&self.path) => print(bytes),
            Content::Direct(bytes) => File::options().write(true).open(&self.path).and_then(|mut file| file.write_all(bytes)),
            Content::Committed => Ok(()),
        };
        if done.is_ok() {
            self.content = Content::Committed;
        }
        done.map_err(|source| OutputError { path: self.path.clone(), source })
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if let Content::Beside(beside) = &self.content {
            // It is a file of our own that nobody else knows of; if it cannot be removed, the cause was told already.
            let _ = fs::remove_file(beside);
        }
    }
}

/// Creates a file that nobody else has, in the directory of `path`: a rename does not cross file systems.
fn create_beside(path: &Path, name: &OsStr) -> io::Result<(File, PathBuf)> {
    const TRIES: u32 = 100;
    let mut attempt = 0;
    loop {
        let beside = path.with_file_name(format!(".{}.{}-{attempt}.tmp", name.to_string_lossy(), std::process::id()));
        match File::create_new(&beside) {
            // Left behind by a process of the same number that was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < TRIES => attempt += 1,
            done => return done.map(|file| (file, beside)),
        }
    }
}

/// Writes to standard output. A reader that closed it is no error.
///
/// # Errors
/// What the operating system says.
pub fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Whether standard output is a terminal that shall have colours: not where `NO_COLOR` is set.
pub fn colours_stdout() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes a line to standard output. A reader that closed it is no error.
///
/// # Errors
/// What the operating system says.
pub fn print_line(line: &str) -> Result<(), OutputError> {
    print(format!("{line}\n").as_bytes()).map_err(|source| OutputError { path: "standard output".into(), source })
}

/// Sends the log to standard error: `info` and above of what is ours, or what `RUST_LOG` says. Times stand there only on a terminal: a journal has its own.
pub fn log_to_stderr() {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    // `EnvFilter` would bring the crates of regular expressions.
    let given = std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty()).and_then(|text| text.parse::<Targets>().ok());
    let filter = given.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO).with_target("async_nats", LevelFilter::OFF));
    let colors = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // A log that cannot be written must not disturb the sweep.
    let format = tracing_subscriber::fmt::layer().log_internal_errors(false).with_writer(io::stderr).with_ansi(colors).with_target(false);
    let registry = tracing_subscriber::registry().with(filter);
    // Another subscriber is there only in a test, and then it stays.
    let _ = if io::stderr().is_terminal() { registry.with(format).try_init() } else { registry.with(format.without_time()).try_init() };
}

/// The name of this host up to its first dot.
pub fn short_host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().split('.').next().unwrap_or_default().to_owned()
}

/// A number that nobody can guess, of the operating system's randomness.
pub fn random_seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Progress on a terminal; nothing in a pipe.
#[derive(Clone, Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for so many steps of what `what` names, if standard error is a terminal.
    pub fn new(steps: u64, what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(&format!("{{wide_bar:.cyan/blue}} {{pos}} of {{len}} {what}"));
        Self(style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style)))
    }

    /// Shows nothing at all.
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// One more step is done.
    pub fn advance(&self) {
        self.0.inc(1);
    }

    /// So many steps are done.
    pub fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// The signals that ask a service to stop: SIGINT and SIGTERM.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Waits for them from now on; needs a tokio runtime.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The name of the next one.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// The signal that asks a service to read its configuration anew: SIGHUP. On a terminal it means that the terminal is gone, and ends the program as ever.
#[derive(Debug)]
pub struct Hangups(Option<Signal>);

impl Hangups {
    /// Waits for them from now on; needs a tokio runtime.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new() -> io::Result<Self> {
        let service = !io::stderr().is_terminal();
        Ok(Self(service.then(|| signal(SignalKind::hangup())).transpose()?))
    }

    /// Leaves the signal as it is: it ends the program.
    pub fn none() -> Self {
        Self(None)
    }

    /// Comes with the next one.
    pub async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_error_is_shown_with_cause_and_help_and_no_terminal_obeys_it() {
        let error = OutputError { path: "a\u{1b}[2J".into(), source: io::Error::other("first\nsecond") };
        let text = explain(&error);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..3], ["error: a\\u{1b}[2J: cannot be written", "cause: first", "      second"]);
        assert!(lines[3].starts_with("help: give a path"), "{text}");
    }

    #[test]
    fn long_lines_are_broken_between_words_below_their_text() {
        let word = "word ".repeat(30);
        for (heading, indent) in [("help: ", 6), ("note      ", 10), ("            line 7: ", 14)] {
            let text = wrapped(&format!("{heading}{word}\nshort\n"));
            let lines: Vec<_> = text.lines().collect();
            assert!(lines.len() > 2 && lines.iter().all(|line| line.len() <= 80), "{text}");
            assert!(lines[1].starts_with(&format!("{:indent$}word", "")), "{text}");
            assert_eq!(text.split_whitespace().filter(|each| *each == "word").count(), 30);
            assert_eq!(lines.last(), Some(&"short"));
        }
        assert_eq!(wrapped(&"x".repeat(100)), "x".repeat(100) + "\n");
    }

    #[test]
    fn a_file_left_behind_is_no_hindrance() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let first = Staged::new(&path, b"1").unwrap();
        let second = Staged::new(&path, b"2").unwrap();
        first.commit().unwrap();
        second.commit().unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap(), names(dir.path())), ("2".to_owned(), vec!["out".to_owned()]));
    }

    #[test]
    fn an_older_file_stands_until_the_commit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, "old").unwrap();
        drop(Staged::new(&path, b"new").unwrap());
        assert_eq!((fs::read_to_string(&path).unwrap(), names(dir.path())), ("old".to_owned(), vec!["out".to_owned()]));
        Staged::new(&path, b"new").unwrap().commit().unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap(), names(dir.path())), ("new".to_owned(), vec!["out".to_owned()]));
    }

    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        Staged::new(Path::new("/dev/null"), b"new").unwrap().commit().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let dir = tempfile::tempdir().unwrap();
        assert!(Staged::new(dir.path(), b"new").is_err());
        assert!(Staged::new(&dir.path().join("nowhere/out"), b"new").is_err());
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join("link"), dir.path().join("target"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        Staged::new(&link, b"new").unwrap().commit().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    }
}
