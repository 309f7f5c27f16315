//! The writer of port records. It turns a sample of the sweep (the result of one slot for one port)
//! into the fields of a record.

use ibnet_record::attributes::Field;
use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, PortLimits, PortNum};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::counter::{Columns, Rates, Reading};
use super::sample::Sample;
use ibnet_record::port::{Optional, PortFields, WriteCounters};
use ibnet_record::{Identity, LinkSource, Role};

/// The fields of a port that change only when the fabric changes.
#[derive(Clone, PartialEq, Debug)]
pub struct PortIdentity {
    /// Port GUID.
    pub guid: Guid,
    /// Port number.
    pub port: PortNum,
    /// LID of the device.
    pub lid: Lid,
    /// Name of the node. The name is not checked, so it can contain any character.
    pub node: String,
    /// Kind of the node.
    pub kind: NodeKind,
    /// Distance from the sampler in hops, according to the plan: 0 for the HCA of the sampler host,
    /// 1 for its switch.
    pub hops: Option<u16>,
    /// GUID, port number and name of the peer.
    pub peer: Option<(Guid, PortNum, String)>,
    /// Width and speed of the link.
    pub link: LinkRate,
    /// Source of `link`.
    pub link_source: LinkSource,
    /// MTU of the link in octets. `None` before a PortInfo with a valid MTU.
    pub mtu: Option<u16>,
    /// Number of data VLs of the link. `None` before a PortInfo with a valid number.
    pub vls: Option<u8>,
    /// What the last PortInfo reports besides. `None` if the last record has it.
    pub limits: Option<PortLimits>,
}

/// A port record to be written. It borrows all of its parts. So writing it allocates no memory.
#[derive(Clone, Copy, Debug)]
pub struct PortRecord<'a> {
    /// Time of the last reply, in nanoseconds since 1970 (UTC).
    pub ts: u64,
    /// Slot number.
    pub slot: u64,
    /// Name of the sampler.
    pub sampler: &'a str,
    /// Whether the sampler is the secondary sampler of the port.
    pub is_secondary: bool,
    /// Fields that do not change from slot to slot.
    pub identity: &'a PortIdentity,
    /// Result of the slot.
    pub sample: &'a Sample<'a>,
    /// Counters and rates of the sample.
    pub reading: &'a Reading,
    /// The columns of `reading`.
    pub columns: &'a Columns,
}

impl<'a> PortRecord<'a> {
    fn fields(&self) -> PortFields<&'a str, Counters<'a>, Saturated<'a>, Displayed<'a, LinkRate>> {
        let Self {
            ts,
            slot,
            sampler,
            is_secondary,
            identity,
            sample,
            reading,
            columns,
        } = *self;
        let (peer_guid, peer_port, peer) = match &identity.peer {
            Some((guid, port, name)) => (Some(*guid), Some(*port), Some(name.as_str())),
            None => (None, None, None),
        };
        let Rates {
            interval,
            xmit_gbps,
            rcv_gbps,
            wait_interval,
            ..
        } = reading.rates;
        let limits = identity.limits;
        let violations = |key: usize| limits.map(|limits| limits.key_violations[key]);
        let shares = Shares::of(identity, sample, reading.rates);
        let nanos =
            |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        PortFields {
            ts,
            slot,
            sampler,
            role: is_secondary.then_some(Role::Secondary.as_str()),
            guid: identity.guid,
            port: identity.port,
            lid: identity.lid,
            node: &identity.node,
            kind: Some(identity.kind),
            hops: identity.hops,
            peer_guid,
            peer_port,
            peer,
            link: Displayed(&identity.link),
            link_source: identity.link_source.as_str(),
            mtu: identity.mtu,
            vls: identity.vls,
            mtu_cap: limits.and_then(|limits| limits.mtu_cap),
            vl_cap: limits.and_then(|limits| limits.vl_cap),
            vl_high_limit: limits.map(|limits| limits.vl_high_limit),
            vl_stall_count: limits.map(|limits| limits.vl_stall_count),
            hoq_life: limits.map(|limits| limits.hoq_life),
            mkey_violations: violations(0),
            pkey_violations: violations(1),
            qkey_violations: violations(2),
            status: sample.status.as_str(),
            rtt_ns: nanos(sample.rtt),
            rtt_min_ns: sample.rtt_min.map(nanos),
            mads: sample.mads.into(),
            mad_status: sample.mad_status.map(|status| status.0),
            errno: sample.errno,
            identity: if sample.verified {
                Identity::Ok
            } else {
                Identity::Unverified
            }
            .as_str(),
            counters: Counters { reading, columns },
            saturated: Saturated { reading, columns },
            clear_lost_bytes: reading.clear_lost_bytes,
            dt_ns: interval.map(nanos),
            xmit_gbps: rounded(xmit_gbps),
            rcv_gbps: rounded(rcv_gbps),
            xmit_utilization: rounded(shares.xmit),
            rcv_utilization: rounded(shares.rcv),
            xmit_blocked: rounded(shares.blocked),
            xmit_blocked_dt_ns: wait_interval
                .filter(|time| shares.blocked.is_some() && interval != Some(*time))
                .map(nanos),
        }
    }
}

