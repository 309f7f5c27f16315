//! Plans that are published on a NATS server, and samplers that watch them.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use async_nats::ConnectOptions;
use ibnet::assignments::{Assignments, sha256_hex};
use ibnet_record::strict::Line;

use super::server::{Server, available};
use crate::sampler::{Sampler, record, signal, wait_for};

const SAMPLERS: [&str; 3] = ["node00001", "node00004", "node00006"];

/// Interval of the samplers in nanoseconds.
const INTERVAL: u64 = 200_000_000;

/// Samplers of one fabric, whose plan is on a NATS server.
struct Fleet<'a> {
    folder: &'a Sampler,
    /// Table `[plan_server]` of the configurations.
    access: &'a str,
    url: String,
    running: Vec<(&'static str, Child)>,
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        for (_, child) in &mut self.running {
            // The programs have ended already unless the test failed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The slots that ran under one plan: the hash of the plan, the first slot, the last slot, and the
/// number of missed slots before the first one.
#[derive(Clone, PartialEq, Debug)]
struct Span {
    sha256: String,
    first: u64,
    last: u64,
    missed: u64,
}

impl<'a> Fleet<'a> {
    fn new(folder: &'a Sampler, port: u16, access: &'a str) -> Self {
        Self {
            folder,
            access,
            url: format!("nats://127.0.0.1:{port}"),
            running: Vec::new(),
        }
    }

    /// Runs `ibnet-gen` in the folder.
    fn generate(&self, args: &[&str]) -> Output {
        fs::write(self.folder.path("publish.toml"), self.access).unwrap();
        Command::new(env!("CARGO_BIN_EXE_ibnet-gen"))
            .current_dir(self.folder.folder())
            .args(args)
            .output()
            .unwrap()
    }

    /// Makes and publishes a plan for all samplers, and starts one of them with it. Returns the
    /// plan and its hash.
    fn start_with_plan(&mut self, name: &'static str) -> (String, String) {
        assert!(
            self.generate(&[
                "--net",
                "net.p",
                "--samplers",
                &SAMPLERS.join(","),
                "-o",
                "plan.toml"
            ])
            .status
            .success()
        );
        let plan = self.folder.read("plan.toml");
        let (sha256, _) = self.publish(&plan, "0s");
        self.start(name);
        self.wait_for_plan(name, &sha256);
        (plan, sha256)
    }

    /// Writes a plan and publishes it. Returns its hash and the number of its first slot.
    #[track_caller]
    fn publish(&self, text: &str, lead: &str) -> (String, u64) {
        fs::write(self.folder.path("new.toml"), text).unwrap();
        let run = self.generate(&[
            "publish",
            "new.toml",
            "--to",
            &self.url,
            "--in",
            lead,
            "-c",
            "publish.toml",
        ]);
        let note = String::from_utf8(run.stderr).unwrap();
        assert!(
            run.status.success()
                && note.starts_with(&format!("published {}/ibnet/plan revision ", self.url)),
            "{note}"
        );
        let at = note.trim_end().rsplit(' ').next().unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let cap = lines
            .iter()
            .position(|line| line.starts_with("cap = "))
            .unwrap();
        lines.insert(cap + 1, format!("at = \"{at}\""));
        let timed = lines.join("\n") + "\n";
        let ns = Assignments::parse(&timed, "x").unwrap().at.unwrap();
        assert_eq!(ns % 1_000_000_000, 0);
        (sha256_hex(timed.as_bytes()), ns / INTERVAL)
    }

    fn command(&self, name: &str) -> Command {
        let config = format!(
            "simulate = \"net.p\"\nassignments = \"{}\"\nsampler = \"{name}\"\ninterval = \"200ms\"\noutput = \"{name}.jsonl\"\ndrain = \"10m\"\n{}",
            self.url, self.access
        );
        fs::write(self.folder.path(&format!("{name}.toml")), config).unwrap();
        let state = self.folder.path(&format!("{name}.state"));
        fs::create_dir_all(&state).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
        command
            .current_dir(self.folder.folder())
            .env("STATE_DIRECTORY", state);
        command
    }

    fn start(&mut self, name: &'static str) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path(&format!("{name}.log")))
            .unwrap();
        let child = self
            .command(name)
            .args(["-c", &format!("{name}.toml")])
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.running.push((name, child));
    }

    fn stop(&mut self, name: &str) {
        let at = self
            .running
            .iter()
            .position(|(other, _)| *other == name)
            .unwrap();
        let (_, mut child) = self.running.remove(at);
        signal(&child, "TERM");
        assert_eq!(child.wait().unwrap().code(), Some(0), "{}", self.log(name));
    }

    fn log(&self, name: &str) -> String {
        self.folder.read_now(&format!("{name}.log"))
    }

    /// Returns the records of these types. Most records are of ports, and the tests read the file
    /// often.
    fn lines(&self, name: &str, types: &[&str]) -> Vec<Line> {
        let text = self.folder.read_now(&format!("{name}.jsonl"));
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let has_type = |line: &&str| {
            types
                .iter()
                .any(|kind| line.starts_with(&format!("{{\"type\":\"{kind}\"")))
        };
        whole.lines().filter(has_type).map(record).collect()
    }

    /// Returns the slots of a sampler by plan.
    fn spans(&self, name: &str) -> Vec<Span> {
        let (mut spans, mut plan): (Vec<Span>, String) = (Vec::new(), String::new());
        for line in self.lines(name, &["start", "sweep"]) {
            match line {
                Line::Start(start) => plan = start.assignments_sha256.unwrap(),
                Line::Sweep(sweep) => match spans.last_mut().filter(|span| span.sha256 == plan) {
                    Some(span) => span.last = sweep.slot,
                    None => spans.push(Span {
                        sha256: plan.clone(),
                        first: sweep.slot,
                        last: sweep.slot,
                        missed: sweep.slots_missed,
                    }),
                },
                _ => {}
            }
        }
        spans
    }

    /// Waits until a sampler has swept three more slots than before.
    #[track_caller]
    fn wait_for_slots(&self, name: &str) {
        let before = self.spans(name).last().unwrap().last;
        wait_for(&format!("slots of {name}"), || {
            self.spans(name).last().unwrap().last > before + 2
        });
    }

    /// Waits until a sampler has swept three slots of this plan.
    #[track_caller]
    fn wait_for_plan(&self, name: &str, sha256: &str) {
        wait_for(&format!("{name} with the plan {sha256}"), || {
            self.spans(name)
                .last()
                .is_some_and(|span| span.sha256 == *sha256 && span.last >= span.first + 2)
        });
    }

    fn details(&self, name: &str) -> Vec<String> {
        let reload = |line| match line {
            Line::Event(event) if event.event == "reload" => Some(event.detail),
            _ => None,
        };
        self.lines(name, &["event"])
            .into_iter()
            .filter_map(reload)
            .collect()
    }
}

/// Returns the number of the slot of this moment.
#[expect(
    clippy::disallowed_methods,
    reason = "a plan has a time of the wall clock"
)]
fn slot_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64
        / INTERVAL
}

