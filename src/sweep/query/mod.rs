//! One port asked once, for whoever wants to look at it: what is asked, and what is shown of the answers.
//!
//! No engine: one request after another, each through an [`Asker`], which knows the way to the device and the time. What a device does not have is not
//! asked, by the same masks as in a sweep; every group that is not shown has its reason ([`Answers::missing`]).
//!
//! The answers are shown as `perfquery` prints them ([`Answers::text`]), or as the record of a sweep ([`Answers::record`]).

use std::fmt;
use std::time::Duration;

use super::blocked::{TickOf, WaitTick};
use super::counter::{Columns, Reading};
use super::sample::{Answer, Sample, Status};
use crate::mad::header::MadStatus;
use crate::mad::pma::{self, CLASS_PORT_INFO, Capabilities, DATA_LEN, Data, Group, Needs, PORT_SAMPLES_CONTROL, Sampling};
use crate::mad::query::{BadReply, Query};
use crate::mad::smp::{self, NodeInfo, PortInfo};
use crate::record::{self, LinkSource, PortIdentity, PortRecord};
use crate::time::Instant;
use crate::types::{Lid, LinkRate, NodeKind, PortNum};

mod print;

/// What is to be known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// Where the device answers.
    pub lid: Lid,
    /// Which of its ports.
    pub port: PortNum,
    /// Which counters; at most 32.
    pub groups: Vec<Group>,
    /// Whether a record is wanted: who the device is, and how the link, is asked for it.
    pub record: bool,
}

/// Sends one request after another to one device, and tells what came of each.
pub trait Asker {
    /// Why it cannot go on.
    type Lost;

    /// Asks, again if need be, until there is an answer or there will be none.
    ///
    /// # Errors
    /// When the way to the fabric is lost.
    fn ask(&mut self, query: &Query) -> Result<Heard, Self::Lost>;
}

/// What came of a request.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// MADs that were sent for it.
    pub mads: u32,
    /// The round trips of those that were answered, in sum.
    pub rtt: Duration,
    /// The attribute and when it came.
    pub answer: Result<(Instant, Data), NoAnswer>,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Nothing came.
    #[error("it was not answered")]
    Silent,
    /// Only what was no answer came.
    #[error("what came was no answer: {0}")]
    BadReply(BadReply),
    /// The agent refused.
    #[error("it was refused: status {0}")]
    Refused(MadStatus),
    /// It never left this host.
    #[error("it could not be sent: {}", std::io::Error::from_raw_os_error(*.0))]
    NotSent(i32),
}

/// Why a group is not shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// The device says that it does not have it.
    Lacks(Group),
    /// It was asked in vain.
    NoAnswer(NoAnswer),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self {
            Self::NoAnswer(why) => return why.fmt(f),
            Self::Lacks(Group::SwPortVlCong) => "the device does not have it: it is no switch, or its OptionMask does not name it",
            Self::Lacks(Group::ExtendedSpeeds) => "the device does not have it: neither its OptionMask nor its CapabilityMask names it",
            Self::Lacks(group) if group.attribute().needs != Needs::Nothing => {
                "the device does not have it: its CapabilityMask does not name it"
            }
            Self::Lacks(_) => "the device does not have it: its OptionMask does not name it",
        };
        f.write_str(reason)
    }
}

/// What is known once all was asked.
#[derive(Clone, Debug)]
pub struct Answers {
    question: Question,
    capabilities: Option<Capabilities>,
    sampling: Option<Sampling>,
    info: Option<NodeInfo>,
    name: String,
    /// How the link is, and the mask by which its speeds count.
    link: Option<(PortInfo, u32)>,
    rs_fec: Option<bool>,
    /// By the place of the group.
    counters: Vec<Answer>,
    missing: Vec<Option<Missing>>,
    /// Of the counters only, as in a sweep.
    mads: u32,
    rtt: Duration,
    at: Instant,
}

