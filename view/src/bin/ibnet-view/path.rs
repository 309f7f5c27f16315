//! `ibnet-view path`: the links between two hosts, by the forwarding tables.

use std::path::PathBuf;

use ibnet_analysis::links;
use ibnet_analysis::ports::Ports;
use ibnet_analysis::routing::{self, DeviceIndex, Net, Paths, Stopped};
use ibnet_analysis::shares::Distributions;
use ibnet_analysis::stat::Stat;
use ibnet_record::types::Printable;
use ibnet_view::text;

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};
use crate::routes_of::RoutesOf;

/// Show the links from one host to another by the forwarding tables, with load, blocked time and
/// errors of each
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Sender: a host, a switch, a node description, or a port GUID
    #[arg(value_name = "FROM")]
    sender: String,
    /// Receiver
    #[arg(value_name = "TO")]
    receiver: String,
    #[command(flatten)]
    recorded: Recorded,
    /// Forwarding tables: output of dump_fts, ibdiagnet2.fdbs, the dumps of opensm, or lines
    /// (.jsonl) or archives with `routes` records; also patterns. Repeatable. Without it, the
    /// `routes` records in FILES
    #[arg(long, value_name = "FILE|FOLDER|-")]
    routes: Vec<PathBuf>,
    /// Statistic of utilization and blocked time over the time range: mean, peak, or a percentile
    /// of the slots
    #[arg(long, value_name = "mean|peak|pNN", default_value_t)]
    stat: Stat,
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
The links come from the records, which name the peer of each port, and the choice of the
port from the forwarding tables. The way back can be another one: exchange FROM and TO.
Of hosts with several HCAs, each HCA sends to the one with the same name. With adaptive
routing, a switch can choose another port than that of its table.

Examples:
  ibnet-view path node001 node042 lines/*.jsonl --routes routes.txt
  ibnet-view path node001 node042 lines/*.jsonl --routes routes.txt --from -10s
  ibnet-view path 'node001 mlx5_3' oss1 lines/*.jsonl --routes routes.txt --stat p95";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let routes = RoutesOf::open_or(&args.routes, &inputs, true)?;
    let empty = (Ports::with_bins(0), Distributions::for_stat(args.stat));
    let ((ports, distributions), summary) = common::read(&inputs, &empty)?;
    let ports = ports.finish();
    let routes = routes.within(&inputs)?.unwrap_or_default();
    let net = Net::of_records(&ports, &routes);
    let paths = Paths::new(&net, &routes);
    let links = links::find_by(&ports, args.stat, &distributions);
    let mut rows = Vec::new();
    let mut report = common::time_range(&summary)?;
    let senders = devices(&net, &args.sender)?;
    let receivers = devices(&net, &args.receiver)?;
    for (from, to) in routing::pairs(&net, &senders, &receivers) {
        let mut path = Vec::new();
        if let Err(stopped) = paths.trace(from, to, &mut path) {
            return Err(no_path(&paths, (from, to), stopped));
        }
        let of_path = routing::path_rows(&paths, &path, &links, args.stat);
        report += &text::path::report(&of_path, paths.lid(to));
        rows.extend(of_path);
    }
    let output = args.output.as_deref();
    match args.format {
        Format::Text => format::write(report.as_bytes(), output),
        Format::Document(document) => document.write(common::span(&summary)?, &rows, output),
    }
}

/// Returns the devices with a name.
fn devices(net: &Net, name: &str) -> Result<Vec<DeviceIndex>, Failure> {
    let found = net.find(name);
    if found.is_empty() {
        Err(Failure::NoDevice {
            name: name.to_owned(),
        })
    } else {
        Ok(found)
    }
}

/// Returns the error for a path that does not come to its end.
fn no_path(paths: &Paths<'_>, (from, to): (DeviceIndex, DeviceIndex), stopped: Stopped) -> Failure {
    let name = |device: DeviceIndex| {
        let name = &paths.net.devices()[device as usize].name;
        Printable(name.trim()).to_string()
    };
    Failure::NoPath {
        from: name(from),
        to: name(to),
        why: stopped.reason(paths, to),
    }
}
