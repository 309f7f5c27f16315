//! Bytes that a port had sent and received at certain slots, to compare the two ends of a link:
//! the bytes that one end sent must agree with those that the other end received in the same
//! slots.

use super::carried::Stated;
use crate::input::run::Measured;

/// Max number of readings that are kept for a port.
const MAX: usize = 32;

/// Readings at the slots whose numbers are multiples of a power of two. The ends of a link thus
/// keep the same slots, or one end keeps a subset of the slots of the other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checkpoints {
    /// Readings in the order of their slots.
    all: Vec<Checkpoint>,
    shift: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Checkpoint {
    slot: u64,
    ts: u64,
    /// The device read its counters at most this long before `ts`.
    rtt_ns: u64,
    xmit: u64,
    rcv: u64,
}

/// Bytes of both directions of a link, as both ends counted them over the same slots.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EndComparison {
    /// Time between the first and the last slot, in seconds.
    pub seconds: f64,
    /// Bytes sent by the first end, and bytes received by the second end.
    pub out: (u64, u64),
    /// Bytes sent by the second end, and bytes received by the first end.
    pub back: (u64, u64),
    /// Bytes by which the ends may differ because they were read at different times.
    pub tolerance: f64,
}

impl Checkpoints {
    #[inline]
    pub(super) fn add(&mut self, stated: &Stated<'_>, measured: &Measured) {
        let Measured {
            slot, ts, rtt_ns, ..
        } = *measured;
        if let ([false, false], [Some(xmit), Some(rcv)]) = (stated.full, measured.bytes) {
            self.put(Checkpoint {
                slot,
                ts,
                rtt_ns,
                xmit,
                rcv,
            });
        }
    }

    fn put(&mut self, checkpoint: Checkpoint) {
        if self.all.last().is_some_and(|last| {
            checkpoint.slot <= last.slot || checkpoint.xmit < last.xmit || checkpoint.rcv < last.rcv
        }) {
            // Earlier readings are not comparable after a reset or a change of the clock.
            self.all.clear();
        }
        if checkpoint.slot.trailing_zeros() >= self.shift {
            self.all.push(checkpoint);
            self.thin_out();
        }
    }

    fn thin_out(&mut self) {
        while self.all.len() > MAX {
            self.shift += 1;
            let shift = self.shift;
            self.all
                .retain(|checkpoint| checkpoint.slot.trailing_zeros() >= shift);
        }
    }

    /// Compares the two ends of a link over the longest time that both cover. `gbps` is the data
    /// rate of the link. Returns `None` if the ends have fewer than two slots in common.
    pub fn compare(&self, other: &Self, gbps: f64) -> Option<EndComparison> {
        let pair = |checkpoint: &Checkpoint| {
            Some((
                *checkpoint,
                other.all[other
                    .all
                    .binary_search_by_key(&checkpoint.slot, |checkpoint| checkpoint.slot)
                    .ok()?],
            ))
        };
        let first = self.all.iter().find_map(pair)?;
        let last = self.all.iter().rev().find_map(pair)?;
        if first.0.slot == last.0.slot {
            return None;
        }
        let apart = |(one, other): (Checkpoint, Checkpoint)| {
            one.ts
                .abs_diff(other.ts)
                .saturating_add(one.rtt_ns)
                .saturating_add(other.rtt_ns)
        };
        let over = |value: fn(&Checkpoint) -> u64, (from, to): (Checkpoint, Checkpoint)| {
            value(&to) - value(&from)
        };
        let (ours, others) = ((first.0, last.0), (first.1, last.1));
        Some(EndComparison {
            seconds: last.0.ts.saturating_sub(first.0.ts) as f64 / 1e9,
            out: (
                over(|checkpoint| checkpoint.xmit, ours),
                over(|checkpoint| checkpoint.rcv, others),
            ),
            back: (
                over(|checkpoint| checkpoint.xmit, others),
                over(|checkpoint| checkpoint.rcv, ours),
            ),
            // The true time between the two readings can be up to twice as long.
            tolerance: 2.0 * apart(first).saturating_add(apart(last)) as f64 * gbps / 8.0
                + IN_FLIGHT,
        })
    }
}

/// Number of bytes by which the two ends may always differ, because they are on the cable or
/// belong to a packet that only one end has counted.
const IN_FLIGHT: f64 = 65536.0;

impl EndComparison {
    /// Returns the bytes by which the ends differ in each direction, or 0 if the difference is
    /// within the tolerance or 0.5 %.
    pub fn missing(&self) -> (u64, u64) {
        const SHARE: f64 = 0.005;
        let beyond = |(sent, received): (u64, u64)| {
            let difference = sent.abs_diff(received);
            if difference as f64 > self.tolerance.max(sent.max(received) as f64 * SHARE) {
                difference
            } else {
                0
            }
        };
        (beyond(self.out), beyond(self.back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoints(
        slots: impl Iterator<Item = u64>,
        late_ns: u64,
        sent: impl Fn(u64) -> u64,
    ) -> Checkpoints {
        let mut checkpoints = Checkpoints::default();
        slots.for_each(|slot| {
            checkpoints.put(Checkpoint {
                slot,
                ts: slot * 1_000_000_000 + late_ns,
                rtt_ns: 0,
                xmit: sent(slot),
                rcv: 0,
            });
        });
        checkpoints
    }

    #[test]
    fn few_checkpoints_are_kept_of_many_slots() {
        let long = checkpoints(1_000..200_000, 0, |slot| slot);
        assert!(
            long.all.len() <= MAX && long.all.len() > MAX / 4,
            "{}",
            long.all.len()
        );
        let other = checkpoints(1_003..150_000, 0, |slot| slot);
        let compared = long.compare(&other, 100.0).expect("they overlap");
        assert!(compared.seconds > 100_000.0, "{compared:?}");
    }

    #[test]
    fn difference_within_the_tolerance_is_ignored() {
        let other = |late_ns, lost: u64| {
            let mut checkpoints = checkpoints(0..10, late_ns, |_| 0);
            checkpoints
                .all
                .iter_mut()
                .for_each(|checkpoint| checkpoint.rcv = checkpoint.slot * (1_000_000_000 - lost));
            checkpoints
        };
        let ours = checkpoints(0..10, 0, |slot| slot * 1_000_000_000);
        let compared = ours.compare(&other(0, 0), 100.0).expect("same slots");
        assert_eq!(
            (compared.out, compared.missing(), compared.seconds),
            ((9_000_000_000, 9_000_000_000), (0, 0), 9.0)
        );
        // The readings are 1 ms apart, at the start and at the end: 2 x 2 x 12.5 MB.
        let compared = ours
            .compare(&other(1_000_000, 5_500_000), 100.0)
            .expect("same slots");
        assert_eq!(
            (compared.tolerance, compared.missing()),
            (50_065_536.0, (0, 0))
        );
        assert_eq!(
            ours.compare(&other(1_000_000, 6_000_000), 100.0)
                .expect("same slots")
                .missing(),
            (54_000_000, 0)
        );
        assert_eq!(
            ours.compare(&other(0, 5_000_000), 100.0)
                .expect("same slots")
                .missing(),
            (0, 0),
            "0.5 % is within the tolerance"
        );
    }

    #[test]
    fn reset_counter_discards_earlier_checkpoints() {
        let reset = checkpoints(0..10, 0, |slot| if slot < 5 { 100 + slot } else { slot });
        assert_eq!(reset.all.first().map(|checkpoint| checkpoint.slot), Some(5));
        assert_eq!(
            reset.compare(&checkpoints(0..6, 0, |slot| slot), 100.0),
            None,
            "one common slot is not enough"
        );
    }
}
