//! Verdicts on simulated links, compared with the truth: which cables age, which contacts are bad,
//! and when the first block could not be corrected.

use std::collections::BTreeMap;
use std::time::Duration;

use ibnet::mad::transport::sim::link_end::{Change, LinkEnd};
use ibnet::sweep::physical_record::values;
use ibnet::time::Instant;
use ibnet_analysis::health::pdr::{POLL_NS, Pdr, Sample};
use ibnet_analysis::health::reading::{Counter, Reading};
use ibnet_analysis::health::verdict::{End, Rule, Verdict};
use ibnet_record::physical::ReadValues;
use ibnet_record::registers::Page;
use ibnet_record::types::{LinkRate, PortNum};

/// Time between two readings of a port. By default, a sampler reads bit errors every 30 s, and the
/// other registers every 120 s.
const EVERY: Duration = Duration::from_secs(60);

/// Time of the first reading in nanoseconds since 1970.
const START_NS: u64 = 1_800_000_000_000_000_000;

/// A link: its ends in the model, and what the rules concluded.
pub(crate) struct Link {
    ends: [LinkEnd; 2],
    judged: [End; 2],
    pdr: Pdr,
    gbps: Option<f64>,
    /// Whether the PDR rule isolated one of the ends.
    pub(crate) is_isolated: bool,
}

impl Link {
    pub(crate) fn new(seed: u64, number: u64, speed: &str, change: Change) -> Self {
        let rate = LinkRate::new("4x", speed);
        let (a, b) = ((number, PortNum(1)), (number + 1_000_000, PortNum(1)));
        Self {
            ends: [(a, b), (b, a)]
                .map(|(here, there)| LinkEnd::new(seed, here, there, &rate, change)),
            judged: Default::default(),
            pdr: Pdr::default(),
            gbps: rate.data_gbps(),
            is_isolated: false,
        }
    }

    pub(crate) fn is_ageing(&self) -> bool {
        self.ends[0].is_ageing()
    }

    pub(crate) fn has_bad_contact(&self) -> bool {
        self.ends.iter().any(LinkEnd::has_bad_contact)
    }

    pub(crate) fn lost_blocks(&self) -> u64 {
        self.ends.iter().map(LinkEnd::lost_blocks).sum()
    }

    /// Reads both ends, as the sampler does, after this number of minutes.
    pub(crate) fn read(&mut self, minute: u32) {
        let at = Instant::ZERO + EVERY * minute;
        let ts = START_NS + at.as_nanos();
        let mut samples = [Sample::default(); 2];
        for (index, end) in self.ends.iter_mut().enumerate() {
            let reading = Reading::of(ts, &record(end, at)).expect("a page with counters");
            samples[index] = Sample {
                symbols: reading.get(Counter::Symbols),
                downs: reading.get(Counter::Downs),
                celsius: None,
                gbps: self.gbps,
                peer: Some(1 - index),
            };
            self.judged[index].add(reading);
        }
        if ts.is_multiple_of(POLL_NS) {
            self.is_isolated |= !self.pdr.poll(ts, &samples).is_empty();
        }
    }

    /// Counts a link down at both ends, and returns the numbers of the reasons.
    #[cfg(test)]
    pub(crate) fn go_down(&mut self) -> [u8; 2] {
        self.ends.each_mut().map(LinkEnd::go_down)
    }

    /// Returns the worse verdict of both ends.
    pub(crate) fn verdict(&self) -> Verdict {
        let [a, b] = &self.judged;
        a.combined(Some(b)).max(b.combined(Some(a)))
    }

    pub(crate) fn has(&self, rule: Rule) -> bool {
        let mut applied = self.judged.iter().flat_map(End::applied);
        applied.any(|applied| applied.rule == rule)
    }
}

/// Returns the values of the `phy` record that the sampler writes.
fn record(end: &mut LinkEnd, at: Instant) -> ReadValues {
    let pages = [Page::Ber, Page::Fec, Page::Plr];
    let images: Vec<_> = pages
        .into_iter()
        .filter_map(|page| Some((page, end.page(page, at)?)))
        .collect();
    let values = values(images.iter().map(|(page, image)| (*page, image))).0;
    let pairs = values
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    pairs.collect::<BTreeMap<_, _>>()
}

