//! The real `ibnet-sweep` while its files change, and its notifications to a service manager.
//!
//! These tests hold on a busy machine: slots are consecutive, and missed slots are counted.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ibnet::assignments::sha256_hex;
use ibnet::topology::synthetic::FatTree;
use ibnet_record::strict::{self, Line, Sweep};
use ibnet_record::types::{Guid, PortNum};
use tempfile::TempDir;

use crate::HANGS;

/// Time between two reads of the records.
const WAIT: Duration = Duration::from_millis(10);

/// 20 linked ports: 6 hosts on 2 leaves (5 linked ports each), 2 spines.
const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

/// A sweep of the ports of node00001 into the file `lines`, every 100 ms.
struct Service {
    dir: TempDir,
    child: Child,
    /// Octets of the file that were read, and their records.
    records: RefCell<(u64, Vec<Line>)>,
}

impl Drop for Service {
    fn drop(&mut self) {
        // The program has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the plan for these samplers.
fn plan(dir: &Path, samplers: &str) -> Vec<u8> {
    plan_with(dir, samplers, &[])
}

fn plan_with(dir: &Path, samplers: &str, options: &[&str]) -> Vec<u8> {
    let args = [
        &["--net", "net.p", "--samplers", samplers, "-o", "made.toml"],
        options,
    ]
    .concat();
    let made = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-gen"))
        .current_dir(dir)
        .args(args)
        .output()
        .unwrap();
    assert!(made.status.success());
    fs::read(dir.join("made.toml")).unwrap()
}

impl Service {
    fn start(samplers: &str, environment: &[(&str, String)], prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
        fs::write(dir.path().join("plan.toml"), plan(dir.path(), samplers)).unwrap();
        let config = "simulate = \"net.p\"\nassignments = \"plan.toml\"\nsampler = \"node00001\"\ninterval = \"100ms\"\noutput = \"lines\"\n";
        fs::write(dir.path().join("ibnet.toml"), config).unwrap();
        prepare(dir.path());
        let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
        let command = command
            .current_dir(dir.path())
            .args(["-c", "ibnet.toml"])
            .envs(environment.iter().cloned());
        let child = command
            .stderr(fs::File::create(dir.path().join("log")).unwrap())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            dir,
            child,
            records: RefCell::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns all complete records so far.
    fn lines(&self) -> Vec<Line> {
        self.read();
        self.records.borrow().1.clone()
    }

    /// Reads the records that are new in the file, up to the last complete line.
    fn read(&self) {
        let (end, records) = &mut *self.records.borrow_mut();
        let Ok(mut file) = fs::File::open(self.path("lines")) else {
            return;
        };
        file.seek(SeekFrom::Start(*end)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let whole = text.rfind('\n').map_or("", |last| &text[..=last]);
        *end += whole.len() as u64;
        records.extend(
            whole
                .lines()
                .map(|text| strict::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))),
        );
    }

    /// Waits until a condition holds, and returns the records.
    #[track_caller]
    fn wait(&self, what: &str, holds: impl Fn(&[Line]) -> bool) -> Vec<Line> {
        let start = Instant::now();
        while start.elapsed() < HANGS {
            self.read();
            if holds(&self.records.borrow().1) {
                return self.records.borrow().1.clone();
            }
            std::thread::sleep(WAIT);
        }
        panic!(
            "{what}: not seen; the log: {}",
            fs::read_to_string(self.path("log")).unwrap()
        );
    }

    /// Waits for this number of `reload` events and two slots after the last; returns their
    /// details.
    #[track_caller]
    fn reloads(&self, count: usize) -> Vec<String> {
        let after = |lines: &[Line]| {
            let last = lines
                .iter()
                .rposition(|line| matches!(line, Line::Event(event) if event.event == "reload"));
            details(lines).len() >= count
                && last.is_some_and(|last| {
                    lines[last..]
                        .iter()
                        .filter(|line| matches!(line, Line::Sweep(_)))
                        .count()
                        >= 2
                })
        };
        let reported = details(&self.wait("a reload", after));
        assert_eq!(reported.len(), count, "{reported:?}");
        reported
    }

    /// Replaces a file by a rename.
    fn replace(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path("beside"), bytes).unwrap();
        fs::rename(self.path("beside"), self.path(name)).unwrap();
    }

    /// Replaces a file by a FIFO without a writer. It blocks its readers, as a network file system
    /// does whose server is gone.
    fn block(&self, name: &str) {
        assert!(
            Command::new("mkfifo")
                .arg(self.path("beside"))
                .status()
                .unwrap()
                .success()
        );
        fs::rename(self.path("beside"), self.path(name)).unwrap();
    }

    /// Sends a signal. The process was not reaped yet, so its number is not reused.
    fn signal(&self, name: &str) {
        let kill = Command::new("sh")
            .args([
                "-c",
                "kill -s \"$0\" \"$1\"",
                name,
                &self.child.id().to_string(),
            ])
            .status()
            .unwrap();
        assert!(kill.success());
    }

    /// Stops the program; returns its records and its log.
    fn stop(self) -> (Vec<Line>, String) {
        self.signal("TERM");
        self.wait_for_end()
    }

    /// Waits until the program has ended after a signal; returns its records and its log.
    fn wait_for_end(mut self) -> (Vec<Line>, String) {
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        (self.lines(), fs::read_to_string(self.path("log")).unwrap())
    }
}

fn details(lines: &[Line]) -> Vec<String> {
    let reload = |line: &Line| {
        if let Line::Event(event) = line {
            (event.event == "reload").then(|| event.detail.clone())
        } else {
            None
        }
    };
    lines.iter().filter_map(reload).collect()
}

/// Returns the ports of each slot. Asserts that slots are consecutive and that no port occurs
/// twice. At a change of the plan, the records of the last slot of the old worker can follow those
/// of the first slot of the new one.
fn slots(lines: &[Line]) -> BTreeMap<u64, BTreeSet<(Guid, PortNum)>> {
    let mut slots: BTreeMap<u64, BTreeSet<_>> = BTreeMap::new();
    let mut sweeps = BTreeMap::new();
    for line in lines {
        match line {
            Line::Port(port) => assert!(
                slots
                    .entry(port.slot)
                    .or_default()
                    .insert((port.guid, port.port)),
                "{port:?} twice"
            ),
            Line::Sweep(sweep) => {
                let other = sweeps.insert(sweep.slot, sweep.slots_missed);
                assert!(other.is_none(), "slot {} twice", sweep.slot);
                assert_eq!(
                    slots.get(&sweep.slot).map_or(0, BTreeSet::len),
                    sweep.ports as usize
                );
            }
            _ => {}
        }
    }
    for ((last, _), (slot, missed)) in sweeps.iter().zip(sweeps.iter().skip(1)) {
        assert_eq!(
            *slot,
            last + 1 + missed,
            "after slot {last}, {missed} missed: {sweeps:?}"
        );
    }
    slots
}

fn starts(lines: &[Line]) -> Vec<&strict::Start> {
    lines
        .iter()
        .filter_map(|line| {
            if let Line::Start(start) = line {
                Some(start)
            } else {
                None
            }
        })
        .collect()
}

/// Returns the records of ports that answered in time, in this slot and in the slot before.
fn ok_in_two_slots(lines: &[Line]) -> impl Iterator<Item = &strict::Port> {
    let mut before: BTreeMap<(Guid, PortNum), u64> = BTreeMap::new();
    let ports = lines.iter().filter_map(|line| {
        if let Line::Port(port) = line {
            Some(&**port)
        } else {
            None
        }
    });
    ports
        .filter(|port| port.status == "ok")
        .filter(move |port| {
            before
                .insert((port.guid, port.port), port.slot)
                .is_some_and(|slot| slot + 1 == port.slot)
        })
}

/// Returns the number of the slot at the present time.
fn slot_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64
        / 100
}

