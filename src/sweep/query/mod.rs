//! Queries one port outside of a sweep.
//!
//! This module does not use the engine: a [`Client`] sends one request after another and waits for
//! each reply. As in a sweep, groups that the device does not have by its masks are not requested.
//! [`QueryResult::missing`] returns the reason for each group without a reply.
//!
//! The output has two forms: the text of `perfquery` ([`QueryResult::text`]) and the record of a
//! sweep ([`QueryResult::record`]).

use std::fmt;
use std::time::Duration;

use ibnet_record::attributes::sampling::PORT_SAMPLES_CONTROL;
use ibnet_record::attributes::{Group, Needs};
use ibnet_record::types::{Lid, LinkRate, NodeKind, PortNum};
use ibnet_record::{LinkSource, Status};

use super::blocked::{TickOf, WaitTick};
use super::counter::{Columns, Reading};
use super::group_list::GroupList;
use super::sample::{Answer, Sample};
use crate::mad::header::MadStatus;
use crate::mad::pma::{self, CLASS_PORT_INFO, Capabilities, DATA_LEN, Data, Sampling};
use crate::mad::query::{BadReply, Query};
use crate::mad::smp::{self, NodeInfo, PortInfo};
use crate::mad::{MAD_LEN, Mad};
use crate::sweep::port_record::{PortIdentity, PortRecord};
use crate::time::Instant;

mod physical;
mod port_info;
mod print;

pub use physical::{PhysicalResult, physical, planes};
pub use port_info::port_info;

/// Port and counter groups to query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortQuery {
    /// LID of the device.
    pub lid: Lid,
    /// Number of the port.
    pub port: PortNum,
    /// Counter groups.
    pub groups: GroupList,
    /// Whether a record is needed. If it is, the identity and the link of the device are queried
    /// too.
    pub record: bool,
}

/// Blocking request/reply client of one device.
pub trait Client {
    /// Error of the transport.
    type Error;

    /// Sends a request, again if there is no reply, and waits for the reply, which it writes into
    /// `mad`.
    ///
    /// # Errors
    /// Returns an error if the transport is lost.
    fn request_mad(&mut self, query: &Query, mad: &mut Mad) -> Result<Response, Self::Error>;

    /// Sends a request like [`request_mad`](Self::request_mad). The response has its attribute.
    ///
    /// # Errors
    /// Returns an error if the transport is lost.
    fn request(&mut self, query: &Query) -> Result<Response, Self::Error> {
        self.request_mad(query, &mut [0; MAD_LEN])
    }
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// Number of MADs sent for the request.
    pub mads: u32,
    /// Sum of the round trips of the answered MADs.
    pub rtt: Duration,
    /// Shortest of these round trips. `None` if no MAD was answered.
    pub rtt_min: Option<Duration>,
    /// The attribute and its time of receipt.
    pub answer: Result<(Instant, Data), NoAnswer>,
}

/// Reason why a request has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoAnswer {
    /// No reply.
    #[error("no reply")]
    Silent,
    /// There were replies, but none of them matches the request.
    #[error("reply does not match the request: {0}")]
    BadReply(BadReply),
    /// The agent refused the request.
    #[error("refused with status {0}")]
    Refused(MadStatus),
    /// The device is not of NVIDIA, and for other vendors the request means something else, so it
    /// was not sent. The value is the vendor ID.
    #[error("registers of NVIDIA only, but its vendor ID is {0:#08x}")]
    OtherVendor(u32),
    /// The request was not sent. The value is the errno.
    #[error("cannot send the request: {}", std::io::Error::from_raw_os_error(*.0))]
    NotSent(i32),
}

/// Reason why a group is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// The device reports that it does not have the group.
    Unsupported(Group),
    /// The request for the group has no answer.
    NoAnswer(NoAnswer),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = match self {
            Self::NoAnswer(reason) => return reason.fmt(f),
            Self::Unsupported(group) => group,
        };
        let reason = match group {
            Group::SwPortVlCong => "it is no switch, or its OptionMask does not have the group",
            Group::ExtendedSpeeds => "neither its OptionMask nor its CapabilityMask has the group",
            _ if group.attribute().needs != Needs::Nothing => {
                "its CapabilityMask does not have the group"
            }
            _ => "its OptionMask does not have the group",
        };
        write!(f, "not supported by the device: {reason}")
    }
}

