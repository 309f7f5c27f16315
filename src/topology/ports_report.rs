//! Reads and writes ports reports: the output of `ibnetdiscover -p`. Use [`net_file`] to read either
//! format.

use std::fmt::Write;

use ibnet_record::types::NodeKind;

use super::{Peer, net_file};

pub use super::net_file::{NetFile, NetFileError};

/// Parses a ports report and no other format. Messages name the file `name`.
///
/// # Errors
/// Returns an error if no line can be parsed: the file is empty, or has another format.
pub fn parse(bytes: &[u8], name: &str) -> Result<NetFile, NetFileError> {
    net_file::parse_as(net_file::Format::PortsReport, bytes, name)
}

/// Appends the line of a port, without a peer if it has no link.
pub fn write_line(text: &mut String, own: &Peer, rate: &str, peer: Option<&Peer>) {
    let end = |text: &mut String, end: &Peer| {
        let kind = match end.kind {
            NodeKind::Switch => "SW",
            NodeKind::Hca => "CA",
            NodeKind::Router => "RT",
        };
        let (lid, port, guid) = (end.lid.0, end.port.0, end.guid);
        // Writing to a String cannot fail.
        let _ = write!(text, "{kind} {lid:5} {port:2} {guid}");
    };
    end(text, own);
    let _ = match peer {
        Some(peer) => {
            let _ = write!(text, " {rate} - ");
            end(text, peer);
            writeln!(text, " ( '{}' - '{}' )", own.name, peer.name)
        }
        None => writeln!(text, " {rate}{:36}'{}'", "", own.name),
    };
}
