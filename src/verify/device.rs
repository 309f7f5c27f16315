//! Reads all attributes of one port of a device by both readers, and compares them.

use std::fmt;

use ibnet_record::attributes::sampling::PORT_SAMPLES_CONTROL;
use ibnet_record::attributes::{Attribute, Group, Needs};
use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, PortNum};

use super::CLASS_PORT_INFO_QUERY;
use super::compare::{Comparison, Readings, compare};
use super::reference::{Reference, Unread};
use crate::mad::exchange::{Local, Target};
use crate::mad::libibmad::{self, FieldReader};
use crate::mad::pma::{self, CLASS_PORT_INFO, Capabilities, Data, Sampling};
use crate::mad::query::Query;
use crate::mad::sa::{self, Gid};
use crate::mad::smp::{self, NodeInfo, PortInfo};
use crate::mad::transport::{Transport, TransportError};
use crate::sweep::driver::{Clock, DeviceClient};
use crate::sweep::query::{Client, NoAnswer};

/// Max number of times that an attribute is compared while its counters decrease, which happens if
/// another program clears them.
const ATTEMPTS: u32 = 3;

/// Max number of MADs for one port of a device, if every MAD is answered and no counter decreases:
/// three readings of each group and of five other attributes, and two more readings.
pub const MADS_PER_DEVICE: u64 = 3 * (5 + Group::ALL.len() as u64) + 2;

/// Name of the attribute that the subnet manager answers.
const PATH_RECORD: &str = "PathRecord";

/// A port of a device to verify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subject {
    /// LID of the device.
    pub lid: Lid,
    /// Port GUID of the device.
    pub guid: Guid,
    /// Number of the port.
    pub port: PortNum,
}

/// The attributes of one port of a device.
#[derive(Clone, Debug)]
pub struct DeviceResult {
    /// Results in the order of the queries.
    pub attributes: Vec<AttributeResult>,
    /// Agents that answered ibnet and the second reader, if they differ.
    pub other_agent: Option<(Target, Target)>,
    /// Agent of another LID that answers for this device.
    pub redirected_to: Option<Lid>,
    /// Width and speed of the port, as a sweep reports them. `None` without PortInfo.
    pub link: Option<LinkRate>,
    /// Service level of the path record to the device, if a subnet manager answered.
    pub path_sl: Option<u8>,
}

/// The result of one attribute.
#[derive(Clone, Debug)]
pub struct AttributeResult {
    /// Name of the group, or of an attribute that is no group.
    pub name: &'static str,
    /// Outcome of the comparison.
    pub outcome: Outcome,
}

/// The outcome of one attribute.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Both readers had an answer.
    Compared(Comparison),
    /// No reader had an answer.
    Unanswered(NoAnswer, Unread),
    /// Only ibnet had an answer.
    OnlyOurs(Unread),
    /// Only the second reader had an answer.
    OnlyTheirs(NoAnswer),
    /// The masks of the device do not have the group. ibnet queried it once.
    Lacking(Lacking),
}

/// Answer of a device to the query of a group that its masks do not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lacking {
    /// The device refused the query.
    Refused,
    /// The device did not answer the query.
    Silent,
    /// The device answered the query.
    Answered,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Refused => "refused",
            Self::Silent => "silent",
            Self::Answered => "answered",
        })
    }
}

impl DeviceResult {
    /// Returns the number of differences: fields, attributes that only one reader could read, and
    /// different agents.
    pub fn differences(&self) -> usize {
        let of_attributes: usize = self
            .attributes
            .iter()
            .map(|attribute| attribute.outcome.differences())
            .sum();
        of_attributes + usize::from(self.other_agent.is_some())
    }

    /// Returns whether the device answered neither reader. The path record does not count, because
    /// the subnet manager answers it.
    pub fn is_silent(&self) -> bool {
        let is_unanswered =
            |attribute: &AttributeResult| matches!(attribute.outcome, Outcome::Unanswered(..));
        self.attributes
            .iter()
            .filter(|attribute| attribute.name != PATH_RECORD)
            .all(is_unanswered)
    }

    /// Returns the number of attributes and of values that were compared.
    pub fn compared(&self) -> (usize, u32) {
        let fields = self
            .attributes
            .iter()
            .filter_map(|attribute| match &attribute.outcome {
                Outcome::Compared(comparison) => Some(comparison.fields),
                _ => None,
            });
        fields.fold((0, 0), |(attributes, sum), fields| {
            (attributes + 1, sum + fields)
        })
    }

    /// Returns the groups that the masks of the device do not have, and how it answered.
    pub fn lacking(&self) -> impl Iterator<Item = (&'static str, Lacking)> {
        self.attributes
            .iter()
            .filter_map(|attribute| match attribute.outcome {
                Outcome::Lacking(how) => Some((attribute.name, how)),
                _ => None,
            })
    }
}

impl Outcome {
    /// Returns the number of differences.
    pub fn differences(&self) -> usize {
        match self {
            Self::Compared(comparison) => comparison.differences.len(),
            Self::OnlyOurs(_) | Self::OnlyTheirs(_) => 1,
            Self::Unanswered(..) | Self::Lacking(_) => 0,
        }
    }
}

