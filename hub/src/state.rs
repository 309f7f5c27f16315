//! The state of the hub, and the rules by which records change it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use ibnet::cabling::Plan;
use ibnet::topology::Fabric;
use ibnet_analysis::groups::Groups;
use ibnet_analysis::job::marks::{self, Mark};
use ibnet_analysis::ports::PortKey;
use ibnet_analysis::record::{Port, Record};
use ibnet_analysis::routes::Routes;
use ibnet_analysis::trees::Trees;
use ibnet_analysis::when::Zone;
use ibnet_record::Says;
use serde::Serialize;
use tokio::sync::watch;

use crate::alerts::status::Alerts;
use crate::archive::{Archive, status};
use crate::clocks::Heard;
use crate::events::{EventRow, Events, Filter};
use crate::forwarding::{Condition, Tables};
use crate::jobs::Jobs;
use crate::live::board::{Board, SlotTime};
use crate::live::frame::{Frame, NO_DATA};
use crate::live::rounds::{Due, Rounds};
use crate::live::timeline::{Sample, Timeline};
use crate::live::topology::{Collector, Topology};
use crate::live::{COUNT, most_slots};
use crate::posted;
use crate::reread::Reread;
use crate::samplers::{Arrival, ClockChange, Samplers, is_in_slot};
use crate::store::{Kept, Limits, Store, Times};
use crate::users::Users;

/// Time between two removals of old data.
const TRIM_EVERY: Duration = Duration::from_secs(5);

/// Lag from which the hub counts as behind.
const BEHIND_NS: u64 = 2_000_000_000;

/// Min time between two topologies, and the additional time for each port: records wait while a
/// topology is built, and more ports take longer.
const TOPOLOGY_EVERY: Duration = Duration::from_secs(1);
const TOPOLOGY_EVERY_OF_PORT: Duration = Duration::from_micros(100);

/// The condition of an input.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct InputState {
    /// URL of the input as configured, without a password.
    #[serde(serialize_with = "crate::shared::text")]
    pub(crate) input: Arc<str>,
    /// Whether records can arrive.
    pub(crate) connected: bool,
    /// Number of successful connections, or of opened files.
    pub(crate) connections: u64,
    /// Number of times that a connection was lost.
    pub(crate) lost: u64,
    /// Reason of the last loss, or of the last failed attempt.
    pub(crate) error: Option<String>,
    /// Number of lines.
    pub(crate) lines: u64,
    /// Number of lines that are not records.
    pub(crate) malformed: u64,
    /// Number of records of types that the hub does not know.
    pub(crate) unknown: u64,
    /// Number of fields that the hub does not know, in one of
    /// [`fields::LOOK_EVERY`](crate::fields) lines.
    pub(crate) unknown_fields: u64,
    /// Reason why the first malformed line is not a record.
    pub(crate) first_malformed: Option<String>,
}

/// The state of the hub: records, newest slot, samplers, events, inputs.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) topology: Arc<Topology>,
    pub(crate) timeline: Timeline,
    pub(crate) samplers: Samplers,
    pub(crate) events: Events,
    pub(crate) jobs: Jobs,
    tables: Tables,
    pub(crate) inputs: Vec<InputState>,
    limits: Limits,
    collector: Collector,
    board: Board,
    rounds: Rounds,
    /// Time of the last [`Hub::add`] or [`Hub::tick`].
    pub(crate) now: Duration,
    /// Arrival of the last lines of a recording.
    recorded: Option<Duration>,
    trimmed: Duration,
    drawn: Option<Duration>,
    last_slot: u64,
    /// Number of published frames.
    published: u64,
    /// Time of the last frame.
    sent: Duration,
    /// Number of records when there was last no frame for two intervals.
    idle_records: u64,
    /// Time between the arrival of a batch of lines and its processing, in nanoseconds.
    lag_ns: u64,
}

