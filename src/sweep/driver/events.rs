//! Turns events of the engine into `event` records, and logs the important ones.

use std::fmt::Display;

use ibnet_record::reader::Type;
use ibnet_record::types::{Guid, Lid, LinkRate, PortNum, Printable};
use ibnet_record::{EventName, EventRecord, LinkSource, Of, Status};

use super::reconnect::Reconnected;
use super::{Clock, Control, Driver, DriverSettings, NAMED_IN_LOG, is_news};
use crate::mad::smp::PortInfo;
use crate::mad::transport::{Transport, TransportError};
use crate::sweep::engine::{Event, Key, Lacking, SmpWays};
use crate::sweep::port_record::PortIdentity;
use crate::sweep::routes::End;
use crate::sweep::window::Change;

impl<T: Transport, C: Clock> Driver<T, C> {
    /// Handles an event of the engine: writes its record, or keeps it until the end of the slot.
    pub(super) fn take_event(&mut self, event: Event, slot: u64) {
        match event {
            Event::Port(port) => self.settled.push(port),
            Event::GroupUnsupported { device, group } => {
                self.unsupported.push((self.first_ports[device], group));
            }
            Event::Unreachable(device) => self.changed.push((self.first_ports[device], false)),
            Event::Reachable(device) => self.take_reachable(self.first_ports[device]),
            Event::WrongDevice { device, found } => self.report_wrong_device(slot, device, found),
            Event::RightDevice(device) => {
                let port = self.first_ports[device];
                self.log_identity(port, "the device is at its LID again");
                self.write_event(
                    slot,
                    EventName::RightDevice,
                    Some(port),
                    "the device is at its LID again",
                );
            }
            Event::LidChange { device, from, to } => self.report_lid_change(slot, device, from, to),
            Event::Link(port) => self.take_link(slot, port),
            Event::Peer { port, found } => self.report_peer(slot, port, found),
            Event::Physical => self.write_physical(slot),
            Event::Forwarding => self.write_forwarding(slot),
            Event::RoutesChanged { device, entries } => {
                let port = self.first_ports[device];
                let node = &self.ports[port].node;
                tracing::info!(node = %Printable(node), entries, "the forwarding table of the switch changed");
                let detail = format!("{entries} entries of the linear forwarding table");
                self.write_event(slot, EventName::RoutesChanged, Some(port), &detail);
            }
            Event::PhysicalUnsupported { device, lacking } => {
                let detail = match lacking {
                    Lacking::Registers => {
                        "the device has no registers for queries of class 0x0A (AccessRegisterGMP)"
                            .to_owned()
                    }
                    Lacking::Silent => {
                        "the device does not answer queries of class 0x0A".to_owned()
                    }
                    Lacking::Page(page) => {
                        format!("{page}: the device does not have this register")
                    }
                };
                let port = self.first_ports[device];
                let node = &self.ports[port].node;
                tracing::debug!(node = %Printable(node), "{detail}");
                self.write_event(slot, EventName::PhysicalUnsupported, Some(port), &detail);
            }
            Event::PhysicalLate {
                kind,
                every,
                is_late,
            } => {
                let (name, detail) = if is_late {
                    tracing::warn!(%kind, ?every, "the physical layer is read less often than configured; raise budget or every in [physical]");
                    let detail = format!("{kind}: {} s between two readings", every.as_secs());
                    (EventName::PhysicalLate, detail)
                } else {
                    tracing::info!(%kind, "the physical layer is read as often as configured again");
                    (
                        EventName::PhysicalOnTime,
                        format!("{kind}: as often as configured"),
                    )
                };
                self.write_event(slot, name, None, &detail);
            }
            Event::Redirected {
                device,
                to,
                unserved_pkey,
            } => {
                let port = self.first_ports[device];
                tracing::info!(lid = %self.ports[port].lid, %to, "the device redirects queries for counters to another agent");
                let mut detail = format!("its counters are asked of LID {to}");
                if let Some(pkey) = unserved_pkey {
                    detail += &format!(
                        "; its P_Key {pkey:#06x} matches none in the P_Key table of this port"
                    );
                }
                self.write_event(slot, EventName::Redirected, Some(port), &detail);
            }
            Event::KeyDemanded { device, key } => {
                let detail = match key {
                    Key::M => {
                        "NodeInfo is not answered: the device may demand an M_Key; its identity and its links cannot be checked"
                    }
                    Key::Pm => {
                        "its agent gives no counters and can demand a PM_Key: it may want one"
                    }
                    Key::Vendor => {
                        "registers are not answered: the device may demand a VS_Key; its physical layer cannot be read"
                    }
                };
                let port = self.first_ports[device];
                self.log_identity(port, detail);
                self.write_event(slot, EventName::KeyDemanded, Some(port), detail);
            }
            Event::NoRoute(device) => {
                let detail = "no known route leads to the device any more; its identity and its links cannot be checked: look for a cable that is cut or moved, or write the plan again with ibnet-gen; or the device demands an M_Key now";
                let port = self.first_ports[device];
                self.log_identity(port, detail);
                self.write_event(slot, EventName::NoRoute, Some(port), detail);
            }
            Event::Window(Change { from, to }) => {
                let detail = format!("from {from} to {to} MADs under way");
                if to < from {
                    tracing::info!(
                        from,
                        to,
                        "window halved, because devices that answer lose more MADs than usual; sweeps take longer until it is restored"
                    );
                } else {
                    tracing::info!(from, to, "the window is larger again");
                }
                self.write_event(
                    slot,
                    if to < from {
                        EventName::WindowHalved
                    } else {
                        EventName::WindowRestored
                    },
                    None,
                    &detail,
                );
            }
            Event::ClearRefused(device) => {
                let port = self.first_ports[device];
                let detail = "the device does not clear its counters by service level; they stop at their max";
                self.log_identity(port, detail);
                self.write_event(slot, EventName::ClearRefused, Some(port), detail);
            }
            Event::SubnetManager(manager) => self.report_manager(slot, manager),
            Event::SubnetManagerGone(manager) => self.report_manager_gone(slot, manager),
            Event::MasterChange { from, to } => self.report_master_change(slot, from, to),
            Event::DiscoveryDone | Event::SlotDone => {}
        }
    }

