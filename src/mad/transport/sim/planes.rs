//! Planes of the simulated ports (XDR). Each plane carries a share of the traffic of its cable.
//!
//! - All planes have the same share, except in a few cables: one plane is down, or carries less
//!   than the others. Packets are distributed one by one, so a share has no variation of its own.
//! - A plane has the same share at both ends of a cable and in both directions.
//! - How real devices distribute packets is not public. No value was compared with one.

use std::collections::BTreeMap;

use ibnet_record::registers::Page;
use ibnet_record::types::PortNum;

use super::agent::Counters;
use super::page_image::PageImage;
use super::{Cable, SimFabric};
use crate::mad::header::MadStatus;
use crate::mad::vendor::register::Query;
use crate::time::Instant;
use crate::topology::DeviceId;

/// In one cable of each number, a plane is slow or down.
const SLOW_ONE_OF: u64 = 50;
const DOWN_ONE_OF: u64 = 70;

/// Share of a slow plane, relative to that of the others.
const SLOW: f64 = 0.8;

/// States of the register: the plane is active, or searches for a signal.
const ACTIVE: u64 = 3;
const POLLING: u64 = 2;

/// The counters that are divided: words, packets and ticks.
type Divided = [u64; 5];

/// The names of these counters in the register.
const NAMES: [&str; 5] = [
    "port_xmit_data",
    "port_rcv_data",
    "port_xmit_pkts",
    "port_rcv_pkts",
    "port_xmit_wait",
];

fn divided(counters: &Counters) -> Divided {
    let Counters {
        xmit_words,
        rcv_words,
        xmit_packets,
        rcv_packets,
        xmit_wait,
        ..
    } = *counters;
    [xmit_words, rcv_words, xmit_packets, rcv_packets, xmit_wait]
}

/// The shares of the planes of one port, relative to each other, since some instant.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Shares {
    of: Vec<f64>,
    /// Counters of the port and of each plane at that instant.
    port: Divided,
    planes: Vec<Divided>,
}

/// Ports whose shares have changed.
pub(super) type Planes = BTreeMap<(DeviceId, PortNum), Shares>;

impl Shares {
    fn new(cable: &Cable, planes: u8) -> Self {
        let mut of = vec![1.0; planes.into()];
        let plane = (cable.id >> 32) as usize % of.len();
        if cable.id.is_multiple_of(DOWN_ONE_OF) {
            of[plane] = 0.0;
        } else if cable.id.is_multiple_of(SLOW_ONE_OF) {
            of[plane] = SLOW;
        }
        Self {
            planes: vec![Divided::default(); of.len()],
            port: Divided::default(),
            of,
        }
    }

    /// Returns the counters of a plane, if these are the ones of the port.
    fn counters(&self, plane: usize, port: &Divided) -> Divided {
        let share = self.of[plane] / self.of.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let mut counters = self.planes[plane];
        for (index, counter) in counters.iter_mut().enumerate() {
            *counter += ((port[index] - self.port[index]) as f64 * share) as u64;
        }
        counters
    }
}

impl SimFabric {
    fn shares(&self, id: DeviceId, port: PortNum) -> Option<Shares> {
        let changed = self.planes.get(&(id, port)).cloned();
        changed.or_else(|| Some(Shares::new(&self.cable(id, port)?, self.options.planes)))
    }

    /// Returns the share of the traffic that a plane of a port carries: 1 if it is as large as that
    /// of a healthy plane, and 0 if the plane is down. Planes count from 1. Returns `None` if there
    /// is no such plane.
    pub fn plane_share(&self, id: DeviceId, port: PortNum, plane: u8) -> Option<f64> {
        let shares = self.shares(id, port)?;
        shares.of.get(usize::from(plane.checked_sub(1)?)).copied()
    }

    /// Sets this share at both ends of a cable. Nothing changes if there is no such plane.
    pub fn set_plane_share(
        &mut self,
        (id, port): (DeviceId, PortNum),
        plane: u8,
        share: f64,
        at: Instant,
    ) {
        let peer = self.fabric.device(id).port(port);
        let peer = peer
            .and_then(|port| port.peer.as_ref())
            .and_then(|peer| Some((self.fabric.find(peer.guid, peer.port)?, peer.port)));
        for end in [Some((id, port)), peer].into_iter().flatten() {
            let (Some(before), Some(counters)) =
                (self.shares(end.0, end.1), self.counters(end.0, end.1, at))
            else {
                continue;
            };
            let port = divided(&counters);
            let planes = (0..before.of.len()).map(|plane| before.counters(plane, &port));
            let mut shares = Shares {
                planes: planes.collect(),
                port,
                of: before.of,
            };
            let of = plane.checked_sub(1).map(usize::from);
            if let Some(of) = of.and_then(|plane| shares.of.get_mut(plane)) {
                *of = share;
                self.planes.insert(end, shares);
            }
        }
    }
}

/// Writes a page about the planes of a port, or about one of them.
pub(super) fn write(
    fabric: &SimFabric,
    (id, query): (DeviceId, &Query),
    page: &mut PageImage,
    at: Instant,
) -> Result<(), MadStatus> {
    let (port, plane, planes) = (query.index.port, query.index.plane, fabric.options.planes);
    if planes == 1 || planes == 0 && query.page != Page::Planes {
        return Err(MadStatus::UNSUPPORTED_REGISTER);
    }
    if query.page == Page::Planes {
        page.set("num_of_planes", &[planes.into()]);
        page.set("p_type", &[u64::from(planes > 0)]);
        return Ok(());
    }
    let shares = fabric.shares(id, port).ok_or(MadStatus::INVALID_VALUE)?;
    let counters = fabric.counters(id, port, at);
    let all = divided(&counters.ok_or(MadStatus::INVALID_VALUE)?);
    let (values, is_active) = match plane.checked_sub(1).map(usize::from) {
        None => (all, true),
        Some(plane) if plane < shares.of.len() => {
            (shares.counters(plane, &all), shares.of[plane] > 0.0)
        }
        Some(_) => return Err(MadStatus::INVALID_VALUE),
    };
    for (name, value) in NAMES.into_iter().zip(values) {
        page.set(name, &[value]);
    }
    let state = if is_active { ACTIVE } else { POLLING };
    page.set("phy_mngr_fsm_state", &[state]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cables() -> impl Iterator<Item = Cable> {
        let rate = ibnet_record::types::LinkRate::new("4x", "XDR");
        (0..2000)
            .map(move |guid| Cable::new(1, (guid, PortNum(1)), (guid + 5000, PortNum(2)), &rate))
    }

    #[test]
    fn planes_carry_the_traffic_of_the_port_in_their_shares() {
        let port = [4_000_000, 400, 40, 8, 0];
        let (mut slow, mut down) = (0, 0);
        for cable in cables() {
            let shares = Shares::new(&cable, 4);
            let planes: Vec<_> = (0..4).map(|plane| shares.counters(plane, &port)).collect();
            for (index, all) in port.iter().enumerate() {
                let sum: u64 = planes.iter().map(|counters| counters[index]).sum();
                assert!(sum.abs_diff(*all) <= 4, "{planes:?}");
            }
            let of = |share| shares.of.iter().filter(|of| **of == share).count();
            let [is_slow, is_down] = [of(SLOW), of(0.0)];
            assert_eq!(of(1.0), 4 - is_slow - is_down);
            (slow, down) = (slow + is_slow, down + is_down);
        }
        assert!(
            (20..=60).contains(&slow) && (10..=50).contains(&down),
            "{slow} {down}"
        );
    }
}
