//! Selects the metric families that are served, and lists the names of all families.

use std::collections::BTreeSet;

use ibnet_record::attributes::Group;
use ibnet_record::types::NodeKind;

use super::names;
use crate::sweep::physical_record::Gauge;

/// The key `metrics.families`: patterns of the family names that `docs/metrics.md` lists.
///
/// A family is served if its name matches a pattern without `!`, or if there is no such pattern.
/// A family that matches a pattern with `!` is never served. `*` in a pattern matches any text,
/// and the order of the patterns has no meaning. The families of the physical layer are served only
/// if a pattern matches them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Families {
    included: Vec<String>,
    excluded: Vec<String>,
}

impl Families {
    /// Creates a selection.
    ///
    /// # Errors
    /// Returns the first pattern that matches no family of ibnet.
    pub fn new(patterns: &[String]) -> Result<Self, String> {
        let known = all();
        let mut families = Self::default();
        for pattern in patterns {
            let (list, name) = match pattern.strip_prefix('!') {
                Some(name) => (&mut families.excluded, name),
                None => (&mut families.included, pattern.as_str()),
            };
            if !known.iter().any(|family| matches(name, family)) {
                return Err(pattern.clone());
            }
            list.push(name.to_owned());
        }
        Ok(families)
    }

    /// Returns whether a family is served. `name` is the name as served, with `_total` for a
    /// counter.
    pub fn serves(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        let is_default = || self.included.is_empty() && !is_physical(name);
        (is_default() || any(&self.included)) && !any(&self.excluded)
    }
}

/// Returns whether a name matches a pattern, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(first) else {
        return false;
    };
    let Some((middle, last)) = rest.rsplit_once('*') else {
        return name.ends_with(rest);
    };
    // The leftmost match of each part leaves the most text for the parts after it.
    for part in middle.split('*') {
        let Some(at) = name.find(part) else {
            return false;
        };
        name = &name[at + part.len()..];
    }
    name.ends_with(last)
}

/// Metric families of a switch, an HCA or a router, without the prefix. The families of counters
/// come from the tables of the attributes.
const OF_KIND: [&str; 8] = [
    "port_rate_bytes_per_second",
    "port_raw_rate_bytes_per_second",
    "port_state",
    "rate_bytes_per_second",
    "raw_rate_bytes_per_second",
    "up",
    "info",
    "uplink_info",
];

/// Metric families of ibnet, without the prefix `ibnet_`.
const OF_IBNET: [&str; 32] = [
    "assigned_ports",
    "build_info",
    "interval_seconds",
    "lane_info",
    "last_slot_timestamp_seconds",
    "lines_lost_total",
    "load_bytes_total",
    "mads_late_total",
    "mads_refused_total",
    "mads_rejected_total",
    "mads_sent_total",
    "port_receive_utilization_peak_ratio",
    "port_receive_utilization_ratio",
    "port_resets_total",
    "port_saturated_counters",
    "port_transmit_blocked_peak_ratio",
    "port_transmit_blocked_ratio",
    "port_transmit_utilization_peak_ratio",
    "port_transmit_utilization_ratio",
    "port_up",
    "ports",
    "rtt_seconds",
    "send_errors_total",
    "slot_duration_seconds",
    "sm_activity_total",
    "sm_master_changes_total",
    "sm_priority",
    "sm_state",
    "sm_up",
    "slots_missed_total",
    "slots_total",
    "up",
];

/// Returns whether a family has values of the physical layer.
fn is_physical(name: &str) -> bool {
    Gauge::ALL
        .iter()
        .any(|gauge| name.ends_with(gauge.as_str()))
}

/// Returns the names of all families that any counter groups and devices can have.
fn all() -> BTreeSet<String> {
    let counters = Group::ALL
        .into_iter()
        .flat_map(Group::fields)
        .filter(|field| field.is_counter())
        .map(names::of);
    let of_kind: BTreeSet<String> = counters
        .chain([names::SECOND_SPELLING.1.into()])
        .map(|counter| format!("{counter}_total"))
        .chain(OF_KIND.map(str::to_owned))
        .chain(Gauge::ALL.map(|gauge| gauge.to_string()))
        .collect();
    let of_ports = NodeKind::ALL.iter().flat_map(|kind| {
        of_kind
            .iter()
            .map(move |name| format!("infiniband_{}_{name}", kind.as_str()))
    });
    of_ports
        .chain(OF_IBNET.map(|name| format!("ibnet_{name}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn families(patterns: &[&str]) -> Result<Families, String> {
        Families::new(
            &patterns
                .iter()
                .map(|pattern| (*pattern).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    fn serves(patterns: &[&str], name: &str) -> bool {
        families(patterns)
            .expect("the patterns are valid")
            .serves(name)
    }

    #[test]
    fn patterns_select_families() {
        let data = "infiniband_switch_port_transmit_data_bytes_total";
        assert!(
            serves(&[], data)
                && serves(&["*"], data)
                && serves(&["infiniband_*_data_bytes_total"], data)
        );
        assert!(
            !serves(&["ibnet_*"], data)
                && !serves(&["!infiniband_*"], data)
                && serves(&["!ibnet_*"], data)
        );
        assert!(
            !serves(&["infiniband_*", "!*_data_bytes_total"], data)
                && !serves(&["!*_data_bytes_total", "infiniband_*"], data)
        );
        assert!(serves(&["ibnet_up"], "ibnet_up") && !serves(&["ibnet_up"], "ibnet_ports"));
    }

    #[test]
    fn families_of_the_physical_layer_are_served_only_if_named() {
        let name = "infiniband_switch_port_raw_bit_error_ratio";
        assert!(!serves(&[], name) && !serves(&["!ibnet_*"], name));
        assert!(!serves(&["ibnet_*"], name) && !serves(&["*", "!*_ratio"], name));
        assert!(serves(&["*"], name) && serves(&["ibnet_*", "*_bit_error_ratio"], name));
        let physical = all().into_iter().filter(|name| is_physical(name));
        assert_eq!(physical.count(), Gauge::ALL.len() * NodeKind::ALL.len());
    }

    #[test]
    fn pattern_that_matches_no_family_is_rejected() {
        for wrong in [
            "ibnet_slots",
            "!infiniband_port_*",
            "",
            "!",
            "Ibnet_*",
            "ibnet_up *",
        ] {
            assert_eq!(families(&["ibnet_*", wrong]), Err(wrong.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn pattern_matches_what_it_was_made_from(name in "[ab]{0,8}", cuts in proptest::collection::vec((0usize..9, 0usize..4), 0..4)) {
            // Replaces parts of the name by stars.
            let mut pattern = name.clone();
            for (at, len) in cuts {
                let at = at.min(pattern.len());
                let end = (at + len).min(pattern.len());
                pattern.replace_range(at..end, "*");
            }
            prop_assert!(matches(&pattern, &name), "{pattern} {name}");
            let longer = [format!("{pattern}c"), format!("c{pattern}")];
            prop_assert!(!longer.iter().any(|pattern| matches(pattern, &name)));
        }
    }
}
