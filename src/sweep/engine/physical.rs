//! Reads the physical layer: the registers of ports, modules and switches.
//!
//! A *reading* is one record: all pages of the registers of a port, of its module or of a switch.
//! It needs one request for each block of a page.
//!
//! - The counters come first. A request is sent only after all ports of the slot are settled, and a
//!   device has at most one in flight. The requests have a window and a timeout of their own,
//!   because firmware answers them slowly, and they may outlive the slot.
//! - The number of requests is limited to a share of all requests of the last minute, but at least
//!   one a second. They are spread over the slots. If the limit is too low for the configured
//!   times, the readings become rarer, and an event reports it.
//! - Class 0x0A means something else for other vendors, so only a device whose NodeInfo has the
//!   vendor ID of NVIDIA gets such requests.
//! - A device is asked once whether it gives its registers. A register that it does not have, and a
//!   device that does not answer, are reported and tried again after an hour.

use std::collections::VecDeque;
use std::time::Duration;

use ibnet_record::physical::{MAX_PAGES, PhysicalKind};
use ibnet_record::registers::Page;
use ibnet_record::types::Tid;

use super::{Engine, Event, Key, Phase};
use crate::mad::Mad;
use crate::mad::exchange::Target;
use crate::mad::header::MadStatus;
use crate::mad::query::Query;
use crate::mad::vendor::register::{self, Image, Index};
use crate::mad::vendor::{self, GeneralInfo};
use crate::sweep::inflight::{Purpose, Timeouts, Transaction};
use crate::time::Instant;

/// Max number of requests in flight.
const WINDOW: usize = 4;

/// Number of requests that are usually sent while one waits for its timeout. Answered ones stay in
/// the queue of timeouts behind it.
pub(super) const QUEUED: usize = 256;

/// Max number of complete readings that the caller has not taken. The oldest are dropped.
const FINISHED: usize = 64;

/// Vendor ID of NVIDIA in NodeInfo.
pub(super) const NVIDIA: u32 = 0x2c9;

/// Time within which a device usually answers. A slot waits for so long to send the next request.
const USUAL: Duration = Duration::from_millis(25);

/// Time after which a missing register or a silent device is tried again.
const RETRY: Duration = Duration::from_secs(3600);

/// Number of consecutive requests without a reply after which a device counts as silent.
const MAX_SILENT: u8 = 3;

/// Max number of due readings that are searched for one that may start.
const SEARCHED: usize = 64;

/// Time over which the number of requests is averaged.
const AVERAGED: Duration = Duration::from_secs(60);

/// Settings of the physical layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhysicalConfig {
    /// Times between two readings, by the index of [`PhysicalKind::ALL`].
    pub every: [Duration; PhysicalKind::ALL.len()],
    /// Max number of requests, in millionths of all requests of the last minute.
    pub budget_ppm: u32,
    /// Time for which a reply is awaited.
    pub timeout: Duration,
}

impl Default for PhysicalConfig {
    fn default() -> Self {
        Self {
            every: [60, 300, 30].map(Duration::from_secs),
            budget_ppm: 30_000,
            timeout: Duration::from_millis(500),
        }
    }
}

impl PhysicalConfig {
    /// Returns how many requests a second the readings of a device with these ports need.
    pub fn requests_per_second(&self, ports: u32, is_switch: bool) -> f64 {
        let of = |kind: PhysicalKind| {
            let pages = kind.pages().iter().copied();
            let blocks = pages
                .filter(|page| !is_of_changes(*page))
                .map(|page| f64::from(register::blocks(page)));
            let subjects = if kind.is_of_port() {
                f64::from(ports)
            } else {
                f64::from(u8::from(is_switch))
            };
            subjects * blocks.sum::<f64>() / self.every[kind as usize].as_secs_f64()
        };
        PhysicalKind::ALL.map(of).iter().sum()
    }

    /// Returns how many requests a second are allowed, if there are so many others.
    pub fn budget(&self, others_per_second: f64) -> f64 {
        (others_per_second * f64::from(self.budget_ppm) / 1e6).max(1.0)
    }
}

