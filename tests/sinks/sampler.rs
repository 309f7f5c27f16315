//! A sampler of a small simulated fabric, and what its lines tell.

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

/// A guard against a program that hangs, not a measure of how fast it is.
const HANGS: Duration = Duration::from_secs(60);

/// Between two looks at what a program does.
const WAIT: Duration = Duration::from_millis(5);

/// 20 linked ports.
const TREE: FatTree = FatTree { leaves: 2, hosts: 3, spines: 2, trunk: 1, radix: 8 };

/// A folder with a fabric and a configuration.
pub(crate) struct Sampler {
    folder: TempDir,
    port: u16,
}

/// A sampler that runs. It is killed when this is dropped.
pub(crate) struct Running {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: JoinHandle<String>,
}

/// What a run left behind.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// What a file or stream tells.
#[derive(Default)]
pub(crate) struct Told {
    /// Its `start` lines.
    pub(crate) starts: Vec<strict::Start>,
    /// The slots that have their `sweep` record.
    pub(crate) slots: Vec<u64>,
    /// All other lines but those that tell of lost ones, as they are without `lines_lost`.
    pub(crate) lines: BTreeSet<String>,
    /// Lines that are lost by its events; its `sweep` records say the same.
    pub(crate) lost: u64,
    /// Lines that are none.
    pub(crate) torn: usize,
}

impl Sampler {
    /// `PORT` in the configuration is one that was free just now.
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

    /// What a file has while it is written; nothing if it is not there.
    pub(crate) fn read_now(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    /// The names of all files, in order.
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

    /// A reader at a Unix socket, once somebody listens there.
    pub(crate) fn unix(&self, name: &str) -> UnixStream {
        once("a reader", || UnixStream::connect(self.path(name)).ok())
    }

    /// A reader at the TCP port.
    pub(crate) fn tcp(&self) -> TcpStream {
        once("a reader", || TcpStream::connect(("127.0.0.1", self.port)).ok())
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
    /// Sends a signal to this process and no other: it has not been waited for, so its number is its own.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Ends it by a signal.
    pub(crate) fn stop(self, name: &str) -> Run {
        self.signal(name);
        self.end()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Run {
        let status = once("an end", || self.child.try_wait().unwrap());
        let stdout = self.stdout.take().unwrap().join().unwrap();
        let stderr = std::mem::replace(&mut self.stderr, std::thread::spawn(String::new)).join().unwrap();
        Run { code: status.code().unwrap_or(-1), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(child: &Child, name: &str) {
    let kill = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
}

/// Tells people something, whether or not the runner captures what tests print.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Waits until there is something.
#[track_caller]
pub(crate) fn once<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..HANGS.as_millis() / WAIT.as_millis() {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(WAIT);
    }
    panic!("there never was {what}");
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    once(what, || is().then_some(()));
}

/// Reads lines until so many of them have had that text in them.
pub(crate) fn read_lines(reader: impl Read, having: &str, count: usize) -> String {
    read_on(&mut BufReader::new(reader), having, count)
}

/// Likewise; what comes after them can be read later.
pub(crate) fn read_on(reader: &mut impl BufRead, having: &str, count: usize) -> String {
    let (mut text, mut found) = (String::new(), 0);
    while found < count {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "it ends after {text}");
        found += usize::from(line.contains(having));
        text.push_str(&line);
    }
    text
}

#[track_caller]
pub(crate) fn record(text: &str) -> Line {
    strict::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

impl Told {
    /// Of a text whose lines are all whole.
    #[track_caller]
    pub(crate) fn of(text: &str) -> Self {
        let told = Self::of_any(text);
        assert_eq!(told.torn, 0, "every line is whole");
        told
    }

    /// Of any text: what is no record is counted.
    #[track_caller]
    pub(crate) fn of_any(text: &str) -> Self {
        let mut told = Self::default();
        let mut by_sweeps = 0;
        for line in text.lines() {
            match strict::parse(line) {
                Err(_) => told.torn += 1,
                Ok(Line::Start(start)) => told.starts.push(start),
                Ok(Line::Event(event)) if event.event == "lines_lost" => {
                    told.lost += event.detail.split(' ').next().unwrap().parse::<u64>().unwrap();
                }
                Ok(record) => {
                    let mut text = line.to_owned();
                    if let Line::Sweep(sweep) = record {
                        by_sweeps += sweep.lines_lost;
                        told.slots.push(sweep.slot);
                        text = line.replace(&format!("\"lines_lost\":{}", sweep.lines_lost), "\"lines_lost\":0");
                    }
                    assert!(told.lines.insert(text), "twice: {line}");
                }
            }
        }
        // A slot that was cut short told of a gap before its `sweep` record was lost.
        assert!(by_sweeps <= told.lost && (told.torn > 0 || by_sweeps == told.lost), "{by_sweeps} and {}", told.lost);
        told
    }
}
