//! Prints the tables of all counters, or makes them anew in a document that has a place for them.
//!
//!     cargo run --no-default-features --example counters -- docs/records.md

use ibnet::mad::pma::tables;

#[expect(clippy::print_stdout, reason = "that is what an example is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(path) = std::env::args_os().nth(1) else {
        print!("{}", tables::markdown());
        return Ok(());
    };
    let document = std::fs::read_to_string(&path)?;
    let renewed = tables::update(&document).ok_or("the document has no place for the tables")?;
    std::fs::write(&path, renewed)?;
    Ok(())
}
