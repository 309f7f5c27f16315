//! The driver connects the engine, the transport, the clock and the outputs.
//!
//! 1. One thread, the *MAD thread*, runs [`Driver::run`]. It is a plain thread without an async
//!    runtime, and other threads control the driver through [`Control`].
//! 2. A slot starts when the wall clock reaches a multiple of the interval. The driver reads the
//!    wall clock once per slot; all other times are monotonic.
//! 3. A slot that could not start in time is *missed*. The driver never repeats it, and the next
//!    `sweep` record counts it.
//! 4. The driver reads all replies that have arrived before it handles a timeout.
//! 5. The driver makes the records after the slot, so that they delay neither MADs nor
//!    measurements. It hands all records of a slot to the outputs in one step, so the MAD thread
//!    never waits for a disk.
//! 6. A transport is *lost* if it can no longer send or receive, for example after a removal of
//!    the HCA. The driver opens it again with the function given to [`Driver::reconnecting`], and
//!    the slots continue in the meantime.
//!
//! Between two slots the driver waits on a condition variable, so requests from other threads wake
//! it. Within a slot it waits only for the transport, at most 20 ms at a time.
//!
//! [`DeviceClient`] works without an engine and without slots: it sends one request after another
//! to one device. The module [`query`](super::query) uses it.
//!
//! | file | content |
//! |---|---|
//! | `engine_loop` | the loop that drives an engine |
//! | `clock` | the trait [`Clock`], and the only code of the library that reads clocks |
//! | `wake`, `control` | requests of other threads to a driver |
//! | `reconnect` | the transport, and attempts to open it again |
//! | `lines`, `events`, `report` | records, events, and the report of a slot for observers |
//! | `client` | requests to one device |

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ibnet_record::attributes::Group;
use ibnet_record::count::count;
use ibnet_record::physical::Cable;
use ibnet_record::types::PortNum;
use ibnet_record::{EventName, Role};

use self::control::FirstSlot;
use self::lines::{HeldReason, HistogramPeriod};
use self::link_watch::LinkWatch;
use self::reconnect::Reconnect;
use self::traps::TrapWatch;
use super::counter::{Columns, Reading};
use super::engine::{self, Engine, Event, SmpWays};
use super::plan::SweepPlan;
use super::routes::Routes;
use super::schedule::{Gap, Schedule, SlotStart, Verdict, nanos};
use crate::mad::exchange::Local;
use crate::mad::transport::{Transport, TransportError};
use crate::output::{Batch, Outlet};
use crate::sweep::physical_record::Newest;
use crate::sweep::port_record::PortIdentity;
use crate::time::Instant;

mod client;
mod clock;
mod control;
mod engine_loop;
mod events;
mod lines;
mod link_watch;
mod manager_events;
mod reconnect;
mod report;
mod traps;
mod wake;

pub use client::{Address, DeviceClient, TRIES};
pub use clock::{BackgroundJob, Clock, JobState, Latest, Pacing, SystemClock, WallTime};
pub use control::{Control, Notice};
pub(crate) use engine_loop::{EngineLoop, LoopRequest, Parts};
pub use events::peer_in;
pub use reconnect::{Changes, OpenError, Opened};
pub use report::{PortReport, SlotReport};
pub use wake::Wake;

/// Settings of a driver, besides the plan.
#[derive(Clone, PartialEq, Debug)]
pub struct DriverSettings {
    /// Name of the sampler in the records.
    pub sampler: String,
    /// Name of the HCA that sends. It is `sim` for the simulated fabric.
    pub ca: String,
    /// Port of the HCA.
    pub ca_port: PortNum,
    /// Whether this sampler is the second one of its ports.
    pub is_secondary: bool,
    /// Time from the start of one slot to the start of the next.
    pub interval: Duration,
    /// Time from a multiple of the interval to the start of the slot.
    pub offset: Duration,
    /// Whether the first slot waits for the wall clock. If not, it starts immediately, as with
    /// `--once`.
    pub aligned: bool,
    /// Number of slots to run. `None` means unlimited.
    pub sweeps: Option<u64>,
    /// SHA-256 of the plan file.
    pub assignments_sha256: Option<String>,
    /// Settings of the engine.
    pub engine: engine::Config,
}

impl DriverSettings {
    /// Returns the settings of a primary on the simulated fabric: aligned slots without an offset,
    /// until the driver is stopped.
    pub fn simulated(sampler: &str, interval: Duration, engine: engine::Config) -> Self {
        Self {
            sampler: sampler.to_owned(),
            ca: "sim".to_owned(),
            ca_port: PortNum(1),
            is_secondary: false,
            interval,
            offset: Duration::ZERO,
            aligned: true,
            sweeps: None,
            assignments_sha256: None,
            engine,
        }
    }

