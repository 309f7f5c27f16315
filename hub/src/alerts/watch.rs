//! Finds the conditions that are true: from the samplers and events of the hub, and from the links,
//! trees and errors that [`evaluated`](crate::query::evaluated) computes for its answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ibnet_analysis::devices::DeviceFault;
use ibnet_analysis::errors::{LinkFault, Thresholds};
use ibnet_analysis::ports::{PortKey, PortName};
use ibnet_analysis::trees::{Limits, RegionRow, RootCause, TreeRow, Trees};
use ibnet_record::ERROR_COUNTERS;
use ibnet_record::count::count;
use ibnet_record::registers::link_down;
use ibnet_record::types::{NodeKind, PortNum, Printable};
use serde::{Deserialize, Serialize};

use super::conditions::{self, Condition};
use super::machine::{Alert, Finding, Subject};
use super::settings::{self, Settings};
use crate::events::{EventRow, Filter};
use crate::live::topology::Topology;
use crate::query::congestion;
use crate::query::error::ApiError;
use crate::query::evaluated::{self, Evaluated};
use crate::query::health::{self, HealthLink};
use crate::query::managers;
use crate::samplers::Sampler;
use crate::state::{Hub, Now};

const SECOND_NS: u64 = 1_000_000_000;

/// Time between two looks.
pub(crate) const EVERY_NS: u64 = 10 * SECOND_NS;

/// Length of the time range whose records are evaluated at a time. Each evaluation also reads the
/// two minutes before its range, for the counters at its begin, so a shorter one costs more.
const RANGE_NS: u64 = 3 * EVERY_NS;

/// Time over which errors are added up, time for which a slower link counts as degraded, and time
/// for which a change of the subnet manager is reported, as in the rules for Prometheus.
const ERRORS_NS: u64 = 3600 * SECOND_NS;
const DEGRADED_NS: u64 = 24 * ERRORS_NS;
const SM_CHANGE_NS: u64 = 600 * SECOND_NS;

/// Time over which missed slots and dropped records of a sampler are counted, and the share of
/// slots that a sampler may miss in this time.
const SAMPLER_NS: u64 = 300 * SECOND_NS;
const MISSED_SHARE: f64 = 0.01;

/// Time after which the thread that reads the records no longer works.
const STUCK: Duration = Duration::from_secs(60);

/// The counter of the times that a link went down.
const LINK_DOWNED: &str = "link_downed_counter";

/// Max number of counters with errors in the last hour. There must be a limit because an input can
/// invent ports.
const MAX_COUNTERS: usize = 50_000;

/// Time for which an ended region of congestion is kept, and max number of waiting ports in all
/// regions together.
const REGIONS_NS: u64 = 3600 * SECOND_NS;
const MAX_WAITING: usize = 500_000;

/// Max number of jobs that an event names.
const MAX_JOBS: usize = 10;

/// What precedes the jobs that caused and that suffered a region, in the text of its end.
pub(crate) const JOBS_OF_REGION: [&str; 2] =
    ["; jobs that caused it: ", "; jobs that suffered it: "];

/// Root, cause and begin of a region of congestion.
type RegionId = (PortKey, RootCause, u64);

/// Remembers what a condition needs from earlier records.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// End of the records that were evaluated, in nanoseconds since 1970.
    evaluated_ns: u64,
    /// What the last evaluation found, and the ports that had records then.
    found: Vec<Finding>,
    known: BTreeSet<PortKey>,
    /// The regions of congestion whose begin was reported as an event.
    reported: BTreeSet<RegionId>,
    /// For each port with errors in the last hour and each condition: increases by the start of
    /// their minute.
    errors: BTreeMap<(PortKey, &'static str), VecDeque<(u64, u64)>>,
    /// For each port: the highest data rate of its link, and when the link last had it. `slower`
    /// has the ports whose link is slower now, or was slower before a restart.
    fastest: BTreeMap<PortKey, (f64, u64)>,
    slower: BTreeMap<PortKey, (f64, u64)>,
    /// For each HCA port of a sampler: time, missed slots and dropped records, as totals.
    totals: BTreeMap<String, VecDeque<(u64, u64, u64)>>,
    /// Monotonic time of the last look, and whether it found a subnet manager.
    looked: Duration,
    has_manager: bool,
}