    /// Logs a message about the device of a port.
    fn log_identity(&self, port: usize, message: &str) {
        let PortIdentity {
            node, guid, lid, ..
        } = &self.ports[port];
        tracing::info!(node = %Printable(node), %guid, %lid, "{message}");
    }

    fn report_wrong_device(&mut self, slot: u64, device: usize, found: Guid) {
        let port = self.first_ports[device];
        let PortIdentity {
            node, guid, lid, ..
        } = &self.ports[port];
        tracing::warn!(node = %Printable(node), %guid, %lid, %found, "another device answers at this LID; its data is dropped");
        self.reset_readings(device);
        self.write_event(
            slot,
            EventName::WrongDevice,
            Some(port),
            &format!("the device at this LID is {found}"),
        );
    }

    /// Reports the device at the other end of a cable. Its name is known only if this sampler's
    /// plan has the device.
    fn report_peer(&mut self, slot: u64, port: usize, found: End) {
        let PortIdentity {
            node,
            port: num,
            peer,
            ..
        } = &self.ports[port];
        let planned = peer
            .as_ref()
            .map(|(guid, port, name)| ((*guid, *port), Some(name.as_str())));
        let name = self
            .ports
            .iter()
            .find(|port| port.guid == found.0)
            .map(|port| port.node.as_str());
        let detail = peer_detail((found, name), planned);
        tracing::warn!(node = %Printable(node), port = %num, "{detail}");
        self.write_event(slot, EventName::PeerChanged, Some(port), &detail);
    }

