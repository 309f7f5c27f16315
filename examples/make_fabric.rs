//! Prints the Stria-like fabric of `examples/stria.p`, as `ibnetdiscover -p` would.
//!
//!     cargo run --no-default-features --example make_fabric > examples/stria.p

use std::io::{self, Write};

use ibnet::topology::synthetic;

fn main() -> io::Result<()> {
    io::stdout().lock().write_all(synthetic::stria().ports_report().as_bytes())
}
