//! How many lines a second go through each sink, and how large they are: slots of `examples/stria.p`, simulated, handed over as fast as they are taken.
//!
//!     cargo bench --bench sinks
//!
//! Readers and the NATS server (`nats-server -js` with a store in a folder of its own) are on this machine and share its CPUs.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "that is what a benchmark is for")]

use std::io::{Read, sink};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ibnet::assignments::Sampler;
use ibnet::mad::transport::sim::{Options, SimFabric, SimTransport};
use ibnet::sink::{self as sinks, Address, Batch, Blank, Destination, FileOptions, ListenOptions, Output};
use ibnet::sweep::driver::{Control, Driver, DriverSettings, SystemClock};
use ibnet::sweep::engine;
use ibnet::sweep::plan::SweepPlan;
use ibnet::topology::net_file;
use ibnet::types::PortNum;

/// How often a slot is handed over.
const TIMES: usize = 200;

fn main() -> anyhow::Result<()> {
    // `cargo test --benches` calls this too, and must not measure.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    let text = slot()?;
    let batch = Batch { lines: text.lines().count() as u64, bytes: text.into_bytes(), ts: 1, lost_at: None, gap: Blank::default() };
    let zstd = zstd::stream::encode_all(&batch.bytes[..], 3)?.len();
    let a_day = |octets: usize| octets as f64 * 86_400.0 / batch.lines as f64 / 1e6;
    println!(
        "{} lines of {} octets a slot; at 1 Hz {:.0} MB a port a day, {:.1} MB with zstd\n",
        batch.lines,
        batch.bytes.len() / batch.lines as usize,
        a_day(batch.bytes.len()),
        a_day(zstd)
    );
    println!("| sink | lines a second | MB a second |");
    println!("|---|---|---|");
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let file = |name: &str, rotate| {
        Destination::File(FileOptions { path: path(name), rotate_octets: rotate, compress: rotate.is_some(), ..FileOptions::default() })
    };
    measure("file", &batch, file("lines", None), || Ok(Vec::new()))?;
    measure("file, closed every 64 MiB, zstd beside it", &batch, file("rotated", Some(64 << 20)), || Ok(Vec::new()))?;
    let listen = |address| Destination::Listen(ListenOptions { address, readers: 4 });
    let socket = path("sock");
    let octets = (TIMES * batch.bytes.len()) as u64;
    let unix = |count| (0..count).map(|_| Ok(read(UnixStream::connect(&socket)?, octets))).collect();
    measure("Unix socket, one reader", &batch, listen(Address::Unix(socket.clone())), || unix(1))?;
    measure("Unix socket, four readers, each", &batch, listen(Address::Unix(socket.clone())), || unix(4))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
    measure("TCP, one reader", &batch, listen(Address::Tcp(address)), || Ok(vec![read(TcpStream::connect(address)?, octets)]))?;
    nats(folder.path(), &batch)
}

/// The lines of one slot that is as any other.
fn slot() -> anyhow::Result<String> {
    let net = net_file::read(Path::new("examples/stria.p"))?;
    let (sampler, _) = Sampler::everything(&net.fabric, "bench");
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
    Driver::new(SweepPlan::new(&sampler), settings, SimTransport::new(fabric), SystemClock::start(), outlet, 1)
        .run(&Control::default(), |_| {})?;
    let text = lines.text();
    let ports: Vec<_> = text.lines().filter(|line| line.starts_with("{\"type\":\"port\"")).collect();
    let last = &ports[ports.len() * 2 / 3..];
    Ok(last.iter().map(|line| format!("{line}\n")).collect())
}

type Reading = std::thread::JoinHandle<()>;

/// Reads so many octets, and forgets them.
fn read(from: impl Read + Send + 'static, octets: u64) -> Reading {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from.take(octets), &mut sink());
    })
}

fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Hands over all at once and waits until it was taken.
fn measure(name: &str, batch: &Batch, to: Destination, connect: impl FnOnce() -> std::io::Result<Vec<Reading>>) -> anyhow::Result<()> {
    let (outlet, mut writers) = sinks::open(&[Output { to, buffer: 16 << 30 }])?;
    let readers = connect()?;
    let writer = writers.pop().map(|writer| std::thread::spawn(|| writer.run()));
    // Readers are let in.
    std::thread::sleep(Duration::from_millis(100));
    let begin = Instant::now();
    (0..TIMES).for_each(|_| outlet.offer(batch.clone()));
    // Until they have all: in the end nobody waits for them.
    for reader in readers {
        reader.join().map_err(|_| anyhow::anyhow!("a reader ended early"))?;
    }
    drop(outlet);
    let ended = writer.map(|writer| writer.join().map_err(|_| anyhow::anyhow!("{name} ended early"))).transpose()?;
    anyhow::ensure!(ended == Some(sinks::Ended::Complete), "{name}: {ended:?}");
    let (seconds, times) = (begin.elapsed().as_secs_f64(), TIMES as f64);
    println!("| {name} | {:.0} | {:.0} |", times * batch.lines as f64 / seconds, times * batch.bytes.len() as f64 / seconds / 1e6);
    Ok(())
}

#[cfg(not(feature = "nats"))]
fn nats(_: &Path, _: &Batch) -> anyhow::Result<()> {
    println!("| NATS | not built in | |");
    Ok(())
}

/// A server that is killed in the end.
#[cfg(feature = "nats")]
struct Server(std::process::Child);

#[cfg(feature = "nats")]
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One slot after another, as the last lines have a moment only.
#[cfg(feature = "nats")]
fn nats(folder: &Path, batch: &Batch) -> anyhow::Result<()> {
    use std::process::{Command, Stdio};
    const SLOTS: usize = 100;
    let port = free_port()?;
    let mut command = Command::new("nats-server");
    command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"]).arg(folder.join("store"));
    let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        println!("| NATS | nats-server is not installed (`make deps`) | |");
        return Ok(());
    };
    let server = Server(child);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let context = runtime.block_on(async {
        let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
        anyhow::Ok(async_nats::jetstream::new(options.connect(format!("127.0.0.1:{port}")).await?))
    })?;
    let subjects = vec!["ibnet.>".to_owned()];
    let config = async_nats::jetstream::stream::Config { name: "IBNET".to_owned(), subjects, ..Default::default() };
    let mut stream = runtime.block_on(context.get_or_create_stream(config))?;
    let options = sinks::NatsOptions { server: format!("127.0.0.1:{port}"), fabric: "stria".to_owned(), ..Default::default() };
    let (outlet, mut writers) = sinks::open(&[Output { to: Destination::Nats(options), buffer: 16 << 30 }])?;
    let writer = writers.pop().map(|writer| std::thread::spawn(|| writer.run()));
    let begin = Instant::now();
    (0..SLOTS).for_each(|_| outlet.offer(batch.clone()));
    let all = SLOTS as u64 * batch.lines;
    while runtime.block_on(stream.info())?.state.messages < all {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (seconds, slots) = (begin.elapsed().as_secs_f64(), SLOTS as f64);
    println!(
        "| NATS, JetStream on a disk, each line acknowledged | {:.0} | {:.0} |",
        slots * batch.lines as f64 / seconds,
        slots * batch.bytes.len() as f64 / seconds / 1e6
    );
    drop(outlet);
    let _ = writer.map(std::thread::JoinHandle::join);
    drop(server);
    Ok(())
}
