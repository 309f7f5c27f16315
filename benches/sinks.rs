//! Throughput of each output in records and octets per second. The records are slots of
//! `examples/stria.p`, simulated, and are handed over at once.
//!
//!     cargo bench --bench sinks --features nats [-- nats]
//!
//! Readers and the NATS server (`nats-server -js` with a new store) run on the same machine and
//! share its CPUs. So the table also has the records per second of CPU time, for this program (with
//! the readers) and for the server. They do not depend on the load of the machine. With the
//! argument `nats`, only the NATS output is measured.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and prints its results"
)]

use std::io::{Read, sink};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ibnet::mad::transport::sim::{Options, SimFabric, SimTransport};
use ibnet::output::{
    self as outputs, Address, Batch, Destination, FileOptions, ListenOptions, Output,
};
use ibnet::sweep::driver::{Control, Driver, DriverSettings, SystemClock};
use ibnet::sweep::engine;
use ibnet::sweep::plan::SweepPlan;
use ibnet::topology::net_file;
use ibnet_record::reader::Type;
use ibnet_record::types::PortNum;

/// Number of slots that are handed over.
const TIMES: usize = 200;

fn main() -> anyhow::Result<()> {
    // `cargo test --benches` runs this program too, which must not measure then.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    let text = slot()?;
    let ends = text.match_indices('\n').map(|(at, _)| (at + 1, Type::Port));
    let batch = Batch {
        lines: text.lines().count() as u64,
        records: ends.collect(),
        bytes: text.into_bytes(),
        ts: 1,
        ..Batch::default()
    };
    let zstd = zstd::stream::encode_all(&batch.bytes[..], 3)?.len();
    let a_day = |octets: usize| octets as f64 * 86_400.0 / batch.lines as f64 / 1e6;
    println!(
        "{} lines of {} octets per slot; at 1 Hz {:.0} MB per port and day, {:.1} MB with zstd\n",
        batch.lines,
        batch.bytes.len() / batch.lines as usize,
        a_day(batch.bytes.len()),
        a_day(zstd)
    );
    println!(
        "| output | lines per second | MB per second | lines per CPU second | of the server |"
    );
    println!("|---|---|---|---|---|");
    let folder = tempfile::tempdir()?;
    if std::env::args().any(|arg| arg == "nats") {
        return nats(folder.path(), &batch);
    }
    let path = |name: &str| folder.path().join(name);
    let file = |name: &str, rotate| {
        Destination::File(FileOptions {
            path: path(name),
            rotate_octets: rotate,
            compress: rotate.is_some(),
            ..FileOptions::default()
        })
    };
    measure("file", &batch, file("lines", None), || Ok(Vec::new()))?;
    measure(
        "file, rotated every 64 MiB and compressed at the same time",
        &batch,
        file("rotated", Some(64 << 20)),
        || Ok(Vec::new()),
    )?;
    let listen = |address| {
        Destination::Listen(ListenOptions {
            address,
            readers: 4,
        })
    };
    let socket = path("sock");
    let octets = (TIMES * batch.bytes.len()) as u64;
    let unix = |count| {
        (0..count)
            .map(|_| Ok(read(UnixStream::connect(&socket)?, octets)))
            .collect()
    };
    measure(
        "Unix socket, one reader",
        &batch,
        listen(Address::Unix(socket.clone())),
        || unix(1),
    )?;
    measure(
        "Unix socket, four readers, each",
        &batch,
        listen(Address::Unix(socket.clone())),
        || unix(4),
    )?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    measure(
        "TCP, one reader",
        &batch,
        listen(Address::Tcp(address)),
        || Ok(vec![read(TcpStream::connect(address)?, octets)]),
    )?;
    nats(folder.path(), &batch)
}