    /// Returns the first slot that a driver with these settings runs under a plan or configuration
    /// that takes effect at `border`, in nanoseconds since 1970.
    ///
    /// The first slot of a new driver has no rates, so a secondary changes one slot after the
    /// primaries. In every slot, one of the two samplers of a port therefore has its rate.
    pub fn first_slot_of_change(&self, border: u64) -> u64 {
        Schedule::new(self.interval, self.offset).at_or_after(border) + u64::from(self.is_secondary)
    }

    /// Returns the value of `role` in the records.
    pub fn role(&self) -> &'static str {
        Role::of(self.is_secondary).as_str()
    }
}

/// If no slot ran for this long, every device is verified again.
const LONG_GAP: Duration = Duration::from_secs(10);

/// Time between two readings of the LIDs of the port and of its subnet manager.
const LOCATE_EVERY: Duration = Duration::from_secs(1);

/// Max duration of the discovery.
const DISCOVERY: Duration = Duration::from_secs(30);

/// Faults of slots are logged again only after this time without such a fault. The records have
/// every one of them.
const QUIET: Duration = Duration::from_secs(60);

/// Returns whether a fault at `now` is logged. `last` is the time of the previous fault and
/// becomes `now`.
fn is_news(last: &mut Option<Instant>, now: Instant) -> bool {
    last.replace(now)
        .is_none_or(|last| now.saturating_since(last) >= QUIET)
}

/// Max number of devices that are logged one by one. If there are more, only their number is
/// logged.
const NAMED_IN_LOG: usize = 3;

/// Time between two `histogram` records.
const HISTOGRAM_EVERY: Duration = Duration::from_secs(60);

/// Sweeps a plan over a transport, and hands the records to the outputs.
pub struct Driver<T, C = SystemClock> {
    engine: Engine,
    transport: Reconnect<T, C>,
    clock: C,
    outlet: Outlet,
    settings: DriverSettings,
    ports: Vec<PortIdentity>,
    /// Index of the first port of each device.
    first_ports: Vec<usize>,
    columns: Columns,
    readings: Vec<Reading>,
    /// State of the link of each port.
    links: Vec<LinkWatch>,
    /// Cable of each port, if its module was read.
    cables: Vec<Option<Cable>>,
    /// Reasons of links that went down, which wait for the names of their cables.
    held_reasons: Vec<HeldReason>,
    /// Newest values of the physical layer of each port.
    newest: Vec<Newest>,
    /// Times and reasons of the links that went down within an hour, by port.
    reasons: BTreeMap<usize, Vec<(Instant, u8)>>,
    /// Location of the sending port before the first slot.
    first_location: Option<Local>,
    /// Newest location of the sending port, read by another thread, and the time at which the
    /// reading began.
    latest_location: Option<Latest<(Instant, Option<Local>)>>,
    /// Start of the newest reading of the location that was used.
    located_at: Instant,
    /// Start of the first of the latest slots in which no agent answered.
    silent_since: Option<Instant>,
    /// Last reading of the wall clock.
    wall: WallTime,
    schedule: Schedule,
    batch: Batch,
    /// Whether records go to the outputs. A driver that replaces another one keeps its records
    /// until its first slot.
    has_started: bool,
    /// Ports that were settled (got their final status) in this slot, in the order of settling.
    settled: Vec<usize>,
    /// Devices that became unreachable (`false`) or reachable (`true`), given by their first
    /// ports.
    changed: Vec<(usize, bool)>,
    /// Devices, given by their first ports, and the groups that they do not support.
    unsupported: Vec<(usize, Group)>,
    decode_time: Duration,
    histograms: HistogramPeriod,
    failure: Option<TransportError>,
    /// Error of the last MAD of this slot that could not be sent.
    send_error: Option<TransportError>,
    /// Whether a failure to send MADs was logged.
    has_logged_send_errors: bool,
    /// Time of the last missed slots.
    missed_at: Option<Instant>,
    /// Time of the last slot that was too short.
    short_at: Option<Instant>,
    /// The ways of SMPs that were logged.
    smp_ways: SmpWays,
    traps: Option<TrapWatch>,
}

