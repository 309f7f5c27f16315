//! What happened, told: an `event` record each, and in the log what a person wants to know.

use super::lifeline::Back;
use super::{Control, Driver, NAMED_IN_LOG, Settings};
use crate::mad::smp::PortInfo;
use crate::mad::transport::{Transport, TransportError};
use crate::sweep::engine::{Event, Key};
use crate::sweep::record::{self, EventRecord, LinkSource, Of, PortIdentity};
use crate::sweep::sample::Status;
use crate::sweep::window::Change;
use crate::types::{Guid, Lid, LinkRate, Printable};

impl<T: Transport> Driver<T> {
    pub(super) fn take_event(&mut self, event: Event, slot: u64) {
        match event {
            Event::Port(port) => self.settled.push(port),
            Event::GroupUnsupported { device, group } => self.refused.push((self.first_ports[device], group)),
            Event::Unreachable(device) => self.changed.push((self.first_ports[device], false)),
            Event::Reachable(device) => self.changed.push((self.first_ports[device], true)),
            Event::WrongDevice { device, found } => self.tell_wrong_device(slot, device, found),
            Event::RightDevice(device) => {
                let port = self.first_ports[device];
                self.log_identity(port, "the device is at its LID again");
                self.write_event(slot, "right_device", Some(port), "the device is at its LID again");
            }
            Event::LidChange { device, from, to } => self.tell_lid_change(slot, device, from, to),
            Event::Link(port) => self.take_link(slot, port),
            Event::Redirected { device, to, unserved_pkey } => {
                let port = self.first_ports[device];
                tracing::info!(lid = %self.ports[port].lid, %to, "another agent answers for the device's counters");
                let mut detail = format!("its counters are asked of LID {to}");
                if let Some(pkey) = unserved_pkey {
                    detail += &format!("; its P_Key {pkey:#06x} matches none in the P_Key table of this port");
                }
                self.write_event(slot, "redirected", Some(port), &detail);
            }
            Event::KeyDemanded { device, key } => {
                let detail = match key {
                    Key::M => "NodeInfo is not answered: the device may demand an M_Key; its identity and its links cannot be checked",
                    Key::Pm => "its agent gives no counters and can demand a PM_Key: it may want one",
                };
                let port = self.first_ports[device];
                self.log_identity(port, detail);
                self.write_event(slot, "key_demanded", Some(port), detail);
            }
            Event::Window(Change { from, to }) => {
                let detail = format!("from {from} to {to} MADs under way");
                if to < from {
                    tracing::warn!("more MADs than usual expire of devices that answer others: the window is halved {detail}");
                } else {
                    tracing::info!("the window is whole again: {detail}");
                }
                self.write_event(slot, if to < from { "window_halved" } else { "window_restored" }, None, &detail);
            }
            Event::DiscoveryDone | Event::SlotDone => {}
        }
    }

    fn log_identity(&self, port: usize, what: &str) {
        let PortIdentity { node, guid, lid, .. } = &self.ports[port];
        tracing::info!(node = %Printable(node), %guid, %lid, "{what}");
    }

    fn tell_wrong_device(&mut self, slot: u64, device: usize, found: Guid) {
        let port = self.first_ports[device];
        let PortIdentity { node, guid, lid, .. } = &self.ports[port];
        tracing::warn!(node = %Printable(node), %guid, %lid, %found, "another device answers at this LID; its data is withheld");
        self.forget_readings(device);
        self.write_event(slot, "wrong_device", Some(port), &format!("the device at this LID is {found}"));
    }

    fn tell_lid_change(&mut self, slot: u64, device: usize, from: Lid, to: Lid) {
        let ports = self.ports_of(device);
        self.ports[ports.clone()].iter_mut().for_each(|port| port.lid = to);
        self.forget_readings(device);
        let PortIdentity { node, guid, .. } = &self.ports[ports.start];
        tracing::info!(node = %Printable(node), %guid, %from, %to, "the device is at another LID now");
        self.write_event(slot, "lid_change", Some(ports.start), &format!("from LID {from} to LID {to}"));
    }

    /// What comes next is no continuation of what came before.
    fn forget_readings(&mut self, device: usize) {
        let ports = self.ports_of(device);
        self.readings[ports].iter_mut().for_each(|reading| reading.clear());
    }

    fn ports_of(&self, device: usize) -> std::ops::Range<usize> {
        let end = self.first_ports.get(device + 1).copied();
        self.first_ports[device]..end.unwrap_or(self.ports.len())
    }

    /// Takes what PortInfo says of a link, and tells what changed.
    fn take_link(&mut self, slot: u64, port: usize) {
        let Some((info, mask)) = self.engine.link(port) else { return };
        let active = info.state == PortInfo::ACTIVE;
        if std::mem::replace(&mut self.links_up[port], active) != active {
            let event = if active { "link_up" } else { "link_down" };
            tracing::info!(node = %Printable(&self.ports[port].node), port = %self.ports[port].port, state = state_name(info.state), "{event}");
            self.write_event(slot, event, Some(port), state_name(info.state));
        }
        if !active {
            // Width and speed of a link that is down say nothing.
            return;
        }
        let identity = &mut self.ports[port];
        let now = refined(info.rate(mask), &identity.link);
        identity.link_source = LinkSource::Live;
        // The interval that ends now may have been of the faster one.
        self.readings[port].capacity_gbps = [now.data_gbps(), identity.link.data_gbps()].into_iter().flatten().reduce(f64::max);
        if now != identity.link {
            let before = std::mem::replace(&mut identity.link, now.clone());
            if before.data_gbps().is_none() {
                // Nobody knew it before.
                return;
            }
            let detail = format!("from {before} to {now}");
            tracing::info!(node = %Printable(&identity.node), port = %identity.port, "link change {}", Printable(&detail));
            self.write_event(slot, "link_change", Some(port), &detail);
        }
    }

