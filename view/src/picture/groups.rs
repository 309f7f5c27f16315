//! Pictures of groups of hosts over time, such as storage targets.

use ibnet_analysis::cell::Cell;
use ibnet_analysis::groups::traffic::{GroupTraffic, Sender};
use ibnet_analysis::metric::Unit;
use ibnet_analysis::when::Zone;

use super::job::by_port;
use super::timeline::{Panel, Series, Timeline, largest};
use crate::draw::palette;

/// Returns the picture, which shows for each group the traffic into and out of its hosts by switch
/// port, the estimated senders, and the differences between its hosts.
pub fn of_groups(groups: &[GroupTraffic], zone: &Zone) -> Timeline {
    let (start_ns, step_ns, steps) = groups.first().map_or((0, 1, 0), |group| {
        (group.start_ns, group.bin_ns, group.in_max_to_mean.len())
    });
    let names: Vec<&str> = groups.iter().map(|group| &*group.group).collect();
    let title = format!("Traffic of {}", names.join(", "));
    let known = |group: &GroupTraffic| Some(format!("{}: {}", group.group, group.known()?));
    let note = groups
        .iter()
        .filter_map(known)
        .collect::<Vec<_>>()
        .join("; ");
    Timeline {
        title,
        note,
        start_ns,
        step_ns,
        steps,
        zone: zone.clone(),
        panels: groups.iter().flat_map(panels).collect(),
        marks: Vec::new(),
    }
}

fn panels(traffic: &GroupTraffic) -> Vec<Panel> {
    let name = &traffic.group;
    let stacked = |title: String, stacked| Panel {
        title,
        unit: Unit::Gbps,
        most: None,
        stacked,
        curves: Vec::new(),
    };
    let sent = |sender: &&Sender| sender.estimate_bytes > 0.0;
    let senders = traffic
        .senders
        .iter()
        .filter(sent)
        .map(|sender| {
            (
                sender_name(sender),
                sender
                    .estimate_gbps
                    .iter()
                    .map(|gbps| Cell::from(*gbps))
                    .collect(),
            )
        })
        .collect();
    let imbalance = Series {
        name: "largest / mean".to_owned(),
        color: palette::LINES[0],
        values: traffic
            .in_max_to_mean
            .iter()
            .map(|most| Cell::from(*most))
            .collect(),
    };
    vec![
        stacked(
            format!("Traffic into {name}, by switch port"),
            by_port(&traffic.into),
        ),
        stacked(
            format!("Traffic out of {name}, by switch port"),
            by_port(&traffic.out),
        ),
        stacked(
            format!("Senders to {name} (estimate)"),
            largest(senders, "senders"),
        ),
        Panel {
            title: format!("Received by the busiest host of {name}, as a multiple of the mean"),
            unit: Unit::Number,
            most: None,
            stacked: Vec::new(),
            curves: vec![imbalance],
        },
    ]
}

/// Returns the name of a sender for pictures and tables.
pub(crate) fn sender_name(sender: &Sender) -> String {
    match (&sender.job, &sender.host) {
        (Some(job), _) => format!("job {job}"),
        (None, Some(host)) => host.clone(),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::groups::traffic::GroupTraffic;
    use ibnet_analysis::job::all::{AllJobs, JobList};

    use super::*;
    use crate::draw::{Format, render};
    use crate::fixtures::{fold, job_lines};

    #[test]
    fn group_has_panels_for_both_directions_and_its_senders() {
        let flows = fold(AllJobs::new(JobList::new(&[]), None), &job_lines(true))
            .flows()
            .unwrap();
        let traffic = GroupTraffic::of(&"storage=N2".parse().unwrap(), &flows);
        let picture = of_groups(&[traffic], &Zone::utc());
        assert_eq!((picture.panels.len(), picture.steps), (4, 2));
        let svg = String::from_utf8(render(&picture, Format::Svg).unwrap()).unwrap();
        for text in [
            ">Traffic into storage, by switch port<",
            ">leaf port 2 to N2<",
            ">Senders to storage (estimate)<",
            ">largest / mean<",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
