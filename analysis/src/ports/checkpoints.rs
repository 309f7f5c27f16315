//! How much went through a port by the slots that are kept, so that what one end of a link sent can be held against what the other received, over just the
//! same time, whenever each was asked.

use super::super::record::Port;

/// At most so many marks of a port.
const MOST: usize = 32;

/// Readings of the slots whose numbers are multiples of a power of two: so both ends of a link keep the same ones, or one a part of the other's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// In the order of their slots.
    marks: Vec<Mark>,
    shift: u32,
}

/// A reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    slot: u64,
    ts: u64,
    /// For how long before `ts` the device may have looked.
    rtt_ns: u64,
    xmit: u64,
    rcv: u64,
}

/// Both directions of a link by both of its ends, in octets over the same slots.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compared {
    /// How long it was, in seconds.
    pub seconds: f64,
    /// What ours sent and the other one received.
    pub out: (u64, u64),
    /// What the other one sent and ours received.
    pub back: (u64, u64),
    /// By how much they may differ because they were not read in the same instant.
    pub tolerance: f64,
}

impl Marks {
    pub(super) fn take(&mut self, port: &Port<'_>) {
        let (Some(xmit), Some(rcv)) = (port.counter("port_xmit_data_bytes"), port.counter("port_rcv_data_bytes")) else { return };
        if port.is_saturated("port_xmit_data_bytes") || port.is_saturated("port_rcv_data_bytes") {
            return;
        }
        self.put(Mark { slot: port.slot, ts: port.ts, rtt_ns: port.rtt_ns, xmit, rcv });
    }

    fn put(&mut self, mark: Mark) {
        if self.marks.last().is_some_and(|last| mark.slot <= last.slot || mark.xmit < last.xmit || mark.rcv < last.rcv) {
            // Cleared, or another clock: what was before cannot be compared.
            self.marks.clear();
        }
        if mark.slot.trailing_zeros() >= self.shift {
            self.marks.push(mark);
            self.thin_out();
        }
    }

    fn thin_out(&mut self) {
        while self.marks.len() > MOST {
            self.shift += 1;
            let shift = self.shift;
            self.marks.retain(|mark| mark.slot.trailing_zeros() >= shift);
        }
    }

    pub(super) fn merge(&mut self, later: Self) {
        self.shift = self.shift.max(later.shift);
        let shift = self.shift;
        self.marks.retain(|mark| mark.slot.trailing_zeros() >= shift);
        later.marks.into_iter().for_each(|mark| self.put(mark));
    }

    /// Holds the two ends of a link of this rate against each other, over the longest time that both have; `None` where there is none.
    pub fn compare(&self, other: &Self, gbps: f64) -> Option<Compared> {
        let pair = |mark: &Mark| Some((*mark, other.marks[other.marks.binary_search_by_key(&mark.slot, |mark| mark.slot).ok()?]));
        let first = self.marks.iter().find_map(pair)?;
        let last = self.marks.iter().rev().find_map(pair)?;
        if first.0.slot == last.0.slot {
            return None;
        }
        let apart = |(one, other): (Mark, Mark)| one.ts.abs_diff(other.ts).saturating_add(one.rtt_ns).saturating_add(other.rtt_ns);
        let over = |value: fn(&Mark) -> u64, (from, to): (Mark, Mark)| value(&to) - value(&from);
        let (ours, others) = ((first.0, last.0), (first.1, last.1));
        Some(Compared {
            seconds: last.0.ts.saturating_sub(first.0.ts) as f64 / 1e9,
            out: (over(|mark| mark.xmit, ours), over(|mark| mark.rcv, others)),
            back: (over(|mark| mark.xmit, others), over(|mark| mark.rcv, ours)),
            // A reading may have waited for its turn as long again as it took.
            tolerance: 2.0 * apart(first).saturating_add(apart(last)) as f64 * gbps / 8.0 + UNDER_WAY,
        })
    }
}

/// Octets that may be on the cable, or in a packet that one end has counted and the other has not.
const UNDER_WAY: f64 = 65536.0;

impl Compared {
    /// Octets by which a direction's ends differ beyond the tolerance and beyond half a percent: of ours, and of the other one's; 0 where they agree.
    pub fn missing(&self) -> (u64, u64) {
        const SHARE: f64 = 0.005;
        let beyond = |(sent, received): (u64, u64)| {
            let difference = sent.abs_diff(received);
            if difference as f64 > self.tolerance.max(sent.max(received) as f64 * SHARE) { difference } else { 0 }
        };
        (beyond(self.out), beyond(self.back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(slots: impl Iterator<Item = u64>, late_ns: u64, sent: impl Fn(u64) -> u64) -> Marks {
        let mut marks = Marks::default();
        slots.for_each(|slot| marks.put(Mark { slot, ts: slot * 1_000_000_000 + late_ns, rtt_ns: 0, xmit: sent(slot), rcv: 0 }));
        marks
    }

    #[test]
    fn few_marks_are_kept_of_many_slots() {
        let long = marks(1_000..200_000, 0, |slot| slot);
        assert!(long.marks.len() <= MOST && long.marks.len() > MOST / 4, "{}", long.marks.len());
        let other = marks(1_003..150_000, 0, |slot| slot);
        let compared = long.compare(&other, 100.0).expect("they overlap");
        assert!(compared.seconds > 100_000.0, "{compared:?}");
    }

    #[test]
    fn parts_merge_to_the_whole() {
        let whole = marks(0..500, 0, |slot| 2 * slot);
        for cut in [1, 30, 250, 499] {
            let mut first = marks(0..cut, 0, |slot| 2 * slot);
            first.merge(marks(cut..500, 0, |slot| 2 * slot));
            assert_eq!(first, whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_difference_counts_beyond_what_time_explains() {
        let other = |late_ns, lost: u64| {
            let mut marks = marks(0..10, late_ns, |_| 0);
            marks.marks.iter_mut().for_each(|mark| mark.rcv = mark.slot * (1_000_000_000 - lost));
            marks
        };
        let ours = marks(0..10, 0, |slot| slot * 1_000_000_000);
        let compared = ours.compare(&other(0, 0), 100.0).expect("same slots");
        assert_eq!((compared.out, compared.missing(), compared.seconds), ((9_000_000_000, 9_000_000_000), (0, 0), 9.0));
        // 1 ms apart at both ends of the time: twice 2 x 12.5 MB.
        let compared = ours.compare(&other(1_000_000, 5_500_000), 100.0).expect("same slots");
        assert_eq!((compared.tolerance, compared.missing()), (50_065_536.0, (0, 0)));
        assert_eq!(ours.compare(&other(1_000_000, 6_000_000), 100.0).expect("same slots").missing(), (54_000_000, 0));
        assert_eq!(ours.compare(&other(0, 5_000_000), 100.0).expect("same slots").missing(), (0, 0), "half a percent is nothing");
    }

    #[test]
    fn a_cleared_counter_begins_anew() {
        let cleared = marks(0..10, 0, |slot| if slot < 5 { 100 + slot } else { slot });
        assert_eq!(cleared.marks.first().map(|mark| mark.slot), Some(5));
        assert_eq!(cleared.compare(&marks(0..6, 0, |slot| slot), 100.0), None, "one slot in common is no time");
    }
}