impl Serialize for PortRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields().serialize(serializer)
    }
}

/// Shares of the capacity of a link or of the time, from 0 to 1. `None` if unknown.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Shares {
    /// Transmitted data as a share of the link's data rate.
    pub xmit: Option<f64>,
    /// Received data as a share of the link's data rate.
    pub rcv: Option<f64>,
    /// Share of the time in which the port had data to send and no credit.
    pub blocked: Option<f64>,
}

impl Shares {
    /// Returns the shares for these rates and the current link.
    pub fn of(identity: &PortIdentity, sample: &Sample<'_>, rates: Rates) -> Self {
        let Rates {
            xmit_gbps,
            rcv_gbps,
            wait_ticks,
            ..
        } = rates;
        let capacity = identity.link.data_gbps();
        let utilization = |gbps: Option<f64>| Some(gbps? / capacity?);
        let blocked = || {
            sample
                .tick?
                .share(wait_ticks?, identity.link.lanes()?, capacity?)
        };
        Self {
            xmit: utilization(xmit_gbps),
            rcv: utilization(rcv_gbps),
            blocked: blocked(),
        }
    }
}

/// Rounds to six decimals (1 kb/s for a rate in Gb/s).
fn rounded(value: Option<f64>) -> Option<f64> {
    value.map(|value| (value * 1e6).round() / 1e6)
}

/// Serializes the `Display` form of a value without a copy.
struct Displayed<'a, T>(&'a T);

impl<T: std::fmt::Display> Serialize for Displayed<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

/// The counters of a reading.
struct Counters<'a> {
    reading: &'a Reading,
    columns: &'a Columns,
}

impl WriteCounters for Counters<'_> {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for (field, raw) in self.reading.counters(self.columns) {
            match raw {
                [raw] => map.serialize_entry(field.json, &field.value(*raw))?,
                raws => map.serialize_entry(field.json, &Values { field, raws })?,
            }
        }
        // Nearly all groups were read in the slot before too.
        for (group, slots) in self
            .reading
            .slots_since(self.columns)
            .filter(|(_, slots)| *slots != 1)
        {
            map.serialize_entry(group.dt_slots_field(), &slots)?;
        }
        Ok(())
    }
}

/// The values of a counter that has one value for each SL, VL or lane.
struct Values<'a> {
    field: &'static Field,
    raws: &'a [u64],
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.raws.iter().map(|raw| self.field.value(*raw)))
    }
}

/// The names of the saturated counters. If any value of an array is saturated, the name of the
/// array is in the list once.
struct Saturated<'a> {
    reading: &'a Reading,
    columns: &'a Columns,
}

impl Saturated<'_> {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.reading
            .saturated(self.columns, false)
            .map(|field| field.json)
    }
}

impl Optional for Saturated<'_> {
    fn is_present(&self) -> bool {
        self.names().next().is_some()
    }
}

impl Serialize for Saturated<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names = serializer.serialize_seq(None)?;
        self.names()
            .try_for_each(|name| names.serialize_element(name))?;
        names.end()
    }
}