    fn report_lid_change(&mut self, slot: u64, device: usize, from: Lid, to: Lid) {
        let ports = self.ports_of(device);
        self.ports[ports.clone()]
            .iter_mut()
            .for_each(|port| port.lid = to);
        self.reset_readings(device);
        let PortIdentity { node, guid, .. } = &self.ports[ports.start];
        tracing::info!(node = %Printable(node), %guid, %from, %to, "the LID of the device changed");
        self.write_event(
            slot,
            EventName::LidChange,
            Some(ports.start),
            &format!("from LID {from} to LID {to}"),
        );
    }

    /// Resets the readings of a device, so that no rate is computed from counters of two devices.
    fn reset_readings(&mut self, device: usize) {
        for port in self.ports_of(device) {
            self.readings[port].clear();
            self.links[port].forget();
        }
    }

    fn ports_of(&self, device: usize) -> std::ops::Range<usize> {
        let end = self.first_ports.get(device + 1).copied();
        self.first_ports[device]..end.unwrap_or(self.ports.len())
    }

    /// Takes the state of a link, its rate, MTU and VLs from PortInfo, and reports changes.
    fn take_link(&mut self, slot: u64, port: usize) {
        let Some((info, mask)) = self.engine.link(port) else {
            return;
        };
        self.ports[port].limits = Some(info.limits);
        let active = info.state == PortInfo::ACTIVE;
        if self.links[port].set_up(active) {
            let event = if active {
                EventName::LinkUp
            } else {
                EventName::LinkDown
            };
            tracing::info!(node = %Printable(&self.ports[port].node), port = %self.ports[port].port, state = state_name(info.state), "{}", if active { "the link is up" } else { "the link is down" });
            self.write_event(slot, event, Some(port), state_name(info.state));
            if !active {
                self.engine.read_link_down(port, self.clock.now());
            }
        }
        if !active {
            // The other fields have no meaning while the link is down.
            return;
        }
        let identity = &mut self.ports[port];
        let now = refined(info.rate(mask), &identity.link);
        identity.link_source = LinkSource::Live;
        // The link may have had either rate during the interval that ends now; the faster one
        // counts as its capacity.
        self.readings[port].capacity_gbps = [now.data_gbps(), identity.link.data_gbps()]
            .into_iter()
            .flatten()
            .reduce(f64::max);
        self.engine
            .set_capacity(port, self.readings[port].capacity_gbps);
        let before = std::mem::replace(&mut identity.link, now.clone());
        // A value that becomes known is not a change.
        let rate = (now != before && before.data_gbps().is_some())
            .then(|| format!("from {before} to {now}"));
        let mtu = changed("MTU", &mut identity.mtu, info.mtu());
        let vls = changed("data VLs", &mut identity.vls, info.data_vls());
        let changes: Vec<String> = [rate, mtu, vls].into_iter().flatten().collect();
        if !changes.is_empty() {
            let detail = changes.join(", ");
            tracing::info!(node = %Printable(&identity.node), port = %identity.port, change = %Printable(&detail), "the link has another width, speed, MTU or number of VLs");
            self.write_event(slot, EventName::LinkChange, Some(port), &detail);
        }
    }

    /// Reports counter groups that devices do not support: one event for each, and one log message
    /// for each if there are few, otherwise a log message with their number.
    pub(super) fn report_unsupported(&mut self, slot: u64) {
        let unsupported = std::mem::take(&mut self.unsupported);
        for (port, group) in &unsupported {
            self.write_event(
                slot,
                EventName::GroupUnsupported,
                Some(*port),
                group.as_str(),
            );
        }
        match unsupported.len() {
            0 => {}
            1..=NAMED_IN_LOG => unsupported.iter().for_each(|(port, group)| {
                let PortIdentity { node, guid, lid, .. } = &self.ports[*port];
                tracing::info!(node = %Printable(node), %guid, %lid, %group, "the device does not support this counter group");
            }),
            groups => tracing::info!(groups, "some devices do not support some counter groups; see the group_unsupported events"),
        }
    }

