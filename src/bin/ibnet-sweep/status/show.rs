//! Formats the samplers as a table and as a JSON document.

use std::collections::BTreeSet;

use ibnet_record::Role;
use ibnet_record::count::count;
use serde::Serialize;

use super::super::table;
use super::row::{Row, State};

#[derive(Serialize)]
struct Document<'a> {
    /// Time at which the source was read, in nanoseconds since 1970.
    ts: u64,
    /// Origin of the plan: path, or address and revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a str>,
    rows: Vec<JsonRow<'a>>,
}

#[derive(Serialize)]
struct JsonRow<'a> {
    sampler: &'a str,
    ca: &'a str,
    ca_port: u8,
    role: &'a str,
    state: State,
    slot: Option<u64>,
    age_ns: Option<u64>,
    ports: u64,
    ok: u64,
    late: u64,
    down: u64,
    lines_lost: u64,
    slots_missed: u64,
    slots_lost: u64,
}

impl<'a> JsonRow<'a> {
    fn of(row: &'a Row, now: u64) -> Self {
        let age_ns = row.age_ns(now);
        Self {
            sampler: &row.sampler,
            ca: &row.ca,
            ca_port: row.ca_port,
            role: &row.role,
            state: row.state(now),
            slot: age_ns.map(|_| row.last_slot),
            age_ns,
            ports: row.ports,
            ok: row.ok,
            late: row.late,
            down: row.down,
            lines_lost: row.lines_lost,
            slots_missed: row.slots_missed,
            slots_lost: row.slots_lost,
        }
    }
}

/// Formats one JSON document with a final line feed.
pub(super) fn json(rows: &[Row], now: u64, plan: Option<&str>) -> String {
    let row = |row| JsonRow::of(row, now);
    let document = Document {
        ts: now,
        plan,
        rows: rows.iter().map(row).collect(),
    };
    serde_json::to_string(&document).unwrap_or_default() + "\n"
}

/// Formats an aligned table, a line with the totals, and a line with the origin of the plan.
pub(super) fn text(rows: &[Row], now: u64, plan: Option<&str>) -> String {
    if rows.is_empty() {
        return "no sampler\n".to_owned();
    }
    let has_role = rows.iter().any(|row| row.role == Role::Secondary.as_str());
    let has_hca = rows
        .iter()
        .map(|row| (&row.sampler, &row.role))
        .collect::<BTreeSet<_>>()
        .len()
        < rows.len();
    let mut table = table::new();
    let role = if has_role { &["role"][..] } else { &[] };
    let hca = if has_hca { &["HCA port"][..] } else { &[] };
    let heads = [
        "slot age",
        "complete",
        "ports",
        "late",
        "lost lines",
        "lost slots",
        "state",
    ];
    table.set_header([&["sampler"], role, hca, &heads].concat());
    for row in rows {
        let role = has_role.then(|| row.role.clone());
        let hca = has_hca.then(|| {
            if row.ca.is_empty() {
                String::new()
            } else {
                format!("{}:{}", row.ca, row.ca_port)
            }
        });
        let numbers = match row.age_ns(now) {
            None => vec!["-".to_owned(); heads.len() - 1],
            Some(age) => vec![
                self::age(age),
                percent(row.known(), row.ports),
                row.ports.to_string(),
                row.late.to_string(),
                row.lines_lost.to_string(),
                (row.slots_missed + row.slots_lost).to_string(),
            ],
        };
        let cells = std::iter::once(ibnet_record::types::Printable(&row.sampler).to_string())
            .chain(role)
            .chain(hca)
            .chain(numbers);
        table.add_row(cells.chain([row.state(now).as_str().to_owned()]));
    }
    let first = 1 + usize::from(has_role) + usize::from(has_hca);
    let right: Vec<usize> = (first..first + heads.len() - 1).collect();
    let plan = plan
        .map(|plan| format!("plan: {}\n", ibnet_record::types::Printable(plan)))
        .unwrap_or_default();
    format!(
        "{}\n\n{}\n{plan}",
        table::show(table, &right),
        totals(rows, now)
    )
}

/// Formats the number of samplers, of the ports of their primaries, and of rows in each state,
/// the worst state first.
fn totals(rows: &[Row], now: u64) -> String {
    let samplers = rows
        .iter()
        .map(|row| &row.sampler)
        .collect::<BTreeSet<_>>()
        .len();
    let of_rows = if samplers < rows.len() {
        format!(" in {} rows", rows.len())
    } else {
        String::new()
    };
    // Secondaries are left out, because they query the same ports again.
    let ports: u64 = rows
        .iter()
        .filter(|row| row.role != Role::Secondary.as_str())
        .map(|row| row.ports)
        .sum();
    let states = [
        State::NeverHeard,
        State::Silent,
        State::Incomplete,
        State::Ok,
    ]
    .map(|state| {
        let count = rows.iter().filter(|row| row.state(now) == state).count();
        (count > 0).then(|| format!("{count} {}", state.as_str()))
    });
    format!(
        "{}{of_rows}, {}: {}",
        count(samplers, "sampler"),
        count(ports, "port"),
        states.into_iter().flatten().collect::<Vec<_>>().join(", ")
    )
}