/// The state, shared by the inputs and the clients.
pub(crate) struct Hub {
    state: RwLock<State>,
    frames: watch::Sender<Option<Arc<Frame>>>,
    /// Frames that clients missed because they read slowly.
    frames_dropped: AtomicU64,
    /// Name of the fabric on the web page.
    pub(crate) fabric: String,
    /// Whether the hub simulates the fabric.
    pub(crate) is_simulated: bool,
    /// One slot in this number is kept.
    pub(crate) every: u64,
    /// The archive with older records.
    pub(crate) archive: Option<Archive>,
    /// Condition of the packing. `None` if the hub does not pack.
    pub(crate) packing: Option<Arc<status::Shared>>,
    /// Groups of hosts.
    pub(crate) groups: Groups,
    /// Forwarding tables of a file, which are used instead of those of the records.
    pub(crate) routes: Option<Reread<Routes>>,
    /// Cables as planned.
    pub(crate) cabling: Option<Reread<Plan>>,
    /// Marks of applications.
    pub(crate) marks: Option<Reread<Vec<Mark>>>,
    /// Marks that users have posted.
    posted: Mutex<posted::All>,
    /// Users, and what they may do.
    pub(crate) users: Users,
    /// The alerts.
    alerts: Mutex<Alerts>,
    /// The regions of congestion.
    regions: Mutex<Arc<Trees>>,
}

/// Reason for missing forwarding tables.
const NO_ROUTES: &str = "no sampler has sent forwarding tables; set enabled = true in the table \
                         [routes] of ibnet.toml on the sampler hosts, or name a file with the key \
                         routes of the hub";

/// A recording counts as read when this time has passed without new lines.
const RECORDING_ENDS: Duration = Duration::from_secs(2);

/// See [`State::revision`].
pub(crate) type Revision = (u64, u64, Option<u64>);

/// Time at which records arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Monotonic time.
    pub(crate) monotonic: Duration,
    /// Wall clock in nanoseconds since 1970.
    pub(crate) wall_ns: u64,
}

impl Hub {
    pub(crate) fn new(
        fabric: String,
        is_simulated: bool,
        limits: Limits,
        inputs: &[Arc<str>],
    ) -> Self {
        let input = |input: &Arc<str>| InputState {
            input: Arc::clone(input),
            connected: false,
            connections: 0,
            lost: 0,
            error: None,
            lines: 0,
            malformed: 0,
            unknown: 0,
            unknown_fields: 0,
            first_malformed: None,
        };
        let state = State {
            store: Store::new(limits),
            topology: Arc::default(),
            timeline: Timeline::default(),
            samplers: Samplers::default(),
            events: Events::default(),
            jobs: Jobs::default(),
            tables: Tables::default(),
            inputs: inputs.iter().map(input).collect(),
            limits,
            collector: Collector::default(),
            board: Board::default(),
            rounds: Rounds::default(),
            idle_records: 0,
            now: Duration::ZERO,
            recorded: None,
            trimmed: Duration::ZERO,
            drawn: None,
            last_slot: 0,
            published: 0,
            sent: Duration::ZERO,
            lag_ns: 0,
        };
        Self {
            state: RwLock::new(state),
            frames: watch::Sender::new(None),
            frames_dropped: AtomicU64::new(0),
            fabric,
            is_simulated,
            every: 1,
            archive: None,
            packing: None,
            groups: Groups::default(),
            routes: None,
            cabling: None,
            marks: None,
            posted: Mutex::default(),
            users: Users::default(),
            alerts: Mutex::default(),
            regions: Mutex::new(Arc::new(Trees::no_regions())),
        }
    }

    pub(crate) fn with_every(self, every: u64) -> Self {
        Self { every, ..self }
    }

    pub(crate) fn with_archive(self, archive: Option<Archive>) -> Self {
        Self { archive, ..self }
    }

    pub(crate) fn with_packing(self, packing: Option<Arc<status::Shared>>) -> Self {
        Self { packing, ..self }
    }

    pub(crate) fn with_users(self, users: Users) -> Self {
        Self { users, ..self }
    }

