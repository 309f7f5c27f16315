//! `ibnet-sweep status` and `ibnet-sweep collect` with a real NATS server.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream::consumer::pull::Config as ConsumerConfig;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::stream::Config as StreamConfig;
use serde_json::Value;

use super::server::{Server, available, complete, file_and_server, slots};
use crate::sampler::{Received, Sampler, wait_for};

fn ibnet(sampler: &Sampler, server: &Server<'_>, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
    command
        .current_dir(sampler.folder())
        .arg(args[0])
        .args(["--from", &format!("nats://127.0.0.1:{}", server.port)])
        .args(&args[1..]);
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a test with a server that has a stream, without and with batches.
fn with_stream(test: impl Fn(&Sampler, &Server<'_>, &str)) {
    let Some(program) = available() else { return };
    for batch in ["", "batch = \"slot\"\ncompress = true"] {
        let sampler = Sampler::new("");
        let server = Server::start(program.clone(), &sampler, "");
        server.add_stream(ConnectOptions::new, "nats");
        test(&sampler, &server, batch);
    }
}

#[test]
fn status_is_the_last_slot_of_each_sampler() {
    with_stream(|sampler, server, batch| {
        let status = |args: &[&str]| {
            ibnet(sampler, server, &[&["status"], args].concat())
                .output()
                .unwrap()
        };
        let empty = status(&[]);
        assert!(
            empty.status.code() == Some(3) && text(&empty).starts_with("no sampler"),
            "{}",
            text(&empty)
        );
        // With long timeouts, a busy machine has complete slots too.
        let outputs = file_and_server("500ms", server.port, batch);
        sampler.configure(&format!("timeout = \"500ms\"\ngrace = \"2s\"\n{outputs}"));
        let running = sampler.start();
        wait_for("a sampler that is ok", || {
            let found = status(&[]);
            found.status.code() == Some(0) && text(&found).contains("1 sampler, 20 ports: 1 ok")
        });
        running.stop("TERM");
        fs::write(
            sampler.path("plan.toml"),
            "version = 1\ncap = 150\n[[sampler]]\nhost = \"node00001\"\nport_count = 0\n[[sampler]]\nhost = \"node00009\"\nport_count = 0\n",
        )
        .unwrap();
        wait_for("a silent sampler", || {
            let found = status(&["--assignments", "plan.toml", "--json"]);
            assert_eq!(found.status.code(), Some(3), "{}", text(&found));
            let document: Value = serde_json::from_slice(&found.stdout).unwrap();
            let states: Vec<_> = (0..2)
                .map(|row| {
                    (
                        document["rows"][row]["sampler"].clone(),
                        document["rows"][row]["state"].clone(),
                    )
                })
                .collect();
            states
                == [
                    ("node00001".into(), "silent".into()),
                    ("node00009".into(), "never_heard".into()),
                ]
        });
    });
}

/// Two samplers are the second sampler of each other's ports, and one of them is killed. Both of
/// its roles have one subject.
#[test]
fn status_names_a_killed_sampler_with_both_of_its_roles() {
    with_stream(|sampler, server, batch| {
        let status = |args: &[&str]| {
            ibnet(sampler, server, &[&["status"], args].concat())
                .output()
                .unwrap()
        };
        let planned = Command::new(env!("CARGO_BIN_EXE_ibnet-gen"))
            .current_dir(sampler.folder())
            .args([
                "--net",
                "net.p",
                "--samplers",
                "node00001,node00004",
                "--redundancy",
                "2",
                "-o",
                "plan.toml",
            ])
            .output()
            .unwrap();
        assert!(planned.status.success(), "{}", text(&planned));
        // With long timeouts, a busy machine has complete slots too.
        let server_only = format!(
            "[[output]]\ntype = \"nats\"\nserver = \"nats://127.0.0.1:{}\"\n{batch}",
            server.port
        );
        sampler
            .configure(&format!("assignments = \"plan.toml\"\ninterval = \"500ms\"\ntimeout = \"500ms\"\ngrace = \"2s\"\n{server_only}"));
        let running = sampler.start_as("node00004");
        let killed = sampler.start();
        wait_for("both samplers in both roles", || {
            let found = status(&[]);
            found.status.code() == Some(0)
                && text(&found).contains("2 samplers in 4 rows, 20 ports: 4 ok")
        });
        killed.signal("KILL");
        // Without the plan, a role that was more than two intervals behind is not named. With it,
        // both are.
        for (args, least) in [
            (&["--json"][..], 1),
            (&["--json", "--assignments", "plan.toml"], 2),
        ] {
            wait_for("a silent sampler", || {
                let document: Value = serde_json::from_slice(&status(args).stdout).unwrap();
                let rows: Vec<_> = document["rows"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|row| row["sampler"] == "node00001")
                    .collect();
                let roles: BTreeSet<_> =
                    rows.iter().filter_map(|row| row["role"].as_str()).collect();
                assert!(
                    roles.is_subset(&BTreeSet::from(["primary", "secondary"])),
                    "{document}"
                );
                roles.len() >= least && rows.iter().all(|row| row["state"] == "silent")
            });
        }
        running.stop("TERM");
    });
}

/// The server does not run for longer than a request usually takes, as on a machine where many
/// samplers publish their spools at once.
#[test]
fn status_waits_for_a_loaded_server() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let server = Server::start(program, &sampler, "");
    server.add_stream(ConnectOptions::new, "nats");
    sampler.configure(&file_and_server("200ms", server.port, "batch = \"slot\""));
    let running = sampler.start();
    wait_for("messages", || server.count() > 3);
    running.stop("TERM");
    server.signal("STOP");
    let child = ibnet(&sampler, &server, &["status"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(7));
    server.signal("CONT");
    let found = child.wait_with_output().unwrap();
    assert!(
        found.status.code() == Some(3) && text(&found).contains("1 sampler, 20 ports: 1 silent"),
        "{}",
        text(&found)
    );
}

#[test]
fn status_without_a_source_has_a_remedy() {
    let sampler = Sampler::new("output = \"lines\"");
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"))
            .current_dir(sampler.folder())
            .arg("status")
            .args(args)
            .output()
            .unwrap()
    };
    for (args, expected) in [
        (&["-c", "ibnet.toml"][..], "no source is given"),
        (
            &["--from", "ftp://host"],
            "expected nats://, tls:// or http://",
        ),
        (
            &["--from", "http://127.0.0.1:1"],
            "check that ibnet-hub runs there",
        ),
        (
            &["--from", "nats://127.0.0.1:1"],
            "cannot connect to the NATS server",
        ),
    ] {
        let found = run(args);
        assert!(
            found.status.code() == Some(1) && text(&found).contains(expected),
            "{args:?}: {}",
            text(&found)
        );
    }
}

/// The collector is killed twice. Its files have every record of the stream.
#[test]
fn collected_files_have_every_record() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let server = Server::start(program, &sampler, "");
    server.add_stream(ConnectOptions::new, "nats");
    sampler.configure(&file_and_server(
        "20ms",
        server.port,
        "batch = \"slot\"\ncompress = true",
    ));
    let running = sampler.start();
    let collect = |args: &[&str]| {
        ibnet(
            &sampler,
            &server,
            &[&["collect", "-o", "collected", "--every", "1s"], args].concat(),
        )
    };
    for _ in 0..2 {
        let mut child = collect(&[]).stderr(Stdio::null()).spawn().unwrap();
        let before = fs::read_dir(sampler.path("collected")).map_or(0, Iterator::count);
        wait_for("files", || {
            fs::read_dir(sampler.path("collected")).map_or(0, Iterator::count) > before + 2
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let before = slots(&sampler);
    wait_for("slots", || slots(&sampler) > before + 10);
    complete(&running.stop("TERM"));
    // What the killed collector received and did not acknowledge is delivered again after a minute.
    let output = collect(&["--until-empty"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let mut lines = BTreeSet::new();
    for entry in fs::read_dir(sampler.path("collected")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "zst") {
            let text = zstd::stream::decode_all(&fs::read(path).unwrap()[..]).unwrap();
            lines.extend(String::from_utf8(text).unwrap().lines().map(str::to_owned));
        }
    }
    let (text, file) = (
        lines.into_iter().collect::<Vec<_>>().join("\n"),
        Received::of(&sampler.read("lines")),
    );
    let collected = Received::of(&text);
    assert_eq!(collected.starts.len(), 1);
    assert!(
        collected.lines == file.lines,
        "{} of {}",
        collected.lines.len(),
        file.lines.len()
    );
}

/// A user deletes the consumer while the collector runs. The files have every record all the same.
#[test]
fn deleted_consumer_is_created_again() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let server = Server::start(program, &sampler, "");
    server.add_stream(ConnectOptions::new, "nats");
    sampler.configure(&file_and_server("50ms", server.port, "batch = \"slot\""));
    let running = sampler.start();
    let mut collector = ibnet(
        &sampler,
        &server,
        &["collect", "-o", "collected", "--every", "1s"],
    )
    .stderr(fs::File::create(sampler.path("log")).unwrap())
    .spawn()
    .unwrap();
    let collected = || {
        let files = fs::read_dir(sampler.path("collected"))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path());
        let files =
            files.filter(|path| path.extension().is_some_and(|extension| extension == "zst"));
        let text: Vec<u8> = files
            .flat_map(|path| zstd::stream::decode_all(&fs::read(path).unwrap()[..]).unwrap())
            .collect();
        Received::of(
            &String::from_utf8(text)
                .unwrap()
                .lines()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join("\n"),
        )
    };
    wait_for("collected records", || !collected().lines.is_empty());
    server.delete_consumer("ibnet-collect");
    let before = slots(&sampler);
    wait_for("slots", || slots(&sampler) > before + 10);
    complete(&running.stop("TERM"));
    let file = Received::of(&sampler.read("lines"));
    wait_for("all records", || collected().lines == file.lines);
    let log = sampler.read("log");
    assert!(
        log.contains("cannot read from the server")
            && log.contains("the server delivers records again"),
        "{log}"
    );
    collector.kill().unwrap();
    collector.wait().unwrap();
}

/// Runs `collect` until the stream is empty. Returns its exit code and its output.
fn collect(sampler: &Sampler, server: &Server<'_>, args: &[&str]) -> (Option<i32>, String) {
    let fixed = ["collect", "-o", "collected", "--until-empty"];
    let output = ibnet(sampler, server, &[&fixed, args].concat())
        .output()
        .unwrap();
    (output.status.code(), text(&output))
}

/// Such a consumer does not deliver all records, or delivers them once only.
#[test]
fn consumer_with_other_settings_is_refused() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let server = Server::start(program, &sampler, "");
    server.add_stream(ConnectOptions::new, "nats");
    let collect = |args: &[&str]| collect(&sampler, &server, args);
    let made = collect(&["--subject", "ibnet.one.>"]);
    assert_eq!(made.0, Some(0), "{}", made.1);
    let refused = |consumer: &str, expected: &str| {
        let (code, text) = collect(&["--consumer", consumer]);
        assert!(
            code == Some(1)
                && text.contains(expected)
                && text.contains(&format!("the consumer {consumer}"))
                && text.contains("--consumer"),
            "{text}"
        );
    };
    refused(
        "ibnet-collect",
        r#"its filter_subject must be "ibnet.>" (found "ibnet.one.>")"#,
    );
    let usual = || ConsumerConfig {
        durable_name: Some("theirs".to_owned()),
        filter_subject: "ibnet.>".to_owned(),
        ack_policy: AckPolicy::Explicit,
        ..ConsumerConfig::default()
    };
    for (config, expected) in [
        (
            ConsumerConfig {
                deliver_policy: DeliverPolicy::New,
                ..usual()
            },
            r#"its deliver_policy must be "all" (found "new")"#,
        ),
        (
            ConsumerConfig {
                filter_subject: String::new(),
                ..usual()
            },
            r#"its filter_subject must be "ibnet.>" (found none)"#,
        ),
        (
            ConsumerConfig {
                max_deliver: 1,
                ..usual()
            },
            "its max_deliver must be -1 (found 1)",
        ),
    ] {
        server.query(ConnectOptions::new, "nats", async |jetstream| {
            let created = jetstream.create_consumer_on_stream(config.clone(), "IBNET");
            created.await.unwrap();
        });
        refused("theirs", expected);
        server.delete_consumer("theirs");
    }
    server.query(ConnectOptions::new, "nats", async |jetstream| {
        let created = jetstream.create_consumer_on_stream(usual(), "IBNET");
        created.await.unwrap();
    });
    for accepted in ["theirs", "another"] {
        let (code, text) = collect(&["--consumer", accepted]);
        assert_eq!(code, Some(0), "{text}");
    }
}

/// A stream for each fabric: no consumer reads both, so the user has to select one.
#[test]
fn subject_of_several_streams_is_refused_with_their_names() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let server = Server::start(program, &sampler, "");
    server.add_stream(ConnectOptions::new, "nats");
    server.remove_stream();
    server.query(ConnectOptions::new, "nats", async |jetstream| {
        for name in ["one", "two"] {
            let config = StreamConfig {
                name: name.to_uppercase(),
                subjects: vec![format!("ibnet.{name}.>")],
                ..StreamConfig::default()
            };
            jetstream.create_stream(config).await.unwrap();
            let subject = format!("ibnet.{name}.node00001.port");
            let published = jetstream.publish(subject, name.into()).await.unwrap();
            published.await.unwrap();
        }
    });
    let expected = "cannot read the subject ibnet.>: several streams have it (found ONE, TWO)";
    let (code, found) = collect(&sampler, &server, &[]);
    assert!(
        code == Some(1) && found.contains(expected) && found.contains("--subject"),
        "{found}"
    );
    let status = ibnet(&sampler, &server, &["status"]).output().unwrap();
    assert!(
        status.status.code() == Some(1) && text(&status).contains(expected),
        "{}",
        text(&status)
    );
    let (code, found) = collect(&sampler, &server, &["--subject", "ibnet.two.>"]);
    assert!(code == Some(0) && found.contains("1 records"), "{found}");
    for wrong in ["ibnet.three.>", "", "ibnet two"] {
        let (code, found) = collect(&sampler, &server, &["--subject", wrong]);
        assert!(
            code == Some(1) && found.contains("cannot read from"),
            "{wrong}: {found}"
        );
    }
}

