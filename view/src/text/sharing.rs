//! Report on the jobs that shared links with a job, and comparison of runs.

use std::fmt::{self, Write};

use ibnet_analysis::correlation::RankTest;
use ibnet_analysis::job::Job;
use ibnet_analysis::job::compare::Comparison;
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::job::sharing::{JobOnLink, JobShare, Method, Neighbour, Sharing};
use ibnet_analysis::trees::RootCause;
use ibnet_analysis::when::Zone;
use ibnet_record::types::Printable;

use super::job::octets;
use super::{percent, table};

/// Largest number of rows of a table, and of jobs in a cell.
const MAX: usize = 12;
const MAX_JOBS: usize = 3;

/// Writes the neighbours of a job, the roots that held it up, and the links that it shared.
pub fn report(sharing: &Sharing) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = write_neighbours(&mut text, sharing)
        .and_then(|()| write_roots(&mut text, sharing))
        .and_then(|()| write_links(&mut text, sharing))
        .and_then(|()| write_method(&mut text, sharing));
    text
}

fn job(id: Option<&str>) -> String {
    id.map_or_else(|| "no job".to_owned(), |id| Printable(id).to_string())
}

fn write_neighbours(text: &mut String, sharing: &Sharing) -> fmt::Result {
    if sharing.neighbours.is_empty() {
        return writeln!(text, "\nNo other job shared a link with this job.");
    }
    let mut table = table::new();
    table.set_header([
        "shared links with",
        "links",
        "time",
        "roots",
        "at least",
        "estimate",
        "at most",
    ]);
    for Neighbour {
        job: id,
        links,
        seconds,
        roots,
        share,
    } in sharing.neighbours.iter().take(MAX)
    {
        let JobShare {
            least_if_apart_bytes,
            estimate_bytes,
            most_if_apart_bytes,
            ..
        } = share;
        table.add_row([
            job(id.as_deref()),
            links.to_string(),
            format!("{seconds:.0} s"),
            roots.to_string(),
            octets(*least_if_apart_bytes),
            estimate_bytes.map_or_else(|| "-".to_owned(), octets),
            octets(*most_if_apart_bytes),
        ]);
    }
    writeln!(text, "\n{}", table::to_text(table, &[1, 2, 3, 4, 5, 6]))?;
    more(text, sharing.neighbours.len())
}

/// Returns a short text for the cause of a tree.
pub(super) const fn cause(why: RootCause) -> &'static str {
    match why {
        RootCause::Full => "full",
        RootCause::SlowHost => "slow host",
        RootCause::Unreachable => "no answer",
        RootCause::Unclear => "unclear",
    }
}

fn write_roots(text: &mut String, sharing: &Sharing) -> fmt::Result {
    if sharing.roots.is_empty() {
        return writeln!(text, "\nNo congestion held up the hosts of this job.");
    }
    let mut table = table::new();
    table.set_header([
        "held up by",
        "to",
        "cause",
        "time",
        "job waited",
        "traffic of",
    ]);
    for root in sharing.roots.iter().take(MAX) {
        let why = cause(root.why);
        let to = root
            .to
            .as_ref()
            .map_or_else(String::new, ToString::to_string);
        let (time, waited) = (
            format!("{:.0} s", root.seconds),
            format!("{:.1} s", root.job_blocked_seconds),
        );
        table.add_row([
            &*root.root.to_string(),
            &to,
            why,
            &time,
            &waited,
            &jobs(&root.jobs, root.bytes),
        ]);
    }
    writeln!(text, "\n{}", table::to_text(table, &[3, 4]))?;
    more(text, sharing.roots.len())
}

fn write_links(text: &mut String, sharing: &Sharing) -> fmt::Result {
    if sharing.links.is_empty() {
        return Ok(());
    }
    let mut table = table::new();
    table.set_header(["shared link", "to", "time", "used", "blocked", "traffic of"]);
    for link in sharing.links.iter().take(MAX) {
        let (used, blocked) = (
            percent(Some(link.xmit_utilization)),
            percent(Some(link.blocked)),
        );
        let time = format!("{:.0} s", link.seconds);
        table.add_row([
            &link.from.to_string(),
            &link.to.to_string(),
            &time,
            &used,
            &blocked,
            &jobs(&link.jobs, link.bytes),
        ]);
    }
    writeln!(text, "\n{}", table::to_text(table, &[2, 3, 4]))?;
    more(text, sharing.links.len())
}

fn more(text: &mut String, count: usize) -> fmt::Result {
    if count > MAX {
        writeln!(text, "and {} more (--format json)", count - MAX)
    } else {
        Ok(())
    }
}

/// Writes the job shares of a link: the estimate, and the bounds in parentheses.
fn jobs(jobs: &[JobOnLink], all: f64) -> String {
    if jobs.is_empty() || all <= 0.0 {
        return "not known".to_owned();
    }
    let share = |one: &JobOnLink| {
        let JobShare {
            least_if_apart_bytes,
            estimate_bytes,
            most_if_apart_bytes,
            ..
        } = one.share;
        let percent = |bytes: f64| format!("{:.0}", 100.0 * bytes / all);
        let bounds = format!(
            "{}-{} %",
            percent(least_if_apart_bytes),
            percent(most_if_apart_bytes)
        );
        match estimate_bytes {
            Some(bytes) => format!(
                "{} {} % ({bounds})",
                job(one.job.as_deref()),
                percent(bytes)
            ),
            None => format!("{} {bounds}", job(one.job.as_deref())),
        }
    };
    let mut shares: Vec<String> = jobs.iter().take(MAX_JOBS).map(share).collect();
    if jobs.len() > MAX_JOBS {
        shares.push(format!("{} more", jobs.len() - MAX_JOBS));
    }
    shares.join(", ")
}

