//! Durations of sweeps (figure 5 and table I of the LDMS paper) and of compound queries (figure 4
//! of this paper), and the completeness and lost records of each sampler. A *compound query* is
//! all MADs of a port in a slot.

use std::collections::BTreeMap;

use ibnet_record::types::PortNum;
use serde::Serialize;

use crate::error::AnalysisError;
use crate::input::Fold;
use crate::latency::compound::Compound;
use crate::latency::distribution::Distribution;
use crate::record::{Record, Sweep, Type};
use crate::rows::Row;

pub mod course;
pub mod histogram;

use course::Course;

/// The sweeps of all records so far.
#[derive(Clone, Debug, Default)]
pub struct Sweeps {
    workers: BTreeMap<Worker, OfWorker>,
    compound: Compound,
    clocks: BTreeMap<String, u64>,
}

/// An HCA port of a sampler, which writes its own `sweep` records.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Worker {
    sampler: String,
    ca: String,
    ca_port: PortNum,
}

/// Sums over the slots of an HCA port.
#[derive(Clone, Debug, Default)]
struct OfWorker {
    sweep: Distribution,
    decode: Distribution,
    total: Distribution,
    course: Course,
    ports: u64,
    answered: u64,
    missed: u64,
    lost: u64,
}

/// Min, mean, max and standard deviation, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// Min of the values.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Max of the values.
    pub max: u64,
    /// Standard deviation, with the number of values as the divisor.
    pub sd: f64,
}

impl Summary {
    /// Evaluates a distribution.
    pub fn of(values: &Distribution) -> Self {
        let moments = values.moments();
        Self {
            count: values.count(),
            min: values.least(),
            mean: moments.mean,
            max: values.greatest(),
            sd: moments.deviation,
        }
    }
}

/// The sweeps of one HCA port of a sampler. This is a row of the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweepRow {
    /// Name of the sampler.
    pub sampler: String,
    /// Name of the HCA.
    pub ca: String,
    /// Port of the HCA.
    pub ca_port: PortNum,
    /// Number of slots that ran.
    pub slots: u64,
    /// Number of slots that could not start.
    pub missed: u64,
    /// Share of the ports with the status `ok` or `late`, 0 to 1, in the slots that ran. Ports
    /// with the status `down` are not counted.
    pub complete: f64,
    /// Number of records that the output dropped.
    pub lost: u64,
    /// Duration of a sweep: from the start of the slot to the last reply or timeout.
    pub duration_ns: Summary,
    /// Time spent on decoding in a slot.
    pub decode_ns: Summary,
    /// Sum of `duration_ns` and `decode_ns`, because decoding starts after the sweep.
    pub total_ns: Summary,
}

impl Row for SweepRow {
    const COLUMNS: &'static [&'static str] = &[
        "sampler",
        "ca",
        "ca_port",
        "slots",
        "missed",
        "complete",
        "lost",
        "duration_ns_min",
        "duration_ns_mean",
        "duration_ns_max",
        "duration_ns_sd",
        "decode_ns_min",
        "decode_ns_mean",
        "decode_ns_max",
        "decode_ns_sd",
        "total_ns_min",
        "total_ns_mean",
        "total_ns_max",
        "total_ns_sd",
    ];
}

/// The sweeps of a recording.
#[derive(Clone, Debug)]
pub struct SweepReport {
    /// One row for each HCA port of each sampler.
    pub rows: Vec<SweepRow>,
    /// Durations of sweeps over time, in the order of `rows`.
    pub courses: Vec<Course>,
    /// Durations of sweeps of all samplers.
    pub sweep: Distribution,
    /// Decoding times of all samplers.
    pub decode: Distribution,
    /// Sums of the duration of a sweep and its decoding time, of all samplers.
    pub total: Distribution,
    /// Durations of compound queries by device kind, with the timer cost of each MAD subtracted.
    pub compound: BTreeMap<&'static str, Distribution>,
    /// Timer cost of each sampler in nanoseconds: the min time that one reading of its clock
    /// takes.
    pub clocks: BTreeMap<String, u64>,
}

