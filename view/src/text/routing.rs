//! Report on forwarding tables.

use ibnet_analysis::ports::PortName;
use ibnet_analysis::routing::{Bisection, Census, Certainty, CyclePort, Loops, RoutingRow, What};
use ibnet_record::types::Printable;

use super::{count, percent, table};

/// Writes the results: first what is wrong, then the uplinks, the effective bisection bandwidth and
/// the credit loops. `top` is the max number of rows of each table.
pub fn report(
    rows: &[RoutingRow],
    census: &Census,
    bisection: Option<Bisection>,
    loops: &Loops,
    top: usize,
) -> String {
    let of = |what: What| rows.iter().filter(move |row| row.what == what);
    let lost = census.lost_pairs();
    let mut text = format!(
        "{}, {} pairs: {}\n",
        count(census.hosts, "HCA port"),
        census.pairs,
        if lost == 0 {
            "all packets arrive".to_owned()
        } else {
            format!("packets of {lost} do not arrive")
        }
    );
    if census.left_out > 0 {
        let ports = count(census.left_out, "HCA port");
        text += &format!("left out: {ports} without a LID or a link to a switch\n");
    }
    text += &faults(rows, top);
    let uplinks: Vec<_> = of(What::Uplinks).collect();
    if !uplinks.is_empty() {
        text += &format!(
            "\npaths of uplinks, of {}\n\n",
            count(uplinks.len(), "switch")
        );
        let mut table = table::new();
        table.set_header(["port with most", "to", "uplinks", "most", "mean", "ratio"]);
        for row in uplinks.iter().take(top) {
            let (most, mean) = (row.most.unwrap_or(0) as f64, row.mean.unwrap_or(0.0));
            let ratio = if mean > 0.0 {
                format!("{:.2}", most / mean)
            } else {
                "-".to_owned()
            };
            table.add_row([
                name(row.at.as_ref()),
                name(row.to.as_ref()),
                number(row.links.map(|links| links as u64)),
                number(row.most),
                format!("{mean:.1}"),
                ratio,
            ]);
        }
        text += &table::to_text(table, &[2, 3, 4, 5]);
        text += &more(uplinks.len(), top);
    }
    let unequal: Vec<_> = of(What::UnequalLinks).collect();
    if !unequal.is_empty() {
        let switches = count(unequal.len(), "switch");
        text += &format!("\nunequal numbers of links upwards: {switches}\n\n");
        let mut table = table::new();
        table.set_header(["switch", "fewest to", "links", "most links"]);
        for row in unequal.iter().take(top) {
            table.add_row([
                device(row.at.as_ref()),
                device(row.to.as_ref()),
                number(row.links.map(|links| links as u64)),
                number(row.most),
            ]);
        }
        text += &table::to_text(table, &[2, 3]);
        text += &more(unequal.len(), top);
    }
    let adaptive: Vec<_> = of(What::AdaptiveRouting).map(adaptive).collect();
    if !adaptive.is_empty() {
        text += &format!(
            "\nadaptive routing (from AdaptiveRoutingInfo, not seen on hardware): {}\n",
            adaptive.join(", ")
        );
    }
    if let Some(Bisection {
        share,
        error,
        patterns,
    }) = bisection
    {
        text += &format!(
            "\neffective bisection bandwidth: {} of the hosts' links (standard error {}, {patterns} random patterns)\n",
            percent(Some(share)),
            percent(Some(error))
        );
    }
    text + &credit_loops(rows, loops, top)
}

/// Describes the settings of adaptive routing of some switches.
fn adaptive(row: &RoutingRow) -> String {
    let sls = row.adaptive_sls.unwrap_or(0);
    let switches = count(row.switches.unwrap_or(0), "switch");
    let names: Vec<_> = (0..16)
        .filter(|sl| sls >> sl & 1 != 0)
        .map(|sl: u8| sl.to_string())
        .collect();
    let groups = row.adaptive_group_top;
    let groups = groups.map_or_else(String::new, |top| format!(" with groups 0 to {top}"));
    match &*names {
        [] => format!("off at {switches}"),
        [sl] => format!("on at {switches} for SL {sl}{groups}"),
        sls => format!("on at {switches} for SLs {}{groups}", sls.join(" ")),
    }
}

