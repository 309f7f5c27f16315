//! The sweep in real time: joins engine, transport and sink. The one file of the library that reads clocks.
//!
//! 1. The MAD path is one plain thread that runs [`Driver::run`]; whoever wants it to stop says so through [`Control`].
//! 2. The wall clock is read once a slot, to start it where the wall clock passes a multiple of the interval. All else is monotonic.
//! 3. A slot that could not start in time is counted in the next `sweep` record, never caught up.
//! 4. Replies that are ready are read before anything is expired.
//! 5. Lines are made after the slot, so that making them delays no MAD and no measurement, and are handed over slot by slot; the thread
//!    never waits for a disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as SystemInstant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

use super::counter::{Columns, Reading};
use super::engine::{self, Engine, Event};
use super::plan::Plan;
use super::record::{self, EventRecord, HistogramRecord, PortIdentity, PortRecord, Start, SweepRecord};
use super::sample::Status;
use super::stats::{self, MAD_OCTETS_ON_LINK, RoundTrips, SlotStats};
use crate::mad::exchange::{Completion, Outcome};
use crate::mad::transport::{Transport, TransportError};
use crate::mad::{MAD_LEN, Mad};
use crate::sink::{Batch, Outlet};
use crate::time::Instant;
use crate::types::{PortNum, Printable};

/// What a driver is told besides the plan.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who we are in the records.
    pub sampler: String,
    /// The adapter that sends; `sim` for the simulated fabric.
    pub ca: String,
    /// Its port.
    pub ca_port: PortNum,
    /// Between two slots.
    pub interval: Duration,
    /// When within the interval a slot starts.
    pub offset: Duration,
    /// Whether the first slot waits for the wall clock; else it starts at once, for who wants to see just one.
    pub aligned: bool,
    /// After how many slots to end; never if `None`.
    pub sweeps: Option<u64>,
    /// Of the assignments file.
    pub assignments_sha256: Option<String>,
    /// How the engine sweeps.
    pub engine: engine::Config,
}

/// A way to stop a driver from another thread.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
}

impl Control {
    /// Asks nothing more, takes what is under way until its grace ends, for 0.3 s at most, writes the slot's records and ends. Is seen within [`LONGEST_WAIT`].
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What is told of each slot to whoever watches.
#[derive(Clone, Copy, Debug)]
pub struct SlotReport<'a> {
    /// Which slot.
    pub slot: u64,
    /// Slots that ran so far, this one included.
    pub done: u64,
    /// Its sum.
    pub stats: &'a SlotStats,
}

/// The longest time for which nothing is looked at but the transport.
pub const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// A stop waits so long for what is under way, however long its grace is.
const LONGEST_STOP: Duration = Duration::from_millis(300);

/// A slot asks until then, as a share of the interval, and is settled at the latest at [`CLOSE_AT`].
const ASK_UNTIL: f64 = 0.9;
const CLOSE_AT: f64 = 0.95;

/// A slot that could not start by then is missed, as a share of the interval.
const LATEST_START: f64 = 0.3;

/// For how long devices are asked for their capabilities at most.
const DISCOVERY: Duration = Duration::from_secs(30);

/// How many MADs are sent in a row before replies are looked at.
const SENDS_IN_A_ROW: u32 = 8;

/// How many replies are read in a row before deadlines are looked at.
const REPLIES_IN_A_ROW: u32 = 64;

/// So many devices at once are named in the log; more are counted.
const NAMED_IN_LOG: usize = 3;

/// Between two `histogram` records.
const HISTOGRAM_EVERY: Duration = Duration::from_secs(60);

/// Monotonic time since the program's start, and what the wall clock said at one instant of it.
#[derive(Clone, Copy, Debug)]
struct Clock {
    zero: SystemInstant,
    anchor: Instant,
    wall_at_anchor: u64,
}