/// Asks all of it.
///
/// # Errors
/// When the way to the fabric is lost.
pub fn ask<A: Asker>(question: Question, asker: &mut A) -> Result<Answers, A::Lost> {
    let Question { port, record, .. } = question;
    let groups = question.groups.clone();
    let mut answers = Answers::none(question);
    let performance = |attribute: u16, port| Query::Pma(pma::Query { attribute, port });
    let subnet = |attribute, port| Query::Smp(smp::Query { attribute, port });

    let class_port_info = asker.ask(&performance(CLASS_PORT_INFO.id, None))?;
    match class_port_info.answer {
        Ok((_, data)) => answers.capabilities = Some(Capabilities::parse(&data)),
        // It is mandatory: who does not answer it answers nothing.
        Err(why @ (NoAnswer::Silent | NoAnswer::NotSent(_))) => {
            answers.missing.fill(Some(Missing::NoAnswer(why)));
            answers.info = asker.ask(&subnet(smp::NODE_INFO, PortNum(0)))?.node_info();
            return Ok(answers);
        }
        Err(_) => {}
    }
    if record || groups.contains(&Group::SwPortVlCong) {
        answers.info = asker.ask(&subnet(smp::NODE_INFO, PortNum(0)))?.node_info();
    }
    if record && answers.info.is_some() {
        answers.name =
            asker.ask(&subnet(smp::NODE_DESCRIPTION, PortNum(0)))?.data().map(|data| smp::node_description(&data)).unwrap_or_default();
        if let Some(data) = asker.ask(&subnet(smp::PORT_INFO, port))?.data() {
            let link = PortInfo::parse(&data);
            let mask = if answers.is_switch() { asker.ask(&subnet(smp::PORT_INFO, PortNum(0)))?.data() } else { None };
            let mask = mask.map_or(link.capability_mask, |data| PortInfo::parse(&data).capability_mask);
            answers.link = Some((link, mask));
        }
    }
    if record || groups.iter().any(|group| is_in_option_mask(*group)) {
        let heard = asker.ask(&performance(PORT_SAMPLES_CONTROL.id, Some(port)))?;
        answers.sampling = heard.data().map(|data| Sampling::parse(&data));
        if let (Some(known), Some(sampling)) = (&mut answers.capabilities, answers.sampling) {
            known.option_mask = Some(sampling.option_mask);
        }
    }
    for (place, group) in groups.into_iter().enumerate() {
        if answers.lacks(group) {
            answers.missing[place] = Some(Missing::Lacks(group));
            continue;
        }
        if group == Group::ExtendedSpeeds && answers.capabilities.is_some_and(|known| known.have(Needs::RsFec)) {
            answers.rs_fec = asker.ask(&subnet(smp::PORT_INFO_EXTENDED, port))?.data().map(|data| smp::is_rs_fec(&data));
        }
        let heard = asker.ask(&performance(group.attribute().id, Some(port)))?;
        answers.take(place, &heard);
    }
    Ok(answers)
}

impl Heard {
    fn data(&self) -> Option<Data> {
        self.answer.ok().map(|(_, data)| data)
    }

    fn node_info(&self) -> Option<NodeInfo> {
        self.data().map(|data| NodeInfo::parse(&data))
    }
}

impl Answers {
    fn none(question: Question) -> Self {
        let count = question.groups.len();
        Self {
            question,
            capabilities: None,
            sampling: None,
            info: None,
            name: String::new(),
            link: None,
            rs_fec: None,
            counters: vec![Answer { at: None, data: [0; DATA_LEN] }; count],
            missing: vec![None; count],
            mads: 0,
            rtt: Duration::ZERO,
            at: Instant::ZERO,
        }
    }

    fn take(&mut self, place: usize, heard: &Heard) {
        (self.mads, self.rtt) = (self.mads + heard.mads, self.rtt + heard.rtt);
        match heard.answer {
            Ok((at, data)) => (self.counters[place], self.at) = (Answer { at: Some(at), data }, at),
            Err(why) => self.missing[place] = Some(Missing::NoAnswer(why)),
        }
    }

    fn is_switch(&self) -> bool {
        self.kind() == Some(NodeKind::Switch)
    }

    /// Whether the device says that it does not have a group. One that does not say what it is may be a switch.
    fn lacks(&self, group: Group) -> bool {
        self.capabilities.is_some_and(|known| !group.is_had_by(self.kind().unwrap_or(NodeKind::Switch), known))
    }

    fn kind(&self) -> Option<NodeKind> {
        self.info?.kind
    }

    /// Whether any group was answered.
    pub fn is_any(&self) -> bool {
        self.counters.iter().any(|answer| answer.at.is_some())
    }

    /// Whether nothing at all came from the device.
    pub fn is_silent(&self) -> bool {
        self.info.is_none() && self.asked_in_vain()
    }

    /// Whether the device said who it is, but its agent for performance management said nothing.
    pub fn is_agent_silent(&self) -> bool {
        self.info.is_some() && self.asked_in_vain()
    }

    fn asked_in_vain(&self) -> bool {
        self.capabilities.is_none() && self.missing.iter().all(|missing| matches!(missing, Some(Missing::NoAnswer(NoAnswer::Silent))))
    }

    /// Groups that are not shown, with the reason of each.
    pub fn missing(&self) -> impl Iterator<Item = (Group, Missing)> {
        self.question.groups.iter().zip(&self.missing).filter_map(|(group, missing)| Some((*group, (*missing)?)))
    }