/// Returns whether two slots have ended.
fn two_slots(lines: &[Line]) -> bool {
    lines
        .iter()
        .filter(|line| matches!(line, Line::Sweep(_)))
        .count()
        >= 2
}

#[test]
fn new_plan_takes_effect_at_a_slot_border_without_losing_a_slot() {
    let service = Service::start("node00001,node00004", &[], |_| {});
    service.wait("the second slot", two_slots);
    let all = plan(service.dir.path(), "node00001");
    service.replace("plan.toml", &all);
    let reported = service.reloads(1);
    assert!(
        reported[0].starts_with(&format!(
            "taken: 20 ports, assignments with SHA-256 {}",
            sha256_hex(&all)
        )),
        "{reported:?}"
    );
    let (lines, log) = service.stop();
    let slots = slots(&lines);
    let counts: Vec<usize> = slots.values().map(BTreeSet::len).collect();
    let first = counts[0];
    assert!(
        first < 20
            && counts
                .iter()
                .skip_while(|count| **count == first)
                .all(|count| *count == 20),
        "{counts:?}"
    );
    let starts = starts(&lines);
    assert_eq!(
        (
            starts.len(),
            starts[1].ports,
            starts[1].assignments_sha256.clone()
        ),
        (2, 20, Some(sha256_hex(&all)))
    );
    let place = |of: &dyn Fn(&Line) -> bool| lines.iter().rposition(of).expect("it is there");
    let start = place(&|line| matches!(line, Line::Start(_)));
    assert!(
        start < place(&|line| matches!(line, Line::Event(event) if event.event == "reload")),
        "the new worker writes its start record first"
    );
    assert!(
        log.contains("are reloaded detail=\"taken: 20 ports"),
        "{log}"
    );
}

