//! Prints the tables of all counters, or updates them in a document that has the marks for them.
//!
//!     cargo run --no-default-features --example counters -- docs/records.md

use ibnet::mad::pma::tables;

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(path) = std::env::args_os().nth(1) else {
        print!("{}", tables::markdown());
        return Ok(());
    };
    let document = std::fs::read_to_string(&path)?;
    let updated = tables::update(&document).ok_or("cannot update the tables: the document has no marks for them")?;
    std::fs::write(&path, updated)?;
    Ok(())
}
