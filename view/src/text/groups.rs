//! Report on the traffic of groups of hosts.

use std::fmt::{self, Write};

use ibnet_analysis::groups::traffic::GroupTraffic;
use ibnet_analysis::job::imbalance::Imbalance;
use ibnet_record::types::Printable;

use super::job::octets;
use super::{count, phases, table};
use crate::picture::groups::sender_name;

/// Largest number of hosts and of senders in the tables.
const MAX: usize = 32;

/// Writes sums, a table of the hosts and a table of the senders of each group.
pub fn report(groups: &[GroupTraffic]) -> String {
    let mut text = String::new();
    for group in groups {
        // Writing to a `String` cannot fail.
        let _ = write_group(&mut text, group);
    }
    text + "Port counters have no destinations. \"least\" and \"most\" are bounds of what a sender sent to the group; the bounds assume\n\
            that hosts of the group do not send to each other. \"estimate\" divides the received octets among the senders, by what\n\
            each sent and by its correlation (\"corr.\") with what the group received. The sender can be a cause or only be similar.\n\
            \"known\" is the time in which the bytes of a host or the bounds of a sender are known.\n"
}

fn write_group(text: &mut String, traffic: &GroupTraffic) -> fmt::Result {
    let name = Printable(&traffic.group);
    writeln!(
        text,
        "{name}: {} with records",
        count(traffic.targets.len(), "host")
    )?;
    if !traffic.missing.is_empty() {
        let names: Vec<_> = traffic
            .missing
            .iter()
            .take(MAX)
            .map(|name| Printable(name).to_string())
            .collect();
        writeln!(text, "without records: {}", names.join(" "))?;
    }
    for (what, bytes, imbalance) in [
        ("received", traffic.in_bytes, traffic.in_imbalance),
        ("sent", traffic.out_bytes, traffic.out_imbalance),
    ] {
        write!(text, "{what:9} {}", octets(bytes))?;
        if let Imbalance {
            max_to_mean: Some(most),
            variation: Some(variation),
            gini: Some(gini),
        } = imbalance
        {
            write!(
                text,
                "; busiest host {most:.2} times the mean, coefficient of variation {variation:.2}, Gini {gini:.2}"
            )?;
        }
        writeln!(text)?;
    }
    if let Some(known) = traffic.known() {
        writeln!(text, "covered   {known}")?;
    }
    let seconds = |seconds: f64| format!("{seconds:.1} s");
    let mut hosts = table::new();
    hosts.set_header([
        "host",
        "ports",
        "received",
        "peak Gb/s",
        "sent",
        "peak Gb/s",
        "known",
    ]);
    let peak = |gbps: Option<f64>| gbps.map_or_else(|| "-".to_owned(), |gbps| format!("{gbps:.1}"));
    for target in traffic.targets.iter().take(MAX) {
        hosts.add_row([
            Printable(&target.host).to_string(),
            target.ports.to_string(),
            octets(target.in_bytes),
            peak(target.in_peak_gbps),
            octets(target.out_bytes),
            peak(target.out_peak_gbps),
            seconds(target.covered_seconds),
        ]);
    }
    writeln!(text, "\n{}", table::to_text(hosts, &[1, 2, 3, 4, 5, 6]))?;
    if traffic.targets.len() > MAX {
        writeln!(
            text,
            "and {} more hosts that received less",
            traffic.targets.len() - MAX
        )?;
    }
    let mut senders = table::new();
    senders.set_header([
        "sender",
        "sent to all",
        "least",
        "estimate",
        "most",
        "corr.",
        "known",
    ]);
    for sender in traffic.senders.iter().take(MAX) {
        senders.add_row([
            Printable(&sender_name(sender)).to_string(),
            octets(sender.sent_bytes),
            octets(sender.least_bytes),
            octets(sender.estimate_bytes),
            octets(sender.most_bytes),
            sender
                .correlation
                .map_or_else(|| "-".to_owned(), |correlation| format!("{correlation:.2}")),
            seconds(sender.covered_seconds),
        ]);
    }
    writeln!(text, "\n{}", table::to_text(senders, &[1, 2, 3, 4, 5, 6]))?;
    if traffic.senders.len() > MAX {
        writeln!(
            text,
            "and {} more senders with smaller estimates",
            traffic.senders.len() - MAX
        )?;
    }
    writeln!(text, "{}", phases::report(&traffic.phases))
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::job::all::{AllJobs, JobList};

    use super::*;
    use crate::fixtures::{fold, job_lines};

    #[test]
    fn report_has_the_hosts_and_the_senders_with_their_bounds() {
        let flows = fold(AllJobs::new(JobList::new(&[]), None), &job_lines(true))
            .flows()
            .unwrap();
        let text = report(&[GroupTraffic::of(
            &"storage=N2,oss9".parse().unwrap(),
            &flows,
        )]);
        // N2 received 12 Gb/s for two seconds, and sent 4 and 8.
        for part in [
            "storage: 1 host with records",
            "without records: oss9",
            "received  3.000 GB; busiest host 1.00 times",
            "sent      1.500 GB",
            "n1",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
