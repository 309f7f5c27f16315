//! Prints one slot as a table: `ibnet-sweep --once`.

use std::time::Duration;

use ibnet::sweep::driver::{PortReport, SlotReport};
use ibnet_record::types::{Guid, PortNum, Printable};
use ibnet_record::{Status, summed_error_counters};

use super::table;

/// The ports of all workers in one slot.
#[derive(Debug, Default)]
pub(super) struct OneSlot {
    rows: Vec<Row>,
    ok: u32,
    mads: u64,
    /// Duration of the longest sweep.
    longest: Duration,
}

/// One port.
#[derive(Debug)]
struct Row {
    node: String,
    guid: Guid,
    port: PortNum,
    peer: Option<(String, PortNum)>,
    link: String,
    status: &'static str,
    /// Bytes sent since the counters of the device were cleared. The next fields are totals too:
    /// bytes received, ticks of waiting, and errors.
    xmit: Option<u64>,
    rcv: Option<u64>,
    wait: Option<u64>,
    errors: Option<u64>,
}

impl OneSlot {
    /// Adds the slot of one worker.
    pub(super) fn add(&mut self, report: SlotReport<'_>) {
        self.rows
            .extend(report.ports().map(|port| Row::new(&port, report)));
        self.ok += report.stats.count(Status::Ok);
        self.mads += report.stats.mads_sent;
        self.longest = self.longest.max(report.stats.ended - report.stats.started);
    }

    /// Returns the table: one row for each port, sorted by node and port, and a line with the
    /// totals.
    pub(super) fn show(mut self) -> String {
        self.rows
            .sort_by(|a, b| (&a.node, a.guid, a.port).cmp(&(&b.node, b.guid, b.port)));
        let mut table = table::new();
        table.set_header([
            "node", "port", "peer", "port", "link", "status", "xmit", "rcv", "wait", "errors",
        ]);
        let number =
            |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let data = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), octets);
        for row in &self.rows {
            let (peer, peer_port) = row.peer.as_ref().map_or_else(
                || ("-".to_owned(), "-".to_owned()),
                |(name, port)| (short(name), port.to_string()),
            );
            table.add_row([
                short(&row.node),
                row.port.to_string(),
                peer,
                peer_port,
                short(&row.link),
                row.status.to_owned(),
                data(row.xmit),
                data(row.rcv),
                number(row.wait),
                number(row.errors),
            ]);
        }
        let Self {
            rows,
            ok,
            mads,
            longest,
        } = self;
        let (ports, millis) = (rows.len(), longest.as_secs_f64() * 1e3);
        format!(
            "{}\n\n{ok} of {ports} ports ok, {mads} MADs in {millis:.2} ms; counters are totals, wait is PortXmitWait in ticks\n",
            table::show(table, &[1, 3, 6, 7, 8, 9])
        )
    }
}

impl Row {
    fn new(port: &PortReport<'_>, report: SlotReport<'_>) -> Self {
        let (mut xmit, mut rcv, mut wait, mut errors) = (None, None, None, None);
        for (field, raws) in port.reading.counters(report.columns) {
            let Some(value) = raws.first().map(|raw| field.value(*raw)) else {
                continue;
            };
            match field.json {
                "port_xmit_data_bytes" => xmit = Some(value),
                "port_rcv_data_bytes" => rcv = Some(value),
                "port_xmit_wait_ticks" => wait = Some(value),
                name if summed_error_counters().any(|summed| summed == name) => {
                    errors = Some(value.saturating_add(errors.unwrap_or(0)));
                }
                _ => {}
            }
        }
        let identity = port.identity;
        Self {
            node: identity.node.clone(),
            guid: identity.guid,
            port: identity.port,
            peer: identity
                .peer
                .as_ref()
                .map(|(_, port, name)| (name.clone(), *port)),
            link: identity.link.to_string(),
            status: port.sample.status.as_str(),
            xmit,
            rcv,
            wait,
            errors,
        }
    }
}

/// Shortens a name from the fabric to the width of its column, and escapes control characters.
fn short(text: &str) -> String {
    const WIDTH: usize = 18;
    let text = Printable(text).to_string();
    if text.chars().count() <= WIDTH {
        text
    } else {
        text.chars().take(WIDTH - 1).chain(['…']).collect()
    }
}

/// Formats a number of bytes with a decimal unit and at least three digits.
fn octets(value: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut scaled, mut unit) = (value as f64, 0);
    while scaled >= 1000.0 && unit + 1 < units.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{value} B")
    } else {
        format!("{scaled:.2} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(node: &str, peer: &str, link: &str) -> Row {
        let peer = Some((peer.to_owned(), PortNum(1)));
        let counters = (Some(1), Some(999), None, Some(0));
        Row {
            node: node.to_owned(),
            guid: Guid(1),
            port: PortNum(1),
            peer,
            link: link.to_owned(),
            status: "ok",
            xmit: counters.0,
            rcv: counters.1,
            wait: counters.2,
            errors: counters.3,
        }
    }

    fn shown(rows: Vec<Row>) -> String {
        OneSlot {
            rows,
            ..OneSlot::default()
        }
        .show()
    }

    #[test]
    fn octets_have_a_unit() {
        assert_eq!(
            [0, 999, 1000, 123_456_789, u64::MAX].map(octets),
            ["0 B", "999 B", "1.00 kB", "123.46 MB", "18.45 EB"]
        );
    }

    #[test]
    fn rows_are_sorted_by_node_and_missing_counters_are_dashes() {
        let text = shown(vec![row("b", "x", "4xEDR"), row("a", "y", "4xHDR")]);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows[1],
            [
                "a", "1", "y", "1", "4xHDR", "ok", "1", "B", "999", "B", "-", "0"
            ]
        );
        assert_eq!(rows[2][0], "b");
    }

    proptest! {
        #[test]
        fn names_of_the_fabric_cannot_break_the_table_or_control_the_terminal(node in ".{0,40}", peer in ".{0,40}", link in ".{0,40}") {
            let text = shown(vec![row(&node, &peer, &link), row("b", "c", "4xEDR")]);
            prop_assert_eq!(text.lines().count(), 1 + 2 + 2);
            prop_assert!(text.chars().all(|c| c == '\n' || c == '…' || !c.is_control()), "{:?}", text);
            prop_assert!(text.lines().take(3).all(|line| line.chars().count() < 160), "{}", text);
        }
    }
}
