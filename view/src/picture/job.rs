//! Pictures of jobs over time: the traffic of one job, or the traffic of all jobs.

use ibnet_analysis::cell::{Cell, cells};
use ibnet_analysis::job::all::{JobTotal, JobsTraffic, PortRate};
use ibnet_analysis::job::{Job, Known, Step};
use ibnet_analysis::metric::Unit;
use ibnet_analysis::when::Zone;

use super::timeline::{Panel, Series, Timeline, largest};
use crate::draw::palette;

/// Colour of the traffic without a job. [`TOTAL`] is the colour of the total.
pub(super) const NO_JOB: palette::Rgb = (160, 160, 160);
const TOTAL: palette::Rgb = (0, 0, 0);

/// Returns the picture of a job: its traffic, the blocked share of its ports, and the traffic into
/// its nodes by switch port.
pub fn of_job(job: &Job, title: &str, zone: &Zone) -> Timeline {
    let start_ns = job.steps.first().map_or(0, |step| step.ts);
    let step_ns = job.step_ns.max(1);
    let place = |ts: u64| ((ts - start_ns) / step_ns) as usize;
    let steps = job.steps.last().map_or(0, |step| place(step.ts) + 1);
    // A job has no entries for steps without records, so the values are spread over all steps.
    let all = |values: Vec<Cell>| {
        let mut spread = vec![Cell::NoRecord; steps];
        job.steps
            .iter()
            .zip(values)
            .for_each(|(step, value)| spread[place(step.ts)] = value);
        spread
    };
    let curve = |name: &str, color: usize, values| Series {
        name: name.to_owned(),
        color: palette::LINES[color],
        values,
    };
    let panel = |title: &str, unit, most, curves, stacked| Panel {
        title: title.to_owned(),
        unit,
        most,
        stacked,
        curves,
    };
    let of = |value: fn(&Step) -> (Option<f64>, f64)| {
        let (values, covered): (Vec<_>, Vec<_>) = job
            .steps
            .iter()
            .map(value)
            .map(|(value, covered)| (value, Some(covered)))
            .unzip();
        all(cells(&values, &covered))
    };
    let traffic = vec![
        curve(
            "injected",
            0,
            of(|step| (step.injected_gbps, step.injected_covered)),
        ),
        curve(
            "ejected",
            1,
            of(|step| (step.ejected_gbps, step.ejected_covered)),
        ),
    ];
    let blocked = vec![
        curve(
            "most blocked port",
            1,
            of(|step| (step.blocked_most, step.blocked_covered)),
        ),
        curve(
            "mean of the ports",
            0,
            of(|step| (step.blocked, step.blocked_covered)),
        ),
    ];
    let into = job
        .into
        .iter()
        .map(|rate| (rate.port.clone(), all(cells(&rate.gbps, &rate.covered))))
        .collect();
    let panels = vec![
        panel(
            "Traffic of all nodes",
            Unit::Gbps,
            None,
            traffic,
            Vec::new(),
        ),
        panel(
            "Blocked time of the ports",
            Unit::ShareOfTime,
            Some(1.0),
            blocked,
            Vec::new(),
        ),
        panel(
            "Traffic into the nodes, by switch port",
            Unit::Gbps,
            None,
            Vec::new(),
            largest(into, "ports"),
        ),
    ];
    let known = Known::of(
        job.covered_seconds(),
        job.blocked_covered_seconds(),
        job.recorded_seconds,
    )
    .map(|known| known.to_string());
    let missing =
        (!job.missing.is_empty()).then(|| format!("without records: {}", job.missing.join(" ")));
    let note = [known, missing]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ");
    Timeline {
        title: title.to_owned(),
        note,
        start_ns,
        step_ns,
        steps,
        zone: zone.clone(),
        panels,
        marks: Vec::new(),
    }
}

