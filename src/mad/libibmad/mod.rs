//! Decoding by libibmad, the MAD library of rdma-core (feature `umad`).
//!
//! This decoder shares no code with that of this crate ([`Bits`](super::pma::Bits)). Tests, benches
//! and diagnostics compare the results of both; a sweep does not use libibmad.
//!
//! [`decode`] reads all fields of one reply. To read many replies, call [`field_readers`] once and
//! then [`FieldReader::read`] for each reply.
//!
//! ```
//! use ibnet::mad::libibmad;
//! use ibnet::mad::pma::{Bits, data_mut};
//! use ibnet_record::attributes::Group;
//!
//! let mut reply = [0; 256];
//! let counters = Group::Extended.attribute();
//! let field = counters.field("PortXmitData").expect("declared");
//! field.set_raw(data_mut(&mut reply), 0, 1 << 40);
//! let values = libibmad::decode(&reply, counters);
//! let sent = values.iter().find(|value| value.field.name == "PortXmitData");
//! assert_eq!(sent.map(|value| value.value), Some(1 << 40));
//! ```
//!
//! [`LibibmadClient`] reads the attributes of devices with the queries of libibmad. `ibnet-sweep
//! verify` compares the results with those of ibnet.
//!
//! libibmad 44.0 differs from this crate in one field, QP1Dropped of PortCounters, for which it
//! reads the octets of VL15Dropped: in its table, the entry for `IB_PC_QP1_DROP_F` lacks the macro
//! that orders bits.

use ibnet_record::attributes::port_counters::PORT_COUNTERS;
use ibnet_record::attributes::{Attribute, Field};

use super::port_info::PRINTED;
use super::transport::umad::libibmad::{Base, FieldNumber, PaddedMad};
use super::vendor::subnet;
use super::{Mad, forwarding, sm_info, smp};

pub use super::transport::umad::rpc::LibibmadClient;

#[cfg(test)]
mod tests;

/// Fields of performance management. Each line has the attribute, the name in libibmad and the name
/// in the IBA specification.
const NAMES: &str = include_str!("../../../tests/data/pma-fields.tsv");

/// The bytes of a MAD in a buffer that libibmad can read.
#[derive(Clone, Copy, Debug)]
pub struct Reply(PaddedMad);

impl Reply {
    /// Copies a MAD.
    pub fn new(mad: &Mad) -> Self {
        Self(PaddedMad::new(mad))
    }
}

/// One value of a field, decoded by libibmad.
#[derive(Clone, Copy, Debug)]
pub struct FieldValue {
    /// The field, as this crate declares it.
    pub field: &'static Field,
    /// Index of the value in the field. It is 0 unless the field is an array.
    pub index: u8,
    /// The bits of the value. For a GID these are the lower 64 bits.
    pub value: u64,
}

/// Reads one value of a field with libibmad.
#[derive(Clone, Copy, Debug)]
pub struct FieldReader {
    /// The field, as this crate declares it.
    pub field: &'static Field,
    /// Index of the value in the field. It is 0 unless the field is an array.
    pub index: u8,
    number: FieldNumber,
    base: Base,
}

impl FieldReader {
    /// Returns a reader of a field of performance management or subnet management.
    ///
    /// `name` is libibmad's name, such as `IB_NODE_TYPE_F`. Returns `None` if libibmad has no such
    /// field.
    pub fn of_management(field: &'static Field, name: &str) -> Option<Self> {
        Self::new(field, 0, name, Base::Management)
    }

    /// Returns a reader of a field of subnet administration, such as `IB_SA_PR_DLID_F` of
    /// PathRecord.
    ///
    /// Returns `None` if libibmad has no field called `name`.
    pub fn of_administration(field: &'static Field, name: &str) -> Option<Self> {
        Self::new(field, 0, name, Base::Administration)
    }

    /// Returns whether libibmad reads this field of an attribute from the wrong octets.
    pub fn is_wrong_in_libibmad(&self, attribute: &Attribute) -> bool {
        (attribute.id, self.field.name) == (PORT_COUNTERS.id, "QP1Dropped")
    }

    fn new(field: &'static Field, index: u8, name: &str, base: Base) -> Option<Self> {
        Some(Self {
            field,
            index,
            number: FieldNumber::by_name(name)?,
            base,
        })
    }

    /// Reads the value. For a GID it reads the lower 64 bits.
    pub fn read(&self, reply: &Reply) -> u64 {
        self.number.read(&reply.0, self.base, self.field.width)
    }
}

/// Returns a reader for each value of an attribute of performance management, in the order of the
/// wire.
///
/// Leaves out the OpCode fields of three attributes, which libibmad does not have.
pub fn field_readers(attribute: &'static Attribute) -> Vec<FieldReader> {
    let rows = NAMES.lines().filter_map(|line| {
        let mut cells = line.split('\t').skip(1);
        Some((cells.next()?, cells.next()?, cells.next()?))
    });
    let names: Vec<(&str, &str)> = rows
        .filter(|(name, ..)| *name == attribute.name)
        .map(|(_, theirs, ours)| (ours, theirs))
        .collect();
    let values = attribute
        .fields
        .iter()
        .flat_map(|field| (0..field.len).map(move |index| (field, index)));
    let reader = |(field, index): (&'static Field, u8)| {
        let ours = if field.len > 1 {
            format!("{}{index}", field.name)
        } else {
            field.name.to_owned()
        };
        let (_, theirs) = names.iter().find(|(name, _)| *name == ours)?;
        FieldReader::new(field, index, theirs, Base::Management)
    };
    values.filter_map(reader).collect()
}