/// Reads devices by both readers.
pub struct Verifier<T, C, R> {
    client: DeviceClient<T, C>,
    reference: R,
    /// Address of the sending port, for path records. `None` if no subnet manager is known.
    local: Option<Local>,
    /// Service level of performance management.
    sl: u8,
    mads: u64,
}

impl<T: Transport, C: Clock, R: Reference> Verifier<T, C, R> {
    /// Creates a verifier that has sent nothing yet.
    pub fn new(client: DeviceClient<T, C>, reference: R, local: Option<Local>, sl: u8) -> Self {
        let local = local.filter(|local| local.sm_lid.is_unicast());
        Self {
            client,
            reference,
            local,
            sl,
            mads: 0,
        }
    }

    /// Returns the number of MADs that both readers have sent, without those of
    /// [`client_mut`](Self::client_mut).
    pub fn mads(&self) -> u64 {
        self.mads + self.reference.mads()
    }

    /// Returns ibnet's client, for MADs that are not compared.
    pub fn client_mut(&mut self) -> &mut DeviceClient<T, C> {
        &mut self.client
    }

    /// Reads NodeInfo of a device once, by ibnet's reader.
    ///
    /// # Errors
    /// Returns an error if the transport is lost.
    pub fn identify(&mut self, lid: Lid) -> Result<Option<NodeInfo>, TransportError> {
        self.client.turn_to(lid);
        let query = Query::Smp(smp::Query {
            attribute: smp::NODE_INFO,
            modifier: 0,
        });
        Ok(self.ours(&query)?.ok().map(|data| NodeInfo::parse(&data)))
    }

    /// Reads all attributes of one port by both readers, and compares them.
    ///
    /// # Errors
    /// Returns an error if the transport is lost.
    pub fn device(&mut self, subject: &Subject) -> Result<DeviceResult, TransportError> {
        let Subject { lid, guid, port } = *subject;
        self.client.turn_to(lid);
        self.reference.turn_to(lid);
        let mut attributes = Vec::new();
        let (mut kind, mut port_info) = (NodeKind::Switch, None);
        for (name, attribute, of_port) in [
            ("NodeInfo", smp::NODE_INFO, PortNum(0)),
            ("PortInfo", smp::PORT_INFO, port),
        ] {
            let query = Query::Smp(smp::Query {
                attribute,
                modifier: of_port.0.into(),
            });
            let (outcome, last) =
                self.attribute(&query, None, &libibmad::management_readers(attribute))?;
            if attribute == smp::NODE_INFO {
                kind = last
                    .and_then(|data| NodeInfo::parse(&data).kind)
                    .unwrap_or(kind);
            } else {
                port_info = last.map(|data| PortInfo::parse(&data));
            }
            attributes.push(AttributeResult { name, outcome });
        }
        let link = self.link(kind, port_info)?;
        let mut path_sl = None;
        if let Some(Local {
            sm_lid,
            sm_sl,
            gid: source,
            ..
        }) = self.local
        {
            let query = Query::Sa(sa::Query {
                source,
                destination: Gid { guid, ..source },
            });
            self.client.turn_to(sm_lid);
            self.client.set_sl(sm_sl);
            let (outcome, last) = self.attribute(&query, None, &libibmad::path_readers())?;
            self.client.turn_to(lid);
            self.client.set_sl(self.sl);
            path_sl = last.map(|data| path_sl_of(&data));
            attributes.push(AttributeResult {
                name: PATH_RECORD,
                outcome,
            });
        }
        let known = libibmad::field_readers(&CLASS_PORT_INFO);
        let (outcome, last) =
            self.attribute(&CLASS_PORT_INFO_QUERY, Some(&CLASS_PORT_INFO), &known)?;
        // ClassPortInfo is mandatory, so an agent that does not answer it answers no other
        // request.
        let groups = if matches!(outcome, Outcome::Unanswered(NoAnswer::Silent, _)) {
            &[][..]
        } else {
            &Group::ALL
        };
        attributes.push(AttributeResult {
            name: CLASS_PORT_INFO.name,
            outcome,
        });
        let capabilities = self.capabilities(last, port)?;
        for group in groups.iter().copied() {
            let result = self.group(group, port, kind, capabilities)?;
            attributes.extend(result);
        }
        let (ours, theirs) = (
            self.client.target(&CLASS_PORT_INFO_QUERY),
            self.reference.agent(),
        );
        // libibmad keeps its own P_Key index after a redirection, and has its own timeout.
        let is_same = (ours.lid, ours.qp, ours.qkey, ours.sl)
            == (theirs.lid, theirs.qp, theirs.qkey, theirs.sl);
        let redirected_to = Some(ours.lid).filter(|to| *to != lid);
        Ok(DeviceResult {
            attributes,
            other_agent: (!is_same).then_some((ours, theirs)),
            redirected_to,
            link,
            path_sl,
        })
    }