/// Returns whether a page is read for the first record of a port and after each change of its link
/// only.
fn is_of_changes(page: Page) -> bool {
    page == Page::LinkDown
}

/// What was read for one record.
#[derive(Clone, Debug)]
pub struct PhysicalReading {
    /// Type of the record.
    pub kind: PhysicalKind,
    /// The device.
    pub device: usize,
    /// The port. For sensors it is the first port of the device.
    pub port: usize,
    /// Time of the last reply.
    pub at: Instant,
    /// Time since the previous reading. `None` for the first one.
    pub since: Option<Duration>,
    /// The registers by the index of [`PhysicalKind::pages`]. `None` if a page was not answered.
    images: [Option<Image>; MAX_PAGES],
}

impl PhysicalReading {
    /// Iterates over the pages that were answered.
    pub fn images(&self) -> impl Iterator<Item = (Page, &Image)> {
        let pages = self.kind.pages().iter().copied();
        pages
            .zip(&self.images)
            .filter_map(|(page, image)| Some((page, image.as_ref()?)))
    }
}

/// What a device does not give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lacking {
    /// The device refuses GeneralInfo, or reports that it has no AccessRegisterGMP.
    Registers,
    /// The device refuses a page.
    Page(Page),
    /// The device does not answer.
    Silent,
}

impl Lacking {
    const fn bit(self) -> u32 {
        match self {
            Self::Page(page) => 1 << page as u8,
            Self::Registers => 1 << 30,
            Self::Silent => 1 << 31,
        }
    }
}

const _: () = assert!(Page::ALL.len() < 30);

/// The physical layer as far as a device gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Support {
    access: Access,
    /// Pages that the device refused, one bit each.
    refused: u32,
    /// What was reported as missing, by [`Lacking::bit`].
    reported: u32,
    /// Number of consecutive requests without a reply.
    silent: u8,
    /// Time at which everything that is missing is tried again.
    retry: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Access {
    #[default]
    Unknown,
    Given,
    Missing,
}

impl Support {
    /// Forgets what is missing, if it is time to try it again.
    fn refresh(&mut self, now: Instant) {
        if self.retry.is_some_and(|retry| retry <= now) {
            *self = Self {
                reported: self.reported,
                ..Self::default()
            };
        }
    }

    fn has(&self, page: Page) -> bool {
        self.refused & Lacking::Page(page).bit() == 0
    }
}

/// A reading that is due at some time.
#[derive(Clone, Copy, Debug)]
struct Job {
    kind: PhysicalKind,
    /// Index of the port.
    port: u32,
    due: Instant,
    /// Whether the reading is repeated. One after a change of the link is not.
    is_periodic: bool,
}

/// A reading that has started.
#[derive(Clone, Debug)]
struct Active {
    job: Job,
    device: u32,
    /// Index of the page that is requested now or next, and its block.
    page: usize,
    block: u8,
    /// Time of sending, if a request is in flight.
    sent: Option<Instant>,
    at: Instant,
    images: [Option<Image>; MAX_PAGES],
}

/// The reads of the physical layer.
#[derive(Debug, Default)]
pub(super) struct Physical {
    /// `None` if the physical layer is not read.
    config: Option<PhysicalConfig>,
    /// Due readings by kind, ordered by time.
    due: [VecDeque<Job>; PhysicalKind::ALL.len()],
    /// Readings after a change of the link.
    urgent: VecDeque<Job>,
    active: Vec<Active>,
    finished: VecDeque<PhysicalReading>,
    /// Time of the last reading of each port, by kind.
    last: [Vec<Option<Instant>>; PhysicalKind::ALL.len()],
    /// Whether readings of a kind are later than they should be.
    is_late: [bool; PhysicalKind::ALL.len()],
    budget: Budget,
    /// Time until which a slot waits for a reply, to send the next request.
    wait: Option<Instant>,
}