/// What a restart of the hub continues. Without it, a condition that follows from an hour or a day
/// would be over after a restart.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Remembered {
    /// End of the records that were evaluated.
    EvaluatedNs(u64),
    /// Errors of a port in the last hour.
    Errors {
        port: PortKey,
        condition: String,
        minutes: VecDeque<(u64, u64)>,
    },
    /// A link that is slower than it was.
    Slower { port: PortKey, best: (f64, u64) },
}

impl Watch {
    /// Returns what a restart continues.
    pub(crate) fn remembered(&self) -> Vec<Remembered> {
        let errors = self.errors.iter();
        let errors = errors.map(|((port, condition), minutes)| Remembered::Errors {
            port: *port,
            condition: (*condition).to_owned(),
            minutes: minutes.clone(),
        });
        let slower = self.slower.iter().map(|(port, best)| Remembered::Slower {
            port: *port,
            best: *best,
        });
        std::iter::once(Remembered::EvaluatedNs(self.evaluated_ns))
            .chain(errors)
            .chain(slower)
            .collect()
    }

    /// Continues with what an earlier run remembered. Returns whether it can be used.
    pub(crate) fn restore(&mut self, remembered: Remembered) -> bool {
        match remembered {
            Remembered::EvaluatedNs(time) => self.evaluated_ns = time,
            Remembered::Errors {
                port,
                condition,
                minutes,
            } => {
                let condition = settings::named(&condition);
                let has_room = self.errors.len() < MAX_COUNTERS;
                let Some(condition) = condition.filter(|_| has_room) else {
                    return false;
                };
                self.errors.insert((port, condition.name), minutes);
            }
            Remembered::Slower { port, best } => {
                if self.slower.len() >= MAX_COUNTERS {
                    return false;
                }
                self.slower.insert(port, best);
            }
        }
        true
    }

    /// Returns all conditions that are true now.
    pub(crate) fn look(
        &mut self,
        hub: &Hub,
        now: Now,
        settings: &Settings,
    ) -> Result<Vec<Finding>, ApiError> {
        if now.monotonic.saturating_sub(hub.read().now) > STUCK {
            return Err(ApiError::failed(
                "the thread that reads the records does not work",
            ));
        }
        self.evaluate(hub, settings)?;
        let topology = Arc::clone(&hub.read().topology);
        let mut all = self.found.clone();
        self.find_degraded(&topology, now.wall_ns, &mut all);
        let (samplers, is_behind) = {
            let state = hub.read();
            (state.samplers.rows(), state.is_behind())
        };
        for sampler in samplers.iter().filter(|sampler| sampler.is_live()) {
            self.find_sampler(sampler, (now.wall_ns, hub.every), &mut all);
        }
        self.totals
            .retain(|_, totals| totals.back().is_some_and(|last| last.0 == now.wall_ns));
        if is_behind {
            all.push(of_fabric(
                &conditions::HUB_BEHIND,
                "The hub processes records more slowly than they arrive".to_owned(),
            ));
        }
        self.looked = now.monotonic;
        self.has_manager = find_managers(hub, now.wall_ns, &mut all);
        all.extend(health::faulty(hub).into_iter().map(unhealthy));
        let planes = health::faulty_planes(hub).into_iter();
        all.extend(planes.map(|(port, why)| {
            let summary = format!("{}: {why}", of_port(&port));
            at_port(&conditions::PLANE_FAULT, &port, summary)
        }));
        Ok(all)
    }

