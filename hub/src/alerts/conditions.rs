//! The conditions that the hub watches.
//!
//! A condition that `packaging/prometheus/ibnet.rules.yml` also has, has the same name, severity,
//! hold time and limit there; a test compares them. `docs/runbook.md` explains each condition in a
//! section of its name.

use serde::Serialize;

/// A condition.
#[derive(PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Condition {
    /// Name of its alerts.
    #[serde(rename = "alert")]
    pub(crate) name: &'static str,
    /// `critical`, `warning` or `info`, as the runbook defines them.
    pub(crate) severity: &'static str,
    /// Time in seconds for which the condition must be true before its alert fires.
    #[serde(skip)]
    pub(crate) hold_s: u64,
    /// For an error counter: its name in the records, and its largest increase in an hour.
    #[serde(skip)]
    pub(crate) counter: Option<(&'static str, u64)>,
}

const fn condition(name: &'static str, severity: &'static str, hold_s: u64) -> Condition {
    Condition {
        name,
        severity,
        hold_s,
        counter: None,
    }
}

const fn errors(
    name: &'static str,
    severity: &'static str,
    counter: &'static str,
    limit: u64,
) -> Condition {
    Condition {
        name,
        severity,
        hold_s: 0,
        counter: Some((counter, limit)),
    }
}

pub(crate) static SAMPLER_DOWN: Condition = condition("IbnetSamplerDown", "critical", 60);
pub(crate) static SAMPLER_BLIND: Condition = condition("IbnetSamplerBlind", "critical", 30);
pub(crate) static SLOTS_MISSED: Condition = condition("IbnetSlotsMissed", "warning", 300);
pub(crate) static RECORDS_DROPPED: Condition = condition("IbnetRecordsDropped", "warning", 0);
pub(crate) static CLOCK_WRONG: Condition = condition("IbnetClockWrong", "warning", 60);
pub(crate) static HUB_BEHIND: Condition = condition("IbnetHubBehind", "warning", 60);
pub(crate) static SWITCH_DEAD: Condition = condition("InfinibandSwitchDead", "critical", 30);
pub(crate) static HCA_DEAD: Condition = condition("InfinibandHcaDead", "warning", 120);
pub(crate) static LINK_DOWN: Condition = condition("InfinibandLinkDown", "warning", 30);
/// A link or a host that is down on purpose. Its alert stays pending, unless the settings have a
/// hold time for it.
pub(crate) static INTENDED_DOWN: Condition = condition("InfinibandIntendedDown", "info", u64::MAX);
pub(crate) static LINK_DEGRADED: Condition = condition("InfinibandLinkDegraded", "warning", 60);
pub(crate) static LINK_UNHEALTHY: Condition = condition("InfinibandLinkUnhealthy", "warning", 0);
/// A plane of a port is down, or carries less than the others.
pub(crate) static PLANE_FAULT: Condition = condition("InfinibandPlaneFault", "warning", 0);
pub(crate) static CONGESTION_ROOT: Condition =
    condition("InfinibandCongestionRoot", "warning", 180);
pub(crate) static SM_CHANGED: Condition = condition("InfinibandSubnetManagerChanged", "warning", 0);
pub(crate) static SM_SILENT: Condition = condition("InfinibandSubnetManagerSilent", "critical", 60);

/// The error counters. The parts of a counter have no condition of their own.
pub(crate) static ERRORS: [Condition; 13] = [
    errors(
        "InfinibandSymbolErrors",
        "warning",
        "symbol_error_counter",
        10,
    ),
    errors(
        "InfinibandLinkRecovery",
        "warning",
        "link_error_recovery_counter",
        2,
    ),
    errors(
        "InfinibandLinkFlapping",
        "warning",
        "link_downed_counter",
        3,
    ),
    errors(
        "InfinibandLinkIntegrity",
        "warning",
        "local_link_integrity_errors",
        0,
    ),
    errors(
        "InfinibandBufferOverrun",
        "warning",
        "excessive_buffer_overrun_errors",
        0,
    ),
    errors("InfinibandReceiveErrors", "warning", "port_rcv_errors", 10),
    errors(
        "InfinibandRemoteErrors",
        "info",
        "port_rcv_remote_physical_errors",
        10,
    ),
    errors(
        "InfinibandRelayErrors",
        "info",
        "port_rcv_switch_relay_errors",
        100,
    ),
    errors(
        "InfinibandTransmitDiscards",
        "warning",
        "port_xmit_discards",
        100,
    ),
    errors(
        "InfinibandTransmitConstraint",
        "warning",
        "port_xmit_constraint_errors",
        0,
    ),
    errors(
        "InfinibandReceiveConstraint",
        "warning",
        "port_rcv_constraint_errors",
        0,
    ),
    errors("InfinibandVl15Dropped", "warning", "vl15_dropped", 10),
    errors("InfinibandQp1Dropped", "warning", "qp1_dropped", 10),
];

