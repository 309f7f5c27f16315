//! Writes the list of links with a verdict, and the inventory.

use std::fmt::Write;

use ibnet_analysis::health::HealthRow;
use ibnet_analysis::health::inventory::InventoryRow;
use ibnet_analysis::health::verdict::Verdict;
use ibnet_analysis::when::Zone;
use ibnet_record::types::Printable;

use super::{count, table};

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
    let least = rows.iter().map(|row| row.seen_minutes).min();
    let window = rows.first().map_or(0, |row| row.window_minutes);
    if let Some(least) = least.filter(|least| *least < window) {
        let _ = writeln!(
            text,
            "{least} of {window} minutes seen: no verdict is worse than watch before the end of \
             this time"
        );
    }
    let bad = || rows.iter().filter(|row| row.verdict != Verdict::Good);
    if bad().next().is_some() {
        let mut table = table::new();
        table.set_header(["verdict", "port", "to", "since", "why", "serial number"]);
        table.add_rows(bad().flat_map(|row| lines(row, zone)));
        let _ = writeln!(text, "\n{}", table::to_text(table, &[]));
    }
    text
}

/// Returns the lines of one end: one for each rule.
fn lines(row: &HealthRow, zone: &Zone) -> Vec<[String; 6]> {
    let head = [
        row.verdict.as_str().to_owned(),
        row.port.to_string(),
        row.peer
            .as_ref()
            .map_or_else(String::new, ToString::to_string),
        zone.format(row.since_ns, "%Y-%m-%d %H:%M"),
    ];
    let serial = Printable(&row.serial).to_string();
    let line = |(index, why): (usize, &String)| {
        let ([verdict, port, peer, since], serial) = if index == 0 {
            (head.clone(), serial.clone())
        } else {
            Default::default()
        };
        [verdict, port, peer, since, why.clone(), serial]
    };
    row.why.iter().enumerate().map(line).collect()
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