/// How often both clocks are read at most until the readings are close, and how close that is.
const READINGS: u32 = 5;
const CLOSE_READINGS: Duration = Duration::from_micros(20);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is where clocks are read")]
    fn start() -> Self {
        let mut clock = Self { zero: SystemInstant::now(), anchor: Instant::ZERO, wall_at_anchor: 0 };
        clock.read_wall();
        clock
    }

    #[expect(clippy::disallowed_methods, reason = "this is where clocks are read")]
    fn now(&self) -> Instant {
        let elapsed = SystemInstant::now().saturating_duration_since(self.zero);
        Instant::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Reads the wall clock: nanoseconds since 1970.
    #[expect(clippy::disallowed_methods, reason = "this is where clocks are read")]
    fn read_wall(&mut self) -> u64 {
        // Both clocks shall mean the same instant: if something came between the readings, they are read again.
        for _ in 0..READINGS {
            let before = self.now();
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.anchor = self.now();
            self.wall_at_anchor = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
            if self.anchor - before < CLOSE_READINGS {
                break;
            }
        }
        self.wall_at_anchor
    }

    /// An instant in nanoseconds since 1970, by the wall clock's last reading.
    fn wall(&self, at: Instant) -> u64 {
        match at.as_nanos().checked_sub(self.anchor.as_nanos()) {
            Some(after) => self.wall_at_anchor.saturating_add(after),
            None => self.wall_at_anchor.saturating_sub(self.anchor.as_nanos() - at.as_nanos()),
        }
    }
}

/// Sweeps a plan over a transport into an outlet.
pub struct Driver<T> {
    engine: Engine,
    transport: T,
    outlet: Outlet,
    settings: Settings,
    ports: Vec<PortIdentity>,
    /// The first port of each device.
    first_ports: Vec<usize>,
    columns: Columns,
    readings: Vec<Reading>,
    clock: Clock,
    batch: Batch,
    /// Ports that are settled in this slot, in the order in which they were.
    settled: Vec<usize>,
    /// Devices that stopped answering, or began again.
    changed: Vec<(usize, bool)>,
    decode: Duration,
    minute: Minute,
    failure: Option<TransportError>,
    /// The last MAD of this slot that could not be sent.
    send_error: Option<TransportError>,
    /// Whether the log was told of that already.
    sends_fail: bool,
    /// Whether the log was told that slots are too short.
    too_short: bool,
}

/// What `histogram` records tell.
struct Minute {
    since: Instant,
    rtt: RoundTrips,
    sweep: Histogram<u64>,
}

impl<T: Transport> Driver<T> {
    /// A driver that has not started. TIDs count up from the seed.
    pub fn new(plan: Plan, settings: Settings, transport: T, outlet: Outlet, seed: u64) -> Self {
        let engine = Engine::new(&plan.devices, settings.engine.clone(), seed);
        let columns = Columns::new(&settings.engine.groups);
        let first_ports = plan.devices.iter().scan(0, |next, device| Some(std::mem::replace(next, *next + device.ports.len()))).collect();
        let clock = Clock::start();
        Self {
            readings: vec![Reading::new(&columns); plan.ports.len()],
            minute: Minute { since: clock.now(), rtt: RoundTrips::default(), sweep: stats::durations() },
            batch: Batch::default(),
            settled: Vec::with_capacity(plan.ports.len()),
            changed: Vec::new(),
            ports: plan.ports,
            decode: Duration::ZERO,
            failure: None,
            send_error: None,
            sends_fail: false,
            too_short: false,
            engine,
            transport,
            outlet,
            settings,
            first_ports,
            columns,
            clock,
        }
    }

