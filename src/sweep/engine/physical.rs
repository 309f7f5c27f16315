//! Reads the physical layer: the registers of ports, modules and switches.
//!
//! A *reading* is one record: the pages of the registers of a port, of its module or of a switch.
//! It needs one request for each block of a page. Most readings of a port have its bit errors only,
//! and one in some has all of its pages.
//!
//! - The counters come first. A request is sent only after all ports of the slot are settled, and a
//!   device has at most one in flight. The requests have a window and a timeout of their own,
//!   because firmware answers them slowly, and they may outlive the slot.
//! - The number of requests is limited to a share of all requests of the last minute, but at least
//!   one a second. They are spread over the slots. If the limit is too low for the configured
//!   times, the readings become rarer, and an event reports it.
//! - The reason why a link went down is read before all other readings, and then the module of the
//!   port, for [`BURST`] beyond this limit, at most once in [`AVERAGED`]. Without a reply, the
//!   request for the reason is repeated.
//! - Planes are read of ports that have several, one after another and without a pause, so that
//!   their counters can be compared. Such a reading may exceed the limit once it has started; later
//!   slots send less then. A device is asked once whether it has planes.
//! - A switch lists its sensors and fans; each of them needs a request of its own. An HCA has the
//!   temperature of its chip and its firmware only, and they are read as seldom as modules.
//! - Class 0x0A means something else for other vendors, so only a device whose NodeInfo has the
//!   vendor ID of NVIDIA gets such requests.
//! - A device is asked once whether it gives its registers. A register that it does not have, and a
//!   device that does not answer, are reported and tried again after an hour.

use std::collections::VecDeque;
use std::time::Duration;

use ibnet_record::physical::{MAX_ITEMS, MAX_PAGES, MAX_PLANES, PhysicalKind};
use ibnet_record::registers::{Page, Select};
use ibnet_record::types::{NodeKind, Tid};

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

/// Time within which a device usually answers. A slot waits for so long to send the next request.
const USUAL: Duration = Duration::from_millis(25);

/// Time after which a missing register or a silent device is tried again.
const RETRY: Duration = Duration::from_secs(3600);

/// Lateness is reported if it lasts for this many times the time between two readings, and as over
/// when no reading was late for as long: with two, each port was read at least once.
const TURNS_OF_LATENESS: u32 = 2;

/// Number of consecutive requests without a reply after which a device counts as silent.
const MAX_SILENT: u8 = 3;

/// Number of requests for the reason of a link that went down, until one is answered.
const TRIES: u8 = 3;

/// Max number of due readings that are searched for one that may start.
const SEARCHED: usize = 256;

/// Time over which the number of requests is averaged.
const AVERAGED: Duration = Duration::from_secs(60);

/// Time for which the requests for reasons of links that went down are not limited.
const BURST: Duration = Duration::from_secs(10);

/// Bytes of a record, by the index of [`PhysicalKind::ALL`], and of one with bit errors only: means
/// of 4,800 records of `examples/stria.p` with 4xNDR links, simulated, 2026-11-28. Planes are not
/// counted, because a plan does not have them.
const OCTETS: [f64; PhysicalKind::ALL.len()] = [2067.0, 1160.0, 953.0, 0.0];
const OCTETS_OF_BIT_ERRORS: f64 = 844.0;
const OCTETS_OF_HCA: f64 = 489.0;

/// Pages of the sensors of an HCA.
const OF_HCA: [Page; 2] = [Page::Sensor, Page::Device];

/// Number of temperature sensors and of fans of a switch, assumed for the estimate of requests.
const USUAL_SENSORS: f64 = 4.0;
const USUAL_FANS: f64 = 8.0;

/// Settings of the physical layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhysicalConfig {
    /// Times between two readings of all pages, by the index of [`PhysicalKind::ALL`].
    pub every: [Duration; PhysicalKind::ALL.len()],
    /// Time between two readings of the bit errors of a port. A time longer than that of all its
    /// pages has no effect.
    pub bit_errors_every: Duration,
    /// Max number of requests, in millionths of all requests of the last minute.
    pub budget_ppm: u32,
    /// Time for which a reply is awaited.
    pub timeout: Duration,
}