/// Names of libibmad for the fields of subnet management that this crate reads.
const MANAGEMENT_NAMES: [(&str, &str); 29] = [
    ("LinearFDBCap", "IB_SW_LINEAR_FDB_CAP_F"),
    ("LinearFDBTop", "IB_SW_LINEAR_FDB_TOP_F"),
    ("NodeType", "IB_NODE_TYPE_F"),
    ("NumPorts", "IB_NODE_NPORTS_F"),
    ("SystemImageGUID", "IB_NODE_SYSTEM_GUID_F"),
    ("NodeGUID", "IB_NODE_GUID_F"),
    ("PortGUID", "IB_NODE_PORT_GUID_F"),
    ("DeviceID", "IB_NODE_DEVID_F"),
    ("Revision", "IB_NODE_REVISION_F"),
    ("LocalPortNum", "IB_NODE_LOCAL_PORT_F"),
    ("VendorID", "IB_NODE_VENDORID_F"),
    ("MasterSMLID", "IB_PORT_SMLID_F"),
    ("CapabilityMask", "IB_PORT_CAPMASK_F"),
    ("LinkWidthActive", "IB_PORT_LINK_WIDTH_ACTIVE_F"),
    ("PortState", "IB_PORT_STATE_F"),
    ("LinkSpeedActive", "IB_PORT_LINK_SPEED_ACTIVE_F"),
    ("NeighborMTU", "IB_PORT_NEIGHBOR_MTU_F"),
    ("OperationalVLs", "IB_PORT_OPER_VLS_F"),
    ("CapabilityMask2", "IB_PORT_CAPMASK2_F"),
    ("LinkSpeedExtActive", "IB_PORT_LINK_SPEED_EXT_ACTIVE_F"),
    ("FECModeActive", "IB_PORT_EXT_FEC_MODE_ACTIVE_F"),
    ("GUID", "IB_SMINFO_GUID_F"),
    ("ActCount", "IB_SMINFO_ACT_F"),
    ("Priority", "IB_SMINFO_PRIO_F"),
    ("SMState", "IB_SMINFO_STATE_F"),
    ("StateChangeEnable", "IB_MLNX_EXT_PORT_STATE_CHG_ENABLE_F"),
    (
        "MlnxLinkSpeedSupported",
        "IB_MLNX_EXT_PORT_LINK_SPEED_SUPPORTED_F",
    ),
    (
        "MlnxLinkSpeedEnabled",
        "IB_MLNX_EXT_PORT_LINK_SPEED_ENABLED_F",
    ),
    (
        "MlnxLinkSpeedActive",
        "IB_MLNX_EXT_PORT_LINK_SPEED_ACTIVE_F",
    ),
];

/// Returns a reader for each field that this crate reads of an attribute of subnet management:
/// NodeInfo, PortInfo, PortInfoExtended, SMInfo or ExtendedPortInfo. Other attributes have no
/// reader.
///
/// Leaves out what libibmad 44 does not have: LinkSpeedExtActive2 of PortInfo, and most fields of
/// ExtendedPortInfo.
pub fn management_readers(attribute: u16) -> Vec<FieldReader> {
    let fields: &'static [Field] = match attribute {
        smp::NODE_INFO => &smp::NODE_INFO_FIELDS,
        smp::PORT_INFO => &smp::PORT_INFO_FIELDS,
        forwarding::SWITCH_INFO => &forwarding::SWITCH_INFO_FIELDS,
        smp::PORT_INFO_EXTENDED => &[smp::FEC_MODE_ACTIVE],
        sm_info::SM_INFO => &sm_info::SM_INFO_FIELDS,
        subnet::EXTENDED_PORT_INFO => &subnet::EXTENDED_PORT_INFO_FIELDS,
        _ => &[],
    };
    let reader = |field: &'static Field| {
        let named =
            |(ours, theirs): &(&str, &'static str)| (*ours == field.name).then_some(*theirs);
        let theirs = MANAGEMENT_NAMES.iter().find_map(named).or_else(|| {
            let mut printed = PRINTED.iter();
            printed.find_map(|printed| named(&(printed.field.name, printed.libibmad)))
        })?;
        FieldReader::of_management(field, theirs)
    };
    fields.iter().filter_map(reader).collect()
}

/// Returns a reader for the LID and one for the service level of a PathRecord.
pub fn path_readers() -> Vec<FieldReader> {
    let readers = [
        FieldReader::of_administration(&PATH_DLID, "IB_SA_PR_DLID_F"),
        FieldReader::of_administration(&PATH_SL, "IB_SA_PR_SL_F"),
    ];
    readers.into_iter().flatten().collect()
}

/// DLID of PathRecord. The bits count from octet 64 of the MAD, as in the other tables.
static PATH_DLID: Field = Field::new("DLID", "dlid", 256, 16);
/// SL of PathRecord.
static PATH_SL: Field = Field::new("SL", "sl", 364, 4);

/// Decodes all fields of a reply that carries this attribute, in the order of the wire.
pub fn decode(reply: &Mad, attribute: &'static Attribute) -> Vec<FieldValue> {
    let reply = Reply::new(reply);
    let value = |reader: FieldReader| FieldValue {
        field: reader.field,
        index: reader.index,
        value: reader.read(&reply),
    };
    field_readers(attribute).into_iter().map(value).collect()
}
