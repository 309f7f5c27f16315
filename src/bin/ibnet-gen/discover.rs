//! `ibnet-gen discover`: discovers the fabric and writes a net file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ibnet::cli::{self, Progress, Staged};
use ibnet::discovery::{self, Discovered, DiscoveryError};
use ibnet::mad::transport::sim::traffic::Traffic;
use ibnet::mad::transport::sim::{Options, SimFabric, SimTransport};
use ibnet::sweep::driver::SystemClock;
use ibnet::topology::net_file;
use ibnet_record::limits;
use ibnet_record::types::{HcaName, Printable};

use super::Failure;
use super::files::{self, Use};

/// Discover the fabric and write a net file, with the same lines as `ibnetdiscover -p`
///
/// Only Get requests of subnet management are sent (NodeInfo, NodeDescription, PortInfo), with
/// directed routes, at most 64 at once and one to the end of each route. Devices that do not answer
/// are named on standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// HCA port that sends [default: the only active InfiniBand port]
    #[arg(long, value_name = "NAME[:PORT]")]
    ca: Option<HcaName>,
    /// Discover the fabric of this net file, simulated in this process; no InfiniBand is needed
    #[arg(long, value_name = "FILE|-", conflicts_with = "ca")]
    simulate: Option<PathBuf>,
    /// Net file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-gen discover -o fabric.p
  ibnet-gen discover --ca mlx5_1:1 -o rail1.p
  ibnet-gen discover --simulate fabric.p | sort | diff - <(sort fabric.p)

--net umad discovers the fabric for one command, without a file.

Exit codes: 0 success, even if some devices did not answer; 1 nothing was found, and no
file was written; 2 wrong arguments.";

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let found = match &args.simulate {
        None => of_fabric(&args.ca.clone().unwrap_or_default())?,
        Some(net) => {
            files::check(&[
                ("--simulate", net, Use::Read),
                ("--output", &args.output, Use::Write),
            ])?;
            simulated(net)?
        }
    };
    Ok(Staged::new(&args.output, found.net_file.as_bytes())?.commit()?)
}

/// Returns the name and the content of a net file, or of the fabric if the path stands for it.
pub(super) fn net(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    match discovery::hca_of(path) {
        Some(hca) => Ok((
            path.display().to_string(),
            of_fabric(&hca)?.net_file.into_bytes(),
        )),
        None => Ok((cli::name_of(path), cli::read(path, limits::NET_FILE)?)),
    }
}

fn of_fabric(hca: &HcaName) -> Result<Discovered, Failure> {
    shown(|progress| discovery::discover_from(hca, cli::random_seed(), progress))
}

fn simulated(net: &Path) -> Result<Discovered, Failure> {
    let bytes = cli::read(net, limits::NET_FILE)?;
    let fabric = net_file::parse(&bytes, &cli::name_of(net))?.fabric;
    let traffic = Traffic::none();
    let simulated = SimFabric::with_traffic(fabric, Options::default(), traffic);
    let mut transport = SimTransport::new(Arc::new(Mutex::new(simulated)));
    shown(|progress| {
        let (clock, seed) = (SystemClock::start(), cli::random_seed());
        Ok(discovery::discover(&mut transport, &clock, seed, progress)?)
    })
}

/// Shows the progress of a discovery, and what is missing or doubtful in its result.
fn shown(
    discover: impl FnOnce(&mut dyn FnMut((u64, u64))) -> Result<Discovered, DiscoveryError>,
) -> Result<Discovered, Failure> {
    let bar = Progress::new(0, "requests");
    let found = discover(&mut |(done, needed)| bar.set_of(done, needed));
    bar.finish();
    let found = found?.checked()?;
    for note in &found.notes {
        cli::note(&format!("partial   {}\n", Printable(note)));
    }
    let ports = found.net_file.lines().count();
    cli::note(&format!(
        "found     {ports} ports with {} MADs{}\n",
        found.mads,
        match found.notes.len() {
            0 => "",
            _ => "; the lines above name what is missing",
        }
    ));
    Ok(found)
}
