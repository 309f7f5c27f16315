//! Reads ports reports: the output of `ibnetdiscover -p`. Use [`net_file`] to read either format.

use super::net_file;

pub use super::net_file::{NetFile, NetFileError};

/// Parses a ports report and no other format. Messages name the file `name`.
///
/// # Errors
/// Returns an error if no line can be parsed: the file is empty, or has another format.
pub fn parse(bytes: &[u8], name: &str) -> Result<NetFile, NetFileError> {
    net_file::parse_as(net_file::Format::PortsReport, bytes, name)
}