impl SweepReport {
    /// Returns the parts of the time of a slot with their names.
    pub fn parts(&self) -> [(&'static str, &Distribution); 3] {
        [
            ("sweep", &self.sweep),
            ("decode", &self.decode),
            ("total", &self.total),
        ]
    }

    /// Returns the name of a row: the sampler, with its HCA port if it has several.
    pub fn name(&self, row: &SweepRow) -> String {
        let is_single = self
            .rows
            .iter()
            .filter(|other| other.sampler == row.sampler)
            .count()
            == 1;
        if is_single {
            row.sampler.clone()
        } else {
            format!("{} {}:{}", row.sampler, row.ca, row.ca_port)
        }
    }
}

impl Sweeps {
    fn add_sweep(&mut self, sweep: &Sweep<'_>) {
        let worker = Worker {
            sampler: sweep.sampler.to_string(),
            ca: sweep.ca.to_string(),
            ca_port: sweep.ca_port,
        };
        let sums = self.workers.entry(worker).or_default();
        sums.sweep.record(sweep.duration_ns);
        sums.decode.record(sweep.decode_ns);
        sums.total
            .record(sweep.duration_ns.saturating_add(sweep.decode_ns));
        sums.course.record(sweep.ts, sweep.duration_ns);
        // Ports of links that are down are not queried.
        sums.ports += u64::from(sweep.ports.saturating_sub(sweep.down));
        sums.answered += u64::from(sweep.ok) + u64::from(sweep.late);
        sums.missed += sweep.slots_missed;
        sums.lost += sweep.lines_lost;
    }

    /// Returns the report.
    ///
    /// # Errors
    /// Returns an error if there is no `sweep` record.
    pub fn finish(self) -> Result<SweepReport, AnalysisError> {
        if self.workers.is_empty() {
            let help = "give complete files of `ibnet-sweep`, and check --from and --to".to_owned();
            return Err(AnalysisError::Nothing {
                what: "no `sweep` record in the time range".to_owned(),
                help,
            });
        }
        let compound = self.compound.finish(&self.clocks);
        let (mut sweep, mut decode, mut total) = (
            Distribution::default(),
            Distribution::default(),
            Distribution::default(),
        );
        let (mut rows, mut courses) = (Vec::new(), Vec::new());
        for (
            Worker {
                sampler,
                ca,
                ca_port,
            },
            sums,
        ) in self.workers
        {
            sweep.merge(&sums.sweep);
            decode.merge(&sums.decode);
            total.merge(&sums.total);
            rows.push(SweepRow {
                sampler,
                ca,
                ca_port,
                slots: sums.sweep.count(),
                missed: sums.missed,
                complete: if sums.ports > 0 {
                    sums.answered as f64 / sums.ports as f64
                } else {
                    1.0
                },
                lost: sums.lost,
                duration_ns: Summary::of(&sums.sweep),
                decode_ns: Summary::of(&sums.decode),
                total_ns: Summary::of(&sums.total),
            });
            courses.push(sums.course);
        }
        Ok(SweepReport {
            rows,
            courses,
            sweep,
            decode,
            total,
            compound,
            clocks: self.clocks,
        })
    }
}

impl Fold for Sweeps {
    fn uses(&self, kind: Type) -> bool {
        matches!(
            kind,
            Type::Port | Type::Sweep | Type::Start | Type::Histogram
        )
    }

    fn uses_counters(&self) -> bool {
        false
    }

    fn uses_every_query(&self) -> bool {
        true
    }

    fn fields(&self) -> Option<Vec<String>> {
        Some(
            ["kind", "status", "rtt_ns", "mads"]
                .map(str::to_owned)
                .to_vec(),
        )
    }

