//! Management datagrams (MADs): encoding, decoding and transports.
//!
//! A MAD has 256 octets, in big-endian order: a common header of 24 octets ([`header`]), then the
//! data of its class. ibnet uses performance management ([`pma`]) for counters. It uses subnet
//! management ([`smp`]) and subnet administration ([`sa`]) only to verify which device the counters
//! belong to.
//!
//! Functions take and return values in the byte order of the host. Decoding never panics. Encoding
//! writes every octet of the MAD, so a buffer can be reused without clearing it.
//!
//! | module | contents |
//! |---|---|
//! | [`header`] | the common header (IBA vol. 1, 13.4.2) |
//! | [`pma`] | class 0x04: attributes as tables of fields, requests |
//! | [`smp`] | class 0x01: NodeInfo, PortInfo |
//! | [`sa`] | class 0x03: PathRecord |
//! | [`query`] | a request of any class, and the check of its reply |
//! | [`exchange`] | the data that an engine and a transport exchange |
//! | [`transport`] | transports: libibumad and the simulator |
//! | `libibmad` | decoding by libibmad, for comparison (feature `umad`) |

pub mod exchange;
pub mod header;
#[cfg(feature = "umad")]
pub mod libibmad;
pub mod pma;
pub mod query;
pub mod sa;
pub mod smp;
pub mod transport;

/// Octets of a MAD (IBA vol. 1, 13.4.2).
pub const MAD_LEN: usize = 256;

/// The octets of a MAD.
pub type Mad = [u8; MAD_LEN];