/// Returns the role, the slot and the number of ports of each `sweep` record.
fn sweeps(lines: &[Line]) -> Vec<(String, u64, u32)> {
    let sweep = |line: &Line| {
        if let Line::Sweep(Sweep {
            role, slot, ports, ..
        }) = line
        {
            Some((role.clone(), *slot, *ports))
        } else {
            None
        }
    };
    lines.iter().filter_map(sweep).collect()
}

/// The first slot of a new plan has no rates, so the second sampler of a port must not change
/// there.
#[test]
fn secondary_changes_to_a_new_plan_one_slot_after_the_primary() {
    let redundant = |dir: &Path, samplers: &str| plan_with(dir, samplers, &["--redundancy", "2"]);
    let service = Service::start("node00001", &[], |dir| {
        fs::write(dir.join("plan.toml"), redundant(dir, "node00001,node00004")).unwrap();
    });
    // The plans differ in the numbers of ports.
    let slots = |lines: &[Line], name: &str, is_old: bool| -> Vec<u64> {
        let sweeps = sweeps(lines).into_iter();
        sweeps
            .filter(|(role, _, ports)| role == name && (*ports == 10) == is_old)
            .map(|(_, slot, _)| slot)
            .collect()
    };
    let both = |lines: &[Line], is_old: bool| {
        ["primary", "secondary"]
            .iter()
            .all(|name| !slots(lines, name, is_old).is_empty())
    };
    service.wait("both roles", |lines| both(lines, true));
    service.replace(
        "plan.toml",
        &redundant(service.dir.path(), "node00001,node00004,node00006"),
    );
    service.wait("both roles with the new plan", |lines| both(lines, false));
    let (lines, _) = service.stop();
    let change = |name: &str| {
        (
            slots(&lines, name, true).pop().unwrap(),
            slots(&lines, name, false)[0],
        )
    };
    let (primary, secondary) = (change("primary"), change("secondary"));
    assert!(
        primary.0 < primary.1 && secondary.0 < secondary.1,
        "{primary:?}, {secondary:?}"
    );
    assert!(
        secondary.1 >= primary.0 + 2,
        "last slot with the old plan and first one with the new one: {primary:?}, {secondary:?}"
    );
}