/// Returns the port records of a slot in the steady state.
fn slot() -> anyhow::Result<String> {
    let net = net_file::read(Path::new("examples/stria.p"))?;
    let (sampler, _) = ibnet::partition::whole_fabric(&net.fabric, "bench");
    let settings = DriverSettings {
        sampler: sampler.host.clone(),
        ca: "sim".to_owned(),
        ca_port: PortNum(1),
        is_secondary: false,
        interval: Duration::from_millis(200),
        offset: Duration::ZERO,
        aligned: true,
        sweeps: Some(3),
        assignments_sha256: None,
        engine: engine::Config::default(),
    };
    let fabric = Arc::new(Mutex::new(SimFabric::new(net.fabric, Options::default())));
    let (outlet, lines) = Destination::memory();
    Driver::new(
        SweepPlan::new(&sampler),
        settings,
        SimTransport::new(fabric),
        SystemClock::start(),
        outlet,
        1,
    )
    .run(&Control::default(), |_| {})?;
    let text = lines.text();
    let ports: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("{\"type\":\"port\""))
        .collect();
    let last = &ports[ports.len() * 2 / 3..];
    Ok(last.iter().map(|line| format!("{line}\n")).collect())
}

type Reading = std::thread::JoinHandle<()>;

/// Reads and discards this number of octets on a thread.
fn read(from: impl Read + Send + 'static, octets: u64) -> Reading {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from.take(octets), &mut sink());
    })
}

fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Hands over all slots at once, and waits until they were written.
fn measure(
    name: &str,
    batch: &Batch,
    to: Destination,
    connect: impl FnOnce() -> std::io::Result<Vec<Reading>>,
) -> anyhow::Result<()> {
    let (outlet, mut writers) = outputs::open(&[Output {
        to,
        buffer: 16 << 30,
    }])?;
    let readers = connect()?;
    let writer = writers
        .pop()
        .map(|writer| std::thread::spawn(|| writer.run()));
    // Time to accept the readers.
    std::thread::sleep(Duration::from_millis(100));
    let begin = Begin::now(None);
    (0..TIMES).for_each(|_| outlet.offer(batch.clone()));
    // Each reader ends when it has all records.
    for reader in readers {
        reader
            .join()
            .map_err(|_| anyhow::anyhow!("a reader ended early"))?;
    }
    drop(outlet);
    let ended = writer
        .map(|writer| {
            writer
                .join()
                .map_err(|_| anyhow::anyhow!("{name} ended early"))
        })
        .transpose()?;
    anyhow::ensure!(
        ended.as_ref().is_some_and(|ended| ended.dropped == 0),
        "{name}: {ended:?}"
    );
    begin.print(name, TIMES, batch);
    Ok(())
}

/// Start of a measurement.
struct Begin {
    time: Instant,
    /// CPU time of this process.
    cpu: f64,
    /// Process of the server, and its CPU time.
    server: Option<(u32, f64)>,
}

impl Begin {
    fn now(server: Option<u32>) -> Self {
        let cpu = |process: &str| cpu_seconds(process);
        Self {
            time: Instant::now(),
            cpu: cpu("self"),
            server: server.map(|id| (id, cpu(&id.to_string()))),
        }
    }

    /// Prints a row of the table for slots that were written since then.
    fn print(&self, name: &str, slots: usize, batch: &Batch) {
        let (lines, octets) = (
            slots as f64 * batch.lines as f64,
            slots as f64 * batch.bytes.len() as f64,
        );
        let seconds = self.time.elapsed().as_secs_f64();
        let own = lines / (cpu_seconds("self") - self.cpu);
        let server = self
            .server
            .map(|(id, cpu)| format!("{:.0}", lines / (cpu_seconds(&id.to_string()) - cpu)));
        println!(
            "| {name} | {:.0} | {:.0} | {own:.0} | {} |",
            lines / seconds,
            octets / seconds / 1e6,
            server.unwrap_or_default()
        );
    }
}

/// Returns the CPU time of all threads of a process.
fn cpu_seconds(process: &str) -> f64 {
    /// Clock ticks per second on all Linux systems.
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name of the program, in parentheses, can have blanks.
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    fields
        .get(11..13)
        .into_iter()
        .flatten()
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS
}

