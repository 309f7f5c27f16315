//! Makes records for the tests of modules that evaluate [`Ports`](ibnet_analysis::ports::Ports).

use ibnet_analysis::input::Fold;
use ibnet_analysis::record::{Head, Record};
use ibnet_record::types::Guid;

/// Returns the record of a port; `rest` adds fields or replaces their values.
pub(crate) fn port(
    slot: u64,
    (guid, number): (u64, u8),
    node: &str,
    peer: (u64, u8, &str),
    rest: &[(&str, serde_json::Value)],
) -> String {
    let kind = if guid < 0x100 { "switch" } else { "hca" };
    let mut line = serde_json::json!({
        "type": "port", "ts": slot * 1_000_000_000, "slot": slot, "sampler": "s1", "guid": Guid(guid).to_string(), "port": number, "lid": 1,
        "node": node, "kind": kind, "hops": 1, "peer_guid": Guid(peer.0).to_string(), "peer_port": peer.1, "peer": peer.2, "link": "4xEDR",
        "link_source": "live", "status": "ok", "rtt_ns": 0, "mads": 1, "identity": "ok", "dt_ns": 1_000_000_000, "xmit_gbps": 0.0, "rcv_gbps": 0.0,
        "xmit_utilization": 0.0, "rcv_utilization": 0.0, "xmit_blocked": 0.0,
    });
    rest.iter()
        .for_each(|(name, value)| line[*name] = value.clone());
    line.to_string()
}

/// Returns the record of an event.
pub(crate) fn event(slot: u64, (guid, number): (u64, u8), event: &str, detail: &str) -> String {
    let line = serde_json::json!({
        "type": "event", "ts": slot * 1_000_000_000 - 100, "slot": slot, "sampler": "s1", "ca": "sim", "ca_port": 1, "event": event,
        "guid": Guid(guid).to_string(), "port": number, "lid": 1, "detail": detail,
    });
    line.to_string()
}

/// Folds lines.
pub(crate) fn fold<F: Fold>(mut fold: F, lines: &[String]) -> F {
    for line in lines {
        let kind = Head::of(line.as_bytes())
            .expect("a record")
            .kind
            .expect("a known one");
        fold.add(&Record::parse(line.as_bytes(), kind).expect("a record"));
    }
    fold
}

/// Returns the records of two seconds. A leaf switch has the hosts n1, N2 and n3; the HCA of n3
/// is not queried. In the second second, n1 and N2 send twice as much. Without `has_core`, the
/// core switch is not queried either.
pub(crate) fn job_lines(has_core: bool) -> Vec<String> {
    const LEAF: u64 = 1;
    let mut lines = Vec::new();
    let moves = |out: f64, back: f64, blocked: f64| {
        [
            ("xmit_gbps", out.into()),
            ("rcv_gbps", back.into()),
            ("xmit_blocked", blocked.into()),
            ("xmit_utilization", (out / 100.0).into()),
        ]
    };
    for (slot, times) in [(1, 1.0), (2, 2.0)] {
        lines.push(port(
            slot,
            (0x101, 1),
            "n1 mlx5_0",
            (LEAF, 1, "leaf"),
            &moves(8.0 * times, 4.0, 0.25 * times),
        ));
        lines.push(port(
            slot,
            (0x102, 1),
            "N2 mlx5_0",
            (LEAF, 2, "leaf"),
            &moves(4.0 * times, 12.0, 0.0),
        ));
        lines.push(port(
            slot,
            (LEAF, 3),
            "leaf",
            (0x103, 1, "n3 mlx5_0"),
            &moves(2.0, 6.0, 0.0),
        ));
        lines.push(port(
            slot,
            (LEAF, 9),
            "leaf",
            (2, 1, "core"),
            &moves(12.0, 6.0, 0.5),
        ));
        lines.push(if has_core {
            port(
                slot,
                (2, 1),
                "core",
                (LEAF, 9, "leaf"),
                &moves(6.0, 12.0, 0.0),
            )
        } else {
            // A second link to the same switch.
            port(
                slot,
                (LEAF, 10),
                "leaf",
                (2, 2, "core"),
                &moves(0.0, 0.0, 0.0),
            )
        });
    }
    lines
}

