//! Messages of a NATS server with the records of a slot.

use std::collections::BTreeMap;

use async_nats::ConnectOptions;

use super::server::{Server, available, complete, file_and_server, same, slots};
use crate::sampler::{Received, Sampler, wait_for};

/// Removes the messages of a fabric and returns them.
fn of_fabric(
    messages: &mut BTreeMap<String, Vec<String>>,
    fabric: &str,
) -> BTreeMap<String, Vec<String>> {
    let subject = format!("ibnet.{fabric}.node00001.batch");
    messages.remove_entry(&subject).into_iter().collect()
}

/// Two outputs send batches to one server, one of them compressed. The server is killed and started
/// again. Both have every record once, and a message has whole lines of one slot.
#[test]
fn batches_have_every_record_once() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let mut server = Server::start(program, &sampler, "");
    server.add_stream(ConnectOptions::new, "nats");
    let output = |fabric: &str, compress: bool| {
        format!(
            "[[output]]
            type = \"nats\"
            server = \"127.0.0.1:{}\"
            fabric = \"{fabric}\"
            batch = \"slot\"
            compress = {compress}
            ",
            server.port
        )
    };
    sampler.configure(&format!(
        "interval = \"20ms\"
        [[output]]
        type = \"file\"
        path = \"lines\"
        {}{}",
        output("plain", false),
        output("packed", true)
    ));
    let running = sampler.start();
    let more_messages = |server: &Server<'_>| {
        let before = server.count();
        wait_for("messages", || server.count() > before + 40);
    };
    more_messages(&server);
    server.kill();
    let before = slots(&sampler);
    wait_for("slots", || slots(&sampler) > before + 20);
    server.start_again();
    more_messages(&server);
    wait_for("slots", || slots(&sampler) > 60);
    complete(&running.stop("TERM"));
    let file = Received::of(&sampler.read("lines"));
    let mut messages = server.messages(ConnectOptions::new, "nats");
    for fabric in ["plain", "packed"] {
        let of_fabric = of_fabric(&mut messages, fabric);
        let texts: Vec<_> = of_fabric.values().flatten().cloned().collect();
        let sweeps = |text: &str| text.matches("{\"type\":\"sweep\"").count();
        assert!(
            texts.len() > 40 && texts.iter().all(|text| sweeps(text) <= 1),
            "a message has one slot at most"
        );
        assert!(
            texts
                .iter()
                .filter(|text| text.lines().count() > 20)
                .count()
                > 20,
            "a slot is one message"
        );
        assert_eq!(same(of_fabric, &file, 0).lost, 0);
    }
    assert!(messages.is_empty(), "{:?}", messages.keys());
}

/// A server with a small `max_payload` gets more and smaller messages.
#[test]
fn batch_is_as_small_as_the_server_requires() {
    let Some(program) = available() else { return };
    let sampler = Sampler::new("");
    let mut server = Server::start(program, &sampler, "max_payload: 8192");
    server.add_stream(ConnectOptions::new, "nats");
    // The first records wait before the server reports its limit.
    server.kill();
    sampler.configure(&file_and_server("50ms", server.port, "batch = \"slot\""));
    let running = sampler.start();
    wait_for("slots", || slots(&sampler) > 3);
    server.start_again();
    complete(&running.stop("TERM"));
    let messages = server.messages(ConnectOptions::new, "nats");
    let longest = messages.values().flatten().map(String::len).max();
    assert!(
        longest.is_some_and(|octets| (4096..8192).contains(&octets)),
        "{longest:?}"
    );
    assert_eq!(
        same(messages, &Received::of(&sampler.read("lines")), 0).lost,
        0
    );
}
