//! Writes the list of links with a verdict, and the inventory.

use std::fmt::Write;

use ibnet_analysis::health::HealthRow;
use ibnet_analysis::health::inventory::InventoryRow;
use ibnet_analysis::health::pdr::{Action, PdrRow, Reason};
use ibnet_analysis::health::verdict::Verdict;
use ibnet_analysis::when::Zone;
use ibnet_record::types::Printable;

use super::{count, table};

/// Max number of jobs in a cell.
const MAX_JOBS: usize = 4;

/// Writes how many ends of links have each verdict, and one line for each rule that applies, the
/// worst verdict first.
pub fn report(rows: &[HealthRow], zone: &Zone) -> String {
    let of = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let verdicts = [
        Verdict::Replace,
        Verdict::Clean,
        Verdict::Watch,
        Verdict::Good,
    ];
    let counts = verdicts.map(|verdict| format!("{} {}", of(verdict), verdict.as_str()));
    let mut text = format!(
        "{} of links: {}\n",
        count(rows.len(), "end"),
        counts.join(", ")
    );
    let is_short = |row: &&HealthRow| row.seen_minutes < row.window_minutes;
    let short = rows.iter().filter(is_short).count();
    if let Some(window) = rows
        .first()
        .map(|row| row.window_minutes)
        .filter(|_| short > 0)
    {
        let _ = writeln!(
            text,
            "less than {window} minutes seen, so the verdict is good or watch: {}",
            count(short, "end")
        );
    }
    let bad = || rows.iter().filter(|row| row.verdict != Verdict::Good);
    if bad().next().is_some() {
        let mut table = table::new();
        let has_jobs = bad().any(|row| !row.jobs.is_empty());
        let columns = if has_jobs { 8 } else { 7 };
        let header = [
            "verdict",
            "seen",
            "port",
            "to",
            "since",
            "why",
            "serial number",
            "jobs",
        ];
        table.set_header(&header[..columns]);
        let lines = bad().flat_map(|row| lines(row, zone));
        table.add_rows(lines.map(|line| line.into_iter().take(columns)));
        let _ = writeln!(text, "\n{}", table::to_text(table, &[]));
    }
    text
}

/// Returns the lines of one end: one for each rule.
fn lines(row: &HealthRow, zone: &Zone) -> Vec<[String; 8]> {
    let head = [
        row.verdict.as_str().to_owned(),
        format!("{}/{} min", row.seen_minutes, row.window_minutes),
        row.port.to_string(),
        row.peer
            .as_ref()
            .map_or_else(String::new, ToString::to_string),
        zone.format(row.since_ns, "%Y-%m-%d %H:%M"),
    ];
    let mut jobs: Vec<_> = row
        .jobs
        .iter()
        .take(MAX_JOBS)
        .map(|job| Printable(job).to_string())
        .collect();
    if row.jobs.len() > MAX_JOBS {
        jobs.push(format!("and {} more", row.jobs.len() - MAX_JOBS));
    }
    let tail = [Printable(&row.serial).to_string(), jobs.join(", ")];
    let line = |(index, why): (usize, &String)| {
        let ([verdict, seen, port, peer, since], [serial, jobs]) = if index == 0 {
            (head.clone(), tail.clone())
        } else {
            Default::default()
        };
        [verdict, seen, port, peer, since, why.clone(), serial, jobs]
    };
    row.why.iter().enumerate().map(line).collect()
}

/// Writes what the rule of another program would do.
pub fn pdr(rows: &[PdrRow], zone: &Zone) -> String {
    let mut text = format!(
        "{} of the published rule of the PDR plugin; ibnet isolates no port\n",
        count(rows.len(), "decision")
    );
    let mut table = table::new();
    table.set_header(["time", "port", "would", "reason"]);
    table.add_rows(rows.iter().map(|row| {
        let would = match row.action {
            Action::Isolate => "isolate",
            Action::OverLimit => "isolate, but too many are isolated",
            Action::Return => "use again",
        };
        let reason = match row.reason {
            Some(Reason::Symbols12) => "symbol errors of 12 minutes",
            Some(Reason::Symbols125) => "symbol errors of 125 minutes",
            Some(Reason::LinkDown) => "link down at both ends",
            Some(Reason::Temperature) => "temperature",
            None => "",
        };
        let time = zone.format(row.ts, "%Y-%m-%d %H:%M");
        [
            time,
            row.port.to_string(),
            would.to_owned(),
            reason.to_owned(),
        ]
    }));
    if !rows.is_empty() {
        let _ = writeln!(text, "\n{}", table::to_text(table, &[]));
    }
    text
}

/// Writes a table of the switches and one of the modules. Remarks come first.
pub fn inventory(rows: &[InventoryRow]) -> String {
    let name = |row: &InventoryRow| {
        let node = row.node.trim();
        let node = if node.is_empty() {
            row.guid.to_string()
        } else {
            Printable(node).to_string()
        };
        row.port
            .map_or_else(|| node.clone(), |port| format!("{node} port {port}"))
    };
    let celsius = |row: &InventoryRow| {
        row.celsius
            .map_or_else(String::new, |celsius| format!("{celsius:.0} C"))
    };
    let cell = |text: &str| Printable(text).to_string();
    let of = |what: &'static str| rows.iter().filter(move |row| row.what == what);
    let mut text = String::new();
    for row in rows {
        if let Some(remark) = &row.remark {
            let _ = writeln!(text, "{}: {}", name(row), Printable(remark));
        }
    }
    let mut switches = table::new();
    switches.set_header([
        "switch",
        "product",
        "part",
        "serial number",
        "firmware",
        "PSID",
        "chip",
    ]);
    switches.add_rows(of("switch").map(|row| {
        [
            name(row),
            cell(&row.vendor),
            cell(&row.part),
            cell(&row.serial),
            row.firmware.clone().unwrap_or_default(),
            cell(row.psid.as_deref().unwrap_or_default()),
            celsius(row),
        ]
    }));
    let mut modules = table::new();
    modules.set_header([
        "port",
        "to",
        "link",
        "vendor",
        "part",
        "serial number",
        "length",
        "module",
    ]);
    modules.add_rows(of("module").map(|row| {
        [
            name(row),
            row.peer
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            cell(row.link.as_deref().unwrap_or_default()),
            cell(&row.vendor),
            cell(&row.part),
            cell(&row.serial),
            row.length_m
                .map_or_else(String::new, |length| format!("{length} m")),
            celsius(row),
        ]
    }));
    for (what, table, right) in [
        ("switch", switches, vec![6]),
        ("module", modules, vec![6, 7]),
    ] {
        let number = of(what).count();
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{}", count(number, what));
        if number > 0 {
            let _ = writeln!(text, "\n{}", table::to_text(table, &right));
        }
    }
    text
}