impl<T: Transport, C: Clock> Driver<T, C> {
    /// Creates a driver. TIDs count up from the seed.
    ///
    /// Reads the location of the sending port, which may block, and starts a thread that reads it
    /// again every second.
    pub fn new(
        plan: SweepPlan,
        settings: DriverSettings,
        transport: T,
        clock: C,
        outlet: Outlet,
        seed: u64,
    ) -> Self
    where
        C: Send + 'static,
    {
        let mut engine = Engine::new(&plan.devices, settings.engine.clone(), seed);
        engine.set_routes(Routes::new(plan.cables));
        if settings.engine.verify_peers {
            engine.verify_peers(
                plan.ports
                    .iter()
                    .map(|port| port.peer.as_ref().map(|(guid, port, _)| (*guid, *port))),
            );
        }
        let columns = Columns::new(&settings.engine.groups).with_totals(settings.engine.cleared());
        let mut locator = transport.locator();
        let first_location = locator();
        // The MAD thread must not start this thread, which would inherit its CPU affinity and
        // priority.
        let reading_clock = clock.clone();
        let latest_location = clock.repeat("locate", LOCATE_EVERY, move || {
            (reading_clock.now(), locator())
        });
        let latest_location = latest_location
            .inspect_err(|error| tracing::warn!(%error, "cannot watch the LID of the port, so a new LID is not noticed"))
            .ok();
        let first_ports = plan
            .devices
            .iter()
            .scan(0, |next, device| {
                Some(std::mem::replace(next, *next + device.ports.len()))
            })
            .collect();
        Self {
            // Each reading is created and not cloned, because a cloned vector has no spare
            // capacity.
            readings: (0..plan.ports.len())
                .map(|_| Reading::new(&columns))
                .collect(),
            links: vec![LinkWatch::new(); plan.ports.len()],
            cables: vec![None; plan.ports.len()],
            held_reasons: Vec::new(),
            newest: vec![Newest::default(); plan.ports.len()],
            reasons: BTreeMap::new(),
            first_location,
            latest_location,
            located_at: Instant::ZERO,
            silent_since: None,
            wall: clock.read_wall(),
            histograms: HistogramPeriod::new(clock.now()),
            batch: Batch::default(),
            has_started: false,
            settled: Vec::with_capacity(plan.ports.len()),
            changed: Vec::new(),
            unsupported: Vec::new(),
            ports: plan.ports,
            decode_time: Duration::ZERO,
            failure: None,
            send_error: None,
            has_logged_send_errors: false,
            missed_at: None,
            short_at: None,
            smp_ways: SmpWays::default(),
            traps: None,
            engine,
            transport: Reconnect::new(transport, clock.clone()),
            outlet,
            schedule: Schedule::new(settings.interval, settings.offset),
            settings,
            first_ports,
            columns,
            clock,
        }
    }

    /// Makes the driver open a lost transport again with `open`. Without this call, the driver
    /// ends after the loss.
    #[must_use]
    pub fn reconnecting(
        mut self,
        open: impl Fn() -> Result<Opened<T>, OpenError> + Clone + Send + 'static,
    ) -> Self
    where
        T: Send + 'static,
        C: Send + 'static,
    {
        self.transport.open_by(open);
        self
    }

    /// Makes the driver watch for devices while the transport is lost. `start` starts the watch.
    /// When a device changes, the driver tries to open the transport at once.
    #[must_use]
    pub fn watching(
        mut self,
        start: impl Fn(&Arc<Wake>) -> io::Result<Changes> + Send + 'static,
    ) -> Self {
        self.transport.watch_by(start);
        self
    }

