//! `ibnet-view routing`: what the forwarding tables do to all pairs of hosts.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use ibnet::topology::{Device, Fabric, net_file};
use ibnet_analysis::routing::{
    self, Census, End, Net, NetPort, PathSls, Paths, Role, SlToVl, bisection, credit_loops,
};
use ibnet_record::types::NodeKind;
use ibnet_view::text;

use crate::Failure;
use crate::common;
use crate::errors::FOUND;
use crate::format::{self, Format};
use crate::routes_of::RoutesOf;

/// Check the forwarding tables of a fabric: lost pairs, dead ports, paths of each uplink, effective
/// bisection bandwidth, credit loops
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Forwarding tables: output of dump_fts, ibdiagnet2.fdbs, the dumps of opensm, or lines
    /// (.jsonl) or archives with `routes` records; also patterns. Repeatable
    #[arg(long, value_name = "FILE|FOLDER|-", required = true)]
    routes: Vec<PathBuf>,
    /// Net file of the same time: output of `ibnet-gen discover` or ibnetdiscover
    #[arg(long, value_name = "FILE")]
    net: PathBuf,
    /// Virtual lane of each service level: opensm-sl2vl.dump of opensm. Without it and without
    /// records that have them, all packets use one virtual lane
    #[arg(long, value_name = "FILE|-")]
    sl2vl: Option<PathBuf>,
    /// Service level of each pair of hosts: opensm-path-records.dump of opensm. Without it, credit
    /// loops are only possible ones
    #[arg(long, value_name = "FILE|-")]
    path_sl: Option<PathBuf>,
    /// Seed of the random bisections
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of rows in each table of the text
    #[arg(long, value_name = "N", default_value = "10", value_parser = common::at_least_one)]
    top: NonZeroUsize,
    /// Exit with code 3 if pairs are lost, a table is missing or has a port without a link, or
    /// there is a credit loop
    #[arg(long)]
    check: bool,
    /// Format of the result
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "text|json|csv"
    )]
    format: Format,
    /// Write the result to a file instead of standard output
    #[arg(short, long, value_name = "FILE|-")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Each HCA port sends to each other one; SHARP aggregation nodes and routers do not. An uplink
leads to a switch of the same or a higher tier. The ratio is that of the uplink with most
paths to the mean of the switch: 1 is ideal.

The effective bisection bandwidth is what hosts can send if a random half sends to the other
half, each host to one other: the mean over many such patterns, as a share of the rate of the
hosts' links. A credit loop is a cycle of ports that can wait for each other for ever.

With adaptive routing, switches choose other ports than those of the tables.

Examples:
  ibnet-gen discover -o net.p && dump_fts > routes.txt
  ibnet-view routing --routes routes.txt --net net.p
  ibnet-view routing --routes routes.txt --net net.p --check --format json -o routing.json
  ibnet-view routing --routes opensm-lfts.dump --net net.p \\
      --sl2vl opensm-sl2vl.dump --path-sl opensm-path-records.dump";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let fabric = net_file::read(&args.net)?.fabric;
    let recorded = RoutesOf::open(&args.routes)?.newest()?;
    let lanes = args.sl2vl.as_deref().map(SlToVl::read).transpose()?;
    let lanes = lanes.as_ref().unwrap_or(&recorded.lanes);
    let path_sls = args.path_sl.as_deref().map(PathSls::read).transpose()?;
    let net = net(&fabric);
    let paths = Paths::new(&net, &recorded.routes);
    let census = Census::of(&paths);
    let bisection = bisection(&paths, args.seed);
    let lanes = Some(lanes).filter(|lanes| !lanes.is_empty());
    let loops = credit_loops(&paths, path_sls.as_ref(), lanes);
    let rows = routing::routing_rows(&paths, &census, &recorded.adaptive(), bisection, &loops);
    let output = args.output.as_deref();
    match args.format {
        Format::Text => {
            let report = text::routing::report(&rows, &census, bisection, &loops, args.top.get());
            format::write(report.as_bytes(), output)?;
        }
        Format::Document(document) => {
            let written = |path: &PathBuf| path.metadata().and_then(|file| file.modified()).ok();
            let newest = args.routes.iter().filter_map(written).max();
            let since = newest.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
            let time = since.map_or(0, |since| since.as_nanos() as u64);
            document.write((time, time), &rows, output)?;
        }
    }
    let is_faulty = rows.iter().any(|row| row.what.is_fault());
    Ok(if args.check && is_faulty {
        ExitCode::from(FOUND)
    } else {
        ExitCode::SUCCESS
    })
}

/// Returns the devices and links of a net file.
fn net(fabric: &Fabric) -> Net {
    let role = |device: &Device| match device.kind {
        NodeKind::Switch => Role::Switch,
        NodeKind::Hca if !fabric.is_aggregation_node(device) => Role::Host,
        NodeKind::Hca | NodeKind::Router => Role::Other,
    };
    let ports = fabric.devices().iter().flat_map(|device| {
        let own = role(device);
        device.ports.iter().map(move |port| NetPort {
            own: End {
                guid: device.guid,
                port: port.num,
                lid: device.lid,
                role: own,
                name: &device.name,
            },
            peer: port.peer.as_ref().map(|peer| {
                let found = fabric.find(peer.guid, peer.port);
                let of_kind = match peer.kind {
                    NodeKind::Switch => Role::Switch,
                    NodeKind::Hca => Role::Host,
                    NodeKind::Router => Role::Other,
                };
                End {
                    guid: peer.guid,
                    port: peer.port,
                    lid: peer.lid,
                    role: found.map_or(of_kind, |id| role(fabric.device(id))),
                    name: &peer.name,
                }
            }),
            gbps: port.rate.data_gbps(),
        })
    });
    Net::new(ports)
}
