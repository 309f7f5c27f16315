//! The copy of a plan on a disk, which a sampler uses if the server is unreachable at its start.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes the copy in one step. Does nothing if the copy has these bytes already.
///
/// # Errors
/// Returns the error of the operating system. An older copy is then unchanged.
pub fn write(path: &Path, octets: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == octets) {
        return Ok(());
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(octets)?;
    file.as_file().sync_data()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_is_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plan.toml");
        for text in ["one", "two", "two"] {
            write(&path, text.as_bytes()).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
        assert!(write(&folder.path().join("none/plan.toml"), b"x").is_err());
    }
}