#[test]
fn broken_files_are_refused_with_the_line_and_the_old_plan_stays() {
    let service = Service::start("node00001,node00004", &[], |_| {});
    let ports = service.wait("the second slot", two_slots);
    let ports = slots(&ports).into_values().next().unwrap();
    let whole = plan(service.dir.path(), "node00001");
    // An incomplete file, and SIGHUP.
    service.replace("plan.toml", &whole[..whole.len() / 2]);
    service.reloads(1);
    service.signal("HUP");
    for refused in service.reloads(2) {
        assert!(
            refused.starts_with("refused, nothing has changed: cannot read plan.toml:"),
            "{refused}"
        );
    }
    // The complete file, without a signal.
    service.replace("plan.toml", &whole);
    assert!(service.reloads(3)[2].starts_with("taken: 20 ports"));
    let config = fs::read_to_string(service.path("ibnet.toml")).unwrap();
    for (text, message) in [
        (
            format!("{config}windwo = 9\n"),
            "ibnet.toml:6: cannot use windwo: there is no such key",
        ),
        (
            format!("{config}window = 999\n"),
            "ibnet.toml:6: cannot use window: expected a number from 1 to 128 (found \"999\")",
        ),
        (
            format!("{config}cpus = [1000]\n"),
            "cannot use cpus: a thread cannot run on CPU 1000",
        ),
        (
            config.replace("\"lines\"", "\"other\""),
            "cannot change output while sweeping",
        ),
        (config.replace("node00001", "node00009"), "node00009"),
        (config.replace("plan.toml", "nosuch.toml"), "nosuch.toml"),
    ] {
        let before = details(&service.lines()).len();
        service.replace("ibnet.toml", text.as_bytes());
        let reported = service.reloads(before + 1);
        let last = reported.last().unwrap();
        assert!(
            last.starts_with("refused, nothing has changed: ") && last.contains(message),
            "{reported:?}"
        );
    }
    let (lines, log) = service.stop();
    let slots = slots(&lines);
    assert!(
        slots
            .values()
            .all(|of_slot| *of_slot == ports || of_slot.len() == 20)
    );
    assert!(log.contains("WARN") && !log.contains("panicked"), "{log}");
}

#[test]
fn unchanged_worker_keeps_its_readings() {
    let service = Service::start("node00001,node00004", &[], |_| {});
    service.wait("a port that answers in two consecutive slots", |lines| {
        ok_in_two_slots(lines).next().is_some()
    });
    // Another comment: the file differs, but not for this sampler.
    let same = [
        fs::read(service.path("plan.toml")).unwrap(),
        b"# seen\n".to_vec(),
    ]
    .concat();
    service.replace("plan.toml", &same);
    let reported = service.reloads(1);
    assert!(
        reported[0].ends_with("go on as before: 1, that begin anew: 0"),
        "{reported:?}"
    );
    service.signal("HUP");
    assert_eq!(service.reloads(2)[1], reported[0]);
    // The interval is a key of all workers.
    let config = fs::read_to_string(service.path("ibnet.toml")).unwrap();
    service.replace("ibnet.toml", config.replace("100ms", "200ms").as_bytes());
    assert!(service.reloads(3)[2].ends_with("go on as before: 0, that begin anew: 1"));
    let (lines, _) = service.stop();
    let starts = starts(&lines);
    let found: Vec<_> = starts
        .iter()
        .map(|start| (start.interval_ns, start.assignments_sha256.clone().unwrap()))
        .collect();
    let sha256 = sha256_hex(&same);
    assert_eq!(
        (found.len(), &found[1], &found[2]),
        (3, &(100_000_000, sha256.clone()), &(200_000_000, sha256))
    );
    // Until the third reload every port that answered in two consecutive slots has rates: no
    // reading was dropped.
    let at = lines
        .iter()
        .position(|line| matches!(line, Line::Start(start) if start.interval_ns == 200_000_000))
        .unwrap();
    let mut compared = 0;
    for port in ok_in_two_slots(&lines[..at]) {
        assert!(port.dt_ns.is_some(), "{port:?}");
        compared += 1;
    }
    assert!(compared > 0, "no port answered in two consecutive slots");
    // At the change of the interval the old slots end before the new ones begin.
    let last_old = lines.iter().filter_map(|line| {
        if let Line::Sweep(sweep) = line {
            Some(sweep.slot)
        } else {
            None
        }
    });
    let (old, new): (Vec<u64>, Vec<u64>) =
        last_old.partition(|slot| *slot > starts[2].slot * 3 / 2);
    assert!(old.last().unwrap() * 100 < new[0] * 200, "{old:?} {new:?}");
}

