//! The counters of a port, as InfiniBand and the records name them.
//!
//! An *attribute* is the unit of data in a MAD, such as PortCounters. Each [`Attribute`] is
//! declared once, as a table of [`Field`]s. A field has bits in the MAD, a name and a unit.
//! Decoding, encoding (module `mad::pma` of `ibnet`) and the names in the records use this table.
//!
//! - The attribute begins at octet 64 of the MAD and has 192 octets. The code numbers the bits of
//!   the attribute from 0 ("wire bits"). Wire bit 0 is the most significant bit of the first octet.
//!   Every field is one run of bits, the most significant bit first.
//! - A data counter counts **words** of 4 octets. Only [`Field::value`] converts words to octets.
//! - A counter of fewer than 64 bits stops when all of its bits are one. Then its true value may be
//!   larger.
//!
//! | module | attributes |
//! |---|---|
//! | `field` | the types of a table |
//! | `group` | the attributes by the names of perfquery and LDMS |
//! | [`sampling`] | 0x10 PortSamplesControl: optional attributes of an agent, length of a tick |
//! | [`port_counters`] | 0x12 PortCounters: the mandatory 32-bit counters |
//! | [`error_details`] | 0x15 PortRcvErrorDetails, 0x16 PortXmitDiscardDetails |
//! | [`flow_control`] | 0x17 PortOpRcvCounters, 0x18 PortFlowCtlCounters |
//! | [`vl_counters`] | 0x19 to 0x1C: one value for each VL |
//! | [`port_counters_extended`] | 0x1D PortCountersExtended: 64 bits |
//! | [`extended_speeds`] | 0x1F PortExtendedSpeedsCounters, in two layouts |
//! | [`congestion`] | 0x30 to 0x35: congestion control |
//! | [`sl_data`] | 0x36, 0x37: data for each SL |
//! | [`tables`] | all counters as text: a section of `docs/records.md` |

pub mod congestion;
pub mod error_details;
pub mod extended_speeds;
mod field;
pub mod flow_control;
mod group;
pub mod port_counters;
pub mod port_counters_extended;
pub mod sampling;
pub mod sl_data;
pub mod tables;
pub mod vl_counters;

pub use field::{Attribute, Field, Needs, Unit};
pub use group::Group;