/// Number of requests that may be sent.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    /// Mean number of other requests per second.
    rate: Option<f64>,
    /// Start of the slot.
    slot: Option<Instant>,
    /// Requests that may be sent now.
    tokens: f64,
    /// Requests that were sent in this slot.
    sent: u64,
}

impl Budget {
    /// Starts a slot. `others` is the number of other requests in the previous slot.
    fn start(&mut self, config: &PhysicalConfig, others: u64, now: Instant) {
        let before = self.slot.replace(now);
        self.sent = 0;
        let Some(time) = before.map(|before| now.saturating_since(before).as_secs_f64()) else {
            self.tokens = 1.0;
            return;
        };
        if time > 0.0 {
            let (rate, weight) = (
                others as f64 / time,
                (time / AVERAGED.as_secs_f64()).min(1.0),
            );
            let mean = self.rate.get_or_insert(rate);
            *mean += (rate - *mean) * weight;
        }
        let gained = time * config.budget(self.rate.unwrap_or(0.0));
        // What a slot could not send is not sent later, but short slots collect one request.
        self.tokens = self.tokens.min(1.0) + gained;
    }
}

impl Physical {
    /// Prepares the readings of these ports.
    ///
    /// `ports` is true for the first port of each switch.
    pub(super) fn new(
        config: Option<PhysicalConfig>,
        ports: impl ExactSizeIterator<Item = bool>,
    ) -> Self {
        let Some(_) = config else {
            return Self::default();
        };
        let count = ports.len();
        let mut physical = Self {
            config,
            due: [(); PhysicalKind::ALL.len()].map(|()| VecDeque::with_capacity(count)),
            urgent: VecDeque::with_capacity(2 * count),
            active: Vec::with_capacity(WINDOW),
            finished: VecDeque::with_capacity(FINISHED),
            last: [(); PhysicalKind::ALL.len()].map(|()| vec![None; count]),
            is_late: [false; PhysicalKind::ALL.len()],
            budget: Budget::default(),
            wait: None,
        };
        for (port, has_sensors) in (0..).zip(ports) {
            for kind in PhysicalKind::ALL {
                if kind.is_of_port() || has_sensors {
                    let (due, is_periodic) = (Instant::ZERO, true);
                    physical.due[kind as usize].push_back(Job {
                        kind,
                        port,
                        due,
                        is_periodic,
                    });
                }
            }
        }
        physical
    }

    /// Returns how long a reply is awaited.
    pub(super) fn timeouts(&self) -> Timeouts {
        let timeout = self.config.unwrap_or_default().timeout;
        Timeouts {
            timeout,
            grace: timeout,
        }
    }

    /// Returns whether a reading has a page.
    fn is_due(&self, job: &Job, page: Page) -> bool {
        let is_first = self.last[job.kind as usize][job.port as usize].is_none();
        !is_of_changes(page) || is_first || !job.is_periodic
    }

    fn active_of(&mut self, device: u32) -> Option<&mut Active> {
        self.active
            .iter_mut()
            .find(|active| active.device == device)
    }
}

impl Engine {
    /// Returns the readings that are complete, the oldest first.
    pub fn take_physical(&mut self) -> Option<PhysicalReading> {
        self.physical.finished.pop_front()
    }

    /// Starts a slot.
    pub(super) fn start_physical(&mut self, others: u64, now: Instant) {
        self.physical.wait = None;
        if let Some(config) = &self.physical.config {
            self.physical.budget.start(config, others, now);
        }
    }

    /// Returns the number of requests for the physical layer in this slot.
    pub(super) fn physical_sent(&self) -> u64 {
        self.physical.budget.sent
    }

    /// Reads the physical layer of a port soon, because the state of its link has changed.
    pub(super) fn read_physical(&mut self, port: u32, now: Instant) {
        if self.physical.config.is_none() {
            return;
        }
        for kind in [PhysicalKind::Phy, PhysicalKind::Module] {
            let is_same = |job: &Job| (job.kind, job.port) == (kind, port);
            if !self.physical.urgent.iter().any(is_same) {
                let (due, is_periodic) = (now, false);
                self.physical.urgent.push_back(Job {
                    kind,
                    port,
                    due,
                    is_periodic,
                });
            }
        }
    }