#[cfg(not(feature = "nats"))]
fn nats(_: &Path, _: &Batch) -> anyhow::Result<()> {
    println!("| NATS | not built in | | | |");
    Ok(())
}

/// A server that is killed when this is dropped.
#[cfg(feature = "nats")]
struct Server(std::process::Child);

#[cfg(feature = "nats")]
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures a NATS server until it has acknowledged all records: a record in each message, and a
/// slot in each message.
#[cfg(feature = "nats")]
fn nats(folder: &Path, batch: &Batch) -> anyhow::Result<()> {
    use outputs::Batching::{Line, Slot};
    for (name, batching, compress) in [
        ("one line a message", Line, false),
        ("a slot a message", Slot, false),
        ("a slot a message, zstd", Slot, true),
    ] {
        let store = folder.join(name);
        if !nats_server(
            &store,
            batch,
            &format!("NATS, JetStream on a disk, {name}"),
            batching,
            compress,
        )? {
            println!("| NATS | nats-server is not installed (`make tools`) | | | |");
            break;
        }
        // The next server has the same disk space and page cache.
        std::fs::remove_dir_all(store)?;
    }
    Ok(())
}

/// Measures one kind of messages with a new server. Returns false without a server.
#[cfg(feature = "nats")]
fn nats_server(
    store: &Path,
    batch: &Batch,
    name: &str,
    batching: outputs::Batching,
    compress: bool,
) -> anyhow::Result<bool> {
    use std::process::{Command, Stdio};
    const SLOTS: usize = 100;
    let port = free_port()?;
    let tools = std::env::current_dir()?.join("out/tools/nats-server");
    let mut command = Command::new(if tools.exists() {
        tools.as_os_str()
    } else {
        "nats-server".as_ref()
    });
    command
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .arg(store);
    let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        return Ok(false);
    };
    let server = Server(child);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let context = runtime.block_on(async {
        let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
        anyhow::Ok(async_nats::jetstream::new(
            options.connect(format!("127.0.0.1:{port}")).await?,
        ))
    })?;
    let subjects = vec!["ibnet.>".to_owned()];
    let config = async_nats::jetstream::stream::Config {
        name: "IBNET".to_owned(),
        subjects,
        ..Default::default()
    };
    let mut stream = runtime.block_on(context.get_or_create_stream(config))?;
    let server_address = format!("127.0.0.1:{port}");
    let options = outputs::NatsOptions {
        server: server_address,
        fabric: "stria".to_owned(),
        batching,
        compress,
        ..Default::default()
    };
    let (outlet, mut writers) = outputs::open(&[Output {
        to: Destination::Nats(options),
        buffer: 16 << 30,
    }])?;
    let writer = writers
        .pop()
        .map(|writer| std::thread::spawn(|| writer.run()));
    let begin = Begin::now(Some(server.0.id()));
    (0..SLOTS).for_each(|_| outlet.offer(batch.clone()));
    // The output ends when the server has acknowledged every message.
    drop(outlet);
    let ended = writer
        .map(|writer| {
            writer
                .join()
                .map_err(|_| anyhow::anyhow!("{name} ended early"))
        })
        .transpose()?;
    anyhow::ensure!(
        ended.as_ref().is_some_and(|ended| ended.dropped == 0),
        "{name}: {ended:?}"
    );
    begin.print(name, SLOTS, batch);
    let lines = runtime.block_on(async {
        let last = stream.info().await?.state.last_sequence;
        let mut lines = 0;
        for number in 1..=last {
            // Each message is one line, so they need not be read.
            if batching == outputs::Batching::Line {
                return Ok(last);
            }
            let payload = stream.get_raw_message(number).await?.payload;
            let text = if compress {
                zstd::stream::decode_all(&payload[..])?
            } else {
                payload.to_vec()
            };
            lines += text.iter().filter(|octet| **octet == b'\n').count() as u64;
        }
        anyhow::Ok(lines)
    })?;
    anyhow::ensure!(
        lines == SLOTS as u64 * batch.lines,
        "{name}: the stream has {lines} lines"
    );
    drop(server);
    Ok(true)
}
