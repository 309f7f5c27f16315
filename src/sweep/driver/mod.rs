//! The sweep in real time: joins engine, transport and sink. `clock` is the one file of the library that reads clocks.
//!
//! 1. The MAD path is one plain thread that runs [`Driver::run`]; whoever wants it to stop says so through [`Control`].
//! 2. The wall clock is read once a slot, to start it where the wall clock passes a multiple of the interval. All else is monotonic.
//! 3. A slot that could not start in time is counted in the next `sweep` record, never caught up.
//! 4. Replies that are ready are read before anything is expired.
//! 5. Lines are made after the slot, so that making them delays no MAD and no measurement, and are handed over slot by slot; the thread
//!    never waits for a disk.
//! 6. A way to the fabric that is lost is opened again, by whoever was given to [`Driver::reopening`]; slots go on meanwhile.
//!
//! [`DeviceAsker`] does without engine and slots: one request after another to one device, for [`query`](super::query).

use std::time::Duration;

use self::clock::Clock;
use self::lifeline::Lifeline;
use self::lines::Minute;
use super::counter::{Columns, Reading};
use super::engine::{self, Engine};
use super::plan::Plan;
use super::record::{self, PortIdentity};
use super::schedule::{Gap, Schedule, Slot, Verdict, nanos};
use crate::mad::exchange::Completion;
use crate::mad::pma::Group;
use crate::mad::transport::{Transport, TransportError};
use crate::mad::{MAD_LEN, Mad};
use crate::sink::{Batch, Outlet};
use crate::time::Instant;
use crate::types::PortNum;

mod asker;
mod clock;
mod control;
mod events;
mod lifeline;
mod lines;
mod report;

pub use asker::{Address, DeviceAsker, TRIES};
pub use control::{Control, Notice};
pub use lifeline::{OpenError, Opened};
pub use report::{PortReport, SlotReport};

/// What a driver is told besides the plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Who we are in the records.
    pub sampler: String,
    /// The adapter that sends; `sim` for the simulated fabric.
    pub ca: String,
    /// Its port.
    pub ca_port: PortNum,
    /// Whether its ports have another sampler that comes first.
    pub is_secondary: bool,
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

impl Settings {
    /// The word of the records.
    pub fn role(&self) -> &'static str {
        record::ROLES[usize::from(self.is_secondary)]
    }
}

/// The longest time for which nothing is looked at but the transport.
pub const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// A stop waits so long for what is under way, however long its grace is.
const LONGEST_STOP: Duration = Duration::from_millis(300);

/// A slot asks until then, as a share of the interval, and is settled at the latest at [`CLOSE_AT`].
const ASK_UNTIL: f64 = 0.9;
const CLOSE_AT: f64 = 0.95;

/// Who slept so long asks everybody anew who it is.
const LONG_GAP: Duration = Duration::from_secs(10);

/// How often it is looked where we are on the subnet, at most.
const LOCATE_EVERY: Duration = Duration::from_secs(1);

/// For how long devices are asked who they are and what they can do at most.
const DISCOVERY: Duration = Duration::from_secs(30);

/// How many MADs are sent in a row before replies are looked at.
const SENDS_IN_A_ROW: u32 = 8;

/// How many replies are read in a row before deadlines are looked at.
const REPLIES_IN_A_ROW: u32 = 64;

/// So many devices at once are named in the log; more are counted.
const NAMED_IN_LOG: usize = 3;

/// Between two `histogram` records.
const HISTOGRAM_EVERY: Duration = Duration::from_secs(60);

