//! A sampler of a small simulated fabric, and its records.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use ibnet::record::strict::{self, Line};
use ibnet::topology::synthetic::FatTree;
use tempfile::TempDir;

/// Time after which a hanging test fails. It is not a limit of speed.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two checks of a condition.
const WAIT: Duration = Duration::from_millis(5);

/// 20 linked ports.
const TREE: FatTree = FatTree { leaves: 2, hosts: 3, spines: 2, trunk: 1, radix: 8 };

/// A folder with a fabric and a configuration.
pub(crate) struct Sampler {
    folder: TempDir,
    port: u16,
}

/// A running sampler, which is killed on drop.
pub(crate) struct Running {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: JoinHandle<String>,
}

/// Result of a run.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The records of a file or stream.
#[derive(Default)]
pub(crate) struct Received {
    /// `start` records.
    pub(crate) starts: Vec<strict::Start>,
    /// Slots with a `sweep` record.
    pub(crate) slots: Vec<u64>,
    /// All other lines except `lines_lost` events, with `lines_lost` set to 0 in `sweep` records.
    pub(crate) lines: BTreeSet<String>,
    /// Number of dropped records by the `lines_lost` events, checked against the `sweep` records.
    pub(crate) lost: u64,
    /// Number of lines that are not records.
    pub(crate) torn: usize,
}

impl Sampler {
    /// Makes a sampler. `PORT` in the configuration is replaced by a free port.
    pub(crate) fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        fs::write(folder.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
        let sampler = Self { folder, port };
        sampler.configure(config);
        sampler
    }

    pub(crate) fn configure(&self, config: &str) {
        let config = config.replace("PORT", &self.port.to_string());
        fs::write(self.path("ibnet.toml"), format!("simulate = \"net.p\"\nsampler = \"node00001\"\n{config}\n")).unwrap();
    }

    #[cfg(feature = "nats")]
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// Returns the text of a file while it is written; an empty text without a file.
    pub(crate) fn read_now(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    /// Returns the names of all files in order.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn start(&self) -> Running {
        let mut child = self.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = all_of(child.stdout.take().unwrap());
        let stderr = all_of(child.stderr.take().unwrap());
        Running { child, stdout: Some(stdout), stderr }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
        command.current_dir(self.folder.path()).args(["-c", "ibnet.toml"]).env("NO_COLOR", "1");
        command
    }

    /// Connects to a Unix socket as soon as it exists.
    pub(crate) fn unix(&self, name: &str) -> UnixStream {
        wait_for_some("a reader", || UnixStream::connect(self.path(name)).ok())
    }

    /// Connects to the TCP port as soon as it is open.
    pub(crate) fn tcp(&self) -> TcpStream {
        wait_for_some("a reader", || TcpStream::connect(("127.0.0.1", self.port)).ok())
    }
}

fn all_of(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    })
}

impl Running {
    /// Sends a signal. The process was not reaped yet, so no other process has its number.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Returns the number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops the sampler by a signal and waits for its end.
    pub(crate) fn stop(self, name: &str) -> Run {
        self.signal(name);
        self.end()
    }

    /// Waits for the end of the sampler.
    pub(crate) fn end(mut self) -> Run {
        let status = wait_for_some("the end", || self.child.try_wait().unwrap());
        let stdout = self.stdout.take().unwrap().join().unwrap();
        let stderr = std::mem::replace(&mut self.stderr, std::thread::spawn(String::new)).join().unwrap();
        Run { code: status.code().unwrap_or(-1), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process still runs only if the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(child: &Child, name: &str) {
    let kill = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
}

/// Prints a notice that the test runner does not capture.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Waits until the function returns a value.
#[track_caller]
pub(crate) fn wait_for_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..TIMEOUT.as_millis() / WAIT.as_millis() {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(WAIT);
    }
    panic!("timeout while waiting for {what}");
}

/// Waits until the condition is true.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    wait_for_some(what, || is().then_some(()));
}

/// Reads lines until `count` of them contained a text.
pub(crate) fn read_lines(reader: impl Read, having: &str, count: usize) -> String {
    read_on(&mut BufReader::new(reader), having, count)
}

/// Reads lines until `count` of them contained a text; the reader can be read further.
pub(crate) fn read_on(reader: &mut impl BufRead, having: &str, count: usize) -> String {
    let (mut text, mut found) = (String::new(), 0);
    while found < count {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the stream ended after {text}");
        found += usize::from(line.contains(having));
        text.push_str(&line);
    }
    text
}

#[track_caller]
pub(crate) fn record(text: &str) -> Line {
    strict::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

impl Received {
    /// Reads a text that has whole records only.
    #[track_caller]
    pub(crate) fn of(text: &str) -> Self {
        let received = Self::of_any(text);
        assert_eq!(received.torn, 0, "every line is whole");
        received
    }

    /// Reads a text and counts the lines that are not records.
    #[track_caller]
    pub(crate) fn of_any(text: &str) -> Self {
        let mut received = Self::default();
        let mut by_sweeps = 0;
        for line in text.lines() {
            match strict::parse(line) {
                Err(_) => received.torn += 1,
                Ok(Line::Start(start)) => received.starts.push(start),
                Ok(Line::Event(event)) if event.event == "lines_lost" => {
                    received.lost += event.detail.split(' ').next().unwrap().parse::<u64>().unwrap();
                }
                Ok(record) => {
                    let mut text = line.to_owned();
                    if let Line::Sweep(sweep) = record {
                        by_sweeps += sweep.lines_lost;
                        received.slots.push(sweep.slot);
                        text = line.replace(&format!("\"lines_lost\":{}", sweep.lines_lost), "\"lines_lost\":0");
                    }
                    assert!(received.lines.insert(text), "a record is there twice: {line}");
                }
            }
        }
        // A gap event may be written in a slot whose `sweep` record is dropped.
        assert!(by_sweeps <= received.lost && (received.torn > 0 || by_sweeps == received.lost), "{by_sweeps} and {}", received.lost);
        received
    }
}
