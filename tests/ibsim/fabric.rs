//! An ibsim instance for a test or a benchmark: one fabric, one process, ended with the test.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use ibnet::topology::synthetic::Blueprint;

/// Time after which a hanging test fails. It is not a limit of speed.
pub(crate) const HANGS: Duration = Duration::from_secs(600);

/// A running ibsim with assigned LIDs.
pub(crate) struct Ibsim {
    process: Child,
    console: ChildStdin,
    /// Lines of its console. A thread reads them all the time, so that ibsim never blocks.
    #[allow(dead_code, reason = "the benchmark types nothing")]
    output: Receiver<String>,
    name: String,
    preload: PathBuf,
    /// Folder of the test; removed with it.
    pub(crate) folder: tempfile::TempDir,
}

/// Returns the path of ibsim's preloaded library on Debian.
fn preload() -> Option<PathBuf> {
    let multiarch = fs::read_dir("/usr/lib")
        .ok()?
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("umad2sim/libumad2sim.so"));
    multiarch.into_iter().find(|path| path.exists())
}

/// Returns the path of ibsim's preloaded library. Without ibsim prints SKIPPED and returns `None`,
/// or fails if `IBNET_REQUIRE_IBSIM` is set.
pub(crate) fn available() -> Option<PathBuf> {
    let tools = ["ibsim", "opensm", "ibnetdiscover", "perfquery"];
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let there = |tool: &str| std::env::split_paths(&path).any(|folder| folder.join(tool).exists());
    let found = preload().filter(|_| tools.iter().all(|tool| there(tool)));
    if found.is_none() {
        assert!(
            std::env::var_os("IBNET_REQUIRE_IBSIM").is_none(),
            "ibsim and its tools are not installed: run `make deps`"
        );
        // Written directly: the test runner would capture the output of the macro.
        let _ = std::io::stderr()
            .write_all(b"SKIPPED: ibsim, opensm, ibnetdiscover or perfquery is not installed; `make deps` installs them\n");
    }
    found
}

impl Ibsim {
    /// Starts ibsim with a fabric and runs opensm once on the node `sm`, which assigns LIDs.
    pub(crate) fn start(fabric: &Blueprint, sm: &str, preload: PathBuf) -> Self {
        Self::of_net(&fabric.ibsim_net(), sm, preload)
    }

