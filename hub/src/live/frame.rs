//! The binary form of a slot: one 16-bit number for each port and metric.
//!
//! All numbers are little endian:
//!
//! | bytes | content |
//! |---|---|
//! | 4 | [`MAGIC`] |
//! | 4 | generation of the topology |
//! | 8 | slot number |
//! | 8 | time of the newest record in the frame, in nanoseconds since 1970 |
//! | 4 | number of ports |
//! | 2 | number of metrics |
//! | 2 | flags: bit 0 if a sampler has not ended the slot, bit 1 if the client missed frames |
//! | 2 each | for each metric, the values of all ports in the order of the topology |

use std::sync::Arc;

use super::COUNT;
use super::topology::Topology;

/// First bytes of a frame: `IBB1`.
pub(crate) const MAGIC: u32 = 0x3142_4249;

/// The number that stands for 1.0.
pub(crate) const FULL: u16 = 64_000;

/// No value: nothing was received about the port, or its records lack the value.
pub(crate) const NO_DATA: u16 = 65_535;

/// The port was queried and did not answer.
pub(crate) const NO_ANSWER: u16 = 65_534;

/// The link of the port is down.
pub(crate) const LINK_DOWN: u16 = 65_533;

/// No sampler queries the port.
pub(crate) const NOT_ASSIGNED: u16 = 65_532;

/// Errors increased, but the time is unknown. Only in matrices.
pub(crate) const INCREASE: u16 = 65_531;

/// The port answers, but its device does not have the counter of the metric.
pub(crate) const NO_COUNTER: u16 = 65_530;

/// Flag: a sampler has not ended the slot. The frame is sent again when it has.
pub(crate) const PARTIAL: u16 = 1;

/// Flag: the client missed frames before this one.
pub(crate) const GAP: u16 = 2;

/// The values of all ports in one slot.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) topology: Arc<Topology>,
    /// Number of frames published before this one.
    pub(crate) number: u64,
    pub(crate) slot: u64,
    pub(crate) ts: u64,
    pub(crate) is_partial: bool,
    /// For each metric, the values in the order of the topology.
    pub(crate) values: [Vec<u16>; COUNT],
}

/// Returns the number for a share. Shares above 1 count as 1.
pub(crate) fn quantized(share: f64) -> u16 {
    (share.clamp(0.0, 1.0) * f64::from(FULL)).round() as u16
}

/// Writes a header and the arrays. `ports` is the length of each array.
pub(crate) fn write(
    generation: u32,
    slot: u64,
    ts: u64,
    ports: usize,
    flags: u16,
    arrays: &[&[u16]],
) -> Vec<u8> {
    let mut octets = Vec::with_capacity(32 + 2 * ports * arrays.len());
    octets.extend(MAGIC.to_le_bytes());
    octets.extend(generation.to_le_bytes());
    octets.extend(slot.to_le_bytes());
    octets.extend(ts.to_le_bytes());
    octets.extend((ports as u32).to_le_bytes());
    octets.extend((arrays.len() as u16).to_le_bytes());
    octets.extend(flags.to_le_bytes());
    arrays
        .iter()
        .for_each(|array| octets.extend(array.iter().flat_map(|value| value.to_le_bytes())));
    octets
}

impl Frame {
    /// Returns the binary form with these metrics, as indices in [`METRICS`](super::METRICS).
    pub(crate) fn encode(&self, metrics: &[usize], flags: u16) -> Vec<u8> {
        let arrays: Vec<&[u16]> = metrics
            .iter()
            .filter_map(|metric| self.values.get(*metric))
            .map(Vec::as_slice)
            .collect();
        write(
            self.topology.generation,
            self.slot,
            self.ts,
            self.topology.ports.len(),
            flags,
            &arrays,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_numbers_up_to_the_full_one() {
        assert_eq!(
            [0.0, 0.5, 1.0, 1.5, -1.0].map(quantized),
            [0, 32_000, FULL, FULL, 0]
        );
    }

    #[test]
    fn header_is_followed_by_the_arrays() {
        let octets = write(7, 9, 11, 2, GAP, &[&[1, NO_DATA], &[3, 4]]);
        assert_eq!(octets.len(), 32 + 8);
        assert_eq!(&octets[..8], [b'I', b'B', b'B', b'1', 7, 0, 0, 0]);
        assert_eq!(
            &octets[24..],
            [2, 0, 0, 0, 2, 0, 2, 0, 1, 0, 255, 255, 3, 0, 4, 0]
        );
    }
}
