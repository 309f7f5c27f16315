//! Updates the tables of `docs/records.md` that are made from the code.
//!
//!     cargo run --no-default-features --example records -- docs/records.md

use ibnet::record::tables;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or("name the document: docs/records.md")?;
    let document = std::fs::read_to_string(&path)?;
    let updated = tables::update(&document)
        .ok_or("cannot update the tables: the document has no marks for them")?;
    std::fs::write(&path, updated)?;
    Ok(())
}
