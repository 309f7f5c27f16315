//! The hub packs what it gathers, also if it is killed.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use ibnet_store::archive::Archive;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::TableName;
use serde_json::{Value, json};

use super::hub::Hub;
use super::{append, lines, start_line};

/// Returns all lines of an archive, sorted. A record that is there twice is in the list twice.
pub(super) fn archived(root: &Path) -> Vec<String> {
    let Some(archive) = Archive::open(root) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for table in TableName::ALL {
        for (_, path) in archive.files(table).unwrap() {
            let rows = ArchiveFile::open(&path).unwrap().read_all().unwrap();
            for row in 0..rows.len() {
                let mut line = Vec::new();
                rows.write_line(row, &mut line);
                all.push(canonical(&String::from_utf8(line).unwrap()));
            }
        }
    }
    all.sort();
    all
}

fn canonical(line: &str) -> String {
    serde_json::from_str::<Value>(line).unwrap().to_string()
}

/// Returns the different lines of a text, sorted.
pub(super) fn expected(text: &str) -> Vec<String> {
    let mut all: Vec<String> = text.lines().map(canonical).collect();
    all.sort();
    all.dedup();
    all
}

/// Returns the arguments for a hub that packs every ten seconds.
pub(super) fn arguments(folder: &Path, archive: &Path) -> Vec<String> {
    let config = folder.join("hub.toml");
    fs::write(&config, "archive_every = \"10s\"\n").unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    vec![
        "-c".to_owned(),
        path(&config),
        "--archive".to_owned(),
        path(archive),
    ]
}

pub(super) fn start(arguments: &[String], inputs: &[&str]) -> Hub {
    let inputs = inputs.iter().flat_map(|input| ["--input", input]);
    Hub::start(
        &arguments
            .iter()
            .map(String::as_str)
            .chain(inputs)
            .collect::<Vec<_>>(),
    )
}

/// Waits until the spool is empty and the archive has these lines.
pub(super) fn wait_for_archive(hub: &Hub, root: &Path, expected: &[String]) {
    hub.wait_for("health", |health| {
        health["archive"]["spool_octets"] == 0
            && health["archive"]["packed_ns"].is_u64()
            && archived(root).len() >= expected.len()
    });
    assert_eq!(archived(root), expected);
}

/// A sampler that the hub connects to.
struct Sampler {
    listener: TcpListener,
    sent: String,
}

impl Sampler {
    fn accept(&self) -> TcpStream {
        self.listener.accept().unwrap().0
    }

    fn send(&mut self, stream: &mut TcpStream, slots: std::ops::Range<u64>) {
        let text =
            start_line("t", 1) + &slots.map(|slot| lines("t", slot, 0.25)).collect::<String>();
        stream.write_all(text.as_bytes()).unwrap();
        self.sent += &text;
    }
}

#[test]
fn killed_hub_loses_no_line_and_keeps_none_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (file, root) = (
        folder.path().join("lines.jsonl"),
        folder.path().join("archive"),
    );
    let pattern = format!("file:{}/lines*.jsonl", folder.path().display());
    let mut sampler = Sampler {
        listener: TcpListener::bind("127.0.0.1:0").unwrap(),
        sent: String::new(),
    };
    let input = format!("tcp://{}", sampler.listener.local_addr().unwrap());
    let arguments = arguments(folder.path(), &root);
    let inputs = [pattern.as_str(), &input];
    let mut written = start_line("f", 1);
    let write = |slots: std::ops::Range<u64>, written: &mut String| {
        let text: String = slots.map(|slot| lines("f", slot, 0.5)).collect();
        append(&file, &text);
        *written += &text;
    };
    append(&file, &written);
    write(100..120, &mut written);
    // The spool has a line of a socket before the page shows it.
    let received = |hub: &Hub, last: u64| {
        hub.wait_for("samplers", |samplers| {
            let is_last = |row: &Value| row["sampler"] == "t" && row["last_slot"] == last;
            samplers["rows"]
                .as_array()
                .is_some_and(|rows| rows.iter().any(is_last))
        });
    };

    // Killed before the first run, with lines in the spool.
    let hub = start(&arguments, &inputs);
    let mut stream = sampler.accept();
    sampler.send(&mut stream, 100..120);
    received(&hub, 119);
    drop((hub, stream));

    // Killed while it packs what the first one left. The file grows and is rotated meanwhile.
    write(120..125, &mut written);
    let hub = start(&arguments, &inputs);
    let mut stream = sampler.accept();
    sampler.send(&mut stream, 120..125);
    received(&hub, 124);
    drop((hub, stream));
    fs::rename(&file, folder.path().join("lines-1.jsonl")).unwrap();
    write(125..130, &mut written);

    let hub = start(&arguments, &inputs);
    let mut stream = sampler.accept();
    sampler.send(&mut stream, 125..128);
    let all = expected(&(written.clone() + &sampler.sent));
    wait_for_archive(&hub, &root, &all);
    let health = hub.get("health");
    assert_eq!(
        (
            &health["archive"]["lines_lost"],
            &health["archive"]["error"]
        ),
        (&Value::from(0), &Value::Null),
        "{health}"
    );
    // After a stop, nothing is read or packed twice.
    assert_eq!(hub.stop(), Some(0));
    let hub = start(&arguments, &inputs);
    hub.wait_for("health", |health| health["archive"]["packed_ns"].is_u64());
    assert_eq!(archived(&root), all);
}

