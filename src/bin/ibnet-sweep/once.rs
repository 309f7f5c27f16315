//! One slot as a table for people: `ibnet-sweep --once`.

use super::table;
use ibnet::sweep::record::line::{Port, Sweep};
use ibnet::types::Printable;

/// A row a port, with the counters that most ask for first, and a line on the whole: all HCA ports that asked together. Data in octets, everything as the device counts it since its
/// counters were cleared.
pub fn show(ports: &[Port], sweeps: &[Sweep]) -> String {
    let mut table = table::new();
    table.set_header(["node", "port", "peer", "port", "link", "status", "xmit", "rcv", "wait", "errors"]);
    for port in ports {
        let counter = |name: &str| port.counter(name);
        let shown = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let errors = ERRORS.iter().filter_map(|name| counter(name)).reduce(|a, b| a.saturating_add(b));
        table.add_row([
            short(&port.node),
            port.port.to_string(),
            port.peer.as_deref().map_or_else(|| "-".to_owned(), short),
            port.peer_port.map_or_else(|| "-".to_owned(), |num| num.to_string()),
            short(&port.link),
            short(&port.status),
            counter("port_xmit_data_bytes").map_or_else(|| "-".to_owned(), octets),
            counter("port_rcv_data_bytes").map_or_else(|| "-".to_owned(), octets),
            shown(counter("port_xmit_wait_ticks")),
            shown(errors),
        ]);
    }
    let mut text = table::show(table, &[1, 3, 6, 7, 8, 9]) + "\n";
    if let Some(longest) = sweeps.iter().map(|sweep| sweep.duration_ns).max() {
        let sum = |of: fn(&Sweep) -> u64| sweeps.iter().map(of).fold(0, u64::saturating_add);
        let (ok, ports, mads) = (sum(|sweep| sweep.ok.into()), sum(|sweep| sweep.ports.into()), sum(|sweep| sweep.mads_sent));
        let millis = longest as f64 / 1e6;
        text += &format!("\n{ok} of {ports} ports ok, {mads} MADs in {millis:.2} ms; wait is PortXmitWait in ticks\n");
    }
    text
}

/// A text of strangers, of which no more is shown than fits into a table; an ellipsis stands for the rest.
fn short(text: &str) -> String {
    const MOST: usize = 18;
    let text = Printable(text).to_string();
    if text.chars().count() <= MOST { text } else { text.chars().take(MOST - 1).chain(['…']).collect() }
}

/// What is summed up as `errors`.
const ERRORS: [&str; 9] = [
    "symbol_error_counter",
    "link_error_recovery_counter",
    "link_downed_counter",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
];

/// Octets with a decimal unit, three digits at least.
fn octets(value: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut scaled, mut unit) = (value as f64, 0);
    while scaled >= 1000.0 && unit + 1 < units.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{value} B") } else { format!("{scaled:.2} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ibnet::sweep::record::line::{self, Line};

    #[test]
    fn octets_have_a_unit() {
        assert_eq!([0, 999, 1000, 123_456_789, u64::MAX].map(octets), ["0 B", "999 B", "1.00 kB", "123.46 MB", "18.45 EB"]);
    }

    #[test]
    fn no_word_of_a_record_is_obeyed_and_none_tears_the_table() {
        let line = r#"{"type":"port","ts":1,"slot":1,"sampler":"a","guid":"0x0000000000000001","port":1,"lid":1,"node":"n\u001b","kind":"hca","hops":null,"peer_guid":null,"peer_port":1,"peer":"\u009b","link":"4x\u001b[2J","link_source":"file","status":"ok","rtt_ns":0,"mads":1,"identity":"ok","dt_ns":null,"xmit_gbps":null,"rcv_gbps":null,"xmit_utilization":null,"rcv_utilization":null,"xmit_blocked":null}"#;
        let Line::Port(mut port) = line::parse(line).expect("a record") else { panic!("a port") };
        port.status = "\u{202e}\r".to_owned();
        let text = show(std::slice::from_ref(&port), &[]);
        assert!(text.contains(r"4x\u{1b}[2J") && text.contains(r"\u{202e}\u{d}"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || matches!(c, ' '..='~')), "{text:?}");
        port.link = "x".repeat(1000);
        assert!(show(&[*port], &[]).lines().all(|line| line.len() < 200));
    }
}
