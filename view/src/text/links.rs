//! Table of links.

use ibnet_analysis::links::{self, DisagreementRow, Link, LinkOrder, LinkRow};
use ibnet_analysis::stat::Stat;
use ibnet_record::types::Printable;

use super::{count, percent, table};

/// Writes the first `top` links in this order as a table, and then all links whose two ends counted
/// different numbers of bytes. `stat` is the statistic with which the links were found.
pub fn report(all: &[Link], order: LinkOrder, stat: Stat, top: usize) -> String {
    let sorted = links::sorted(all, order);
    let name = match order {
        LinkOrder::Utilization => "utilization",
        LinkOrder::Blocked => "blocked time",
        LinkOrder::Errors => "errors",
    };
    let of_slots = if stat == Stat::Mean {
        String::new()
    } else {
        format!("; used and blocked: {stat} of all slots")
    };
    let mut text = format!(
        "{} of {}, by {name}{of_slots}\n\n",
        top.min(sorted.len()),
        count(sorted.len(), "link")
    );
    let mut table = table::new();
    table.set_header([
        "from",
        "to",
        "link",
        "Gb/s",
        "used",
        "peak",
        "blocked",
        "used back",
        "blocked back",
        "errors",
        "",
    ]);
    sorted.iter().take(top).for_each(|link| {
        table.add_row(cells(&link.row(stat)));
    });
    text += &table::to_text(table, &[3, 4, 5, 6, 7, 8, 9]);
    text += "\n";
    text + &disagreements(&sorted)
}

fn cells(row: &LinkRow) -> [String; 11] {
    let [used, peak, blocked, used_back, blocked_back] = [
        row.xmit_utilization,
        row.xmit_utilization_peak,
        row.blocked,
        row.back_utilization,
        row.back_blocked,
    ]
    .map(percent);
    let flag = if row.ends_disagree {
        "ends disagree"
    } else {
        ""
    };
    [
        row.from.to_string(),
        row.to.to_string(),
        Printable(&row.link).to_string(),
        row.xmit_gbps
            .map_or_else(|| "-".to_owned(), |gbps| format!("{gbps:.1}")),
        used,
        peak,
        blocked,
        used_back,
        blocked_back,
        row.errors.to_string(),
        flag.to_owned(),
    ]
}

fn disagreements(links: &[Link]) -> String {
    let disagree = links.iter().filter(|link| link.disagrees()).count();
    let compared = links.iter().filter(|link| link.compared.is_some()).count();
    if disagree == 0 {
        return format!(
            "\nBoth ends report the same traffic, within the tolerance, on {compared} of {}.\n",
            count(links.len(), "link")
        );
    }
    let mut table = table::new();
    table.set_header([
        "from",
        "to",
        "sent",
        "received",
        "difference",
        "tolerance",
        "seconds",
    ]);
    let octets = |octets: u64| format!("{:.3} GB", octets as f64 / 1e9);
    for DisagreementRow {
        from,
        to,
        sent_bytes,
        received_bytes,
        difference_bytes,
        tolerance_bytes,
        seconds,
    } in links.iter().flat_map(Link::disagreements)
    {
        let [sent, received, difference, tolerance] = [
            sent_bytes,
            received_bytes,
            difference_bytes,
            tolerance_bytes,
        ]
        .map(octets);
        table.add_row([
            from.to_string(),
            to.to_string(),
            sent,
            received,
            difference,
            tolerance,
            format!("{seconds:.0}"),
        ]);
    }
    let head = format!(
        "\nLinks whose ends report different traffic: {disagree} of {compared} compared\n\n"
    );
    head + &table::to_text(table, &[2, 3, 4, 5, 6]) + "\n"
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::ports::Ports;

    use super::*;
    use crate::fixtures::{fold, port};

    /// Returns the links of a host on a leaf switch, and of the leaf switch on a core switch that
    /// is not queried.
    fn links(lost: u64) -> Vec<Link> {
        let (leaf, host, core) = (0x1, 0x101, 0x2);
        let mut lines = Vec::new();
        for slot in 1..=3 {
            let data = |xmit: u64, rcv: u64, used: f64, blocked: f64| {
                [
                    ("port_xmit_data_bytes", xmit.into()),
                    ("port_rcv_data_bytes", rcv.into()),
                    ("xmit_utilization", used.into()),
                    ("xmit_gbps", (used * 100.0).into()),
                    ("xmit_blocked", blocked.into()),
                    ("port_rcv_errors", (slot * 2).into()),
                ]
            };
            let moved = slot * 1_000_000_000;
            lines.push(port(
                slot,
                (leaf, 1),
                "leaf",
                (host, 1, "n1 mlx5_0"),
                &data(moved, moved - lost * slot, 0.25, 0.0),
            ));
            lines.push(port(
                slot,
                (host, 1),
                "n1 mlx5_0",
                (leaf, 1, "leaf"),
                &data(moved, moved, 0.5, 0.125),
            ));
            let rest = [
                ("rcv_utilization", 0.75.into()),
                ("rcv_gbps", 75.into()),
                ("xmit_blocked", serde_json::Value::Null),
            ];
            lines.push(port(
                slot,
                (leaf, 2),
                "leaf",
                (core, 9, "<core>\u{1b}"),
                &rest,
            ));
        }
        links::find(&fold(Ports::with_bins(1), &lines).finish())
    }

    #[test]
    fn direction_with_more_traffic_comes_first() {
        let links = links(0);
        let text = report(&links, LinkOrder::Utilization, Stat::Mean, 5);
        let rows: Vec<_> = text.lines().skip(3).take(2).collect();
        assert!(
            rows[0].starts_with(r"<core>\u{1b} port 9  leaf port 2") && rows[0].contains("75.0 %"),
            "{text}"
        );
        assert!(rows[1].starts_with("n1 mlx5_0 port 1"), "{text}");
        let text = report(&links, LinkOrder::Blocked, Stat::Mean, 1);
        assert!(
            text.lines()
                .nth(3)
                .is_some_and(|row| row.starts_with("n1 mlx5_0 port 1") && row.contains("12.5 %")),
            "{text}"
        );
        assert!(text.starts_with("1 of 2 links, by blocked time\n"));
        assert!(text.ends_with("on 1 of 2 links.\n"), "{text}");
    }

    #[test]
    fn links_whose_ends_disagree_are_flagged() {
        let links = links(100_000_000);
        assert!(links[0].disagrees() && !links[1].disagrees());
        let text = report(&links, LinkOrder::Errors, Stat::Peak, 1);
        assert!(
            text.lines()
                .nth(3)
                .is_some_and(|row| row.ends_with("8  ends disagree")),
            "{text}"
        );
        let last = text.lines().last().unwrap();
        let words: Vec<_> = last
            .split("  ")
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .collect();
        assert_eq!(
            words[..5],
            [
                "n1 mlx5_0 port 1",
                "leaf port 1",
                "2.000 GB",
                "1.800 GB",
                "0.200 GB"
            ]
        );
    }
}
