//! Prints a generated fabric, like `ibnetdiscover -p` or as a net file for ibsim.
//!
//!     cargo run --no-default-features --example make_fabric > examples/stria.p
//!     cargo run --no-default-features --example make_fabric -- --ibsim > stria.net
//!     cargo run --no-default-features --example make_fabric -- torus > torus.p
//!
//! The shapes are `stria` (default, two tiers, 968 linked ports), `tiers` (a fat tree of three
//! tiers, 4,992 linked ports), `torus` (three dimensions), `dragonfly` (Dragonfly+), `large`
//! (39,936 linked ports) and `huge` (20,480 hosts, 122,880 linked ports).

use std::io::{self, Write};

use ibnet::topology::shapes::{Dragonfly, Grid, ThreeTiers};
use ibnet::topology::synthetic;

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is_ibsim = args.iter().any(|arg| arg == "--ibsim");
    let fabric = match args
        .iter()
        .find(|arg| *arg != "--ibsim")
        .map_or("stria", String::as_str)
    {
        "stria" => synthetic::stria(),
        "tiers" => ThreeTiers {
            radix: 16,
            pods: 13,
        }
        .blueprint(),
        "torus" => Grid {
            sizes: vec![4, 4, 4],
            wrapped: true,
            hosts: 4,
        }
        .blueprint(),
        "dragonfly" => Dragonfly {
            groups: 6,
            leaves: 6,
            spines: 6,
            hosts: 8,
        }
        .blueprint(),
        "large" => synthetic::large(),
        "huge" => ThreeTiers {
            radix: 64,
            pods: 20,
        }
        .blueprint(),
        other => {
            let message = format!(
                "cannot make the fabric `{other}`: the shapes are stria, tiers, torus, dragonfly, large and huge"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
    };
    let text = if is_ibsim {
        fabric.ibsim_net()
    } else {
        fabric.ports_report()
    };
    io::stdout().lock().write_all(text.as_bytes())
}
