//! Writes the records of a slot: one for each port, and one `sweep` record.

use std::collections::BTreeMap;
use std::time::Duration;

use ibnet_record::count::count;
use ibnet_record::physical::{Cable, PhysicalKind, Values};
use ibnet_record::reader::Type;
use ibnet_record::registers::link_down::{LinkDown, named};
use ibnet_record::types::{NodeKind, Printable};
use ibnet_record::{
    EventName, EventRecord, HistogramRecord, PhysicalHead, PhysicalRecord, RoutesRecord,
    RoutesTable, Start, Status, SweepRecord,
};

use super::{Clock, Control, Driver, HISTOGRAM_EVERY, Notice, WallTime, nanos};
use crate::mad::forwarding::{self, BLOCK_LIDS};
use crate::mad::transport::Transport;
use crate::output::Batch;
use crate::sweep::engine::{ForwardingReading, PhysicalReading, Table};
use crate::sweep::physical_record;
use crate::sweep::port_record::{PortIdentity, PortRecord};
use crate::sweep::stats::{self, Durations, MAD_OCTETS_ON_LINK, RoundTrips};
use crate::time::Instant;

/// Number of readings without which a value of the physical layer is old in the metrics.
const OLD_AFTER: u32 = 3;

/// Time for which the reasons of a link that went down are counted.
const HOUR: Duration = Duration::from_secs(3600);

/// Why a link went down, until the event with the names of its cable is written.
pub(super) struct HeldReason {
    port: usize,
    /// Time of the reply in nanoseconds since 1970.
    ts: u64,
    reason: String,
    /// The reasons of the last hour.
    counts: String,
}

/// Round trips and durations of sweeps since the last `histogram` records.
pub(super) struct HistogramPeriod {
    since: Instant,
    rtt: RoundTrips,
    sweep: Durations,
}

impl HistogramPeriod {
    pub(super) fn new(since: Instant) -> Self {
        Self {
            since,
            rtt: RoundTrips::default(),
            sweep: stats::durations(),
        }
    }
}

impl<T: Transport, C: Clock> Driver<T, C> {
    /// Writes a `start` record with this time to the outputs.
    pub(super) fn write_start(&mut self, at: WallTime) {
        let boot_id =
            std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        self.outlet.start(Start {
            ts: at.unix_ns,
            slot: self.schedule.number(at.unix_ns),
            sampler: self.settings.sampler.clone(),
            schema: ibnet_record::SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: boot_id.trim().to_owned(),
            pid: std::process::id(),
            ca: self.settings.ca.clone(),
            ca_port: self.settings.ca_port,
            role: self.settings.role().to_owned(),
            interval_ns: nanos(self.settings.interval),
            groups: ibnet_record::group_names(&self.settings.engine.groups)
                .into_iter()
                .map(str::to_owned)
                .collect(),
            clear: self
                .settings
                .engine
                .cleared()
                .map(|of| of.group().to_string())
                .collect(),
            ports: self.ports.len(),
            mads_per_slot: Some(self.engine.mads_per_slot().round() as u64),
            assignments_sha256: self.settings.assignments_sha256.clone(),
            clock_ns: Some(nanos(self.clock.read_cost(|_| {}))),
            // Each output sets this field, because it counts its own files.
            file_seq: 0,
        });
    }

    pub(super) fn take_notices(&mut self, control: &Control, slot: u64) {
        for notice in control.take_notices(slot) {
            match notice {
                Notice::Reload(detail) => self.write_event(slot, EventName::Reload, None, &detail),
                Notice::Assignments(sha256) => {
                    self.settings.assignments_sha256 = sha256;
                    // A driver that has not started yet puts the new value into its first `start`
                    // record.
                    if self.has_started {
                        self.write_start(self.clock.read_wall());
                    }
                }
            }
            self.flush(slot);
        }
    }

    pub(super) fn write_ports(&mut self, slot: u64) {
        let mut settled = std::mem::take(&mut self.settled);
        for port in settled.drain(..) {
            self.write_port(port, slot);
        }
        self.settled = settled;
    }

