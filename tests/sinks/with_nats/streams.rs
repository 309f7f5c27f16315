//! The stream at the server: missing, found by `ibnet-sweep check`, created.

use std::process::{Command, Output};

use async_nats::ConnectOptions;

use super::server::{Server, available, complete, file_and_server, same};
use crate::sampler::{Received, Sampler, wait_for};

fn check(sampler: &Sampler) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
    let Output { status, stdout, .. } = command
        .current_dir(sampler.folder())
        .args(["check", "-c", "ibnet.toml"])
        .output()
        .unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

/// The server is away at the start, so the first reason is another one.
#[test]
fn missing_stream_is_reported_by_check_and_in_the_log_and_at_the_end() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let mut server = Server::start(program, &sampler, "");
    // A request is answered, so JetStream is ready.
    server.add_stream(ConnectOptions::new, "nats");
    server.remove_stream();
    let reason = "no stream has the subject ibnet.fabric.node00001.start";
    sampler.configure(&format!(
        "drain = \"100ms\"\n{}",
        file_and_server("50ms", server.port, "")
    ));
    let (code, text) = check(&sampler);
    assert!(
        code == Some(1) && text.contains(reason) && text.contains("nats stream add IBNET"),
        "{text}"
    );
    assert!(
        text.contains("lines: does not exist and can be made") && !sampler.path("lines").exists(),
        "{text}"
    );
    server.kill();
    let (code, text) = check(&sampler);
    assert!(
        code == Some(1) && text.contains("cannot connect to the NATS server"),
        "{text}"
    );
    let running = sampler.start();
    running.wait_for_log("cannot publish; records are buffered", 1);
    server.start_again();
    running.wait_for_log(reason, 1);
    let run = running.stop("TERM");
    let last = format!("(last error: {reason}");
    assert!(
        run.code == 4 && run.stderr.contains(&last),
        "{}",
        run.stderr
    );
}

#[test]
fn missing_stream_is_created_if_this_is_configured() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let server = Server::start(program, &sampler, "");
    sampler.configure(&file_and_server("50ms", server.port, "create = true"));
    let running = sampler.start();
    wait_for("messages", || server.count() > 100);
    let run = running.stop("TERM");
    complete(&run);
    assert!(
        run.stderr.contains("created the JetStream stream"),
        "{}",
        run.stderr
    );
    let received = same(
        server.messages(ConnectOptions::new, "nats"),
        &Received::of(&sampler.read("lines")),
        0,
    );
    assert_eq!(received.lost, 0);
    let (code, text) = check(&sampler);
    assert!(
        code == Some(0) && text.contains("the stream IBNET stores the records of node00001"),
        "{text}"
    );
}