    /// Tells of groups that devices do not have: an event each, and in the log by name if they are few.
    pub(super) fn tell_refused(&mut self, slot: u64) {
        let refused = std::mem::take(&mut self.refused);
        for (port, group) in &refused {
            self.write_event(slot, "group_unsupported", Some(*port), group.as_str());
        }
        match refused.len() {
            0 => {}
            1..=NAMED_IN_LOG => refused.iter().for_each(|(port, group)| {
                let PortIdentity { node, guid, lid, .. } = &self.ports[*port];
                tracing::info!(node = %Printable(node), %guid, %lid, %group, "the device does not have these counters");
            }),
            groups => tracing::info!(groups, "devices do not have these counters; the records name them"),
        }
    }

    /// Tells of devices that stopped answering, or began again: an event each, and in the log by name if they are few.
    pub(super) fn tell_changes(&mut self, slot: u64) {
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

    /// Takes note of a MAD that could not be sent.
    pub(super) fn take_send_error(&mut self, error: TransportError, slot: u64) {
        if self.lifeline.lost().is_some() {
            // That was told already.
            return;
        }
        if error.is_of_the_way() {
            self.lose_way(error, slot);
        } else if !error.is_no_agent() {
            // Without an agent of that class there is less to tell, but nothing is wrong with the way to the fabric.
            self.send_error = Some(error);
        }
    }

    /// The way to the fabric is lost: nothing that is under way will be answered. Slots go on without it, if it may be found again.
    pub(super) fn lose_way(&mut self, error: TransportError, slot: u64) {
        if !self.lifeline.can_reopen() {
            self.failure.get_or_insert(error);
            return;
        }
        let now = self.clock.now();
        tracing::warn!(%error, "the way to the fabric is lost; it is opened again as soon as it can be");
        self.write_event(slot, "umad_lost", None, &error.to_string());
        self.lifeline.lose(error.errno(), now);
        self.engine.transport_lost(error.errno(), now);
        self.send_error = None;
    }

    /// Looks after a way that is lost. If it is back, all LIDs may be others: every device is asked who it is.
    pub(super) fn mind_way(&mut self, slot: u64) {
        let Some(Back { after, pkey_index, pkey_table }) = self.lifeline.poll(self.clock.now()) else { return };
        self.engine.transport_restored(pkey_index, pkey_table);
        let place =
            self.lifeline.local().map(|local| format!("; this host is at LID {}, the subnet manager at LID {}", local.lid, local.sm_lid));
        let detail = format!("after {:.1} s{}", after.as_secs_f64(), place.unwrap_or_default());
        tracing::info!("the way to the fabric is back {detail}");
        self.write_event(slot, "umad_back", None, &detail);
        self.located = None;
        self.locate(slot);
    }

    /// Tells of MADs that could not be sent, once until they can again. If nothing at all could be sent, the way to the fabric is lost.
    pub(super) fn tell_send_errors(&mut self, slot: u64) {
        if self.lifeline.lost().is_some() {
            return;
        }
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
            self.lose_way(error, slot);
        }
    }

    /// Tells of slots that end before all is asked, once until they do not.
    pub(super) fn tell_too_short(&mut self, control: &Control) {
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

    pub(super) fn write_event(&mut self, slot: u64, event: &'static str, port: Option<usize>, detail: &str) {
        debug_assert!(Of::event(event).is_some(), "{event} is not declared");
        let of = port.map(|port| &self.ports[port]);
        let (guid, lid) = (of.map(|of| of.guid), of.map(|of| of.lid));
        // An event of a device is told of no port of it.
        let port = of.filter(|_| Of::event(event) == Some(Of::Port)).map(|of| of.port);
        let ts = self.clock.wall(self.clock.now());
        let Settings { sampler, ca, ca_port, .. } = &self.settings;
        record::write(
            &EventRecord {
                r#type: "event",
                ts,
                slot,
                sampler,
                ca,
                ca_port: *ca_port,
                role: self.settings.role(),
                event,
                guid,
                port,
                lid,
                detail,
            },
            &mut self.batch.bytes,
        );
        self.batch.lines += 1;
    }
}

/// PortInfo says QDR of FDR10 too: where the net file knew better, it still does.
fn refined(now: LinkRate, before: &LinkRate) -> LinkRate {
    if (&*now.speed, &*before.speed) == ("QDR", "FDR10") { LinkRate { speed: before.speed.clone(), ..now } } else { now }
}

fn state_name(state: u8) -> &'static str {
    match state {
        1 => "down",
        2 => "initialising",
        3 => "armed",
        4 => "active",
        _ => "in an unknown state",
    }
}
