//! Report on the traffic of a job.

use std::fmt::{self, Write};

use ibnet_analysis::job::all::{JobTotal, JobsTraffic};
use ibnet_analysis::job::imbalance::Imbalance;
use ibnet_analysis::job::{Job, Known, Node};
use ibnet_analysis::when::Zone;
use ibnet_record::types::Printable;

use super::{count, percent, table};

/// Largest number of nodes and of links in the tables.
const MAX: usize = 32;

/// Writes sums, a table of the nodes and a table of the links to other switches.
pub fn report(job: &Job) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = write_sums(&mut text, job)
        .and_then(|()| write_nodes(&mut text, job))
        .and_then(|()| write_links(&mut text, job));
    text
}

fn write_sums(text: &mut String, job: &Job) -> fmt::Result {
    let ports: usize = job.nodes.iter().map(|node| node.ports).sum();
    let sum = |value: fn(&Node) -> f64| job.nodes.iter().map(value).sum::<f64>();
    let (nodes, ports, leaves) = (
        count(job.nodes.len(), "node"),
        count(ports, "port"),
        count(job.leaves.len(), "leaf switch"),
    );
    writeln!(text, "{nodes} with {ports} on {leaves}")?;
    if !job.missing.is_empty() {
        let names: Vec<_> = job
            .missing
            .iter()
            .take(MAX)
            .map(|name| Printable(name).to_string())
            .collect();
        let more = job.missing.len().saturating_sub(MAX);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        writeln!(text, "without records: {}{more}", names.join(" "))?;
    }
    writeln!(
        text,
        "injected  {}",
        octets(sum(|node| node.injected_bytes))
    )?;
    writeln!(text, "ejected   {}", octets(sum(|node| node.ejected_bytes)))?;
    if job.blocked_covered_seconds() > 0.0 {
        writeln!(
            text,
            "blocked   {:.1} s, summed over the ports",
            sum(|node| node.blocked_seconds)
        )?;
    } else {
        writeln!(text, "blocked   not known")?;
    }
    let blocked = Some(job.blocked_covered_seconds()).filter(|seconds| *seconds > 0.0);
    if let Some(known) = Known::of(job.covered_seconds(), blocked, job.recorded_seconds) {
        writeln!(text, "covered   {known}")?;
    }
    if let Some(wait) = job.blocked_ns_per_byte {
        writeln!(
            text,
            "wait      {wait:.4} ns blocked for each byte that was sent"
        )?;
    }
    if let Imbalance {
        max_to_mean: Some(most),
        variation: Some(variation),
        gini: Some(gini),
    } = job.imbalance
    {
        writeln!(
            text,
            "balance   largest sender {most:.2} times the mean; coefficient of variation {variation:.2}, Gini {gini:.2}"
        )?;
    }
    let local = &job.stays;
    if local.injected_bytes > 0.0 {
        let share = |bytes: f64| percent(Some(bytes / local.injected_bytes));
        let [least, about, most] =
            [local.least_bytes, local.estimate_bytes, local.most_bytes].map(share);
        writeln!(
            text,
            "stays     between {least} and {most}, about {about} of the injected traffic stayed on its leaf switch"
        )?;
    }
    Ok(())
}

fn write_nodes(text: &mut String, job: &Job) -> fmt::Result {
    let mut nodes: Vec<_> = job.nodes.iter().collect();
    nodes.sort_by(|a, b| b.injected_bytes.total_cmp(&a.injected_bytes));
    let mut table = table::new();
    table.set_header(["node", "ports", "injected", "ejected", "blocked", "peak"]);
    for node in nodes.iter().take(MAX) {
        let host = Printable(&node.host).to_string();
        let (blocked, peak) = (percent(node.blocked), percent(node.blocked_peak));
        table.add_row([
            host,
            node.ports.to_string(),
            octets(node.injected_bytes),
            octets(node.ejected_bytes),
            blocked,
            peak,
        ]);
    }
    writeln!(text, "\n{}", table::to_text(table, &[1, 2, 3, 4, 5]))?;
    if nodes.len() > MAX {
        writeln!(
            text,
            "and {} more nodes that injected less",
            nodes.len() - MAX
        )?;
    }
    Ok(())
}