impl Default for PhysicalConfig {
    fn default() -> Self {
        Self {
            every: [120, 300, 60, 600].map(Duration::from_secs),
            bit_errors_every: Duration::from_secs(30),
            budget_ppm: 30_000,
            timeout: Duration::from_millis(500),
        }
    }
}

impl PhysicalConfig {
    /// Returns how many requests a second the readings of a device with these ports need, without
    /// those of planes, which a plan does not have.
    pub fn requests_per_second(&self, ports: u32, is_switch: bool) -> f64 {
        self.per_second(ports, is_switch, |kind, turn| {
            let is_of_hca = kind == PhysicalKind::Sensors && !is_switch;
            let read = |page: &&Page| {
                self.reads(kind, turn, **page) && (!is_of_hca || OF_HCA.contains(page))
            };
            let requests = |page: Page| match page {
                Page::FanSpeed => USUAL_FANS,
                Page::Sensors => f64::from(register::blocks(page)) + USUAL_SENSORS - 1.0,
                _ => f64::from(register::blocks(page)),
            };
            let pages = kind.pages().iter().filter(read).copied();
            pages.map(requests).sum()
        })
    }

    /// Returns the bytes of the records of a device with these ports in a second.
    pub fn octets_per_second(&self, ports: u32, is_switch: bool) -> f64 {
        self.per_second(ports, is_switch, |kind, turn| match kind {
            PhysicalKind::Phy if turn > 0 => OCTETS_OF_BIT_ERRORS,
            PhysicalKind::Sensors if !is_switch => OCTETS_OF_HCA,
            _ => OCTETS[kind as usize],
        })
    }

    /// Returns the cost of all readings in a second. `of` returns that of a reading of all pages
    /// (turn 0), and of one between two of these (turn 1).
    fn per_second(
        &self,
        ports: u32,
        is_switch: bool,
        of: impl Fn(PhysicalKind, u32) -> f64,
    ) -> f64 {
        let of_kind = |kind: PhysicalKind| {
            let turns = self.turns(kind);
            let subjects = match kind {
                PhysicalKind::Planes => 0.0,
                _ if kind.is_of_port() => f64::from(ports),
                _ => 1.0,
            };
            let each = (of(kind, 0) + f64::from(turns - 1) * of(kind, 1)) / f64::from(turns);
            subjects * each / self.interval(kind, is_switch).as_secs_f64()
        };
        PhysicalKind::ALL.map(of_kind).iter().sum()
    }

    /// Returns the time between two readings.
    pub fn interval(&self, kind: PhysicalKind, is_switch: bool) -> Duration {
        let every = self.every[kind as usize];
        match kind {
            PhysicalKind::Phy => every.min(self.bit_errors_every),
            PhysicalKind::Sensors if !is_switch => {
                every.max(self.every[PhysicalKind::Module as usize])
            }
            _ => every,
        }
    }

    /// Returns how many readings there are to one of all pages.
    fn turns(&self, kind: PhysicalKind) -> u32 {
        let turns = self.every[kind as usize].div_duration_f64(self.interval(kind, true));
        turns.round() as u32
    }

    /// Returns whether a periodic reading has a page. `turn` is the number of readings before it.
    fn reads(&self, kind: PhysicalKind, turn: u32, page: Page) -> bool {
        page != Page::LinkDown && (page == Page::Ber || turn.is_multiple_of(self.turns(kind)))
    }

    /// Returns how many requests a second are allowed, if there are so many others.
    pub fn budget(&self, others_per_second: f64) -> f64 {
        (others_per_second * f64::from(self.budget_ppm) / 1e6).max(1.0)
    }
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
    /// Time since the previous reading. `None` for the first one, and for the reason why a link
    /// went down.
    pub since: Option<Duration>,
    /// Whether this is the reason why the link went down, or the module at that time, and nothing
    /// else.
    pub is_link_down: bool,
    /// The registers by the index of [`PhysicalKind::pages`]. `None` if a page was not answered.
    images: [Option<Image>; MAX_PAGES],
    items: Items,
}

/// The temperature sensors and fans that a switch has listed, each with its register.
#[derive(Clone, Copy, Debug)]
pub struct Items {
    list: [Item; 2 * MAX_ITEMS],
    len: usize,
}