    /// Returns whether a device may get requests for the physical layer. It may not if it is not
    /// verified, is silent, or is of another vendor.
    fn may_read_physical(&mut self, index: u32, now: Instant) -> bool {
        let device = &mut self.devices[index as usize];
        device.physical.refresh(now);
        let is_of_vendor = |info: &crate::mad::smp::NodeInfo| info.vendor_id == NVIDIA;
        device.identity.is_verified()
            && device.identity.info().is_some_and(is_of_vendor)
            && !device.reachability.was_silent()
            && device.physical.access != Access::Missing
    }

    /// Starts the next due reading whose device has none. Returns false if there is none.
    fn start_reading(&mut self, now: Instant) -> bool {
        if self.physical.active.len() >= WINDOW {
            return false;
        }
        let mut next: Option<(Job, Option<usize>, usize)> = None;
        for queue in 0..=PhysicalKind::ALL.len() {
            let queue = queue.checked_sub(1);
            let mut place = 0;
            for _ in 0..SEARCHED {
                let jobs = self.physical.jobs(queue);
                let Some(job) = jobs.get(place).copied().filter(|job| job.due <= now) else {
                    break;
                };
                let index = self.ports[job.port as usize].device;
                if !self.may_read_physical(index, now) {
                    // The turn of this reading is left out.
                    self.physical.jobs(queue).remove(place);
                    self.physical.repeat(Job { due: now, ..job }, now);
                } else if self.physical.active_of(index).is_some()
                    || !self.devices[index as usize].flight.is_free()
                {
                    place += 1;
                } else {
                    if next.is_none_or(|(other, ..)| job.due < other.due) {
                        next = Some((job, queue, place));
                    }
                    break;
                }
            }
            if queue.is_none() && next.is_some() {
                break;
            }
        }
        let Some((mut job, queue, place)) = next else {
            return false;
        };
        self.physical.jobs(queue).remove(place);
        if job.due == Instant::ZERO {
            // The limit spreads the first readings of all ports, and later ones keep the distance.
            job.due = now;
        }
        self.note_lateness(job, now);
        self.physical.active.push(Active {
            device: self.ports[job.port as usize].device,
            job,
            page: 0,
            block: 0,
            sent: None,
            at: now,
            images: [None; MAX_PAGES],
        });
        true
    }

    /// Reports if readings become so late that the time between two of them is twice the configured
    /// one, and if they are in time again.
    fn note_lateness(&mut self, job: Job, now: Instant) {
        let Some(config) = self.physical.config.filter(|_| job.is_periodic) else {
            return;
        };
        let (every, late) = (config.every[job.kind as usize], now - job.due);
        let is_late = &mut self.physical.is_late[job.kind as usize];
        let limit = if *is_late { every / 2 } else { every };
        if (late > limit) != *is_late {
            *is_late = !*is_late;
            let event = Event::PhysicalLate {
                kind: job.kind,
                every: every + late,
                is_late: *is_late,
            };
            self.events.push_back(event);
        }
    }

