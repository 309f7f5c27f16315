//! Queries PortInfo and prints it for people.

use std::fmt::Write;

use ibnet_record::types::{Lid, NodeKind, PortNum};

use super::{Client, NoAnswer};
use crate::mad::port_info::PRINTED;
use crate::mad::query::Query;
use crate::mad::smp::{self, IS_EXTENDED_SPEEDS_SUPPORTED, NodeInfo, PortInfo};
use crate::mad::vendor;
use crate::mad::vendor::subnet::{EXTENDED_PORT_INFO, ExtendedPortInfo};

/// Queries PortInfo of a port and returns it as text: a heading, and one line for each field in
/// the format of `smpquery portinfo`. The first line after the heading has the width and the speed
/// of the link in the notation of `ibnetdiscover`. PortInfo reports QDR for FDR10, so a device of
/// NVIDIA is asked for ExtendedPortInfo then.
///
/// # Errors
/// The outer error is a lost transport. The inner error is the reason for a missing answer.
pub fn port_info<C: Client>(
    lid: Lid,
    port: PortNum,
    client: &mut C,
) -> Result<Result<String, NoAnswer>, C::Error> {
    let mut ask = |attribute, port| {
        Ok(client
            .request(&Query::Smp(smp::Query { attribute, port }))?
            .answer
            .map(|(_, data)| data))
    };
    let data = match ask(smp::PORT_INFO, port)? {
        Ok(data) => data,
        Err(reason) => return Ok(Err(reason)),
    };
    let info = PortInfo::parse(&data);
    let node = ask(smp::NODE_INFO, PortNum(0))?
        .ok()
        .map(|data| NodeInfo::parse(&data));
    // On a switch, only the mask of port 0 is valid.
    let mask = match node.and_then(|node| node.kind) {
        Some(NodeKind::Switch) => ask(smp::PORT_INFO, PortNum(0))?
            .map_or(0, |data| PortInfo::parse(&data).capability_mask),
        _ => info.capability_mask,
    };
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# Port info: Lid {lid} port {port}");
    let link = if info.state == PortInfo::ACTIVE {
        let mut rate = info.rate(mask);
        // Other vendors may use the attribute for something else.
        if &*rate.speed == "QDR"
            && node.is_some_and(|node| node.vendor_id == vendor::NVIDIA)
            && let Ok(data) = ask(EXTENDED_PORT_INFO, port)?
            && ExtendedPortInfo::parse(&data).is_fdr10
        {
            rate.speed = "FDR10".into();
        }
        rate.to_string()
    } else {
        "not active".to_owned()
    };
    let _ = writeln!(text, "{:.<33}{link}", "Link:");
    for printed in PRINTED.iter().filter(|printed| {
        !printed.is_of_extended_speeds() || mask & IS_EXTENDED_SPEEDS_SUPPORTED != 0
    }) {
        let _ = writeln!(
            text,
            "{:.<33}{}",
            format!("{}:", printed.field.name),
            printed.text(&data)
        );
    }
    Ok(Ok(text))
}
