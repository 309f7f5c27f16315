//! Pictures of jobs over time: the traffic of one job, or the traffic of all jobs.

use ibnet_analysis::job::Job;
use ibnet_analysis::job::all::JobsTraffic;
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
    // A job has no entries for steps without records. So the values are spread over all steps.
    let all = |values: &mut dyn Iterator<Item = Option<f64>>| {
        let mut spread = vec![None; steps];
        job.steps.iter().zip(values).for_each(|(step, value)| spread[place(step.ts)] = value);
        spread
    };
    let curve = |name: &str, color: usize, values| Series { name: name.to_owned(), color: palette::LINES[color], values };
    let panel = |title: &str, unit, most, curves, stacked| Panel { title: title.to_owned(), unit, most, stacked, curves };
    let traffic = vec![
        curve("injected", 0, all(&mut job.steps.iter().map(|step| Some(step.injected_gbps)))),
        curve("ejected", 1, all(&mut job.steps.iter().map(|step| Some(step.ejected_gbps)))),
    ];
    let blocked = vec![
        curve("most blocked port", 1, all(&mut job.steps.iter().map(|step| step.blocked_most))),
        curve("mean of the ports", 0, all(&mut job.steps.iter().map(|step| step.blocked))),
    ];
    let into = job.into.iter().map(|rate| (rate.port.clone(), all(&mut rate.gbps.iter().copied()))).collect();
    let panels = vec![
        panel("Traffic of all nodes", Unit::Gbps, None, traffic, Vec::new()),
        panel("Blocked time of the ports", Unit::ShareOfTime, Some(1.0), blocked, Vec::new()),
        panel("Traffic into the nodes, by switch port", Unit::Gbps, None, Vec::new(), largest(into, "ports")),
    ];
    Timeline { title: title.to_owned(), start_ns, step_ns, steps, zone: zone.clone(), panels }
}

/// Returns the picture of all jobs: the injected traffic by job, and the traffic into the selected
/// nodes by switch port.
pub fn of_all(traffic: &JobsTraffic, into: Option<&str>, zone: &Zone) -> Timeline {
    let (jobs, rest): (Vec<_>, Vec<_>) = traffic.jobs.iter().partition(|job| job.job.is_some());
    let name = |id: &Option<String>| format!("job {}", id.as_deref().unwrap_or_default());
    let mut stacked = largest(jobs.into_iter().map(|job| (name(&job.job), job.injected_gbps.clone())).collect(), "jobs");
    stacked.extend(rest.into_iter().map(|rest| Series { name: "no job".to_owned(), color: NO_JOB, values: rest.injected_gbps.clone() }));
    let total = Series { name: "total".to_owned(), color: TOTAL, values: traffic.total.clone() };
    let title = "Traffic that the hosts injected, by job".to_owned();
    let mut panels = vec![Panel { title, unit: Unit::Gbps, most: None, stacked, curves: vec![total] }];
    if let Some(nodes) = into {
        let ports = traffic.into.iter().map(|rate| (rate.port.clone(), rate.gbps.clone())).collect();
        let title = format!("Traffic into {nodes}, by switch port");
        panels.push(Panel { title, unit: Unit::Gbps, most: None, stacked: largest(ports, "ports"), curves: Vec::new() });
    }
    let title = "Traffic of all jobs".to_owned();
    Timeline { title, start_ns: traffic.start_ns, step_ns: traffic.bin_ns, steps: traffic.bins, zone: zone.clone(), panels }
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::hosts::Hosts;
    use ibnet_analysis::job::all::{AllJobs, JobList};
    use ibnet_analysis::job::run::JobRun;
    use ibnet_analysis::ports::Ports;

    use super::*;
    use crate::draw::{Format, render};
    use crate::fixtures::{fold, job_lines};

    fn svg(timeline: &Timeline) -> String {
        String::from_utf8(render(timeline, Format::Svg).unwrap()).unwrap()
    }

    #[test]
    fn curves_of_a_job_are_drawn_to_scale() {
        let job = Job::of(&fold(Ports::with_bins(8), &job_lines(true)).finish(), &Hosts::parse("n1,n2").unwrap());
        let svg = svg(&of_job(&job, "a <job>\u{1b}", &Zone::utc()));
        assert!(svg.contains("a &lt;job&gt;\\u{1b}") && !svg.contains('\u{1b}'));
        // Two steps: 12 and 24 Gb/s of 25 in a panel of 190 pixels height from 92 on.
        assert!(svg.contains("points=\"84.5,191.5 484.5,191.5 484.5,100.5 884.5,100.5\""), "{svg}");
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 4);
        for text in ["1970-01-01 00:00:00 to ", ">leaf port 2 to N2<", ">100 %<", ">injected<"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn step_with_hardly_any_record_is_not_drawn() {
        let job = Job::of(&fold(Ports::with_bins(8), &job_lines(true)).finish(), &Hosts::parse("n1").unwrap());
        let drawn = |from_ms: u64, to_ms: u64| {
            let picture = of_job(&job, "job", &Zone::utc()).trimmed((from_ms * 1_000_000, to_ms * 1_000_000));
            let lengths: Vec<usize> = picture
                .panels
                .iter()
                .flat_map(|panel| panel.stacked.iter().chain(&panel.curves))
                .map(|series| series.values.len())
                .collect();
            assert!(lengths.iter().all(|length| *length == picture.steps), "{lengths:?}");
            (picture.start_ns / 1_000_000, picture.steps)
        };
        // Two steps from 0 to 2 s.
        assert_eq!(
            [drawn(0, 2000), drawn(0, 1020), drawn(0, 1200), drawn(980, 2000), drawn(980, 1020)],
            [(0, 2), (0, 1), (0, 2), (1000, 1), (0, 1)]
        );
    }

    #[test]
    fn all_jobs_the_rest_and_the_total_are_drawn() {
        let jobs = [JobRun::new("47", "n1", Some(0), None).unwrap()];
        let all = fold(AllJobs::new(JobList::new(&jobs), None), &job_lines(true));
        let traffic = all.finish(Some(&Hosts::parse("n*").unwrap())).unwrap();
        let svg = svg(&of_all(&traffic, Some("n*"), &Zone::utc()));
        for text in [">job 47<", ">no job<", ">total<", ">Traffic into n*, by switch port<", ">leaf port 3 to n3<"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