    /// Returns whether the records that have arrived show the condition of an alert. After a
    /// restart, they do not for some time.
    pub(crate) fn knows(&self, alert: &Alert) -> bool {
        let (condition, subject) = (alert.condition, &alert.subject);
        if let Some(guid) = subject.guid {
            let (first, last) = subject
                .port
                .map_or((PortNum(0), PortNum(u8::MAX)), |port| (port, port));
            let mut known = self.known.range((guid, first)..=(guid, last));
            return known.next().is_some();
        }
        if let Some(sampler) = &subject.sampler {
            let is_sum =
                *condition == conditions::SLOTS_MISSED || *condition == conditions::RECORDS_DROPPED;
            let totals = self.totals.get(sampler);
            return totals.is_some_and(|totals| !is_sum || covers(totals));
        }
        match condition {
            _ if *condition == conditions::SM_CHANGED => {
                self.looked >= Duration::from_nanos(SM_CHANGE_NS)
            }
            _ if *condition == conditions::SM_SILENT => self.has_manager,
            _ => true,
        }
    }

    /// Evaluates the records that have arrived since the last evaluation.
    fn evaluate(&mut self, hub: &Hub, settings: &Settings) -> Result<(), ApiError> {
        let (arrived_ns, interval_ns) = {
            let state = hub.read();
            (state.arrived_ns(), state.samplers.interval_ns().max(1))
        };
        // A recording is not evaluated before it has been read.
        let Some(arrived_ns) = arrived_ns.filter(|arrived_ns| *arrived_ns > 0) else {
            return Ok(());
        };
        let to = arrived_ns / interval_ns * interval_ns;
        let length_ns = RANGE_NS.max(interval_ns);
        // After a clock was corrected, the newest records can be older.
        if to.saturating_add(ERRORS_NS) < self.evaluated_ns {
            self.evaluated_ns = to;
            hub.set_regions(Trees::no_regions());
            return Ok(());
        }
        let is_new = to >= self.evaluated_ns.saturating_add(length_ns);
        // After a restart, the records of a recording are evaluated again, without their errors.
        let is_again = self.known.is_empty() && to <= self.evaluated_ns;
        if !is_new && !is_again {
            return Ok(());
        }
        let earliest = to.saturating_sub(6 * length_ns);
        let from = if is_new {
            self.evaluated_ns.max(earliest)
        } else {
            earliest
        };
        let found = evaluated::evaluate(hub, (from, to))?;
        self.evaluated_ns = self.evaluated_ns.max(to);
        self.known = found.ports().keys().copied().collect();
        self.found = Vec::new();
        self.find_faults(hub, &found, (to, is_new), settings);
        let seconds = (to - from) as f64 / SECOND_NS as f64;
        let mut regions = Trees::clone(&hub.regions());
        let trees = found.follow(Limits::default(), &mut [&mut regions]);
        // A root of more than half of the time range is no short burst.
        let roots = trees
            .trees
            .iter()
            .filter(|tree| tree.cause != RootCause::Unclear && tree.seconds > seconds / 2.0);
        let by_root = regions.by_root();
        let mut begun = BTreeSet::new();
        for tree in roots {
            let of_root = by_root.get(&(tree.root, tree.cause)).into_iter().flatten();
            let region = of_root.max_by_key(|region| region.span_ns);
            self.found.push(Finding {
                region: region.map(|region| regions.region_name(region)),
                since_ns: region.map(|region| region.span_ns.0),
                ..root_finding(trees.row(tree))
            });
            begun.extend(region.map(|region| (tree.root, tree.cause, region.span_ns.0)));
        }
        self.report(hub, &regions, begun);
        regions.forget_before(to.saturating_sub(REGIONS_NS), MAX_WAITING);
        hub.set_regions(regions);
        Ok(())
    }

