//! Tests who may read the metrics: password, TLS, networks of plain HTTP, and faulty settings.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use ibnet::metrics::{Content, Server, Settings};

use super::metrics::{TREE, ask, get, serve, serve_networks, status};
use crate::HANGS;

const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");

#[test]
fn wrong_password_gets_no_metrics() {
    let (address, folder) = serve(None, Some("sixteen-letters!\n"));
    for wrong in [
        "",
        "Authorization: Bearer sixteen-letters?\r\n",
        "Authorization: Basic aWJuZXQ6\r\n",
        "Authorization: Bearer\r\n",
    ] {
        for path in ["/metrics", "/healthz", "/", "/nothing"] {
            let answer = get(address, path, wrong);
            assert!(
                status(&answer) == "401" && !answer.contains("ibnet_build_info"),
                "{answer}"
            );
        }
    }
    // ibnet:sixteen-letters!
    for right in [
        "Bearer sixteen-letters!",
        "Basic aWJuZXQ6c2l4dGVlbi1sZXR0ZXJzIQ==",
    ] {
        assert_eq!(
            status(&get(
                address,
                "/metrics",
                &format!("Authorization: {right}\r\n")
            )),
            "200"
        );
    }
    fs::write(folder.path().join("password"), "another-one-of-ours").unwrap();
    assert_eq!(
        status(&get(
            address,
            "/metrics",
            "Authorization: Bearer sixteen-letters!\r\n"
        )),
        "401",
        "the password has changed"
    );
    assert_eq!(
        status(&get(
            address,
            "/metrics",
            "Authorization: Bearer another-one-of-ours\r\n"
        )),
        "200"
    );
}

#[test]
fn plain_http_accepts_host_names_and_keeps_the_password() {
    // The name of the sampler host is in the requests of Prometheus.
    let named = |address: SocketAddr, headers: &str| {
        let answer = ask(
            address,
            format!("GET /metrics HTTP/1.1\r\nHost: node001.cluster.example:9315\r\n{headers}\r\n"),
        );
        status(&answer).to_owned()
    };
    let (address, _folder) = serve_networks(None, None, &["10.1.0.0/16"]);
    assert_eq!(named(address, ""), "200");
    let (address, _folder) = serve_networks(None, Some("sixteen-letters!"), &["10.1.0.0/16"]);
    assert_eq!(named(address, ""), "401");
    assert_eq!(
        named(address, "Authorization: Bearer sixteen-letters!\r\n"),
        "200"
    );
}

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn plain_http_is_a_warning_and_rejects_clients_of_other_networks() {
    // An address of this host that is not a loopback address. Without a network there is none.
    let own = std::net::UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket
            .connect("192.0.2.1:9")
            .and_then(|()| socket.local_addr())
    });
    let Ok(own) = own.map(|address| address.ip()).inspect_err(|_| {
        let _ =
            std::io::stderr().write_all(b"SKIPPED: this host has no network; plain_http is not tested with a client of another network\n");
    }) else {
        return;
    };
    let sweep = |network: &str| {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
        let config = format!(
            "simulate = \"net.p\"\noutput = \"lines\"\n[metrics]\nlisten = \"{own}:0\"\nplain_http = \"{network}\"\n"
        );
        fs::write(dir.path().join("ibnet.toml"), config).unwrap();
        let mut command = std::process::Command::new(SWEEP);
        let mut process = Ended(
            command
                .current_dir(dir.path())
                .args(["-c", "ibnet.toml"])
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let mut log = BufReader::new(process.0.stderr.take().unwrap()).lines();
        let mut seen = String::new();
        // Reads the log until a line has the text.
        let mut until = |text: &str| {
            while !seen.lines().any(|line| line.contains(text)) {
                seen += &(log.next().expect(text).unwrap() + "\n");
            }
            seen.lines()
                .find(|line| line.contains(text))
                .unwrap()
                .to_owned()
        };
        let url = until("serving metrics");
        let address: SocketAddr = url
            .split("http://")
            .nth(1)
            .unwrap()
            .split('/')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let warning = until("metrics are not encrypted");
        assert!(
            warning.contains("WARN")
                && warning.contains(network)
                && warning.contains("password=false"),
            "{warning}"
        );
        let answer = get(address, "/metrics", "");
        let rejected = answer.is_empty().then(|| until("rejected a client"));
        (answer, rejected)
    };
    let (answer, _) = sweep(&format!("{own}/{}", if own.is_ipv4() { 32 } else { 128 }));
    assert!(
        status(&answer) == "200" && answer.contains("ibnet_build_info"),
        "{answer}"
    );
    // A network of documentation: no host is in it.
    let (answer, rejected) = sweep("198.51.100.0/24");
    assert_eq!(answer, "");
    assert!(
        rejected.is_some_and(|line| line.contains(&own.to_string())),
        "the log has the address of the client"
    );
}

