//! Records of a fabric with 50 switches and jobs that start and stop.

use ibnet_store::column::{Column, Integers, Texts};
use ibnet_store::schema::TableName;
use ibnet_store::table::Table;

/// Number of ports: 20 of each switch.
pub(crate) const PORTS: usize = 1000;

/// Ports of a switch.
const RADIX: usize = 20;

/// Switches of a sampler.
const OF_SAMPLER: usize = 7;

pub(crate) const SECOND: u64 = 1_000_000_000;

/// 2026-11-21 00:00:00 UTC.
pub(crate) const FIRST_SLOT: u64 = 1_795_219_200;

/// Octets per second of a full link (4xEDR).
const FULL: u64 = 12_121_212_121;

/// Counters of errors, which do not change.
const ERRORS: [&str; 12] = [
    "symbol_error_counter",
    "link_error_recovery_counter",
    "link_downed_counter",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "vl15_dropped",
];

/// The counters of a port and its load. A port of five has no traffic. The others have phases of
/// some minutes, and no traffic in one phase of ten.
struct Port {
    number: usize,
    random: fastrand::Rng,
    last: Option<u64>,
    /// Sent and received.
    octets: [u64; 2],
    packets: [u64; 2],
    wait: u64,
    /// Octets per second in this phase.
    load: [u64; 2],
    /// Slot in which the phase ends.
    until: u64,
}

/// The records of all ports. The records of a port do not depend on the order of the calls for
/// other ports.
pub(crate) struct Traffic(Vec<Port>);

/// Values of a record that change from slot to slot.
#[derive(Default)]
struct Rows {
    ports: Vec<usize>,
    integers: [Vec<u64>; 13],
    floats: [Vec<f64>; 5],
}

/// Names of the columns of [`Rows::integers`].
const INTEGERS: [&str; 13] = [
    "ts",
    "slot",
    "rtt_ns",
    "rtt_min_ns",
    "dt_ns",
    "port_xmit_data_bytes",
    "port_rcv_data_bytes",
    "port_xmit_pkts",
    "port_rcv_pkts",
    "port_unicast_xmit_pkts",
    "port_unicast_rcv_pkts",
    "port_xmit_wait_ticks",
    "port",
];

/// Names of the columns of [`Rows::floats`].
const FLOATS: [&str; 5] = [
    "xmit_gbps",
    "rcv_gbps",
    "xmit_utilization",
    "rcv_utilization",
    "xmit_blocked",
];

impl Traffic {
    pub(crate) fn new() -> Self {
        let port = |number| Port {
            number,
            random: fastrand::Rng::with_seed(number as u64),
            last: None,
            octets: [1 << 40; 2],
            packets: [1 << 30; 2],
            wait: 0,
            load: [0; 2],
            until: 0,
        };
        Self((0..PORTS).map(port).collect())
    }

    /// Returns the records of the slots in the order of time.
    pub(crate) fn by_time(&mut self, slots: std::ops::Range<u64>) -> Table {
        let mut rows = Rows::default();
        slots.for_each(|slot| self.0.iter_mut().for_each(|port| port.add(slot, &mut rows)));
        rows.table()
    }

    /// Returns the records of some ports in the order of the archive.
    pub(crate) fn by_port(
        &mut self,
        ports: std::ops::Range<usize>,
        slots: std::ops::Range<u64>,
    ) -> Table {
        let mut rows = Rows::default();
        self.0[ports]
            .iter_mut()
            .for_each(|port| slots.clone().for_each(|slot| port.add(slot, &mut rows)));
        rows.table()
    }
}