/// Returns records of two leaf switches with two hosts each, and two links from each to a core
/// switch. The name of the second leaf switch is not valid XML.
pub(crate) fn map_lines() -> Vec<String> {
    let mut lines = Vec::new();
    let used = |out: f64, back: f64| {
        [
            ("xmit_utilization", out.into()),
            ("rcv_utilization", back.into()),
            ("xmit_blocked", 0.25.into()),
        ]
    };
    for (leaf, name) in [(1, "leaf1"), (2, "</text><script>\u{1b}")] {
        for host in 1..=2_u8 {
            lines.push(port(
                1,
                (leaf, host),
                name,
                (0x100 * leaf + u64::from(host), 1, "n \"<\" mlx5_0"),
                &used(0.5, 0.125 * f64::from(host)),
            ));
        }
        for cable in 3..=4_u8 {
            lines.push(port(
                1,
                (leaf, cable),
                name,
                (9, cable + 4 * leaf as u8, "core"),
                &used(0.1, f64::from(cable) / 5.0),
            ));
        }
    }
    lines
}

/// Returns ten seconds of records of a leaf switch: port 1 has errors, port 2 is down, port 3 is
/// degraded, port 4 has no fault, port 5 flaps, port 6 counts relay errors, port 7 never answers.
pub(crate) fn error_lines() -> Vec<String> {
    let mut lines = Vec::new();
    for slot in [10, 15, 20] {
        let one = |number, rest: &[(&str, serde_json::Value)]| {
            port(
                slot,
                (1, number),
                "leaf",
                (0x100 + u64::from(number), 1, "n\u{1b}[2J"),
                rest,
            )
        };
        lines.push(one(
            1,
            &[
                ("symbol_error_counter", (slot * 3).into()),
                ("port_xmit_discards", (slot * 100).into()),
                ("port_sw_hoq_lifetime_limit_discards", (slot * 50).into()),
            ],
        ));
        lines.push(one(
            2,
            &[
                ("symbol_error_counter", 65535.into()),
                ("saturated", ["symbol_error_counter"].into()),
            ],
        ));
        lines.push(one(
            3,
            &[("link", if slot < 15 { "4xEDR" } else { "1xEDR" }.into())],
        ));
        lines.push(one(4, &[("port_rcv_errors", 7.into())]));
        lines.push(one(5, &[("link_downed_counter", (slot / 5).into())]));
        lines.push(one(7, &[("status", "timeout".into())]));
        lines.push(one(6, &[("port_rcv_switch_relay_errors", slot.into())]));
    }
    lines.extend([
        event(12, (1, 2), "link_down", "down"),
        event(13, (1, 5), "link_down", "down"),
        event(14, (1, 5), "link_up", "active"),
    ]);
    lines
}

/// GUIDs of the switches and of the server of [`incast_lines`].
pub(crate) const LEAF: u64 = 1;
pub(crate) const CORE: u64 = 2;
pub(crate) const SERVER: u64 = 0x200;

/// Returns records of both ends of a link in a slot, with utilization and blocked share of each
/// direction.
pub(crate) fn link(
    slot: u64,
    one: (u64, u8, &str),
    other: (u64, u8, &str),
    out: (f64, f64),
    back: (f64, f64),
) -> [String; 2] {
    let rest = |sent: (f64, f64), received: (f64, f64)| {
        [
            ("xmit_utilization", sent.0.into()),
            ("rcv_utilization", received.0.into()),
            ("xmit_blocked", sent.1.into()),
        ]
    };
    [
        port(slot, (one.0, one.1), one.2, other, &rest(out, back)),
        port(slot, (other.0, other.1), other.2, one, &rest(back, out)),
    ]
}

/// Returns the records of a small fabric: a leaf switch with two hosts, and a core switch linked
/// to the leaf switch, a server and a third host. In slots 1 and 2 the server is sent more
/// traffic than its link carries.
pub(crate) fn incast_lines() -> Vec<String> {
    let idle = (0.0, 0.0);
    let mut lines = Vec::new();
    for slot in 1..=4 {
        let when = |load: (f64, f64)| if slot <= 2 { load } else { (0.3, 0.0) };
        for host in 1..=2 {
            lines.extend(link(
                slot,
                (0x100 + host, 1, "n mlx5_0"),
                (LEAF, host as u8, "leaf"),
                when((0.25, 0.75)),
                idle,
            ));
        }
        lines.extend(link(
            slot,
            (LEAF, 9, "leaf"),
            (CORE, 1, "core"),
            when((0.5, 0.5)),
            idle,
        ));
        lines.extend(link(
            slot,
            (0x103, 1, "far mlx5_0"),
            (CORE, 3, "core"),
            (0.97, 0.0),
            idle,
        ));
        lines.extend(link(
            slot,
            (CORE, 2, "core"),
            (SERVER, 1, "oss1\u{1b} mlx5_0"),
            when((0.99, 0.0)),
            idle,
        ));
    }
    lines
}
