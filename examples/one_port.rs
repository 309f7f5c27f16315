//! Reads one port's counters through the library: on InfiniBand, or on a simulated fabric.
//!
//!     cargo run --example one_port -- 4 1
//!     cargo run --no-default-features --example one_port -- 4 1 examples/stria.p

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::bail;
use ibnet::mad::exchange::{Completion, Outcome, Target};
use ibnet::mad::pma::{self, Group};
use ibnet::mad::query::Query;
use ibnet::mad::transport::Transport;
use ibnet::mad::transport::sim::{Options, SimFabric, SimTransport};
use ibnet::mad::{MAD_LEN, Mad};
use ibnet::time::Instant;
use ibnet::topology::net_file;
use ibnet::types::{Lid, PortNum, Tid};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (lid, port) = match &args[..] {
        [lid, port, ..] => (Lid(lid.parse()?), PortNum(port.parse()?)),
        _ => bail!("usage: one_port LID PORT [NETFILE]"),
    };
    match args.get(2) {
        Some(net) => {
            let sim = SimFabric::new(net_file::read(net.as_ref())?.fabric, Options::default());
            show(&mut SimTransport::new(Arc::new(Mutex::new(sim))), lid, port)
        }
        #[cfg(feature = "umad")]
        None => {
            use ibnet::mad::transport::umad::{UmadTransport, ports};
            show(&mut UmadTransport::open(&ports::find(&ibnet::types::HcaName::default())?)?, lid, port)
        }
        #[cfg(not(feature = "umad"))]
        None => bail!("built without InfiniBand: give a net file"),
    }
}

/// Asks for PortCountersExtended and prints each counter. A port that was just simulated has counted nothing yet, so it is asked at its 10th second.
#[expect(clippy::print_stdout, reason = "that is what an example is for")]
fn show(transport: &mut impl Transport, lid: Lid, port: PortNum) -> anyhow::Result<()> {
    let attribute = Group::Extended.attribute();
    let query = Query::Pma(pma::Query { attribute: attribute.id, port: Some(port) });
    let (tid, now) = (Tid(1), Instant::ZERO + Duration::from_secs(10));
    let mut mad: Mad = [0; MAD_LEN];
    query.emit(tid, &mut mad);
    transport.send(&Target::general(lid, 0, 0, Duration::from_millis(50)), &mad, now)?;
    // The only MAD of its TID that is on its way; anything else would be a stranger's.
    let answer = transport.recv(&mut mad, Duration::from_millis(100), now)?;
    let Some(Completion { tid: of, outcome: Outcome::Reply { slid, len } }) = answer else {
        bail!("LID {lid} does not answer");
    };
    if (of, slid) != (tid, lid) {
        bail!("a reply came, but not to this question");
    }
    query.check(&mad, len)?;
    let data = pma::data(&mad);
    println!("{} of LID {lid} port {port}", attribute.name);
    for field in attribute.counters() {
        println!("{:.<44}{}", field.json, field.value(field.raw(data, 0)));
    }
    Ok(())
}