fn write_links(text: &mut String, job: &Job) -> fmt::Result {
    if !job.uplinks.is_empty() {
        let mut table = table::new();
        table.set_header([
            "link",
            "to",
            "up Gb/s",
            "of the job",
            "down Gb/s",
            "of the job",
            "used",
            "blocked",
        ]);
        for link in job.uplinks.iter().take(MAX) {
            let [up, own_up, down, own_down] = [
                link.up_gbps,
                link.job_up_gbps,
                link.down_gbps,
                link.job_down_gbps,
            ]
            .map(|gbps| format!("{gbps:.1}"));
            table.add_row([
                &link.port,
                &link.to,
                &up,
                &own_up,
                &down,
                &own_down,
                &percent(link.used),
                &percent(link.blocked),
            ]);
        }
        writeln!(text, "\n{}", table::to_text(table, &[2, 3, 4, 5, 6, 7]))?;
        if job.uplinks.len() > MAX {
            writeln!(
                text,
                "and {} more links with less traffic of the job",
                job.uplinks.len() - MAX
            )?;
        }
    }
    let (own, all) = job.leaves.iter().fold((0.0, 0.0), |(own, all), leaf| {
        (own + leaf.injected_bytes, all + leaf.all_injected_bytes)
    });
    if all > 0.0 {
        writeln!(
            text,
            "\nOther hosts injected {} of the traffic of these leaf switches.",
            percent(Some(1.0 - own / all))
        )?;
    }
    writeln!(
        text,
        "Port counters have no destinations, so two values are estimates. \"stays\" is the traffic from the hosts of a leaf switch minus\n\
         its traffic to other switches, times the job's part of it. \"of the job\" is the traffic of the link times the job's part.\n\
         Blocked time at the ports of the job can be caused by the job itself or by others."
    )
}

/// Writes a table of all jobs, with the traffic without a job and the sum.
pub fn report_all(traffic: &JobsTraffic, zone: &Zone) -> String {
    let mut table = table::new();
    table.set_header([
        "job",
        "nodes",
        "start",
        "end",
        "injected",
        "ejected",
        "blocked",
        "ns/byte",
        "max/mean",
        "variation",
        "Gini",
    ]);
    let time = |ns| zone.format(ns, "%Y-%m-%d %H:%M:%S");
    let seconds = |seconds: f64| format!("{seconds:.1} s");
    for job in traffic.jobs.iter().filter(|job| job.job.is_some()) {
        let nodes = if job.missing.is_empty() {
            job.nodes.len().to_string()
        } else {
            format!(
                "{} of {}",
                job.nodes.len(),
                job.nodes.len() + job.missing.len()
            )
        };
        let Imbalance {
            max_to_mean,
            variation,
            gini,
        } = job.imbalance;
        let [most, variation, gini] = [max_to_mean, variation, gini]
            .map(|value| value.map_or_else(dash, |value| format!("{value:.2}")));
        table.add_row([
            Printable(job.job.as_deref().unwrap_or_default()).to_string(),
            nodes,
            job.start_ns.map_or_else(dash, time),
            job.end_ns.map_or_else(|| "running".to_owned(), time),
            octets(job.injected_bytes),
            octets(job.ejected_bytes),
            if job.blocked_covered_seconds > 0.0 {
                seconds(job.blocked_seconds)
            } else {
                dash()
            },
            job.blocked_ns_per_byte
                .map_or_else(dash, |wait| format!("{wait:.4}")),
            most,
            variation,
            gini,
        ]);
    }
    let sum = |value: fn(&JobTotal) -> f64, is_in: fn(&JobTotal) -> bool| {
        traffic
            .jobs
            .iter()
            .filter(|job| is_in(job))
            .map(value)
            .sum::<f64>()
    };
    for (name, is_in) in [
        ("no job", (|job| job.job.is_none()) as fn(&JobTotal) -> bool),
        ("total", |_| true),
    ] {
        let [injected, ejected] = [
            sum(|job| job.injected_bytes, is_in),
            sum(|job| job.ejected_bytes, is_in),
        ]
        .map(octets);
        let is_known = traffic
            .jobs
            .iter()
            .any(|job| is_in(job) && job.blocked_covered_seconds > 0.0);
        let blocked = if is_known {
            seconds(sum(|job| job.blocked_seconds, is_in))
        } else {
            dash()
        };
        table.add_row([name, "", "", "", &injected, &ejected, &blocked]);
    }
    let mut known = String::new();
    for job in traffic.jobs.iter().filter(|job| job.job.is_some()) {
        if let Some(times) = job.known(traffic.recorded_ns) {
            // Writing to a `String` cannot fail.
            let _ = writeln!(
                known,
                "job {}: {times}",
                Printable(job.job.as_deref().unwrap_or_default())
            );
        }
    }
    format!(
        "{}\n{known}\n\
         Values are those within the time of each job. \"blocked\" is summed over the ports of its nodes; \"ns/byte\" is blocked\n\
         time for each byte that was sent. \"max/mean\", \"variation\" and \"Gini\" compare the bytes that the nodes sent: 1, 0\n\
         and 0 if all sent the same. If jobs share a node at the same time, each gets an equal part of its traffic.\n",
        table::to_text(table, &[1, 4, 5, 6, 7, 8, 9, 10])
    )
}