impl Port {
    fn add(&mut self, slot: u64, rows: &mut Rows) {
        let random = &mut self.random;
        if slot >= self.until {
            self.until = slot + random.u64(60..1200);
            let is_busy = !self.number.is_multiple_of(5) && random.u8(..10) > 0;
            self.load = if is_busy {
                [0; 2].map(|_: u64| random.u64(FULL / 50..FULL))
            } else {
                [0; 2]
            };
        }
        // The reply of a port arrives at about the same time in each slot.
        let ts = slot * SECOND + self.number as u64 * 9000 + random.u64(..200_000);
        let dt_ns = ts - self.last.replace(ts).unwrap_or(ts - SECOND);
        // The load of a busy port varies by a tenth. Octets are counted in words of four.
        let grown = self.load.map(|load| {
            if load == 0 {
                0
            } else {
                (load - random.u64(..load / 10)) / 4 * 4
            }
        });
        let is_blocked = self.load[0] > FULL / 10 * 8;
        let blocked_ns = if is_blocked {
            random.u64(..dt_ns / 2)
        } else {
            0
        };
        for ((octets, packets), grown) in self.octets.iter_mut().zip(&mut self.packets).zip(grown) {
            *octets += grown;
            *packets += grown / 2048 + if grown > 0 { random.u64(..50) } else { 0 };
        }
        self.wait += blocked_ns / 8;
        let gbps = grown.map(|octets| (octets as f64 * 8e6 / dt_ns as f64).round() / 1e6);
        let share = gbps.map(|gbps| (gbps / (FULL as f64 * 8e-9) * 1e6).round() / 1e6);
        let rtt_min_ns = 6000 + random.u64(..3000);
        let number = (self.number % RADIX + 1) as u64;
        let [sent, received] = self.packets;
        let integers = [
            ts,
            slot,
            rtt_min_ns * 3 + random.u64(..6000),
            rtt_min_ns,
            dt_ns,
            self.octets[0],
            self.octets[1],
            sent,
            received,
            sent,
            received,
            self.wait,
            number,
        ];
        let blocked = (blocked_ns as f64 / dt_ns as f64 * 1e6).round() / 1e6;
        rows.ports.push(self.number);
        rows.integers
            .iter_mut()
            .zip(integers)
            .for_each(|(column, value)| column.push(value));
        rows.floats
            .iter_mut()
            .zip([gbps[0], gbps[1], share[0], share[1], blocked])
            .for_each(|(column, value)| column.push(value));
    }
}

impl Rows {
    fn table(self) -> Table {
        let Self {
            ports,
            integers,
            floats,
        } = self;
        let text = |name: &dyn Fn(usize) -> String| {
            let mut texts = Texts::default();
            let ids: Vec<u32> = (0..PORTS).map(|port| texts.intern(&name(port))).collect();
            texts.ids = ports
                .iter()
                .map(|port| ids[*port])
                .collect::<Vec<_>>()
                .into();
            Column::Text(texts)
        };
        let same = |value| {
            Column::Integer(Integers::Same {
                value: Some(value),
                rows: ports.len(),
            })
        };
        let mut columns = vec![
            (
                "sampler",
                text(&|port| format!("s{:02}", port / RADIX / OF_SAMPLER)),
            ),
            (
                "guid",
                text(&|port| format!("0x{:016x}", 0x20_0000 + port / RADIX)),
            ),
            (
                "lid",
                Column::Integer(Integers::Each {
                    values: ports.iter().map(|port| (port / RADIX + 1) as u64).collect(),
                    present: None,
                }),
            ),
            ("node", text(&|port| format!("leaf{:02}", port / RADIX))),
            ("kind", text(&|_| "switch".to_owned())),
            ("hops", same(1)),
            (
                "peer_guid",
                text(&|port| format!("0x{:016x}", 0x10_0000 + port)),
            ),
            ("peer_port", same(1)),
            ("peer", text(&|port| format!("node{port:05} mlx5_0"))),
            ("link", text(&|_| "4xEDR".to_owned())),
            ("link_source", text(&|_| "live".to_owned())),
            ("status", text(&|_| "ok".to_owned())),
            ("mads", same(2)),
            ("identity", text(&|_| "ok".to_owned())),
        ];
        columns.extend(ERRORS.map(|name| (name, same(0))));
        columns.extend(INTEGERS.into_iter().zip(integers.map(|values| {
            Column::Integer(Integers::Each {
                values,
                present: None,
            })
        })));
        columns.extend(FLOATS.into_iter().zip(floats.map(Column::Float)));
        Table::of(TableName::Ports, columns).expect("the columns are those of the table")
    }
}