/// Sweeps a plan over a transport into an outlet.
pub struct Driver<T> {
    engine: Engine,
    lifeline: Lifeline<T>,
    outlet: Outlet,
    settings: Settings,
    ports: Vec<PortIdentity>,
    /// The first port of each device.
    first_ports: Vec<usize>,
    columns: Columns,
    readings: Vec<Reading>,
    /// Whether each port's link was active when it was last asked.
    links_up: Vec<bool>,
    /// When it was last looked where we are on the subnet.
    located: Option<Instant>,
    clock: Clock,
    schedule: Schedule,
    batch: Batch,
    /// Whether it is its turn: until then its lines wait.
    speaks: bool,
    /// Ports that are settled in this slot, in the order in which they were.
    settled: Vec<usize>,
    /// Devices that stopped answering, or began again.
    changed: Vec<(usize, bool)>,
    /// Groups that a device, told by its first port, does not have.
    refused: Vec<(usize, Group)>,
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

impl<T: Transport> Driver<T> {
    /// A driver that has not started. TIDs count up from the seed.
    pub fn new(plan: Plan, settings: Settings, transport: T, outlet: Outlet, seed: u64) -> Self {
        let engine = Engine::new(&plan.devices, settings.engine.clone(), seed);
        let columns = Columns::new(&settings.engine.groups);
        let first_ports = plan.devices.iter().scan(0, |next, device| Some(std::mem::replace(next, *next + device.ports.len()))).collect();
        let clock = Clock::start();
        Self {
            // Not one and its copies: a copy of a buffer has no room.
            readings: (0..plan.ports.len()).map(|_| Reading::new(&columns)).collect(),
            links_up: vec![true; plan.ports.len()],
            located: None,
            minute: Minute::new(clock.now()),
            batch: Batch::default(),
            speaks: false,
            settled: Vec::with_capacity(plan.ports.len()),
            changed: Vec::new(),
            refused: Vec::new(),
            ports: plan.ports,
            decode: Duration::ZERO,
            failure: None,
            send_error: None,
            sends_fail: false,
            too_short: false,
            engine,
            lifeline: Lifeline::new(transport),
            outlet,
            schedule: Schedule::new(settings.interval, settings.offset),
            settings,
            first_ports,
            columns,
            clock,
        }
    }

