//! Writes the report on devices that do not answer, and the table of link faults and
//! error counters.

use std::fmt::Write;

use ibnet_analysis::devices::{DeviceFault, FaultyDevice};
use ibnet_analysis::errors::{Errors, FaultyPort, LinkFault};
use ibnet_analysis::ports::PortName;
use ibnet_analysis::ports::change::CounterChange;
use ibnet_analysis::when::Zone;
use ibnet_record::types::{NodeKind, Printable};
use ibnet_record::{ERROR_COUNTERS, is_error_part};

use super::{count, table};

/// Max number of names in a sentence.
const MAX_NAMES: usize = 8;

/// Writes the devices that do not answer, a table of port faults, and notes on ports that the table
/// does not list. `when` is the text of the time range.
pub fn report(errors: &Errors<'_>, when: &str, zone: &Zone) -> String {
    let mut text = unreachable(&errors.devices).map_or_else(String::new, |line| line + "\n");
    let _ = writeln!(text, "{when}");
    let links = errors
        .faulty
        .iter()
        .filter(|port| port.fault.is_some())
        .count();
    let counting = errors
        .faulty
        .iter()
        .filter(|port| !port.counters.is_empty())
        .count();
    let _ = writeln!(
        text,
        "{}; ports with errors: {counting}; links with faults: {links}",
        count(errors.ports, "port")
    );
    if !errors.devices.is_empty() {
        let mut table = table::new();
        table.set_header(["state", "device", "kind", "since", "ports", "behind it"]);
        table.add_rows(errors.devices.iter().map(|device| device_row(device, zone)));
        let _ = writeln!(text, "\n{}", table::to_text(table, &[4]));
    }
    if !errors.faulty.is_empty() {
        let mut table = table::new();
        table.set_header([
            "state", "port", "to", "link", "counter", "increase", "rate", "value",
        ]);
        table.add_rows(errors.faulty.iter().flat_map(rows));
        let _ = writeln!(text, "\n{}", table::to_text(table, &[5, 6, 7]));
    }
    let notes = notes(errors);
    if !notes.is_empty() {
        let _ = writeln!(text, "\n{}", notes.join("\n"));
    }
    text
}

/// Returns one line with the names of the devices that do not answer, or `None` if all
/// devices answer.
pub(crate) fn unreachable(devices: &[FaultyDevice]) -> Option<String> {
    let dead: Vec<&FaultyDevice> = devices
        .iter()
        .filter(|device| device.fault == DeviceFault::Unreachable)
        .collect();
    if dead.is_empty() {
        return None;
    }
    let switches = dead
        .iter()
        .filter(|device| device.kind == Some(NodeKind::Switch))
        .count();
    let (of_switches, of_hosts) = (
        count(switches, "switch"),
        count(dead.len() - switches, "host port"),
    );
    let what = match (switches, dead.len() - switches) {
        (0, _) => of_hosts,
        (_, 0) => of_switches,
        _ => format!("{of_switches} and {of_hosts}"),
    };
    let verb = if dead.len() == 1 {
        "does not answer"
    } else {
        "do not answer"
    };
    let name = |device: &&FaultyDevice| match device.behind.len() {
        0 => name(device),
        behind => format!("{} ({} behind it)", name(device), count(behind, "device")),
    };
    let mut names: Vec<String> = dead.iter().take(MAX_NAMES).map(name).collect();
    if dead.len() > MAX_NAMES {
        names.push(format!("and {} more", dead.len() - MAX_NAMES));
    }
    Some(format!("{what} {verb}: {}", names.join(", ")))
}

/// Returns the name of a device, or its GUID.
fn name(device: &FaultyDevice) -> String {
    let node = device.port.node.trim();
    if node.is_empty() {
        device.port.guid.to_string()
    } else {
        Printable(node).to_string()
    }
}