    pub(crate) fn with_routes(self, path: Option<PathBuf>) -> Self {
        let routes = path.map(|path| Reread::new(path, Routes::parse));
        Self { routes, ..self }
    }

    /// Returns the forwarding tables: those of the file, or else the newest of the records.
    ///
    /// # Errors
    /// Returns the reason if there is none, with the remedy.
    pub(crate) fn forwarding(&self) -> Result<(Arc<Routes>, Condition), String> {
        if let Some(file) = &self.routes {
            let routes = file.get()?;
            let condition = Condition {
                switches: routes.switches().count(),
                ..Condition::default()
            };
            return Ok((routes, condition));
        }
        let state = self.read();
        let routes = state.tables.routes().ok_or(NO_ROUTES)?;
        Ok((routes, state.tables.condition()))
    }

    pub(crate) fn with_cabling(self, path: Option<PathBuf>) -> Self {
        let parse = |text: &str, name: &str| {
            let mut plan = Plan::default();
            plan.add(text.as_bytes(), name).map(|()| plan)
        };
        let cabling = path.map(|path| Reread::new(path, parse));
        Self { cabling, ..self }
    }

    pub(crate) fn with_marks(self, path: Option<PathBuf>) -> Self {
        let parse = |text: &str, name: &str| marks::parse(text, name, &Zone::local());
        let marks = path.map(|path| Reread::new(path, parse));
        Self { marks, ..self }
    }

    /// Reads the marks of users from their file.
    pub(crate) fn with_posted_marks(self, path: Option<PathBuf>) -> Self {
        let posted = Mutex::new(posted::All::load(path));
        Self { posted, ..self }
    }