    /// Adds the events about these regions if they have none yet, and about those that ended.
    fn report(&mut self, hub: &Hub, regions: &Trees, begun: BTreeSet<RegionId>) {
        let mut events = Vec::new();
        let by_root = regions.by_root();
        let region = |(root, cause, since): &RegionId| {
            let of_root = by_root.get(&(*root, *cause)).into_iter().flatten();
            of_root.copied().find(|region| region.span_ns.0 == *since)
        };
        let new = begun.difference(&self.reported).filter_map(region);
        events.extend(new.map(|region| {
            let detail = why(region.cause).to_owned();
            (region, region.span_ns.0, "congestion_began", detail)
        }));
        self.reported.extend(begun);
        let mut ended = Vec::new();
        self.reported.retain(|key| {
            let region = region(key);
            ended.extend(region.filter(|region| regions.has_ended(region)));
            region.is_some_and(|region| !regions.has_ended(region))
        });
        if !ended.is_empty() {
            let runs = congestion::runs(hub, regions);
            events.extend(ended.into_iter().map(|region| {
                let detail = ended_text(&regions.region(region, &runs, None));
                (region, region.span_ns.1, "congestion_ended", detail)
            }));
        }
        let mut state = hub.write();
        for (region, ts, event, detail) in events {
            let (guid, port) = region.root;
            state.events.add(EventRow {
                guid: Some(guid),
                port: Some(port),
                node: Some(regions.name(region.root).node.into()),
                region: Some(regions.region_name(region)),
                ..EventRow::of_hub(ts, event, detail)
            });
        }
    }

    /// Finds dead devices, links that are down, and counters with more errors than their limit.
    /// `to` is the end of the records; they are new if they were not evaluated before.
    fn find_faults(
        &mut self,
        hub: &Hub,
        found: &Evaluated,
        (to, is_new): (u64, bool),
        settings: &Settings,
    ) {
        let mut thresholds = Thresholds::default();
        // The limits below apply to the sum of an hour.
        let _ = thresholds.set("all=0");
        let errors = found.errors(&thresholds);
        let reasons = down_reasons(hub);
        for device in errors
            .devices
            .iter()
            .filter(|device| device.fault == DeviceFault::Unreachable)
        {
            let (condition, kind) = match device.kind {
                Some(NodeKind::Switch) => (&conditions::SWITCH_DEAD, "Switch"),
                _ => (&conditions::HCA_DEAD, "HCA"),
            };
            let behind = match device.behind.len() {
                0 => String::new(),
                1 => ", nor does 1 device behind it".to_owned(),
                number => format!(", nor do {number} devices behind it"),
            };
            let mut summary = format!("{kind} {} does not answer{behind}", name(&device.port.node));
            let key = (device.port.guid, device.port.port);
            let reason = reason_of(&reasons, found, key);
            let reason = reason.filter(|_| *condition == conditions::HCA_DEAD);
            let condition = explain(condition, reason, &mut summary);
            let mut finding = at_port(condition, &device.port, summary);
            finding.subject.port = None;
            self.found.push(finding);
        }
        for port in &errors.faulty {
            let own = PortName::new(&port.summary.node, port.key);
            if port.fault == Some(LinkFault::Down)
                && is_first_end(found, port.key, port.summary.peer)
            {
                let peer = port
                    .summary
                    .peer_port()
                    .map(|peer| format!(" to {}", of_port(&peer)));
                let mut summary = format!(
                    "The link of {}{} is down",
                    of_port(&own),
                    peer.unwrap_or_default()
                );
                let reason = reason_of(&reasons, found, port.key);
                let condition = explain(&conditions::LINK_DOWN, reason, &mut summary);
                self.found.push(at_port(condition, &own, summary));
            }
            for (index, change) in port.changes() {
                let counter = ERROR_COUNTERS[index];
                let condition = conditions::ERRORS
                    .iter()
                    .find(|condition| condition.counter.is_some_and(|(name, _)| name == counter));
                if let Some(condition) = condition.filter(|_| is_new) {
                    self.count((port.key, condition.name), to, change.increase);
                }
            }
        }
        self.errors.retain(|_, minutes| {
            minutes.retain(|(minute, _)| minute.saturating_add(ERRORS_NS) > to);
            !minutes.is_empty()
        });
        for condition in &conditions::ERRORS {
            let Some((counter, limit)) = condition.counter else {
                continue;
            };
            let limit = settings.limit(condition, limit);
            let of_condition = self.errors.iter();
            let of_condition = of_condition.filter(|((_, name), _)| *name == condition.name);
            let sum = |minutes: &VecDeque<(u64, u64)>| {
                let increases = minutes.iter().map(|(_, increase)| *increase);
                increases.fold(0_u64, u64::saturating_add)
            };
            let over: BTreeMap<PortKey, u64> = of_condition
                .map(|((key, _), minutes)| (*key, sum(minutes)))
                .filter(|(_, sum)| *sum > limit)
                .collect();
            for (key, sum) in &over {
                let port = found.ports().get(key);
                let peer = port.and_then(|port| port.peer);
                let is_of_both = peer.is_some_and(|peer| over.contains_key(&peer));
                // Both ends count each time that their link goes down.
                if counter == LINK_DOWNED && is_of_both && !is_first_end(found, *key, peer) {
                    continue;
                }
                let port = PortName::new(port.map_or("", |port| &port.node), *key);
                let summary = format!(
                    "{counter} increased by {sum} within an hour at {}",
                    of_port(&port)
                );
                self.found.push(at_port(condition, &port, summary));
            }
        }
    }

