//! The condition of links: which cable, module or switch has a fault, and by which rule.
//!
//! | module | contents |
//! |---|---|
//! | `poisson` | the exact interval of a number of errors |
//! | [`reading`] | the counters of one reading, and their differences |
//! | [`limits`] | the limits of bit errors, by the FEC and the medium |
//! | [`verdict`] | the rules, and the state of one end of a link |
//! | [`course`] | the counters of bit errors over time, for pictures |
//! | [`pdr`] | the rule of another program, for comparison |
//! | [`planes`] | planes of a port that are down or carry less than the others |
//! | [`inventory`] | switches and modules with their serial numbers |
//!
//! The rules judge lower bounds of 95 % intervals, so a link with few readings is not blamed for
//! chance. No value was compared with a real device.

use std::collections::BTreeMap;

use ibnet_record::physical::{ReadValues, Value};
use ibnet_record::registers::link_down::LinkDown;
use ibnet_record::types::LinkRate;
use serde::Serialize;

use crate::input::Fold;
use crate::job::run::JobRun;
use crate::ports::{PortKey, PortName};
use crate::record::{Record, Type};
use crate::rows::Row;

pub mod course;
pub mod inventory;
pub mod limits;
pub mod pdr;
pub mod planes;
mod poisson;
pub mod reading;
pub mod verdict;

use self::course::Course;
use self::inventory::Inventory;
use self::pdr::{POLL_NS, Pdr, PdrRow, Sample};
use self::planes::PlaneReading;
use self::reading::{Counter, Reading};
use self::verdict::{Applied, End, Ratio, Verdict, WINDOW_NS};

/// Why a cable is replaced and not only cleaned.
const BOTH: &str = "the other end has a fault too";
const AGAIN: &str = "a fault came back";

/// The links of all records so far.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Where ports are, and their modules.
    pub inventory: Inventory,
    ends: BTreeMap<PortKey, EndRecords>,
    keeps: Keeps,
}

/// What is kept besides the verdicts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Keeps {
    /// Nothing.
    #[default]
    Verdicts,
    /// Bit errors over time, for a picture.
    Courses,
    /// The polls of [`pdr`].
    Polls,
}

/// The records of one end of a link.
#[derive(Clone, Debug, Default)]
struct EndRecords {
    end: End,
    /// The first and the last histogram of wrong symbols in a block, since the last reset.
    histograms: Option<[Vec<u64>; 2]>,
    /// The ratio of bit errors before FEC that the firmware computed.
    firmware_raw: Option<f64>,
    /// Why the link went down last.
    link_down: Option<LinkDown>,
    course: Course,
    /// Numbers of polls, and what they found, if it differs from the poll before.
    polls: Vec<(u64, Sample)>,
}

/// One end of a link in the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HealthRow {
    /// The port, which receives the bits.
    #[serde(flatten)]
    pub port: PortName,
    /// The port at the other end of the link, if it is known.
    pub peer: Option<PortName>,
    /// Width and speed of the link.
    pub link: Box<str>,
    /// The verdict.
    pub verdict: Verdict,
    /// The rules that apply to this end, the most severe first.
    pub rules: Vec<Applied>,
    /// The rules as text.
    pub why: Vec<String>,
    /// What the limits of bit errors follow from: the active FEC, or what was assumed.
    pub limits_by: String,
    /// Why the link went down last. Null if it was not read, or if it never did.
    pub link_down: Option<String>,
    /// Time since which this end has its verdict, in nanoseconds since 1970.
    pub since_ns: u64,
    /// Number of minutes of readings, at most `window_minutes`.
    pub seen_minutes: u64,
    /// Number of minutes before which no verdict is worse than `watch`.
    pub window_minutes: u64,
    /// Serial number of the cable or the module.
    pub serial: Box<str>,
    /// Part number of the cable or the module.
    pub part: Box<str>,
    /// Vendor of the cable or the module.
    pub vendor: Box<str>,
    /// Temperature of the module in degrees Celsius.
    pub celsius: Option<f64>,
    /// Jobs that ran on a host at an end of the link while it had this verdict.
    pub jobs: Vec<String>,
    /// Length of the time that the ratios describe, in nanoseconds.
    pub ratios_ns: u64,
    /// Bit errors before error correction.
    pub raw: Option<Ratio>,
    /// The ratio `raw` as the firmware computed it, with one digit.
    pub firmware_raw: Option<f64>,
    /// Bit errors that error correction (FEC) left.
    pub effective: Option<Ratio>,
    /// Bit errors that retransmission (PLR) left too.
    pub symbol: Option<Ratio>,
    /// Ratio of bit errors of each lane before error correction.
    pub lanes: Vec<f64>,
    /// Bit errors of each lane before error correction.
    pub lane_ratios: Vec<Ratio>,
    /// Blocks that the FEC could not correct.
    pub lost_blocks: Option<u64>,
    /// Share of the received bandwidth that PLR used for sending again.
    pub plr_loss: Option<f64>,
    /// This loss in Gb/s.
    pub plr_loss_gbps: Option<f64>,
    /// Number of times that the link went down without intention in the last 24 hours.
    pub downs: usize,
    /// Number of times that the ends trained the link again without a link down.
    pub recoveries: Option<u64>,
    /// FEC blocks by their number of wrong symbols, over all readings since the last reset.
    pub histogram: Vec<u64>,
    /// Slope of the histogram: powers of ten for each further wrong symbol. The closer to 0, the
    /// sooner a block has more wrong symbols than the FEC corrects.
    pub slope: Option<f64>,
}

