//! The lines of a slot: a record of each port, and their sum.

use hdrhistogram::Histogram;

use super::{Control, Driver, HISTOGRAM_EVERY, Notice, nanos};
use crate::mad::transport::Transport;
use crate::sink::{self, Batch, Blank};
use crate::sweep::record::{self, HistogramRecord, PortRecord, Start, SweepRecord};
use crate::sweep::sample::Status;
use crate::sweep::stats::{self, MAD_OCTETS_ON_LINK, RoundTrips};
use crate::time::Instant;
use crate::types::NodeKind;

/// What `histogram` records tell.
pub(super) struct Minute {
    since: Instant,
    rtt: RoundTrips,
    sweep: Histogram<u64>,
}

impl Minute {
    pub(super) fn new(since: Instant) -> Self {
        Self { since, rtt: RoundTrips::default(), sweep: stats::durations() }
    }
}

impl<T: Transport> Driver<T> {
    pub(super) fn write_start(&mut self) {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let record = Start {
            r#type: "start",
            ts: self.clock.read_wall(),
            slot: self.current_slot(),
            sampler: &self.settings.sampler,
            schema: record::SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            boot_id: boot_id.trim(),
            pid: std::process::id(),
            ca: &self.settings.ca,
            ca_port: self.settings.ca_port,
            role: self.settings.role(),
            interval_ns: nanos(self.settings.interval),
            groups: record::group_names(&self.settings.engine.groups),
            ports: self.ports.len(),
            assignments_sha256: self.settings.assignments_sha256.as_deref(),
            clock_ns: nanos(self.clock.cost()),
            // The sinks count.
            file_seq: 0,
        };
        let mut text = Vec::new();
        record::write(&record, &mut text);
        let (line, sampler, ts) = (Blank::new(text, "\"file_seq\":"), record.sampler.to_owned(), record.ts);
        self.outlet.start(sink::Start { line, sampler, ts });
    }

    /// Tells what this driver was told to tell.
    pub(super) fn take_notices(&mut self, control: &Control, slot: u64) {
        for notice in control.take_notices() {
            match notice {
                Notice::Reload(detail) => self.write_event(slot, "reload", None, &detail),
                Notice::Assignments(sha256) => {
                    self.settings.assignments_sha256 = sha256;
                    // Who has not spoken yet says it in its first line.
                    if self.speaks {
                        self.write_start();
                    }
                }
            }
            self.flush(slot);
        }
    }

    /// Writes the records of a slot's ports.
    pub(super) fn write_ports(&mut self, slot: u64) {
        let mut settled = std::mem::take(&mut self.settled);
        for port in settled.drain(..) {
            self.write_port(port, slot);
        }
        self.settled = settled;
    }

    fn write_port(&mut self, port: usize, slot: u64) {
        let begin = self.clock.now();
        let sample = self.engine.sample(port);
        let reading = &mut self.readings[port];
        reading.take(&self.columns, slot, &sample);
        self.decode += self.clock.now() - begin;
        let ts = self.clock.wall(sample.at);
        let (identity, columns) = (&self.ports[port], &self.columns);
        let record = PortRecord { ts, slot, sampler: &self.settings.sampler, identity, sample: &sample, reading, columns };
        record::write(&record, &mut self.batch.bytes);
        self.batch.lines += 1;
        if reading.implausible {
            self.engine.verify(port);
            self.write_event(slot, "implausible", Some(port), "more moved than the link carries: another port may have answered");
            return;
        }
        if !reading.resets.is_empty() {
            // Somebody cleared it, or it is another port's.
            self.engine.verify(port);
            let names: Vec<_> =
                columns.iter().filter(|(index, _)| reading.resets.contains(index)).map(|(_, column)| column.field.json).collect();
            let names = names.join(" ");
            self.write_event(slot, "reset", Some(port), &names);
        }
    }