#[test]
fn service_manager_is_notified_of_readiness_slots_reloads_and_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (manager, environment) = Notifications::receive(folder.path());
    let service = Service::start("node00001,node00004", &environment, |_| {});
    // Three slots of 100 ms are longer than the watchdog time of 200 ms.
    assert_eq!(manager.next(), "WATCHDOG_USEC=300000\n");
    let until = |text: &str| manager.until(text);
    assert!(until("READY=1").contains("STATUS=10 ports in each slot, by 1 HCA port\n"));
    let ready = slot_now();
    let lines = service.wait("the first slot", |lines| count_slots(lines) > 0);
    let first = lines.iter().find_map(|line| {
        if let Line::Sweep(sweep) = line {
            Some(sweep.slot)
        } else {
            None
        }
    });
    assert!(first.unwrap() <= ready, "a slot ended before");
    until("WATCHDOG=1");
    service.replace("plan.toml", &plan(service.dir.path(), "node00001"));
    assert!(until("RELOADING=1").contains("MONOTONIC_USEC="));
    assert!(until("READY=1").contains("STATUS=20 ports"));
    service.replace("plan.toml", b"version = 1\n");
    until("RELOADING=1");
    assert!(
        until("READY=1").contains("STATUS=20 ports"),
        "a refused plan changes nothing"
    );
    until("WATCHDOG=1");
    service.signal("TERM");
    until("STOPPING=1");
    // A second signal would end the time for draining the outputs.
    service.wait_for_end();
}

/// The messages to a service manager, in their order.
struct Notifications(mpsc::Receiver<String>);