    /// Writes the next request for the physical layer into `mad` and returns its target and TID.
    /// Returns `None` if no request may be sent now.
    pub(super) fn next_physical_query(
        &mut self,
        now: Instant,
        mad: &mut Mad,
    ) -> Option<(Target, Tid)> {
        if !self.may_send_physical() || self.pace.next() > now {
            return None;
        }
        loop {
            let Some(place) = self.ready_reading() else {
                if self.start_reading(now) {
                    continue;
                }
                self.finish_if_settled(now);
                return None;
            };
            let active = &self.physical.active[place];
            let index = active.device;
            let support = self.devices[index as usize].physical;
            let pages = active.job.kind.pages();
            let query = match pages.get(active.page) {
                _ if support.access == Access::Unknown => vendor::Query::GeneralInfo,
                Some(page) if support.has(*page) && self.physical.is_due(&active.job, *page) => {
                    vendor::Query::Register(register::Query {
                        page: *page,
                        index: if active.job.kind.is_of_port() {
                            Index::of_port(self.ports[active.job.port as usize].num)
                        } else {
                            CHIP
                        },
                        block: active.block,
                    })
                }
                Some(_) => {
                    let active = &mut self.physical.active[place];
                    (active.page, active.block) = (active.page + 1, 0);
                    continue;
                }
                None => {
                    self.end_reading(place, now);
                    continue;
                }
            };
            self.physical.active[place].sent = Some(now);
            self.physical.budget.tokens -= 1.0;
            self.physical.budget.sent += 1;
            return Some(self.send(index, Query::Vendor(query), Purpose::Physical, now, mad));
        }
    }

    fn may_send_physical(&self) -> bool {
        self.unsettled == 0
            && self.physical.budget.tokens >= 1.0
            && matches!(
                self.phase,
                Phase::Slot {
                    requesting: true,
                    ..
                }
            )
    }

    /// Returns whether the slot waits to send more requests for the physical layer, and stores
    /// until when it waits for a reply.
    pub(super) fn waits_for_physical(&mut self, now: Instant) -> bool {
        self.physical.wait = None;
        if self.physical.config.is_none() || !self.may_send_physical() || self.pace.next() > now {
            return false;
        }
        let usual = self.physical.active.iter().filter_map(|active| active.sent);
        let wait = usual.map(|sent| sent + USUAL).max();
        self.physical.wait = wait.filter(|until| *until > now);
        self.physical.wait.is_some() || self.ready_reading().is_some() || self.start_reading(now)
    }

    /// Returns the place of a reading whose next request can be sent.
    fn ready_reading(&self) -> Option<usize> {
        let is_ready = |active: &Active| {
            active.sent.is_none() && self.devices[active.device as usize].flight.is_free()
        };
        self.physical.active.iter().position(is_ready)
    }

    /// Returns when a slot that waits for replies of the physical layer stops waiting.
    pub(super) fn physical_wait(&self) -> Option<Instant> {
        self.physical.wait
    }

    /// Ends a reading with what was answered.
    fn end_reading(&mut self, place: usize, now: Instant) {
        let Active {
            job,
            device,
            at,
            images,
            ..
        } = self.physical.active.swap_remove(place);
        if images.iter().any(Option::is_some) {
            let last = self.physical.last[job.kind as usize][job.port as usize].replace(at);
            if self.physical.finished.len() == FINISHED {
                self.physical.finished.pop_front();
            }
            self.physical.finished.push_back(PhysicalReading {
                kind: job.kind,
                device: device as usize,
                port: job.port as usize,
                at,
                since: last.map(|last| at - last),
                images,
            });
            self.events.push_back(Event::Physical);
        }
        self.physical.repeat(job, now);
    }

    pub(super) fn take_physical_reply(
        &mut self,
        transaction: &Transaction,
        answer: Result<(), MadStatus>,
        mad: &Mad,
        now: Instant,
    ) {
        let index = transaction.device;
        if !self.is_current(transaction) {
            return;
        }
        let device = &mut self.devices[index as usize];
        device.physical.silent = 0;
        let Some(active) = self.physical.active_of(index) else {
            return;
        };
        active.sent = None;
        let lacking = match (transaction.query, answer) {
            (Query::Vendor(vendor::Query::Register(query)), Ok(())) => {
                if let Some(image) = active.images.get_mut(active.page) {
                    image.get_or_insert_default().take(query.block, mad);
                }
                (active.at, active.block) = (now, query.block + 1);
                if active.block >= register::blocks(query.page) {
                    (active.page, active.block) = (active.page + 1, 0);
                }
                None
            }
            (Query::Vendor(vendor::Query::Register(query)), Err(status)) => {
                (active.page, active.block) = (active.page + 1, 0);
                // An invalid value concerns only this port, for example one without a module.
                let is_lasting =
                    vendor::is_absent(status) && status.code() != MadStatus::INVALID_VALUE.code();
                is_lasting.then_some(Lacking::Page(query.page))
            }
            (_, Ok(())) if GeneralInfo::parse(mad).has_registers() => {
                device.physical.access = Access::Given;
                None
            }
            (_, Err(MadStatus::BUSY)) => {
                active.page = MAX_PAGES;
                None
            }
            _ => Some(Lacking::Registers),
        };
        if let Some(lacking) = lacking {
            self.lacks(index, lacking, now);
        }
    }

