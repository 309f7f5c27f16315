//! Reads the counters of one port with the library, on InfiniBand or on a simulated fabric.
//!
//!     cargo run --example one_port -- 4 1
//!     cargo run --no-default-features --example one_port -- 4 1 examples/stria.p

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::bail;
use ibnet::mad::exchange::{Completion, Outcome, Target};
use ibnet::mad::pma;
use ibnet::mad::pma::Bits;
use ibnet::mad::query::Query;
use ibnet::mad::transport::Transport;
use ibnet::mad::transport::sim::{Options, SimFabric, SimTransport};
use ibnet::mad::{MAD_LEN, Mad};
use ibnet::time::Instant;
use ibnet::topology::net_file;
use ibnet_record::attributes::Group;
use ibnet_record::types::{Lid, PortNum, Tid};

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
            show(
                &mut UmadTransport::open(&ports::find(&ibnet_record::types::HcaName::default())?)?,
                lid,
                port,
            )
        }
        #[cfg(not(feature = "umad"))]
        None => bail!("built without InfiniBand: give a net file"),
    }
}

/// Queries PortCountersExtended and prints each counter. The query is at the 10th second, because a
/// simulated port has counted nothing before.
#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn show(transport: &mut impl Transport, lid: Lid, port: PortNum) -> anyhow::Result<()> {
    let attribute = Group::Extended.attribute();
    let query = Query::Pma(pma::Query {
        attribute: attribute.id,
        port: Some(port),
    });
    let (tid, now) = (Tid(1), Instant::ZERO + Duration::from_secs(10));
    let mut mad: Mad = [0; MAD_LEN];
    query.emit(tid, &mut mad);
    transport.send(
        &Target::general(lid, 0, 0, Duration::from_millis(50)),
        &mad,
        now,
    )?;
    // This program sends one MAD only, so any other reply is foreign.
    let completion = transport.recv(&mut mad, Duration::from_millis(100), now)?;
    let Some(Completion {
        tid: of,
        outcome: Outcome::Reply { slid, len },
    }) = completion
    else {
        bail!("LID {lid} does not answer");
    };
    if (of, slid) != (tid, lid) {
        bail!("received a reply to another request");
    }
    query.check(&mad, len)?;
    let data = pma::data(&mad);
    println!("{} of LID {lid} port {port}", attribute.name);
    for field in attribute.counters() {
        println!("{:.<44}{}", field.json, field.value(field.raw(data, 0)));
    }
    Ok(())
}