fn device_row(device: &FaultyDevice, zone: &Zone) -> [String; 6] {
    let state = match device.fault {
        DeviceFault::Unreachable => "no answer",
        DeviceFault::WrongDevice => "wrong device",
        DeviceFault::WasUnreachable => "was away",
    };
    let kind = match device.kind {
        Some(NodeKind::Switch) => "switch",
        Some(NodeKind::Router) => "router",
        Some(NodeKind::Hca) => "host port",
        None => "",
    };
    let since = zone.format(device.since_ns, "%Y-%m-%d %H:%M:%S");
    let since = if device.answered_before {
        since
    } else {
        format!("{since} or earlier")
    };
    let mut behind: Vec<String> = device
        .behind
        .iter()
        .take(MAX_NAMES)
        .map(|port| Printable(port.node.trim()).to_string())
        .collect();
    if device.behind.len() > MAX_NAMES {
        behind.push(format!("and {} more", device.behind.len() - MAX_NAMES));
    }
    [
        state.to_owned(),
        name(device),
        kind.to_owned(),
        since,
        device.ports.to_string(),
        behind.join(", "),
    ]
}

fn notes(errors: &Errors<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if errors
        .faulty
        .iter()
        .any(|port| port.changes().any(|(_, change)| change.is_lower_bound))
    {
        notes.push("\u{2265}: the counter was reset in between, or it is saturated".to_owned());
    }
    if errors
        .devices
        .iter()
        .any(|device| device.fault == DeviceFault::WrongDevice)
    {
        notes.push("wrong device: another device answers at its LID".to_owned());
    }
    if errors.at_unreachable > 0 {
        notes.push(format!(
            "ports with link faults at devices that do not answer, not listed: {}",
            errors.at_unreachable
        ));
    }
    if errors.silent > 0 {
        notes.push(format!(
            "ports without a reply on devices that answer: {}",
            errors.silent
        ));
    }
    if errors.below > 0 {
        notes.push(format!(
            "ports with errors within the thresholds: {}",
            errors.below
        ));
    }
    if errors.saturated > 0 {
        notes.push(format!(
            "ports with a counter that is saturated and counts nothing until it is reset: {}",
            errors.saturated
        ));
    }
    notes
}

/// Returns the lines of a port, one for each counter. The first line also has its link.
fn rows(port: &FaultyPort<'_>) -> Vec<[String; 8]> {
    let summary = port.summary;
    let mut counters: Vec<[String; 4]> = counters(port);
    if counters.is_empty() {
        counters.push(Default::default());
    }
    let head = [
        port.fault.map_or("", LinkFault::title).to_owned(),
        PortName::new(&summary.node, port.key).to_string(),
        summary
            .peer_port()
            .map_or_else(String::new, |peer| peer.to_string()),
        link(port),
    ];
    let rows = counters
        .into_iter()
        .enumerate()
        .map(|(line, [name, increase, rate, value])| {
            let [state, port, peer, link] = if line == 0 {
                head.clone()
            } else {
                Default::default()
            };
            [state, port, peer, link, name, increase, rate, value]
        });
    rows.collect()
}

/// Returns width and speed of the link, its earlier rate if that was faster, its MTU if the ends
/// differ, and how often the link was down.
fn link(port: &FaultyPort<'_>) -> String {
    let summary = port.summary;
    let mut text = Printable(&summary.link).to_string();
    if summary.is_degraded() {
        let _ = write!(text, ", was {}", Printable(&summary.fastest));
    }
    if let (Some(LinkFault::Mismatch), Some(mtu)) = (port.fault, summary.mtu) {
        let _ = write!(text, ", MTU {mtu}");
    }
    match summary.events.downs {
        0 => {}
        1 => text += ", down once",
        downs => text += &format!(", down {downs} times"),
    }
    text
}

/// Returns name, increase, rate and value of each counter. Parts of a counter are indented.
fn counters(port: &FaultyPort<'_>) -> Vec<[String; 4]> {
    let cells = |(index, change): (usize, CounterChange)| {
        let name = if is_error_part(index) {
            format!("  {}", ERROR_COUNTERS[index])
        } else {
            ERROR_COUNTERS[index].to_owned()
        };
        let increase = if change.is_lower_bound {
            format!("\u{2265} {}", change.increase)
        } else {
            change.increase.to_string()
        };
        [
            name,
            increase,
            rate(change.increase, port.summary.seconds()),
            change.last.to_string(),
        ]
    };
    port.changes().map(cells).collect()
}