/// Formats a time in seconds, minutes, hours or days.
fn age(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match seconds {
        ..100.0 => format!("{seconds:.1} s"),
        ..6_000.0 => format!("{:.1} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3_600.0),
        _ => format!("{:.1} d", seconds / 86_400.0),
    }
}

/// Formats a share, which is 100.0 % only if nothing is missing.
fn percent(known: u64, ports: u64) -> String {
    if known >= ports {
        return "100.0 %".to_owned();
    }
    format!("{:.1} %", (known as f64 / ports as f64 * 100.0).min(99.9))
}

#[cfg(test)]
mod tests {
    use super::super::row::{add_missing, example};
    use super::*;

    fn rows() -> Vec<Row> {
        let mut rows = vec![
            example("node1"),
            Row {
                ok: 89,
                lines_lost: 7,
                ..example("node2")
            },
            example("node3"),
        ];
        rows[2].last_ts -= 3_600_000_000_000;
        rows[2].last_slot -= 3_600;
        add_missing(&mut rows, &[("node4".to_owned(), "primary".to_owned())]);
        rows
    }

    #[test]
    fn table_is_aligned_and_ends_with_the_totals() {
        let rows = rows();
        let expected = "\
sampler  slot age  complete  ports  late  lost lines  lost slots  state
node1       0.5 s   100.0 %    100     2           0           0  ok
node2       0.5 s    99.0 %    100     2           7           0  incomplete
node3      60.0 min   100.0 %    100     2           0           0  silent
node4           -         -      -     -           -           -  never heard

4 samplers, 300 ports: 1 never heard, 1 silent, 1 incomplete, 1 ok
";
        let found = text(&rows, rows[0].last_ts + 500_000_000, None);
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&found), words(expected), "{found}");
        let ends: Vec<_> = found.lines().take(5).map(|line| line.rfind("  ")).collect();
        assert!(ends.iter().all(|end| *end == ends[0]), "{found}");
    }

    #[test]
    fn two_hca_ports_of_a_sampler_are_told_apart() {
        let rows = [
            Row {
                ca: "mlx5_0".to_owned(),
                ca_port: 1,
                ..example("a")
            },
            Row {
                ca: "mlx5_1".to_owned(),
                ca_port: 1,
                ..example("a")
            },
        ];
        let found = text(&rows, rows[0].last_ts, None);
        assert!(
            found.contains("mlx5_0:1") && found.contains("mlx5_1:1") && found.contains("HCA port"),
            "{found}"
        );
        assert!(
            !found.contains("role") && found.contains("1 sampler in 2 rows, 200 ports: 2 ok"),
            "{found}"
        );
    }

    #[test]
    fn both_roles_of_a_sampler_are_told_apart() {
        let rows = [
            example("a"),
            Row {
                role: "secondary".to_owned(),
                ports: 90,
                ok: 80,
                ..example("a")
            },
        ];
        let found = text(&rows, rows[0].last_ts, None);
        assert!(
            found.contains("a        primary")
                && found.contains("a        secondary")
                && !found.contains("HCA port"),
            "{found}"
        );
        assert!(
            found.contains("1 sampler in 2 rows, 100 ports: 2 ok"),
            "{found}"
        );
    }

    #[test]
    fn document_has_a_row_for_each_sampler() {
        let rows = rows();
        let found: serde_json::Value =
            serde_json::from_str(&json(&rows, rows[0].last_ts + 5, Some("plan.toml")))
                .expect("JSON");
        let states: Vec<_> = found["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| row["state"].as_str())
            .collect();
        assert_eq!(
            states,
            [
                Some("ok"),
                Some("incomplete"),
                Some("silent"),
                Some("never_heard")
            ]
        );
        assert_eq!(
            (
                found["rows"][0]["age_ns"].as_u64(),
                found["rows"][3]["age_ns"].as_u64()
            ),
            (Some(5), None)
        );
    }

    #[test]
    fn share_is_complete_only_if_nothing_is_missing() {
        assert_eq!(percent(99_999, 100_000), "99.9 %");
        assert_eq!(
            (percent(0, 0), percent(1, 2)),
            ("100.0 %".to_owned(), "50.0 %".to_owned())
        );
        assert_eq!(
            [
                1,
                99_900_000_000,
                120_000_000_000,
                7_200_000_000_000,
                172_800_000_000_000
            ]
            .map(age),
            ["0.0 s", "99.9 s", "2.0 min", "2.0 h", "2.0 d"]
        );
    }
}