/// Returns a plan in which each sampler has the ports that the sampler before it had.
fn rotated(plan: &str) -> String {
    let marked = SAMPLERS.iter().fold(plan.to_owned(), |text, name| {
        text.replace(
            &format!("host = \"{name}\""),
            &format!("host = \"<{name}>\""),
        )
    });
    let next = SAMPLERS.iter().zip(SAMPLERS.iter().cycle().skip(1));
    next.fold(marked, |text, (name, next)| {
        text.replace(&format!("<{name}>"), next)
    })
}

/// A plan moves all ports, and another one moves none. All samplers change in the same slot. A
/// sampler that starts later uses the newest plan at once.
#[test]
fn fleet_changes_to_a_published_plan_in_the_same_slot() {
    let Some(program) = available() else { return };
    let folder = Sampler::new("");
    let server = Server::start(program, &folder, "");
    let mut fleet = Fleet::new(&folder, server.port, "");
    server.add_stream(ConnectOptions::new, "nats");
    let made = fleet.generate(&[
        "--net",
        "net.p",
        "--samplers",
        &SAMPLERS.join(","),
        "-o",
        "plan.toml",
        "--publish",
        &fleet.url,
        "--publish-in",
        "0s",
    ]);
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let plan = folder.read("plan.toml");
    assert!(
        !plan.contains("\nat = "),
        "the file is the plan without a time"
    );
    let (first, begin) = fleet.publish(&plan, "0s");
    // The time of a plan is a whole second. Before it, a sampler begins with the older plan.
    wait_for("the time of the plan", || slot_now() >= begin);
    for name in &SAMPLERS[..2] {
        fleet.start(name);
    }
    SAMPLERS[..2]
        .iter()
        .for_each(|name| fleet.wait_for_plan(name, &first));

    let (second, border) = fleet.publish(&rotated(&plan), "10s");
    // This sampler starts before the first slot of the new plan, so it runs the older one until
    // then.
    fleet.start(SAMPLERS[2]);
    SAMPLERS
        .iter()
        .for_each(|name| fleet.wait_for_plan(name, &second));
    let (third, last_border) =
        fleet.publish(&format!("{}# the same ports\n", rotated(&plan)), "10s");
    SAMPLERS
        .iter()
        .for_each(|name| fleet.wait_for_plan(name, &third));
    let mut is_any_late = false;
    for name in SAMPLERS {
        let (spans, details) = (fleet.spans(name), fleet.details(name));
        let plans: Vec<_> = spans.iter().map(|span| span.sha256.as_str()).collect();
        // On a busy machine, the third sampler can start after the time of the second plan.
        let is_after = name == SAMPLERS[2] && spans[0].first >= border;
        assert_eq!(
            plans,
            [&first, &second, &third][usize::from(is_after)..],
            "{name}: {}",
            fleet.log(name)
        );
        let borders = [border, last_border]
            .into_iter()
            .skip(usize::from(is_after));
        for ((pair, border), detail) in spans.windows(2).zip(borders).zip(&details) {
            // A sampler that was not ready in time reports this.
            let is_late = detail.contains(" s after the time of its first slot");
            is_any_late |= is_late;
            assert!(is_late || detail.contains("; first slot at "), "{detail}");
            assert!(
                is_late || pair[0].last < border && pair[1].first >= border,
                "{name}: {pair:?}, first slot {border}"
            );
            assert_eq!(
                pair[1].first - pair[0].last - 1,
                pair[1].missed,
                "{name}: each slot ran or is reported as missed"
            );
        }
        assert_eq!(details.len(), spans.len() - 1, "{details:?}");
    }
    // The last slot of the old plan and the first one of the new plan have each port once.
    for slot in [border - 1, border] {
        let is_of_slot = |line: &Line| matches!(line, Line::Port(port) if port.slot == slot);
        let ports: Vec<_> = SAMPLERS
            .iter()
            .flat_map(|name| fleet.lines(name, &["port"]))
            .filter(is_of_slot)
            .collect();
        let is_missed = SAMPLERS.iter().any(|name| {
            fleet
                .lines(name, &["port"])
                .iter()
                .all(|line| !is_of_slot(line))
        });
        assert!(
            ports.len() == 20 || is_missed || is_any_late,
            "{} ports in slot {slot}",
            ports.len()
        );
    }
    for name in SAMPLERS {
        fleet.stop(name);
    }
    // A sampler that starts later.
    fs::remove_file(folder.path(&format!("{}.jsonl", SAMPLERS[0]))).unwrap();
    fleet.start(SAMPLERS[0]);
    fleet.wait_for_plan(SAMPLERS[0], &third);
    fleet.stop(SAMPLERS[0]);
    assert_eq!(fleet.spans(SAMPLERS[0]).len(), 1);
}

