//! Updates the parts of documents that are made from the code.
//!
//!     cargo run --no-default-features --example records

use std::path::Path;

use ibnet_record::tables;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for document in tables::DOCUMENTS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
        let updated = tables::update(&std::fs::read_to_string(&path)?)
            .ok_or_else(|| format!("cannot update {document}: it lacks a mark"))?;
        std::fs::write(path, updated)?;
    }
    Ok(())
}
