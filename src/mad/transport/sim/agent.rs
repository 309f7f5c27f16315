//! The performance management agent of a simulated device, which turns the MAD of a request into
//! the MAD of the reply.

use std::slice;

use ibnet_record::attributes::sampling::PORT_SAMPLES_CONTROL;
use ibnet_record::attributes::{Attribute, Field, Group};
use ibnet_record::types::NodeKind;

use super::traffic::LEVELS;
use crate::mad::header::{Header, METHOD_GET, METHOD_GET_RESP, METHOD_SET, MadStatus};
use crate::mad::pma::class_port_info::Redirect;
use crate::mad::pma::{
    Bits, CLASS_PERF_MGT, CLASS_PORT_INFO, CLASS_VERSION, Capabilities, Clearable, Data, Sampling,
    data, data_mut,
};
use crate::mad::{MAD_LEN, Mad};

/// The counters of one port at one instant. All other counters are zero in the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Transmitted words of 4 bytes.
    pub xmit_words: u64,
    /// Received words of 4 bytes.
    pub rcv_words: u64,
    /// Transmitted packets, all of them unicast.
    pub xmit_packets: u64,
    /// Received packets, all of them unicast.
    pub rcv_packets: u64,
    /// Ticks in which data could not be sent because there were no credits.
    pub xmit_wait: u64,
    /// Transmitted words by service level.
    pub xmit_sl_words: [u64; LEVELS],
    /// Received words by service level.
    pub rcv_sl_words: [u64; LEVELS],
    /// Ticks by virtual lane.
    pub vl_wait: [u64; LEVELS],
    /// Symbol errors.
    pub symbol_errors: u64,
    /// How often the link went down.
    pub link_downed: u64,
}

impl Counters {
    /// Returns the words by service level that a request can clear.
    pub fn by_sl(&mut self, of: Clearable) -> &mut [u64; LEVELS] {
        match of {
            Clearable::XmtSl => &mut self.xmit_sl_words,
            Clearable::RcvSl => &mut self.rcv_sl_words,
        }
    }
}

/// Function that returns the values of a field: one, or those of an array.
type Source = fn(&Counters) -> &[u64];

/// The attributes of simulated agents, with the source of each field.
#[derive(Debug)]
pub struct Encoder {
    attributes: Vec<(&'static Attribute, Vec<(&'static Field, Source)>)>,
}

impl Default for Encoder {
    fn default() -> Self {
        let sources = |attribute: &'static Attribute| {
            attribute
                .counters()
                .filter_map(|field| Some((field, source(field)?)))
                .collect()
        };
        Self {
            attributes: Group::ALL
                .iter()
                .map(|group| group.attribute())
                .map(|attribute| (attribute, sources(attribute)))
                .collect(),
        }
    }
}

fn source(field: &Field) -> Option<Source> {
    Some(match field.name {
        "PortXmitData" => |counters| slice::from_ref(&counters.xmit_words),
        "PortRcvData" => |counters| slice::from_ref(&counters.rcv_words),
        "PortXmitPkts" | "PortUnicastXmitPkts" => {
            |counters| slice::from_ref(&counters.xmit_packets)
        }
        "PortRcvPkts" | "PortUnicastRcvPkts" => |counters| slice::from_ref(&counters.rcv_packets),
        "XmtDataSL" => |counters| &counters.xmit_sl_words,
        "RcvDataSL" => |counters| &counters.rcv_sl_words,
        "PortXmitWait" => |counters| slice::from_ref(&counters.xmit_wait),
        "PortVLXmitWait" => |counters| &counters.vl_wait,
        "LinkDownedCounter" => |counters| slice::from_ref(&counters.link_downed),
        "SymbolErrorCounter" => |counters| slice::from_ref(&counters.symbol_errors),
        _ => return None,
    })
}

/// Returns a reply that redirects the request to another agent (IBA vol. 1, 13.5.4).
pub fn redirect(request: &Mad, to: Redirect) -> Option<Mad> {
    let header = Header::parse(request);
    let mut reply = [0; MAD_LEN];
    Header {
        method: METHOD_GET_RESP,
        status: MadStatus::REDIRECT,
        ..header
    }
    .emit(&mut reply);
    to.emit(data_mut(&mut reply));
    matches!(header.method, METHOD_GET | METHOD_SET).then_some(reply)
}

/// Returns whether an agent has an attribute.
fn has(attribute: &Attribute, capabilities: Capabilities) -> bool {
    let group = Group::ALL
        .into_iter()
        .find(|group| group.attribute().id == attribute.id);
    // The check for a switch is correct for all devices, because the OptionMask of other devices
    // does not have the attributes that only switches have.
    group.is_some_and(|group| capabilities.support(group, NodeKind::Switch))
}

/// Returns the counters, the port and the service levels (one bit each) that a request clears.
pub fn clears(request: &Mad) -> Option<(Clearable, u8, u16)> {
    let header = Header::parse(request);
    let of = Clearable::ALL
        .into_iter()
        .find(|of| of.attribute().id == header.attribute)?;
    let raw = |name| Some(of.attribute().field(name)?.raw(data(request), 0));
    let (port, select) = (raw("PortSelect")? as u8, raw("CounterSelect")? as u16);
    (header.method == METHOD_SET).then_some((of, port, select))
}