fn faults(rows: &[RoutingRow], top: usize) -> String {
    let faults: Vec<_> = rows
        .iter()
        .filter(|row| row.what.is_fault() && row.cycle.is_empty())
        .collect();
    if faults.is_empty() {
        return String::new();
    }
    let mut table = table::new();
    table.set_header(["fault of a table", "at", "to", "LIDs", "lost pairs"]);
    for row in faults.iter().take(top) {
        let what = match row.what {
            What::DeadPort => "port without a link",
            What::NoRoute => "no port for the LID",
            What::NoTable => "no table in the file",
            What::ForwardingLoop => "loop of switches",
            _ => "port to another host",
        };
        let is_port = row.at.as_ref().is_some_and(|at| at.port.0 > 0);
        let at = row.at.as_ref();
        table.add_row([
            what.to_owned(),
            if is_port { name(at) } else { device(at) },
            name(row.to.as_ref()),
            number(row.lids),
            number(row.lost_pairs),
        ]);
    }
    format!(
        "\n{}{}",
        table::to_text(table, &[3, 4]),
        more(faults.len(), top)
    )
}

fn credit_loops(rows: &[RoutingRow], loops: &Loops, top: usize) -> String {
    let found = loops.loops.len();
    let mut text = match loops.certainty {
        Certainty::Never => {
            return "credit loops: none, with any service levels and virtual lanes\n".to_owned();
        }
        Certainty::Known if found == 0 => "credit loops: none\n".to_owned(),
        Certainty::Known => format!("credit loops: {found}\n"),
        Certainty::Possible if loops.without_lanes > 0 => match found {
            0 => "credit loops: none found, but not all can be excluded\n".to_owned(),
            found => format!("credit loops: {found} possible\n"),
        },
        Certainty::Possible if found == 0 => {
            "credit loops: none if all pairs use one service level; give --path-sl if they use several\n"
                .to_owned()
        }
        Certainty::Possible => format!(
            "credit loops: {found} possible; give --sl2vl and --path-sl to see whether they exist\n"
        ),
    };
    if loops.without_lanes > 0 {
        let switches = count(loops.without_lanes, "switch");
        text += &format!(
            "missing: SL-to-VL rows of {switches}, whose packets were taken to use VL 0; give --sl2vl with all switches\n"
        );
    }
    if loops.left_out > 0 {
        let pairs = loops.left_out;
        text += &format!("left out: {pairs} pairs whose service level is not in the file\n");
    }
    let cycles = rows.iter().filter(|row| !row.cycle.is_empty());
    for row in cycles.take(top) {
        text += &match (row.what, row.sl) {
            (What::CreditLoop, _) => "\nloop:\n".to_owned(),
            (_, Some(sl)) => format!("\npossible if SL {sl} were used by all pairs:\n"),
            (_, None) if loops.without_lanes > 0 => "\npossible:\n".to_owned(),
            (_, None) => "\npossible if all packets used one virtual lane:\n".to_owned(),
        };
        for CyclePort {
            guid,
            port,
            node,
            vl,
        } in &row.cycle
        {
            let port = PortName::new(node, (*guid, *port));
            text += &match loops.certainty {
                Certainty::Possible if row.sl.is_none() && loops.without_lanes == 0 => {
                    format!("  {port}\n")
                }
                _ => format!("  {port}, VL {vl}\n"),
            };
        }
    }
    text + &more(found, top)
}

fn more(all: usize, top: usize) -> String {
    if all > top {
        format!("\nand {} more (--top, --format json)\n", all - top)
    } else {
        "\n".to_owned()
    }
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn name(port: Option<&PortName>) -> String {
    port.map_or_else(String::new, PortName::to_string)
}

/// Writes the name of a switch.
fn device(switch: Option<&PortName>) -> String {
    let Some(PortName { guid, node, .. }) = switch else {
        return String::new();
    };
    let node = node.trim();
    if node.is_empty() {
        guid.to_string()
    } else {
        Printable(node).to_string()
    }
}