/// Returns the picture of all jobs: the injected traffic by job, and the traffic into the selected
/// nodes by switch port.
pub fn of_all(traffic: &JobsTraffic, into: Option<&str>, zone: &Zone) -> Timeline {
    let injected = |job: &JobTotal| cells(&job.injected_gbps, &job.injected_covered);
    let (jobs, rest): (Vec<_>, Vec<_>) = traffic.jobs.iter().partition(|job| job.job.is_some());
    let name = |id: &Option<String>| format!("job {}", id.as_deref().unwrap_or_default());
    let mut stacked = largest(
        jobs.into_iter()
            .map(|job| (name(&job.job), injected(job)))
            .collect(),
        "jobs",
    );
    stacked.extend(rest.into_iter().map(|rest| Series {
        name: "no job".to_owned(),
        color: NO_JOB,
        values: injected(rest),
    }));
    let total = Series {
        name: "total".to_owned(),
        color: TOTAL,
        values: traffic.total.clone(),
    };
    let title = "Traffic that the hosts injected, by job".to_owned();
    let mut panels = vec![Panel {
        title,
        unit: Unit::Gbps,
        most: None,
        stacked,
        curves: vec![total],
    }];
    if let Some(nodes) = into {
        let title = format!("Traffic into {nodes}, by switch port");
        panels.push(Panel {
            title,
            unit: Unit::Gbps,
            most: None,
            stacked: by_port(&traffic.into),
            curves: Vec::new(),
        });
    }
    let title = "Traffic of all jobs".to_owned();
    let lacking = traffic
        .jobs
        .iter()
        .filter(|job| job.job.is_some() && job.known(traffic.recorded_ns).is_some())
        .count();
    let note = if lacking > 0 {
        format!("jobs with times that are not known: {lacking}; the table has these times")
    } else {
        String::new()
    };
    Timeline {
        title,
        note,
        start_ns: traffic.start_ns,
        step_ns: traffic.bin_ns,
        steps: traffic.bins,
        zone: zone.clone(),
        panels,
        marks: Vec::new(),
    }
}