fn write_method(text: &mut String, sharing: &Sharing) -> fmt::Result {
    let seconds = sharing.interval_ns as f64 / 1e9;
    if sharing.has_too_many_pairs {
        writeln!(
            text,
            "\nThe routes were not used: too many pairs of hosts. Give a shorter time."
        )?;
    }
    match sharing.method {
        Method::Routes => writeln!(
            text,
            "\nShares are estimates from the routes, in intervals of {seconds} s, with bounds in parentheses. Both assume that hosts of different\n\
             jobs exchange no data; --format json has bounds without this assumption. {} of the traffic between switches is not explained.",
            percent(sharing.unexplained)
        ),
        Method::LeafLinks => writeln!(
            text,
            "\nShares are bounds, in intervals of {seconds} s, on the links of leaf switches only, because there are no routes (--routes). They\n\
             assume that hosts of different jobs exchange no data (--format json has bounds without this assumption), and that no traffic\n\
             passes through a leaf switch to another one."
        ),
    }?;
    if sharing.contradicted_seconds > 0.0 {
        let time = sharing.contradicted_seconds;
        writeln!(
            text,
            "In {time:.0} s of this time, the counters show that hosts of different jobs did exchange data, or that the list of jobs or the routes\n\
             are wrong. For these intervals the bounds do not assume it. Do not trust the estimates."
        )?;
    }
    Ok(())
}

/// Writes a table of runs of a job. The first one is the reference for the others.
pub fn comparison(
    runs: &[(&JobRun, &Job, Option<&Sharing>)],
    compared: &Comparison,
    zone: &Zone,
) -> String {
    let mut table = table::new();
    table.set_header([
        "run",
        "start",
        "time",
        "nodes",
        "injected",
        "blocked",
        "ns/byte",
        "longest wait for",
        "largest neighbour",
    ]);
    for (run, traffic, sharing) in runs {
        let sum = |value: fn(&ibnet_analysis::job::Node) -> f64| {
            traffic.nodes.iter().map(value).sum::<f64>()
        };
        let time = run
            .from
            .zip(run.to)
            .map(|(from, to)| to.saturating_sub(from) as f64 / 1e9);
        let root = sharing.and_then(|sharing| sharing.roots.first());
        let root = root.map(|root| format!("{}, {:.1} s", root.root, root.job_blocked_seconds));
        let neighbour =
            sharing.and_then(|sharing| sharing.neighbours.iter().find(|one| one.job.is_some()));
        let neighbour =
            neighbour.map(|one| format!("{}, {} links", job(one.job.as_deref()), one.links));
        table.add_row([
            Printable(&run.id).to_string(),
            run.from
                .map_or_else(dash, |ns| zone.format(ns, "%Y-%m-%d %H:%M:%S")),
            time.map_or_else(|| "running".to_owned(), |seconds| format!("{seconds:.0} s")),
            traffic.nodes.len().to_string(),
            octets(sum(|node| node.injected_bytes)),
            format!("{:.1} s", sum(|node| node.blocked_seconds)),
            traffic
                .blocked_ns_per_byte
                .map_or_else(dash, |wait| format!("{wait:.4}")),
            root.unwrap_or_else(dash),
            neighbour.unwrap_or_else(dash),
        ]);
    }
    let tests = tests(compared);
    format!("\n{}\n\n{tests}", table::to_text(table, &[2, 3, 4, 5, 6]))
}

/// Writes whether the runs that were blocked longer also took longer.
fn tests(compared: &Comparison) -> String {
    let mut text = String::new();
    for (what, test) in [
        ("blocked time of a node", compared.blocked_seconds),
        ("blocked time for each byte", compared.blocked_ns_per_byte),
    ] {
        let test = self::test(test, compared.runs);
        text += &format!("run time and {what:26}  {test}\n");
    }
    text += "p is the probability of such a correlation by chance. With fewer than five runs\n\
             it is never below 0.05. A correlation is not a cause: a longer run has more time\n\
             to be blocked.\n";
    text + &faults(compared)
        .map(|fault| fault + "\n")
        .collect::<String>()
}

/// Writes the result of a test of several runs.
pub(crate) fn test(test: Option<RankTest>, runs: usize) -> String {
    test.map_or_else(
        || "no test: it needs three runs that differ".to_owned(),
        |RankTest { rho, p, is_exact }| {
            let orders = if is_exact { "all" } else { "99,999 random" };
            let p = match p {
                ..0.001 => "p < 0.001".to_owned(),
                p => format!("p = {p:.3}"),
            };
            format!("Spearman {rho:.2}, {p} ({orders} orders of {runs} runs)")
        },
    )
}

/// Returns sentences on what makes a comparison less certain.
pub(crate) fn faults(compared: &Comparison) -> impl Iterator<Item = String> {
    let left_out = (compared.left_out > 0).then(|| {
        let runs = compared.left_out;
        format!("Left out: {runs} that did not complete, or lack a fifth of their blocked time.")
    });
    let nodes = "The runs have different numbers of nodes: their times are hardly comparable.";
    let nodes = compared.has_other_nodes.then(|| nodes.to_owned());
    left_out.into_iter().chain(nodes)
}

fn dash() -> String {
    "-".to_owned()
}