    fn count(&mut self, key: (PortKey, &'static str), to: u64, increase: u64) {
        let is_full = self.errors.len() >= MAX_COUNTERS && !self.errors.contains_key(&key);
        if is_full {
            return;
        }
        let minute = to / (60 * SECOND_NS) * 60 * SECOND_NS;
        let minutes = self.errors.entry(key).or_default();
        match minutes.back_mut().filter(|last| last.0 == minute) {
            Some((_, sum)) => *sum = sum.saturating_add(increase),
            None => minutes.push_back((minute, increase)),
        }
    }

    /// Finds links that are slower than in the last day, or than in the net file.
    fn find_degraded(&mut self, topology: &Topology, wall_ns: u64, all: &mut Vec<Finding>) {
        let mut fastest = BTreeMap::new();
        self.slower
            .retain(|_, best| wall_ns.saturating_sub(best.1) < DEGRADED_NS);
        for port in &topology.ports {
            let Some(gbps) = port.gbps else { continue };
            let key = (port.guid, port.port);
            let known = self.slower.get(&key).or_else(|| self.fastest.get(&key));
            let best = match known {
                Some(best) if best.0 > gbps && wall_ns.saturating_sub(best.1) < DEGRADED_NS => {
                    *best
                }
                _ => (gbps, wall_ns),
            };
            fastest.insert(key, best);
            if gbps >= best.0 {
                self.slower.remove(&key);
            } else if self.slower.len() < MAX_COUNTERS {
                self.slower.insert(key, best);
            }
            let peer = port.peer.and_then(|peer| topology.ports.get(peer as usize));
            let is_second = peer.is_some_and(|peer| {
                is_before((peer.kind, (peer.guid, peer.port)), (port.kind, key))
            });
            if gbps < best.0 && !is_second {
                let own = PortName::new(&port.node, key);
                let summary = format!(
                    "The link of {} is {}: {gbps} Gb/s instead of {} Gb/s",
                    of_port(&own),
                    port.link,
                    best.0
                );
                all.push(at_port(&conditions::LINK_DEGRADED, &own, summary));
            }
        }
        self.fastest = fastest;
    }

    fn find_sampler(
        &mut self,
        sampler: &Sampler,
        (wall_ns, every): (u64, u64),
        all: &mut Vec<Finding>,
    ) {
        let mut add = |condition, what: String| {
            all.push(Finding {
                condition,
                subject: Subject {
                    sampler: Some(sampler.title.clone()),
                    ..Subject::default()
                },
                node: None,
                summary: format!("Sampler {} {what}", name(&sampler.title)),
                region: None,
                since_ns: None,
            });
        };
        if !sampler.connected {
            add(&conditions::SAMPLER_DOWN, "sends no records".to_owned());
        } else if sampler.answered.back() == Some(&0.0) {
            add(
                &conditions::SAMPLER_BLIND,
                "gets no reply from any of its ports".to_owned(),
            );
        }
        if sampler.wrong_clock {
            let seconds = sampler.clock_distance_ns.unwrap_or(0) as f64 / SECOND_NS as f64;
            add(
                &conditions::CLOCK_WRONG,
                format!("has a clock that is wrong by {seconds:.1} s"),
            );
        }
        let totals = self.totals.entry(sampler.title.clone()).or_default();
        totals.push_back((wall_ns, sampler.slots_missed, sampler.lines_lost));
        while totals
            .get(1)
            .is_some_and(|next| next.0 + SAMPLER_NS <= wall_ns)
        {
            totals.pop_front();
        }
        let first = totals.front().copied().unwrap_or_default();
        // Entries of roles that the hub does not know can share a title.
        let missed = sampler.slots_missed.saturating_sub(first.1);
        let lost = sampler.lines_lost.saturating_sub(first.2);
        // The sampler counts its own slots, of which the hub keeps one in `every`.
        let slots = SAMPLER_NS.saturating_mul(every) / sampler.interval_ns.max(1);
        if missed as f64 > MISSED_SHARE * slots as f64 {
            add(
                &conditions::SLOTS_MISSED,
                format!("missed {} in the last 5 minutes", count(missed, "slot")),
            );
        }
        if lost > 0 {
            add(
                &conditions::RECORDS_DROPPED,
                format!("dropped {} in the last 5 minutes", count(lost, "record")),
            );
        }
    }
}

/// Why links are down: whether that was intended, and the text.
type Reasons = BTreeMap<PortKey, (Option<bool>, String)>;

/// Returns why links are down, as devices have stated it for their own ports since they went down.
fn down_reasons(hub: &Hub) -> Reasons {
    const REASON: &str = "link_down_reason";
    let mut events = hub.read().events.select(&Filter {
        names: ["link_up", "link_down", REASON].map(str::to_owned).into(),
        ..Filter::all()
    });
    events.sort_by_key(|event| (event.ts, event.event == REASON));
    let mut reasons = BTreeMap::new();
    for event in events {
        let Some(key) = event.guid.zip(event.port) else {
            continue;
        };
        match &*event.event {
            "link_up" => {
                reasons.remove(&key);
            }
            "link_down" => {
                reasons.insert(key, None);
            }
            _ => {
                if let Some(reason) = reasons.get_mut(&key) {
                    *reason = Some((link_down::intended(&event.detail), event.detail));
                }
            }
        }
    }
    let known = reasons.into_iter();
    known
        .filter_map(|(key, reason)| Some((key, reason?)))
        .collect()
}

/// Returns the reason of one end of a link. An end that denies the intention comes first.
fn reason_of<'a>(
    reasons: &'a Reasons,
    found: &Evaluated,
    key: PortKey,
) -> Option<&'a (Option<bool>, String)> {
    let peer = found.ports().get(&key).and_then(|port| port.peer);
    let known = [Some(key), peer].into_iter().flatten();
    let known = known.filter_map(|key| reasons.get(&key));
    known.min_by_key(|(intended, _)| match intended {
        Some(false) => 0,
        Some(true) => 1,
        None => 2,
    })
}