/// A sensor or a fan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Item {
    /// Whether it is a fan, with [`Page::FanSpeed`], and not a sensor, with [`Page::Sensor`].
    pub is_fan: bool,
    /// Number of the sensor or the fan.
    pub number: u8,
    /// The register.
    pub octets: [u8; register::HEAD],
}

impl Default for Items {
    fn default() -> Self {
        Self {
            list: [Item::default(); 2 * MAX_ITEMS],
            len: 0,
        }
    }
}

impl Items {
    /// Adds a sensor or a fan, if there is room for it.
    pub fn push(&mut self, item: Item) {
        if let Some(place) = self.list.get_mut(self.len) {
            *place = item;
            self.len += 1;
        }
    }

    /// Iterates over the sensors, and then over the fans.
    pub fn iter(&self) -> std::slice::Iter<'_, Item> {
        self.list[..self.len].iter()
    }
}

impl PhysicalReading {
    /// Iterates over the pages that were answered.
    pub fn images(&self) -> impl Iterator<Item = (Page, &Image)> {
        let pages = self.kind.pages().iter().copied();
        pages
            .zip(&self.images)
            .filter_map(|(page, image)| Some((page, image.as_ref()?)))
    }

    /// Returns the listed sensors and fans that were answered, without the sensor of the chip.
    pub const fn items(&self) -> &Items {
        &self.items
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
    /// Pages that the device refused, one bit each. For a device without planes, also
    /// [`Page::Planes`].
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

    /// Returns whether the device may have what a record is about.
    fn may_have(&self, kind: PhysicalKind) -> bool {
        self.access != Access::Missing && (kind != PhysicalKind::Planes || self.has(Page::Planes))
    }
}

/// A reading that is due at some time.
#[derive(Clone, Copy, Debug)]
struct Job {
    kind: PhysicalKind,
    /// Index of the port.
    port: u32,
    due: Instant,
    occasion: Occasion,
    /// Whether the device is a switch.
    is_switch: bool,
}

/// Why a reading is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Occasion {
    /// The time since the previous one has passed. This is the number of readings before it.
    Periodic(u32),
    /// The state of the link has changed.
    Changed,
    /// The link went down. This is the number of requests without a reply.
    LinkDown(u8),
}

impl Job {
    const fn is_link_down(&self) -> bool {
        matches!(self.occasion, Occasion::LinkDown(_))
    }

    /// Returns the index of a periodic reading among those of its times.
    const fn times(&self) -> usize {
        match self.kind {
            PhysicalKind::Sensors if !self.is_switch => SENSORS_OF_HCAS,
            kind => kind as usize,
        }
    }
}

/// Index of the sensors of HCAs, behind those of [`PhysicalKind::ALL`].
const SENSORS_OF_HCAS: usize = PhysicalKind::ALL.len();
const TIMES: usize = SENSORS_OF_HCAS + 1;

/// A reading that has started.
#[derive(Clone, Debug)]
struct Active {
    job: Job,
    device: u32,
    /// Index of the page that is requested now or next, its block and its plane. The plane is 0 if
    /// the record is not about one.
    page: usize,
    block: u8,
    plane: u8,
    /// Time of sending, if a request is in flight.
    sent: Option<Instant>,
    at: Instant,
    images: [Option<Image>; MAX_PAGES],
    /// The listed sensors or fans that are requested now or next, one bit for each.
    todo: u64,
    items: Items,
}

impl Active {
    /// Returns the page that is requested now or next, and its sensor or fan.
    fn request(&self) -> Option<(Page, u8)> {
        let page = self.page()?;
        Some(match page {
            _ if self.todo == 0 => (page, 0),
            Page::Sensors => (Page::Sensor, self.todo.trailing_zeros() as u8),
            _ => (page, self.todo.trailing_zeros() as u8),
        })
    }

    /// Ends the request of a page, or of one of the listed sensors or fans.
    fn advance(&mut self) {
        self.todo &= self.todo.saturating_sub(1);
        if self.todo > 0 {
            return;
        }
        (self.page, self.block) = (self.page + 1, 0);
        if self.page() == Some(Page::FanSpeed) {
            self.todo = self.listed(Page::Fans, "tacho_active");
            self.page += usize::from(self.todo == 0);
        }
    }