#[test]
fn tls_endpoint_does_not_answer_plain_http() {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let (address, _folder) = serve(Some((&cert, &key)), Some("sixteen-letters!"));
    let answer = get(
        address,
        "/metrics",
        "Authorization: Bearer sixteen-letters!\r\n",
    );
    assert!(
        !answer.contains("HTTP/") && !answer.contains("ibnet"),
        "{answer:?}"
    );
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()])
        .unwrap()
        .signing_key
        .serialize_pem();
    for (cert, key, found) in [
        ("", key.as_str(), "contains no certificate"),
        (&cert, "", "no items found"),
        (&cert, "x", "no items found"),
        (&cert, &other, "key"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        let tls = Some((path("cert", cert), path("key", key)));
        let refused = Server::bind(&Settings {
            prefix: "metrics.",
            listen: address,
            tls,
            password_file: None,
            plain_http: Vec::new(),
            content: Content::default(),
        })
        .err()
        .expect("refused")
        .to_string();
        assert!(refused.contains(found), "{refused}");
    }
}

/// Runs ibnet-sweep with a `[metrics]` table that it must reject. Returns its error message.
#[track_caller]
fn refused(metrics: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
    fs::write(dir.path().join("weak"), "sixteen-letters!").unwrap();
    fs::set_permissions(dir.path().join("weak"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(
        dir.path().join("ibnet.toml"),
        format!("simulate = \"net.p\"\n[metrics]\n{metrics}\n"),
    )
    .unwrap();
    let args = ["-c", "ibnet.toml", "--sweeps", "1"];
    let output = assert_cmd::Command::new(SWEEP)
        .current_dir(dir.path())
        .args(args)
        .timeout(HANGS)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(1), 0),
        "{stderr}"
    );
    assert!(
        stderr.contains("error: ") && stderr.contains("\nhelp: ") && !stderr.contains("panicked"),
        "{stderr}"
    );
    stderr
}

#[test]
fn reachable_address_without_tls_and_password_is_rejected() {
    let message = refused("listen = \"0.0.0.0:0\"");
    assert!(
        message.contains("metrics.tls_cert, metrics.tls_key, metrics.password_file"),
        "{message}"
    );
    assert!(
        refused("listen = \"[::]:0\"\npassword_file = \"weak\"")
            .contains("not set: metrics.tls_cert, metrics.tls_key")
    );
    assert!(
        refused("listen = \"127.0.0.1:0\"\npassword_file = \"weak\"").contains("(found mode 0644)")
    );
    assert!(
        refused("listen = \"127.0.0.1:0\"\npassword_file = \"gone\"").contains("cannot read gone")
    );
    assert!(
        refused("listen = \"here\"").contains("expected an address and a port (found \"here\")")
    );
    assert!(refused("password_file = \"weak\"").contains("metrics.listen is not set"));
    let faulty = refused("listen = \"0.0.0.0:0\"\nplain_http = \"10.1.2.3/16\"");
    assert!(faulty.contains("ibnet.toml:4: cannot use metrics.plain_http: expected zeros behind the prefix: 10.1.0.0/16"), "{faulty}");
    let message = refused("listen = \"127.0.0.1:0\"\nfamilies = [\"ibnet_*\", \"!ibnet_lots\"]");
    assert!(
        message.contains("ibnet.toml:4: cannot use metrics.families")
            && message.contains("(found \"!ibnet_lots\")"),
        "{message}"
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(
        refused(&format!("listen = \"{}\"", taken.local_addr().unwrap()))
            .contains("cannot listen on")
    );
}