    /// Logs the ways of SMPs, if they are not all by LID and have changed.
    pub(super) fn report_smp_ways(&mut self) {
        let ways = self.engine.smp_ways();
        let before = std::mem::replace(&mut self.smp_ways, ways);
        let SmpWays {
            by_lid,
            by_route,
            unknown,
        } = ways;
        if unknown > before.unknown {
            tracing::warn!(
                devices = unknown,
                "no cables of the plan lead from this HCA port to some devices, so they get no SMPs: they stay unverified, and their links are those of the plan; write the plan with ibnet-gen from a net file of the whole fabric"
            );
        }
        if by_route != before.by_route {
            tracing::info!(
                by_route,
                by_lid,
                "devices answer SMPs by directed routes, not by LID"
            );
        }
    }

    /// Handles a device that became reachable. Its return is reported only if its absence was.
    fn take_reachable(&mut self, port: usize) {
        match self.changed.iter().position(|held| *held == (port, false)) {
            Some(place) => drop(self.changed.remove(place)),
            None => self.changed.push((port, true)),
        }
    }

    /// Reports devices that became unreachable or reachable, unless the sending port may be the
    /// cause. If no agent answered, the reports wait until the state of the sending port was read
    /// again; if this port is down or gone, they wait until a device answers.
    pub(super) fn report_reachability_if_known(&mut self, slot: u64) {
        let stats = self.engine.stats();
        let has_replies = !stats.rtt.longest.is_zero();
        self.silent_since = if has_replies {
            None
        } else {
            self.silent_since.or(Some(stats.started))
        };
        let is_located = self.latest_location.is_none()
            || self
                .silent_since
                .is_none_or(|since| self.located_at >= since);
        if is_located && !self.transport.is_lost() {
            self.report_reachability(slot);
        }
    }

    /// Reports devices that became unreachable or reachable: one event for each, and one log
    /// message for each if there are few, otherwise a log message with their number.
    pub(super) fn report_reachability(&mut self, slot: u64) {
        let changed = std::mem::take(&mut self.changed);
        for (answers, event, detail, text) in [
            (
                false,
                EventName::Unreachable,
                "no MAD of a whole slot was answered",
                "the device does not answer any more",
            ),
            (
                true,
                EventName::Reachable,
                "answers again",
                "the device answers again",
            ),
        ] {
            let of_kind = || {
                changed
                    .iter()
                    .filter(|(_, now)| *now == answers)
                    .map(|(port, _)| *port)
            };
            for port in of_kind() {
                self.write_event(slot, event, Some(port), detail);
            }
            match of_kind().count() {
                0 => {}
                1..=NAMED_IN_LOG => of_kind().map(|port| &self.ports[port]).for_each(
                    |PortIdentity {
                         node, guid, lid, ..
                     }| {
                        tracing::info!(node = %Printable(node), %guid, %lid, "{text}");
                    },
                ),
                devices => {
                    tracing::info!(
                        devices,
                        "several devices are now {event}; see the {event} events"
                    );
                }
            }
        }
    }

    /// Handles the error of a MAD that could not be sent.
    pub(super) fn take_send_error(&mut self, error: TransportError, slot: u64) {
        if self.transport.is_lost() {
            // The loss is already reported.
            return;
        }
        if error.is_lost() {
            self.lose_transport(error, slot);
        } else if !matches!(error, TransportError::NoAgent { .. }) {
            // Without an agent for a class some checks are impossible, but the transport works.
            self.send_error = Some(error);
        }
    }

    /// Marks the transport as lost, so no MAD in flight will be answered. The slots continue if
    /// the transport can be opened again; otherwise the driver ends.
    pub(super) fn lose_transport(&mut self, error: TransportError, slot: u64) {
        if !self.transport.can_reopen() {
            self.failure.get_or_insert(error);
            return;
        }
        let now = self.clock.now();
        tracing::warn!(%error, "the HCA port is lost; opening it again, and no device is queried until then");
        self.write_event(slot, EventName::UmadLost, None, &error.to_string());
        self.transport.lose(error.errno(), now);
        self.engine.transport_lost(error.errno(), now);
        self.send_error = None;
    }

