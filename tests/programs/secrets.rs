//! Passwords: no output of the program has them, and no core dump.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use ibnet::topology::synthetic::FatTree;

/// A text that is in no other place than the secrets.
const CANARY: &str = "zq7CANARYxk42pw";

const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

/// Returns a folder with a net file, and with a file `secret` that has the canary.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, format!("{CANARY}-password\n")).unwrap();
    fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).unwrap();
    dir
}

/// Runs `ibnet-sweep` with all log messages. Returns standard output and standard error.
fn run(dir: &Path, config: &str, args: &[&str]) -> String {
    fs::write(dir.join("ibnet.toml"), config).unwrap();
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
    let output = command
        .current_dir(dir)
        .args(["-c", "ibnet.toml"])
        .args(args)
        .env("RUST_LOG", "trace")
        .output()
        .unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn password_in_an_address_is_refused_and_never_shown() {
    let dir = folder();
    let line = |line: &str| format!("simulate = \"net.p\"\n[[output]]\ntype = \"nats\"\n{line}\n");
    for config in [
        line(&format!("server = \"nats://user:{CANARY}@127.0.0.1\"")),
        line(&format!("server = \"{CANARY}@127.0.0.1\"")),
        line(&format!("server = \"a,nats://u:{CANARY},{CANARY}@b\"")),
        line(&format!("server = nats://user:{CANARY}@127.0.0.1")),
        line(&format!("server = [\"nats://user:{CANARY}@127.0.0.1\"]")),
        line(&format!("url = \"nats://user:{CANARY}@127.0.0.1\"")),
        line(&format!("password = \"{CANARY}\"")),
        line(&format!("server = \"nats://user:{CANARY}@127.0.0.1")),
    ] {
        for args in [&["--print-config"][..], &["--sweeps", "1"], &["--once"]] {
            let text = run(dir.path(), &config, args);
            assert!(text.contains("ibnet.toml:"), "{text}");
            assert!(!text.contains(CANARY), "{args:?}: {text}");
        }
        let text = run(dir.path(), &config, &["check"]);
        assert!(
            text.contains("fail  configuration") && !text.contains(CANARY),
            "{text}"
        );
    }
}

#[test]
fn secret_of_a_file_is_in_no_output() {
    let dir = folder();
    let config = "simulate = \"net.p\"\ninterval = \"50ms\"\noutput = \"lines\"\n[metrics]\nlisten = \"127.0.0.1:0\"\npassword_file = \"secret\"\n";
    for args in [
        &["--print-config"][..],
        &["--sweeps", "2", "--summary"],
        &["check"],
    ] {
        let text = run(dir.path(), config, args);
        assert!(!text.contains(CANARY), "{text}");
    }
    assert!(
        !fs::read_to_string(dir.path().join("lines"))
            .unwrap()
            .contains(CANARY)
    );
    // A secret that cannot be used is not in the error.
    fs::write(dir.path().join("secret"), format!("{CANARY} {CANARY}\n")).unwrap();
    let text = run(dir.path(), config, &["--sweeps", "1"]);
    assert!(text.contains("error: ") && !text.contains(CANARY), "{text}");
}

/// A server gets the password, and the log of all levels does not.
#[cfg(feature = "nats")]
#[test]
fn password_goes_to_the_server_only() {
    let dir = folder();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Returns the first line of the first client that sends one.
    let server = std::thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            let info = r#"INFO {"server_id":"X","server_name":"X","version":"2.10.0","go":"go1","host":"127.0.0.1","port":1,"max_payload":1048576,"proto":1,"client_id":1,"headers":true,"auth_required":true}"#;
            // The client may have given up.
            let _ = stream.write_all(format!("{info}\r\n").as_bytes());
            let mut connect = String::new();
            let _ = BufReader::new(&stream).read_line(&mut connect);
            let _ = stream.write_all(b"-ERR 'Authorization Violation'\r\n");
            if connect.ends_with('\n') {
                return connect;
            }
        }
    });
    let config = |user: &str| {
        format!(
            "simulate = \"net.p\"\ninterval = \"50ms\"\ndrain = \"500ms\"\n[[output]]\ntype = \"nats\"\nserver = \"nats://127.0.0.1:{port}\"\n{user}password_file = \"secret\"\n"
        )
    };
    fs::write(
        dir.path().join("ibnet.toml"),
        config("user = \"someone\"\n"),
    )
    .unwrap();
    let log = fs::File::create(dir.path().join("log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
    command
        .current_dir(dir.path())
        .args(["-c", "ibnet.toml"])
        .env("RUST_LOG", "trace");
    let mut child = command
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let connect = server.join().unwrap();
    assert!(
        Command::new("sh")
            .args(["-c", "kill -s TERM \"$0\"", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    child.wait().unwrap();
    assert!(
        connect.contains(&format!(
            "\"user\":\"someone\",\"pass\":\"{CANARY}-password\""
        )),
        "{connect}"
    );
    let with_user = fs::read_to_string(dir.path().join("log")).unwrap();
    // Without a user, and without the server.
    let without_user = run(dir.path(), &config(""), &["--sweeps", "3"]);
    for text in [with_user, without_user] {
        assert!(
            text.contains("nats://127.0.0.1") && !text.contains(CANARY),
            "{text}"
        );
    }
}

/// Starts a sweep without a limit of core dumps, waits for its first record, and aborts it.
fn aborted(dir: &Path, metrics: &str) -> ExitStatus {
    fs::write(
        dir.join("ibnet.toml"),
        format!("simulate = \"net.p\"\ninterval = \"50ms\"\n{metrics}"),
    )
    .unwrap();
    let command = "ulimit -c unlimited; exec \"$0\" -c ibnet.toml";
    let mut child: Child = Command::new("sh")
        .current_dir(dir)
        .args(["-c", command, env!("CARGO_BIN_EXE_ibnet-sweep")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("\"start\""), "{line}");
    assert!(
        Command::new("sh")
            .args(["-c", "kill -s ABRT \"$0\"", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    child.wait().unwrap()
}

#[test]
fn process_with_a_secret_writes_no_core_dump() {
    let dir = folder();
    let with_secret = aborted(
        dir.path(),
        "[metrics]\nlisten = \"127.0.0.1:0\"\npassword_file = \"secret\"\n",
    );
    assert_eq!(
        (with_secret.signal(), with_secret.core_dumped()),
        (Some(6), false)
    );
    let without_secret = aborted(dir.path(), "");
    if !without_secret.core_dumped() {
        // The test runner would capture the output of `eprintln!`.
        let _ = std::io::stderr()
            .write_all(b"SKIPPED: this host writes no core dumps; their absence proves nothing\n");
    }
}