/// An invalid plan is refused. Without the server, the sweep goes on, and a restart uses the copy.
/// When the server is back, the newest plan is used.
#[test]
fn last_plan_stays_in_use_without_a_valid_plan_or_a_server() {
    let Some(program) = available() else { return };
    let folder = Sampler::new("");
    let mut server = Server::start(program, &folder, "");
    let mut fleet = Fleet::new(&folder, server.port, "");
    server.add_stream(ConnectOptions::new, "nats");
    let name = SAMPLERS[0];
    let (plan, first) = fleet.start_with_plan(name);

    server.put("ibnet", "plan", b"version = 1\ncap = \"many\"\n");
    wait_for("a refused plan", || fleet.details(name).len() == 1);
    let refused = fleet.details(name).remove(0);
    assert!(
        refused.starts_with("refused, nothing has changed: cannot read ")
            && refused.contains("/ibnet/plan revision 2:2: "),
        "{refused}"
    );
    fleet.stop(name);
    // The newest valid plan of the history. The faulty one is refused again.
    fleet.start(name);
    wait_for("a refused plan", || fleet.details(name).len() == 2);

    server.kill();
    wait_for("a warning", || {
        fleet
            .log(name)
            .contains("cannot receive newer plans; the last one stays in use")
    });
    fleet.wait_for_slots(name);
    fleet.stop(name);
    fleet.start(name);
    wait_for("a start with the copy", || {
        fleet
            .log(name)
            .contains("the local copy of the plan is used")
    });
    fleet.wait_for_slots(name);
    assert!(fleet.spans(name).iter().all(|span| span.sha256 == first));
    let check = fleet
        .command(name)
        .args(["check", "-c", &format!("{name}.toml")])
        .output()
        .unwrap();
    let text = String::from_utf8(check.stdout).unwrap();
    assert!(
        text.contains("plan server") && text.contains("cannot connect to the NATS server"),
        "{text}"
    );

    server.start_again();
    server.add_stream(ConnectOptions::new, "nats");
    let (second, _) = fleet.publish(&rotated(&plan), "0s");
    fleet.wait_for_plan(name, &second);
    wait_for("a message", || {
        fleet.log(name).contains("plans can be received again")
    });
    let check = fleet
        .command(name)
        .args(["check", "-c", &format!("{name}.toml")])
        .output()
        .unwrap();
    let text = String::from_utf8(check.stdout).unwrap();
    assert!(
        text.contains(&format!("{}/ibnet/plan revision 3: ", fleet.url)),
        "{text}"
    );
    fleet.stop(name);
    assert_eq!(
        sha256_hex(&fs::read(folder.path(&format!("{name}.state/plan.toml"))).unwrap()),
        second
    );
    let status = fleet
        .command(name)
        .args([
            "status",
            "--from",
            &fleet.url,
            "-c",
            &format!("{name}.toml"),
            "--json",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(status.stdout).unwrap();
    assert!(
        status.status.code() == Some(3)
            && text.contains(&format!("\"plan\":\"{}/ibnet/plan revision 3\"", fleet.url)),
        "{text}"
    );
    assert!(SAMPLERS.iter().all(|name| text.contains(name)), "{text}");
}

/// The watch of the plan goes on behind values that cannot be decompressed.
#[test]
fn each_damaged_plan_is_reported_and_the_next_plan_is_taken() {
    let Some(program) = available() else { return };
    let folder = Sampler::new("");
    let server = Server::start(program, &folder, "");
    let mut fleet = Fleet::new(&folder, server.port, "");
    server.add_stream(ConnectOptions::new, "nats");
    let name = SAMPLERS[0];
    let (plan, _) = fleet.start_with_plan(name);
    for revision in [2, 3] {
        // The start of a zstd frame.
        server.put("ibnet", "plan", b"\x28\xb5\x2f\xfd\xff");
        let reported = format!("/ibnet/plan revision {revision}: the value is damaged or too long");
        wait_for("a report", || fleet.log(name).contains(&reported));
    }
    let (second, _) = fleet.publish(&rotated(&plan), "0s");
    fleet.wait_for_plan(name, &second);
    fleet.stop(name);
}

/// The newest values are damaged, and there is no copy: a start uses the newest valid plan.
#[test]
fn start_reports_damaged_plans_and_uses_the_newest_valid_one() {
    let Some(program) = available() else { return };
    let folder = Sampler::new("");
    let server = Server::start(program, &folder, "");
    let mut fleet = Fleet::new(&folder, server.port, "");
    server.add_stream(ConnectOptions::new, "nats");
    let [first, second] = [SAMPLERS[0], SAMPLERS[1]];
    let (plan, _) = fleet.start_with_plan(first);
    let (valid, _) = fleet.publish(&rotated(&plan), "0s");
    fleet.wait_for_plan(first, &valid);
    for _ in 3..=4 {
        // The start of a zstd frame.
        server.put("ibnet", "plan", b"\x28\xb5\x2f\xfd\xff");
    }
    fleet.start(second);
    fleet.wait_for_plan(second, &valid);
    for revision in [3, 4] {
        let reported = format!("/ibnet/plan revision {revision}: the value is damaged or too long");
        wait_for("a report", || fleet.log(second).contains(&reported));
    }
    let (next, _) = fleet.publish(&plan, "0s");
    for name in [first, second] {
        fleet.wait_for_plan(name, &next);
        fleet.stop(name);
    }
}

#[test]
fn wrong_password_is_an_error_with_a_remedy() {
    let Some(program) = available() else { return };
    let folder = Sampler::new("");
    let server = Server::start(
        program,
        &folder,
        "authorization { user: ibnet, password: secret }",
    );
    let access = "[plan_server]\nuser = \"ibnet\"\npassword_file = \"password\"\n";
    let mut fleet = Fleet::new(&folder, server.port, access);
    let password = |text: &str| {
        fs::write(folder.path("password"), text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(folder.path("password"), mode).unwrap();
    };
    let connect =
        || ConnectOptions::new().user_and_password("ibnet".to_owned(), "secret".to_owned());
    server.add_stream(connect, "nats");
    password("secret");
    assert!(
        fleet
            .generate(&[
                "--net",
                "net.p",
                "--samplers",
                &SAMPLERS.join(","),
                "-o",
                "plan.toml"
            ])
            .status
            .success()
    );
    let name = SAMPLERS[0];
    let fail = |fleet: &Fleet<'_>, expected: &[&str]| {
        let run = fleet
            .command(name)
            .args(["-c", &format!("{name}.toml")])
            .output()
            .unwrap();
        let text = String::from_utf8(run.stderr).unwrap();
        assert!(
            run.status.code() == Some(1) && expected.iter().all(|word| text.contains(word)),
            "{text}"
        );
    };
    fail(
        &fleet,
        &["cannot read the plan nats://127.0.0.1", "ibnet-gen publish"],
    );
    let (sha256, _) = fleet.publish(&folder.read("plan.toml"), "0s");
    password("wrong");
    fail(
        &fleet,
        &[
            "cannot connect to the NATS server nats://127.0.0.1",
            "authorization violation",
            "[plan_server]",
        ],
    );
    let run = fleet.generate(&[
        "publish",
        "plan.toml",
        "--to",
        &fleet.url,
        "-c",
        "publish.toml",
    ]);
    let text = String::from_utf8(run.stderr).unwrap();
    assert!(
        run.status.code() == Some(1) && text.contains("authorization violation"),
        "{text}"
    );
    password("secret");
    fleet.start(name);
    fleet.wait_for_plan(name, &sha256);
    fleet.stop(name);
    // With a copy, a wrong password is only a warning.
    password("wrong");
    fleet.start(name);
    wait_for("a start with the copy", || {
        fleet
            .log(name)
            .contains("the local copy of the plan is used")
    });
    fleet.wait_for_slots(name);
    fleet.wait_for_plan(name, &sha256);
    fleet.stop(name);
    let run = fleet.generate(&[
        "publish",
        "plan.toml",
        "--to",
        "nats://ibnet:secret@127.0.0.1",
        "-c",
        "publish.toml",
    ]);
    let text = String::from_utf8(run.stderr).unwrap();
    assert!(
        run.status.code() == Some(2)
            && text.contains("expected nats://HOST:4222/BUCKET/KEY")
            && !text.contains("secret"),
        "{text}"
    );
}