#[test]
fn archive_that_cannot_be_written_is_reported_and_the_page_works() {
    let folder = tempfile::tempdir().unwrap();
    let no_folder: PathBuf = folder.path().join("file");
    fs::write(&no_folder, "text").unwrap();
    let (hub, mut input) = Hub::reading(&[
        "--recent",
        "7days",
        "--archive",
        no_folder.to_str().unwrap(),
    ]);
    input
        .write_all((start_line("s", 1) + &lines("s", 100, 0.5)).as_bytes())
        .unwrap();
    let health = hub.wait_for("health", |health| health["records"] == 1);
    let error = health["archive"]["error"].as_str().unwrap();
    assert!(
        error.starts_with("cannot write ") && error.contains("free space"),
        "{error}"
    );
}

#[test]
fn archive_is_only_read_if_the_configuration_demands_it() {
    let folder = tempfile::tempdir().unwrap();
    let (config, root) = (
        folder.path().join("hub.toml"),
        folder.path().join("archive"),
    );
    fs::write(
        &config,
        format!("archive = \"{}\"\narchive_pack = false\n", root.display()),
    )
    .unwrap();
    let (hub, mut input) = Hub::reading(&["--recent", "7days", "-c", config.to_str().unwrap()]);
    input
        .write_all((start_line("s", 1) + &lines("s", 100, 0.5)).as_bytes())
        .unwrap();
    let health = hub.wait_for("health", |health| health["records"] == 1);
    assert!(health["archive"].is_null() && !root.exists(), "{health}");
}

#[test]
fn verdicts_outlive_a_hub_that_packs_into_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    let (file, root) = (folder.path().join("lines"), folder.path().join("archive"));
    // Readings of three hours, with lost blocks in each minute; slots have the length of seconds.
    let reading = |minute: u64| {
        let line = json!({
            "type": "phy", "ts": 60_000_000_000 * minute, "slot": 60 * minute, "sampler": "s", "guid": "0x0000000000000001",
            "port": 1, "lid": 1, "node": "leaf", "dt_ns": null, "time_since_last_clear_ms": 60_000 * minute,
            "phy_received_bits": 24_000_000_000_000_u64 * minute, "phy_corrected_bits": 400 * minute,
            "phy_effective_errors": 1600 * minute, "rs_fec_uncorrectable_blocks": 10 * minute,
        });
        format!("{line}\n")
    };
    let readings: String = (1..=180).map(reading).collect();
    append(
        &file,
        &(start_line("s", 1) + &lines("s", 180 * 60, 0.5) + &readings),
    );
    let arguments = arguments(folder.path(), &root);
    let is_clean = |links: &Value| links["counts"]["clean"] == 1;
    let hub = start(&arguments, &[&format!("file:{}", file.display())]);
    let before = hub.wait_for("links/health", is_clean);
    assert_eq!(hub.stop(), Some(0));
    assert!(root.join(".verdicts").exists());
    // Nothing is read again.
    let hub = start(&arguments, &[&format!("file:{}.other", file.display())]);
    let links = hub.get("links/health");
    for name in ["verdict", "why", "since_ns", "seen_minutes", "effective"] {
        assert_eq!(links["rows"][0][name], before["rows"][0][name], "{name}");
    }
}