    /// Continues the attempts to open a lost transport. Once it is open, every device is verified,
    /// because all LIDs may have changed.
    pub(super) fn poll_reconnect(&mut self, control: &Control, slot: u64) {
        let reconnected = self.transport.poll(self.clock.now(), control.wake());
        let Some(Reconnected {
            after,
            hca,
            pkey_index,
            pkey_table,
            local,
        }) = reconnected
        else {
            return;
        };
        self.engine.transport_restored(pkey_index, pkey_table);
        self.take_hca_name(hca);
        let place = local.map(|local| {
            format!(
                "; this host is at LID {}, the subnet manager at LID {}",
                local.lid, local.sm_lid
            )
        });
        let detail = format!(
            "after {:.1} s{}",
            after.as_secs_f64(),
            place.unwrap_or_default()
        );
        tracing::info!(seconds = after.as_secs_f64(), "the HCA port is open again");
        self.write_event(slot, EventName::UmadBack, None, &detail);
        if let Some(local) = local {
            self.set_local(local, slot);
        }
    }

    /// Stores the current name of the HCA, and writes a new `start` record if the name has
    /// changed.
    fn take_hca_name(&mut self, hca: Option<(String, PortNum)>) {
        let Some((ca, ca_port)) =
            hca.filter(|(ca, port)| (ca, *port) != (&self.settings.ca, self.settings.ca_port))
        else {
            return;
        };
        tracing::info!(from = %self.settings.ca, to = %ca, "the HCA has another name now");
        (self.settings.ca, self.settings.ca_port) = (ca, ca_port);
        if self.has_started {
            self.write_start(self.clock.read_wall());
        }
    }

    /// Reports that MADs could not be sent. The report is not repeated until all MADs of a slot
    /// can be sent again. If no MAD could be sent, the transport counts as lost.
    pub(super) fn report_send_errors(&mut self, slot: u64) {
        if self.transport.is_lost() {
            return;
        }
        let Some(error) = self.send_error.take() else {
            if std::mem::take(&mut self.has_logged_send_errors) {
                tracing::info!("all MADs can be sent again");
            }
            return;
        };
        let stats = self.engine.stats();
        let (mads, nothing_sent) = (stats.send_errors, stats.mads_sent == 0);
        if !std::mem::replace(&mut self.has_logged_send_errors, true) {
            tracing::warn!(mads, %error, "cannot send some MADs of this slot");
            self.write_event(
                slot,
                EventName::SendError,
                None,
                &format!("{mads} MADs could not be sent: {error}"),
            );
        }
        if nothing_sent {
            self.lose_transport(error, slot);
        }
    }

    /// Logs that the slot was too short for all ports.
    pub(super) fn report_short_slot(&mut self, control: &Control) {
        let (skipped, of) = (self.engine.stats().count(Status::Skipped), self.ports.len());
        let is_short = skipped > 0 && !control.is_stopped();
        if is_short && is_news(&mut self.short_at, self.clock.now()) {
            let interval = self.settings.interval;
            tracing::warn!(
                skipped,
                of,
                ?interval,
                "the slot was too short for all ports; skipped ports have no counters; raise the interval or the window"
            );
        }
    }

    /// Writes an `event` record. If `port` is given, the event is about this port or its device.
    pub(super) fn write_event(
        &mut self,
        slot: u64,
        event: EventName,
        port: Option<usize>,
        detail: &str,
    ) {
        self.write_event_at((slot, self.unix_now()), event, port, detail);
    }

