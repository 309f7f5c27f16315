//! Writes the report on congestion trees.

use std::fmt::{self, Write};

use ibnet_analysis::ports::{PortKey, PortName};
use ibnet_analysis::trees::{Branch, Confidence, RootCause, Tree, TreeRow, Trees};
use ibnet_record::types::Printable;

use super::{count, percent, table};

/// Max number of ports that are listed below one port.
const MAX_SHOWN: usize = 12;

/// Min length of the intervals of a search, in nanoseconds.
const SHORT_NS: u64 = 1_000_000_000;

/// Writes the first `top` trees, each with its root, its victims and its branches.
pub fn report(found: &Trees, top: usize) -> String {
    let mut text = String::new();
    if found.trees.is_empty() && found.circles.is_empty() {
        text.push_str("No congestion tree: no port waited.\n");
    } else {
        // Writing to a `String` cannot fail.
        let _ = write_trees(&mut text, found, top);
    }
    if found.interval_ns > SHORT_NS {
        let seconds = found.interval_ns / SHORT_NS;
        let _ = writeln!(
            text,
            "\nSearched in parts of {seconds} s. Shorter congestion can be missed; give a shorter time (--from, --to)."
        );
    }
    text
}

fn write_trees(text: &mut String, found: &Trees, top: usize) -> fmt::Result {
    writeln!(
        text,
        "{} in {:.0} s of congestion",
        count(found.trees.len(), "congestion tree"),
        found.seconds
    )?;
    for (number, (tree, row)) in found.trees.iter().zip(found.rows()).take(top).enumerate() {
        write_tree(text, found, number + 1, tree, &row)?;
    }
    if found.trees.len() > top {
        writeln!(
            text,
            "\n{} more with less blocked time (--top)",
            found.trees.len() - top
        )?;
    }
    if !found.circles.is_empty() {
        writeln!(
            text,
            "\n{} waited for each other in a circle without a root; a correct routing has no circles:",
            count(found.circles.len(), "port")
        )?;
        for (key, seconds) in found.circles.iter().take(MAX_SHOWN) {
            writeln!(text, "  {}, {seconds:.0} s", with_peer(found, *key))?;
        }
    }
    Ok(())
}

fn write_tree(
    text: &mut String,
    found: &Trees,
    number: usize,
    tree: &Tree,
    row: &TreeRow,
) -> fmt::Result {
    writeln!(
        text,
        "\nTree {number}: root {}",
        with_peer(found, tree.root)
    )?;
    let cause = cause((row.why, row.confidence, row.ports_beyond), row.to.as_ref());
    let (link, blocked) = (Printable(&row.link), percent(Some(row.blocked)));
    let (used, peak) = (
        percent(Some(row.xmit_utilization)),
        percent(Some(row.xmit_utilization_peak)),
    );
    let peak = if peak == used {
        String::new()
    } else {
        format!(" (up to {peak})")
    };
    writeln!(
        text,
        "  {link}, {used} used{peak}, {blocked} blocked, for {:.0} s; {cause}",
        row.seconds
    )?;
    let (hosts, switches) = (
        count(row.host_ports, "host port"),
        count(row.switch_ports, "switch port"),
    );
    writeln!(
        text,
        "  Victims: {hosts} and {switches}; blocked time of all ports: {:.0} s",
        row.held_up_seconds
    )?;
    if tree.branches.is_empty() {
        return Ok(());
    }
    let mut table = table::new();
    table.set_header(["  waiting port", "peer", "seconds", "blocked", "used"]);
    add_rows(&mut table, found, tree, tree.root, 1);
    writeln!(text, "\n{}", table::to_text(table, &[2, 3, 4]))
}

/// Returns the cause of a tree as a sentence.
pub(super) fn cause(
    (why, confidence, ports_beyond): (RootCause, Option<Confidence>, usize),
    to: Option<&PortName>,
) -> String {
    let device = to.map(|to| to.node.trim());
    let device = device.filter(|node| !node.is_empty());
    let device = device.map_or_else(
        || "the device at the other end".to_owned(),
        |node| Printable(node).to_string(),
    );
    let sure = confidence.map_or("", |confidence| match confidence {
        Confidence::High => " (confidence: high)",
        Confidence::Medium => " (confidence: medium)",
        Confidence::Low => " (confidence: low, short congestion)",
    });
    match why {
        RootCause::Full => format!("cause: more traffic than the link carries{sure}"),
        RootCause::SlowHost => format!("cause: {device} takes its packets too slowly{sure}"),
        RootCause::Unreachable => format!("cause: {device} does not answer"),
        RootCause::Unclear if ports_beyond == 0 => {
            format!("cause unknown: no other port of {device} is in the records")
        }
        RootCause::Unclear => format!(
            "cause unknown: {} of {device} in the records, none busy for as long as this one waited",
            count(ports_beyond, "other port")
        ),
    }
}