    /// Opens the way to the fabric again by `open` where it is lost, instead of ending.
    #[must_use]
    pub fn reopening(mut self, open: impl Fn() -> Result<Opened<T>, OpenError> + Clone + Send + 'static) -> Self
    where
        T: Send + 'static,
    {
        self.lifeline.reopen_by(open);
        self
    }

    /// Sweeps until it is told to stop, or until as many slots ran as it was told. Tells of each slot through `watch`.
    ///
    /// # Errors
    /// When the way to the fabric is lost and nothing was said of how to open it again. What was written until then is whole.
    pub fn run(mut self, control: &Control, mut watch: impl FnMut(SlotReport<'_>)) -> Result<(), TransportError> {
        // What replaces another speaks when its turn has come.
        if control.first().is_some() {
            self.speak();
        }
        self.discover(control);
        control.set_ready();
        let mut done = 0;
        while self.settings.sweeps.is_none_or(|sweeps| done < sweeps) {
            let Some(next) = self.wait_for_slot(control) else { break };
            self.speak();
            if done == 0
                && let Some(expected) = control.expected()
            {
                // What the one before us could not run at its end was missed.
                self.schedule.begin_with(expected);
            }
            let (slot, gap) = (next.number, self.schedule.begin(next));
            control.begins(slot);
            self.tell_gap(slot, gap);
            if self.settings.interval.mul_f64(gap.missed as f64) > LONG_GAP || gap.stepped.abs() > LONG_GAP.as_secs_f64() {
                // Hosts that were suspended wake up on other subnets.
                self.engine.verify_all();
            }
            self.run_slot(next, control);
            self.write_ports(slot);
            self.tell_changes(slot);
            self.tell_refused(slot);
            self.tell_send_errors(slot);
            self.tell_too_short(control);
            done += 1;
            let lost = self.end_slot(slot, gap.missed);
            watch(self.report(slot, done, gap.missed, lost));
            if self.failure.is_some() || control.is_stopped() {
                break;
            }
        }
        if self.speaks {
            self.take_notices(control, self.current_slot());
            self.write_histograms();
            self.flush(self.current_slot());
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// From now on lines are handed over: its start comes before all others.
    fn speak(&mut self) {
        if !std::mem::replace(&mut self.speaks, true) {
            self.write_start();
        }
    }

    /// Looks where we are on the subnet, and where its manager is: if either moved, LIDs may have been given anew.
    fn locate(&mut self, slot: u64) {
        let now = self.clock.now();
        if self.located.is_some_and(|last| now - last < LOCATE_EVERY) {
            return;
        }
        self.located = Some(now);
        let Some(local) = self.lifeline.local() else { return };
        if self.engine.set_local(local) {
            let detail =
                format!("this host is at LID {}, the subnet manager at LID {}: every device is asked who it is", local.lid, local.sm_lid);
            tracing::info!("{detail}");
            self.write_event(slot, "local_change", None, &detail);
        }
    }

    /// Asks every device who it is and what it can do, before the first slot.
    fn discover(&mut self, control: &Control) {
        self.locate(self.current_slot());
        let now = self.clock.now();
        self.engine.start_discovery(now, now + DISCOVERY);
        self.pump(control, self.current_slot());
        self.tell_changes(self.current_slot());
        self.tell_refused(self.current_slot());
        // What a device takes for a MAD is that of slots.
        self.engine.reset_round_trips();
        let (devices, sl) = (self.engine.devices_without_path(), self.settings.engine.sl);
        if devices > 0 && !control.is_stopped() {
            tracing::warn!(
                devices,
                sl,
                "the subnet manager gave no path record to some devices; they are asked with this service level meanwhile"
            );
        }
    }

    /// Sleeps until the next slot starts. `None`: stop.
    fn wait_for_slot(&mut self, control: &Control) -> Option<Slot> {
        loop {
            let wall = self.clock.read_wall();
            if !self.settings.aligned {
                return Some(Slot { number: self.schedule.number(wall), start: self.clock.anchor });
            }
            let Some(first) = control.first() else {
                if control.is_stopped() || self.failure.is_some() {
                    return None;
                }
                std::thread::sleep(LONGEST_WAIT);
                continue;
            };
            self.schedule.begin_with(first);
            let slot = self.schedule.next(wall, self.clock.anchor);
            self.locate(slot.number);
            loop {
                if control.is_stopped() || control.leaves_before(slot.number) || self.failure.is_some() {
                    return None;
                }
                self.mind_way(slot.number);
                self.take_notices(control, slot.number);
                match self.schedule.verdict(slot, self.clock.now()) {
                    Verdict::Start => return Some(slot),
                    Verdict::Missed => break,
                    Verdict::Wait(wait) => std::thread::sleep(wait.min(LONGEST_WAIT)),
                }
            }
        }
    }

    fn current_slot(&self) -> u64 {
        self.schedule.number(self.clock.wall(self.clock.now()))
    }

    /// Tells of slots that were missed, and of a wall clock that was set.
    fn tell_gap(&mut self, slot: u64, Gap { missed, stepped }: Gap) {
        if missed > 0 {
            tracing::warn!(missed, "slots could not start in time");
            self.write_event(slot, "slot_missed", None, &format!("{missed} slots could not start in time"));
        }
        if stepped != 0.0 {
            tracing::warn!(seconds = stepped, "the wall clock was set");
            self.write_event(slot, "clock_step", None, &format!("the wall clock was set by about {stepped:+.3} s"));
        }
    }

    fn run_slot(&mut self, Slot { number: slot, start }: Slot, control: &Control) {
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
                if let Err(error) = self.lifeline.send(&target, &mad, now) {
                    tracing::debug!(%error, lid = %target.lid, "not sent");
                    let completion = Completion { tid, outcome: error.outcome() };
                    self.engine.handle_completion(&completion, &mad, now);
                    self.take_send_error(error, slot);
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
            match self.lifeline.recv(&mut mad, wait, now) {
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
                Err(error) => self.lose_way(error, slot),
            }
        }
    }
}