    fn add(&mut self, record: &Record<'_>) {
        match record {
            Record::Port(port) => self.compound.add(port),
            Record::Sweep(sweep) => self.add_sweep(sweep),
            Record::Start(start) => add_clock(&mut self.clocks, &start.sampler, start.clock_ns),
            Record::Histogram(histogram) => {
                add_clock(&mut self.clocks, &histogram.sampler, histogram.clock_ns);
            }
            Record::Event(_) | Record::Physical(_) | Record::Routes(_) => {}
        }
    }

    fn merge(&mut self, later: Self) {
        for (worker, theirs) in later.workers {
            let ours = self.workers.entry(worker).or_default();
            ours.sweep.merge(&theirs.sweep);
            ours.decode.merge(&theirs.decode);
            ours.total.merge(&theirs.total);
            ours.course.merge(&theirs.course);
            ours.ports += theirs.ports;
            ours.answered += theirs.answered;
            ours.missed += theirs.missed;
            ours.lost += theirs.lost;
        }
        self.compound.merge(later.compound);
        for (sampler, ns) in later.clocks {
            add_clock(&mut self.clocks, &sampler, Some(ns));
        }
    }
}

/// Keeps the min timer cost of a sampler.
fn add_clock(clocks: &mut BTreeMap<String, u64>, sampler: &str, clock: Option<u64>) {
    let Some(ns) = clock else { return };
    clocks
        .entry(sampler.to_owned())
        .and_modify(|least| *least = ns.min(*least))
        .or_insert(ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn sweep(sampler: &str, ca_port: u8, ts: u64, duration_ns: u64, rest: &str) -> String {
        format!(
            r#"{{"type":"sweep","ts":{ts},"slot":1,"sampler":"{sampler}","ca":"mlx5_0","ca_port":{ca_port},"duration_ns":{duration_ns},"decode_ns":500,"ports":12,"ok":8,"late":1,"timeout":1,"down":2{rest}}}"#
        )
    }

    #[test]
    fn each_port_of_a_sampler_has_a_row() {
        let port = r#"{"type":"port","ts":1,"slot":1,"sampler":"a","guid":"0x0000000000000001","port":1,"lid":1,"node":"n","kind":"hca","hops":1,"status":"ok","rtt_ns":40000,"mads":4}"#;
        let lines = [
            r#"{"type":"start","ts":1,"sampler":"a","interval_ns":1,"clock_ns":50}"#.to_owned(),
            sweep("a", 1, 1, 1_000, r#","slots_missed":2,"lines_lost":3"#),
            sweep("a", 2, 1, 9_000, ""),
            sweep("a", 1, 2, 3_000, r#","lines_lost":4"#),
            sweep("b", 1, 1, 2_000, ""),
            port.to_owned(),
        ];
        let mut whole = fixtures::fold(Sweeps::default(), &lines[..3]);
        whole.merge(fixtures::fold(Sweeps::default(), &lines[3..]));
        let report = whole.finish().unwrap();
        let names: Vec<_> = report.rows.iter().map(|row| report.name(row)).collect();
        assert_eq!(names, ["a mlx5_0:1", "a mlx5_0:2", "b"]);
        let row = &report.rows[0];
        assert_eq!(
            (row.slots, row.missed, row.lost, row.complete),
            (2, 2, 7, 0.9)
        );
        assert_eq!(
            row.duration_ns,
            Summary {
                count: 2,
                min: 1_000,
                mean: 2_000.0,
                max: 3_000,
                sd: 1_000.0
            }
        );
        assert_eq!(
            row.total_ns,
            Summary {
                count: 2,
                min: 1_500,
                mean: 2_500.0,
                max: 3_500,
                sd: 1_000.0
            }
        );
        assert_eq!((report.sweep.count(), report.sweep.greatest()), (4, 9_000));
        assert_eq!(
            report.compound["hca"].moments().mean,
            39_800.0,
            "less the timer cost of 4 MADs"
        );
    }

    #[test]
    fn input_without_sweeps_is_an_error() {
        assert!(matches!(
            Sweeps::default().finish(),
            Err(AnalysisError::Nothing { .. })
        ));
    }
}
