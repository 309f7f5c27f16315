//! Writes the list of links with a verdict, and the inventory.

use std::collections::BTreeMap;
use std::fmt::Write;

use ibnet_analysis::health::HealthRow;
use ibnet_analysis::health::inventory::InventoryRow;
use ibnet_analysis::health::pdr::{Action, PdrRow, Reason};
use ibnet_analysis::health::verdict::Verdict;
use ibnet_analysis::when::Zone;
use ibnet_record::types::Printable;

use super::{count, table};

/// Max length of a line below an end.
const WIDTH: usize = 90;

/// Max number of jobs of an end.
const MAX_JOBS: usize = 4;

/// Writes how many ends of links have each verdict, and each end with the rules that apply, the
/// worst verdict first. The rules have lines of their own, so that the table fits a terminal.
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
    let short = || rows.iter().filter(is_short);
    let seen = || short().map(|row| row.seen_minutes);
    if let (Some(row), Some(least), Some(most)) = (short().next(), seen().min(), seen().max()) {
        let seen = if least == most {
            least.to_string()
        } else {
            format!("{least} to {most}")
        };
        let _ = writeln!(
            text,
            "{seen} of {} minutes seen, so the verdict is good or watch: {}",
            row.window_minutes,
            count(short().count(), "end")
        );
    }
    let mut limits: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *limits.entry(&row.limits_by).or_default() += 1;
    }
    for (basis, ends) in limits {
        let _ = writeln!(
            text,
            "limits of bit errors by {basis}: {}",
            count(ends, "end")
        );
    }
    let is_bad = |row: &&HealthRow| row.verdict != Verdict::Good;
    let bad: Vec<_> = rows.iter().filter(is_bad).collect();
    if bad.is_empty() {
        return text;
    }
    let mut table = table::new();
    table.set_header(["verdict", "port", "to", "since", "serial number"]);
    table.add_rows(bad.iter().map(|row| {
        [
            row.verdict.as_str().to_owned(),
            row.port.to_string(),
            row.peer
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            zone.format(row.since_ns, "%Y-%m-%d %H:%M"),
            Printable(&row.serial).to_string(),
        ]
    }));
    let ends = table::to_text(table, &[]);
    let (header, ends) = ends.split_once('\n').unwrap_or_default();
    let _ = writeln!(text, "\n{header}");
    for (line, row) in ends.lines().zip(bad) {
        let _ = writeln!(text, "{line}");
        for why in reasons(row) {
            let _ = writeln!(text, "         {why}");
        }
    }
    text
}

/// Returns the lines below an end: the rules that apply, why the link went down, and the jobs.
fn reasons(row: &HealthRow) -> Vec<String> {
    let mut lines = row.why.clone();
    if let Some(last) = lines.last_mut()
        && row.seen_minutes < row.window_minutes
    {
        let seen = format!(
            "({} of {} minutes seen)",
            row.seen_minutes, row.window_minutes
        );
        if last.len() + seen.len() < WIDTH {
            *last += &format!(" {seen}");
        } else {
            lines.push(seen);
        }
    }
    if let Some(down) = &row.link_down {
        lines.push(format!("last link down: {down}"));
    }
    let jobs = row.jobs.iter().take(MAX_JOBS);
    let mut jobs: Vec<_> = jobs.map(|job| Printable(job).to_string()).collect();
    if row.jobs.len() > MAX_JOBS {
        jobs.push(format!("and {} more", row.jobs.len() - MAX_JOBS));
    }
    if !jobs.is_empty() {
        lines.push(format!("jobs: {}", jobs.join(", ")));
    }
    lines
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

/// Writes tables of the switches, the HCAs and the modules. Remarks come first.
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
        "warmest",
        "fans",
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
            warmest(row),
            fans(row),
        ]
    }));
    let mut hcas = table::new();
    hcas.set_header(["HCA port", "firmware", "PSID", "chip"]);
    hcas.add_rows(of("hca").map(|row| {
        [
            name(row),
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
    for (what, singular, table, right) in [
        ("switch", "switch", switches, vec![6]),
        ("hca", "HCA port", hcas, vec![3]),
        ("module", "module", modules, vec![6, 7]),
    ] {
        let number = of(what).count();
        if what == "hca" && number == 0 {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{}", count(number, singular));
        if number > 0 {
            let _ = writeln!(text, "\n{}", table::to_text(table, &right));
        }
    }
    text
}

/// Returns the warmest sensor of a switch beside its chip.
fn warmest(row: &InventoryRow) -> String {
    let others = row.sensors.iter().filter(|sensor| sensor.sensor > 0);
    let warmest = others.max_by(|a, b| a.celsius.total_cmp(&b.celsius));
    warmest.map_or_else(String::new, |sensor| {
        format!("{:.0} C {}", sensor.celsius, Printable(&sensor.name))
    })
}

/// Returns the number of fans of a switch, and the speeds of the slowest and the fastest one.
fn fans(row: &InventoryRow) -> String {
    let speeds = || row.fans.iter().filter_map(|fan| fan.rpm);
    let range = speeds().min().zip(speeds().max());
    range.map_or_else(String::new, |(least, most)| {
        format!("{} x {least} to {most} rpm", speeds().count())
    })
}
