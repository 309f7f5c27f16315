//! Prints a generated fabric, like `ibnetdiscover -p` or as a net file for ibsim.
//!
//!     cargo run --no-default-features --example make_fabric > examples/stria.p
//!     cargo run --no-default-features --example make_fabric -- --ibsim > stria.net

use std::io::{self, Write};

use ibnet::topology::synthetic;

fn main() -> io::Result<()> {
    let fabric = synthetic::stria();
    let text = if std::env::args().any(|arg| arg == "--ibsim") { fabric.ibsim_net() } else { fabric.ports_report() };
    io::stdout().lock().write_all(text.as_bytes())
}