impl Notifications {
    /// Receives messages at a socket in `folder`. Also returns the environment that makes the
    /// program send them.
    fn receive(folder: &Path) -> (Self, [(&'static str, String); 2]) {
        let socket = UnixDatagram::bind(folder.join("notify")).unwrap();
        let (sender, messages) = mpsc::channel();
        // A service manager reads at any time. A full socket would block the program.
        std::thread::spawn(move || {
            let mut message = [0; 4096];
            while let Ok(length) = socket.recv(&mut message)
                && sender
                    .send(String::from_utf8(message[..length].to_vec()).unwrap())
                    .is_ok()
            {}
        });
        let path = folder.join("notify").display().to_string();
        (
            Self(messages),
            [
                ("NOTIFY_SOCKET", path),
                ("WATCHDOG_USEC", "200000".to_owned()),
            ],
        )
    }

    fn next(&self) -> String {
        self.0.recv_timeout(HANGS).expect("a notification")
    }

    /// Returns the next message with this text.
    #[track_caller]
    fn until(&self, text: &str) -> String {
        let start = Instant::now();
        let mut messages =
            std::iter::repeat_with(|| self.next()).take_while(|_| start.elapsed() < HANGS);
        messages
            .find(|message| message.contains(text))
            .unwrap_or_else(|| panic!("no message has {text:?}"))
    }
}

/// Returns the number of ports of each slot before this record.
fn ports_of_slots(lines: &[Line], end: usize) -> Vec<u32> {
    lines[..end]
        .iter()
        .filter_map(|line| {
            if let Line::Sweep(sweep) = line {
                Some(sweep.ports)
            } else {
                None
            }
        })
        .collect()
}

/// Returns the number of slots that have ended.
fn count_slots(lines: &[Line]) -> usize {
    lines
        .iter()
        .filter(|line| matches!(line, Line::Sweep(_)))
        .count()
}

#[test]
fn plan_that_is_replaced_right_after_the_start_is_taken() {
    // The program reads the plan at an unknown time after its start.
    let services: Vec<_> = [0, 2, 4, 8, 16, 32]
        .into_iter()
        .map(|ms| {
            let service = Service::start("node00001,node00004", &[], |dir| {
                fs::write(dir.join("all"), plan(dir, "node00001")).unwrap();
            });
            std::thread::sleep(Duration::from_millis(ms));
            fs::rename(service.path("all"), service.path("plan.toml")).unwrap();
            service
        })
        .collect();
    for service in services {
        service.wait(
            "20 ports",
            |lines| matches!(lines.last(), Some(Line::Sweep(sweep)) if sweep.ports == 20),
        );
        slots(&service.stop().0);
    }
}

#[test]
fn blocked_plan_delays_neither_slots_nor_signals() {
    let folder = tempfile::tempdir().unwrap();
    let (manager, environment) = Notifications::receive(folder.path());
    let service = Service::start("node00001,node00004", &environment, |_| {});
    service.wait("the second slot", two_slots);
    service.block("plan.toml");
    let count = |details: &[String], start: &str| {
        details
            .iter()
            .filter(|detail| detail.starts_with(start))
            .count()
    };
    service.wait("the report", |lines| {
        count(
            &details(lines),
            "hangs, nothing has changed: reading plan.toml",
        ) == 1
    });
    manager.until("a reload hangs: reading plan.toml");
    // Further requests are combined, and reported once.
    (0..3).for_each(|_| service.signal("HUP"));
    let again = "requested again, but the last one hangs: reading plan.toml";
    let before = service.wait("the second report", |lines| {
        count(&details(lines), again) == 1
    });
    let after = service.wait("more slots", |lines| {
        count_slots(lines) > count_slots(&before) + 5
    });
    assert_eq!(count(&details(&after), again), 1);
    manager.until("WATCHDOG=1");
    // A file that can be read ends the wait.
    service.replace("plan.toml", &plan(service.dir.path(), "node00001"));
    service.wait("the new plan", |lines| {
        count(&details(lines), "taken: 20 ports") == 1
    });
    manager.until("STATUS=20 ports in each slot, by 1 HCA port\n");
    let (lines, log) = service.stop();
    slots(&lines);
    assert!(log.contains("a reload is running"), "{log}");
}

#[test]
fn blocked_configuration_does_not_delay_the_end() {
    let service = Service::start("node00001,node00004", &[], |_| {});
    service.wait("the second slot", two_slots);
    service.block("ibnet.toml");
    service.signal("HUP");
    // The thread that reads is blocked at the latest after this slot.
    let slot = count_slots(&service.lines());
    service.wait("more slots", |lines| count_slots(lines) > slot + 2);
    slots(&service.stop().0);
}

#[test]
fn host_that_a_new_plan_omits_stops_and_waits_for_a_plan_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let (manager, environment) = Notifications::receive(folder.path());
    let service = Service::start("node00001,node00004", &environment, |_| {});
    service.wait("the second slot", two_slots);
    let with = fs::read(service.path("plan.toml")).unwrap();
    service.replace("plan.toml", &plan(service.dir.path(), "node00004"));
    let stopped = "stopped, waiting for assignments that name this sampler: cannot find the sampler `node00001`";
    service.wait("the event", |lines| {
        details(lines)
            .iter()
            .any(|detail| detail.starts_with(stopped))
    });
    let status = manager.until("STATUS=waiting for assignments");
    assert!(
        status.contains("READY=1") && status.contains("`node00001`"),
        "{status}"
    );
    // No further slot starts while the program reports that it is alive.
    let waits = slot_now();
    (0..2).for_each(|_| drop(manager.until("WATCHDOG=1")));
    // A refused file does not end the wait.
    service.replace("plan.toml", b"version = 1\n[[sampler]]\n");
    manager.until("RELOADING=1");
    let status = manager.until("READY=1");
    assert!(
        status.contains("STATUS=waiting for assignments"),
        "{status}"
    );
    let named = slot_now();
    service.replace("plan.toml", &with);
    let last_start = |lines: &[Line]| {
        lines
            .iter()
            .rposition(|line| matches!(line, Line::Start(_)))
            .unwrap()
    };
    service.wait("slots", |lines| {
        starts(lines).len() == 2 && count_slots(&lines[last_start(lines)..]) > 2
    });
    manager.until("ports in each slot");
    let (lines, log) = service.stop();
    assert_eq!(starts(&lines).len(), 2);
    let ports = ports_of_slots(&lines, last_start(&lines));
    assert!(ports.windows(2).all(|pair| pair[0] == pair[1]), "{ports:?}");
    // The slots of the other host's time are neither run nor reported as missed.
    let sweeps: Vec<_> = lines
        .iter()
        .filter_map(|line| {
            if let Line::Sweep(sweep) = line {
                Some(sweep)
            } else {
                None
            }
        })
        .collect();
    let (old, new): (Vec<&Sweep>, Vec<_>) =
        sweeps.into_iter().partition(|sweep| sweep.slot <= waits);
    let first = new[0];
    assert!(
        !old.is_empty() && first.slot >= named && first.slots_missed <= first.slot - named,
        "{first:?} after {waits}, {named}"
    );
    assert!(log.contains("refused, nothing has changed"), "{log}");
}

#[test]
fn program_that_waits_for_a_plan_ends_at_a_signal() {
    let service = Service::start("node00001,node00004", &[], |_| {});
    service.wait("the second slot", two_slots);
    service.replace("plan.toml", &plan(service.dir.path(), "node00004"));
    let before = service.wait("the event", |lines| {
        details(lines)
            .iter()
            .any(|detail| detail.starts_with("stopped"))
    });
    // The second plan does not name the host either.
    service.signal("HUP");
    let (lines, _) = service.stop();
    assert!(count_slots(&lines) <= count_slots(&before) + 1);
}

/// Returns the lines of `/proc/PID/net` for the sockets of a process, found by their inodes.
fn listening(pid: u32) -> Vec<String> {
    let folder = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links: Vec<String> = folder
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .map(|link| link.display().to_string())
        .collect();
    let own: BTreeSet<&str> = links
        .iter()
        .filter_map(|link| link.strip_prefix("socket:[")?.strip_suffix(']'))
        .collect();
    let mut found = Vec::new();
    for table in [
        "tcp", "tcp6", "udp", "udp6", "raw", "raw6", "packet", "unix",
    ] {
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
fn no_socket_listens_by_default() {
    let service = Service::start("node00001", &[], |_| {});
    service.wait("the second slot", two_slots);
    // The only sockets are the unnamed pair for signals within the process.
    let sockets = listening(service.child.id());
    assert!(
        sockets.iter().all(|socket| socket.starts_with("unix: ")
            && !socket.contains('/')
            && !socket.contains('@')),
        "{sockets:?}"
    );
    // The test detects a listener.
    let _listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(
        listening(std::process::id())
            .iter()
            .any(|socket| socket.starts_with("tcp: "))
    );
    service.stop();
}

#[test]
fn slots_missed_during_a_stop_of_three_seconds_are_counted_and_not_run() {
    let service = Service::start("node00001", &[], |_| {});
    service.wait("the second slot", two_slots);
    service.signal("STOP");
    std::thread::sleep(Duration::from_secs(3));
    service.signal("CONT");
    let has_missed = |line: &Line| matches!(line, Line::Sweep(sweep) if sweep.slots_missed >= 20);
    service.wait("the missed slots", |lines| {
        lines
            .iter()
            .rposition(has_missed)
            .is_some_and(|at| two_slots(&lines[at..]))
    });
    let (lines, _) = service.stop();
    // Slots are consecutive except for the missed ones, and each ran in its own time, not all at
    // once.
    slots(&lines);
    let ports = lines.iter().filter_map(|line| {
        if let Line::Port(port) = line {
            Some(port)
        } else {
            None
        }
    });
    assert!(
        ports
            .filter(|port| port.status == "ok")
            .all(|port| port.ts / 100_000_000 >= port.slot)
    );
    assert!(
        lines
            .iter()
            .any(|line| matches!(line, Line::Event(event) if event.event == "slot_missed"))
    );
}
