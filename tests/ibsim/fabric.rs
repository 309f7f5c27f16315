//! An ibsim of our own for a test or a benchmark: one fabric, one instance, ended with the test.

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

/// A running ibsim whose LIDs are assigned.
pub(crate) struct Ibsim {
    process: Child,
    console: ChildStdin,
    /// What it says on its console, which is read all the time, so that it never waits for us.
    #[allow(dead_code, reason = "the benchmark types nothing")]
    said: Receiver<String>,
    name: String,
    preload: PathBuf,
    /// Where the test may write; removed with it.
    pub(crate) folder: tempfile::TempDir,
}

/// Where Debian puts the library that stands in for the kernel.
fn preload() -> Option<PathBuf> {
    let multiarch = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok).map(|entry| entry.path().join("umad2sim/libumad2sim.so"));
    multiarch.into_iter().find(|path| path.exists())
}

/// `None`, aloud, where ibsim is not installed and nobody insists.
pub(crate) fn available() -> Option<PathBuf> {
    let tools = ["ibsim", "opensm", "ibnetdiscover", "perfquery"];
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let there = |tool: &str| std::env::split_paths(&path).any(|folder| folder.join(tool).exists());
    let found = preload().filter(|_| tools.iter().all(|tool| there(tool)));
    if found.is_none() {
        assert!(std::env::var_os("IBNET_REQUIRE_IBSIM").is_none(), "ibsim and its tools are not installed: run `make deps`");
        // Not by the macro: the test runner would keep that to itself.
        let _ = std::io::stderr()
            .write_all(b"SKIPPED: ibsim, opensm, ibnetdiscover or perfquery is not installed; `make deps` installs them\n");
    }
    found
}

impl Ibsim {
    /// Starts ibsim with a fabric and lets opensm assign LIDs once, from the node `sm`.
    pub(crate) fn start(fabric: &Blueprint, sm: &str, preload: PathBuf) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ibnet{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().expect("a folder");
        let net = folder.path().join("net");
        fs::write(&net, fabric.ibsim_net()).expect("written");
        let mut process = Command::new("ibsim")
            .args(["-s".as_ref(), net.as_os_str()])
            .env("IBSIM_SOCKNAME", &name)
            // At the end of its input it would spin: the console stays open until the test ends.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("ibsim starts");
        let console = process.stdin.take().expect("piped");
        let said = lines(process.stdout.take().expect("piped"));
        wait_for(&said, "MaxMcastCap", "ibsim's network");
        let ibsim = Self { process, console, said, name, preload, folder };
        let log = ibsim.folder.path().join("opensm.log");
        let opensm = ibsim.run(sm, "opensm", ["-o".as_ref(), "-e".as_ref(), "-f".as_ref(), log.as_os_str()]);
        assert!(opensm.status.success(), "opensm: {}", String::from_utf8_lossy(&opensm.stderr));
        ibsim
    }

    /// Its process.
    #[allow(dead_code, reason = "the benchmark pins it to a core")]
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Types a line into its console.
    #[allow(dead_code, reason = "the benchmark does not")]
    pub(crate) fn type_line(&mut self, line: &str) {
        writeln!(self.console, "{line}").expect("ibsim reads its console");
    }

    /// Waits until it has done all that was typed, and gives what it said until then.
    #[allow(dead_code, reason = "the benchmark types nothing")]
    pub(crate) fn settle(&mut self) -> Vec<String> {
        // It says of a command that it does not know just that.
        const UNKNOWN: &str = "Settled";
        self.type_line(UNKNOWN);
        let next = || self.said.recv_timeout(Duration::from_secs(60)).expect("ibsim says what it does");
        std::iter::repeat_with(next).take_while(|line| !line.contains(UNKNOWN)).collect()
    }

    /// A command that sees the fabric from this node.
    pub(crate) fn command(&self, node: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        command
            .env("PATH", path)
            .env("IBSIM_SOCKNAME", &self.name)
            // Else opensm gives the LIDs of another day.
            .env("OSM_CACHE_DIR", self.folder.path())
            .env("SIM_HOST", format!("H-{node}"))
            .env("LD_PRELOAD", &self.preload);
        command.current_dir(self.folder.path());
        command
    }

    /// Runs a command to its end. One that were killed would keep its place in ibsim for good.
    pub(crate) fn run(&self, node: &str, program: impl AsRef<OsStr>, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
        self.command(node, program).args(args).output().expect("the program starts")
    }

    /// A path in the test's folder.
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

/// The lines of a process, as they come.
pub(crate) fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    receiver
}

/// Waits for a line that contains this.
pub(crate) fn wait_for(lines: &Receiver<String>, what: &str, whose: &str) -> String {
    loop {
        let line = lines.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{whose}: {what:?} never came"));
        if line.contains(what) {
            return line;
        }
    }
}