    /// Writes the record of one port. If a counter is implausible or was reset, writes an event
    /// and has the device verified.
    fn write_port(&mut self, port: usize, slot: u64) {
        let begin = self.clock.now();
        let sample = self.engine.sample(port);
        let reading = &mut self.readings[port];
        reading.take(&self.columns, slot, &sample);
        self.decode_time += self.clock.now() - begin;
        let ts = self.wall.of(sample.at);
        let (identity, columns) = (&self.ports[port], &self.columns);
        let (sampler, is_secondary) = (self.settings.sampler.as_str(), self.settings.is_secondary);
        let record = PortRecord {
            ts,
            slot,
            sampler,
            is_secondary,
            identity,
            sample: &sample,
            reading,
            columns,
        };
        self.batch.push(Type::Port, &record);
        self.ports[port].limits = None;
        let (downs, read_at) = (reading.downs, sample.at);
        if reading.implausible {
            self.engine.verify(port);
            self.write_event(
                slot,
                EventName::Implausible,
                Some(port),
                "more moved than the link carries: another port may have answered",
            );
            return;
        }
        if !reading.resets.is_empty() {
            // The counters may belong to another port.
            self.engine.verify(port);
            let names: Vec<_> = columns
                .iter()
                .filter(|(index, _)| reading.resets.contains(index))
                .map(|(_, column)| column.field.json)
                .collect();
            let names = names.join(" ");
            self.links[port].forget();
            self.write_event(slot, EventName::Reset, Some(port), &names);
        }
        self.report_flaps(slot, port, downs, read_at);
    }

    /// Writes the records of the physical layer that are complete.
    pub(super) fn write_physical(&mut self, slot: u64) {
        while let Some(reading) = self.engine.take_physical() {
            let PhysicalReading {
                kind,
                port,
                at,
                since,
                is_link_down,
                ..
            } = reading;
            let identity = &self.ports[port];
            let is_switch = identity.kind == NodeKind::Switch;
            let mut values = physical_record::values(reading.images());
            values
                .0
                .extend(physical_record::listed(reading.images(), reading.items()));
            let record = PhysicalRecord {
                head: PhysicalHead {
                    kind: kind.as_str(),
                    ts: self.wall.of(at),
                    slot,
                    sampler: self.settings.sampler.as_str(),
                    guid: identity.guid,
                    port: kind.is_of_port().then_some(identity.port),
                    lid: identity.lid,
                    node: &identity.node,
                    dt_ns: since.map(nanos),
                },
                values,
            };
            self.batch.push(kind.into(), &record);
            let values = record.values;
            if is_link_down && kind == PhysicalKind::Phy {
                self.report_link_down(slot, port, &values, at);
                continue;
            }
            if let Some(cable) = Cable::of(&values) {
                self.cables[port] = Some(cable);
                self.release_reasons(slot, |held| held.port == port);
            }
            let every = self.settings.engine.physical;
            let every = every.map(|of| of.interval(kind, is_switch));
            let old_at = self.wall.of(at) + nanos(every.unwrap_or_default() * OLD_AFTER);
            self.newest[port].take(kind, &values, old_at);
        }
    }

    /// Reports why the link of a port went down, and for which reasons it did so within an hour. If
    /// the module of the port was not read yet, the report waits for it, at most to the end of the
    /// slot.
    fn report_link_down(&mut self, slot: u64, port: usize, values: &Values, at: Instant) {
        let Some(found) = LinkDown::of(|name| values.integer(name)) else {
            return;
        };
        let earlier = self.reasons.entry(port).or_default();
        earlier.retain(|(time, _)| at - *time < HOUR);
        earlier.push((at, found.reason));
        let mut text = String::new();
        if earlier.len() > 1 {
            let mut counts: BTreeMap<u8, usize> = BTreeMap::new();
            for (_, reason) in earlier {
                *counts.entry(*reason).or_default() += 1;
            }
            let counts = counts.into_iter();
            let counts: Vec<_> = counts
                .map(|(reason, count)| format!("{count} x {}", named(reason)))
                .collect();
            text = format!(", in the last hour: {}", counts.join(", "));
        }
        self.held_reasons.push(HeldReason {
            port,
            ts: self.wall.of(at),
            reason: found.to_string(),
            counts: text,
        });
        if self.cables[port].is_some() {
            self.release_reasons(slot, |held| held.port == port);
        }
    }

    /// Writes the events about why links went down, for which `is_due` returns true.
    fn release_reasons(&mut self, slot: u64, is_due: impl Fn(&HeldReason) -> bool) {
        let held = std::mem::take(&mut self.held_reasons);
        let (due, held) = held.into_iter().partition(is_due);
        self.held_reasons = held;
        let due: Vec<HeldReason> = due;
        for held in due {
            let cable = self.cables[held.port].as_ref();
            let cable = cable.map_or_else(String::new, |cable| format!(", {cable}"));
            let detail = held.reason + &cable + &held.counts;
            let PortIdentity { node, port, .. } = &self.ports[held.port];
            tracing::info!(node = %Printable(node), %port, %detail, "a device reports why a link went down");
            self.write_event_at(
                (slot, held.ts),
                EventName::LinkDownReason,
                Some(held.port),
                &detail,
            );
        }
    }