impl Row for HealthRow {
    const COLUMNS: &'static [&'static str] = &[
        "guid",
        "port",
        "node",
        "peer_guid",
        "peer_port",
        "peer_node",
        "link",
        "verdict",
        "why",
        "limits_by",
        "link_down",
        "since_ns",
        "seen_minutes",
        "window_minutes",
        "serial",
        "part",
        "vendor",
        "celsius",
        "jobs",
        "ratios_ns",
        "raw_errors",
        "raw_bits",
        "raw_ratio",
        "raw_lower",
        "raw_upper",
        "firmware_raw",
        "effective_errors",
        "effective_ratio",
        "effective_lower",
        "effective_upper",
        "symbol_errors",
        "symbol_ratio",
        "symbol_lower",
        "symbol_upper",
        "lanes",
        "lost_blocks",
        "plr_loss",
        "plr_loss_gbps",
        "downs",
        "recoveries",
        "histogram",
        "slope",
    ];
}

impl HealthRow {
    fn jobs_since(&self, jobs: &[JobRun], until_ns: u64) -> Vec<String> {
        let nodes = [Some(&self.port), self.peer.as_ref()];
        let is_at = |job: &&JobRun| {
            self.verdict != Verdict::Good
                && job.is_during(self.since_ns, until_ns)
                && nodes
                    .iter()
                    .flatten()
                    .any(|port| job.hosts.contains_node(&port.node))
        };
        jobs.iter()
            .filter(is_at)
            .map(|job| job.id.clone())
            .collect()
    }
}

impl EndRecords {
    fn add(&mut self, ts: u64, values: &ReadValues, keeps: Keeps) {
        if let Some(reading) = Reading::of(ts, values) {
            match keeps {
                Keeps::Verdicts => {}
                Keeps::Courses => self.course.add(&reading),
                Keeps::Polls => self.poll(ts, |sample| {
                    sample.symbols = reading.get(Counter::Symbols).or(sample.symbols);
                    sample.downs = pdr::all_downs(values).or(sample.downs);
                }),
            }
            self.end.add(reading);
        }
        if let Some(Value::Integers(now)) = values.get("hist") {
            self.histograms = Some(match self.histograms.take() {
                Some([first, last]) if last.iter().zip(now).all(|(last, now)| last <= now) => {
                    [first, now.clone()]
                }
                _ => [now.clone(), now.clone()],
            });
        }
        self.link_down = link_down(values).or(self.link_down);
        let code = |name: &str| values.get(name)?.integer();
        if let (Some(coefficient), Some(magnitude)) =
            (code("raw_ber_coef"), code("raw_ber_magnitude"))
        {
            // Devices report 15 and 255 if there were no errors.
            let ratio = coefficient as f64 * 10.0_f64.powi(-(magnitude.min(400) as i32));
            self.firmware_raw = Some(if magnitude == 255 { 0.0 } else { ratio });
        }
    }

    /// Changes what the next poll finds.
    fn poll(&mut self, ts: u64, change: impl FnOnce(&mut Sample)) {
        let poll = ts.div_ceil(POLL_NS);
        let mut sample = self.polls.last().map(|(_, last)| *last).unwrap_or_default();
        change(&mut sample);
        match self.polls.last_mut() {
            Some((last, known)) if *last == poll => *known = sample,
            Some((_, known)) if *known == sample => {}
            _ => self.polls.push((poll, sample)),
        }
    }

    fn histogram(&self) -> Vec<u64> {
        let differences = |[first, last]: &[Vec<u64>; 2]| {
            let pairs = last.iter().zip(first);
            pairs.map(|(last, first)| last - first).collect()
        };
        self.histograms.as_ref().map_or_else(Vec::new, differences)
    }
}

