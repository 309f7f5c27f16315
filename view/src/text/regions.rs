//! Lists the regions of congestion, with the jobs in them.

use ibnet_analysis::trees::{RegionJob, RegionRow};
use ibnet_analysis::when::Zone;
use ibnet_record::types::Printable;

use super::{count, percent, trees};

/// Format of a time; the line before the table has the date.
const CLOCK: &str = "%H:%M:%S";

/// The routes overload a port if the other ones to the same host used less than this part of what
/// it used.
const UNEVEN: f64 = 0.5;

/// Max number of jobs that are named in a line.
const MAX_JOBS: usize = 6;

/// Writes the first `top` regions.
pub fn report(regions: &[RegionRow], top: usize, zone: &Zone) -> String {
    if regions.is_empty() {
        return "No region of congestion: no port waited.\n".to_owned();
    }
    let mut text = count(regions.len(), "region") + " of congestion\n";
    for row in regions.iter().take(top) {
        let to = row
            .to
            .as_ref()
            .map_or_else(String::new, |to| format!(" -> {to}"));
        let seconds = (row.until_ns - row.since_ns) as f64 / 1e9;
        text += &format!(
            "\nRegion {}: root {}{to}\n  {} to {}, {seconds:.1} s; {} and {} waited for {:.1} s in all\n  {}\n",
            Printable(&row.region),
            row.root,
            zone.format(row.since_ns, CLOCK),
            zone.format(row.until_ns, CLOCK),
            count(row.host_ports, "host port"),
            count(row.switch_ports, "switch port"),
            row.held_up_seconds,
            trees::cause((row.why, row.confidence, row.ports_beyond), row.to.as_ref()),
        );
        if let (Some(ways), Some(used)) = (row.other_ways, row.other_ways_utilization) {
            let spread = if used < UNEVEN * row.xmit_utilization {
                "overloaded by the routes"
            } else {
                "not overloaded by the routes"
            };
            text += &format!(
                "  {spread}: {} that {} to the same host used {} in the mean\n",
                count(ways, "other port"),
                if ways == 1 { "leads" } else { "lead" },
                percent(Some(used))
            );
        }
        let (causes, waits): (Vec<_>, Vec<_>) = row.jobs.iter().partition(|job| job.causes);
        let cause = |job: &&RegionJob| {
            format!(
                "{} ({})",
                Printable(&job.job),
                percent(Some(job.share.min(1.0)))
            )
        };
        text += &line("caused by", causes.iter().map(cause));
        let wait =
            |job: &&RegionJob| format!("{} ({:.1} s)", Printable(&job.job), job.blocked_seconds);
        text += &line("suffered by", waits.iter().map(wait));
    }
    if regions.len() > top {
        text += &format!(
            "\n{} more with less blocked time (--top)\n",
            regions.len() - top
        );
    }
    text
}

/// Writes the names of jobs, or nothing if there are none.
fn line(what: &str, jobs: impl ExactSizeIterator<Item = String>) -> String {
    let more = jobs.len().saturating_sub(MAX_JOBS);
    let names: Vec<String> = jobs.take(MAX_JOBS).collect();
    if names.is_empty() {
        return String::new();
    }
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    format!("  {what}: {}{more}\n", names.join(", "))
}