    /// Returns whether a reply still belongs to the device. If not, its reading is dropped.
    fn is_current(&mut self, transaction: &Transaction) -> bool {
        let index = transaction.device;
        let is_current = transaction.generation == self.devices[index as usize].generation;
        if !is_current && let Some(active) = self.physical.active_of(index) {
            (active.sent, active.page, active.images) = (None, MAX_PAGES, [None; MAX_PAGES]);
        }
        is_current
    }

    /// Stores that a device lacks something, and reports it.
    fn lacks(&mut self, index: u32, lacking: Lacking, now: Instant) {
        let support = &mut self.devices[index as usize].physical;
        support.retry.get_or_insert(now + RETRY);
        let was_given = support.access == Access::Given;
        match lacking {
            Lacking::Page(_) => support.refused |= lacking.bit(),
            Lacking::Registers | Lacking::Silent => {
                support.access = Access::Missing;
                if let Some(active) = self.physical.active_of(index) {
                    active.page = MAX_PAGES;
                }
            }
        }
        let (device, support) = (index as usize, &mut self.devices[index as usize].physical);
        let was_reported = support.reported & lacking.bit() != 0;
        support.reported |= lacking.bit();
        if was_reported {
            return;
        }
        // A key holds for the registers, but not for GeneralInfo.
        let keys = &mut self.devices[device].keys;
        self.events.push_back(
            if lacking == Lacking::Silent && was_given && keys.first(Key::Vendor) {
                let key = Key::Vendor;
                Event::KeyDemanded { device, key }
            } else {
                Event::PhysicalUnsupported { device, lacking }
            },
        );
    }

    /// Handles a request without a reply.
    pub(super) fn physical_failed(&mut self, transaction: &Transaction, now: Instant) {
        let index = transaction.device;
        if !self.is_current(transaction) {
            return;
        }
        if let Some(active) = self.physical.active_of(index) {
            (active.sent, active.page, active.block) = (None, active.page + 1, 0);
        }
        let support = &mut self.devices[index as usize].physical;
        support.silent += 1;
        if support.silent >= MAX_SILENT {
            self.lacks(index, Lacking::Silent, now);
        }
    }

    /// Handles a request that was not sent, or was in flight when the transport was lost.
    pub(super) fn physical_not_sent(&mut self, index: u32) {
        if let Some(active) = self.physical.active_of(index) {
            (active.sent, active.page) = (None, MAX_PAGES);
        }
    }

    /// Reads no physical layer from now on, because the transport has no agent for these requests.
    pub(super) fn do_without_physical(&mut self) {
        self.physical = Physical::default();
    }
}

/// Selects the temperature sensor of the chip.
const CHIP: Index = Index::of_item(0);

impl Physical {
    /// Returns the due readings of a kind, or those after a change of the link.
    fn jobs(&mut self, queue: Option<usize>) -> &mut VecDeque<Job> {
        queue.map_or(&mut self.urgent, |kind| &mut self.due[kind])
    }

    /// Makes a periodic reading due again.
    fn repeat(&mut self, job: Job, now: Instant) {
        let Some(config) = self.config.filter(|_| job.is_periodic) else {
            return;
        };
        let due = (job.due + config.every[job.kind as usize]).max(now);
        self.due[job.kind as usize].push_back(Job { due, ..job });
    }
}
