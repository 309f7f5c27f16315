//! Metric names of counters, without the prefix (`infiniband_switch_` or `infiniband_hca_`) and
//! without the suffix `_total`.
//!
//! The names are those of `infiniband_exporter` by treydock, so that its dashboards work. A counter
//! that this exporter does not have keeps its name in the records, with the prefix `port_`.

use std::borrow::Cow;

use ibnet_record::attributes::Field;

/// Counters with different names: the name in records, then the name in metrics.
const NAMES: [(&str, &str); 25] = [
    ("port_xmit_data_bytes", "port_transmit_data_bytes"),
    ("port_rcv_data_bytes", "port_receive_data_bytes"),
    ("port_xmit_pkts", "port_transmit_packets"),
    ("port_rcv_pkts", "port_receive_packets"),
    ("port_unicast_xmit_pkts", "port_unicast_transmit_packets"),
    ("port_unicast_rcv_pkts", "port_unicast_receive_packets"),
    (
        "port_multicast_xmit_pkts",
        "port_multicast_transmit_packets",
    ),
    ("port_multicast_rcv_pkts", "port_multicast_receive_packets"),
    ("port_xmit_wait_ticks", "port_transmit_wait"),
    ("symbol_error_counter", "port_symbol_error"),
    ("link_error_recovery_counter", "port_link_error_recovery"),
    ("link_downed_counter", "port_link_downed"),
    ("port_rcv_errors", "port_receive_errors"),
    (
        "port_rcv_remote_physical_errors",
        "port_receive_remote_physical_errors",
    ),
    (
        "port_rcv_switch_relay_errors",
        "port_receive_switch_relay_errors",
    ),
    ("port_xmit_discards", "port_transmit_discards"),
    (
        "port_xmit_constraint_errors",
        "port_transmit_constraint_errors",
    ),
    (
        "port_rcv_constraint_errors",
        "port_receive_constraint_errors",
    ),
    (
        "local_link_integrity_errors",
        "port_local_link_integrity_errors",
    ),
    (
        "excessive_buffer_overrun_errors",
        "port_excessive_buffer_overrun_errors",
    ),
    ("vl15_dropped", "port_vl15_dropped"),
    ("qp1_dropped", "port_qp1_dropped"),
    ("port_op_rcv_pkts", "port_op_receive_packets"),
    ("port_xmit_flow_pkts", "port_transmit_flow_packets"),
    ("port_rcv_flow_pkts", "port_receive_flow_packets"),
];

/// A counter whose name `infiniband_exporter` spells differently, and that spelling. Both names
/// are served.
pub(super) const SECOND_SPELLING: (&str, &str) =
    ("port_dlid_mapping_errors", "port_dli_mapping_errors");

/// Returns the metric name of a counter, without prefix and `_total`.
pub(super) fn of(field: &Field) -> Cow<'static, str> {
    let name = field.json;
    match NAMES.iter().find(|(json, _)| *json == name) {
        Some((_, known)) => Cow::Borrowed(known),
        None if name.starts_with("port_") => Cow::Borrowed(name),
        None => Cow::Owned(format!("port_{name}")),
    }
}

/// Returns the name of the label that contains the index of an array element: `sl`, `vl` or `lane`.
pub(super) fn index(field: &Field) -> &'static str {
    let by = ["sl", "vl", "lane"]
        .into_iter()
        .find(|word| field.json.split('_').any(|part| part == *word));
    by.unwrap_or("index")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ibnet_record::attributes::{Group, tables};

    use super::*;

    fn fields() -> impl Iterator<Item = &'static Field> {
        Group::ALL.into_iter().flat_map(Group::fields)
    }

    #[test]
    fn every_name_belongs_to_a_counter_and_is_unique() {
        let counters: BTreeSet<_> = fields().map(|field| field.json).collect();
        for (json, _) in NAMES.iter().chain([&SECOND_SPELLING]) {
            assert!(counters.contains(json), "{json}");
        }
        let names: BTreeSet<_> = counters
            .iter()
            .map(|json| {
                of(fields()
                    .find(|field| field.json == *json)
                    .expect("it is there"))
            })
            .collect();
        assert_eq!(names.len(), counters.len());
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(
            names
                .iter()
                .all(|name| name.chars().all(allowed) && !name.ends_with("_total")),
            "{names:?}"
        );
    }

    /// A part of a counter has no alert, because the counter that contains it fires.
    #[test]
    fn alert_rules_have_every_error_counter_of_switches_and_hcas() {
        let rules = include_str!("../../packaging/prometheus/ibnet.rules.yml");
        for counter in ibnet_record::summed_error_counters() {
            let name = of(fields()
                .find(|field| field.json == counter)
                .expect("it is there"));
            for kind in ["switch", "hca"] {
                let metric = format!("(infiniband_{kind}_{name}_total[");
                assert_eq!(rules.matches(&metric).count(), 1, "{metric}");
            }
        }
    }

    #[test]
    fn index_label_of_arrays_matches_the_tables() {
        let document = tables::markdown();
        for field in fields().filter(|field| field.len > 1 && field.is_counter()) {
            let row = document
                .lines()
                .find(|line| line.starts_with(&format!("| `{}` |", field.json)))
                .expect("it has a row");
            assert!(
                row.to_lowercase()
                    .contains(&format!(", by {} |", index(field))),
                "{row}"
            );
        }
    }
}