    /// Returns the rate of the port, by the CapabilityMask of port 0 on a switch.
    fn link(
        &mut self,
        kind: NodeKind,
        info: Option<PortInfo>,
    ) -> Result<Option<LinkRate>, TransportError> {
        let Some(info) = info else { return Ok(None) };
        let mut mask = info.capability_mask;
        if kind == NodeKind::Switch {
            let of_switch = self.ours(&Query::Smp(smp::Query {
                attribute: smp::PORT_INFO,
                modifier: 0,
            }))?;
            mask = of_switch.map_or(mask, |data| PortInfo::parse(&data).capability_mask);
        }
        Ok(Some(info.rate(mask)))
    }

    /// Returns the capabilities of the device, with its OptionMask.
    fn capabilities(
        &mut self,
        class_port_info: Option<Data>,
        port: PortNum,
    ) -> Result<Option<Capabilities>, TransportError> {
        let Some(data) = class_port_info else {
            return Ok(None);
        };
        let query = Query::Pma(pma::Query {
            attribute: PORT_SAMPLES_CONTROL.id,
            port: Some(port),
        });
        let option_mask = self
            .ours(&query)?
            .ok()
            .map(|data| Sampling::parse(&data).option_mask);
        Ok(Some(Capabilities {
            option_mask,
            ..Capabilities::parse(&data)
        }))
    }

    /// Compares a group, and PortInfoExtended if the layout of the group depends on it.
    fn group(
        &mut self,
        group: Group,
        port: PortNum,
        kind: NodeKind,
        capabilities: Option<Capabilities>,
    ) -> Result<Vec<AttributeResult>, TransportError> {
        let mut results = Vec::new();
        let query = Query::Pma(pma::Query {
            attribute: group.attribute().id,
            port: Some(port),
        });
        if capabilities.is_some_and(|known| !known.support(group, kind)) {
            let how = match self.ours(&query)? {
                Ok(_) => Lacking::Answered,
                Err(NoAnswer::Refused(_)) => Lacking::Refused,
                Err(_) => Lacking::Silent,
            };
            results.push(AttributeResult {
                name: group.as_str(),
                outcome: Outcome::Lacking(how),
            });
            return Ok(results);
        }
        let mut view = group.attribute();
        if let Some(other) = group.other_view()
            && capabilities.is_some_and(|known| known.have(Needs::RsFec))
        {
            let query = Query::Smp(smp::Query {
                attribute: smp::PORT_INFO_EXTENDED,
                modifier: port.0.into(),
            });
            let (outcome, last) = self.attribute(
                &query,
                None,
                &libibmad::management_readers(smp::PORT_INFO_EXTENDED),
            )?;
            if last.is_some_and(|data| smp::is_rs_fec(&data)) {
                view = other;
            }
            results.push(AttributeResult {
                name: "PortInfoExtended",
                outcome,
            });
        }
        let (outcome, _) = self.attribute(&query, Some(view), &libibmad::field_readers(view))?;
        results.push(AttributeResult {
            name: group.as_str(),
            outcome,
        });
        Ok(results)
    }

    /// Reads an attribute by both readers and compares it. Also returns the last reading of ibnet.
    fn attribute(
        &mut self,
        query: &Query,
        attribute: Option<&Attribute>,
        readers: &[FieldReader],
    ) -> Result<(Outcome, Option<Data>), TransportError> {
        let mut attempt = 1;
        loop {
            let before = self.ours(query)?;
            let theirs = self.reference.read(&self.client.routed(query));
            let (before, theirs) = match (before, theirs) {
                (Ok(before), Ok(theirs)) => (before, theirs),
                (Ok(before), Err(reason)) => return Ok((Outcome::OnlyOurs(reason), Some(before))),
                (Err(reason), Ok(_)) => return Ok((Outcome::OnlyTheirs(reason), None)),
                (Err(ours), Err(theirs)) => return Ok((Outcome::Unanswered(ours, theirs), None)),
            };
            let after = match self.ours(query)? {
                Ok(after) => after,
                Err(reason) => return Ok((Outcome::OnlyTheirs(reason), Some(before))),
            };
            let comparison = compare(
                attribute,
                readers,
                &Readings {
                    before,
                    theirs,
                    after,
                },
            );
            if !comparison.may_be_cleared() || attempt == ATTEMPTS {
                return Ok((Outcome::Compared(comparison), Some(after)));
            }
            attempt += 1;
        }
    }

    /// Reads an attribute by ibnet's reader.
    fn ours(&mut self, query: &Query) -> Result<Result<Data, NoAnswer>, TransportError> {
        let response = self.client.request(query)?;
        self.mads += u64::from(response.mads);
        Ok(response.answer.map(|(_, data)| data))
    }
}

/// Returns the service level of a path record.
fn path_sl_of(data: &Data) -> u8 {
    let mut mad = [0; crate::mad::MAD_LEN];
    *pma::data_mut(&mut mad) = *data;
    sa::PathRecord::parse(&mad).sl
}