/// Formats a rate of events. The unit of time is the shortest in which at least one event occurs.
fn rate(events: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return String::new();
    }
    let per_second = events as f64 / seconds;
    let units = [("s", 1.0), ("min", 60.0), ("h", 3600.0)];
    let (unit, length) = units
        .into_iter()
        .find(|(_, length)| per_second * length >= 1.0)
        .unwrap_or(("day", 86400.0));
    let rate = per_second * length;
    if rate >= 100.0 {
        format!("{rate:.0}/{unit}")
    } else {
        format!("{rate:.1}/{unit}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ibnet_analysis::devices::Devices;
    use ibnet_analysis::errors::Thresholds;
    use ibnet_analysis::ports::{PortKey, PortSummary, Ports};

    use super::*;
    use crate::fixtures::{error_lines, fold, port};

    fn read(lines: &[String]) -> (BTreeMap<PortKey, PortSummary>, Devices) {
        let (ports, devices) = fold((Ports::with_bins(1), Devices::default()), lines);
        (ports.finish(), devices)
    }

    #[test]
    fn table_has_both_ends_rates_and_the_former_link() {
        let (ports, devices) = read(&error_lines());
        let text = report(
            &Errors::find(&ports, &devices, &Thresholds::default(), None),
            "now",
            &Zone::utc(),
        );
        let row = |start: &str| {
            text.lines()
                .find(|line| line.starts_with(start))
                .unwrap_or_else(|| panic!("no {start} in {text}"))
        };
        let words = |row: &str| {
            row.split("  ")
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            words(row("down")),
            [
                "down",
                "leaf port 2",
                r"n\u{1b}[2J port 1",
                "4xEDR, down once"
            ]
        );
        assert_eq!(words(row("degraded"))[3], "1xEDR, was 4xEDR");
        let symbols = text
            .lines()
            .find(|line| line.contains("symbol_error_counter"))
            .unwrap();
        assert_eq!(
            words(symbols)[2..],
            ["4xEDR", "symbol_error_counter", "30", "3.0/s", "60"]
        );
        let hoq = text.lines().find(|line| line.contains("hoq")).unwrap();
        assert_eq!(
            words(hoq),
            [
                "port_sw_hoq_lifetime_limit_discards",
                "500",
                "50.0/s",
                "1000"
            ],
            "a part of the counter above"
        );
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn devices_that_do_not_answer_are_named_in_the_first_line() {
        let mut lines = vec![port(1, (9, 1), "core", (2, 9, "leaf02"), &[])];
        for slot in 1..=2_u64 {
            let dead = [(
                "status",
                if slot == 1 { "ok" } else { "unreachable" }.into(),
            )];
            lines.push(port(slot, (2, 9), "leaf02", (9, 1, "core"), &dead));
            lines.push(port(
                slot,
                (2, 1),
                "leaf02",
                (0x201, 1, "n\u{1b}1 mlx5_0"),
                &dead,
            ));
            lines.push(port(
                slot,
                (0x201, 1),
                "n\u{1b}1 mlx5_0",
                (2, 1, "leaf02"),
                &dead,
            ));
            lines.push(port(
                slot,
                (0x101, 1),
                "n2 mlx5_0",
                (1, 1, "leaf01"),
                &[("status", "unreachable".into())],
            ));
        }
        let (ports, devices) = read(&lines);
        let text = report(
            &Errors::find(&ports, &devices, &Thresholds::default(), None),
            "now",
            &Zone::utc(),
        );
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|row| {
                row.split("  ")
                    .map(str::trim)
                    .filter(|word| !word.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(
            rows[0],
            ["1 switch and 1 host port do not answer: leaf02 (1 device behind it), n2 mlx5_0"]
        );
        assert_eq!(rows[1], ["now"]);
        assert_eq!(
            rows[5],
            [
                "no answer",
                "leaf02",
                "switch",
                "1970-01-01 00:00:02",
                "2",
                "n\\u{1b}1 mlx5_0"
            ]
        );
        assert_eq!(
            rows[6],
            [
                "no answer",
                "n2 mlx5_0",
                "host port",
                "1970-01-01 00:00:01 or earlier",
                "1"
            ]
        );
        assert!(!text.contains("without a reply"), "{text}");
    }

    #[test]
    fn rates_have_the_shortest_unit_with_at_least_one_event() {
        let rates: Vec<_> = [
            (0, 1.0),
            (500, 1.0),
            (30, 10.0),
            (1, 10.0),
            (1, 600.0),
            (1, 86400.0),
        ]
        .map(|(events, seconds)| rate(events, seconds))
        .into();
        assert_eq!(
            rates,
            ["0.0/day", "500/s", "3.0/s", "6.0/min", "6.0/h", "1.0/day"]
        );
    }
}
