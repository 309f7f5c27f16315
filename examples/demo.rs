//! The main job on a simulated fabric, in one process: `make demo`.
//!
//! Reads a net file and the plan that `ibnet-gen` made of it, sweeps it once a second with all samplers at once, writes their lines, and sums
//! them up by reading the lines again.
//!
//!     cargo run --release --no-default-features --example demo -- NETFILE ASSIGNMENTS FOLDER [SLOTS]

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use ibnet::assignments::{Assignments, Sampler};
use ibnet::cli::Progress;
use ibnet::mad::transport::sim::traffic::{Incast, Traffic};
use ibnet::mad::transport::sim::{Options, SimFabric, SimTransport};
use ibnet::sink::{self, Destination, FileOptions, Writer};
use ibnet::sweep::driver::{Control, Driver, DriverSettings, SystemClock};
use ibnet::sweep::engine;
use ibnet::sweep::plan::SweepPlan;
use ibnet::time::Instant;
use ibnet::topology::{DeviceId, net_file};
use ibnet::types::{NodeKind, PortNum, Printable};
use ibnet::view::summary::Summary;

/// So many hosts send to one server at once, for the middle half of the time.
const INCAST: usize = 32;

/// One request in so many is lost.
const ONE_LOST_IN: f64 = 20_000.0;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (net, plan, folder, slots) = match &args[..] {
        [net, plan, folder] => (net, plan, folder, 20),
        [net, plan, folder, slots] => (net, plan, folder, slots.parse().context("SLOTS is a number")?),
        _ => bail!("usage: demo NETFILE ASSIGNMENTS FOLDER [SLOTS]"),
    };
    let mut out = io::stdout().lock();
    let fabric = Arc::new(Mutex::new(simulate(Path::new(net), slots, &mut out)?));
    let samplers = Assignments::read(Path::new(plan))?.assignments.samplers;
    fs::create_dir_all(folder)?;
    writeln!(out, "sweeping  {} samplers, {slots} slots of one second", samplers.len())?;
    let files = sweep(&fabric, &samplers, Path::new(folder), slots)?;

    let mut summary = Summary::default();
    for file in &files {
        summary.read(BufReader::new(File::open(file)?))?;
    }
    write!(out, "\n{summary}\nlines     {} files {folder}/*.jsonl, the first is {}\n", files.len(), files[0].display())?;
    Ok(())
}

/// The fabric of the net file, with jobs and an incast, two dead hosts and a little loss, so that there is something to be seen.
fn simulate(net: &Path, slots: u64, out: &mut impl Write) -> anyhow::Result<SimFabric> {
    let fabric = net_file::read(net)?.fabric;
    let hosts: Vec<DeviceId> = fabric.iter().filter(|(_, device)| device.kind == NodeKind::Hca).map(|(id, _)| id).collect();
    let options = Options { loss: 1.0 / ONE_LOST_IN, ..Options::default() };
    let (start, length) = (Instant::ZERO + Duration::from_secs(slots / 4), Duration::from_secs(slots / 2));
    let incast = Incast::onto_last_server(&fabric, INCAST, start, length);
    let traffic = match &incast {
        Some(incast) => Traffic::incast(&fabric, options.seed, incast),
        None => Traffic::jobs(&fabric, options.seed),
    };
    let server = incast.map(|incast| Printable(fabric.device(incast.to).host()).to_string());
    let mut sim = SimFabric::with_traffic(fabric, options, traffic);
    let dead: Vec<DeviceId> = hosts.get(hosts.len() / 3).into_iter().chain(hosts.get(hosts.len() * 2 / 3)).copied().collect();
    let names: Vec<_> = dead.iter().map(|id| Printable(sim.fabric().device(*id).host()).to_string()).collect();
    dead.into_iter().for_each(|id| sim.set_dead(id, true));
    if let Some(server) = server {
        writeln!(out, "traffic   jobs, and for {} s {INCAST} hosts that all send to {server}", length.as_secs())?;
    }
    writeln!(out, "fabric    {}, simulated; dead: {}; one MAD in {ONE_LOST_IN} is lost", net.display(), names.join(" "))?;
    Ok(sim)
}

/// Every sampler on a thread of its own, as it would be on a host of its own; returns the files of their lines.
fn sweep(fabric: &Arc<Mutex<SimFabric>>, samplers: &[Sampler], folder: &Path, slots: u64) -> anyhow::Result<Vec<PathBuf>> {
    let bar = Progress::new(slots * samplers.len() as u64, "slots");
    let (done, control) = (AtomicU64::new(0), Control::default());
    let run = |seed: usize, sampler: &Sampler, file: &Path| -> anyhow::Result<()> {
        // A demo begins anew; the service would append.
        let _ = fs::remove_file(file);
        let to_file = Destination::File(FileOptions { path: file.to_owned(), ..FileOptions::default() });
        let (outlet, writers) = sink::open(&[to_file.into()])?;
        let settings = DriverSettings {
            sampler: sampler.host.clone(),
            ca: "sim".to_owned(),
            ca_port: PortNum(1),
            is_secondary: false,
            interval: Duration::from_secs(1),
            offset: Duration::ZERO,
            aligned: true,
            sweeps: Some(slots),
            assignments_sha256: None,
            engine: engine::Config::default(),
        };
        let driver = Driver::new(
            SweepPlan::new(sampler),
            settings,
            SimTransport::new(Arc::clone(fabric)),
            SystemClock::start(),
            outlet,
            seed as u64,
        );
        let writer = thread::spawn(|| writers.into_iter().map(Writer::run).collect::<Vec<_>>());
        driver.run(&control, |_| bar.set(done.fetch_add(1, Ordering::Relaxed) + 1))?;
        writer.join().map_err(|_| anyhow::anyhow!("the writer of {} ended early", file.display()))?;
        Ok(())
    };
    // A host's name is no path: the files are numbered.
    let files: Vec<PathBuf> = (1..=samplers.len()).map(|number| folder.join(format!("sampler{number:02}.jsonl"))).collect();
    thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> =
            samplers.iter().zip(&files).enumerate().map(|(seed, (sampler, file))| scope.spawn(move || run(seed, sampler, file))).collect();
        running.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow::anyhow!("a sampler ended early"))?)
    })?;
    bar.finish();
    Ok(files)
}
