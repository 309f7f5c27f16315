//! The real `ibnet-sweep` while its files change under it, and what it tells a service manager.
//!
//! Whatever a busy machine does, slots follow one another: what was missed is told.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ibnet::assignments::sha256_hex;
use ibnet::record::strict::{self, Line};
use ibnet::topology::synthetic::FatTree;
use ibnet::types::{Guid, PortNum};
use tempfile::TempDir;

/// A guard against a program that hangs, not a measure of how fast it is.
const HANGS: Duration = Duration::from_secs(60);

/// Between two looks at what a program does.
const WAIT: Duration = Duration::from_millis(10);

/// 20 linked ports: 6 hosts on 2 leaves (5 linked ports each), 2 spines.
const TREE: FatTree = FatTree { leaves: 2, hosts: 3, spines: 2, trunk: 1, radix: 8 };

/// A sweep of node00001's share of the plan into the file `lines`, every 100 ms.
struct Service {
    dir: TempDir,
    child: Child,
}

impl Drop for Service {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The plan for these samplers.
fn plan(dir: &Path, samplers: &str) -> Vec<u8> {
    let args = ["--net", "net.p", "--samplers", samplers, "-o", "made.toml"];
    let made = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-gen")).current_dir(dir).args(args).output().unwrap();
    assert!(made.status.success());
    fs::read(dir.join("made.toml")).unwrap()
}

impl Service {
    fn start(samplers: &str, environment: &[(&str, String)], prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
        fs::write(dir.path().join("plan.toml"), plan(dir.path(), samplers)).unwrap();
        let config =
            "simulate = \"net.p\"\nassignments = \"plan.toml\"\nsampler = \"node00001\"\ninterval = \"100ms\"\noutput = \"lines\"\n";
        fs::write(dir.path().join("ibnet.toml"), config).unwrap();
        prepare(dir.path());
        let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
        let command = command.current_dir(dir.path()).args(["-c", "ibnet.toml"]).envs(environment.iter().cloned());
        let child = command.stderr(fs::File::create(dir.path().join("log")).unwrap()).stdin(Stdio::null()).spawn().unwrap();
        Self { dir, child }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// All whole lines so far.
    fn lines(&self) -> Vec<Line> {
        let text = fs::read_to_string(self.path("lines")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|text| strict::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))).collect()
    }

    /// Waits until this holds of the lines.
    #[track_caller]
    fn wait(&self, what: &str, holds: impl Fn(&[Line]) -> bool) -> Vec<Line> {
        for _ in 0..HANGS.as_millis() / WAIT.as_millis() {
            let lines = self.lines();
            if holds(&lines) {
                return lines;
            }
            std::thread::sleep(WAIT);
        }
        panic!("{what} never came; the log: {}", fs::read_to_string(self.path("log")).unwrap());
    }

    /// Waits for so many `reload` events, and two slots after the last; gives their details.
    #[track_caller]
    fn reloads(&self, count: usize) -> Vec<String> {
        let after = |lines: &[Line]| {
            let last = lines.iter().rposition(|line| matches!(line, Line::Event(event) if event.event == "reload"));
            details(lines).len() >= count
                && last.is_some_and(|last| lines[last..].iter().filter(|line| matches!(line, Line::Sweep(_))).count() >= 2)
        };
        let details = details(&self.wait("a reload", after));
        assert_eq!(details.len(), count, "{details:?}");
        details
    }

    /// Puts a file into its place by a rename.
    fn replace(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path("beside"), bytes).unwrap();
        fs::rename(self.path("beside"), self.path(name)).unwrap();
    }

    /// Sends a signal to this process and no other: it has not been waited for, so its number is its own.
    fn signal(&self, name: &str) {
        let kill = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &self.child.id().to_string()]).status().unwrap();
        assert!(kill.success());
    }

    /// Stops it, and gives its lines and its log.
    fn stop(mut self) -> (Vec<Line>, String) {
        self.signal("TERM");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        (self.lines(), fs::read_to_string(self.path("log")).unwrap())
    }
}

fn details(lines: &[Line]) -> Vec<String> {
    let reload = |line: &Line| if let Line::Event(event) = line { (event.event == "reload").then(|| event.detail.clone()) } else { None };
    lines.iter().filter_map(reload).collect()
}

/// The ports of each slot; slots follow one another, and none is there twice.
fn slots(lines: &[Line]) -> BTreeMap<u64, BTreeSet<(Guid, PortNum)>> {
    let mut slots: BTreeMap<u64, BTreeSet<_>> = BTreeMap::new();
    let mut last: Option<u64> = None;
    for line in lines {
        match line {
            Line::Port(port) => assert!(slots.entry(port.slot).or_default().insert((port.guid, port.port)), "{port:?} twice"),
            Line::Sweep(sweep) => {
                let follows = last.is_none_or(|last| sweep.slot == last + 1 + sweep.slots_missed);
                assert!(follows, "{} after {last:?}, and {} missed", sweep.slot, sweep.slots_missed);
                last = Some(sweep.slot);
                assert_eq!(slots.get(&sweep.slot).map_or(0, BTreeSet::len), sweep.ports as usize);
            }
            _ => {}
        }
    }
    slots
}