/// Result of a query.
#[derive(Clone, Debug)]
pub struct QueryResult {
    query: PortQuery,
    capabilities: Option<Capabilities>,
    sampling: Option<Sampling>,
    info: Option<NodeInfo>,
    name: String,
    /// PortInfo of the port, and the CapabilityMask that belongs to it.
    link: Option<(PortInfo, u32)>,
    rs_fec: Option<bool>,
    /// Replies, by index of the group.
    counters: Vec<Answer>,
    /// Reasons for missing groups, by index of the group.
    missing: Vec<Option<Missing>>,
    /// Number of MADs sent for counters, counted as in a sweep.
    mads: u32,
    /// Sum of the round trips of these MADs.
    rtt: Duration,
    /// Shortest of these round trips.
    rtt_min: Option<Duration>,
    at: Instant,
}

/// Queries a port.
///
/// # Errors
/// Returns an error if the transport is lost.
pub fn run<C: Client>(query: PortQuery, client: &mut C) -> Result<QueryResult, C::Error> {
    let PortQuery { port, record, .. } = query;
    let groups = query.groups.clone();
    let mut result = QueryResult::new(query);
    let performance = |attribute: u16, port| Query::Pma(pma::Query { attribute, port });
    let subnet = |attribute, port: PortNum| {
        Query::Smp(smp::Query {
            attribute,
            modifier: port.0.into(),
        })
    };

    let class_port_info = client.request(&performance(CLASS_PORT_INFO.id, None))?;
    match class_port_info.answer {
        Ok((_, data)) => result.capabilities = Some(Capabilities::parse(&data)),
        // ClassPortInfo is mandatory, so an agent that does not answer it will not answer other
        // requests.
        Err(reason @ (NoAnswer::Silent | NoAnswer::NotSent(_))) => {
            result.missing.fill(Some(Missing::NoAnswer(reason)));
            result.info = client
                .request(&subnet(smp::NODE_INFO, PortNum(0)))?
                .node_info();
            return Ok(result);
        }
        Err(_) => {}
    }
    if record || groups.contains(&Group::SwPortVlCong) {
        result.info = client
            .request(&subnet(smp::NODE_INFO, PortNum(0)))?
            .node_info();
    }
    if record && result.info.is_some() {
        let description = client
            .request(&subnet(smp::NODE_DESCRIPTION, PortNum(0)))?
            .data();
        result.name = description
            .map(|data| smp::node_description(&data))
            .unwrap_or_default();
        if let Some(data) = client.request(&subnet(smp::PORT_INFO, port))?.data() {
            let link = PortInfo::parse(&data);
            let mask = if result.is_switch() {
                client.request(&subnet(smp::PORT_INFO, PortNum(0)))?.data()
            } else {
                None
            };
            let mask = mask.map_or(link.capability_mask, |data| {
                PortInfo::parse(&data).capability_mask
            });
            result.link = Some((link, mask));
        }
    }
    if record || groups.iter().any(|group| is_in_option_mask(*group)) {
        let response = client.request(&performance(PORT_SAMPLES_CONTROL.id, Some(port)))?;
        result.sampling = response.data().map(|data| Sampling::parse(&data));
        if let (Some(known), Some(sampling)) = (&mut result.capabilities, result.sampling) {
            known.option_mask = Some(sampling.option_mask);
        }
    }
    for (place, group) in groups.iter().copied().enumerate() {
        if result.lacks(group) {
            result.missing[place] = Some(Missing::Unsupported(group));
            continue;
        }
        if group == Group::ExtendedSpeeds
            && result
                .capabilities
                .is_some_and(|known| known.have(Needs::RsFec))
        {
            let extended = client.request(&subnet(smp::PORT_INFO_EXTENDED, port))?;
            result.rs_fec = extended.data().map(|data| smp::is_rs_fec(&data));
        }
        let response = client.request(&performance(group.attribute().id, Some(port)))?;
        result.take(place, &response);
    }
    Ok(result)
}

impl Response {
    /// Adds a round trip.
    pub fn add_round_trip(&mut self, rtt: Duration) {
        self.rtt += rtt;
        self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
    }

