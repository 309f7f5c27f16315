//! Prints shortest-path forwarding tables for the fabric of a net file, in the form of
//! `opensm.fdbs`. The destination decides which of several equal ports a switch uses.
//!
//!     cargo run --release -p ibnet-analysis --example minhop_tables -- net.p > routes.txt
//!     ibnet-view routing --routes routes.txt --net net.p

use std::collections::VecDeque;
use std::io::{self, BufWriter, Write};

use ibnet::topology::{Device, DeviceId, net_file};
use ibnet_record::types::NodeKind;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give a net file")?;
    let fabric = net_file::read(path.as_ref())?.fabric;
    let is_switch = |device: &Device| device.kind == NodeKind::Switch;
    let last = fabric.devices().iter().map(|device| device.lid.0).max();
    let last = usize::from(last.unwrap_or(0));
    // The port of each LID at each device.
    let mut tables = vec![vec![None; last + 1]; fabric.devices().len()];
    for (id, device) in fabric.iter().filter(|(_, device)| is_switch(device)) {
        let lid = usize::from(device.lid.0);
        // Number of links to the switch.
        let mut links = vec![u32::MAX; fabric.devices().len()];
        links[id.0 as usize] = 0;
        let mut queue = VecDeque::from([id]);
        let switch_at = |(guid, port)| {
            let other: Option<DeviceId> = fabric.find(guid, port);
            other.filter(|other| is_switch(fabric.device(*other)))
        };
        while let Some(at) = queue.pop_front() {
            for (_, peer) in fabric.device(at).linked() {
                let Some(next) = switch_at((peer.guid, peer.port)) else {
                    continue;
                };
                if links[next.0 as usize] == u32::MAX {
                    links[next.0 as usize] = links[at.0 as usize] + 1;
                    queue.push_back(next);
                }
            }
        }
        let beside = device.linked();
        let hosts: Vec<_> = beside
            .filter(|(_, peer)| peer.kind != NodeKind::Switch)
            .collect();
        for (at, other) in fabric.iter().filter(|(_, other)| is_switch(other)) {
            let here = links[at.0 as usize];
            let leads = |guid, port| {
                let next = switch_at((guid, port));
                next.is_some_and(|next| links[next.0 as usize].saturating_add(1) == here)
            };
            let ways = other
                .linked()
                .filter(|(_, peer)| leads(peer.guid, peer.port));
            let ways: Vec<u8> = ways.map(|(port, _)| port.num.0).collect();
            let table = &mut tables[at.0 as usize];
            table[lid] = if here == 0 {
                Some(0)
            } else {
                ways.get(lid % ways.len().max(1)).copied()
            };
            for (port, host) in &hosts {
                let lid = usize::from(host.lid.0);
                table[lid] = if here == 0 {
                    Some(port.num.0)
                } else {
                    ways.get(lid % ways.len().max(1)).copied()
                };
            }
        }
    }
    let mut text = BufWriter::new(io::stdout().lock());
    for (id, device) in fabric.iter().filter(|(_, device)| is_switch(device)) {
        writeln!(text, "dump_ucast_routes: Switch {}", device.guid)?;
        writeln!(text, "LID    : Port : Hops : Optimal")?;
        for (lid, port) in tables[id.0 as usize].iter().enumerate().skip(1) {
            match port {
                Some(port) => writeln!(text, "0x{lid:04X} : {port:03}  : 00   : yes")?,
                None => writeln!(text, "0x{lid:04X} : UNREACHABLE")?,
            }
        }
    }
    Ok(text.flush()?)
}