    /// Whether lanes are not shown because it is not known what they count.
    pub fn is_fec_unknown(&self) -> bool {
        let place = self.question.groups.iter().position(|group| *group == Group::ExtendedSpeeds);
        let answered = place.is_some_and(|place| self.counters[place].at.is_some());
        answered && self.rs_fec.is_none() && self.capabilities.is_some_and(|known| known.have(Needs::RsFec))
    }

    /// When the last group was answered.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// All that was answered, as `perfquery` prints it.
    pub fn text(&self) -> String {
        let Self { question: Question { lid, port, groups, .. }, capabilities, rs_fec, .. } = self;
        let whose = print::Whose { lid: *lid, port: *port, capabilities: *capabilities, rs_fec: *rs_fec };
        let mut text = String::new();
        for (group, answer) in groups.iter().zip(&self.counters).filter(|(_, answer)| answer.at.is_some()) {
            print::group(*group, &whose, &answer.data, &mut text);
        }
        text
    }

    /// The record of the port, with its line feed. `None` if the device did not say who it is: a record is nothing without its GUID.
    ///
    /// The times are those of a sweep: when the last answer came, in nanoseconds since 1970, and its slot.
    pub fn record(&self, ts: u64, slot: u64, sampler: &str) -> Option<Vec<u8>> {
        let (info, kind) = (self.info?, self.kind()?);
        let identity = PortIdentity {
            guid: info.port_guid,
            port: self.question.port,
            lid: self.question.lid,
            node: self.name.clone(),
            kind,
            hops: None,
            peer: None,
            link: self.link.map_or_else(|| LinkRate::new("??", "???"), |(link, mask)| link.rate(mask)),
            link_source: LinkSource::Live,
        };
        let sample = self.sample(&info);
        let columns = Columns::new(&self.question.groups);
        let mut reading = Reading::new(&columns);
        reading.take(&columns, slot, &sample);
        let mut line = Vec::new();
        let record = PortRecord { ts, slot, sampler, identity: &identity, sample: &sample, reading: &reading, columns: &columns };
        record::write(&record, &mut line);
        Some(line)
    }

    /// What went wrong: all but what the device does not have.
    fn in_vain(&self) -> impl Iterator<Item = NoAnswer> {
        let asked = |missing: &Option<Missing>| if let Some(Missing::NoAnswer(why)) = missing { Some(*why) } else { None };
        self.missing.iter().filter_map(asked).filter(|why| !is_unsupported(*why))
    }

    fn sample(&self, info: &NodeInfo) -> Sample<'_> {
        let any = |is_it: fn(NoAnswer) -> bool| self.in_vain().any(is_it);
        let status = if any(|why| matches!(why, NoAnswer::NotSent(_))) {
            Status::SendError
        } else if any(|why| matches!(why, NoAnswer::BadReply(_))) {
            Status::BadReply
        } else if any(|why| why == NoAnswer::Silent) {
            Status::Timeout
        } else if any(|why| matches!(why, NoAnswer::Refused(_))) || self.mads == 0 {
            Status::MadError
        } else {
            Status::Ok
        };
        let status_of = |why| if let NoAnswer::Refused(status) = why { Some(status) } else { None };
        let errno_of = |why| if let NoAnswer::NotSent(errno) = why { Some(errno) } else { None };
        let unsupported = (0..).zip(&self.missing).filter(|(_, missing)| match missing {
            Some(Missing::Lacks(_)) => true,
            Some(Missing::NoAnswer(why)) => is_unsupported(*why),
            None => false,
        });
        Sample {
            rtt: self.rtt,
            mads: self.mads,
            at: self.at,
            mad_status: self.in_vain().filter_map(status_of).last(),
            errno: self.in_vain().filter_map(errno_of).last(),
            // An adapter's agent may answer for another port than the one whose GUID this is.
            verified: self.is_switch() || info.local_port == self.question.port,
            capabilities: self.capabilities,
            rs_fec: self.rs_fec,
            tick: self.sampling.and_then(|sampling| Some(WaitTick { tick: sampling.tick, of: TickOf::of(info)? })),
            unsupported: unsupported.fold(0, |bits, (place, _): (u32, _)| bits | 1 << place),
            ..Sample::new(status, &self.question.groups, &self.counters)
        }
    }
}

/// Whether OptionMask tells of it.
fn is_in_option_mask(group: Group) -> bool {
    group.attribute().needs == Needs::ExtendedSpeeds || group.fields().any(|field| matches!(field.needs, Needs::Option(_)))
}

/// Whether the agent says that it does not have the attribute at all.
fn is_unsupported(why: NoAnswer) -> bool {
    matches!(why, NoAnswer::Refused(status) if status.is_unsupported())
}

#[cfg(test)]
mod tests;