/// Answers a request of performance management. Returns `None` for another class, version or
/// method, because a real device has no agent for it and does not answer.
///
/// The only valid requests with the method Set are those that [clear](clears) counters. They are
/// answered like a Get, with the counters after the clearing, which the caller performs.
///
/// `agent` has the capabilities and the Tick of the agent. `counters` returns the counters of a
/// port, or `None` if the agent has no such port.
pub fn answer(
    encoder: &Encoder,
    agent: (Capabilities, u8),
    request: &Mad,
    counters: impl FnOnce(u8) -> Option<Counters>,
) -> Option<Mad> {
    let header = Header::parse(request);
    let is_request = header.method == METHOD_GET || clears(request).is_some();
    if (header.class, header.class_version, is_request) != (CLASS_PERF_MGT, CLASS_VERSION, true) {
        return None;
    }
    let mut reply = [0; MAD_LEN];
    let (status, fields) = body(encoder, agent, header.attribute, data(request), counters);
    Header {
        method: METHOD_GET_RESP,
        status,
        ..header
    }
    .emit(&mut reply);
    *data_mut(&mut reply) = fields;
    Some(reply)
}

/// Returns the status and the attribute of a reply. With an error status, the reply repeats the
/// attribute of the request.
fn body(
    encoder: &Encoder,
    (capabilities, tick): (Capabilities, u8),
    attribute: u16,
    request: &Data,
    counters: impl FnOnce(u8) -> Option<Counters>,
) -> (MadStatus, Data) {
    let mut data = *request;
    if attribute == CLASS_PORT_INFO.id {
        data.fill(0);
        capabilities.emit(&mut data);
        for (name, value) in [("BaseVersion", 1), ("ClassVersion", 1), ("RespTimeVal", 18)] {
            if let Some(field) = CLASS_PORT_INFO.field(name) {
                field.set_raw(&mut data, 0, value);
            }
        }
        return (MadStatus::OK, data);
    }
    let Some((attribute, sources)) = encoder
        .attributes
        .iter()
        .find(|(known, _)| known.id == attribute && has(known, capabilities))
    else {
        return (MadStatus::UNSUPPORTED_ATTRIBUTE, data);
    };
    let port = attribute
        .field("PortSelect")
        .map_or(0, |field| field.raw(request, 0) as u8);
    let Some(counters) = counters(port) else {
        return (MadStatus::INVALID_VALUE, data);
    };
    // The first bytes of the reply, such as PortSelect, repeat those of the request.
    data[4..].fill(0);
    if attribute.id == PORT_SAMPLES_CONTROL.id {
        Sampling {
            tick,
            option_mask: capabilities.option_mask.unwrap_or(0),
        }
        .emit(&mut data);
    }
    for (field, source) in sources
        .iter()
        .filter(|(field, _)| capabilities.have(field.needs))
    {
        for (index, value) in (0..).zip(source(&counters)) {
            field.set_raw(&mut data, index, *value);
        }
    }
    (MadStatus::OK, data)
}

#[cfg(test)]
mod tests {
    use ibnet_record::types::{PortNum, Tid};

    use super::*;
    use crate::mad::pma;
    use crate::mad::query::{BadReply, Query};

    const ALL: Capabilities = Capabilities {
        mask: 0xffff,
        mask2: u32::MAX,
        option_mask: None,
    };

    fn query(capabilities: Capabilities, attribute: u16, port: u8) -> Result<Data, BadReply> {
        let request_query = Query::Pma(pma::Query {
            attribute,
            port: Some(PortNum(port)),
        });
        let mut request = [0xa5; MAD_LEN];
        request_query.emit(Tid(9), &mut request);
        let counters = Counters {
            xmit_words: 1 << 40,
            xmit_wait: 5,
            ..Counters::default()
        };
        let reply = answer(&Encoder::default(), (capabilities, 7), &request, |port| {
            (port == 1).then_some(counters)
        })
        .expect("answered");
        assert_eq!(Header::parse(&reply).tid, Tid(9));
        request_query.check(&reply, MAD_LEN).map(|()| *data(&reply))
    }

    #[test]
    fn wide_counters_are_returned_and_narrow_ones_saturate() {
        let raw = |group: Group, name: &str| {
            group
                .attribute()
                .field(name)
                .map(|field| field.raw(&query(ALL, group.attribute().id, 1).expect("answered"), 0))
        };
        assert_eq!(raw(Group::Extended, "PortXmitData"), Some(1 << 40));
        assert_eq!(raw(Group::Base, "PortXmitData"), Some(0xffff_ffff));
        assert_eq!(raw(Group::Base, "PortXmitWait"), Some(5));
    }

    #[test]
    fn missing_port_or_attribute_is_refused() {
        assert_eq!(
            query(ALL, 0x12, 2).expect_err("no such port"),
            BadReply::Status(MadStatus::INVALID_VALUE)
        );
        assert_eq!(
            query(ALL, 0x7777, 1).expect_err("no such attribute"),
            BadReply::Status(MadStatus::UNSUPPORTED_ATTRIBUTE)
        );
        let narrow = Capabilities::default();
        assert_eq!(
            query(narrow, 0x1d, 1).expect_err("no 64-bit counters"),
            BadReply::Status(MadStatus::UNSUPPORTED_ATTRIBUTE)
        );
    }

    #[test]
    fn request_of_another_class_is_not_answered() {
        let mut request = [0; MAD_LEN];
        pma::Query {
            attribute: 0x12,
            port: Some(PortNum(1)),
        }
        .emit(Tid(1), &mut request);
        request[1] = 0x81;
        assert_eq!(
            answer(&Encoder::default(), (ALL, 7), &request, |_| None),
            None
        );
    }
}