/// Returns the series of ports.
pub(super) fn by_port(rates: &[PortRate]) -> Vec<Series> {
    largest(
        rates
            .iter()
            .map(|rate| (rate.port.clone(), cells(&rate.gbps, &rate.covered)))
            .collect(),
        "ports",
    )
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::groups::traffic::GroupTraffic;
    use ibnet_analysis::hosts::Hosts;
    use ibnet_analysis::job::all::{AllJobs, JobList};
    use ibnet_analysis::job::run::JobRun;
    use ibnet_analysis::ports::Ports;

    use super::*;
    use crate::draw::{Format, render};
    use crate::fixtures::{fold, job_lines};
    use crate::picture::groups::of_groups;

    fn svg(timeline: &Timeline) -> String {
        String::from_utf8(render(timeline, Format::Svg).unwrap()).unwrap()
    }

    #[test]
    fn curves_of_a_job_are_drawn_to_scale() {
        let job = Job::of(
            &fold(Ports::with_bins(8), &job_lines(true)).finish(),
            &Hosts::parse("n1,n2").unwrap(),
        );
        let svg = svg(&of_job(&job, "a <job>\u{1b}", &Zone::utc()));
        assert!(svg.contains("a &lt;job&gt;\\u{1b}") && !svg.contains('\u{1b}'));
        // Two steps: 12 and 24 Gb/s of 25 in a panel of 190 pixels height from 92 on.
        assert!(
            svg.contains("points=\"84.5,191.5 484.5,191.5 484.5,100.5 884.5,100.5\""),
            "{svg}"
        );
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 4);
        for text in [
            "1970-01-01 00:00:00 to ",
            ">leaf port 2 to N2<",
            ">100 %<",
            ">injected<",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn missing_values_are_drawn_and_stated() {
        let whole = job_lines(true);
        let drawn = |lines: &[String]| {
            let mut job = Job::of(
                &fold(Ports::with_bins(8), lines).finish(),
                &Hosts::parse("n1,n2,gone").unwrap(),
            );
            // The first records describe the second before their readings.
            job.recorded_seconds = 2.0;
            let jobs = [JobRun::new("47", "n[1-2]", Some(0), None).unwrap()];
            let all = fold(AllJobs::new(JobList::new(&jobs), None), lines)
                .finish(None)
                .unwrap();
            let flows = fold(AllJobs::new(JobList::new(&[]), None), lines)
                .flows()
                .unwrap();
            let group = GroupTraffic::of(&"storage=n1,N2".parse().unwrap(), &flows);
            [
                of_job(&job, "job", &Zone::utc()),
                of_all(&all, None, &Zone::utc()),
                of_groups(&[group], &Zone::utc()),
            ]
            .map(|picture| svg(&picture))
        };
        assert!(
            drawn(&whole)
                .iter()
                .all(|svg| !svg.contains("missing") && !svg.contains("known for"))
        );
        // The sampler of N2 stopped after the first second.
        let is_kept = |line: &&String| !(line.contains("N2") && line.contains("\"slot\":2"));
        let lines: Vec<String> = whole.iter().filter(is_kept).cloned().collect();
        let [job, all, group] = drawn(&lines);
        for svg in [&job, &all, &group] {
            assert!(svg.contains(">values are missing<"), "{svg}");
        }
        assert!(job.contains("bytes are known for 1.5 s and blocked time for 1.5 s of 2.0 s; without records: gone<"), "{job}");
        let unknown: Vec<String> = whole
            .iter()
            .map(|line| line.replace("\"xmit_blocked\"", "\"x\""))
            .collect();
        let [job, ..] = drawn(&unknown);
        assert!(job.contains("bytes are known for 2.0 s of 2.0 s, blocked time is not known; without records: gone<"), "{job}");
        assert!(
            all.contains(">jobs with times that are not known: 1; the table has these times<"),
            "{all}"
        );
        assert!(
            group.contains(">storage: bytes are known for 1.5 s of 2.0 s<"),
            "{group}"
        );
    }

    #[test]
    fn step_with_hardly_any_record_is_not_drawn() {
        let job = Job::of(
            &fold(Ports::with_bins(8), &job_lines(true)).finish(),
            &Hosts::parse("n1").unwrap(),
        );
        let drawn = |from_ms: u64, to_ms: u64| {
            let picture =
                of_job(&job, "job", &Zone::utc()).trimmed((from_ms * 1_000_000, to_ms * 1_000_000));
            let lengths: Vec<usize> = picture
                .panels
                .iter()
                .flat_map(|panel| panel.stacked.iter().chain(&panel.curves))
                .map(|series| series.values.len())
                .collect();
            assert!(
                lengths.iter().all(|length| *length == picture.steps),
                "{lengths:?}"
            );
            (picture.start_ns / 1_000_000, picture.steps)
        };
        // Two steps from 0 to 2 s.
        assert_eq!(
            [
                drawn(0, 2000),
                drawn(0, 1020),
                drawn(0, 1200),
                drawn(980, 2000),
                drawn(980, 1020)
            ],
            [(0, 2), (0, 1), (0, 2), (1000, 1), (0, 1)]
        );
    }

    #[test]
    fn all_jobs_the_rest_and_the_total_are_drawn() {
        let jobs = [JobRun::new("47", "n1", Some(0), None).unwrap()];
        let all = fold(AllJobs::new(JobList::new(&jobs), None), &job_lines(true));
        let traffic = all.finish(Some(&Hosts::parse("n*").unwrap())).unwrap();
        let svg = svg(&of_all(&traffic, Some("n*"), &Zone::utc()));
        for text in [
            ">job 47<",
            ">no job<",
            ">total<",
            ">Traffic into n*, by switch port<",
            ">leaf port 3 to n3<",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
