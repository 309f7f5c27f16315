//! Table of the time in which ports waited.

use ibnet_analysis::ports::PortName;
use ibnet_analysis::prevalence::roots::{RootJobRow, RootRow};
use ibnet_analysis::prevalence::{By, Direction, PrevalenceRow};
use ibnet_record::types::Printable;

use super::sharing::cause;
use super::{count, percent, table};

/// Writes the rows as a table. `all` is the number of rows before the selection of the first ones.
pub fn report(rows: &[PrevalenceRow], by: By, all: usize) -> String {
    let (name, what) = match by {
        By::Link => ("from", "link direction"),
        By::Leaf => ("leaf switch", "leaf switch direction"),
        By::Host => ("host", "host direction"),
        By::Hour => ("hour", "hour"),
        By::Weekday => ("weekday", "weekday"),
    };
    let limit = percent(rows.first().map(|row| row.limit));
    let shown = if rows.len() < all {
        format!("{} of {}", rows.len(), count(all, what))
    } else {
        count(all, what)
    };
    let is_of_time = matches!(by, By::Hour | By::Weekday);
    let columns = |cells: [String; 9]| {
        let all = cells.into_iter().enumerate();
        all.filter(move |(column, _)| !(is_of_time && *column == 1))
            .map(|(_, cell)| cell)
    };
    let header = [
        name,
        "to",
        "ports",
        "above",
        "covered",
        "blocked",
        "blocked s",
        "sent GB",
        "s/GB",
    ];
    let mut table = table::new();
    table.set_header(columns(header.map(str::to_owned)));
    for row in rows {
        table.add_row(columns(cells(row)));
    }
    let numbers: Vec<usize> = (if is_of_time { 1 } else { 2 }..header.len()).collect();
    let minutes = rows
        .iter()
        .filter_map(|row| row.minutes)
        .fold(0.0, f64::max);
    let read = match minutes {
        0.0 => String::new(),
        _ => format!(
            "Up to {} of the time was read as one-minute means: `above` has bounds\n",
            percent(Some(minutes))
        ),
    };
    format!("Time in which ports were blocked for more than {limit}: {shown}\n{read}\n")
        + &table::to_text(table, &numbers)
        + "\n"
}

/// Writes the roots as a table. `all` is the number of roots before the selection of the first
/// ones.
pub fn roots(rows: &[RootRow], all: usize) -> String {
    /// Number of jobs that a row names.
    const JOBS: usize = 3;
    let shown = if rows.len() < all {
        format!("{} of {}", rows.len(), count(all, "root"))
    } else {
        count(all, "root")
    };
    let job = |job: &RootJobRow| format!("{} ({:.0} s)", Printable(&job.job), job.waited_seconds);
    let mut table = table::new();
    table.set_header([
        "root",
        "to",
        "cause",
        "seconds",
        "of time",
        "held up s",
        "host ports",
        "jobs that waited",
    ]);
    for row in rows {
        let mut jobs: Vec<_> = row.jobs.iter().take(JOBS).map(job).collect();
        if row.jobs.len() > JOBS {
            jobs.push(format!("{} more", row.jobs.len() - JOBS));
        }
        table.add_row([
            row.root.to_string(),
            row.to
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            cause(row.why).to_owned(),
            format!("{:.0}", row.seconds),
            percent(row.share),
            format!("{:.0}", row.held_up_seconds),
            row.host_ports.to_string(),
            jobs.join(", "),
        ]);
    }
    format!("Roots of congestion for which ports waited: {shown}\n\n")
        + &table::to_text(table, &[3, 4, 5, 6])
        + "\n"
}

fn cells(row: &PrevalenceRow) -> [String; 9] {
    let name = match row.guid.zip(row.port) {
        Some(key) => PortName::new(&row.name, key).to_string(),
        None => Printable(&row.name).to_string(),
    };
    let to = match (&row.peer, row.direction) {
        (Some(peer), _) => peer.to_string(),
        (None, Some(Direction::ToHosts)) => "hosts".to_owned(),
        (None, Some(Direction::FromHosts)) => "switches".to_owned(),
        (None, None) => String::new(),
    };
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    [
        name,
        to,
        row.ports.to_string(),
        match (percent(row.above), percent(row.above_max)) {
            (least, most) if least == most => most,
            (least, most) => format!("{} to {most}", least.trim_end_matches(" %")),
        },
        percent(row.covered),
        percent(row.blocked),
        number(row.blocked_seconds, 0),
        number(row.sent_bytes.map(|bytes| bytes / 1e9), 1),
        number(row.blocked_seconds_per_gb, 3),
    ]
}
