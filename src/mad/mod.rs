//! Management datagrams (MADs): encoding, decoding and transports.
//!
//! A MAD is a message of 256 bytes in big-endian order that queries an InfiniBand device. It
//! begins with a common header of 24 bytes ([`header`]), which the data of its class follows.
//! ibnet uses four kinds of classes:
//!
//! - performance management ([`pma`]) reads counters;
//! - subnet management ([`smp`]) verifies which device answers, and reads the state of links;
//! - subnet administration ([`sa`]) asks the subnet manager for the path to a device;
//! - vendor-specific management ([`vendor`]) reads registers of NVIDIA devices.
//!
//! The functions take and return values in the byte order of the host. Decoding never panics.
//! Encoding writes all 256 bytes, so a caller can reuse a buffer without clearing it.
//!
//! | module | contents |
//! |---|---|
//! | [`header`] | the common header (IBA vol. 1, 13.4.2) |
//! | [`pma`] | class 0x04: attributes as tables of fields, requests, clearing of counters |
//! | [`smp`] | class 0x01: NodeInfo, PortInfo |
//! | [`forwarding`] | class 0x01: SwitchInfo, linear forwarding tables, SL to VL |
//! | [`port_info`] | class 0x01: the fields of PortInfo for people |
//! | [`sm_info`] | class 0x01: SMInfo of a subnet manager |
//! | [`sa`] | class 0x03: PathRecord |
//! | [`inform`] | class 0x03: subscription to traps |
//! | [`vendor`] | class 0x0A: registers of the physical layer, of modules and of switches |
//! | [`query`] | a request of any class, and the check of its reply |
//! | [`exchange`] | the data that the engine (`sweep::engine`) and a transport exchange |
//! | [`transport`] | transports, which send and receive MADs: libibumad, or a simulated fabric |
//! | `libibmad` | the decoder of libibmad, to compare it with ours (feature `umad`) |

pub mod directed;
pub mod exchange;
pub mod forwarding;
pub mod header;
pub mod inform;
#[cfg(feature = "umad")]
pub mod libibmad;
pub mod pma;
pub mod port_info;
pub mod query;
pub mod sa;
pub mod sm_info;
pub mod smp;
pub mod transport;
pub mod vendor;

/// Length of a MAD in bytes (IBA vol. 1, 13.4.2).
pub const MAD_LEN: usize = 256;

/// The bytes of a MAD.
pub type Mad = [u8; MAD_LEN];