/// Returns all conditions.
pub(crate) fn all() -> impl Iterator<Item = &'static Condition> {
    [
        &SAMPLER_DOWN,
        &SAMPLER_BLIND,
        &SLOTS_MISSED,
        &RECORDS_DROPPED,
        &CLOCK_WRONG,
        &HUB_BEHIND,
        &SWITCH_DEAD,
        &HCA_DEAD,
        &LINK_DOWN,
        &INTENDED_DOWN,
        &LINK_DEGRADED,
        &LINK_UNHEALTHY,
        &PLANE_FAULT,
        &CONGESTION_ROOT,
        &SM_CHANGED,
        &SM_SILENT,
    ]
    .into_iter()
    .chain(&ERRORS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ibnet_record::summed_error_counters;

    use super::*;

    const RULES: &str = include_str!("../../../packaging/prometheus/ibnet.rules.yml");
    const RUNBOOK: &str = include_str!("../../../docs/runbook.md");

    /// Conditions that only the hub has.
    const OF_HUB: [&str; 6] = [
        "IbnetClockWrong",
        "IbnetHubBehind",
        "InfinibandCongestionRoot",
        "InfinibandIntendedDown",
        "InfinibandLinkUnhealthy",
        "InfinibandPlaneFault",
    ];

    /// Returns the lines of a rule, or none if there is no rule of this name.
    fn rule(name: &str) -> Vec<&'static str> {
        RULES
            .split("- alert: ")
            .find(|rule| rule.lines().next() == Some(name))
            .map_or_else(Vec::new, |rule| rule.lines().map(str::trim).collect())
    }

    #[test]
    fn rules_of_prometheus_have_the_same_values() {
        for condition in all() {
            let lines = rule(condition.name);
            let is_own = OF_HUB.contains(&condition.name);
            assert_eq!(lines.is_empty(), is_own, "{}", condition.name);
            if is_own {
                continue;
            }
            let found = |start: &str| lines.iter().find_map(|line| line.strip_prefix(start));
            let severity = format!("{{severity: {}}}", condition.severity);
            assert_eq!(found("labels: "), Some(&*severity), "{}", condition.name);
            let hold = match condition.hold_s {
                0 => None,
                seconds if seconds % 60 == 0 => Some(format!("{}m", seconds / 60)),
                seconds => Some(format!("{seconds}s")),
            };
            assert_eq!(found("for: "), hold.as_deref(), "{}", condition.name);
            if let Some((_, limit)) = condition.counter {
                let expression = found("expr: ").expect("an expression");
                assert!(expression.ends_with(&format!(" > {limit}")), "{expression}");
            }
        }
    }

    #[test]
    fn every_condition_has_a_name_of_its_own_and_a_section_of_the_runbook() {
        let names: BTreeSet<_> = all().map(|condition| condition.name).collect();
        assert_eq!(names.len(), all().count());
        for name in names {
            assert!(RUNBOOK.contains(&format!("\n### {name}\n")), "{name}");
        }
    }

    #[test]
    fn every_counter_that_is_no_part_has_a_condition() {
        let counters: BTreeSet<_> = all().filter_map(|condition| condition.counter).collect();
        let names: BTreeSet<_> = counters.iter().map(|(counter, _)| *counter).collect();
        assert_eq!(names, summed_error_counters().collect());
    }
}
