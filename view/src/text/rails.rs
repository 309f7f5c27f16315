//! Tables of the rails of a job.

use ibnet_analysis::job::rails::{RailRow, Slower};
use ibnet_analysis::when::Zone;
use ibnet_record::types::Printable;

use super::job::octets;
use super::{count, percent, table};

/// Writes the traffic of each rail by leaf switch, at most `top` lines for each rail, and then the
/// times in which a rail was slower.
pub fn report(rails: &[RailRow], top: usize, zone: &Zone) -> String {
    let ports: usize = rails.iter().map(|rail| rail.ports).sum();
    let mut text = format!(
        "{} with {}\n\n",
        count(rails.len(), "rail"),
        count(ports, "HCA port")
    );
    let mut traffic = table::new();
    traffic.set_header([
        "rail",
        "leaf switch",
        "ports",
        "sent",
        "received",
        "blocked",
        "switch blocked",
    ]);
    for rail in rails {
        for leaf in rail.leaves.iter().take(top) {
            let name = Some(Printable(leaf.name.trim()).to_string());
            traffic.add_row([
                Printable(&rail.rail).to_string(),
                name.filter(|name| !name.is_empty())
                    .or_else(|| leaf.guid.map(|guid| guid.to_string()))
                    .unwrap_or_else(|| "-".to_owned()),
                leaf.ports.to_string(),
                octets(leaf.injected_bytes),
                octets(leaf.ejected_bytes),
                percent(leaf.blocked),
                percent(leaf.switch_blocked),
            ]);
        }
        if let more @ 1.. = rail.leaves.len().saturating_sub(top) {
            let more = format!("and {}", count(more, "more leaf switch"));
            traffic.add_row([Printable(&rail.rail).to_string(), more]);
        }
    }
    text += &table::to_text(traffic, &[2, 3, 4, 5, 6]);
    text += "\n\n";
    text + &slower(rails, zone)
}

fn slower(rails: &[RailRow], zone: &Zone) -> String {
    let all: Vec<_> = rails
        .iter()
        .flat_map(|rail| rail.slower.iter().map(move |slower| (rail, slower)))
        .collect();
    if all.is_empty() {
        return "Slower rails: none\n".to_owned();
    }
    let mut table = table::new();
    table.set_header([
        "rail",
        "host",
        "from",
        "to",
        "slower",
        "waits for host",
        "switch port",
    ]);
    let mut has_unknown = false;
    for (rail, found) in &all {
        let Slower {
            host,
            port,
            from_ns,
            to_ns,
            slower,
            held_up,
        } = found;
        has_unknown |= host.is_none();
        let [from, to] = [from_ns, to_ns].map(|ns| zone.format(*ns, "%Y-%m-%d %H:%M:%S"));
        table.add_row([
            Printable(&rail.rail).to_string(),
            host.as_ref()
                .map_or_else(|| "?".to_owned(), |host| Printable(host).to_string()),
            from,
            to,
            percent(*slower),
            percent(*held_up),
            port.as_ref()
                .map_or_else(|| "-".to_owned(), ToString::to_string),
        ]);
    }
    let mut text = format!("Slower rails: {}\n\n", all.len());
    text += &table::to_text(table, &[4, 5]);
    text += "\n";
    if has_unknown {
        text += "\n?: no switch port waits for a host of the rail. A host that sends too slowly makes no port wait,\n\
                 so the counters do not show which host it is. `ibnet-view errors` lists slower links.\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::job::rails::RailLeaf;

    use super::*;

    #[test]
    fn report_has_the_leaf_switches_and_the_slow_host() {
        let leaf = |name: &str| RailLeaf {
            guid: None,
            name: name.to_owned(),
            ports: 8,
            injected_bytes: 3e9,
            ejected_bytes: 2e9,
            blocked: Some(0.125),
            switch_blocked: None,
        };
        let slow = |host: Option<&str>| Slower {
            host: host.map(str::to_owned),
            port: None,
            from_ns: 40_000_000_000,
            to_ns: 60_000_000_000,
            slower: Some(0.1),
            held_up: None,
        };
        let rail = RailRow {
            rail: "mlx5_3\u{1b}".to_owned(),
            ports: 16,
            injected_bytes: 6e9,
            ejected_bytes: 4e9,
            covered_seconds: 60.0,
            leaves: ["leaf1", "leaf2", "leaf3"].map(leaf).to_vec(),
            slower: vec![slow(Some("node07")), slow(None)],
        };
        let text = report(std::slice::from_ref(&rail), 2, &Zone::utc());
        for part in [
            "1 rail with 16 HCA ports\n",
            "mlx5_3\\u{1b}  leaf1",
            "and 1 more leaf switch",
            "Slower rails: 2",
            "node07  1970-01-01 00:00:40  1970-01-01 00:01:00  10.0 %",
            "?: no switch port waits",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let healthy = RailRow {
            slower: Vec::new(),
            ..rail
        };
        assert!(report(&[healthy], 2, &Zone::utc()).ends_with("Slower rails: none\n"));
    }
}