fn starts(lines: &[Line]) -> Vec<&strict::Start> {
    lines.iter().filter_map(|line| if let Line::Start(start) = line { Some(start) } else { None }).collect()
}

/// Two slots ran.
fn two_slots(lines: &[Line]) -> bool {
    lines.iter().filter(|line| matches!(line, Line::Sweep(_))).count() >= 2
}

#[test]
fn a_new_plan_is_taken_at_a_slot_border_and_no_slot_is_lost() {
    let service = Service::start("node00001,node00004", &[], |_| {});
    service.wait("the second slot", two_slots);
    let all = plan(service.dir.path(), "node00001");
    service.replace("plan.toml", &all);
    let told = service.reloads(1);
    assert!(told[0].starts_with(&format!("taken: 20 ports, assignments with SHA-256 {}", sha256_hex(&all))), "{told:?}");
    let (lines, log) = service.stop();
    let slots = slots(&lines);
    let counts: Vec<usize> = slots.values().map(BTreeSet::len).collect();
    let first = counts[0];
    assert!(first < 20 && counts.iter().skip_while(|count| **count == first).all(|count| *count == 20), "{counts:?}");
    let starts = starts(&lines);
    assert_eq!((starts.len(), starts[1].ports, starts[1].assignments_sha256.clone()), (2, 20, Some(sha256_hex(&all))));
    let place = |of: &dyn Fn(&Line) -> bool| lines.iter().rposition(of).expect("it is there");
    let start = place(&|line| matches!(line, Line::Start(_)));
    assert!(start < place(&|line| matches!(line, Line::Event(event) if event.event == "reload")), "who takes over begins with its start");
    assert!(log.contains("reload taken: 20 ports"), "{log}");
}

#[test]
fn what_is_broken_or_half_written_is_refused_with_its_place_and_the_old_plan_stays() {
    let service = Service::start("node00001,node00004", &[], |_| {});
    let ports = service.wait("the second slot", two_slots);
    let ports = slots(&ports).into_values().next().unwrap();
    let whole = plan(service.dir.path(), "node00001");
    // Half of it, and whoever wrote it says that it is there.
    fs::write(service.path("plan.toml"), &whole[..whole.len() / 2]).unwrap();
    service.signal("HUP");
    let told = service.reloads(1);
    assert!(told[0].starts_with("refused, all goes on as before: plan.toml:"), "{told:?}");
    // The rest comes, and nobody says so.
    fs::write(service.path("plan.toml"), &whole).unwrap();
    assert!(service.reloads(2)[1].starts_with("taken: 20 ports"));
    let config = fs::read_to_string(service.path("ibnet.toml")).unwrap();
    for (text, said) in [
        (format!("{config}windwo = 9\n"), "ibnet.toml:6: there is no key windwo"),
        (format!("{config}window = 999\n"), "ibnet.toml:6: window: \"999\" is not"),
        (format!("{config}cpus = [1000]\n"), "cpus: a thread cannot be kept on CPU 1000"),
        (config.replace("\"lines\"", "\"other\""), "output: only a start can change it"),
        (config.replace("node00001", "node00009"), "the sampler `node00009` is not in the assignments"),
        (config.replace("plan.toml", "nosuch.toml"), "nosuch.toml: cannot be read"),
    ] {
        let before = details(&service.lines()).len();
        service.replace("ibnet.toml", text.as_bytes());
        let told = service.reloads(before + 1);
        assert!(told.last().unwrap().starts_with(&format!("refused, all goes on as before: {said}")), "{told:?}");
    }
    let (lines, log) = service.stop();
    let slots = slots(&lines);
    assert!(slots.values().all(|of_slot| *of_slot == ports || of_slot.len() == 20));
    assert!(log.contains("WARN") && !log.contains("panicked"), "{log}");
}