    fn data(&self) -> Option<Data> {
        self.answer.ok().map(|(_, data)| data)
    }

    fn node_info(&self) -> Option<NodeInfo> {
        self.data().map(|data| NodeInfo::parse(&data))
    }
}

impl QueryResult {
    fn new(query: PortQuery) -> Self {
        let count = query.groups.len();
        Self {
            query,
            capabilities: None,
            sampling: None,
            info: None,
            name: String::new(),
            link: None,
            rs_fec: None,
            counters: vec![
                Answer {
                    at: None,
                    data: [0; DATA_LEN]
                };
                count
            ],
            missing: vec![None; count],
            mads: 0,
            rtt: Duration::ZERO,
            rtt_min: None,
            at: Instant::ZERO,
        }
    }

    fn take(&mut self, place: usize, response: &Response) {
        (self.mads, self.rtt) = (self.mads + response.mads, self.rtt + response.rtt);
        self.rtt_min = self.rtt_min.into_iter().chain(response.rtt_min).min();
        match response.answer {
            Ok((at, data)) => (self.counters[place], self.at) = (Answer { at: Some(at), data }, at),
            Err(reason) => self.missing[place] = Some(Missing::NoAnswer(reason)),
        }
    }

    fn is_switch(&self) -> bool {
        self.kind() == Some(NodeKind::Switch)
    }

    /// Returns whether the device reports that it does not have a group. A device of unknown type
    /// may be a switch.
    fn lacks(&self, group: Group) -> bool {
        self.capabilities
            .is_some_and(|known| !known.support(group, self.kind().unwrap_or(NodeKind::Switch)))
    }

    fn kind(&self) -> Option<NodeKind> {
        self.info?.kind
    }

    /// Returns whether any group was answered.
    pub fn has_answers(&self) -> bool {
        self.counters.iter().any(|answer| answer.at.is_some())
    }

    /// Returns whether the device answered nothing at all.
    pub fn is_silent(&self) -> bool {
        self.info.is_none() && self.is_pma_silent()
    }

    /// Returns whether the device answered NodeInfo although its performance management agent
    /// answered nothing.
    pub fn is_agent_silent(&self) -> bool {
        self.info.is_some() && self.is_pma_silent()
    }

    fn is_pma_silent(&self) -> bool {
        let is_silent = |missing: &Option<Missing>| {
            matches!(missing, Some(Missing::NoAnswer(NoAnswer::Silent)))
        };
        self.capabilities.is_none() && self.missing.iter().all(is_silent)
    }

    /// Iterates over the missing groups and the reason for each.
    pub fn missing(&self) -> impl Iterator<Item = (Group, Missing)> {
        self.query
            .groups
            .iter()
            .zip(&self.missing)
            .filter_map(|(group, missing)| Some((*group, (*missing)?)))
    }

    /// Returns whether the counters of lanes are left out, because the error correction of the
    /// port, on which their meaning depends, may be unknown.
    pub fn is_fec_unknown(&self) -> bool {
        let place = self
            .query
            .groups
            .iter()
            .position(|group| *group == Group::ExtendedSpeeds);
        let answered = place.is_some_and(|place| self.counters[place].at.is_some());
        answered
            && self.rs_fec.is_none()
            && self
                .capabilities
                .is_some_and(|known| known.have(Needs::RsFec))
    }

    /// Returns when the last group was answered.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// Returns all groups that were answered, as `perfquery` prints them.
    pub fn text(&self) -> String {
        let Self {
            query: PortQuery {
                lid, port, groups, ..
            },
            capabilities,
            rs_fec,
            ..
        } = self;
        let source = print::Source {
            lid: *lid,
            port: *port,
            capabilities: *capabilities,
            rs_fec: *rs_fec,
        };
        let mut text = String::new();
        for (group, answer) in groups
            .iter()
            .zip(&self.counters)
            .filter(|(_, answer)| answer.at.is_some())
        {
            print::group(*group, &source, &answer.data, &mut text);
        }
        text
    }

