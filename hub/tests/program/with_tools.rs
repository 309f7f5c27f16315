//! Alerts in a real Alertmanager.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::hub::{Hub, exchange, tool};
use super::{lines, start_line};

/// A process, which is killed on drop.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the records of a live sampler have the present time"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Sends a slot each second until the connection is no longer wanted.
fn send(mut stream: TcpStream, slots: u64) {
    stream.write_all(start_line("s", 1).as_bytes()).unwrap();
    for _ in 0..slots {
        let now = now().duration_since(UNIX_EPOCH).unwrap();
        if stream
            .write_all(lines("s", now.as_secs(), 0.5).as_bytes())
            .is_err()
        {
            break;
        }
        thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn alertmanager_shows_an_alert_until_it_is_resolved() {
    let Some(program) = tool("prometheus-alertmanager") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("alertmanager.yml");
    fs::write(
        &config,
        "route: {receiver: none}\nreceivers: [{name: none}]\n",
    )
    .unwrap();
    // Alertmanager accepts no port 0, so the test takes a free one.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let address = format!("127.0.0.1:{port}");
    let child = Command::new(program)
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.path={}", folder.path().display()))
        .args(["--web.listen-address", &address])
        .args(["--cluster.listen-address="])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut alertmanager = Killed(child);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = folder.path().join("hub.toml");
    let text = format!(
        "inputs = [\"tcp://{}\"]\nfabric = \"test\"\n[alerts]\nalertmanager = [\"http://{address}\"]\nwatchdog = true\nhold = [\"IbnetSamplerDown=0s\"]\nrecovery = \"0s\"\n",
        listener.local_addr().unwrap()
    );
    fs::write(&file, text).unwrap();
    let hub = Hub::start(&["-c", file.to_str().unwrap()]);
    let (stream, _) = listener.accept().unwrap();
    // After a few slots, the sampler is silent.
    send(stream, 3);
    let names = || -> Option<Vec<String>> {
        let request = "GET /api/v2/alerts?active=true HTTP/1.0\r\nHost: x\r\n\r\n";
        let (status, body) = exchange(&address, request)?;
        let rows: Value = serde_json::from_str(&body).ok()?;
        let name = |row: &Value| row["labels"]["alertname"].as_str().map(str::to_owned);
        (status == 200).then(|| rows.as_array().unwrap().iter().filter_map(name).collect())
    };
    let mut wait_for = |expected: bool| {
        hub.wait_for("alerts", |_| {
            let ended = alertmanager.0.try_wait().unwrap();
            assert_eq!(ended, None, "Alertmanager ended; try `make tools`");
            names().is_some_and(|names| {
                names.contains(&"IbnetWatchdog".to_owned())
                    && names.contains(&"IbnetSamplerDown".to_owned()) == expected
            })
        })
    };
    wait_for(true);
    let (stream, _) = listener.accept().unwrap();
    let sender = thread::spawn(move || send(stream, 600));
    wait_for(false);
    let alerts = hub.get("alerts");
    assert_eq!(alerts["rows"][0]["state"], "resolved", "{alerts}");
    assert_eq!(alerts["receivers"][0]["error"], Value::Null, "{alerts}");
    assert_eq!(hub.stop(), Some(0));
    sender.join().unwrap();
}