    /// Runs slots until it is stopped, or until the configured number of slots has run. Calls
    /// `on_slot` after each slot.
    ///
    /// # Errors
    /// Returns an error if the transport is lost and [`reconnecting`](Self::reconnecting) was not
    /// called. The outputs have all records up to that time.
    pub fn run(
        mut self,
        control: &Control,
        mut on_slot: impl FnMut(SlotReport<'_>),
    ) -> Result<(), TransportError> {
        self.wall = self.clock.read_wall();
        let started = self.wall;
        self.discover(control);
        // The `start` record is written after the discovery, because it has the cost of a slot,
        // which depends on the devices. A driver that replaces another one writes nothing before
        // its first slot.
        if control.first_slot() != FirstSlot::Held {
            self.write_first_record(started);
        }
        control.set_ready();
        let mut done = 0;
        while self.settings.sweeps.is_none_or(|sweeps| done < sweeps) {
            let Some(next) = self.wait_for_slot(control) else {
                break;
            };
            if !self.has_started {
                self.wall = self.clock.read_wall();
                self.write_first_record(self.wall);
            }
            if done == 0
                && let Some(expected) = control.expected_slot()
            {
                // Last slots that the replaced driver could not run count as missed.
                self.schedule.begin_with(expected);
            }
            let (slot, gap) = (next.number, self.schedule.begin(next));
            control.set_last_slot(slot);
            self.report_gap(slot, gap);
            if self.settings.interval.mul_f64(gap.missed as f64) > LONG_GAP
                || gap.stepped.abs() > LONG_GAP.as_secs_f64()
            {
                // The host may have been suspended and may now be on another subnet.
                self.engine.verify_all();
            }
            self.take_traps(slot);
            self.run_slot(next, control);
            self.write_ports(slot);
            self.report_reachability_if_known(slot);
            self.report_unsupported(slot);
            self.report_smp_ways();
            self.report_send_errors(slot);
            self.report_short_slot(control);
            done += 1;
            let lost = self.end_slot(slot, gap.missed);
            on_slot(self.report(slot, done, gap.missed, lost));
            if self.failure.is_some() || control.is_stopped() {
                break;
            }
        }
        if self.has_started {
            self.take_notices(control, self.current_slot());
            if !self.transport.is_lost() {
                self.report_reachability(self.current_slot());
            }
            self.write_histograms();
            self.flush(self.current_slot());
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Writes the first `start` record with this time. From now on, records go to the outputs.
    fn write_first_record(&mut self, at: WallTime) {
        self.has_started = true;
        self.write_start(at);
        let cleared: Vec<_> = self
            .settings
            .engine
            .cleared()
            .map(|of| of.group().as_str())
            .collect();
        if !cleared.is_empty() {
            let (groups, ports) = (cleared.join(" "), self.ports.len());
            let of_ports = count(ports, "port");
            let detail = format!("{groups}: counters of {of_ports} are cleared by Set");
            tracing::info!(groups, ports, "counters are cleared before they are full");
            self.write_event(self.current_slot(), EventName::Clear, None, &detail);
        }
    }

    /// Passes the newest location to the engine if another thread has read one since the transport
    /// was opened. A reading that began earlier may have an outdated LID.
    fn poll_location(&mut self, slot: u64) {
        let Some((started, Some(local))) =
            self.latest_location.as_mut().and_then(|latest| latest())
        else {
            return;
        };
        if self
            .transport
            .open_since()
            .is_some_and(|since| started >= since)
        {
            self.located_at = started;
            self.set_local(local, slot);
        }
    }

    /// Passes the location of the sending port to the engine. If the LID of the port or of the
    /// subnet manager has changed, all devices are verified, because their LIDs may have changed
    /// too.
    ///
    /// A port that is not active counts as a lost transport, so that its devices do not appear as
    /// unreachable.
    fn set_local(&mut self, local: Local, slot: u64) {
        if local.is_down && self.transport.can_reopen() && !self.transport.is_lost() {
            return self.lose_transport(TransportError::PortDown, slot);
        }
        if self.engine.set_local(local) {
            let detail = format!(
                "this host is at LID {}, the subnet manager at LID {}: every device is asked who it is",
                local.lid, local.sm_lid
            );
            tracing::info!(lid = %local.lid, sm_lid = %local.sm_lid, "the LID of the port or of the subnet manager changed; verifying all devices");
            self.write_event(slot, EventName::LocalChange, None, &detail);
        }
    }

    /// Discovers the identity and the capabilities of every device, before the first slot.
    fn discover(&mut self, control: &Control) {
        let slot = self.current_slot();
        if let Some(local) = self.first_location {
            self.set_local(local, slot);
        }
        Running {
            driver: self,
            control,
            slot,
        }
        .run_discovery(DISCOVERY);
        self.report_reachability_if_known(self.current_slot());
        self.report_unsupported(self.current_slot());
        self.report_smp_ways();
        // Histograms of service times describe only slots, not the discovery.
        self.engine.reset_round_trips();
        let (devices, sl) = (self.engine.devices_without_path(), self.settings.engine.sl);
        if devices > 0 && !control.is_stopped() {
            tracing::warn!(
                devices,
                sl,
                "the SA has no path record for some devices; querying them with the configured service level"
            );
        }
    }

    /// Waits until the next slot starts. Returns `None` if the driver must end.
    fn wait_for_slot(&mut self, control: &Control) -> Option<SlotStart> {
        let wake = control.wake();
        loop {
            let seen = wake.count();
            self.wall = self.clock.read_wall();
            if !self.settings.aligned {
                return Some(SlotStart {
                    number: self.schedule.number(self.wall.unix_ns),
                    start: self.wall.at,
                });
            }
            match control.first_slot() {
                FirstSlot::Next => {}
                FirstSlot::From(first) => self.schedule.begin_with(first),
                FirstSlot::Held => {
                    if control.is_stopped() || self.failure.is_some() {
                        return None;
                    }
                    self.clock.wait(wake, seen, None);
                    continue;
                }
            }
            let slot = self.schedule.next(self.wall.unix_ns, self.wall.at);
            self.poll_location(slot.number);
            loop {
                let seen = wake.count();
                if control.is_stopped()
                    || control.leaves_before(slot.number)
                    || self.failure.is_some()
                {
                    return None;
                }
                self.poll_reconnect(control, slot.number);
                self.take_notices(control, slot.number);
                let now = self.clock.now();
                match self.schedule.verdict(slot, now) {
                    Verdict::Start => return Some(slot),
                    Verdict::Missed => break,
                    Verdict::Wait(wait) => {
                        let start = now + wait;
                        let until = self
                            .transport
                            .next_poll(now)
                            .map_or(start, |poll| poll.min(start));
                        self.clock.wait(wake, seen, Some(until));
                    }
                }
            }
        }
    }

    fn current_slot(&self) -> u64 {
        self.schedule.number(self.wall.of(self.clock.now()))
    }

    /// Reports missed slots and steps of the wall clock.
    fn report_gap(&mut self, slot: u64, Gap { missed, stepped }: Gap) {
        if missed > 0 {
            if is_news(&mut self.missed_at, self.clock.now()) {
                tracing::warn!(
                    missed,
                    "slots could not start in time and have no records; the host was suspended or is overloaded"
                );
            }
            self.write_event(
                slot,
                EventName::SlotMissed,
                None,
                &format!("{} could not start in time", count(missed, "slot")),
            );
        }
        if stepped != 0.0 {
            tracing::info!(
                seconds = stepped,
                "the wall clock was set; slots continue with the new time"
            );
            self.write_event(
                slot,
                EventName::ClockStep,
                None,
                &format!("the wall clock was set by about {stepped:+.3} s"),
            );
        }
    }

    fn run_slot(
        &mut self,
        SlotStart {
            number: slot,
            start,
        }: SlotStart,
        control: &Control,
    ) {
        // Send errors of the discovery are discarded. If the cause persists, the slot fails too.
        self.send_error = None;
        self.decode_time = Duration::ZERO;
        let interval = self.settings.interval;
        self.engine.number_next_slot(slot);
        EngineLoop::run_slot(
            &mut Running {
                driver: self,
                control,
                slot,
            },
            start,
            interval,
        );
    }

    /// Converts an instant to nanoseconds since 1970.
    fn unix_ns(&self, instant: Instant) -> u64 {
        self.wall.of(instant)
    }

    /// Returns the current time in nanoseconds since 1970.
    fn unix_now(&self) -> u64 {
        self.unix_ns(self.clock.now())
    }
}

/// A driver in its loop: in a slot, or in the discovery.
struct Running<'a, T, C> {
    driver: &'a mut Driver<T, C>,
    control: &'a Control,
    slot: u64,
}

impl<T: Transport, C: Clock> EngineLoop for Running<'_, T, C> {
    type Transport = Reconnect<T, C>;
    type Clock = C;

    fn parts(&mut self) -> Parts<'_, Self::Transport, C> {
        let Driver {
            engine,
            transport,
            clock,
            ..
        } = &mut *self.driver;
        Parts {
            engine,
            transport,
            clock,
        }
    }

    fn on_event(&mut self, event: Event) {
        self.driver.take_event(event, self.slot);
    }

    fn on_send_error(&mut self, error: TransportError) {
        self.driver.take_send_error(error, self.slot);
    }

    fn on_transport_lost(&mut self, error: TransportError) {
        self.driver.lose_transport(error, self.slot);
    }

    fn request(&self) -> LoopRequest {
        if self.driver.failure.is_some() {
            LoopRequest::Close
        } else if self.control.is_stopped() {
            LoopRequest::Stop
        } else {
            LoopRequest::Continue
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_logged_again_after_a_minute_without_it() {
        let mut last = None;
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let logged: Vec<u64> = (0..100)
            .chain([159, 218, 279])
            .filter(|second| is_news(&mut last, at(*second)))
            .collect();
        assert_eq!(logged, [0, 159, 279]);
    }
}