    /// Returns the record of the port with its line feed, or `None` if NodeInfo was not answered,
    /// because a record needs the GUID.
    ///
    /// `ts` is the time of the last reply in nanoseconds since 1970. `slot` is the slot at this
    /// time.
    pub fn record(&self, ts: u64, slot: u64, sampler: &str) -> Option<Vec<u8>> {
        let (info, kind) = (self.info?, self.kind()?);
        let identity = PortIdentity {
            guid: info.port_guid,
            port: self.query.port,
            lid: self.query.lid,
            node: self.name.clone(),
            kind,
            hops: None,
            peer: None,
            link: self.link.map_or_else(
                || LinkRate::new("??", "???"),
                |(link, mask)| link.rate(mask),
            ),
            link_source: LinkSource::Live,
            mtu: self.link.and_then(|(link, _)| link.mtu()),
            vls: self.link.and_then(|(link, _)| link.data_vls()),
            limits: self.link.map(|(link, _)| link.limits),
        };
        let sample = self.sample(&info);
        let columns = Columns::new(&self.query.groups);
        let mut reading = Reading::new(&columns);
        reading.take(&columns, slot, &sample);
        let mut line = Vec::new();
        let record = PortRecord {
            ts,
            slot,
            sampler,
            is_secondary: false,
            identity: &identity,
            sample: &sample,
            reading: &reading,
            columns: &columns,
        };
        ibnet_record::write(&record, &mut line);
        Some(line)
    }

    /// Iterates over the failed requests. Groups that the device does not have are not included.
    fn failures(&self) -> impl Iterator<Item = NoAnswer> {
        let reason = |missing: &Option<Missing>| {
            if let Some(Missing::NoAnswer(reason)) = missing {
                Some(*reason)
            } else {
                None
            }
        };
        self.missing
            .iter()
            .filter_map(reason)
            .filter(|reason| !is_unsupported(*reason))
    }

    fn sample(&self, info: &NodeInfo) -> Sample<'_> {
        let any = |condition: fn(NoAnswer) -> bool| self.failures().any(condition);
        let status = if any(|reason| matches!(reason, NoAnswer::NotSent(_))) {
            Status::SendError
        } else if any(|reason| matches!(reason, NoAnswer::BadReply(_))) {
            Status::BadReply
        } else if any(|reason| reason == NoAnswer::Silent) {
            Status::Timeout
        } else if any(|reason| matches!(reason, NoAnswer::Refused(_))) || self.mads == 0 {
            Status::MadError
        } else {
            Status::Ok
        };
        let status_of = |reason| {
            if let NoAnswer::Refused(status) = reason {
                Some(status)
            } else {
                None
            }
        };
        let errno_of = |reason| {
            if let NoAnswer::NotSent(errno) = reason {
                Some(errno)
            } else {
                None
            }
        };
        let unsupported = (0..)
            .zip(&self.missing)
            .filter(|(_, missing)| match missing {
                Some(Missing::Unsupported(_)) => true,
                Some(Missing::NoAnswer(reason)) => is_unsupported(*reason),
                None => false,
            });
        Sample {
            rtt: self.rtt,
            rtt_min: self.rtt_min,
            mads: self.mads,
            at: self.at,
            mad_status: self.failures().filter_map(status_of).last(),
            errno: self.failures().filter_map(errno_of).last(),
            // The agent of an HCA can answer for several ports, so the GUID may belong to another
            // port than the queried one.
            verified: self.is_switch() || info.local_port == self.query.port,
            capabilities: self.capabilities,
            rs_fec: self.rs_fec,
            tick: self.sampling.and_then(|sampling| {
                Some(WaitTick {
                    tick: sampling.tick,
                    of: TickOf::of(info)?,
                })
            }),
            unsupported: unsupported.fold(0, |bits, (place, _): (u32, _)| bits | 1 << place),
            ..Sample::new(status, &self.query.groups, &self.counters)
        }
    }
}

/// Returns whether OptionMask has a bit for the group.
fn is_in_option_mask(group: Group) -> bool {
    group.attribute().needs == Needs::ExtendedSpeeds
        || group
            .fields()
            .any(|field| matches!(field.needs, Needs::Option(_)))
}

/// Returns whether the agent reports that it does not have the attribute.
fn is_unsupported(reason: NoAnswer) -> bool {
    matches!(reason, NoAnswer::Refused(status) if status.is_unsupported())
}

#[cfg(test)]
mod tests;