    /// Takes a block of a page, or a listed sensor or fan, and goes on.
    fn take(&mut self, query: register::Query, mad: &Mad, now: Instant) {
        self.at = now;
        if self.todo > 0 {
            self.items.push(Item {
                is_fan: query.page == Page::FanSpeed,
                number: query.index.item as u8,
                octets: register::head(mad),
            });
            return self.advance();
        }
        if let Some(image) = self.images.get_mut(self.page) {
            let image = image.get_or_insert_default();
            image.take(query.block, mad);
            // Some agents may not repeat the plane.
            if let Some(field) = query.page.register().selector(Select::Plane) {
                image.set(field, 0, query.index.plane.into());
            }
        }
        self.block = query.block + 1;
        if self.block >= register::blocks(query.page) {
            if query.page == Page::Sensors {
                // Sensor 0 is the chip, which has a page of its own.
                self.todo = self.listed(Page::Sensors, "sensor_map") & !1;
            }
            self.block = 0;
            if self.todo == 0 {
                self.advance();
            }
        }
    }

    /// Returns the sensors or fans that a page lists, at most [`MAX_ITEMS`], one bit for each.
    fn listed(&self, page: Page, name: &str) -> u64 {
        let pages = self.job.kind.pages();
        let place = pages.iter().position(|known| *known == page);
        let image = place.and_then(|place| self.images[place].as_ref());
        let field = page.register().field(name);
        let all = image
            .zip(field)
            .and_then(|(image, field)| image.raw(field, 0));
        let (mut rest, mut first) = (all.unwrap_or(0), 0);
        for _ in 0..MAX_ITEMS {
            first |= rest & rest.wrapping_neg();
            rest &= rest.saturating_sub(1);
        }
        first
    }

    /// Returns the number of planes of the port, or 0 if it is not known.
    fn planes(&self) -> u8 {
        let of_planes = self.images[0].filter(|_| self.job.kind == PhysicalKind::Planes);
        let number = of_planes.and_then(|image| {
            let field = Page::Planes.register().field("num_of_planes")?;
            image.raw(field, 0)
        });
        number.map_or(0, |number| number.min(MAX_PLANES.into()) as u8)
    }

    /// Returns the page that is requested now or next. `None` if the reading, or that of a plane,
    /// is complete.
    fn page(&self) -> Option<Page> {
        let kind = self.job.kind;
        let has_more = kind != PhysicalKind::Planes || self.page == 0 || self.planes() > 1;
        let page = kind.pages().get(self.page).copied();
        page.filter(|_| has_more)
    }

    /// Returns whether the reading must not pause.
    fn is_urgent(&self) -> bool {
        self.job.kind == PhysicalKind::Planes && self.page > 0
    }
}

/// Queue of the reasons of links that went down.
const LINK_DOWN: usize = 0;
/// Queue of the modules of links that went down.
const LINK_DOWN_MODULE: usize = 1;
/// Queue of the readings after a change of a link.
const CHANGED: usize = 2;
/// The first queue of periodic readings.
const PERIODIC: usize = 3;

/// The reads of the physical layer.
#[derive(Debug, Default)]
pub(super) struct Physical {
    /// `None` if the physical layer is not read.
    config: Option<PhysicalConfig>,
    /// Due readings, ordered by time: those of [`LINK_DOWN`], [`LINK_DOWN_MODULE`] and [`CHANGED`],
    /// and from [`PERIODIC`] on the periodic ones by [`Job::times`].
    due: [VecDeque<Job>; PERIODIC + TIMES],
    active: Vec<Active>,
    finished: VecDeque<PhysicalReading>,
    /// Time of the last reading of each port, by kind; for planes of each of them.
    last: [Vec<Option<Instant>>; PhysicalKind::ALL.len()],
    /// Whether readings are later than they should be, by [`Job::times`].
    lateness: [Lateness; TIMES],
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
    /// Time since when reasons of links that went down are read beyond the limit.
    burst: Option<Instant>,
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

    /// Notes that a link went down.
    fn note_link_down(&mut self, now: Instant) {
        let is_over = |start: Instant| now.saturating_since(start) >= AVERAGED;
        if self.burst.is_none_or(is_over) {
            self.burst = Some(now);
        }
    }