    /// Writes the slot's `sweep` record and hands its lines over. Gives the lines that were lost since the slot before.
    pub(super) fn end_slot(&mut self, slot: u64, slots_missed: u64) -> u64 {
        let stats = self.engine.stats();
        let rtt = stats.rtt.all();
        let quantile = |q| (!rtt.is_empty()).then(|| rtt.value_at_quantile(q));
        let count = |status| stats.count(status);
        let told_apart = [Status::Ok, Status::Late, Status::Timeout, Status::Unreachable, Status::Skipped].map(count);
        let record = SweepRecord {
            r#type: "sweep",
            ts: self.clock.wall(self.clock.now()),
            slot,
            sampler: &self.settings.sampler,
            ca: &self.settings.ca,
            ca_port: self.settings.ca_port,
            role: self.settings.role(),
            duration_ns: nanos(stats.duration()),
            decode_ns: nanos(self.decode),
            ports: stats.total(),
            ok: told_apart[0],
            late: told_apart[1],
            timeout: told_apart[2],
            unreachable: told_apart[3],
            skipped: told_apart[4],
            errors: stats.total() - told_apart.iter().sum::<u32>(),
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
            // Each sink has its own.
            lines_lost: 0,
            rtt_p50_ns: quantile(0.5),
            rtt_p99_ns: quantile(0.99),
            rtt_max_ns: (!rtt.is_empty()).then(|| nanos(stats.rtt.longest)),
        };
        tracing::debug!(slot, duration = ?stats.duration(), ok = record.ok, of = record.ports, "slot");
        let begin = self.batch.bytes.len();
        record::write(&record, &mut self.batch.bytes);
        self.batch.lost_at = sink::place(&self.batch.bytes[begin..], "\"lines_lost\":").map(|at| begin + at);
        self.batch.lines += 1;
        self.minute.rtt.add(&stats.rtt);
        self.minute.sweep.saturating_record(nanos(stats.duration()));
        if self.clock.now() - self.minute.since >= HISTOGRAM_EVERY {
            self.write_histograms();
        }
        self.flush(slot);
        self.outlet.take_refused()
    }

    /// Hands over what was written, and the line for where lines are missing before it.
    pub(super) fn flush(&mut self, slot: u64) {
        if !self.speaks {
            return;
        }
        let lines = std::mem::take(&mut self.batch);
        self.write_event(slot, "lines_lost", None, "0 lines could not be written");
        let gap = Blank::new(std::mem::take(&mut self.batch.bytes), "\"detail\":\"");
        self.batch = Batch { bytes: Vec::with_capacity(lines.bytes.len()), ..Batch::default() };
        self.outlet.offer(Batch { gap, ts: self.clock.wall(self.clock.now()), ..lines });
    }

    pub(super) fn write_histograms(&mut self) {
        let (ts, slot) = (self.clock.wall(self.clock.now()), self.current_slot());
        let Minute { rtt, sweep, .. } = &self.minute;
        let of_all = [("rtt", Some("switch"), None, &rtt.switch), ("rtt", Some("hca"), None, &rtt.hca), ("sweep", None, None, sweep)];
        let of_each = self.first_ports.iter().enumerate().map(|(device, port)| {
            let identity = &self.ports[*port];
            let kind = if identity.kind == NodeKind::Switch { "switch" } else { "hca" };
            ("service", Some(kind), Some(identity), self.engine.round_trips(device))
        });
        for (kind, device_kind, device, histogram) in of_all.into_iter().chain(of_each) {
            let Some(v2) = stats::encoded(histogram).filter(|_| !histogram.is_empty()) else { continue };
            let (guid, lid) = (device.map(|device| device.guid), device.map(|device| device.lid));
            let hops = device.and_then(|device| device.hops);
            let (sampler, count, mean_ns) = (self.settings.sampler.as_str(), histogram.len(), histogram.mean().round() as u64);
            let (ca, ca_port) = (self.settings.ca.as_str(), self.settings.ca_port);
            let record = HistogramRecord {
                r#type: "histogram",
                ts,
                slot,
                sampler,
                ca,
                ca_port,
                role: self.settings.role(),
                kind,
                device_kind,
                guid,
                lid,
                hops,
                mean_ns,
                count,
                v2,
            };
            record::write(&record, &mut self.batch.bytes);
            self.batch.lines += 1;
        }
        self.engine.reset_round_trips();
        self.minute = Minute::new(self.clock.now());
    }
}
