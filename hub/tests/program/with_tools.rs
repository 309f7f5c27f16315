//! Alerts in a real Alertmanager, and users of a real proxy.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tungstenite::Message;
use tungstenite::client::IntoClientRequest as _;

use super::hub::{Hub, PATIENCE, exchange, tool};
use super::{NET, lines, start_line};

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

/// Returns a free address for a program that accepts no port 0.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
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
    let address = free_address();
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

#[test]
fn nginx_of_the_documentation_serves_users_and_the_stream() {
    const DOCUMENT: &str = include_str!("../../../docs/hub.md");
    const MAIN: &str = "daemon off; master_process off; user root; pid FOLDER/pid; events {}\nhttp {\n\
        access_log off; client_body_temp_path FOLDER/a; proxy_temp_path FOLDER/b; fastcgi_temp_path FOLDER/c;\n\
        uwsgi_temp_path FOLDER/d; scgi_temp_path FOLDER/e;\n";
    // The names and passwords of ada and ola.
    const ADA: &str = "Authorization: Basic YWRhOmFkYS1zZWNyZXQ=\r\n";
    const OLA: &str = "Authorization: Basic b2xhOm9sYS1zZWNyZXQ=\r\n";
    const FORGED: &str = "X-Remote-User: eve\r\nX-Remote-Groups: hpc-admins\r\n";
    let Some(program) = tool("nginx") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("net.p"), NET).unwrap();
    fs::write(
        path("users"),
        "ada:{PLAIN}ada-secret\nola:{PLAIN}ola-secret\n",
    )
    .unwrap();
    // Another address than that of the test, as if nginx ran on another host.
    let config = format!(
        "simulate = {:?}\n[users]\nproxies = [\"127.0.0.2\"]\nadmins = [\"hpc-admins\"]\noperators = [\"hpc-support\"]\n",
        path("net.p")
    );
    fs::write(path("hub.toml"), config).unwrap();
    let hub = Hub::start(&["-c", path("hub.toml").to_str().unwrap()]);
    let address = free_address();
    let (_, block) = DOCUMENT.split_once("```nginx\n").unwrap();
    let mut text = block.split_once("```").unwrap().0.to_owned();
    // Without TLS, and with the addresses of this test.
    let upstream = format!("http://{}; proxy_bind 127.0.0.2", hub.address);
    for (from, to) in [
        ("443 ssl", &*address),
        ("/etc/nginx/ibnet.users", path("users").to_str().unwrap()),
        ("https://hub1:8080", &upstream),
    ] {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, to);
    }
    let lines = text.lines().filter(|line| !line.contains("ssl"));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let main = MAIN.replace("FOLDER", folder.path().to_str().unwrap());
    fs::write(path("nginx.conf"), main + &text + "}\n").unwrap();
    let child = Command::new(program)
        .arg("-p")
        .arg(folder.path())
        .arg("-c")
        .arg(path("nginx.conf"))
        .arg("-e")
        .arg(path("errors"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut nginx = Killed(child);
    let get = |headers: &str| {
        let request = format!(
            "GET /api/v1/whoami HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\n\r\n"
        );
        exchange(&address, &request)
    };
    while get("").is_none() {
        let ended = nginx.0.try_wait().unwrap();
        assert_eq!(ended, None, "{:?}", fs::read_to_string(path("errors")));
        thread::sleep(Duration::from_millis(50));
    }
    let is = |answer: Option<(u16, String)>, status: u16, part: &str| {
        let (found, body) = answer.unwrap();
        assert!(found == status && body.contains(part), "{found} {body}");
    };
    is(get(""), 401, "nginx");
    is(get(ADA), 200, r#""name":"ada","role":"user""#);
    is(get(OLA), 200, r#""name":"ola","role":"operator""#);
    // A client cannot name another user, neither through nginx nor past it.
    is(
        get(&format!("{ADA}{FORGED}")),
        200,
        r#""name":"ada","role":"user""#,
    );
    is(Some(hub.request("/api/v1/whoami", FORGED)), 401, "required");
    let post = |headers: &str| {
        let body = r#"{"name":"deploy"}"#;
        let request = format!(
            "POST /api/v1/marks HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        exchange(&address, &request)
    };
    let own = format!("Origin: http://{address}\r\n");
    is(post(&format!("{OLA}{own}")), 200, "id");
    is(post(&format!("{ADA}{own}")), 403, "role");
    is(
        post(&format!("{OLA}Origin: http://evil.example\r\n")),
        403,
        "other sites",
    );
    let mut request = format!("ws://{address}/api/v1/live")
        .into_client_request()
        .unwrap();
    let (name, value) = ADA.trim().split_once(": ").unwrap();
    let name: tungstenite::http::HeaderName = name.parse().unwrap();
    request.headers_mut().insert(name, value.parse().unwrap());
    let stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut live, _) = tungstenite::client(request, stream).unwrap();
    live.send(Message::text(r#"{"metrics":["xmit_utilization"]}"#))
        .unwrap();
    let mut frames = 0;
    while frames < 2 {
        frames += u32::from(live.read().unwrap().is_binary());
    }
    assert_eq!(hub.stop(), Some(0));
}
