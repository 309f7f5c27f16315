//! Report on the traffic of a job.

use std::fmt::{self, Write};

use ibnet::types::Printable;
use ibnet_analysis::job::{Job, Node};

use super::{count, percent, table};

/// Largest number of nodes and of links in the tables.
const MOST: usize = 32;

/// Writes sums, a table of the nodes and a table of the links to other switches.
pub fn report(job: &Job) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_sums(&mut text, job).and_then(|()| write_nodes(&mut text, job)).and_then(|()| write_links(&mut text, job));
    text
}

fn write_sums(text: &mut String, job: &Job) -> fmt::Result {
    let ports: usize = job.nodes.iter().map(|node| node.ports).sum();
    let sum = |value: fn(&Node) -> f64| job.nodes.iter().map(value).sum::<f64>();
    let (nodes, ports, leaves) = (count(job.nodes.len(), "node"), count(ports, "port"), count(job.leaves.len(), "leaf switch"));
    writeln!(text, "{nodes} with {ports} on {leaves}")?;
    if !job.missing.is_empty() {
        let names: Vec<_> = job.missing.iter().take(MOST).map(|name| Printable(name).to_string()).collect();
        let more = job.missing.len().saturating_sub(MOST);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        writeln!(text, "without records: {}{more}", names.join(" "))?;
    }
    writeln!(text, "injected  {}", octets(sum(|node| node.injected_bytes)))?;
    writeln!(text, "ejected   {}", octets(sum(|node| node.ejected_bytes)))?;
    writeln!(text, "blocked   {:.1} s, summed over the ports", sum(|node| node.blocked_seconds))?;
    let local = &job.stays;
    if local.injected_bytes > 0.0 {
        let share = |bytes: f64| percent(Some(bytes / local.injected_bytes));
        let [least, about, most] = [local.least_bytes, local.estimate_bytes, local.most_bytes].map(share);
        writeln!(text, "stays     between {least} and {most}, about {about} of the injected traffic stayed on its leaf switch")?;
    }
    Ok(())
}

fn write_nodes(text: &mut String, job: &Job) -> fmt::Result {
    let mut nodes: Vec<_> = job.nodes.iter().collect();
    nodes.sort_by(|a, b| b.injected_bytes.total_cmp(&a.injected_bytes));
    let mut table = table::new();
    table.set_header(["node", "ports", "injected", "ejected", "blocked", "peak"]);
    for node in nodes.iter().take(MOST) {
        let host = Printable(&node.host).to_string();
        let (blocked, peak) = (percent(node.blocked), percent(node.blocked_peak));
        table.add_row([host, node.ports.to_string(), octets(node.injected_bytes), octets(node.ejected_bytes), blocked, peak]);
    }
    writeln!(text, "\n{}", table::to_text(table, &[1, 2, 3, 4, 5]))?;
    if nodes.len() > MOST {
        writeln!(text, "and {} more nodes that injected less", nodes.len() - MOST)?;
    }
    Ok(())
}

fn write_links(text: &mut String, job: &Job) -> fmt::Result {
    if !job.uplinks.is_empty() {
        let mut table = table::new();
        table.set_header(["link", "to", "up Gb/s", "of the job", "down Gb/s", "of the job", "used", "blocked"]);
        for link in job.uplinks.iter().take(MOST) {
            let [up, own_up, down, own_down] =
                [link.up_gbps, link.job_up_gbps, link.down_gbps, link.job_down_gbps].map(|gbps| format!("{gbps:.1}"));
            table.add_row([&link.port, &link.to, &up, &own_up, &down, &own_down, &percent(link.used), &percent(link.blocked)]);
        }
        writeln!(text, "\n{}", table::to_text(table, &[2, 3, 4, 5, 6, 7]))?;
        if job.uplinks.len() > MOST {
            writeln!(text, "and {} more links with less traffic of the job", job.uplinks.len() - MOST)?;
        }
    }
    let (own, all) = job.leaves.iter().fold((0.0, 0.0), |(own, all), leaf| (own + leaf.injected_bytes, all + leaf.all_injected_bytes));
    if all > 0.0 {
        writeln!(text, "\nOther hosts injected {} of the traffic of these leaf switches.", percent(Some(1.0 - own / all)))?;
    }
    writeln!(
        text,
        "Port counters have no destinations, so two values are estimates. \"stays\" is the traffic from the hosts of a leaf switch minus\n\
         its traffic to other switches, times the job's part of it. \"of the job\" is the traffic of the link times the job's part.\n\
         Blocked time at the ports of the job can be caused by the job itself or by others."
    )
}

fn octets(bytes: f64) -> String {
    format!("{:.3} GB", bytes / 1e9)
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::ports::Ports;

    use super::*;
    use crate::fixtures::{fold, job_lines};

    #[test]
    fn report_has_sums_tables_and_the_limits_of_the_estimates() {
        let names = ["n1".to_owned(), "n2".to_owned(), "gone".to_owned()];
        let text = report(&Job::of(&fold(Ports::with_bins(8), &job_lines(true)).finish(), &names));
        for part in
            ["2 nodes with 2 ports", "without records: gone", "between 33.3 % and 66.7 %, about 50.0 %", "leaf port 9", "destinations"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