/// Adds the reason to the summary of a finding. Returns its condition, which is another one if the
/// reason is no fault.
fn explain(
    condition: &'static Condition,
    reason: Option<&(Option<bool>, String)>,
    summary: &mut String,
) -> &'static Condition {
    let Some((intended, detail)) = reason else {
        return condition;
    };
    *summary += &format!(": {}", Printable(detail));
    if *intended == Some(true) {
        &conditions::INTENDED_DOWN
    } else {
        condition
    }
}

/// Finds changes and losses of the subnet manager. Returns whether one is known.
fn find_managers(hub: &Hub, wall_ns: u64, all: &mut Vec<Finding>) -> bool {
    let range = (wall_ns.saturating_sub(SM_CHANGE_NS), u64::MAX);
    let change = hub.read().events(&Filter {
        from: range.0,
        to: range.1,
        names: vec!["sm_change".to_owned()],
        guid: None,
        port: None,
        limit: 1,
    });
    if let Some(change) = change.first() {
        let summary = format!("Another subnet manager: {}", Printable(&change.detail));
        all.push(Finding {
            since_ns: Some(change.ts),
            ..of_fabric(&conditions::SM_CHANGED, summary)
        });
    }
    let managers = managers::find(hub, (0, u64::MAX)).rows;
    if !managers.is_empty() && !managers.iter().any(|manager| manager.is_master) {
        all.push(of_fabric(
            &conditions::SM_SILENT,
            "No subnet manager is the master".to_owned(),
        ));
    }
    !managers.is_empty()
}