    /// Sweeps until it is told to stop, or until as many slots ran as it was told. Tells of each slot through `watch`.
    ///
    /// # Errors
    /// When the way to the fabric is lost. What was written until then is whole.
    pub fn run(mut self, control: &Control, mut watch: impl FnMut(SlotReport<'_>)) -> Result<(), TransportError> {
        self.write_start();
        self.discover(control);
        let mut done = 0;
        let mut last: Option<(u64, Instant)> = None;
        while self.settings.sweeps.is_none_or(|sweeps| done < sweeps) {
            let Some((slot, start)) = self.wait_for_slot(control) else { break };
            let missed = last.map_or(0, |(_, before)| self.missed(before, start));
            self.tell_gaps(slot, last, missed);
            last = Some((slot, start));
            self.run_slot(slot, start, control);
            self.write_ports(slot);
            self.tell_changes(slot);
            self.tell_send_errors(slot);
            self.tell_too_short(control);
            done += 1;
            self.end_slot(slot, missed);
            watch(SlotReport { slot, done, stats: self.engine.stats() });
            if self.failure.is_some() || control.is_stopped() {
                break;
            }
        }
        self.write_histograms();
        self.flush();
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Asks every device what it can do, before the first slot.
    fn discover(&mut self, control: &Control) {
        let now = self.clock.now();
        self.engine.start_discovery(now, now + DISCOVERY);
        self.pump(control, self.current_slot());
        self.tell_changes(self.current_slot());
    }

    /// Sleeps until the wall clock passes the next multiple of the interval; tells which, and when that was. `None`: stop.
    ///
    /// Whoever wakes too late, because the machine or the process stood still, waits for the next one.
    fn wait_for_slot(&mut self, control: &Control) -> Option<(u64, Instant)> {
        let interval = nanos(self.settings.interval).max(1);
        let too_late = self.settings.interval.mul_f64(LATEST_START);
        loop {
            let wall = self.clock.read_wall().saturating_sub(nanos(self.settings.offset));
            if !self.settings.aligned {
                return Some((wall / interval, self.clock.anchor));
            }
            let slot = wall / interval + 1;
            let start = self.clock.anchor + Duration::from_nanos(slot * interval - wall);
            loop {
                if control.is_stopped() || self.failure.is_some() {
                    return None;
                }
                let now = self.clock.now();
                if now >= start + too_late {
                    break;
                }
                if now >= start {
                    return Some((slot, start));
                }
                std::thread::sleep((start - now).min(LONGEST_WAIT));
            }
        }
    }

    fn current_slot(&self) -> u64 {
        self.clock.wall(self.clock.now()) / nanos(self.settings.interval).max(1)
    }

    /// Slots that should have started between two that did.
    fn missed(&self, before: Instant, start: Instant) -> u64 {
        let intervals = (start - before).as_secs_f64() / self.settings.interval.as_secs_f64();
        (intervals.round() as u64).saturating_sub(1)
    }

    /// Tells of slots that were missed, of a wall clock that was set, and of lines that were lost.
    fn tell_gaps(&mut self, slot: u64, last: Option<(u64, Instant)>, missed: u64) {
        if missed > 0 {
            tracing::warn!(missed, "slots could not start in time");
            self.write_event(slot, "slot_missed", None, &format!("{missed} slots could not start in time"));
        }
        if let Some((before, _)) = last
            && slot != before + 1 + missed
        {
            let seconds = (slot as f64 - (before + 1 + missed) as f64) * self.settings.interval.as_secs_f64();
            tracing::warn!(seconds, "the wall clock was set");
            self.write_event(slot, "clock_step", None, &format!("the wall clock was set by about {seconds:+.3} s"));
        }
    }

    fn run_slot(&mut self, slot: u64, start: Instant, control: &Control) {
        let interval = self.settings.interval;
        // What the discovery could not send, the slot cannot either, or it does not matter any more.
        self.send_error = None;
        self.decode = Duration::ZERO;
        self.engine.start_slot(start, start + interval.mul_f64(ASK_UNTIL), start + interval.mul_f64(CLOSE_AT));
        self.pump(control, slot);
    }

    /// Drives the engine until the slot, or the discovery, is over.
    fn pump(&mut self, control: &Control, slot: u64) {
        let mut mad: Mad = [0; MAD_LEN];
        let (mut in_a_row, mut stopping) = (0, false);
        loop {
            // Each at its own time, and replies are looked at in between: neither shall wait for a whole window to be written.
            let mut sent = 0;
            let mut now = self.clock.now();
            while sent < SENDS_IN_A_ROW
                && let Some((target, tid)) = self.engine.poll_transmit(now, &mut mad)
            {
                tracing::trace!(%tid, lid = %target.lid, "send");
                if let Err(error) = self.transport.send(&target, &mad, self.settings.engine.grace, now) {
                    tracing::debug!(%error, lid = %target.lid, "not sent");
                    let completion = Completion { tid, outcome: Outcome::SendFailed(error.errno()) };
                    self.engine.handle_completion(&completion, &mad, now);
                    self.send_error = Some(error);
                }
                sent += 1;
                now = self.clock.now();
            }
            let more = sent == SENDS_IN_A_ROW;
            while let Some(event) = self.engine.poll_event() {
                self.take_event(event, slot);
            }
            let Some(timeout) = self.engine.poll_timeout() else { return };
            if self.failure.is_some() {
                self.engine.close(now);
                continue;
            }
            if control.is_stopped() && !std::mem::replace(&mut stopping, true) {
                self.engine.stop(now, LONGEST_STOP);
                continue;
            }
            let wait = if in_a_row < REPLIES_IN_A_ROW && !more { (timeout - now).min(LONGEST_WAIT) } else { Duration::ZERO };
            match self.transport.recv(&mut mad, wait, now) {
                Ok(Some(completion)) if in_a_row < REPLIES_IN_A_ROW => {
                    tracing::trace!(tid = %completion.tid, outcome = ?completion.outcome, "completion");
                    self.engine.handle_completion(&completion, &mad, self.clock.now());
                    in_a_row += 1;
                }
                Ok(completion) => {
                    in_a_row = 0;
                    let now = self.clock.now();
                    if let Some(completion) = completion {
                        self.engine.handle_completion(&completion, &mad, now);
                    }
                    self.engine.handle_timeout(now);
                }
                Err(error) => self.failure = Some(error),
            }
        }
    }

    fn take_event(&mut self, event: Event, slot: u64) {
        match event {
            Event::Port(port) => self.settled.push(port),
            Event::GroupUnsupported { device, group } => {
                let port = self.first_ports[device];
                tracing::info!(lid = %self.ports[port].lid, %group, "the device does not have these counters");
                self.write_event(slot, "group_unsupported", Some(port), group.as_str());
            }
            Event::Unreachable(device) => self.changed.push((self.first_ports[device], false)),
            Event::Reachable(device) => self.changed.push((self.first_ports[device], true)),
            Event::DiscoveryDone | Event::SlotDone => {}
        }
    }

    /// Writes the records of a slot's ports.
    fn write_ports(&mut self, slot: u64) {
        let mut settled = std::mem::take(&mut self.settled);
        for port in settled.drain(..) {
            self.write_port(port, slot);
        }
        self.settled = settled;
    }

    /// Tells of devices that stopped answering, or began again: an event each, and in the log by name if they are few.
    fn tell_changes(&mut self, slot: u64) {
        let changed = std::mem::take(&mut self.changed);
        for (answers, event, detail) in
            [(false, "unreachable", "no MAD of a whole slot was answered"), (true, "reachable", "answers again")]
        {
            let of_kind = || changed.iter().filter(|(_, now)| *now == answers).map(|(port, _)| *port);
            for port in of_kind() {
                self.write_event(slot, event, Some(port), detail);
            }
            match of_kind().count() {
                0 => {}
                1..=NAMED_IN_LOG => of_kind().map(|port| &self.ports[port]).for_each(|PortIdentity { node, guid, lid, .. }| {
                    tracing::info!(node = %Printable(node), %guid, %lid, "{event}");
                }),
                devices => tracing::info!(devices, "{event}; the records name them"),
            }
        }
    }

    /// Tells of MADs that could not be sent, once until they can again. If nothing at all could be sent, the way to the fabric is lost.
    fn tell_send_errors(&mut self, slot: u64) {
        let Some(error) = self.send_error.take() else {
            if std::mem::take(&mut self.sends_fail) {
                tracing::info!("all MADs can be sent again");
            }
            return;
        };
        let stats = self.engine.stats();
        let (mads, nothing_sent) = (stats.send_errors, stats.mads_sent == 0);
        if !std::mem::replace(&mut self.sends_fail, true) {
            tracing::warn!(mads, %error, "MADs could not be sent");
            self.write_event(slot, "send_error", None, &format!("{mads} MADs could not be sent: {error}"));
        }
        if nothing_sent {
            self.failure.get_or_insert(error);
        }
    }

    /// Tells of slots that end before all is asked, once until they do not.
    fn tell_too_short(&mut self, control: &Control) {
        let (skipped, of) = (self.engine.stats().count(Status::Skipped), self.ports.len());
        let was = std::mem::replace(&mut self.too_short, skipped > 0 && !control.is_stopped());
        if self.too_short && !was {
            let interval = self.settings.interval;
            tracing::warn!(
                skipped,
                of,
                ?interval,
                "ports were not reached within a slot; they come first in the next. Raise the interval or the window"
            );
        }
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
            self.write_event(slot, "implausible", Some(port), "more moved than any link carries: another port may have answered");
            return;
        }
        if !reading.resets.is_empty() {
            let names: Vec<_> =
                columns.iter().filter(|(index, _)| reading.resets.contains(index)).map(|(_, column)| column.field.json).collect();
            let names = names.join(" ");
            self.write_event(slot, "reset", Some(port), &names);
        }
    }

    /// Writes the slot's `sweep` record and hands its lines over.
    fn end_slot(&mut self, slot: u64, slots_missed: u64) {
        let lines_lost = self.outlet.take_lost();
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
            load_bytes: stats.mads_sent * MAD_OCTETS_ON_LINK,
            slots_missed,
            lines_lost,
            rtt_p50_ns: quantile(0.5),
            rtt_p99_ns: quantile(0.99),
            rtt_max_ns: (!rtt.is_empty()).then(|| nanos(stats.rtt.longest)),
        };
        tracing::debug!(slot, duration = ?stats.duration(), ok = record.ok, of = record.ports, "slot");
        record::write(&record, &mut self.batch.bytes);
        self.batch.lines += 1;
        self.minute.rtt.add(&stats.rtt);
        self.minute.sweep.saturating_record(nanos(stats.duration()));
        if lines_lost > 0 {
            tracing::warn!(lines_lost, "lines were lost");
            self.prepend_lines_lost(slot, lines_lost);
        }
        if self.clock.now() - self.minute.since >= HISTOGRAM_EVERY {
            self.write_histograms();
        }
        self.flush();
    }