    /// Writes an `event` record with the time of what it reports.
    pub(super) fn write_event_at(
        &mut self,
        at: (u64, u64),
        event: EventName,
        port: Option<usize>,
        detail: &str,
    ) {
        let of = port.map(|port| &self.ports[port]);
        let device = of.map(|of| (of.guid, of.lid));
        // The event of a device has no port number.
        let port = of.filter(|_| event.of() == Of::Port).map(|of| of.port);
        self.push_event(at, event, device, port, detail);
    }

    /// Writes an `event` record. `device` has the GUID and the LID of the device that the event
    /// concerns.
    pub(super) fn push_event(
        &mut self,
        (slot, ts): (u64, u64),
        event: EventName,
        device: Option<(Guid, Lid)>,
        port: Option<PortNum>,
        detail: &str,
    ) {
        let (guid, lid) = (device.map(|(guid, _)| guid), device.map(|(_, lid)| lid));
        let DriverSettings {
            sampler,
            ca,
            ca_port,
            ..
        } = &self.settings;
        self.batch.push(
            Type::Event,
            &EventRecord {
                ts,
                slot,
                sampler: sampler.as_str(),
                ca,
                ca_port: *ca_port,
                role: self.settings.role(),
                event: event.as_str(),
                guid,
                port,
                lid,
                detail,
            },
        );
    }
}

/// Keeps FDR10 from the net file, because PortInfo reports FDR10 as QDR.
fn refined(now: LinkRate, before: &LinkRate) -> LinkRate {
    if (&*now.speed, &*before.speed) == ("QDR", "FDR10") {
        LinkRate {
            speed: before.speed.clone(),
            ..now
        }
    } else {
        now
    }
}

/// Stores a value of a link. Returns the detail of an event if a known value has changed.
fn changed<T: Copy + PartialEq + Display>(
    what: &str,
    known: &mut Option<T>,
    now: Option<T>,
) -> Option<String> {
    let (before, now) = (std::mem::replace(known, now)?, now?);
    (now != before).then(|| format!("{what} from {before} to {now}"))
}

/// Returns the name of PortInfo.PortState for event details.
fn state_name(state: u8) -> &'static str {
    match state {
        1 => "down",
        2 => "initialising",
        3 => "armed",
        4 => "active",
        _ => "in an unknown state",
    }
}

/// A port, and the node description of its device if it is known.
type NamedEnd<'a> = (End, Option<&'a str>);

/// Words before the peer in the detail of the event `peer_changed`.
const PEER: &str = "the peer is ";

/// Returns the detail of the event `peer_changed`.
fn peer_detail(found: NamedEnd<'_>, planned: Option<NamedEnd<'_>>) -> String {
    let named = |((guid, port), name): NamedEnd<'_>| {
        let name = name.map(|name| format!(" ({})", Printable(name)));
        format!("{guid} port {port}{}", name.unwrap_or_default())
    };
    let now = named(found);
    match planned {
        Some((planned, _)) if planned == found.0 => {
            format!("{PEER}that of the plan again: {now}")
        }
        Some(planned) => format!("{PEER}{now}; the plan has {}", named(planned)),
        None => format!("{PEER}{now}; the plan has none"),
    }
}

/// Returns the peer from the detail of an event `peer_changed`. `None` if it is that of the plan
/// again, or if the text is another one.
pub fn peer_in(detail: &str) -> Option<End> {
    let mut words = detail.strip_prefix(PEER)?.split([' ', ';']);
    let guid = words.next()?.parse().ok()?;
    let port = words.nth(1)?.parse().ok()?;
    Some((guid, PortNum(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_is_read_from_the_detail_of_its_event() {
        let (found, planned) = ((Guid(2), PortNum(7)), (Guid(3), PortNum(1)));
        for name in [None, Some("leaf02; port 9 (x)")] {
            let named = (found, name);
            for plan in [None, Some((planned, name))] {
                assert_eq!(peer_in(&peer_detail(named, plan)), Some(found));
            }
            assert_eq!(peer_in(&peer_detail(named, Some(named))), None);
        }
    }
}
