//! Ways to a fabric.
//!
//! | transport | what it is |
//! |---|---|
//! | `umad` | libibumad: the kernel's userspace MAD device (feature `umad`) |
//! | [`sim`] | the fabric of a net file, simulated in this process |

use std::time::Duration;

use rustix::io::Errno;

use super::Mad;
use super::exchange::{Completion, Local, Outcome, Target};
use crate::time::Instant;

pub mod sim;
#[cfg(feature = "umad")]
pub mod umad;

/// Sends MADs and tells what became of them.
///
/// The engine owns deadlines and order. A transport resends nothing; it gives up waiting for a reply after the time that
/// the target tells, and then says so with one completion, after which it drops a late reply. For a MAD that could not be
/// sent at all there may be no completion ever.
///
/// No method reads a clock: `now` is told.
pub trait Transport {
    /// Sends a MAD without waiting for its reply.
    ///
    /// # Errors
    /// When this MAD was not sent; with [`TransportError::no_agent`] if none of its class can be. Others may still be, unless
    /// [the way is lost](TransportError::is_of_the_way).
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError>;

    /// Waits at most `wait` for a completion; a reply's octets are put into `mad`. `None` if there is none.
    ///
    /// # Errors
    /// When the way to the fabric is lost.
    fn recv(&mut self, mad: &mut Mad, wait: Duration, now: Instant) -> Result<Option<Completion>, TransportError>;

    /// Where the port that sends is on its subnet now; `None` if that cannot be told.
    fn local(&mut self) -> Option<Local>;
}

/// A call that failed, and its errno.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed: {source}")]
pub struct TransportError {
    /// The call of the library or of the system.
    pub call: &'static str,
    /// What it said.
    #[source]
    pub source: std::io::Error,
}

impl TransportError {
    /// A call that said `errno`.
    pub fn new(call: &'static str, errno: i32) -> Self {
        Self { call, source: std::io::Error::from_raw_os_error(errno) }
    }

    /// The transport has no agent for the management class of the MAD.
    pub fn no_agent() -> Self {
        Self::new("umad_register", Errno::OPNOTSUPP.raw_os_error())
    }

    /// Whether the transport has no agent for the management class of the MAD.
    pub fn is_no_agent(&self) -> bool {
        self.errno() == Errno::OPNOTSUPP.raw_os_error()
    }

    /// The outcome of a MAD whose send failed with this error.
    pub fn outcome(&self) -> Outcome {
        if self.is_no_agent() { Outcome::NoAgent } else { Outcome::SendFailed(self.errno()) }
    }

    /// The errno, 0 if there was none.
    pub fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }

    /// Whether it says of a send that nothing can be sent any more, and not only of this MAD. A device that is gone says so since Linux 5.12 (EIO);
    /// before that it said EINVAL, as of a MAD that is refused. A simulator says that it is not connected.
    pub fn is_of_the_way(&self) -> bool {
        const EIO: i32 = 5;
        const ENXIO: i32 = 6;
        const EBADF: i32 = 9;
        const ENODEV: i32 = 19;
        const EPIPE: i32 = 32;
        const ENOTCONN: i32 = 107;
        [EIO, ENXIO, EBADF, ENODEV, EPIPE, ENOTCONN].contains(&self.errno())
    }
}
