//! A sampler of a small simulated fabric, and its records.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ibnet::topology::synthetic::FatTree;
use ibnet_record::strict::{self, Line};
use tempfile::TempDir;
use tokio::net::TcpSocket;

/// Time after which a hanging test fails. It is not a limit of speed.
pub(crate) const HANGS: Duration = Duration::from_secs(600);

/// First and longest pause between two checks of a condition. Many checks in a row would take the
/// CPU from the programs that the test waits for.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// 20 linked ports.
const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

/// A folder with a fabric and a configuration.
pub(crate) struct Sampler {
    folder: TempDir,
    port: FreePort,
}

/// A TCP port of this host that no other program gets while this value lives. The port is bound by
/// a socket that does not listen. So a server can listen at the port, and without a server
/// connections are refused.
pub(crate) struct FreePort(TcpSocket);

/// A running sampler, which is killed on drop.
pub(crate) struct Running {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    /// Standard error so far.
    log: Arc<Mutex<Vec<u8>>>,
    log_reader: Option<JoinHandle<()>>,
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

impl FreePort {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // A server that sets the same option can use the port too.
        socket.set_reuseaddr(true).unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn number(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }
}

impl Sampler {
    /// Makes a sampler. `PORT` in the configuration is replaced by a free port.
    pub(crate) fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
        let sampler = Self {
            folder,
            port: FreePort::new(),
        };
        sampler.configure(config);
        sampler
    }

    /// Writes the configuration. If it does not set `drain`, a stop waits until every output has
    /// written its records, however slow the machine is.
    pub(crate) fn configure(&self, config: &str) {
        let config = self.text_of(config);
        let drain = if config.contains("drain = ") {
            ""
        } else {
            "drain = \"10m\""
        };
        fs::write(
            self.path("ibnet.toml"),
            format!("simulate = \"net.p\"\nsampler = \"node00001\"\n{drain}\n{config}\n"),
        )
        .unwrap();
    }

    /// Returns a text of the configuration with the number of the port.
    pub(crate) fn text_of(&self, config: &str) -> String {
        config.replace("PORT", &self.port.number().to_string())
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
        let mut names: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn start(&self) -> Running {
        self.start_as("node00001")
    }

    /// Starts the sampler of a host.
    pub(crate) fn start_as(&self, host: &str) -> Running {
        let mut child = self
            .command()
            .args(["--sampler", host])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = all_of(child.stdout.take().unwrap());
        let (log, mut stderr) = (
            Arc::<Mutex<Vec<u8>>>::default(),
            child.stderr.take().unwrap(),
        );
        let log_reader = std::thread::spawn({
            let log = Arc::clone(&log);
            move || {
                let mut octets = [0; 4096];
                while let Ok(read @ 1..) = stderr.read(&mut octets) {
                    log.lock().unwrap().extend_from_slice(&octets[..read]);
                }
            }
        });
        Running {
            child,
            stdout: Some(stdout),
            log,
            log_reader: Some(log_reader),
        }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
        command
            .current_dir(self.folder.path())
            .args(["-c", "ibnet.toml"])
            .env("NO_COLOR", "1");
        command
    }

    /// Connects to a Unix socket as soon as it exists.
    pub(crate) fn unix(&self, name: &str) -> UnixStream {
        wait_for_some("a reader", || UnixStream::connect(self.path(name)).ok())
    }

    /// Connects to the TCP port as soon as it is open.
    pub(crate) fn tcp(&self) -> TcpStream {
        wait_for_some("a reader", || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port.number())).ok()
        })
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

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.lock().unwrap()).into_owned()
    }

    /// Waits until the log has this text so many times.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, text: &str, times: usize) {
        wait_for(text, || {
            let has_ended = self.log_reader.as_ref().is_none_or(JoinHandle::is_finished);
            let log = self.log();
            let is_there = log.matches(text).count() >= times;
            assert!(
                is_there || !has_ended,
                "the sampler ended without {text:?}: {log}"
            );
            is_there
        });
    }

    /// Suspends the sampler, and waits until all of its threads stand still.
    #[cfg(feature = "nats")]
    pub(crate) fn suspend(&self) {
        self.signal("STOP");
        let tasks = format!("/proc/{}/task", self.id());
        let stands = |task: fs::DirEntry| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // A thread that has ended in the meantime has no file.
            stat.rsplit_once(") ")
                .is_none_or(|(_, state)| state.starts_with('T'))
        };
        wait_for("threads that stand still", || {
            fs::read_dir(&tasks)
                .unwrap()
                .all(|task| stands(task.unwrap()))
        });
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
        self.log_reader.take().unwrap().join().unwrap();
        Run {
            code: status.code().unwrap_or(-1),
            stdout,
            stderr: self.log(),
        }
    }
}

impl Run {
    /// Returns the number of records that an output had not written at the end, as the log reports
    /// it.
    #[cfg(feature = "nats")]
    pub(crate) fn unwritten(&self, output: &str) -> u64 {
        unwritten(&self.stderr, output)
    }
}

/// Returns the number of records that an output had not written at the end, by the log.
pub(crate) fn unwritten(log: &str, output: &str) -> u64 {
    let output = format!("output={output:?}");
    let line = log.lines().find(|line| {
        line.contains("the output did not accept all records") && line.contains(&output)
    });
    line.map_or(0, |line| {
        line.split_once("dropped=")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
            .expect(line)
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process still runs only if the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(child: &Child, name: &str) {
    let kill = Command::new("sh")
        .args(["-c", "kill -s \"$0\" \"$1\"", name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(kill.success());
}

/// Prints a notice that the test runner does not capture.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Waits until the function returns a value.
#[track_caller]
pub(crate) fn wait_for_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let (mut pause, mut waited) = (FIRST_PAUSE, Duration::ZERO);
    while waited < HANGS {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(pause);
        waited += pause;
        pause = LONGEST_PAUSE.min(pause * 5 / 4);
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
        assert!(
            reader.read_line(&mut line).unwrap() > 0,
            "the stream ended after {text}"
        );
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
                    received.lost += event
                        .detail
                        .split(' ')
                        .next()
                        .unwrap()
                        .parse::<u64>()
                        .unwrap();
                }
                Ok(record) => {
                    let mut text = line.to_owned();
                    if let Line::Sweep(sweep) = record {
                        by_sweeps += sweep.lines_lost;
                        received.slots.push(sweep.slot);
                        text = line.replace(
                            &format!("\"lines_lost\":{}", sweep.lines_lost),
                            "\"lines_lost\":0",
                        );
                    }
                    assert!(
                        received.lines.insert(text),
                        "a record is there twice: {line}"
                    );
                }
            }
        }
        // A gap event may be written in a slot whose `sweep` record is dropped.
        assert!(
            by_sweeps <= received.lost && (received.torn > 0 || by_sweeps == received.lost),
            "{by_sweeps} and {}",
            received.lost
        );
        received
    }
}