fn dash() -> String {
    "-".to_owned()
}

pub(super) fn octets(bytes: f64) -> String {
    match bytes {
        1e16.. => format!("{:.3} PB", bytes / 1e15),
        1e13.. => format!("{:.3} TB", bytes / 1e12),
        _ => format!("{:.3} GB", bytes / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::hosts::Hosts;
    use ibnet_analysis::job::all::{AllJobs, JobList};
    use ibnet_analysis::job::run::JobRun;
    use ibnet_analysis::ports::Ports;

    use super::*;
    use crate::fixtures::{fold, job_lines};

    #[test]
    fn report_has_sums_tables_and_the_limits_of_the_estimates() {
        let hosts = Hosts::parse("n1,n2,gone").unwrap();
        let text = report(&Job::of(
            &fold(Ports::with_bins(8), &job_lines(true)).finish(),
            &hosts,
        ));
        for part in [
            "2 nodes with 2 ports",
            "largest sender 1.33 times the mean",
            "wait      0.1667 ns",
            "without records: gone",
            "between 33.3 % and 66.7 %, about 50.0 %",
            "leaf port 9",
            "destinations",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn time_whose_values_are_not_known_is_stated() {
        let mut job = Job::of(
            &fold(Ports::with_bins(8), &job_lines(true)).finish(),
            &Hosts::parse("n1,n2").unwrap(),
        );
        assert!(
            !report(&job).contains("covered"),
            "all of the time is known"
        );
        job.nodes
            .iter_mut()
            .for_each(|node| (node.covered_seconds, node.blocked_covered_seconds) = (1.75, 1.0));
        job.recorded_seconds = 2.0;
        let text = report(&job);
        assert!(
            text.contains(
                "covered   bytes are known for 1.8 s and blocked time for 1.0 s of 2.0 s\n"
            ),
            "{text}"
        );
        job.nodes
            .iter_mut()
            .for_each(|node| node.blocked_covered_seconds = 0.0);
        let text = report(&job);
        assert!(
            text.contains("blocked   not known\ncovered   bytes are known for 1.8 s of 2.0 s\n"),
            "{text}"
        );

        let run = JobRun::new("7", "n1", Some(0), None).unwrap();
        let mut all = fold(AllJobs::new(JobList::new(&[run]), None), &job_lines(true))
            .finish(None)
            .unwrap();
        assert!(
            !report_all(&all, &Zone::utc()).contains("known for"),
            "all of the time is known"
        );
        all.jobs[0].blocked_covered_seconds = 0.5;
        let text = report_all(&all, &Zone::utc());
        assert!(
            text.contains("job 7: bytes are known for 2.0 s and blocked time for 0.5 s of 2.0 s\n"),
            "{text}"
        );
        all.jobs
            .iter_mut()
            .for_each(|job| job.blocked_covered_seconds = 0.0);
        let text = report_all(&all, &Zone::utc());
        assert!(
            text.contains("job 7: bytes are known for 2.0 s of 2.0 s, blocked time is not known\n"),
            "{text}"
        );
        let rows: Vec<&str> = text.lines().filter(|line| line.contains(" GB")).collect();
        assert!(
            rows.iter()
                .all(|row| row.contains(" -") && !row.contains("0.0 s")),
            "{text}"
        );
    }

    #[test]
    fn all_jobs_are_in_a_table_with_the_rest_and_the_total() {
        let job = |id: &str, nodes: &str| JobRun::new(id, nodes, Some(0), None).unwrap();
        let jobs = [job("8\u{202e}", "n[2,4]"), job("7", "n1")];
        let all = fold(AllJobs::new(JobList::new(&jobs), None), &job_lines(true));
        let text = report_all(&all.finish(None).unwrap(), &Zone::utc());
        let words: Vec<Vec<_>> = text
            .lines()
            .take(5)
            .map(|line| line.split_whitespace().collect())
            .collect();
        // n1 sent 24 Gb, n2 12 Gb, n3 12 Gb.
        assert_eq!(
            words[1][..7],
            ["7", "1", "1970-01-01", "00:00:00", "running", "3.000", "GB"],
            "{text}"
        );
        assert_eq!(words[2][..4], ["8\\u{202e}", "1", "of", "2"], "{text}");
        assert_eq!(
            (&words[3][..4], &words[4][..3]),
            (
                &["no", "job", "1.500", "GB"][..],
                &["total", "6.000", "GB"][..]
            ),
            "{text}"
        );
    }
}