    /// Locks the marks of users. They stay usable if a thread panics.
    pub(crate) fn posted(&self) -> MutexGuard<'_, posted::All> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn with_groups(self, groups: Groups) -> Self {
        Self { groups, ..self }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        // A panic while the state was locked is reported where it happened. The state stays usable.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the alerts. They stay usable if a thread panics.
    pub(crate) fn alerts(&self) -> MutexGuard<'_, Alerts> {
        self.alerts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the regions of congestion that the last look for conditions knew.
    pub(crate) fn regions(&self) -> Arc<Trees> {
        Arc::clone(&self.regions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_regions(&self, regions: Trees) {
        *self.regions.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(regions);
    }

    pub(crate) fn frame(&self) -> Option<Arc<Frame>> {
        self.frames.borrow().clone()
    }

    /// Returns a receiver that always has the newest frame.
    pub(crate) fn frames(&self) -> watch::Receiver<Option<Arc<Frame>>> {
        self.frames.subscribe()
    }

    /// Adds parsed lines of an input. `live_ns` is the clock of the hub when they arrived, or
    /// `None` if they were written earlier.
    pub(crate) fn add(&self, input: usize, records: &[Record<'_>], live_ns: Option<u64>, now: Now) {
        let mut state = self.write();
        let Some(name) = state
            .inputs
            .get(input)
            .map(|input| Arc::clone(&input.input))
        else {
            return;
        };
        state.now = now.monotonic;
        if live_ns.is_none() {
            state.recorded = Some(now.monotonic);
        }
        for record in records {
            let heard = Heard {
                at: now.monotonic,
                wall_ns: live_ns,
            };
            state.add(
                record,
                Arrival {
                    input: &name,
                    heard,
                },
                now.wall_ns,
            );
            if matches!(record, Record::Sweep(_)) {
                self.publish(&mut state, now);
            }
        }
    }

    /// Handles everything that is due without a record.
    pub(crate) fn tick(&self, now: Now) {
        let mut state = self.write();
        state.now = now.monotonic;
        self.publish(&mut state, now);
        // The topology can change after the last frame, for example at the end of a file.
        if state.redraw(now) && state.last_slot > 0 {
            let due = Due {
                slot: state.last_slot,
                is_partial: false,
            };
            self.send(&mut state, due);
        }
        let interval = Duration::from_nanos(state.samplers.interval_ns());
        if now.monotonic.saturating_sub(state.sent) >= 2 * interval {
            state.idle_records = state.store.counts().added;
        }
        let changes = state.samplers.check(now.monotonic);
        state.change_clocks(now.wall_ns);
        for change in changes {
            let (event, what) = if change.is_back {
                ("sampler_back", "sends records again")
            } else {
                ("sampler_silent", "sends no records")
            };
            let detail = format!("sampler {} ({}) {what}", change.sampler, change.role);
            let row = EventRow::of_hub(now.wall_ns, event, detail);
            state.events.add(row.about(&change.sampler));
        }
        if now.monotonic.saturating_sub(state.trimmed) >= TRIM_EVERY {
            state.trimmed = now.monotonic;
            state.trim(now.wall_ns);
        }
    }

    /// Sends the frame that is due.
    fn publish(&self, state: &mut State, now: Now) {
        let interval = Duration::from_nanos(state.samplers.interval_ns());
        // A slow hub skips frames, so that lines do not wait.
        if state.is_behind() && now.monotonic.saturating_sub(state.sent) < interval {
            return;
        }
        let Some(due) = state.rounds.due(now.monotonic, interval) else {
            return;
        };
        state.sent = now.monotonic;
        state.last_slot = due.slot;
        state.redraw(now);
        self.send(state, due);
    }

    /// Replaces the newest frame. Clients that have not taken the previous frame miss it.
    fn send(&self, state: &mut State, due: Due) {
        let frame = state.frame(due);
        state.published += 1;
        self.frames.send_replace(Some(Arc::new(frame)));
    }

    /// Sets the time for which lines wait until the hub processes them.
    pub(crate) fn set_lag(&self, lag_ns: u64) {
        self.write().lag_ns = lag_ns;
    }

    /// Counts frames that a client missed.
    pub(crate) fn add_dropped(&self, frames: u64) {
        self.frames_dropped.fetch_add(frames, Ordering::Relaxed);
    }

    /// Returns the number of frames that clients missed because they read slowly.
    pub(crate) fn frames_dropped(&self) -> u64 {
        self.frames_dropped.load(Ordering::Relaxed)
    }
}

impl State {
    /// Returns a value that changes whenever the answer over a fixed time range may have changed:
    /// once in a slot, however many clients ask, and when records arrive without a new slot.
    pub(crate) fn revision(&self) -> Revision {
        (self.last_slot, self.idle_records, self.jobs.source.read_ns)
    }

    /// Returns the time up to which all records have arrived, in nanoseconds since 1970. `None`
    /// while a recording is read, because its files are read one after the other.
    pub(crate) fn arrived_ns(&self) -> Option<u64> {
        let is_read = |at: Duration| self.now.saturating_sub(at) >= RECORDING_ENDS;
        self.recorded
            .is_none_or(is_read)
            .then(|| self.samplers.arrived_ns(self.now))
    }

    pub(crate) fn add_fabric(&mut self, fabric: &Fabric) {
        self.collector.add_fabric(fabric);
        if let Some(topology) = self.collector.take_change() {
            self.topology = Arc::new(topology);
        }
    }

    fn add(&mut self, record: &Record<'_>, arrival: Arrival<'_>, wall_ns: u64) {
        match record {
            Record::Port(port) => self.add_port(port, arrival, wall_ns),
            Record::Sweep(sweep) => {
                let Some(source) =
                    self.samplers
                        .hear(&sweep.sampler, (sweep.ts, sweep.slot), arrival.heard)
                else {
                    return;
                };
                self.change_clocks(wall_ns);
                if let Some(id) = self.samplers.sweep(sweep, arrival)
                    && !self.samplers.is_secondary(id)
                    && !source.is_apart
                    && let Some(at) = self.slot_time((sweep.ts, sweep.slot), source.interval_ns)
                    && at.interval_ns == source.interval_ns
                {
                    self.rounds.end(
                        id,
                        at.slot,
                        arrival.heard.at,
                        Duration::from_nanos(at.interval_ns),
                    );
                }
            }
            Record::Start(start) => self.samplers.start(start, arrival),
            Record::Event(event) => match self.samplers.source(&event.sampler) {
                Some(source) if source.is_apart => self.events.add_at(wall_ns, EventRow::of(event)),
                _ => self.events.add(EventRow::of(event)),
            },
            Record::Physical(record) => {
                let source = self.samplers.source(&record.head.sampler);
                let port = record.head.port.map(|port| (record.head.guid, port));
                let place = port.and_then(|key| self.topology.find(key));
                let gbps = place.and_then(|place| self.topology.ports.get(place)?.gbps);
                if source.is_some_and(|source| !self.store.physical.add(record, &source, gbps)) {
                    self.store.refuse();
                }
            }
            Record::Routes(routes) => {
                let source = self.samplers.source(&routes.sampler);
                let is_apart = source.is_some_and(|source| source.is_apart);
                if !is_apart && !self.tables.add(routes) {
                    self.store.refuse();
                }
            }
            Record::Histogram(_) => {}
        }
    }

    fn add_port(&mut self, port: &Port<'_>, arrival: Arrival<'_>, wall_ns: u64) {
        let Some(source) = self
            .samplers
            .hear(&port.sampler, (port.ts, port.slot), arrival.heard)
        else {
            self.store.refuse();
            return;
        };
        self.change_clocks(wall_ns);
        if !self.collector.fits(port) {
            self.store.refuse();
            return;
        }
        if !self.store.add(port, &source) {
            return;
        }
        self.collector.add(port, &source.name);
        let Some(at) = self
            .slot_time((port.ts, port.slot), source.interval_ns)
            .filter(|_| !source.is_apart)
        else {
            // Its slot belongs to another time, so the web page shows no value.
            self.board.add_empty(port.key());
            return;
        };
        let values = self.board.add(port, at, self.rounds.shown());
        let answered = matches!(port.says(), Says::Answers | Says::Down);
        let from_ns = at.slot.saturating_mul(at.interval_ns);
        self.timeline.add(Sample {
            from_ns,
            values,
            answered,
            is_secondary: port.is_secondary(),
        });
    }

    /// Reports clocks that became wrong or right, and keeps records of wrong ones apart.
    fn change_clocks(&mut self, wall_ns: u64) {
        for ClockChange {
            sampler,
            is_apart,
            event,
        } in self.samplers.take_clock_changes()
        {
            self.store.set_apart(&sampler, is_apart);
            if is_apart {
                self.samplers
                    .ids_of(&sampler)
                    .for_each(|id| self.rounds.forget(id));
            }
            let Some((is_wrong, distance_ns)) = event else {
                continue;
            };
            let (seconds, side) = (
                distance_ns.unsigned_abs() as f64 / 1e9,
                if distance_ns < 0 {
                    "behind"
                } else {
                    "ahead of"
                },
            );
            let (name, detail) = match is_wrong {
                true => {
                    let detail = format!(
                        "the clock of sampler {sampler} is {seconds:.1} s {side} the others; its records are kept apart; correct its clock"
                    );
                    tracing::warn!(%sampler, seconds, side, "the clock of a sampler is wrong, so its records are kept apart; correct its clock");
                    ("wrong_clock", detail)
                }
                false => (
                    "right_clock",
                    format!("the clock of sampler {sampler} is right again"),
                ),
            };
            let row = EventRow::of_hub(wall_ns, name, detail);
            self.events.add(row.about(&sampler));
        }
    }

    /// Creates the next generation of the topology if ports have changed. Returns whether it did.
    fn redraw(&mut self, now: Now) -> bool {
        let ports = u32::try_from(self.topology.ports.len()).unwrap_or(u32::MAX);
        let every = TOPOLOGY_EVERY + TOPOLOGY_EVERY_OF_PORT.saturating_mul(ports);
        if self
            .drawn
            .is_some_and(|drawn| now.monotonic.saturating_sub(drawn) < every)
        {
            return false;
        }
        let Some(topology) = self.collector.take_change() else {
            return false;
        };
        self.drawn = Some(now.monotonic);
        self.topology = Arc::new(topology);
        true
    }

    /// Converts the slot of a record to slots of the frames. `None` if the time of the record does
    /// not belong to its slot.
    fn slot_time(&self, (ts, slot): (u64, u64), sampler_ns: u64) -> Option<SlotTime> {
        if !is_in_slot(ts, slot, sampler_ns) {
            return None;
        }
        let interval_ns = self.samplers.interval_ns().max(1);
        let (start_ns, end_ns) = (
            slot.saturating_mul(sampler_ns),
            slot.saturating_add(1).saturating_mul(sampler_ns),
        );
        let first = start_ns / interval_ns;
        // No frame waits for a sampler with a longer interval, so its value stays until its next
        // one has arrived.
        let delay = if sampler_ns > interval_ns {
            most_slots(Duration::from_nanos(interval_ns))
        } else {
            0
        };
        Some(SlotTime {
            slot: first,
            every: (end_ns.div_ceil(interval_ns) - first).max(1) + delay,
            interval_ns,
        })
    }

    /// Returns the values of all ports in a slot.
    fn frame(&self, Due { slot, is_partial }: Due) -> Frame {
        let ports = &self.topology.ports;
        let mut values: [Vec<u16>; COUNT] = std::array::from_fn(|_| vec![NO_DATA; ports.len()]);
        let mut last = 0;
        for (place, port) in ports.iter().enumerate() {
            let (of_port, ts) = self.board.values((port.guid, port.port), slot);
            last = last.max(ts);
            for (array, value) in values.iter_mut().zip(of_port) {
                array[place] = value;
            }
        }
        Frame {
            topology: Arc::clone(&self.topology),
            number: self.published,
            slot,
            ts: last,
            is_partial,
            values,
        }
    }

    fn trim(&mut self, wall_ns: u64) {
        let times = Times {
            newest_ns: self.newest_ns(),
            wall_ns,
        };
        let Self {
            store, samplers, ..
        } = self;
        store.trim(&samplers.clock_times(), times);
        let now_ns = times.now_ns();
        let before = now_ns.saturating_sub(self.limits.minutes_ns);
        self.events.drop_before(before);
        self.jobs.drop_before(before);
        self.timeline.drop_after(times.newest_ns);
        self.timeline
            .trim(now_ns.saturating_sub(self.limits.recent_ns), before);
        let keys = self.store.keys();
        self.collector.retain(&keys);
        self.board.retain(&keys);
    }

    /// Returns whether the device of a port does not have the counter of a metric of the frames.
    pub(crate) fn lacks_counter(&self, key: PortKey, metric: usize) -> bool {
        self.board.lacks_counter(key, metric)
    }

    /// Returns the newest record of all right clocks in nanoseconds since 1970, or 0 without any.
    pub(crate) fn newest_ns(&self) -> u64 {
        self.samplers.newest_ns()
    }

    pub(crate) fn kept(&self) -> Kept {
        let kept = self.store.kept(self.newest_ns());
        Kept {
            octets: kept.octets + self.tables.octets(),
            ..kept
        }
    }

    /// Returns events with the names of their devices.
    pub(crate) fn events(&self, filter: &Filter) -> Vec<EventRow> {
        let mut rows = self.events.select(filter);
        for row in &mut rows {
            if let Some(node) = row.guid.and_then(|guid| self.topology.node(guid)) {
                row.node = Some(node.to_owned());
            }
        }
        rows
    }

    /// Returns how long lines wait until the hub processes them, in nanoseconds.
    pub(crate) const fn lag_ns(&self) -> u64 {
        self.lag_ns
    }

    /// Returns whether the hub processes lines more slowly than they arrive.
    pub(crate) const fn is_behind(&self) -> bool {
        self.lag_ns > BEHIND_NS
    }

    /// Returns the number of the newest slot with a frame.
    pub(crate) const fn last_slot(&self) -> u64 {
        self.last_slot
    }
}

#[cfg(test)]
pub(crate) mod tests;