/// Adds the ports that wait for `next`. Switch ports come first, the one with the longest
/// blocked time at the top, each followed by the ports that wait for it. One line after them
/// names all hosts.
fn add_rows(
    table: &mut comfy_table::Table,
    found: &Trees,
    tree: &Tree,
    next: PortKey,
    depth: usize,
) {
    let waiting = tree
        .branches
        .iter()
        .filter(|(_, branch)| branch.next == next);
    let (mut hosts, mut ports): (Vec<_>, Vec<_>) =
        waiting.partition(|(key, _)| found.is_host(**key));
    let longest_first = |a: &(&PortKey, &Branch), b: &(&PortKey, &Branch)| {
        b.1.blocked_seconds.total_cmp(&a.1.blocked_seconds)
    };
    ports.sort_by(longest_first);
    hosts.sort_by(longest_first);
    let indent = "  ".repeat(depth);
    let numbers = |branches: &[(&PortKey, &Branch)]| {
        let sum = |value: fn(&Branch) -> f64| {
            branches
                .iter()
                .map(|(_, branch)| value(branch))
                .sum::<f64>()
        };
        let seconds = sum(|branch| branch.seconds);
        let [blocked, used] = [
            sum(|branch| branch.blocked_seconds),
            sum(|branch| branch.used_seconds),
        ]
        .map(|time| percent(Some(time / seconds)));
        [
            format!("{:.0}", seconds / branches.len() as f64),
            blocked,
            used,
        ]
    };
    let peer = |key: PortKey| {
        found
            .peer(key)
            .map_or_else(String::new, |peer| peer.to_string())
    };
    for port in ports.iter().take(MAX_SHOWN) {
        let [seconds, blocked, used] = numbers(&[*port]);
        table.add_row([
            format!("{indent}{}", found.name(*port.0)),
            peer(*port.0),
            seconds,
            blocked,
            used,
        ]);
        add_rows(table, found, tree, *port.0, depth + 1);
    }
    if ports.len() > MAX_SHOWN {
        table.add_row([format!(
            "{indent}and {}",
            count(ports.len() - MAX_SHOWN, "more switch port")
        )]);
    }
    if let [(first, _), others @ ..] = &hosts[..] {
        let more = if others.is_empty() {
            String::new()
        } else {
            format!(" and {}", count(others.len(), "more host port"))
        };
        let to = if others.is_empty() {
            peer(**first)
        } else {
            String::new()
        };
        let [seconds, blocked, used] = numbers(&hosts);
        table.add_row([
            format!("{indent}{}{more}", found.name(**first)),
            to,
            seconds,
            blocked,
            used,
        ]);
    }
}

/// Formats a port and its peer.
fn with_peer(found: &Trees, key: PortKey) -> String {
    let peer = found
        .peer(key)
        .map_or_else(String::new, |peer| format!(" -> {peer}"));
    found.name(key).to_string() + &peer
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::devices::Devices;
    use ibnet_analysis::ports::Ports;
    use ibnet_analysis::trees::Limits;

    use super::*;
    use crate::fixtures::{CORE, LEAF, fold, incast_lines, link, port};

    fn trees(lines: &[String]) -> Trees {
        Trees::find(
            &fold(Ports::with_bins(64), lines).finish(),
            &Devices::default(),
            Limits::default(),
        )
    }

    fn words(row: &str) -> Vec<&str> {
        row.split("  ")
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .collect()
    }

    #[test]
    fn report_has_the_root_its_victims_and_the_waiting_ports() {
        let found = trees(&incast_lines());
        let text = report(&found, 5);
        assert!(
            text.contains("Tree 1: root core port 2 -> oss1\\u{1b} mlx5_0 port 1\n  4xEDR, 99.0 % used, 0.0 % blocked, for 2 s"),
            "{text}"
        );
        assert!(
            text.contains(
                "Victims: 2 host ports and 1 switch port; blocked time of all ports: 4 s"
            ),
            "{text}"
        );
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip_while(|line| !line.starts_with("  waiting port"))
            .skip(1)
            .map(words)
            .collect();
        assert_eq!(
            rows[0],
            ["leaf port 9", "core port 1", "2", "50.0 %", "50.0 %"]
        );
        assert_eq!(
            rows[1],
            [
                "n mlx5_0 port 1 and 1 more host port",
                "2",
                "75.0 %",
                "25.0 %"
            ]
        );
    }

    #[test]
    fn device_that_does_not_answer_is_named() {
        let lines = [1, 2].map(|slot| {
            let [leaf, _] = link(
                slot,
                (LEAF, 9, "leaf"),
                (CORE, 1, "co\u{1b}re"),
                (0.0, 1.0),
                (0.0, 0.0),
            );
            let dead = [
                ("status", "unreachable".into()),
                ("dt_ns", serde_json::Value::Null),
            ];
            [
                leaf,
                port(slot, (CORE, 1), "co\u{1b}re", (LEAF, 9, "leaf"), &dead),
            ]
        });
        let lines = lines.concat();
        let (ports, devices) = fold((Ports::with_bins(64), Devices::default()), &lines);
        let text = report(
            &Trees::find(&ports.finish(), &devices, Limits::default()),
            5,
        );
        assert!(
            text.contains("root leaf port 9")
                && text.contains("cause: co\\u{1b}re does not answer\n"),
            "{text}"
        );
    }

    #[test]
    fn report_lists_circles() {
        let ring = [(1, 2), (2, 3), (3, 1)]
            .map(|(from, to)| link(1, (from, 1, "s"), (to, 2, "s"), (0.2, 0.6), (0.0, 0.0)))
            .concat();
        assert!(report(&trees(&ring), 9).contains("3 ports waited for each other in a circle"));
    }

    #[test]
    fn report_without_congestion_is_one_line() {
        let busy = link(
            1,
            (0x101, 1, "n1"),
            (LEAF, 1, "leaf"),
            (0.99, 0.0),
            (0.99, 0.0),
        );
        assert_eq!(
            report(&trees(&busy), 1),
            "No congestion tree: no port waited.\n"
        );
    }

    #[test]
    fn report_names_long_parts() {
        let found = Trees::find(
            &fold(Ports::with_bins(1), &incast_lines()).finish(),
            &Devices::default(),
            Limits::default(),
        );
        assert!(
            report(&found, 1)
                .ends_with("\nSearched in parts of 4 s. Shorter congestion can be missed; give a shorter time (--from, --to).\n")
        );
    }
}
