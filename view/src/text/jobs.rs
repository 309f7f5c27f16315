//! Table of the runs of jobs.

use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::when::Zone;
use ibnet_record::types::Printable;

use super::table;

/// Writes a table of runs, in their order.
pub fn report(runs: &[JobRun], zone: &Zone) -> String {
    let mut table = table::new();
    table.set_header([
        "job", "name", "user", "state", "start", "end", "hosts", "nodes",
    ]);
    let time = |ns: Option<u64>| {
        ns.map_or_else(|| "-".to_owned(), |ns| zone.format(ns, "%Y-%m-%d %H:%M:%S"))
    };
    let text = |text: &str| {
        if text.is_empty() {
            "-".to_owned()
        } else {
            Printable(text).to_string()
        }
    };
    for run in runs {
        let end = if run.to_is_lower_bound {
            format!("after {}", time(run.to))
        } else {
            time(run.to)
        };
        table.add_row([
            text(&run.id),
            text(run.name.as_deref().unwrap_or_default()),
            text(run.user.as_deref().unwrap_or_default()),
            text(&run.state),
            time(run.from),
            end,
            run.hosts.iter().count().to_string(),
            text(&run.nodes),
        ]);
    }
    table::to_text(table, &[6]) + "\n"
}