    /// Writes the records of forwarding tables that were read.
    pub(super) fn write_forwarding(&mut self, slot: u64) {
        while let Some(ForwardingReading { device, at, table }) = self.engine.take_forwarding() {
            let identity = &self.ports[self.first_ports[device]];
            let head = RoutesRecord {
                ts: self.wall.of(at),
                slot,
                sampler: self.settings.sampler.as_str(),
                guid: identity.guid,
                lid: identity.lid,
                node: &identity.node,
                ..RoutesRecord::default()
            };
            let record = match table {
                Table::Linear { block, top, ports } => {
                    let first_lid = block * BLOCK_LIDS;
                    let valid = ports.iter().zip(first_lid..=top);
                    RoutesRecord {
                        table: RoutesTable::Linear.as_str(),
                        top: Some(top),
                        first_lid: Some(first_lid),
                        ports: Some(valid.map(|(port, _)| *port).collect()),
                        ..head
                    }
                }
                Table::SlToVl { to, from, mapping } => {
                    let is_in = |port: &u8| from[usize::from(port / 64)] >> (port % 64) & 1 != 0;
                    RoutesRecord {
                        table: RoutesTable::SlToVl.as_str(),
                        port: Some(to),
                        in_ports: Some((0..=u8::MAX).filter(is_in).collect()),
                        vls: Some(forwarding::vls(mapping).to_vec()),
                        ..head
                    }
                }
                Table::Round {
                    info,
                    adaptive,
                    since,
                    changed,
                } => RoutesRecord {
                    table: RoutesTable::Round.as_str(),
                    top: Some(info.linear_top),
                    cap: Some(info.linear_cap),
                    round_ns: Some(nanos(at - since)),
                    changed,
                    ar_enabled: adaptive.map(|of| of.is_enabled.into()),
                    ar_group_top: adaptive.map(|of| of.group_top),
                    ar_sl_mask: adaptive.map(|of| of.sl_mask),
                    ..head
                },
            };
            self.batch.push(Type::Routes, &record);
        }
    }

    /// Reports the flaps of a link that earlier slots have counted, and counts those of this slot.
    fn report_flaps(&mut self, slot: u64, port: usize, downs: Option<u64>, read_at: Instant) {
        let state_read_at = self.engine.state_read_at(port);
        if let Some(flaps) = self.links[port].take_flaps(state_read_at) {
            let PortIdentity {
                node, port: num, ..
            } = &self.ports[port];
            tracing::info!(node = %Printable(node), port = %num, flaps, "the link went down and came up again between two reads of its state");
            let detail = format!("{} between two reads of the state", count(flaps, "time"));
            self.write_event(slot, EventName::LinkFlapped, Some(port), &detail);
            self.engine.read_link_down(port, self.clock.now());
        }
        let Some(downs) = downs else { return };
        self.links[port].count(downs, read_at);
        if downs > 0 {
            self.engine.read_state(port);
        }
    }

    /// Writes the `sweep` record, and hands all records of the slot to the outputs. Returns the
    /// number of records that the outputs have dropped since the last slot.
    pub(super) fn end_slot(&mut self, slot: u64, slots_missed: u64) -> u64 {
        self.release_reasons(slot, |_| true);
        let stats = self.engine.stats();
        let rtt = stats.rtt.all();
        let quantile = |q| (!rtt.is_empty()).then(|| rtt.value_at_quantile(q));
        let count = |status| stats.count(status);
        let by_status = [
            Status::Ok,
            Status::Late,
            Status::Timeout,
            Status::Unreachable,
            Status::Skipped,
            Status::Down,
        ]
        .map(count);
        let record = SweepRecord {
            ts: self.unix_now(),
            slot,
            sampler: self.settings.sampler.clone(),
            ca: self.settings.ca.clone(),
            ca_port: self.settings.ca_port,
            role: self.settings.role().to_owned(),
            duration_ns: nanos(stats.duration()),
            decode_ns: nanos(self.decode_time),
            ports: stats.total(),
            ok: by_status[0],
            late: by_status[1],
            timeout: by_status[2],
            unreachable: by_status[3],
            skipped: by_status[4],
            down: by_status[5],
            errors: stats.total() - by_status.iter().sum::<u32>(),
            mads_sent: stats.mads_sent,
            mads_late: stats.mads_late,
            mads_rejected: stats.rejected.total(),
            mads_duplicate: stats.rejected.duplicate,
            mads_foreign: stats.rejected.foreign,
            mads_bad_length: stats.rejected.length,
            mads_bad_class: stats.rejected.class,
            mads_bad_attribute: stats.rejected.attribute,
            mads_bad_port: stats.rejected.port,
            mads_refused: stats.mads_refused,
            load_bytes: stats.mads_sent * MAD_OCTETS_ON_LINK,
            slots_missed,
            // Each output sets this field.
            lines_lost: 0,
            rtt_p50_ns: quantile(0.5),
            rtt_p99_ns: quantile(0.99),
            rtt_max_ns: (!rtt.is_empty()).then(|| nanos(stats.rtt.longest)),
        };
        tracing::debug!(slot, duration = ?stats.duration(), ok = record.ok, of = record.ports, "slot");
        self.batch.sweep = Some((self.batch.bytes.len(), record));
        self.batch.lines += 1;
        self.histograms.rtt.add(&stats.rtt);
        self.histograms
            .sweep
            .saturating_record(nanos(stats.duration()));
        if self.clock.now() - self.histograms.since >= HISTOGRAM_EVERY {
            self.write_histograms();
        }
        self.flush(slot);
        self.outlet.take_refused()
    }

