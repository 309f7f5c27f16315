//! A running hub and its clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time after which a test that hangs fails. It is no limit of speed.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// Returns the path of a program that `make tools` unpacks; `None` with a notice if it is not
/// installed.
pub(super) fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../out/tools");
    let folders = std::iter::once(ours).chain(std::env::split_paths(&path));
    let found = folders
        .map(|folder| folder.join(name))
        .find(|file| file.exists());
    if found.is_none() {
        assert!(
            std::env::var_os("IBNET_REQUIRE_TOOLS").is_none(),
            "{name} is not installed: run `make tools`"
        );
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: {name} is not installed; `make tools` fetches it"
        );
    }
    found
}

/// Sends a request. Returns status and content of the answer, or `None` without a server.
pub(super) fn exchange(address: &str, request: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Some((status, body.to_owned()))
}

/// A running hub.
pub(super) struct Hub {
    child: Child,
    pub(super) address: String,
}

impl Hub {
    pub(super) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-hub"));
        command
            .args(arguments)
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        Self::of(command.spawn().unwrap())
    }

    /// Starts a hub that reads standard input, and returns the other end.
    pub(super) fn reading(arguments: &[&str]) -> (Self, ChildStdin) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-hub"));
        command
            .args(arguments)
            .args(["--input", "-", "--listen", "127.0.0.1:0"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        (Self::of(child), input)
    }

    fn of(mut child: Child) -> Self {
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().strip_prefix("http://").unwrap().to_owned();
        Self { child, address }
    }

    /// Returns status and content of an answer.
    pub(super) fn request(&self, path: &str, headers: &str) -> (u16, String) {
        let host = if headers.contains("Host:") {
            String::new()
        } else {
            format!("Host: {}\r\n", self.address)
        };
        let request = format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
        exchange(&self.address, &request).unwrap()
    }

    /// Posts JSON. Returns status and content of the answer.
    pub(super) fn post(&self, path: &str, headers: &str, body: &str) -> (u16, String) {
        let request = format!(
            "POST /api/v1/{path} HTTP/1.1\r\nHost: {}\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        );
        exchange(&self.address, &request).unwrap()
    }

    pub(super) fn get(&self, path: &str) -> Value {
        let (status, body) = self.request(&format!("/api/v1/{path}"), "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Asks until the answer is as expected.
    pub(super) fn wait_for(
        &self,
        path: &str,
        mut is_expected: impl FnMut(&Value) -> bool,
    ) -> Value {
        let end = deadline();
        loop {
            let found = self.get(path);
            if is_expected(&found) {
                return found;
            }
            assert!(!has_passed(end), "{path}: {found}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(super) fn live(&self) -> tungstenite::WebSocket<TcpStream> {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        tungstenite::client(format!("ws://{}/api/v1/live", self.address), stream)
            .unwrap()
            .0
    }

    /// Stops the hub with SIGTERM and returns its exit code.
    pub(super) fn stop(mut self) -> Option<i32> {
        Command::new("kill")
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        let end = deadline();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(!has_passed(end), "the hub does not stop");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a test that hangs must fail")]
fn has_passed(end: Instant) -> bool {
    Instant::now() >= end
}

#[expect(clippy::disallowed_methods, reason = "a test that hangs must fail")]
fn deadline() -> Instant {
    Instant::now() + PATIENCE
}
