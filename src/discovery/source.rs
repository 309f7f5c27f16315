//! The fabric itself in place of a net file: `umad`, or `umad:` and the HCA port that sends.

use std::path::Path;

use ibnet_record::types::HcaName;
use miette::Diagnostic;

#[cfg(feature = "umad")]
use super::discover;
use super::run::Discovered;
use crate::mad::transport::TransportError;
#[cfg(feature = "umad")]
use crate::mad::transport::umad::{UmadError, UmadTransport, ports};
#[cfg(feature = "umad")]
use crate::sweep::driver::SystemClock;

/// The word that stands for the fabric where a net file is expected.
pub const FABRIC: &str = "umad";

/// Reason why the fabric cannot be discovered.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The host has no HCA port that can send.
    #[cfg(feature = "umad")]
    #[error(transparent)]
    #[diagnostic(transparent)]
    Umad(#[from] UmadError),
    /// The program was built without libibumad.
    #[cfg(not(feature = "umad"))]
    #[error("cannot discover a real fabric: this program was built without InfiniBand")]
    #[diagnostic(help("build it with the feature `umad` (a default feature), or give a net file"))]
    NoUmad,
    /// The transport failed.
    #[error("cannot discover the fabric: the connection to it was lost")]
    #[diagnostic(help("check that the HCA is present (`ibstat`), and run the command again"))]
    Lost(#[from] TransportError),
    /// Not even the own HCA port has answered.
    #[error("cannot discover the fabric: {0}")]
    #[diagnostic(help(
        "check the port with `ibstat` and `smpquery -D nodeinfo 0`; an HCA that requires an M_Key does not answer"
    ))]
    Nothing(String),
}

/// Returns the HCA port if a net file argument stands for the fabric.
pub fn hca_of(net: &Path) -> Option<HcaName> {
    let name = net.to_str()?.strip_prefix(FABRIC)?;
    if name.is_empty() {
        return Some(HcaName::default());
    }
    name.strip_prefix(':')?.parse().ok()
}

/// Discovers the fabric of an HCA port of this host.
///
/// # Errors
/// Returns an error if the port cannot be used, if the connection is lost, or if the port does not
/// answer.
#[cfg(feature = "umad")]
pub fn discover_from(
    hca: &HcaName,
    seed: u64,
    progress: impl FnMut((u64, u64)),
) -> Result<Discovered, DiscoveryError> {
    let mut transport = UmadTransport::open(&ports::find(hca)?)?;
    let clock = SystemClock::start();
    discover(&mut transport, &clock, seed, progress).map_err(DiscoveryError::from)
}

/// Returns an error, because no HCA can be opened.
///
/// # Errors
/// Always returns an error.
#[cfg(not(feature = "umad"))]
pub fn discover_from(
    _: &HcaName,
    _: u64,
    _: impl FnMut((u64, u64)),
) -> Result<Discovered, DiscoveryError> {
    Err(DiscoveryError::NoUmad)
}

impl Discovered {
    /// Returns an error if nothing was found.
    ///
    /// # Errors
    /// Returns an error if there is no line.
    pub fn checked(self) -> Result<Self, DiscoveryError> {
        if self.net_file.is_empty() {
            return Err(DiscoveryError::Nothing(self.notes.join("; ")));
        }
        Ok(self)
    }
}
