//! Prints the forwarding tables of the simulated fabric of a net file, in the form of `dump_fts`.
//!
//!     cargo run -p ibnet-analysis --example forwarding_tables -- examples/stria.p > routes.txt
//!     ibnet-view job lines/*.jsonl --slurm 4711 --slurm-file jobs.csv --routes routes.txt

use ibnet::mad::transport::sim::traffic::Traffic;
use ibnet::topology::net_file;

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "examples/stria.p".to_owned());
    let fabric = net_file::parse(&std::fs::read(&path)?, &path)?.fabric;
    print!("{}", Traffic::forwarding_tables(&fabric));
    Ok(())
}
