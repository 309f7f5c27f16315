//! `ibnet-gen topology`: the fabric as a tree of switches, for schedulers.

use std::path::PathBuf;

use ibnet::cli::{self, Staged};
use ibnet::partition::hosts;
use ibnet::scheduler::{Selection, Tree};
use ibnet::topology::net_file;
use ibnet_record::types::Printable;

use super::files::{self, Use};
use super::{Failure, NET, discover};

/// Write the switches and hosts of the fabric for Slurm or Kubernetes
///
/// A host is on the leaf switch of its first HCA, and only if both ends of the cable agree. The
/// spines of a pod become one switch. Fabrics without a connection have roots of their own.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Net file; `-` is standard input; umad, or umad:NAME:PORT, discovers the fabric now (may be
    /// repeated, for several subnets)
    #[arg(long, value_name = "FILE|-|umad", required = true)]
    net: Vec<PathBuf>,
    /// slurm-tree: topology.conf for topology/tree. slurm-block: for topology/block of Slurm 23.11
    /// and newer. kubernetes: commands that set the node labels of topograph
    #[arg(
        long,
        value_enum,
        value_name = "slurm-tree|slurm-block|kubernetes",
        hide_possible_values = true
    )]
    format: Format,
    /// Hosts of the scheduler [default: all hosts]
    #[arg(long, value_name = "HOSTLIST")]
    hosts: Option<String>,
    /// HCAs that do not place a host, such as those of the storage (may be repeated)
    #[arg(long, value_name = "HCA")]
    storage: Vec<String>,
    /// File to write; `-` is standard output
    #[arg(short, long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Format {
    SlurmTree,
    SlurmBlock,
    Kubernetes,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-gen topology --net fabric.p --format slurm-tree -o topology.conf
  ibnet-gen topology --net fabric.p --format slurm-tree --hosts 'node[001-512]'
  ibnet-gen topology --net fabric.p --format slurm-block --storage mlx5_4
  ibnet-gen topology --net fabric.p --format kubernetes | sh

Hosts that are left out are named on standard error.";

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let net = args.net.iter().map(|path| (NET, &**path, Use::Read));
    files::check(
        &net.chain([("--output", &*args.output, Use::Write)])
            .collect::<Vec<_>>(),
    )?;
    let files: Vec<_> = args
        .net
        .iter()
        .map(|path| discover::net(path))
        .collect::<Result<_, _>>()?;
    let nets = net_file::parse_all(&files)?;
    let hosts = args.hosts.as_deref().map(hosts::parse_list).transpose()?;
    let selection = Selection {
        hosts: hosts.map(|hosts| hosts.into_iter().map(|host| host.host).collect()),
        storage: args.storage.iter().cloned().collect(),
    };
    let tree = Tree::new(&nets, &selection);
    if tree.switches.is_empty() {
        return Err(Failure::NoHost);
    }
    for note in &tree.notes {
        cli::note(&format!("left out  {}\n", Printable(note)));
    }
    let text = match args.format {
        Format::SlurmTree => tree.slurm_tree(),
        Format::SlurmBlock => tree.slurm_block(),
        Format::Kubernetes => tree.kubernetes(),
    };
    Ok(Staged::new(&args.output, text.as_bytes())?.commit()?)
}