    /// Hands the records written so far to the outputs, with a `lines_lost` event for each output
    /// that has dropped records. A driver that has not started yet keeps its records.
    pub(super) fn flush(&mut self, slot: u64) {
        if !self.has_started {
            return;
        }
        let ts = self.unix_now();
        let next = self.batch.next();
        let batch = std::mem::replace(&mut self.batch, next);
        let gap = EventRecord {
            ts,
            slot,
            sampler: self.settings.sampler.clone(),
            ca: self.settings.ca.clone(),
            ca_port: self.settings.ca_port,
            role: self.settings.role().to_owned(),
            event: EventName::LinesLost.to_string(),
            guid: None,
            port: None,
            lid: None,
            // Each output sets this text.
            detail: String::new(),
        };
        self.outlet.offer(Batch {
            gap: Some(gap),
            ts,
            ..batch
        });
    }

    /// Writes `histogram` records of round trips, of sweep durations, of the timer cost, and of the
    /// service times of each device. Measures the timer cost for these records.
    pub(super) fn write_histograms(&mut self) {
        let (ts, slot) = (self.unix_now(), self.current_slot());
        let HistogramPeriod { rtt, sweep, .. } = &self.histograms;
        // Without a sweep there is nothing that a reading of the clock could have delayed.
        let mut costs = stats::timer_costs();
        let cost = self.clock.read_cost(|ns| {
            if !sweep.is_empty() {
                costs.saturating_record(ns);
            }
        });
        let of_all = [
            ("rtt", Some("switch"), None, &rtt.switch),
            ("rtt", Some("hca"), None, &rtt.hca),
            ("sweep", None, None, sweep),
            ("clock", None, None, &costs),
        ];
        let of_each = self.first_ports.iter().enumerate().map(|(device, port)| {
            let kind = if self.ports[*port].kind == NodeKind::Switch {
                "switch"
            } else {
                "hca"
            };
            let of_device = Some((device, &self.ports[*port]));
            let histogram = self.engine.round_trips(device);
            ("service", Some(kind), of_device, histogram)
        });
        for (kind, device_kind, device, histogram) in of_all.into_iter().chain(of_each) {
            let Some(v2) = stats::encoded(histogram).filter(|_| !histogram.is_empty()) else {
                continue;
            };
            let info = device.and_then(|(device, _)| self.engine.node_info(device));
            let record = HistogramRecord {
                ts,
                slot,
                sampler: self.settings.sampler.as_str(),
                ca: self.settings.ca.as_str(),
                ca_port: self.settings.ca_port,
                role: self.settings.role(),
                kind,
                device_kind,
                guid: device.map(|(_, identity)| identity.guid),
                lid: device.map(|(_, identity)| identity.lid),
                hops: device.and_then(|(_, identity)| identity.hops),
                system_guid: info.map(|info| info.system_guid),
                vendor_id: info.map(|info| info.vendor_id),
                device_id: info.map(|info| info.device_id),
                clock_ns: Some(nanos(cost)),
                mean_ns: Some(histogram.mean().round() as u64),
                min_ns: device.and_then(|(device, _)| self.engine.shortest_round_trip(device)),
                count: histogram.len(),
                v2: &v2,
            };
            self.batch.push(Type::Histogram, &record);
        }
        self.engine.reset_round_trips();
        self.histograms = HistogramPeriod::new(self.clock.now());
    }
}