/// Returns whether the totals of a sampler are those of the whole time over which it is judged.
fn covers(totals: &VecDeque<(u64, u64, u64)>) -> bool {
    let ends = totals.front().zip(totals.back());
    ends.is_some_and(|(first, last)| first.0 + SAMPLER_NS <= last.0 + EVERY_NS)
}

/// Returns the finding about a link that a person has to repair.
fn unhealthy(link: HealthLink) -> Finding {
    let serial = match &*link.serial {
        "" => String::new(),
        serial => format!("; serial number {}", Printable(serial)),
    };
    let (port, verdict, why) = (
        of_port(&link.port),
        link.verdict.as_str(),
        link.why.join(", "),
    );
    let summary = format!("{verdict} the cable or module at {port}: {why}{serial}");
    at_port(&conditions::LINK_UNHEALTHY, &link.port, summary)
}

/// Returns why a port is the root of congestion.
const fn why(cause: RootCause) -> &'static str {
    match cause {
        RootCause::SlowHost => "the host receives too slowly",
        RootCause::Unreachable => "the device behind it does not answer",
        RootCause::Full => "its link is full",
        RootCause::Unclear => "the cause is not clear",
    }
}

/// Returns the finding about a root of congestion.
fn root_finding(row: TreeRow) -> Finding {
    let summary = format!(
        "{} is the root of congestion, because {}; {} and {} wait",
        of_port(&row.root),
        why(row.why),
        count(row.host_ports, "host port"),
        count(row.switch_ports, "switch port")
    );
    at_port(&conditions::CONGESTION_ROOT, &row.root, summary)
}

/// Describes a region that ended.
fn ended_text(row: &RegionRow) -> String {
    let seconds = (row.until_ns - row.since_ns) as f64 / SECOND_NS as f64;
    let mut text = format!(
        "{seconds:.1} s, in which {} waited for {:.1} s in all",
        count(row.host_ports + row.switch_ports, "port"),
        row.held_up_seconds
    );
    for (start, causes) in JOBS_OF_REGION.into_iter().zip([true, false]) {
        let jobs = row.jobs.iter().filter(|job| job.causes == causes);
        let jobs: Vec<&str> = jobs.take(MAX_JOBS).map(|job| &*job.job).collect();
        if !jobs.is_empty() {
            text += &format!("{start}{}", jobs.join(", "));
        }
    }
    text
}

/// Returns whether a port stands for its link. A link with a fault at both ends has one alert.
fn is_first_end(found: &Evaluated, key: PortKey, peer: Option<PortKey>) -> bool {
    let kind = |key: &PortKey| found.ports().get(key).and_then(|port| port.kind);
    peer.filter(|peer| found.ports().contains_key(peer))
        .is_none_or(|peer| !is_before((kind(&peer), peer), (kind(&key), key)))
}

/// Returns whether the first port stands for a link: a port of a switch comes before that of a
/// host.
fn is_before(first: (Option<NodeKind>, PortKey), second: (Option<NodeKind>, PortKey)) -> bool {
    let order = |(kind, key)| (kind != Some(NodeKind::Switch), key);
    order(first) < order(second)
}

fn name(text: &str) -> Printable<'_> {
    Printable(text)
}

fn of_port(port: &PortName) -> String {
    let node = if port.node.is_empty() {
        port.guid.to_string()
    } else {
        name(&port.node).to_string()
    };
    format!("{node} port {}", port.port)
}

fn at_port(condition: &'static Condition, port: &PortName, summary: String) -> Finding {
    Finding {
        condition,
        subject: Subject {
            guid: Some(port.guid),
            port: Some(port.port),
            sampler: None,
        },
        node: Some(port.node.to_string()).filter(|node| !node.is_empty()),
        summary,
        region: None,
        since_ns: None,
    }
}

fn of_fabric(condition: &'static Condition, summary: String) -> Finding {
    Finding {
        condition,
        subject: Subject::default(),
        node: None,
        summary,
        region: None,
        since_ns: None,
    }
}
