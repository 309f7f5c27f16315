//! Management datagrams: what goes over the wire, and the ways to get it there.
//!
//! A MAD is 256 octets, big-endian throughout: a common header of 24 octets ([`header`]), then what the class makes of the
//! rest. Of the classes ibnet speaks performance management ([`pma`]), and of subnet management ([`smp`]) and administration ([`sa`])
//! what it takes to know whose counters they are.
//!
//! Accessors take and return values in the host's order. Decoding never panics, whatever the octets are; encoding writes every
//! octet of the MAD, so a buffer may be used again without being cleared.
//!
//! | file | what is in it |
//! |---|---|
//! | [`header`] | the common header, IBA vol. 1, 13.4.2 |
//! | [`pma`] | attributes of class 0x04 as tables of fields, requests and the check of replies |
//! | [`smp`] | class 0x01: NodeInfo, PortInfo |
//! | [`sa`] | class 0x03: PathRecord |
//! | [`query`] | a request of any of them, and the check of its reply |
//! | [`exchange`] | what an engine and a transport say to each other |
//! | [`transport`] | the ways to a fabric: libibumad, or a simulated one |

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

/// A whole MAD.
pub type Mad = [u8; MAD_LEN];