#[test]
fn what_did_not_change_goes_on_with_its_readings() {
    let service = Service::start("node00001,node00004", &[], |_| {});
    service.wait("the second slot", two_slots);
    // Another comment, and so another file; the same for this sampler.
    let same = [fs::read(service.path("plan.toml")).unwrap(), b"# seen\n".to_vec()].concat();
    service.replace("plan.toml", &same);
    let told = service.reloads(1);
    assert!(told[0].ends_with("go on as before: 1, that begin anew: 0"), "{told:?}");
    service.signal("HUP");
    assert_eq!(service.reloads(2)[1], told[0]);
    // A key of the configuration is of all lanes.
    let config = fs::read_to_string(service.path("ibnet.toml")).unwrap();
    service.replace("ibnet.toml", config.replace("100ms", "200ms").as_bytes());
    assert!(service.reloads(3)[2].ends_with("go on as before: 0, that begin anew: 1"));
    let (lines, _) = service.stop();
    let starts = starts(&lines);
    let told: Vec<_> = starts.iter().map(|start| (start.interval_ns, start.assignments_sha256.clone().unwrap())).collect();
    let sha256 = sha256_hex(&same);
    assert_eq!((told.len(), &told[1], &told[2]), (3, &(100_000_000, sha256.clone()), &(200_000_000, sha256)));
    // Until the third reload a port that answered in two slots that follow one another has rates: nothing was forgotten.
    let of_100ms = lines.iter().take_while(|line| !matches!(line, Line::Start(start) if start.interval_ns == 200_000_000));
    let mut before: BTreeMap<(Guid, PortNum), u64> = BTreeMap::new();
    let mut compared = 0;
    for port in of_100ms.filter_map(|line| if let Line::Port(port) = line { Some(port) } else { None }).filter(|port| port.status == "ok") {
        if before.insert((port.guid, port.port), port.slot).is_some_and(|slot| slot + 1 == port.slot) {
            assert!(port.dt_ns.is_some(), "{port:?}");
            compared += 1;
        }
    }
    assert!(compared > 0, "no port answered twice in a row");
    // Where the interval changed, the old slots end before the new ones begin.
    let last_old = lines.iter().filter_map(|line| if let Line::Sweep(sweep) = line { Some(sweep.slot) } else { None });
    let (old, new): (Vec<u64>, Vec<u64>) = last_old.partition(|slot| *slot > starts[2].slot * 3 / 2);
    assert!(old.last().unwrap() * 100 < new[0] * 200, "{old:?} {new:?}");
}

#[test]
fn a_service_manager_is_told_of_readiness_life_reloads_and_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(HANGS)).unwrap();
    let environment = [("NOTIFY_SOCKET", folder.path().join("notify").display().to_string()), ("WATCHDOG_USEC", "200000".to_owned())];
    let service = Service::start("node00001,node00004", &environment, |_| {});
    let told = || {
        let mut message = [0; 512];
        let length = socket.recv(&mut message).expect("it tells something");
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    // Slots of 100 ms need more patience than a fifth of a second.
    assert_eq!(told(), "WATCHDOG_USEC=300000\n");
    let until = |what: &str| std::iter::repeat_with(told).find(|message| message.contains(what)).unwrap();
    assert!(until("READY=1").contains("STATUS=10 ports in each slot, by 1 HCA port\n"));
    assert!(two_slots(&service.lines()) || !service.lines().is_empty(), "a slot was swept before");
    until("WATCHDOG=1");
    service.replace("plan.toml", &plan(service.dir.path(), "node00001"));
    assert!(until("RELOADING=1").contains("MONOTONIC_USEC="));
    assert!(until("READY=1").contains("STATUS=20 ports"));
    service.replace("plan.toml", b"version = 1\n");
    until("RELOADING=1");
    assert!(until("READY=1").contains("STATUS=20 ports"), "what is refused changes nothing");
    until("WATCHDOG=1");
    service.signal("TERM");
    until("STOPPING=1");
    service.stop();
}

/// The sockets of a process, by what they are: `/proc` names each by its inode.
fn listening(pid: u32) -> Vec<String> {
    let folder = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links: Vec<String> =
        folder.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).map(|link| link.display().to_string()).collect();
    let own: BTreeSet<&str> = links.iter().filter_map(|link| link.strip_prefix("socket:[")?.strip_suffix(']')).collect();
    let mut found = Vec::new();
    for table in ["tcp", "tcp6", "udp", "udp6", "raw", "raw6", "packet", "unix"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        found.extend(
            text.lines()
                .skip(1)
                .filter(|line| line.split_whitespace().any(|word| own.contains(word)))
                .map(|line| format!("{table}: {line}")),
        );
    }
    found
}

#[test]
fn nothing_listens_unless_it_is_asked_to() {
    let service = Service::start("node00001", &[], |_| {});
    service.wait("the second slot", two_slots);
    // A pair of sockets without a name, by which signals are told of within the process, is all that there is.
    let sockets = listening(service.child.id());
    assert!(sockets.iter().all(|socket| socket.starts_with("unix: ") && !socket.contains('/') && !socket.contains('@')), "{sockets:?}");
    // The test sees a listener where there is one.
    let _listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(listening(std::process::id()).iter().any(|socket| socket.starts_with("tcp: ")));
    service.stop();
}

#[test]
fn a_service_that_stood_still_for_three_seconds_tells_what_it_missed_and_catches_up_with_nothing() {
    let service = Service::start("node00001", &[], |_| {});
    service.wait("the second slot", two_slots);
    service.signal("STOP");
    std::thread::sleep(Duration::from_secs(3));
    service.signal("CONT");
    let told = |line: &Line| matches!(line, Line::Sweep(sweep) if sweep.slots_missed >= 20);
    service.wait("the missed slots", |lines| lines.iter().rposition(told).is_some_and(|at| two_slots(&lines[at..])));
    let (lines, _) = service.stop();
    // Slots follow one another, those that were missed left out, and each has its time: they did not come in a bunch.
    slots(&lines);
    let ports = lines.iter().filter_map(|line| if let Line::Port(port) = line { Some(port) } else { None });
    assert!(ports.filter(|port| port.status == "ok").all(|port| port.ts / 100_000_000 >= port.slot));
    assert!(lines.iter().any(|line| matches!(line, Line::Event(event) if event.event == "slot_missed")));
}