/// What the rules found, by the truth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Links without a fault, and those of them whose verdict is not `good`.
    pub(crate) good: [usize; 2],
    /// Links with a cable that ages, and those of them with the rule about lanes.
    pub(crate) ageing: [usize; 2],
    /// Links with this rule whose cable does not age.
    pub(crate) false_ageing: usize,
    /// Links with a bad contact whose cable does not age, and those of them with the rule about
    /// bursts.
    pub(crate) contact: [usize; 2],
    /// Links with the rule about bursts that have no bad contact.
    pub(crate) false_contact: usize,
    /// Links that the PDR rule isolated: without a fault, ageing, with a bad contact.
    pub(crate) isolated: [usize; 3],
    /// Links without a fault that had a verdict other than `good` at any time.
    pub(crate) ever_wrong: usize,
}

impl Counts {
    /// Judges links after this time. Of the ageing ones, one in `thinned` counts.
    pub(crate) fn of(
        seed: u64,
        links: std::ops::Range<u64>,
        speed: &str,
        change: Change,
        (minutes, thinned): (u32, usize),
    ) -> Self {
        let (mut counts, mut ageing) = (Self::default(), 0);
        for number in links {
            let mut link = Link::new(seed, number, speed, change);
            if link.is_ageing() {
                ageing += 1;
                if ageing % thinned != 0 {
                    continue;
                }
            }
            let mut was_wrong = false;
            for minute in 0..=minutes {
                link.read(minute);
                was_wrong |= link.verdict() != Verdict::Good;
            }
            let [lane, bursts] = [Rule::Lane, Rule::Bursts].map(|rule| link.has(rule));
            let group = match (link.is_ageing(), link.has_bad_contact()) {
                (false, false) => {
                    add(&mut counts.good, link.verdict() != Verdict::Good);
                    counts.ever_wrong += usize::from(was_wrong);
                    0
                }
                (true, _) => {
                    add(&mut counts.ageing, lane);
                    1
                }
                (false, true) => {
                    add(&mut counts.contact, bursts);
                    2
                }
            };
            counts.isolated[group] += usize::from(link.is_isolated);
            counts.false_ageing += usize::from(lane && !link.is_ageing());
            counts.false_contact += usize::from(bursts && !link.has_bad_contact());
        }
        counts
    }

    pub(crate) fn merge(self, other: Self) -> Self {
        let sum = |a: [usize; 2], b: [usize; 2]| [a[0] + b[0], a[1] + b[1]];
        Self {
            good: sum(self.good, other.good),
            ageing: sum(self.ageing, other.ageing),
            false_ageing: self.false_ageing + other.false_ageing,
            contact: sum(self.contact, other.contact),
            false_contact: self.false_contact + other.false_contact,
            isolated: [0, 1, 2].map(|group| self.isolated[group] + other.isolated[group]),
            ever_wrong: self.ever_wrong + other.ever_wrong,
        }
    }

    /// Returns the recall and the precision of the rule about lanes.
    pub(crate) fn of_ageing(&self) -> [f64; 2] {
        let [all, found] = self.ageing.map(|count| count as f64);
        [found / all, found / (found + self.false_ageing as f64)]
    }
}

fn add([all, found]: &mut [usize; 2], is_found: bool) {
    *all += 1;
    *found += usize::from(is_found);
}

/// Returns the hours from the first verdict other than `good` to the first block that was lost, of
/// each ageing link without a bad contact. New cables age by this number of years an hour.
pub(crate) fn leads(seed: u64, links: std::ops::Range<u64>, years_an_hour: f64) -> Vec<f64> {
    let change = Change {
        years_an_hour,
        is_new: true,
        ..Change::default()
    };
    let of_link = |number| {
        let mut link = Link::new(seed, number, "NDR", change);
        if !link.is_ageing() || link.has_bad_contact() {
            return None;
        }
        let (mut warned, mut minute) = (None, 0);
        while link.lost_blocks() == 0 {
            link.read(minute);
            if link.verdict() != Verdict::Good {
                warned.get_or_insert(minute);
            }
            minute += 1;
        }
        let warned = warned.unwrap_or(minute);
        Some(f64::from(minute - warned) / 60.0)
    };
    links.filter_map(of_link).collect()
}