    /// Returns whether a request for a reading may be sent without a token.
    fn exempts(&self, job: &Job, now: Instant) -> bool {
        job.is_link_down() && self.burst.is_some_and(|start| now - start < BURST)
    }
}

/// Whether the readings of one kind are late.
///
/// The first readings of all kinds take the requests of the second ones, and readings of some
/// devices can be in time while those of others are late. Neither is reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    /// The first and the last late reading since readings were in time.
    late: Option<(Instant, Instant)>,
    is_reported: bool,
}

impl Lateness {
    /// Notes a reading that is late by a time. Returns whether readings are late, if this changes.
    pub(super) fn note(&mut self, late: Duration, every: Duration, now: Instant) -> Option<bool> {
        let lasting = every * TURNS_OF_LATENESS;
        let is_late = late > every;
        if is_late {
            let (first, _) = self.late.unwrap_or((now, now));
            self.late = Some((first, now));
            if self.is_reported || now - first < lasting {
                return None;
            }
        } else {
            let is_over = |(_, last)| late <= every / 2 && now - last > lasting;
            if !self.late.is_some_and(is_over) {
                return None;
            }
            self.late = None;
            if !self.is_reported {
                return None;
            }
        }
        self.is_reported = is_late;
        Some(is_late)
    }
}

impl Physical {
    /// Prepares the readings of these ports.
    ///
    /// `ports` has the kind of the device for each port, and whether it is the first one of it.
    pub(super) fn new(
        config: Option<PhysicalConfig>,
        ports: impl ExactSizeIterator<Item = (NodeKind, bool)>,
    ) -> Self {
        let Some(_) = config else {
            return Self::default();
        };
        let count = ports.len();
        let mut physical = Self {
            config,
            // After a change of a link, its port and its module are read.
            due: [1, 1, 2, 1, 1, 1, 1, 1].map(|each| VecDeque::with_capacity(each * count)),
            active: Vec::with_capacity(2 * WINDOW),
            finished: VecDeque::with_capacity(FINISHED),
            last: PhysicalKind::ALL.map(|kind| vec![None; place_of(kind, count as u32, 0)]),
            lateness: [Lateness::default(); TIMES],
            budget: Budget::default(),
            wait: None,
        };
        for (port, (device, is_first)) in (0..).zip(ports) {
            for kind in PhysicalKind::ALL {
                let job = Job {
                    kind,
                    port,
                    due: Instant::ZERO,
                    occasion: Occasion::Periodic(0),
                    is_switch: device == NodeKind::Switch,
                };
                if kind.is_of_port() || is_first {
                    physical.due[PERIODIC + job.times()].push_back(job);
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
        let place = place_of(job.kind, job.port, 0);
        let is_first = || self.last[job.kind as usize][place].is_none();
        match job.occasion {
            Occasion::LinkDown(_) => matches!(page, Page::LinkDown | Page::Module),
            _ if page == Page::LinkDown => is_first(),
            Occasion::Changed => true,
            _ if job.times() == SENSORS_OF_HCAS => OF_HCA.contains(&page),
            Occasion::Periodic(turn) => {
                let config = self.config.unwrap_or_default();
                config.reads(job.kind, turn, page)
            }
        }
    }

    /// Returns the reading of a device that waits for a reply.
    fn active_of(&mut self, device: u32) -> Option<&mut Active> {
        let mut active = self.active.iter_mut();
        active.find(|active| active.device == device && active.sent.is_some())
    }

    fn in_flight(&self) -> usize {
        let sent = self.active.iter().filter(|active| active.sent.is_some());
        sent.count()
    }

    /// Returns whether a device has a reading, or for the reason of a link that went down, whether
    /// it has one that waits for a reply.
    fn is_busy(&self, device: u32, job: &Job) -> bool {
        let blocks = |active: &Active| {
            active.device == device && (active.sent.is_some() || !job.is_link_down())
        };
        self.active.iter().any(blocks)
    }

    /// Returns whether a request for a reading may be sent now.
    fn has_token(&self, job: &Job, now: Instant) -> bool {
        self.budget.tokens >= 1.0 || self.budget.exempts(job, now)
    }

    /// Returns whether the next request of a reading that has started may be sent now.
    fn may_go_on(&self, active: &Active, now: Instant) -> bool {
        active.is_urgent() || self.has_token(&active.job, now)
    }

    /// Adds a reading to a queue, unless the queue has it.
    fn add(&mut self, queue: usize, job: Job) {
        let queue = &mut self.due[queue];
        let is_same = |other: &Job| (other.kind, other.port) == (job.kind, job.port);
        if !queue.iter().any(is_same) {
            queue.push_back(job);
        }
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
            self.physical.add(
                CHANGED,
                Job {
                    kind,
                    port,
                    due: now,
                    occasion: Occasion::Changed,
                    is_switch: false,
                },
            );
        }
    }

    /// Reads the reason why the link of a port went down, and its module, before all other
    /// readings.
    pub fn read_link_down(&mut self, port: usize, now: Instant) {
        if self.physical.config.is_none() {
            return;
        }
        self.physical.budget.note_link_down(now);
        let port = port as u32;
        for (queue, kind) in [
            (LINK_DOWN, PhysicalKind::Phy),
            (LINK_DOWN_MODULE, PhysicalKind::Module),
        ] {
            self.physical.add(
                queue,
                Job {
                    kind,
                    port,
                    due: now,
                    occasion: Occasion::LinkDown(0),
                    is_switch: false,
                },
            );
        }
        let is_again = |job: &Job| (job.kind, job.port) == (PhysicalKind::Module, port);
        self.physical.due[CHANGED].retain(|job| !is_again(job));
    }

    /// Returns whether a device may get requests for a record. It may not if it is not verified, is
    /// silent, is of another vendor, or does not have what the record is about.
    fn may_read_physical(&mut self, index: u32, kind: PhysicalKind, now: Instant) -> bool {
        let device = &mut self.devices[index as usize];
        device.physical.refresh(now);
        let is_of_vendor = |info: &crate::mad::smp::NodeInfo| info.vendor_id == vendor::NVIDIA;
        device.identity.is_verified()
            && device.identity.info().is_some_and(is_of_vendor)
            && !device.reachability.was_silent()
            && device.physical.may_have(kind)
    }

    /// Starts the next due reading whose device has none. Returns false if there is none.
    fn start_reading(&mut self, now: Instant) -> bool {
        let mut next: Option<(Job, usize, usize)> = None;
        for queue in 0..self.physical.due.len() {
            // A reading without a token does not delay the reasons of links that went down.
            let active = match queue {
                LINK_DOWN | LINK_DOWN_MODULE => self.physical.in_flight(),
                _ => self.physical.active.len(),
            };
            if active >= WINDOW || queue <= PERIODIC && next.is_some() {
                break;
            }
            // A device gets one request after another, so a module would delay its other reasons.
            if queue == LINK_DOWN_MODULE && self.physical.has_reasons() {
                continue;
            }
            let first = self.physical.due[queue].front();
            if first.is_none_or(|job| !self.physical.has_token(job, now)) {
                continue;
            }
            let mut place = 0;
            for _ in 0..SEARCHED {
                let jobs = &mut self.physical.due[queue];
                let Some(job) = jobs.get(place).copied().filter(|job| job.due <= now) else {
                    break;
                };
                let index = self.ports[job.port as usize].device;
                if !self.may_read_physical(index, job.kind, now) {
                    // The turn of this reading is left out.
                    self.physical.due[queue].remove(place);
                    self.physical.repeat(Job { due: now, ..job }, now);
                } else if self.physical.is_busy(index, &job)
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
        }
        let Some((mut job, queue, place)) = next else {
            return false;
        };
        self.physical.due[queue].remove(place);
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
            plane: u8::from(job.kind == PhysicalKind::Planes),
            sent: None,
            at: now,
            images: [None; MAX_PAGES],
            todo: 0,
            items: Items::default(),
        });
        true
    }

    /// Reports if readings become so late that the time between two of them is twice the configured
    /// one, and if all of them are in time again.
    fn note_lateness(&mut self, job: Job, now: Instant) {
        let (Some(config), Occasion::Periodic(_)) = (self.physical.config, job.occasion) else {
            return;
        };
        let (every, late) = (config.interval(job.kind, job.is_switch), now - job.due);
        if let Some(is_late) = self.physical.lateness[job.times()].note(late, every, now) {
            self.events.push_back(Event::PhysicalLate {
                kind: job.kind,
                every: every + late,
                is_late,
            });
        }
    }

    /// Writes the next request for the physical layer into `mad` and returns its target and TID.
    /// Returns `None` if no request may be sent now.
    pub(super) fn next_physical_query(
        &mut self,
        now: Instant,
        mad: &mut Mad,
    ) -> Option<(Target, Tid)> {
        if !self.may_send_physical(now) || self.pace.next() > now {
            return None;
        }
        loop {
            let Some(place) = self.ready_reading(now) else {
                if self.start_reading(now) {
                    continue;
                }
                self.finish_if_settled(now);
                return None;
            };
            let active = &self.physical.active[place];
            let index = active.device;
            let support = self.devices[index as usize].physical;
            let query = match active.request() {
                _ if support.access == Access::Unknown => vendor::Query::GeneralInfo,
                Some((page, item))
                    if support.has(page) && self.physical.is_due(&active.job, page) =>
                {
                    vendor::Query::Register(register::Query {
                        page,
                        index: if active.job.kind.is_of_port() {
                            Index {
                                plane: active.plane,
                                ..Index::of_port(self.ports[active.job.port as usize].num)
                            }
                        } else {
                            Index::of_item(item.into())
                        },
                        block: active.block,
                    })
                }
                Some(_) => {
                    let active = &mut self.physical.active[place];
                    active.todo = 0;
                    active.advance();
                    continue;
                }
                None => {
                    self.end_reading(place, now);
                    continue;
                }
            };
            let active = &mut self.physical.active[place];
            active.sent = Some(now);
            let budget = &mut self.physical.budget;
            if !budget.exempts(&active.job, now) {
                budget.tokens -= 1.0;
            }
            budget.sent += 1;
            return Some(self.send(index, Query::Vendor(query), Purpose::Physical, now, mad));
        }
    }

    fn may_send_physical(&self, now: Instant) -> bool {
        let physical = &self.physical;
        let mut explained = physical.due[..CHANGED].iter().filter_map(VecDeque::front);
        self.unsettled == 0
            && (physical.budget.tokens >= 1.0
                || explained.any(|job| physical.budget.exempts(job, now))
                || physical
                    .active
                    .iter()
                    .any(|active| physical.may_go_on(active, now)))
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
        let Some(config) = self.physical.config else {
            return false;
        };
        if !self.may_send_physical(now) || self.pace.next() > now {
            return false;
        }
        // The reason of a link that went down is requested again in this slot if it gets no reply.
        let wait = |active: &Active| match active.job.occasion {
            Occasion::LinkDown(_) => config.timeout,
            _ => USUAL,
        };
        let active = self.physical.active.iter();
        let wait = active.filter_map(|active| Some(active.sent? + wait(active)));
        self.physical.wait = wait.max().filter(|until| *until > now);
        self.physical.wait.is_some() || self.ready_reading(now).is_some() || self.start_reading(now)
    }

    /// Returns the place of a reading whose next request can be sent.
    fn ready_reading(&self, now: Instant) -> Option<usize> {
        let physical = &self.physical;
        if physical.in_flight() >= WINDOW {
            return None;
        }
        let is_ready = |of: &Active| {
            let is_waiting = |active: &Active| active.device == of.device && active.sent.is_some();
            self.devices[of.device as usize].flight.is_free()
                && physical.may_go_on(of, now)
                && !physical.active.iter().any(is_waiting)
        };
        let places = (0..).zip(&physical.active);
        let ready = places.filter(|(_, active)| is_ready(active));
        ready
            .min_by_key(|(_, active)| (!active.job.is_link_down(), !active.is_urgent()))
            .map(|(place, _)| place)
    }

    /// Returns when a slot that waits for replies of the physical layer stops waiting.
    pub(super) fn physical_wait(&self) -> Option<Instant> {
        self.physical.wait
    }

    /// Ends a reading, or that of a plane, with what was answered.
    fn end_reading(&mut self, place: usize, now: Instant) {
        let active = &mut self.physical.active[place];
        let Active {
            job,
            device,
            at,
            images,
            plane,
            items,
            ..
        } = *active;
        let is_of_plane = plane > 0;
        let has_next = plane < active.planes() && active.page == job.kind.pages().len();
        if has_next {
            // The number of planes stays.
            (active.plane, active.page) = (plane + 1, 1);
            active.images[1..].fill(None);
        } else {
            self.physical.active.swap_remove(place);
        }
        if images[usize::from(is_of_plane)..]
            .iter()
            .any(Option::is_some)
        {
            let is_link_down = job.is_link_down();
            let place = place_of(job.kind, job.port, plane);
            let last = &mut self.physical.last[job.kind as usize][place];
            let since = if is_link_down {
                None
            } else {
                last.replace(at).map(|last| at - last)
            };
            if self.physical.finished.len() == FINISHED {
                self.physical.finished.pop_front();
            }
            self.physical.finished.push_back(PhysicalReading {
                kind: job.kind,
                device: device as usize,
                port: job.port as usize,
                at,
                since,
                is_link_down,
                images,
                items,
            });
            self.events.push_back(Event::Physical);
        }
        if has_next {
            return;
        }
        let occasion = match job.occasion {
            Occasion::Periodic(turn) => Occasion::Periodic(turn.wrapping_add(1)),
            other => other,
        };
        self.physical.repeat(Job { occasion, ..job }, now);
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
                active.take(query, mad, now);
                if query.page == Page::Planes && active.planes() <= 1 {
                    device.physical.refused |= Lacking::Page(Page::Planes).bit();
                }
                None
            }
            (Query::Vendor(vendor::Query::Register(query)), Err(status)) => {
                // An invalid value concerns only this port, for example one without a module, and a
                // refused sensor or fan only this one.
                let is_lasting = vendor::is_absent(status)
                    && status.code() != MadStatus::INVALID_VALUE.code()
                    && active.todo == 0;
                active.advance();
                if is_lasting && query.page == Page::Planes {
                    // A device without this register has no planes, which is nothing to report.
                    device.physical.refused |= Lacking::Page(Page::Planes).bit();
                }
                (is_lasting && query.page != Page::Planes).then_some(Lacking::Page(query.page))
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

    /// Returns whether a reply still belongs to the device. If not, its readings are dropped.
    fn is_current(&mut self, transaction: &Transaction) -> bool {
        let index = transaction.device;
        let is_current = transaction.generation == self.devices[index as usize].generation;
        if !is_current {
            for active in self.physical.all_of(index) {
                (active.sent, active.page, active.images) = (None, MAX_PAGES, [None; MAX_PAGES]);
            }
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
                for active in self.physical.all_of(index) {
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
            active.sent = None;
            let is_reason = active.job.kind == PhysicalKind::Phy;
            match &mut active.job.occasion {
                Occasion::LinkDown(tries) if is_reason && *tries + 1 < TRIES => *tries += 1,
                _ => active.advance(),
            }
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

/// Returns the place of a port among the times of the last readings, or that of a plane.
const fn place_of(kind: PhysicalKind, port: u32, plane: u8) -> usize {
    match kind {
        PhysicalKind::Planes => {
            port as usize * MAX_PLANES as usize + plane.saturating_sub(1) as usize
        }
        _ => port as usize,
    }
}

impl Physical {
    /// Returns whether reasons of links that went down are to be read.
    fn has_reasons(&self) -> bool {
        let is_reason =
            |active: &Active| active.job.is_link_down() && active.job.kind == PhysicalKind::Phy;
        !self.due[LINK_DOWN].is_empty() || self.active.iter().any(is_reason)
    }

    /// Returns the readings of a device that have started.
    fn all_of(&mut self, device: u32) -> impl Iterator<Item = &mut Active> {
        let active = self.active.iter_mut();
        active.filter(move |active| active.device == device)
    }

    /// Makes a periodic reading due again.
    fn repeat(&mut self, job: Job, now: Instant) {
        let (Some(config), Occasion::Periodic(_)) = (self.config, job.occasion) else {
            return;
        };
        let due = (job.due + config.interval(job.kind, job.is_switch)).max(now);
        self.due[PERIODIC + job.times()].push_back(Job { due, ..job });
    }
}