/// Returns why a link went down last, by the values of a `phy` record. `None` if the record lacks
/// the page, or if the link never went down.
pub fn link_down(values: &ReadValues) -> Option<LinkDown> {
    let down = LinkDown::of(|name| values.get(name)?.integer());
    down.filter(|down| down.reason > 0)
}

/// Returns the slope of the logarithm of a histogram, from one wrong symbol on: a line through the
/// bins that are not empty, weighted by their counts. `None` with fewer than two of them.
fn slope(histogram: &[u64]) -> Option<f64> {
    let bins = histogram.iter().enumerate().skip(1);
    let points: Vec<[f64; 3]> = bins
        .filter(|(_, count)| **count > 0)
        .map(|(bin, count)| [bin as f64, (*count as f64).log10(), *count as f64])
        .collect();
    let weight: f64 = points.iter().map(|[.., weight]| weight).sum();
    let mean = |of: &dyn Fn(&[f64; 3]) -> f64| {
        points.iter().map(|point| of(point) * point[2]).sum::<f64>() / weight
    };
    let [x, y] = [mean(&|point| point[0]), mean(&|point| point[1])];
    let squares = mean(&|point| (point[0] - x).powi(2));
    (squares > 0.0).then(|| mean(&|point| (point[0] - x) * (point[1] - y)) / squares)
}

impl Health {
    /// Creates an empty state that keeps more than verdicts.
    pub fn keeping(keeps: Keeps) -> Self {
        Self {
            keeps,
            ..Self::default()
        }
    }

    /// Returns the bit errors of a port over time.
    pub fn course(&self, port: &PortName) -> Option<&Course> {
        let records = self.ends.get(&(port.guid, port.port))?;
        Some(&records.course)
    }

    /// Returns the data rate of the link of a port in Gb/s.
    fn gbps(&self, key: &PortKey) -> Option<f64> {
        let (width, speed) = self.inventory.places.get(key)?.link.split_once('x')?;
        LinkRate::new(&format!("{width}x"), speed).data_gbps()
    }

    /// Returns the decisions of [`pdr`] at all polls, in the order of time.
    pub fn pdr(&self) -> Vec<PdrRow> {
        let indices: BTreeMap<PortKey, usize> = self.ends.keys().copied().zip(0..).collect();
        let mut samples: Vec<Sample> = Vec::new();
        for key in self.ends.keys() {
            let peer = self.inventory.peer(*key);
            samples.push(Sample {
                gbps: self.gbps(key),
                peer: peer.and_then(|peer| indices.get(&(peer.guid, peer.port)).copied()),
                ..Sample::default()
            });
        }
        let mut changes: BTreeMap<u64, Vec<(usize, Sample)>> = BTreeMap::new();
        for (index, records) in self.ends.values().enumerate() {
            for (poll, sample) in &records.polls {
                changes.entry(*poll).or_default().push((index, *sample));
            }
        }
        let first = changes.keys().next().copied().unwrap_or(1);
        let last = changes.keys().next_back().copied().unwrap_or(0);
        let names: Vec<PortName> = self
            .ends
            .keys()
            .map(|key| self.inventory.name(*key))
            .collect();
        let (mut pdr, mut rows) = (Pdr::default(), Vec::new());
        for poll in first..=last {
            for (index, found) in changes.remove(&poll).into_iter().flatten() {
                let Sample { gbps, peer, .. } = samples[index];
                samples[index] = Sample {
                    gbps,
                    peer,
                    ..found
                };
            }
            let ts = poll * POLL_NS;
            rows.extend(pdr.poll(ts, &samples).into_iter().map(|decision| PdrRow {
                ts,
                port: names[decision.port].clone(),
                action: decision.action,
                reason: decision.reason,
            }));
        }
        rows
    }

    /// Returns one row for each end of a link with readings: the worst verdict first, then the one
    /// with the most bit errors. `jobs` are named if they ran at an end before the time `until_ns`.
    pub fn rows(&self, jobs: &[JobRun], until_ns: u64) -> Vec<HealthRow> {
        let mut rows: Vec<HealthRow> = self
            .ends
            .iter()
            .filter(|(_, records)| records.end.since_ns() > 0)
            .map(|(key, records)| {
                let mut row = self.row(*key, records);
                row.jobs = row.jobs_since(jobs, until_ns);
                row
            })
            .collect();
        let ratio = |ratio: Option<Ratio>| ratio.map_or(0.0, |ratio| ratio.ratio);
        rows.sort_by(|a, b| {
            let errors = |row: &HealthRow| [row.symbol, row.effective, row.raw].map(ratio);
            b.verdict.cmp(&a.verdict).then_with(|| {
                errors(b)
                    .partial_cmp(&errors(a))
                    .unwrap_or(std::cmp::Ordering::Equal)
            })
        });
        rows
    }