    /// The first line after a gap says how many are missing.
    fn prepend_lines_lost(&mut self, slot: u64, lines: u64) {
        let after = std::mem::take(&mut self.batch);
        self.write_event(slot, "lines_lost", None, &format!("{lines} lines could not be written"));
        self.batch.bytes.extend_from_slice(&after.bytes);
        self.batch.lines += after.lines;
        self.batch.told = lines;
    }

    fn flush(&mut self) {
        let size = self.batch.bytes.len();
        self.outlet.offer(std::mem::replace(&mut self.batch, Batch { bytes: Vec::with_capacity(size), ..Batch::default() }));
    }

    fn write_start(&mut self) {
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
            interval_ns: nanos(self.settings.interval),
            groups: record::group_names(&self.settings.engine.groups),
            ports: self.ports.len(),
            assignments_sha256: self.settings.assignments_sha256.as_deref(),
            file_seq: 0,
        };
        record::write(&record, &mut self.batch.bytes);
        self.batch.lines += 1;
        self.flush();
    }

    fn write_event(&mut self, slot: u64, event: &'static str, port: Option<usize>, detail: &str) {
        let of = port.map(|port| &self.ports[port]);
        let (guid, lid) = (of.map(|of| of.guid), of.map(|of| of.lid));
        // An event of a device is told of no port of it.
        let port = of.filter(|_| ["reset", "implausible"].contains(&event)).map(|of| of.port);
        let ts = self.clock.wall(self.clock.now());
        record::write(
            &EventRecord { r#type: "event", ts, slot, sampler: &self.settings.sampler, event, guid, port, lid, detail },
            &mut self.batch.bytes,
        );
        self.batch.lines += 1;
    }

    fn write_histograms(&mut self) {
        let (ts, slot) = (self.clock.wall(self.clock.now()), self.current_slot());
        let Minute { rtt, sweep, .. } = &self.minute;
        for (kind, device_kind, histogram) in [("rtt", Some("switch"), &rtt.switch), ("rtt", Some("hca"), &rtt.hca), ("sweep", None, sweep)]
        {
            let mut v2 = Vec::new();
            if histogram.is_empty() || V2DeflateSerializer::new().serialize(histogram, &mut v2).is_err() {
                continue;
            }
            let (count, v2) = (histogram.len(), BASE64.encode(v2));
            let record = HistogramRecord { r#type: "histogram", ts, slot, sampler: &self.settings.sampler, kind, device_kind, count, v2 };
            record::write(&record, &mut self.batch.bytes);
            self.batch.lines += 1;
        }
        self.minute = Minute { since: self.clock.now(), rtt: RoundTrips::default(), sweep: stats::durations() };
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