/// Publishes one message.
fn publish(server: &Server<'_>, text: String) {
    server.query(ConnectOptions::new, "nats", async |jetstream| {
        let payload = text.clone().into();
        let published = jetstream.publish("ibnet.one.node00001.port", payload).await;
        published.unwrap().await.unwrap();
    });
}

/// The disk takes a part of a frame, as a full disk does. The other frames get the name of a
/// complete file, which `ibnet-view pack` reads to its end.
#[test]
fn full_disk_leaves_a_file_of_whole_frames_and_has_a_remedy() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let server = Server::start(program, &sampler, "");
    server.add_stream(ConnectOptions::new, "nats");
    let folder = || {
        fs::read_dir(sampler.path("collected"))
            .into_iter()
            .flatten()
    };
    let files = |extension: &str| {
        let paths = folder().map(|entry| entry.unwrap().path());
        let paths = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
        paths.collect::<Vec<_>>()
    };
    // Blocks of 512 octets. Without the trap, the signal would end the program.
    let command = ibnet(&sampler, &server, &["collect", "-o", "collected"]);
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(sampler.folder())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    publish(&server, "first\n".to_owned());
    wait_for("the first frame", || {
        files("part")
            .first()
            .is_some_and(|path| fs::metadata(path).is_ok_and(|file| file.len() > 0))
    });
    let large = (0..4000_u64).map(|n| format!("{:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    publish(&server, large.collect());
    let output = child.wait_with_output().unwrap();
    let found = text(&output);
    assert!(
        output.status.code() == Some(1)
            && found.contains("1 records")
            && found.contains("cannot write to the folder collected")
            && found.contains("free space"),
        "{found}"
    );
    let [file] = &files("zst")[..] else {
        panic!("one file")
    };
    let text = zstd::stream::decode_all(&fs::read(file).unwrap()[..]);
    assert_eq!(text.unwrap(), b"first\n");
    assert!(files("part").is_empty());
}

/// No sampler sends such a message, but another program with records can.
#[test]
fn message_larger_than_a_batch_is_collected_with_those_around_it() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let server = Server::start(program, &sampler, "max_payload: 8MB");
    server.add_stream(ConnectOptions::new, "nats");
    let large = "x".repeat(5 << 20);
    for text in ["first", &large, &large, "last"] {
        publish(&server, text.to_owned());
    }
    let (code, found) = collect(&sampler, &server, &[]);
    assert!(code == Some(0) && found.contains("4 records"), "{found}");
    let files = fs::read_dir(sampler.path("collected")).unwrap();
    let mut paths = files.map(|entry| entry.unwrap().path());
    let path = paths.find(|path| path.extension().is_some_and(|extension| extension == "zst"));
    let text = zstd::stream::decode_all(&fs::read(path.unwrap()).unwrap()[..]).unwrap();
    let lengths: Vec<_> = text
        .split(|octet| *octet == b'\n')
        .map(<[u8]>::len)
        .collect();
    assert_eq!(lengths, [5, 5 << 20, 5 << 20, 4, 0]);
}
