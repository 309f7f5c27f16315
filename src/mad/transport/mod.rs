//! Transports, which send MADs into a fabric and receive the replies.
//!
//! | transport | fabric |
//! |---|---|
//! | `umad` | a real one, through libibumad and the kernel (feature `umad`) |
//! | [`sim`] | the fabric of a net file, simulated in this process |

use std::io;
use std::time::Duration;

use rustix::io::Errno;

use super::Mad;
use super::exchange::{Completion, Local, Outcome, Target};
use crate::time::Instant;

pub mod sim;
#[cfg(feature = "umad")]
pub mod umad;

/// Reads the LID of the sending port and the LID of its subnet manager.
///
/// The driver calls this function about once a second on a separate thread, and never on the MAD
/// thread while slots run. The first call also reads the service level to the subnet manager and
/// the GID; a later call does so only if one of the LIDs has changed. Returns `None` if the port
/// cannot be read now.
pub type Locator = Box<dyn FnMut() -> Option<Local> + Send>;

/// Sends MADs and reports their completions.
///
/// The engine decides on the deadlines and the order of the MADs. A transport never sends a MAD
/// twice. It waits for a reply for the time [`Target::give_up`], then reports one completion with
/// [`Outcome::TimedOut`] and drops a later reply. A MAD that was not sent may have no completion.
///
/// No method reads a clock: `now` is an argument.
pub trait Transport {
    /// Sends a MAD without waiting for its reply.
    ///
    /// # Errors
    /// Fails if this MAD was not sent. Other MADs can still be sent, unless
    /// [`TransportError::is_lost`] returns true.
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError>;

    /// Waits at most `wait` for a completion and copies its reply to `mad`. Returns `None` if
    /// there was no completion.
    ///
    /// # Errors
    /// Fails if the transport is lost.
    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError>;

    /// Returns a reader of the LID of the port and of the LID of its subnet manager.
    ///
    /// The reader is independent of this transport: it may run on another thread, and after this
    /// transport is closed.
    fn locator(&self) -> Locator;
}

/// Reason why a MAD was not sent, or why no completion can be received.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// A call of the library or of the system failed.
    #[error("{call} failed: {source}")]
    Call {
        /// Name of the call, such as `umad_send`.
        call: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The transport has no agent for the class of the MAD. MADs of other classes can be sent.
    #[error("no agent is registered for management class {class:#04x}")]
    NoAgent {
        /// Management class.
        class: u8,
    },
    /// The sending port is not active. MADs would be accepted, but would reach no device.
    #[error(
        "the HCA port is not active: its cable or its switch has failed, or no subnet manager has activated it"
    )]
    PortDown,
}

impl TransportError {
    /// Returns the error of a call that failed with `errno`.
    pub fn new(call: &'static str, errno: i32) -> Self {
        Self::Call {
            call,
            source: io::Error::from_raw_os_error(errno),
        }
    }

    /// Returns the error of a call that failed with `source`.
    pub fn call(call: &'static str, source: io::Error) -> Self {
        Self::Call { call, source }
    }

    /// Returns the errno. It is 0 if the call set none, `EOPNOTSUPP` for [`Self::NoAgent`], and
    /// `ENETDOWN` for [`Self::PortDown`].
    pub fn errno(&self) -> i32 {
        match self {
            Self::Call { source, .. } => source.raw_os_error().unwrap_or(0),
            Self::NoAgent { .. } => Errno::OPNOTSUPP.raw_os_error(),
            Self::PortDown => Errno::NETDOWN.raw_os_error(),
        }
    }

    /// Returns whether the transport is lost, so that no further MAD can be sent or received.
    ///
    /// Since Linux 5.12, a call on a removed device fails with `EIO`. An older kernel returns
    /// `EINVAL`, but it does so for a MAD that it rejects too, so `EINVAL` does not count as a
    /// loss. `ENOTCONN` comes only from the preloaded library of ibsim, after the simulator has
    /// ended.
    pub fn is_lost(&self) -> bool {
        const LOST: [Errno; 7] = [
            Errno::IO,
            Errno::NXIO,
            Errno::BADF,
            Errno::NODEV,
            Errno::PIPE,
            Errno::NOTCONN,
            Errno::NETDOWN,
        ];
        LOST.iter()
            .any(|errno| errno.raw_os_error() == self.errno())
    }

    /// Returns the outcome that the engine gets for a MAD that was not sent.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Call { .. } | Self::PortDown => Outcome::SendFailed(self.errno()),
            Self::NoAgent { .. } => Outcome::NoAgent,
        }
    }
}