    /// Starts ibsim with a net file of its own format: see [`start`](Self::start).
    pub(crate) fn of_net(text: &str, sm: &str, preload: PathBuf) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "ibnet{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = tempfile::tempdir().expect("a folder");
        let net = folder.path().join("net");
        fs::write(&net, text).expect("written");
        // Sufficient for 1,000 nodes with 5,000 linked ports.
        let limits = ["-N", "4000", "-S", "1000", "-P", "40000", "-s"].map(OsStr::new);
        let mut process = Command::new("ibsim")
            .args(limits.into_iter().chain([net.as_os_str()]))
            .env("IBSIM_SOCKNAME", &name)
            // ibsim spins at the end of its input, so the console stays open until the test ends.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("ibsim starts");
        let console = process.stdin.take().expect("piped");
        let output = lines(process.stdout.take().expect("piped"));
        wait_for(&output, "MaxMcastCap", "ibsim's network");
        let ibsim = Self {
            process,
            console,
            output,
            name,
            preload,
            folder,
        };
        let log = ibsim.folder.path().join("opensm.log");
        let opensm = ibsim.run(
            sm,
            "opensm",
            ["-o".as_ref(), "-e".as_ref(), "-f".as_ref(), log.as_os_str()],
        );
        assert!(
            opensm.status.success(),
            "opensm: {}",
            String::from_utf8_lossy(&opensm.stderr)
        );
        ibsim
    }

    /// Returns the process ID.
    #[allow(dead_code, reason = "the benchmark pins it to a core")]
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Types a line into the console.
    #[allow(dead_code, reason = "the benchmark does not")]
    pub(crate) fn type_line(&mut self, line: &str) {
        writeln!(self.console, "{line}").expect("ibsim reads its console");
    }

    /// Waits until ibsim has processed all typed lines. Returns its output until then.
    #[allow(dead_code, reason = "the benchmark types nothing")]
    pub(crate) fn settle(&mut self) -> Vec<String> {
        // ibsim prints the name of an unknown command.
        const UNKNOWN: &str = "Settled";
        self.type_line(UNKNOWN);
        let next = || {
            self.output
                .recv_timeout(HANGS)
                .expect("ibsim prints a line")
        };
        std::iter::repeat_with(next)
            .take_while(|line| !line.contains(UNKNOWN))
            .collect()
    }

    /// Returns a command that runs on a node of the fabric. With `IBNET_TEST_SMP`, a sweep sends
    /// SMPs in this way. ibsim answers SMPs by LID too.
    pub(crate) fn command(&self, node: &str, program: impl AsRef<OsStr>) -> Command {
        let is_sweep = Path::new(&program).ends_with("ibnet-sweep");
        let mut command = self.without_way(node, program);
        if let Some(way) = std::env::var_os("IBNET_TEST_SMP").filter(|_| is_sweep) {
            command.arg("--smp").arg(way);
        }
        command
    }

    /// Returns a command like [`command`](Self::command), without a way of SMPs.
    pub(crate) fn without_way(&self, node: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        command
            .env("PATH", path)
            .env("IBSIM_SOCKNAME", &self.name)
            // Without this, opensm assigns the LIDs of an earlier run.
            .env("OSM_CACHE_DIR", self.folder.path())
            .env("SIM_HOST", format!("H-{node}"))
            .env("LD_PRELOAD", &self.preload);
        command.current_dir(self.folder.path());
        command
    }

    /// Runs a command to its end. A killed command would keep its client slot in ibsim.
    pub(crate) fn run(
        &self,
        node: &str,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Output {
        let args: Vec<_> = args.into_iter().collect();
        let has_no_way = ["check", "query", "verify"].map(OsStr::new);
        let mut command = match args.first() {
            Some(first) if has_no_way.contains(&first.as_ref()) => self.without_way(node, program),
            _ => self.command(node, program),
        };
        command.args(args).output().expect("the program starts")
    }

    /// Returns a path in the test's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::join(self.folder.path(), name)
    }
}

impl Drop for Ibsim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the lines of a process as they arrive.
pub(crate) fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        BufReader::new(from)
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| sender.send(line))
    });
    receiver
}

/// A running program, which is killed at the end of the test.
#[allow(dead_code, reason = "the benchmark runs programs to their ends")]
pub(crate) struct Running(pub(crate) Child);

#[allow(dead_code, reason = "the benchmark runs programs to their ends")]
impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("the program starts"))
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.0.id());
    }

    /// Stops the program, and checks that it ends without an error.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        let ended = self.0.wait().expect("the program ends");
        assert!(ended.success(), "{ended}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[allow(dead_code, reason = "the benchmark sends no signals")]
pub(crate) fn signal(name: &str, process: u32) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), process.to_string()])
        .status();
    assert!(sent.expect("kill is installed").success());
}

/// Repeats a look until it is successful.
#[allow(dead_code, reason = "the benchmark waits for lines only")]
#[track_caller]
pub(crate) fn wait_until(what: &str, mut look: impl FnMut() -> bool) {
    const PAUSE: Duration = Duration::from_millis(50);
    let mut waited = Duration::ZERO;
    while !look() {
        assert!(waited < HANGS, "timeout while waiting for {what}");
        thread::sleep(PAUSE);
        waited += PAUSE;
    }
}

/// Waits for a line that contains `what` and returns it.
pub(crate) fn wait_for(lines: &Receiver<String>, what: &str, whose: &str) -> String {
    loop {
        let line = lines
            .recv_timeout(HANGS)
            .unwrap_or_else(|_| panic!("{whose} did not print {what:?}"));
        if line.contains(what) {
            return line;
        }
    }
}