    fn row(&self, key: PortKey, records: &EndRecords) -> HealthRow {
        let (end, peer) = (&records.end, self.inventory.peer(key));
        let other = peer.and_then(|peer| self.ends.get(&(peer.guid, peer.port)));
        let place = self.inventory.places.get(&key).cloned().unwrap_or_default();
        let module = self
            .inventory
            .modules
            .get(&key)
            .cloned()
            .unwrap_or_default();
        let window = end.window();
        let increase = |counter| window.and_then(|window| window.increase(counter));
        let (bits, length_ns) = (
            increase(Counter::Bits),
            window.map_or(0, |window| window.length_ns()),
        );
        let lanes = window.and_then(|window| window.lanes()).unwrap_or_default();
        let of_lane = bits.unwrap_or(0) / lanes.len().max(1) as u64;
        let lane_ratios: Vec<Ratio> = lanes
            .iter()
            .filter_map(|errors| Ratio::of(*errors, of_lane, None))
            .collect();
        let codes = increase(Counter::Codes).filter(|codes| *codes > 0);
        let plr_loss = increase(Counter::Retried)
            .zip(codes)
            .map(|(retried, codes)| retried as f64 / codes as f64);
        let histogram = records.histogram();
        let verdict = end.combined(other.map(|other| &other.end));
        let mut why = end.why();
        if verdict == Verdict::Replace {
            let is_both = end.combined(None) != Verdict::Replace;
            why.push(if is_both { BOTH } else { AGAIN }.to_owned());
        }
        HealthRow {
            port: self.inventory.name(key),
            peer: peer.cloned(),
            link: place.link,
            verdict,
            rules: end.applied().to_vec(),
            why,
            limits_by: end.limits().to_string(),
            link_down: records.link_down.map(|down| down.to_string()),
            since_ns: end.since_ns(),
            seen_minutes: end.seen_ns() / (WINDOW_NS / 125),
            window_minutes: 125,
            serial: module.serial,
            part: module.part,
            vendor: module.vendor,
            celsius: end.celsius(),
            jobs: Vec::new(),
            ratios_ns: length_ns,
            raw: end.raw(),
            firmware_raw: records.firmware_raw,
            effective: end.effective(),
            symbol: end.symbol(),
            lanes: lane_ratios.iter().map(|lane| lane.ratio).collect(),
            lane_ratios,
            lost_blocks: increase(Counter::LostBlocks),
            plr_loss,
            plr_loss_gbps: plr_loss
                .zip(bits)
                .map(|(loss, bits)| loss * bits as f64 / length_ns as f64),
            downs: end.downs(),
            recoveries: increase(Counter::Recoveries),
            slope: slope(&histogram),
            histogram,
        }
    }
}

impl Fold for Health {
    fn uses(&self, kind: Type) -> bool {
        matches!(kind, Type::Phy | Type::Planes) || self.inventory.uses(kind)
    }

    fn uses_counters(&self) -> bool {
        false
    }

    fn fields(&self) -> Option<Vec<String>> {
        self.inventory.fields()
    }

    fn takes_minutes(&self, length_ns: u64) -> bool {
        self.inventory.takes_minutes(length_ns)
    }

    fn add(&mut self, record: &Record<'_>) {
        self.inventory.add(record);
        let Record::Physical(record) = record else {
            return;
        };
        let Some(port) = record.head.port else { return };
        let (key, ts) = ((record.head.guid, port), record.head.ts);
        let is_of_plane = record.kind() == Type::Planes;
        let gbps = is_of_plane.then(|| self.gbps(&key)).flatten();
        let records = self.ends.entry(key).or_default();
        if record.kind() == Type::Phy {
            records.add(ts, &record.values, self.keeps);
        } else if is_of_plane {
            if let Some(reading) = PlaneReading::of(ts, &record.values) {
                records
                    .end
                    .add_plane(reading, gbps.map(|gbps| gbps * 1e9 / 8.0));
            }
        } else if let Some(module) = self.inventory.modules.get(&key) {
            if records.end.set_module(ts, module) {
                records.histograms = None;
            }
            if let Some(celsius) = module.celsius {
                records.end.add_celsius(ts, celsius);
                if self.keeps == Keeps::Polls {
                    records.poll(ts, |sample| sample.celsius = Some(celsius));
                }
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.inventory.merge(other.inventory);
        self.ends.extend(other.ends);
    }
}
